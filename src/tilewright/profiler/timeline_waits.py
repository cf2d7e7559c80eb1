"""When, in modelled time, a barrier's phase completed: what waits of a timeline jump to."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tilewright.sim.copies import BulkWait
from tilewright.sim.exec_mma import PipeWait
from tilewright.sim.exec_sync import MBarrierWait
from tilewright.sim.state import Wait


class Moments:
    """Latest contribution to each phase of each barrier, by identity of the barrier.

    mbarriers count phases, named barriers and the cluster's generations.
    """

    def __init__(self) -> None:
        self._times: dict[tuple[int, int], float] = {}
        self._barriers: list[Any] = []
        """Kept alive, so that identities stay unique."""
        self._known: set[int] = set()
        self._opened = 0.0
        self._pipes: dict[tuple[Any, int], list[float]] = defaultdict(lambda: [0.0])
        """By block and warpgroup: when each group of wgmmas is done; the last one is open."""

    def arrive(self, barrier: Any, phase: int, time: float) -> None:
        """Something that `phase` waits for happens at `time`."""
        self._keep(barrier)
        key = (id(barrier), phase)
        self._times[key] = max(self._times.get(key, 0.0), time)

    def arrive_named(self, barrier: Any, time: float) -> tuple[Any, int]:
        """An arrival at a named barrier; what `open_named` takes.

        Called when the barrier may have opened already: then the arrivals it saw are over.
        """
        self._keep(barrier)
        turn = barrier.generation - (1 if barrier.arrived == 0 else 0)
        self.arrive(barrier, turn, time)
        self._opened = self._times[id(barrier), turn]
        return barrier, turn

    def open_named(self, token: tuple[Any, int]) -> None:
        """The barrier of a wait has opened."""
        barrier, turn = token
        self._opened = self._times[id(barrier), turn]

    def opened(self) -> float:
        """When the named barrier opened that was passed last."""
        return self._opened

    def multiply(self, block: Any, warpgroup: int, done: float) -> None:
        """A wgmma of the warpgroup's open group is done at `done`."""
        groups = self._pipes[block, warpgroup]
        groups[-1] = max(groups[-1], done)

    def commit(self, block: Any, warpgroup: int) -> None:
        """The warpgroup's open group of wgmmas ends."""
        self._pipes[block, warpgroup].append(0.0)

    def of(self, g: Any, wait: Wait) -> float:
        """When a wait that is over was over, in modelled time."""
        if isinstance(wait, BulkWait):
            stores = [s for group in wait.groups for s in group.stores]
            return max((s.event for s in stores if s.event is not None), default=0.0)
        if isinstance(wait, PipeWait):
            return max(self._drain(g.cta.index, w, wait.pending) for w in g.warpgroups)
        barrier = getattr(wait, "barrier", None)
        if barrier is None:
            return 0.0
        if isinstance(wait, MBarrierWait):
            return self._phase(barrier, wait.parity)
        return self._times.get((id(barrier), getattr(wait, "generation", 0)), 0.0)

    def _drain(self, block: Any, warpgroup: int, pending: int) -> float:
        groups = self._pipes[block, warpgroup]
        count = max(len(groups) - 1 - pending, 0)
        done, groups[:count] = groups[:count], []
        return max(done, default=0.0)

    def _phase(self, barrier: Any, parity: int) -> float:
        """The newest completed phase of that parity."""
        phase = barrier.phase - 1
        if phase & 1 != parity & 1:
            phase -= 1
        return self._times.get((id(barrier), phase), 0.0)

    def _keep(self, barrier: Any) -> None:
        if id(barrier) not in self._known:
            self._known.add(id(barrier))
            self._barriers.append(barrier)
