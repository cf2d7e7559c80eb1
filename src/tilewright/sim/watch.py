"""What others are told while a kernel runs, in the order in which things happen.

All `Run.watchers` are told of accesses and synchronisation: the race detector, the meter of costs,
whoever looks at the clock.  One of them, `Run.watch`, is told the rest as well, and keeps track of
engines and barriers.  No hook changes what the kernel computes.
`g` is the group that acts, `where` the positions in it of the threads that do (None: all).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from tilewright.ir.core import Op
from tilewright.sim.memory import Window
from tilewright.sim.values import Array, Val


class Watcher(Protocol):
    """What every watcher is told."""

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
        """A valid read or write; `bounds` are the lowest and the highest address."""

    def sync(self, g: Any, kind: str, what: object, op: Op) -> None:
        """`kind`: 'arrive', 'wait', 'fence'; `what` is the barrier or a word for it.

        Of a block's barrier, 'wait' comes once, when the last thread has arrived.
        """


class Watch(Watcher, Protocol):
    """What a race detector is told."""

    # -- threads ----------------------------------------------------------------------------------

    def atomic(self, g: Any, shared: bool, addresses: Array, size: int, op: Any) -> None: ...
    def silent(self) -> AbstractContextManager[None]:
        """Accesses inside are part of something that was already told."""

    def exit(self, g: Any) -> None: ...

    # -- engines ----------------------------------------------------------------------------------

    def cp_async(self, g: Any, op: Any, src: Val, dst: Val, predicate: Val) -> Any: ...
    def cp_async_done(self, event: Any, threads: Array) -> None: ...
    def cp_async_arrive(
        self, g: Any, where: Array | None, barrier: Any, op: Op, events: list[Any]
    ) -> Any:
        """Threads ask for an arrival behind their copies; `events`: those that are in flight."""

    def cp_async_arrived(self, event: Any) -> None: ...
    def tma_load(self, g: Any, lane: int, cta: Any, barrier: Any, op: Any, box: Any) -> Any: ...
    def tma_loaded(self, event: Any) -> None: ...
    def tma_store(self, g: Any, lane: int, op: Any, box: Any) -> Any: ...
    def bulk_load(
        self, g: Any, lane: int, op: Op, cta: Any, barrier: Any, src: int, dst: int, size: int
    ) -> Any:
        """A bulk copy into the shared memory of `cta`; `tma_loaded` follows."""

    def bulk_store(self, g: Any, lane: int, op: Op, src: int, dst: int, size: int) -> Any:
        """A bulk copy or reduction into global memory; `bulk_waited` follows."""

    def store_async(
        self, g: Any, lanes: Array, op: Op, cta: Any, barrier: Any, addresses: Array, size: int
    ) -> Any:
        """Asynchronous stores of some lanes to `cta`; `tma_loaded` follows."""

    def bulk_waited(self, events: list[Any], *, read: bool) -> None: ...
    def wgmma(self, g: Any, warpgroup: int, entry: Any) -> tuple[Any, ...]: ...
    def wgmma_done(self, entries: list[Any]) -> None: ...

    # -- synchronisation --------------------------------------------------------------------------

    def init(self, g: Any, lane: int, offset: int, old: Any, barrier: Any, op: Op) -> None: ...
    def arrive(self, g: Any, where: Array | None, cta: Any, barrier: Any, op: Op) -> None: ...
    def wait(self, g: Any, barrier: Any, op: Op) -> None: ...
    def may_fail(self, g: Any, barrier: Any, parity: int, op: Op) -> bool:
        """Whether a try to wait may fail although the phase is complete: it might come sooner."""

    def named_arrive(self, g: Any, where: Array | None, barrier: Any, op: Op) -> Any:
        """A token, for `named_wait` when the barrier has opened."""

    def named_wait(self, g: Any, token: Any) -> None: ...
    def cluster_arrive(self, g: Any, generation: int, *, relaxed: bool) -> None: ...
    def cluster_wait(self, g: Any, generation: int) -> None: ...
    def sync_warp(self, g: Any) -> None: ...
    def fence(self, g: Any, op: Op) -> None: ...

    # -- the run ----------------------------------------------------------------------------------

    def start(self, cluster: Any) -> None: ...
    def end(self, cluster: Any) -> None: ...
    def stuck(self, g: Any, barrier: Any, op: Op) -> None:
        """A group waits for an mbarrier for ever."""
