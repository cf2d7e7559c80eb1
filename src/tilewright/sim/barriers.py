"""Barriers as state machines: mbarriers, named barriers, the cluster barrier.

They only count; who may go on is asked by the waits in `exec_sync`.  What breaks their rules is
returned as text, and reported by the instruction that did it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MAX_TX = (1 << 20) - 1
"""Largest transaction count of a phase.  Source: PTX ISA, "tx-count of mbarrier"."""
MAX_ARRIVALS = (1 << 20) - 1


@dataclass(slots=True)
class MBarrier:
    """One mbarrier object.

    `phase` counts completed phases; a phase completes when no arrival is pending and no
    transaction byte is outstanding.  Source: PTX ISA, "Phase of the mbarrier object".
    """

    name: str
    expected: int
    pending: int = -1
    tx: int = 0
    phase: int = 0
    watch: Any = None
    """What the race detector knows about it."""

    def __post_init__(self) -> None:
        self.pending = self.expected

    def arrive(self, count: int) -> str | None:
        """`count` arrivals by one instruction; what is wrong with them, or None."""
        phases = 0
        while count > 0:
            if self.pending == 0:
                return (
                    f"arrival on {self.name} beyond its count of {self.expected}: all arrivals of "
                    f"phase {self.phase} were seen, {self.tx} transaction bytes are missing"
                )
            used = min(count, self.pending)
            self.pending -= used
            count -= used
            if self._complete():
                phases += 1
        if phases > 1:
            return (
                f"one instruction's arrivals completed {phases} phases of {self.name}, whose count "
                f"is {self.expected}: more threads arrive than it was initialised for"
            )
        return None

    def expect(self, count: int) -> str | None:
        """Adds to the bytes that the current phase waits for."""
        self.tx += count
        self._complete()
        if abs(self.tx) > MAX_TX:
            return f"transaction count of {self.name} is {self.tx}, the limit is {MAX_TX}"
        return None

    def complete_bytes(self, count: int) -> str | None:
        """`count` bytes have arrived."""
        self.tx -= count
        if self.pending == 0 and self.tx < 0:
            text = (
                f"{count} bytes arrived at {self.name}, {self.tx + count} were missing in phase "
                f"{self.phase}: expect_tx promises fewer bytes than the copies bring"
            )
            self.tx = 0
            self._complete()
            return text
        self._complete()
        return None

    def passed(self, parity: int) -> bool:
        """Whether the phase of that parity, the last or the one before, has completed."""
        return (self.phase & 1) != parity & 1

    def _complete(self) -> bool:
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected
            if self.watch is not None:
                self.watch.completed()
            return True
        return False

    def state(self) -> str:
        text = (
            f"in phase {self.phase} (parity {self.phase & 1}); arrivals: {self.expected} expected, "
            f"{self.expected - self.pending} seen"
        )
        if self.tx > 0:
            text += f"; {self.tx} transaction bytes are missing"
        elif self.tx < 0:
            text += f"; {-self.tx} transaction bytes more than expected so far"
        return text


@dataclass(slots=True)
class NamedBarrier:
    """One of the 16 barriers of a block.  `count` 0: all threads that have not exited."""

    id: int
    count: int = 0
    arrived: int = 0
    generation: int = 0
    watch: Any = None
    """What the race detector knows about it."""

    def arrive(self, threads: int, count: int, live: int) -> str | None:
        """`threads` arrive and say that `count` are expected (0: all `live` ones)."""
        problem = None
        if self.arrived and count != self.count:
            problem = (
                f"barrier {self.id} is used with {count or 'all'} threads while others wait at it "
                f"with {self.count or 'all'}"
            )
        self.count = count
        self.arrived += threads
        want = count or live
        if self.arrived > want:
            problem = f"{self.arrived} threads arrived at barrier {self.id}, which expects {want}"
        self.release(live)
        return problem

    def release(self, live: int) -> None:
        """Opens the barrier if everyone is there; called again when threads exit."""
        if self.arrived and self.arrived >= (self.count or live):
            self.generation += 1
            self.arrived = 0
            if self.watch is not None:
                self.watch.opened()

    def state(self, live: int) -> str:
        return f"{self.count or live} threads expected, {self.arrived} have arrived"


@dataclass(slots=True)
class ClusterBarrier:
    """The hardware barrier of a cluster: every thread that has not exited arrives, then waits."""

    generation: int = 0
    arrived: int = 0
    phase_of: dict[tuple[int, int], int] = field(default_factory=dict)
    """(CTA rank, thread): the generation in which it arrived and has not yet waited."""

    def release(self, live: int) -> None:
        if self.arrived and self.arrived >= live:
            self.generation += 1
            self.arrived = 0

    def leave(self, rank: int, threads: list[int], live: int) -> None:
        """Threads exit, `live` stay: nobody waits for those, nor counts what they arrived for."""
        for t in threads:
            self.arrived -= self.phase_of.pop((rank, t), -1) == self.generation
        self.release(live)
