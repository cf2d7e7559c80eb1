"""Many runs of one launch: seed after seed, or schedule after schedule.

Races are found by happens-before, whatever the order of plain accesses; so only the order of
synchronisation has to be explored: groups are interrupted at barriers, atomics and engine
operations, and at most `SimOptions.preemptions` times where they could have gone on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from tilewright.sim.memory import GlobalMemory
from tilewright.sim.options import SimOptions
from tilewright.sim.schedule import Chooser, following


class Outcome(Protocol):
    """What a run gives: `machine.Report`."""

    @property
    def findings(self) -> tuple[object, ...]: ...


R = TypeVar("R", bound=Outcome)


def sweep(run: Callable[[SimOptions], R], memory: GlobalMemory, options: SimOptions) -> R:
    """Runs seeds `seed`, `seed + 1`, ... up to the first with findings; that run's report."""
    before = memory.contents() if options.runs > 1 else []
    for seed in range(options.seed, options.seed + max(options.runs, 1)):
        if seed > options.seed:
            memory.restore(before)
        report = run(replace(options, seed=seed, runs=1))
        if report.findings:
            break
    return report


def explore(
    run: Callable[[SimOptions, Chooser], R], memory: GlobalMemory, options: SimOptions
) -> tuple[R, int, bool]:
    """Runs schedules with 0, 1, ... interruptions; (last report, runs, were those all?).

    Ends at the first schedule with findings, or after `options.explore` runs.
    """
    before = memory.contents()
    runs = 0
    for budget in range(options.preemptions + 1):
        prefix: tuple[int, ...] | None = ()
        while prefix is not None:
            if runs:
                memory.restore(before)
            chooser = Chooser(prefix)
            report = run(replace(options, schedule=prefix, explore=0), chooser)
            runs += 1
            if report.findings or runs >= options.explore:
                return report, runs, False
            prefix = following(chooser.made, budget)
    return report, runs, True
