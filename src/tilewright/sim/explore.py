"""Many runs of one launch: seed after seed, or schedule after schedule.

An exploration runs one schedule of each class of schedules that differ only in the order of steps
that commute (see `dependence`).  It begins with one, looks for pairs of steps whose order matters
and which nothing orders, and goes back to have each the other way round; steps that were tried at
a point before and commute with all since then are asleep, and are not tried again.  Schedules that
interrupt threads less come first.
Sources: Flanagan and Godefroid, "Dynamic Partial-Order Reduction", POPL 2005; Abdulla et al.,
"Optimal Dynamic Partial Order Reduction", POPL 2014 (source sets and sleep sets).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from tilewright.sim.dependence import Name, Touched, Trace, commute
from tilewright.sim.memory import GlobalMemory
from tilewright.sim.options import SimOptions
from tilewright.sim.schedule import Chooser
from tilewright.sim.values import Array


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


@dataclass(slots=True, eq=False)
class Point:
    """A choice: what could be done next, and what has been."""

    parent: Point | None
    option: int
    """Of the parent: what led here."""
    cost: int
    """Interruptions so far."""
    names: tuple[Name, ...]
    price: tuple[int, ...]
    asleep: dict[Name, Touched]
    done: dict[Name, Touched] = field(default_factory=dict)
    """In the order in which they were tried."""
    planned: set[Name] = field(default_factory=set)

    def sleeping(self, name: Name, touched: Touched) -> dict[Name, Touched]:
        """What is asleep behind one of its options: what was tried before it, and commutes."""
        tried = {}
        for other, what in self.done.items():
            if other == name:
                break
            tried[other] = what
        return {n: t for n, t in (self.asleep | tried).items() if commute(t, touched)}


Branch = tuple[int, int, Point, int]
"""Interruptions, a number that orders branches with as many, a point, and one of its options."""


class Frontier:
    """The branches to be explored: few interruptions first, then the newest."""

    def __init__(self) -> None:
        self._heap: list[Branch] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def plan(self, point: Point, option: int) -> None:
        point.planned.add(point.names[option])
        self._count += 1
        cost = point.cost + point.price[option]
        heapq.heappush(self._heap, (cost, -self._count, point, option))

    def pop(self) -> list[tuple[Point, int]]:
        """The choices that lead to the next branch, and into it."""
        _, _, point, option = heapq.heappop(self._heap)
        path = [(point, option)]
        while point.parent is not None:
            point, option = point.parent, point.option
            path.append((point, option))
        return path[::-1]


class Explorer(Chooser):
    """The choices of one run of an exploration: along `path`, then whatever is not asleep."""

    def __init__(self, path: Sequence[tuple[Point, int]], frontier: Frontier) -> None:
        super().__init__()
        self._path = path
        self._frontier = frontier
        self._asleep: dict[Name, Touched] = {}
        self._at: Point | None = None
        self._last: tuple[Point | None, int, int] = (None, 0, 0)
        self._name: Name = ()
        self.trace = self.watcher = Trace()
        self.cut = False
        """All that could be done was asleep: the rest of the schedule is known from another."""

    def choose(self, groups: Sequence[Any], pending: Sequence[Any], price: Sequence[int]) -> int:
        at = len(self.made)
        if at < len(self._path):
            point, chosen = self._path[at]
        else:
            names = (*(self.trace.name(g) for g in groups), *(p.name for p in pending))
            awake = [i for i, name in enumerate(names) if name not in self._asleep]
            if not awake:
                self.cut = True
                return -1
            chosen = awake[0]
            point = Point(*self._last, names, tuple(price), dict(self._asleep))
            point.planned.add(names[chosen])
        self.made.append(chosen)
        self._at = point
        self._last = (point, chosen, point.cost + point.price[chosen])
        return chosen

    def begin_group(self, g: Any) -> None:
        self._name = self.trace.name(g)
        self.trace.begin(g.cta.cluster)

    def begin_engine(self, pending: Any) -> None:
        self._name = pending.name
        self.trace.begin(pending.cta.cluster)

    def end_group(self, g: Any, threads: Array, *, polled: bool) -> None:
        self.trace.end_group(g, threads, self._name, self._at, polled=polled)
        self._ended()

    def end_engine(self, cluster: Any) -> None:
        self.trace.end_engine(cluster, self._name, self._at)
        self._ended()

    def woken(self, g: Any) -> None:
        self.trace.woken(g)

    def _ended(self) -> None:
        point, self._at = self._at, None
        steps, name = self.trace.steps, self._name
        touched = steps[-1].touched
        if point is None:
            self._asleep = {n: t for n, t in self._asleep.items() if commute(t, touched)}
        else:
            point.done.setdefault(name, touched)
            self._asleep = point.sleeping(name, touched)
        for number in self.trace.races:
            earlier = steps[number].point
            if earlier is not None:
                self._reverse(number, earlier)

    def _reverse(self, number: int, point: Point) -> None:
        """Plans to have the last step before step `number`, which was chosen at `point`."""
        first = [s.name for s in self.trace.before(number, len(self.trace.steps) - 1)]
        if any(name in point.planned or name in point.asleep for name in first):
            return
        options = [i for i, name in enumerate(point.names) if name in first][:1]
        for option in options or range(len(point.names)):
            name = point.names[option]
            if name not in point.planned and name not in point.asleep:
                self._frontier.plan(point, option)


def explore(
    run: Callable[[SimOptions, Chooser], R], memory: GlobalMemory, options: SimOptions
) -> tuple[R, int, bool]:
    """Runs schedules until none is left; (report, schedules, were those all?).

    Ends at the first schedule with findings, or after `options.explore` runs; those that were cut,
    because the rest is known, are not counted as schedules.
    """
    before = memory.contents()
    frontier = Frontier()
    path: list[tuple[Point, int]] = []
    schedules = 0
    whole: R | None = None
    for number in range(options.explore):
        if number:
            memory.restore(before)
        chooser = Explorer(path, frontier)
        report = run(replace(options, schedule=(), explore=0), chooser)
        schedules += not chooser.cut
        if whole is None or not chooser.cut:
            whole = report
        if report.findings:
            return report, schedules, False
        if not frontier:
            return whole, schedules, True
        path = frontier.pop()
    assert whole is not None, "an exploration has at least one run"
    return whole, schedules, False
