"""Running a launch on the simulated machine: what goes in, what comes out.

>>> from tilewright.ir.builder import Builder
>>> from tilewright.ir.core import Block, Func
>>> from tilewright.ir.ops import control
>>> body = Block(); _ = Builder(body).emit(control.Return)
>>> report = simulate(Launch(Func("nothing", body), (2, 1, 1), (64, 1, 1)), GlobalMemory())
>>> report.counters["instructions"], report.findings
(4, ())
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.errors import LaunchError, ResourceError
from tilewright.ir.core import Func
from tilewright.ir.types import PtrType, ScalarType, TensorMapType, Type
from tilewright.sim.build import program_of
from tilewright.sim.costs import Cost, CostMeter
from tilewright.sim.exec_arith import scalar_rounder
from tilewright.sim.explore import explore, sweep
from tilewright.sim.findings import Finding, simulation_error
from tilewright.sim.memory import GlobalMemory
from tilewright.sim.options import SimOptions, default_options, note_report
from tilewright.sim.races.detector import RaceDetector
from tilewright.sim.schedule import Chooser
from tilewright.sim.scheduler import run_grid
from tilewright.sim.state import Dim3, Run
from tilewright.sim.tensormap import TensorMap
from tilewright.sim.values import Val
from tilewright.sim.watch import Watch, Watcher

MAX_THREADS = 1024
SHARED_LIMITS = {80: 163 * 1024, 86: 99 * 1024, 89: 99 * 1024, 90: 227 * 1024, 100: 227 * 1024}
"""Bytes of shared memory that a block may use, by SM."""

__all__ = ["GlobalMemory", "Launch", "Report", "SimOptions", "TensorMap", "simulate"]


@dataclass(frozen=True)
class Launch:
    """One kernel launch.  `grid` counts blocks (not clusters); `args` fit `kernel.args`.

    A pointer argument is a virtual address from `GlobalMemory.map`.
    """

    kernel: Func
    grid: Dim3
    block: Dim3
    cluster: Dim3 = (1, 1, 1)
    smem_bytes: int = 0
    args: tuple[int | float | bool | TensorMap, ...] = ()
    sm: int = 90
    sm_count: int = 132
    pdl: bool = False
    """Launched with `use_pdl`: it may start before the grid in front of it has ended."""


@dataclass(frozen=True)
class Report:
    """What a run did.  `counters`: see `counters.Counters`; `printed`: lines of `printf`."""

    counters: dict[str, int]
    findings: tuple[Finding, ...]
    printed: list[str]
    options: SimOptions = SimOptions()  # noqa: RUF009
    """Those of the run that is reported: of several, the last, with its seed or schedule."""
    runs: int = 1
    """Seeds, or whole schedules, that were run."""
    complete: bool = False
    """An exploration has run every schedule, up to the order of steps that commute."""
    costs: tuple[Cost, ...] = ()
    """With `SimOptions.measure_costs`: the accesses that waste most, first."""


def simulate(
    launch: Launch,
    memory: GlobalMemory,
    options: SimOptions | None = None,
    *,
    watchers: Sequence[Watcher] = (),
    watch: Watch | None = None,
) -> Report:
    """Runs every block of the launch; its stores land in the buffers of `memory`.

    `watchers` are told what happens, and `watch` everything; the race detector takes its place.

    Raises: LaunchError or ResourceError if the launch does not fit the kernel or the machine;
            SimulationError, with `.findings`, after a run with findings (see `SimOptions`).
    """
    options = options or default_options()
    _check(launch)
    replay = Chooser(options.schedule) if options.schedule is not None else None

    def once(chosen: SimOptions, chooser: Chooser | None = replay) -> Report:
        return _run(launch, memory, chosen, chooser, watchers, watch)

    if options.explore:
        report, runs, complete = explore(once, memory, options)
        report = replace(report, runs=runs, complete=complete)
    elif options.runs > 1:
        report = sweep(once, memory, options)
        report = replace(report, runs=report.options.seed - options.seed + 1)
    else:
        report = once(options)
    note_report(report)
    if report.findings and options.raise_on_findings:
        again = report.options.describe() if _is_checked(options) else ""
        raise simulation_error(launch.kernel.name, report.findings, again)
    return report


def _is_checked(options: SimOptions) -> bool:
    return options.check_races or options.seed != 0 or options.runs > 1 or options.explore > 0


def _run(
    launch: Launch,
    memory: GlobalMemory,
    options: SimOptions,
    chooser: Chooser | None,
    watchers: Sequence[Watcher],
    watch: Watch | None,
) -> Report:
    program = program_of(launch.kernel)
    run = Run(
        program,
        memory,
        options,
        launch.grid,
        launch.block,
        launch.cluster,
        max(launch.smem_bytes, launch.kernel.smem_bytes),
        launch.kernel.min_blocks,
    )
    run.chooser, run.watch = chooser, watch
    if options.check_races:
        run.watch = RaceDetector(
            run,
            check_global=options.check_global,
            dependent=launch.kernel if launch.pdl else None,
        )
    meter = CostMeter(program.ops, run.executed) if options.measure_costs else None
    trace = chooser.watcher if chooser is not None else None
    run.watchers = tuple(w for w in (*watchers, run.watch, meter, trace) if w is not None)
    slots = program.template.copy()
    for slot, v, t in zip(program.args, launch.args, program.arg_types, strict=True):
        slots[slot] = _argument(v, t)
    with np.errstate(all="ignore"):
        run_grid(run, slots, launch.sm_count)
    if chooser is not None:
        options = replace(options, schedule=chooser.schedule())
    counters = run.counters.report(run.executed, program.ops)
    if meter is not None:
        counters |= meter.counters()
    costs = meter.costs() if meter is not None else ()
    return Report(counters, run.log.all(), run.printed, options, costs=costs)


def _argument(value: Any, t: Type) -> Val:
    if isinstance(t, ScalarType):
        return scalar_rounder(t.dtype)(value)
    return value if isinstance(t, TensorMapType) else int(value)


def _check(launch: Launch) -> None:
    name = launch.kernel.name
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    if not 1 <= threads <= MAX_THREADS:
        raise LaunchError(
            f"launch {name}: block {launch.block} has {threads} threads, "
            f"expected 1 to {MAX_THREADS}"
        )
    if launch.kernel.max_threads and threads > launch.kernel.max_threads:
        raise LaunchError(
            f"launch {name}: block {launch.block} has {threads} threads, the kernel was made for "
            f"at most {launch.kernel.max_threads}"
        )
    for axis, g, c in zip("xyz", launch.grid, launch.cluster, strict=True):
        if g < 1 or c < 1 or g % c:
            raise LaunchError(
                f"launch {name}: grid {launch.grid} is not a multiple of cluster "
                f"{launch.cluster} in {axis}"
            )
    smem = max(launch.smem_bytes, launch.kernel.smem_bytes)
    limit = SHARED_LIMITS.get(launch.sm, SHARED_LIMITS[90])
    if smem > limit:
        raise ResourceError(
            f"launch {name}: {smem:,} bytes of shared memory, a block on sm_{launch.sm} may use "
            f"{limit:,}",
            hint="use fewer stages or a smaller tile",
        )
    _check_args(launch)


def _check_args(launch: Launch) -> None:
    name, wanted = launch.kernel.name, launch.kernel.args
    if len(launch.args) != len(wanted):
        raise LaunchError(
            f"launch {name}: {len(launch.args)} arguments, the kernel takes {len(wanted)}"
        )
    for i, (v, want) in enumerate(zip(launch.args, wanted, strict=True)):
        t = want.type
        is_map = isinstance(v, TensorMap)
        if is_map != isinstance(t, TensorMapType):
            raise LaunchError(f"launch {name}: argument {i} is {v!r}, expected {t}")
        if isinstance(t, PtrType) and int(v) % t.align:  # type: ignore[arg-type]
            raise LaunchError(
                f"launch {name}: argument {i} is the address {int(v):#x}, "  # type: ignore[arg-type]
                f"expected a multiple of {t.align}"
            )
