"""Who runs next: the groups of a cluster in turn, its engines at seeded moments.

A group runs until it blocks, parks at a join, polls, or ends.  In each round every group that can
run does; then engines finish what is due, and blocked groups are asked whether they may go on.
Only when nothing else is possible, in this order: engines finish early, parked groups go on
without their siblings, timed waits give up.  If that is not possible either, it is a deadlock.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.errors import SimulationError, TilewrightError
from tilewright.sim.ending import leave
from tilewright.sim.exec_control import EXIT, PARK, STOP, Poll
from tilewright.sim.group import SAME, Group, Join
from tilewright.sim.schedule import Chooser
from tilewright.sim.state import Cluster, Cta, Dim3, Pending, Run, Wait
from tilewright.sim.values import Val


class Crew:
    """The groups of one cluster."""

    def __init__(self, cluster: Cluster, slots: list[Val]) -> None:
        self.cluster = cluster
        self.run = cluster.run
        self.ready: deque[Group] = deque(
            Group(cta, np.arange(lo, hi), 0, slots.copy(), None)
            for cta in cluster.ctas
            for lo, hi in _units(cta, self.run)
        )
        self.current: Group | None = None
        """Of an exploration: who ran last."""
        self.blocked: list[Group] = []
        self.joins: list[Join] = []
        """Joins at which someone is parked."""
        if self.run.watch is not None:
            self.run.watch.start(cluster)
        self.idle = 0
        """Rounds in a row in which the groups only polled, and saw nothing new."""
        self.polling = 0
        """Rounds in a row in which the groups only polled, writing or not."""

    @property
    def done(self) -> bool:
        return not (self.ready or self.blocked or self.joins)

    def round(self) -> bool:
        """Lets everyone have a turn; whether anything happened besides polling."""
        if self.run.chooser is not None:
            return self._chosen_step(self.run.chooser)
        worked = False
        how = self.run.strategy
        if how.groups != "first":
            order = how.arrange(len(self.ready), how.groups, self.run.random)
            self.ready = deque(self.ready[i] for i in order)
        self.polling += 1
        for _ in range(len(self.ready)):
            worked |= self._turn(self.ready.popleft())
            if self.run.stopped:
                return True
        if self._engines() | self._wake():
            worked, self.polling = True, 0
        if not worked:
            worked = self._engines(forced=True) or self._release_parked() or self._time_out()
        if worked or not self.done:
            self.idle = 0 if worked else self.idle + 1
        return worked

    def _chosen_step(self, chooser: Chooser) -> bool:
        """One step of an exploration: a group up to its next synchronisation, or an engine."""
        woken = self._wake()
        free = next((g for g in self.ready if self._is_free(g)), None)
        if free is not None:
            return self._chosen_turn(chooser, free)
        current = self.current if self.current in self.ready else None
        groups = [g for g in self.ready if g is not current]
        if current is not None:
            groups.insert(0, current)
        pending = self.cluster.pending
        if not groups and not pending:
            return woken or self._release_parked() or self._time_out()
        if pending and self.polling > len(groups):
            groups = []  # all of them wait for an engine, or for others
        # To interrupt threads costs, and so does an engine that is faster than all of them.
        price = [int(current is not None and g is not current) for g in groups]
        price += [int(bool(groups))] * len(pending)
        chosen = chooser.choose(groups, pending, price)
        if chosen < 0:
            self.run.stopped = True
            return True
        if chosen < len(groups):
            self.current = groups[chosen]
            return self._chosen_turn(chooser, groups[chosen])
        engine = pending.pop(chosen - len(groups))
        chooser.begin_engine(engine)
        engine.finish()
        chooser.end_engine(self.cluster)
        self.polling = 0
        return True

    def _is_free(self, g: Group) -> bool:
        """Whether the group is between two synchronisations: nobody cares when it goes on."""
        return g.polled is None and not self.run.program.visible[g.pc]

    def _chosen_turn(self, chooser: Chooser, g: Group) -> bool:
        threads, rounds = g.threads, self.polling
        self.ready.remove(g)
        self.polling += 1
        chooser.begin_group(g)
        worked = self._turn(g)
        chooser.end_group(g, threads, polled=self.polling > rounds)
        self.idle = 0 if worked else self.idle + 1
        return worked

    def stuck(self) -> bool:
        """Nothing can ever run again: everyone waits for somebody of the same cluster."""
        return not self.ready and not self.done

    # -- one group ----------------------------------------------------------------------------

    def _turn(self, g: Group) -> bool:
        """Runs `g` until it stops; False if it only polled."""
        while True:
            signal = execute(self.run, g)
            if type(signal) is Poll:
                g.pc = signal.pc
                self.current = None
                self.ready.append(g)
                return not signal.idle(g)
            self.polling = 0
            if signal is PAUSE:
                self.polling = 0
                self.ready.append(g)
                return True
            if isinstance(signal, Wait):
                if signal.ready():
                    signal.finish(g, timed_out=False)
                    continue
                g.wait = signal
                self.blocked.append(g)
                return not signal.timed
            if type(signal) is list:
                self.ready.extendleft(reversed(signal))
            elif signal is PARK:
                self._park(g)
            elif signal is EXIT:
                leave(g)
            else:
                assert signal is STOP, f"unknown signal {signal!r}"
                self.run.stopped = True
            return True

    def _park(self, g: Group) -> None:
        join = g.join
        assert join is not None, "only a group with a join parks"
        merged = join.arrive(g)
        if merged is not None:
            self.ready.appendleft(merged)
            if join in self.joins:
                self.joins.remove(join)
        elif join not in self.joins:
            self.joins.append(join)

    # -- everyone else --------------------------------------------------------------------------

    def _engines(self, *, forced: bool = False) -> bool:
        """Finishes what is due; if `forced`, one operation that is not."""
        pending = self.cluster.pending
        if not pending:
            return False
        if forced:
            newest = self.run.strategy.engines == "newest"
            at = len(pending) - 1 if newest else self.run.random.randrange(len(pending))
            chosen = pending.pop(at)
            chosen.finish()
            return True
        due: list[Pending] = []
        for p in pending:
            p.delay -= 1
            if p.delay <= 0:
                due.append(p)
        self.run.random.shuffle(due)
        for p in due:
            pending.remove(p)
            p.finish()
        return bool(due)

    def _wake(self) -> bool:
        woken = [g for g in self.blocked if g.wait.ready()]
        for g in woken:
            self.blocked.remove(g)
            if self.run.chooser is not None:
                self.run.chooser.woken(g)
            self._resume(g, timed_out=False)
        return bool(woken)

    def _resume(self, g: Group, *, timed_out: bool) -> None:
        wait, g.wait = g.wait, None
        g.gave_up = wait if timed_out else None
        wait.finish(g, timed_out=timed_out)
        self.ready.append(g)

    def _release_parked(self) -> bool:
        if not self.joins or self.ready:
            return False
        self.ready.append(self.joins.pop(0).release())
        return True

    def _time_out(self) -> bool:
        """Timed waits give up.  Not progress: the caller counts such rounds."""
        for g in [g for g in self.blocked if g.wait.timed]:
            self.blocked.remove(g)
            self._resume(g, timed_out=True)
        return False


def _units(cta: Cta, run: Run) -> Iterator[tuple[int, int]]:
    """The threads that start as one group."""
    unit = run.program.unit if run.strategy.apart or run.chooser is not None else cta.size
    for lo in range(0, cta.size, unit):
        yield lo, min(lo + unit, cta.size)


PATIENCE = 100
"""Rounds of polling that write (atomics) after which other clusters have a turn."""
PAUSE = "pause"
"""Signal: the next instruction synchronises, and somebody else may go first."""


def execute(run: Run, g: Group) -> Any:
    """Steps of `g` until one gives a signal; the program counter is behind that step."""
    steps, executed, weight = run.program.steps, run.executed, g.warps
    pauses = run.program.visible if run.chooser is not None else None
    pc = g.pc
    count = 0
    try:
        for count in itertools.count(1):
            executed[pc] += weight
            signal = steps[pc](g)
            if signal is None:
                pc += 1
                if pauses is not None and pauses[pc]:
                    g.pc = pc
                    run.steps += count
                    return PAUSE if run.steps <= run.options.max_steps else _livelock(run, g, pc)
            elif type(signal) is int:
                pc = signal
                if pauses is not None and pauses[pc]:
                    g.pc = pc
                    run.steps += count
                    return PAUSE if run.steps <= run.options.max_steps else _livelock(run, g, pc)
                if count > run.options.max_steps:
                    return _livelock(run, g, pc)
            else:
                g.pc = pc + 1
                run.steps += count
                if type(signal) is list:
                    for part in signal:
                        part.pc = pc if part.pc == SAME else part.pc
                if run.steps <= run.options.max_steps:
                    return signal
                return _livelock(run, g, signal.pc if type(signal) is Poll else pc)
    except TilewrightError:
        raise
    except Exception as error:
        op = run.program.ops[pc]
        raise SimulationError(
            f"simulate {run.program.func_name}: executing {op.name if op else 'a join'} failed: "
            f"{type(error).__name__}: {error} (in {g.name()})",
            loc=op.loc if op else None,
        ) from error
    raise AssertionError("a program ends with a signal")


def _livelock(run: Run, g: Group, pc: int) -> str:
    op = next((o for o in run.program.ops[pc:] if o is not None), None)
    run.log.add(
        "livelock",
        f"the run was given up after {run.options.max_steps} instructions; it may be an endless "
        "loop, or just long: SimOptions(max_steps=...) raises the limit",
        place=op,
        loc=op.loc if op else None,
        agent=g.name(),
    )
    return STOP


def report_deadlock(crews: list[Crew]) -> None:
    """Says who waits for what, for every group that has not ended."""
    run = crews[0].run
    lines, first = [], None
    for crew in crews:
        for g in crew.blocked:
            first = first or g
            g.wait.stuck(g)
            where = f" ({g.wait.op.loc})" if g.wait.op.loc else ""
            lines.append(f"{g.name()}: {g.wait.op.name}{where} waits for {g.wait.describe()}")
        for g in crew.ready:
            if g.gave_up is not None:
                where = f" ({g.gave_up.op.loc})" if g.gave_up.op.loc else ""
                lines.append(
                    f"{g.name()}: {g.gave_up.op.name}{where} polls for {g.gave_up.describe()}"
                )
                continue
            op = next((o for o in run.program.ops[g.pc :] if o is not None), None)
            where = f" ({op.loc})" if op is not None and op.loc else ""
            lines.append(f"{g.name()}: polls in a loop whose condition never changes{where}")
        for join in crew.joins:
            lines += [f"{p.name()}: waits for its warp's other threads" for p in join.parked]
    op = first.wait.op if first else None
    run.log.add(
        "deadlock",
        f"{len(lines)} group{'s' if len(lines) != 1 else ''} of threads can never go on\n  "
        + "\n  ".join(lines[:40]),
        loc=op.loc if op else None,
        agent=first.name() if first else "",
    )


def run_grid(run: Run, slots: list[Val], sm_count: int) -> None:
    """Runs all clusters, one after another; more at a time only while the others poll."""
    cx, cy, cz = (g // c for g, c in zip(run.grid, run.cluster, strict=True))
    waiting: Any = ((x, y, z) for z in range(cz) for y in range(cy) for x in range(cx))
    how = run.strategy
    if how.blocks != "first":
        blocks = list(waiting)
        waiting = (blocks[i] for i in how.arrange(len(blocks), how.blocks, run.random))
    size = run.cluster[0] * run.cluster[1] * run.cluster[2]
    limit = max(sm_count // size, 1)
    crews: deque[Crew] = deque()
    exhausted = not _start(run, slots, waiting, crews)
    while crews and not run.stopped:
        crew = crews[0]
        worked = crew.round()
        if crew.done:
            _finish(crew)
            crews.popleft()
            if not crews:
                _start(run, slots, waiting, crews)
            continue
        spins = crew.polling > PATIENCE
        if worked and not spins:
            continue
        if crew.stuck():
            report_deadlock([crew])
            return
        crews.rotate(-1)
        if not exhausted and len(crews) < limit and (crew.idle > 2 or spins):
            exhausted = not _start(run, slots, waiting, crews)
            crews.rotate(1)
        elif all(c.idle > run.options.spin_rounds for c in crews):
            report_deadlock(list(crews))
            return


def _start(run: Run, slots: list[Val], waiting: Any, crews: deque[Crew]) -> bool:
    index: Dim3 | None = next(waiting, None)
    if index is None:
        return False
    crews.append(Crew(Cluster(run, index, slots), slots))
    return True


def _finish(crew: Crew) -> None:
    """The cluster has ended: engines complete what nobody waited for."""
    pending = crew.cluster.pending
    while pending:
        pending.pop(0).finish()
    watch = crew.run.watch
    if watch is not None:
        watch.end(crew.cluster)
