"""Checking launches one after another: options, refusals, suppressions, and a record of each."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

from tilewright.compiler.launcher import launching_with
from tilewright.errors import Loc, ResourceError, TilewrightError
from tilewright.ir.core import Func
from tilewright.profiler.suppressions import Suppression, split
from tilewright.sim.findings import Finding, is_ours, simulation_error
from tilewright.sim.machine import Launch, Report, simulate
from tilewright.sim.memory import GlobalMemory
from tilewright.sim.options import SimOptions

Dim3 = tuple[int, int, int]
PATIENCE = 5.0
"""Seconds after which the first estimate of a run's length is made."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How launches are checked.

    `limit`: seconds that one launch may take, by estimate; `grid` replaces the grid of every
    launch, `ctas` bounds its number of blocks.
    """

    options: SimOptions = SimOptions(check_races=True, raise_on_findings=False)  # noqa: RUF009
    limit: float = 300.0
    grid: Dim3 | None = None
    ctas: int | None = None
    allow: tuple[Suppression, ...] = ()
    raises: bool = False
    """Raise SimulationError at the launch, as a plain simulation does."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One launch and what became of it."""

    kernel: str
    grid: Dim3
    block: Dim3
    cluster: Dim3
    loc: Loc | None
    seconds: float
    report: Report | None
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[tuple[Finding, str], ...] = ()
    refused: TilewrightError | None = None
    whole_grid: Dim3 = (0, 0, 0)
    """The grid that was asked for, where another one was run."""
    launched: Loc | None = None
    """The user's line that launched it, and its callers in the same file."""
    func: Func | None = None
    """The kernel, and the SM that it was launched for."""
    sm: int = 90

    @property
    def passed(self) -> bool:
        return not self.findings and self.refused is None


@dataclass(slots=True)
class Checker:
    """Runs launches by a policy and keeps a record of each."""

    policy: Policy
    launches: list[Checked] = field(default_factory=list)
    kept: list[tuple[Launch, GlobalMemory, list[Any]]] = field(default_factory=list)
    """With `keep`: the launches and the memory before them, to run them again."""
    keep: int = 0

    def run(self, launch: Launch, memory: GlobalMemory, asked: SimOptions | None) -> Report:
        """Checks one launch.  `asked`: the options of the caller, whose taste in raising counts.

        Raises: SimulationError where the policy raises; ResourceError for a launch that would
                take too long.
        """
        policy = self.policy
        small = replace(launch, grid=shrunk(launch, policy.grid, policy.ctas))
        if len(self.kept) < self.keep:
            self.kept.append((small, memory, memory.contents()))
        options = _merged(policy.options, asked)
        start = time.perf_counter()
        made = _record(small, launch)
        try:
            report = simulate(
                small, memory, options, watchers=[Patience(small, policy.limit, options)]
            )
        except ResourceError as error:
            self.launches.append(replace(made, seconds=time.perf_counter() - start, refused=error))
            raise
        findings, suppressed = split(report.findings, policy.allow)
        self.launches.append(
            replace(
                made,
                seconds=time.perf_counter() - start,
                report=report,
                findings=findings,
                suppressed=suppressed,
            )
        )
        raises = policy.raises and (asked is None or asked.raise_on_findings)
        if findings and raises:
            raise simulation_error(launch.kernel.name, findings, report.options.describe())
        return replace(report, findings=findings)


@contextmanager
def checking(checker: Checker) -> Iterator[Checker]:
    """Every simulated launch inside goes through `checker`."""
    with launching_with(checker.run):
        yield checker


def _merged(options: SimOptions, asked: SimOptions | None) -> SimOptions:
    """The policy's checks; limits and seeds that a caller chose stay."""
    if asked is None:
        return replace(options, raise_on_findings=False)
    return replace(
        asked,
        raise_on_findings=False,
        check_races=options.check_races or asked.check_races,
        check_global=options.check_global or asked.check_global,
        measure_costs=options.measure_costs or asked.measure_costs,
        runs=max(options.runs, asked.runs),
        explore=max(options.explore, asked.explore),
        seed=options.seed or asked.seed,
    )


def _record(small: Launch, launch: Launch) -> Checked:
    return Checked(
        launch.kernel.name,
        small.grid,
        launch.block,
        launch.cluster,
        launch.kernel.loc,
        0.0,
        None,
        whole_grid=launch.grid if launch.grid != small.grid else (0, 0, 0),
        launched=_launch_site(),
        func=launch.kernel,
        sm=launch.sm,
    )


def _launch_site() -> Loc | None:
    """The innermost frames outside of the package, as long as they are of one file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(Loc(frame.f_code.co_filename, 0)):
        frame = frame.f_back
    places: list[Loc] = []
    while frame is not None and (not places or frame.f_code.co_filename == places[0].file):
        code = frame.f_code
        places.append(Loc(code.co_filename, frame.f_lineno, function=code.co_name))
        frame = frame.f_back
    site = None
    for place in reversed(places):
        site = replace(place, caller=site)
    return site


def shrunk(launch: Launch, grid: Dim3 | None, ctas: int | None) -> Dim3:
    """The grid to run: `grid` if given, of at most `ctas` blocks, in whole clusters.

    Raises: ResourceError for a grid that is not one of whole clusters.
    """
    chosen = grid or launch.grid
    for axis, g, c in zip("xyz", chosen, launch.cluster, strict=True):
        if g < 1 or g % c:
            raise ResourceError(
                f"check {launch.kernel.name}: grid {chosen} is not a multiple of cluster "
                f"{launch.cluster} in {axis}",
                hint="choose --grid in whole clusters",
            )
    if ctas is None:
        return chosen
    left = ctas
    made = []
    for g, c in zip(chosen, launch.cluster, strict=True):
        take = max(min(g, left) // c * c, c)
        made.append(take)
        left = max(left // take, 1)
    return made[0], made[1], made[2]


class Patience:
    """A watcher that gives a run up when it would take longer than its limit.

    Progress is the number of blocks that have been seen at work; blocks run one after another.
    """

    def __init__(self, launch: Launch, limit: float, options: SimOptions) -> None:
        self._launch = launch
        self._limit = limit
        self._runs = max(options.runs, options.explore, 1)
        self._start = time.perf_counter()
        self._next = self._start + min(PATIENCE, limit)
        self._begun = 0
        self._run: Any = None
        self._blocks: set[Any] = set()
        """Those that the current run has reached."""
        self._last: Any = None

    def access(self, g: Any, *what: Any) -> None:
        """Called by the simulator for each access."""
        del what
        self._look(g.cta)

    def sync(self, g: Any, kind: str, what: object, op: Any) -> None:
        """Called by the simulator for each synchronisation."""
        del kind, what, op
        self._look(g.cta)

    def _look(self, cta: Any) -> None:
        if cta is not self._last:
            if cta.run is not self._run:
                self._run = cta.run
                self._begun += 1
                self._blocks.clear()
            self._last = cta
            self._blocks.add(cta.index)
        now = time.perf_counter()
        if now < self._next:
            return
        self._next = now + 1.0
        x, y, z = self._launch.grid
        spent = now - self._start
        share = max(len(self._blocks), 1) / (x * y * z)
        estimate = spent * self._runs / (max(self._begun, 1) - 1 + share)
        if max(estimate, spent) > self._limit:
            self._refuse(max(estimate, spent), len(self._blocks), x * y * z)

    def _refuse(self, estimate: float, seen: int, blocks: int) -> None:
        name = self._launch.kernel.name
        times = f", {self._runs} runs" if self._runs > 1 else ""
        raise ResourceError(
            f"check {name}: {blocks:,} block{'s' if blocks > 1 else ''} of {self._launch.block} "
            f"threads{times} would take about {duration(estimate)} (after {seen} of {blocks:,}), "
            f"the limit is {duration(self._limit)}",
            hint="check fewer blocks with --ctas or a smaller problem with --grid, or raise "
            "--limit",
        )


def duration(seconds: float) -> str:
    """
    >>> duration(0.5), duration(90), duration(7200)
    ('0.50 s', '1.5 min', '2.0 h')
    """
    if seconds < 60:
        return f"{seconds:.2f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
