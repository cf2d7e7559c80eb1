"""Trying mutants, and counting what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from mutation.known import KNOWN, Known
from mutation.mutants import Mutant, Site, mutants_of
from mutation.rows import ROWS, Row, Trial

SEEDS = 3
"""Orders that are tried, as by `tilewright check`."""
COUNTS = ("rows", "mutants", "found", "equivalent", "unseen")
"""Of a `Tally`."""
Key = tuple[Site, int]
"""A site, and which of its operations."""


@cache
def trial(name: str) -> Trial:
    return Trial(next(row for row in ROWS if row.name == name))


def mutants(row: Row) -> list[tuple[Key, Mutant]]:
    """Of a row's kernels, with their keys."""
    seen: dict[Site, int] = {}
    keyed = []
    for mutant in chain.from_iterable(map(mutants_of, trial(row.name).funcs)):
        number = seen.get(mutant.site, 0)
        seen[mutant.site] = number + 1
        keyed.append(((mutant.site, number), mutant))
    return keyed


def attempt(
    row: Row, wanted: Callable[[Site, int], bool] | None = None
) -> Iterator[tuple[Key, bool]]:
    """Each wanted mutant of a row, and whether the checks object to it; not to the row itself."""
    kernel = trial(row.name)
    checked = False
    for key, mutant in mutants(row):
        if wanted is not None and not wanted(*key):
            continue
        if not checked:
            clean = kernel.findings(SEEDS)
            assert not clean, f"{row.name}: {clean[0]}"
            checked = True
        with mutant.applied():
            found = bool(kernel.findings(SEEDS))
        yield key, found


def known(site: Site, schedule: str) -> Known | None:
    return next((k for k in KNOWN if k.covers(site, schedule)), None)


@dataclass(frozen=True)
class Tally:
    """What has come of the mutants of a schedule: a mutant is found if it is in any row."""

    schedule: str
    rows: int
    mutants: int
    found: int
    equivalent: int
    unseen: int
    """Not equivalent, and not found: listed in `KNOWN` with the reason."""
    new: tuple[str, ...]
    """Not found, and not listed."""
    stale: tuple[str, ...]
    """Listed, and found."""

    @property
    def share(self) -> float:
        """Found, of those that are not equivalent."""
        return self.found / (self.mutants - self.equivalent)


def tally(schedule: str, attempts: list[dict[Key, bool]]) -> Tally:
    """Of the attempts on the rows of a schedule."""
    found: dict[Key, bool] = {}
    for tried in attempts:
        for key, objected in tried.items():
            found[key] = found.get(key, False) or objected
    listed = {key: known(key[0], schedule) for key in found}
    survivors = [key for key, objected in found.items() if not objected]
    entries = [listed[key] for key in survivors]
    new = [f"{site}, operation {n}" for site, n in survivors if listed[site, n] is None]
    stale = sorted({str(key[0]) for key, objected in found.items() if objected and listed[key]})
    return Tally(
        schedule,
        rows=len(attempts),
        mutants=len(found),
        found=len(found) - len(survivors),
        equivalent=sum(entry is not None and entry.equivalent for entry in entries),
        unseen=sum(entry is None or not entry.equivalent for entry in entries),
        new=tuple(new),
        stale=tuple(stale),
    )


HEADER = f"| schedule | {' | '.join(COUNTS)} | share |\n|---{'|---:' * (len(COUNTS) + 1)}|"


def line(record: Mapping[str, Any]) -> str:
    """The line of a stored result in a Markdown table."""
    counts = " | ".join(str(record[name]) for name in COUNTS)
    return f"| {record['schedule']} | {counts} | {record['share']:.1%} |"
