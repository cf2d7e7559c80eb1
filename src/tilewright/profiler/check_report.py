"""Checked launches as text, in the manner of pytest, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.errors import Loc
from tilewright.profiler.checker import Checked, duration
from tilewright.sim.findings import AccessInfo, Finding, is_ours, place_lines
from tilewright.sim.options import SimOptions

WIDTH = 78
_NOTHING: tuple[int, int, int] = (0, 0, 0)


def as_text(launches: Sequence[Checked], again: str = "") -> str:
    """One line per launch, then each finding with its source, then the sums.

    `again`: the command line that checks the same file.
    """
    lines = [launch_line(one) for one in launches]
    failed = [one for one in launches if not one.passed]
    if any(one.findings for one in failed):
        lines += ["", _rule(" findings ", "=")]
    said: set[str] = set()
    for one in failed:
        lines += _details(one, again, said)
    allowed = [pair for one in launches for pair in one.suppressed]
    if allowed:
        lines += ["", _rule(" suppressed ", "=")]
        lines += [f"{f.kind} at {f.loc or 'no line'}: {reason}" for f, reason in allowed]
    return "\n".join([*lines, "", _rule(f" {sums(launches)} ", "=")])


def launch_line(one: Checked) -> str:
    """`name  grid 4x1x1  block 128  PASSED`."""
    shape = f"grid {_extents(one.grid)}  block {_extents(one.block)}"
    if one.cluster != (1, 1, 1):
        shape += f"  cluster {_extents(one.cluster)}"
    if one.whole_grid != _NOTHING:
        shape += f"  (of {_extents(one.whole_grid)})"
    verdict = "PASSED"
    if one.refused is not None:
        verdict = "REFUSED"
    elif one.findings:
        kinds = Counter(f.kind for f in one.findings)
        verdict = "FAILED: " + ", ".join(f"{n} {k}" if n > 1 else k for k, n in kinds.items())
    where = f"{one.loc}  " if one.loc else ""
    head = f"{where}{one.kernel}  {shape} "
    return f"{head:.<{max(WIDTH - 22, len(head) + 3)}} {verdict}  {duration(one.seconds)}"


def sums(launches: Sequence[Checked]) -> str:
    """`1 failed, 2 passed in 0.31 s`."""
    failed = sum(bool(one.findings) for one in launches)
    refused = sum(one.refused is not None for one in launches)
    passed = len(launches) - failed - refused
    suppressed = sum(len(one.suppressed) for one in launches)
    counts = [(failed, "failed"), (refused, "refused"), (passed, "passed")]
    parts = [f"{n} {word}" for n, word in counts if n] or ["no launches"]
    if suppressed:
        parts.append(f"{suppressed} finding{'s' if suppressed > 1 else ''} suppressed")
    return ", ".join(parts) + f" in {duration(sum(one.seconds for one in launches))}"


def _details(one: Checked, again: str, said: set[str]) -> Iterator[str]:
    """What is to say of a launch that did not pass; what was `said` already is not repeated."""
    if one.refused is not None:
        yield f"refused: {one.refused}"
        return
    news = [f for f in one.findings if f"{one.kernel} {finding_text(f)}" not in said]
    if not news:
        return
    for finding in news:
        said.add(f"{one.kernel} {finding_text(finding)}")
        yield _rule(f" {one.kernel}: {finding.kind} ", "_")
        yield finding_text(finding)
        if finding.loc is not None and all(map(is_ours, finding.loc.chain())):
            yield "  in a kernel of the library, launched by"
            yield from place_lines(one.launched, full_place)
    options = one.report.options if one.report is not None else SimOptions()
    if again and options.schedule is None:
        yield f"  reproduce: {again} --seed={options.seed}"
    yield f"  reproduce in Python: options={options.describe()}"


def finding_text(finding: Finding) -> str:
    """The finding, with whole paths."""
    return finding.text(full_place)


def full_place(place: Loc) -> str:
    return f"{place.file}:{place.line}:{place.col + 1}"


def _rule(text: str, mark: str) -> str:
    return f"{text:{mark}^{WIDTH}}"


def _extents(shape: Sequence[int]) -> str:
    """
    >>> _extents((4, 1, 1)), _extents((4, 2, 1))
    ('4', '4x2')
    """
    kept = list(shape)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(map(str, kept))


# -- JSON ------------------------------------------------------------------------------------------


def as_record(launches: Sequence[Checked]) -> dict[str, Any]:
    """Everything that the text says, as plain values."""
    return {
        "passed": all(one.passed for one in launches),
        "launches": [launch_record(one) for one in launches],
    }


def launch_record(one: Checked) -> dict[str, Any]:
    report = one.report
    options = report.options if report is not None else SimOptions()
    return {
        "kernel": one.kernel,
        "grid": list(one.grid),
        "whole_grid": list(one.whole_grid if one.whole_grid != _NOTHING else one.grid),
        "block": list(one.block),
        "cluster": list(one.cluster),
        "loc": loc_record(one.loc),
        "launched": loc_record(one.launched),
        "seconds": one.seconds,
        "passed": one.passed,
        "refused": str(one.refused) if one.refused is not None else None,
        "runs": report.runs if report is not None else 0,
        "complete": report.complete if report is not None else False,
        "seed": options.seed,
        "schedule": list(options.schedule) if options.schedule is not None else None,
        "counters": dict(report.counters) if report is not None else {},
        "findings": [finding_record(f) for f in one.findings],
        "suppressed": [{**finding_record(f), "reason": why} for f, why in one.suppressed],
    }


def finding_record(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "message": finding.message,
        "agent": finding.agent,
        "rule": finding.rule,
        "count": finding.count,
        "details": {name: str(value) for name, value in finding.details.items()},
        "loc": loc_record(finding.loc),
        "accesses": [_access_record(a) for a in finding.accesses],
    }


def _access_record(access: AccessInfo) -> dict[str, Any]:
    return {
        "agent": access.agent,
        "kind": access.kind,
        "proxy": access.proxy,
        "op": access.op,
        "loc": loc_record(access.loc),
    }


def loc_record(loc: Loc | None) -> dict[str, Any] | None:
    """The place, and its callers outwards."""
    if loc is None:
        return None
    first, *callers = [
        {"file": p.file, "line": p.line, "column": p.col + 1, "function": p.function}
        for p in loc.chain()
    ]
    return {**first, "callers": callers}
