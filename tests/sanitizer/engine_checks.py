"""Running kernels under the race detector, and finding faults by the comment at their line.

A test kernel marks the line of its fault with a comment::

    value = tile[31 - tidx]  # FAULT: nobody waited

and asks ``check(fn, *args)`` for the report of the first of several seeds that finds something;
``found(report, kind)`` says whether a finding of that kind names a marked line.
"""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np

from tilewright import cute
from tilewright.sim.findings import Finding
from tilewright.sim.machine import Report
from tilewright.sim.options import SimOptions

SEEDS = 20
MARK = "# FAULT"


def check(fn: Any, *args: Any, seeds: int = SEEDS, **options: Any) -> Report:
    """The report of the first seed with findings, else of the last.  Arrays are copied first,
    but for views of others."""
    mine = [a.copy() if isinstance(a, np.ndarray) and a.flags.c_contiguous else a for a in args]
    chosen = SimOptions(check_races=True, runs=seeds, raise_on_findings=False, **options)
    return cute.compile(fn, *mine).simulate(*mine, options=chosen)


def marked(finding: Finding) -> bool:
    """Whether one of the places that the finding names carries the mark."""
    places = [finding.loc, *(access.loc for access in finding.accesses)]
    return any(
        MARK in linecache.getline(at.file, at.line)
        for place in places
        if place is not None
        for at in place.chain()
    )


def found(report: Report, kind: str) -> bool:
    return any(f.kind == kind and marked(f) for f in report.findings)


def expect(fn: Any, args: tuple[Any, ...], bug: str, kind: str, **options: Any) -> None:
    """The fault is found at its line with every seed, its twin is clean with all of them.

    `fn` takes the bug's name, or "" for the corrected twin, as its last argument.
    """
    clean = check(fn, *args, "", **options)
    assert not clean.findings, "\n".join(map(str, clean.findings))
    assert clean.runs == SEEDS
    for seed in range(SEEDS):
        report = check(fn, *args, bug, seeds=1, seed=seed, **options)
        assert found(report, kind), f"seed {seed}: {list(map(str, report.findings))}"
