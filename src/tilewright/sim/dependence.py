"""Which steps of an exploration depend on each other: whose order could make a difference.

A *step* is what a group of threads does from one synchronisation up to the next, or what an engine
does when it finishes an operation.  Accesses to memory do not count: races among them are found
by happens-before in any order.  What counts is what a step does to barriers and to atomics.

Rule PHASE.  Arrivals (threads, bytes) of one phase of a barrier commute: whoever is the last, the
phase completes with all of them.  Arrivals of different phases do not.
Rule WAIT.  A wait for a phase commutes with the arrivals of that phase: it blocks before they are
complete and goes on afterwards.  It does not commute with those of other phases.
Rule ATOMIC.  Atomics on one address do not commute.
Rule POLL.  A step that polls commutes with nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops import memory, sync
from tilewright.sim.barriers import ClusterBarrier, MBarrier, NamedBarrier
from tilewright.sim.memory import RANK_SHIFT, Window
from tilewright.sim.values import Array, Val

Key = tuple[object, ...]
Name = tuple[object, ...]
"""Of a step: its actor and how many steps the actor has made; the same in every order."""


@dataclass(frozen=True, slots=True)
class Touched:
    """What a step did: phases (counted from 1) that it arrived in or waited for; atomics."""

    arrived: Mapping[Key, int] = field(default_factory=dict)
    waited: Mapping[Key, int] = field(default_factory=dict)
    atomics: frozenset[Key] = frozenset()
    polled: bool = False


def commute(a: Touched, b: Touched) -> bool:
    """Whether two steps of different actors lead to the same state in both orders.

    >>> early, late = Touched({("full",): 1}), Touched({("full",): 2})
    >>> wait = Touched(waited={("full",): 1})
    >>> commute(early, early), commute(early, late), commute(wait, early), commute(wait, late)
    (True, False, True, False)
    """
    if a.polled or b.polled or not a.atomics.isdisjoint(b.atomics):
        return False
    pairs = (a.arrived, b.arrived), (a.arrived, b.waited), (a.waited, b.arrived)
    return all(y.get(key, phase) == phase for x, y in pairs for key, phase in x.items())


@dataclass(slots=True)
class Step:
    """One step of a run.  `past`: the steps that happen before it, as bits."""

    name: Name
    touched: Touched
    past: int
    point: Any
    """Where it was chosen; None if there was no choice."""

    def mask(self, number: int) -> int:
        """Its past and itself."""
        return self.past | 1 << number


class Trace:
    """The steps of a run so far, and what happens before what.  It is one of the run's watchers."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._known: dict[tuple[object, int], int] = {}
        """By block and thread: the steps that happen before what the thread does next."""
        self._turns: dict[tuple[object, int], int] = {}
        self._born: dict[Name, int] = {}
        """Of operations of engines: the steps before they were issued."""
        self._arrivals: dict[tuple[Key, int], int] = {}
        """By barrier and phase: the steps that arrived, and all before them."""
        self._touching: dict[Key, list[int]] = {}
        """By barrier or address, the steps that touched it; under () those that polled."""
        self._before: dict[Key, tuple[int, ...]] = {}
        self._waits: dict[Key, int] = {}
        self._atomics: set[Key] = set()
        self._passed: set[Key] = set()
        """Barriers of a block or cluster that the step went past."""
        self._open = False
        self.races: list[int] = []
        """The steps that the last one depends on, and nothing orders with it."""

    def name(self, g: Any) -> Name:
        """Of the next step of a group."""
        actor = (g.cta.index, int(g.threads[0]))
        return (*actor, self._turns.get(actor, 0))

    # -- one step ---------------------------------------------------------------------------------

    def begin(self, cluster: Any) -> None:
        """Somebody in the cluster is about to make a step."""
        self._before = dict(_barriers(cluster))
        self._waits, self._atomics, self._passed, self._open = {}, set(), set(), True

    def end_group(self, g: Any, threads: Array, name: Name, point: Any, *, polled: bool) -> None:
        """A group, of `threads` when it began, has made its step."""
        places = [(g.cta.index, t) for t in threads.tolist()]
        past = 0
        for known in {self._known.get(place, 0) for place in places}:
            past |= known
        self._turns[places[0]] = self._turns.get(places[0], 0) + 1
        cluster = g.cta.cluster
        if isinstance(getattr(g.wait, "barrier", None), MBarrier):
            key = _key(cluster, g.wait.barrier)
            self._waits[key] = g.wait.barrier.phase + 1
        else:  # it went on, behind whatever completed the phase
            for where in self._waits.items():
                past |= self._arrivals.get(where, 0)
        step = self._end(cluster, name, past, point, polled=polled)
        mask = step.mask(len(self.steps) - 1)
        for place in places:
            self._known[place] = mask
        now = dict(_barriers(cluster))
        for key in self._passed:
            self._learn(places, self._arrivals.get((key, now[key][0]), 0))

    def end_engine(self, cluster: Any, name: Name, point: Any) -> None:
        """An engine has finished an operation."""
        self._end(cluster, name, self._born.get(name, 0), point, polled=False)

    def _end(self, cluster: Any, name: Name, past: int, point: Any, *, polled: bool) -> Step:
        self._open = False
        arrived = {}
        for key, now in _barriers(cluster):
            before = self._before.get(key, (0,) * len(now))
            if now != before:
                arrived[key] = before[0] + 1
        touched = Touched(arrived, self._waits, frozenset(self._atomics), polled)
        step = Step(name, touched, past, point)
        self.races = []
        number = len(self.steps)
        self.steps.append(step)
        for other in self.dependent(step):
            if not step.past >> other & 1:
                step.past |= self.steps[other].mask(other)
                self.races.append(other)
        mask = step.mask(number)
        for where in arrived.items():
            self._arrivals[where] = self._arrivals.get(where, 0) | mask
        for key in (*arrived, *self._waits, *self._atomics, *([()] if polled else [])):
            self._touching.setdefault(key, []).append(number)
        for at, pending in enumerate(p for p in cluster.pending if not p.name):
            pending.name = (*name, at)
            self._born[pending.name] = mask
        return step

    def dependent(self, step: Step) -> Sequence[int]:
        """Earlier steps that do not commute with the last one, the latest first."""
        touched = step.touched
        keys = (*touched.arrived, *touched.waited, *touched.atomics, ())
        near = {n for key in keys for n in self._touching.get(key, ())}
        if touched.polled:
            near = set(range(len(self.steps) - 1))
        latest = sorted(near, reverse=True)
        return [n for n in latest if not commute(self.steps[n].touched, touched)]

    def woken(self, g: Any) -> None:
        """What a blocked group waits for has happened."""
        places = [(g.cta.index, t) for t in g.threads.tolist()]
        barrier = getattr(g.wait, "barrier", None)
        if barrier is None:
            self._learn(places, self.steps[-1].mask(len(self.steps) - 1) if self.steps else 0)
            return
        cluster = g.cta.cluster
        key = _key(cluster, barrier)
        phase = dict(_barriers(cluster))[key][0]
        self._learn(places, self._arrivals.get((key, phase), 0))

    def _learn(self, places: Iterable[tuple[object, int]], steps: int) -> None:
        for place in places:
            self._known[place] = self._known.get(place, 0) | steps

    def before(self, number: int, last: int) -> list[Step]:
        """Of the steps between `number` and `last`, and `last`: those that could be made first.

        They do not happen after `number`, and none of the others among them happens before them.
        """
        between = range(number + 1, last)
        free = [n for n in between if not self.steps[n].past >> number & 1] + [last]
        mask = sum(1 << n for n in free)
        return [self.steps[n] for n in free if not self.steps[n].past & mask]

    # -- what the machine says: `watch.Watcher` ---------------------------------------------------

    def access(
        self,
        g: Any,
        window: Window,
        kind: str,
        address: Val,
        bounds: tuple[int, int],
        size: int,
        op: Op,
        lanes: Array | None,
        data: Array | None,
    ) -> None:
        del kind, bounds, size, lanes, data
        if self._open and isinstance(op, memory.Atomic):
            shared = window.init is not None  # addresses there carry the rank of their block
            owner = g.cta.cluster.ctas[window.start >> RANK_SHIFT] if shared else None
            space = owner.index if owner is not None else None
            many = np.atleast_1d(np.asarray(address)).tolist()
            self._atomics.update(("atomic", space, a) for a in many)

    def sync(self, g: Any, kind: str, what: object, op: Op) -> None:
        if not self._open or kind != "wait":
            return
        if isinstance(what, MBarrier):
            self._waits[_key(g.cta.cluster, what)] = what.phase
        elif isinstance(what, NamedBarrier | ClusterBarrier) and not isinstance(
            op, sync.BarrierArrive
        ):
            self._passed.add(_key(g.cta.cluster, what))


def _barriers(cluster: Any) -> Iterator[tuple[Key, tuple[int, ...]]]:
    """The state of every barrier of a cluster: first the phases that it has completed."""
    yield ("cluster", cluster.ctas[0].index), (cluster.barrier.generation, cluster.barrier.arrived)
    for cta in cluster.ctas:
        for offset, m in cta.mbarriers.items():
            yield ("mbarrier", cta.index, offset), (m.phase, m.pending, m.tx)
        for number, b in cta.named.items():
            yield ("named", cta.index, number), (b.generation, b.arrived)


def _key(cluster: Any, barrier: Any) -> Key:
    for cta in cluster.ctas:
        for kind, held in (("mbarrier", cta.mbarriers), ("named", cta.named)):
            for number, one in held.items():
                if one is barrier:
                    return (kind, cta.index, number)
    return ("cluster", cluster.ctas[0].index)
