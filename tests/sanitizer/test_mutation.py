"""Every fence, wait, arrival, barrier and predicate of the library's kernels is needed: the checks
object to each mutant of each of them, but for the few that `mutation.known` lists with reasons.

By default one mutant of each source line, and line that calls it, is tried in the configs of the
first schedule that has the line, until one finds it; and in each schedule one of each operation and
change.  With TILEWRIGHT_MUTATION=full, every mutant is tried in every config, as
benchmarks/mutation.py does.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path

import pytest
from mutation.known import KNOWN
from mutation.mutants import Site, is_protocol
from mutation.rows import ROWS
from mutation.trying import HEADER, Key, attempt, known, line, mutants, tally

from tilewright.ir.core import OPS
from tilewright.library.registry import KERNELS

ROOT = Path(__file__).resolve().parents[2]
FULL = os.environ.get("TILEWRIGHT_MUTATION") == "full"
SHARE = 0.95
SCHEDULES = tuple(dict.fromkeys(row.schedule for row in ROWS))
FIRST_ROWS = tuple(next(row for row in ROWS if row.schedule == s) for s in SCHEDULES)


@cache
def owners() -> dict[object, str]:
    """Of each changed line, the first schedule that has it; of those in the first rows."""
    found: dict[object, str] = {}
    for row in FIRST_ROWS:
        for (site, _), _ in mutants(row):
            found.setdefault(place(site), row.schedule)
    return found


def place(site: Site) -> object:
    """The line and the change, whoever calls it."""
    return site.op, site.change, site.lines[:1]


def called(site: Site) -> object:
    """The line and the change, and the line that calls it."""
    return site.op, site.change, site.lines[:2]


class Choice:
    """The mutants of a schedule that are tried, and which of them are found."""

    def __init__(self, schedule: str) -> None:
        self.schedule = schedule
        self.found: dict[Key, bool] = {}
        self._done: set[object] = set()
        """Lines, with their callers' lines, of which there is nothing more to learn."""
        self._kinds: set[object] = set()
        """Operations and changes that have been found."""

    def wants(self, site: Site, number: int) -> bool:
        if FULL:
            return True
        if number or called(site) in self._done:
            return False
        new = (site.op, site.change) not in self._kinds
        return new or owners().get(place(site), self.schedule) == self.schedule

    def note(self, key: Key, found: bool) -> None:
        self.found[key] = self.found.get(key, False) or found
        if found or known(key[0], self.schedule):
            self._done.add(called(key[0]))
        if found:
            self._kinds.add((key[0].op, key[0].change))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_mutants_are_found(schedule: str) -> None:
    choice = Choice(schedule)
    for row in ROWS:
        if row.schedule == schedule:
            for key, found in attempt(row, choice.wants):
                choice.note(key, found)
    result = tally(schedule, [choice.found])
    print(result)
    new = "\n".join(result.new)
    assert not result.new, f"{len(result.new)} of {result.mutants} mutants were not found:\n{new}"
    assert not result.stale, f"listed as survivors, and found: {result.stale}"
    if FULL:
        assert result.share >= SHARE, f"{result.share:.1%} of the mutants that are wrong were found"


def test_every_known_survivor_exists_and_says_why() -> None:
    missing = list(KNOWN)
    for row in (*FIRST_ROWS, *ROWS):
        if missing:
            sites = [site for (site, _), _ in mutants(row)]
            missing = [k for k in missing if not any(k.covers(x, row.schedule) for x in sites)]
    assert not missing, f"no kernel has {missing}"
    for entry in KNOWN:
        assert len(entry.reason) > 20, f"{entry} needs a reason"


def test_every_kernel_of_the_library_has_rows() -> None:
    assert {row.kernel for row in ROWS} == set(KERNELS)


def test_the_protocol_is_what_only_orders() -> None:
    """Operations that new kernels may use are mutated without being listed anywhere."""
    ordering = {name for name, kind in OPS.items() if is_protocol(kind)}
    ours = {"sync.threads", "mbarrier.arrive_remote", "cluster.wait", "tma.commit", "grid.wait"}
    others = {"mem.alloc_shared", "sync.setmaxnreg", "warp.shuffle", "assert"}
    assert ours <= ordering
    assert not (others | {"grid.launch_dependents"}) & ordering  # without it, others start later


def test_the_documented_table_is_the_stored_result() -> None:
    records = json.loads((ROOT / "benchmarks" / "results" / "mutation.json").read_text())["rows"]
    table = "\n".join([HEADER, *map(line, records)])
    assert table in (ROOT / "docs" / "sanitizer.md").read_text(), f"expected this table:\n{table}"
    assert [r["schedule"] for r in records] == [*SCHEDULES, "all"]
    assert all(r["share"] >= SHARE for r in records)
