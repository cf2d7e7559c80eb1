"""The race detector: what the machine tells it becomes records, edges and findings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops import sync
from tilewright.sim.dsmem import by_rank, cta_of
from tilewright.sim.memory import Window
from tilewright.sim.races import engines
from tilewright.sim.races.clocks import INITS, NEVER, Board, Rows
from tilewright.sim.races.edges import MBarrierWatch, NamedWatch, fence_kinds, rows_of
from tilewright.sim.races.records import Record
from tilewright.sim.races.transfers import Transfers
from tilewright.sim.values import Array, Val


def _owner(g: Any, window: Window) -> Any:
    """The CTA whose shared memory a window is; None for a buffer in global memory."""
    if window is g.cta.smem:
        return g.cta
    found = cta_of(g, window.start)
    return found if found is not None and found.smem is window else None


class RaceDetector(Transfers):
    """Implements `watch.Watch` for one run."""

    def stuck(self, g: Any, barrier: Any, op: Op) -> None:
        state = self._state(g)
        for column in state.team.rows(g.cta.rank, g.threads)[:1].tolist():
            self._phases.missed(barrier.watch, op, column)

    @contextmanager
    def silent(self) -> Iterator[None]:
        self._muted += 1
        try:
            yield
        finally:
            self._muted -= 1

    # -- threads ----------------------------------------------------------------------------------

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
        if self._muted:
            return
        cta = _owner(g, window)
        if cta is None and not self.check_global and self._predecessor is None:
            return
        state = self._state(g)
        if lanes is not None and len(lanes) == g.n:
            lanes = None
        rows = rows_of(state.team, g, lanes)
        if cta is None and self._predecessor is not None:
            self._predecessor.access(g.cta, state.team, rows, window, kind, op)
            if not self.check_global:
                return
        if cta is not None:
            shadow, ledger = self._smem(cta, state), state.ledger
            self._rules.shared_access(g, cta, kind, op, address, bounds, size)
            if cta is not g.cta:
                self._reach(g, cta, rows, self.clock.now, op, 0 if lanes is None else lanes[0])
        else:
            shadow, ledger = self._shadow(window, window, self._ledger), self._ledger
        record = Record(
            op, state.team, g.cta, kind, shadow, address - shadow.origin, size, rows, rows,
            self.clock.now,
        )  # fmt: skip
        if kind == "write":
            record.data = data
            if data is not None and len(data) > 1:
                self._rules.same_address(record, data)
        self._touch(ledger, record)

    def sync(self, g: Any, kind: str, what: object, op: Op) -> None:
        """The hooks below say it in more detail."""

    def atomic(self, g: Any, shared: bool, addresses: Array, size: int, op: Any) -> None:
        state = self._state(g)
        rows = rows_of(state.team, g)
        columns = np.arange(rows.start, rows.stop) if type(rows) is slice else rows
        space = state.team.number + 1 if shared else 0  # shared addresses name the block in it
        for _, where in by_rank(addresses) if shared else ((-1, None),):
            some = addresses if where is None else addresses[where]
            mine = columns if where is None else columns[where]
            self._atomics.atomic(state.team, g, space, some, mine, op)
            cta = cta_of(g, int(some[0])) if shared else None
            window = cta.smem if cta is not None else self.run.memory.window(int(some[0]))
            low, high = int(some.min()), int(some.max())
            if window is None or low < window.start or high + size > window.end:
                continue  # reported by the access itself
            if cta is None:
                self._global(g, mine, low, "atomic", op)
                if not self.check_global:
                    continue
            elif cta is not g.cta:
                lane = 0 if where is None else int(where[0])
                self._reach(g, cta, mine, self.clock.now, op, lane)
            ledger = state.ledger if cta is not None else self._ledger
            shadow = self._shadow(window, window if cta is None else cta, ledger)
            record = Record(
                op, state.team, g.cta, "atomic", shadow, some - shadow.origin, size, mine, mine,
                self.clock.now, scope=op.scope,
            )  # fmt: skip
            self._touch(ledger, record)

    def exit(self, g: Any) -> None:
        state = self._state(g)
        state.exits.leave(g.cta.rank, rows_of(state.team, g))
        if g.cta.live > g.n:
            return
        for op, agent, own in state.exits.unseen(g.cta):
            if own:
                self._rules.copy_in_flight(g.cta, op)
            else:
                self._rules.early_exit(g.cta, op, agent)

    # -- synchronisation --------------------------------------------------------------------------

    def init(self, g: Any, lane: int, offset: int, old: Any, barrier: Any, op: Op) -> None:
        state = self._state(g)
        row = engines.one_row(state.team, g, lane)
        self._rules.barrier_init(g, lane, offset, old, barrier, op)
        barrier.watch = MBarrierWatch(state.team, g.cta, barrier, op, row.start)
        state.unfenced.append(barrier.watch)

    def arrive(self, g: Any, where: Array | None, cta: Any, barrier: Any, op: Op) -> None:
        state = self._state(g)
        watch: MBarrierWatch = barrier.watch
        rows = rows_of(state.team, g, where)
        lane = 0 if where is None else int(where[0])
        self._rules.barrier_use(g, lane, watch, rows, op, to_engine=False)
        far = cta is not g.cta
        now = state.team.release(rows, watch.board, weak=far)
        for board in self._atomics.shown_to_cluster(state.team, rows) if far else ():
            watch.board.add(board.vec, board.far)
        watch.arrived(rows, state.waited[rows][0])
        if far:
            self._reach(g, cta, rows, now, op, lane)

    def wait(self, g: Any, barrier: Any, op: Op) -> None:
        state = self._state(g)
        watch: MBarrierWatch = barrier.watch
        rows = rows_of(state.team, g)
        self._rules.barrier_use(g, 0, watch, rows, op, to_engine=False)
        again = watch.waited(rows, op)
        state.waited[rows] = watch
        if again is not None:
            self._phases.reused(watch, op, *again)

    def may_fail(self, g: Any, barrier: Any, parity: int, op: Op) -> bool:
        state = self._state(g)
        return bool(barrier.watch.may_fail(rows_of(state.team, g), op, parity))

    def named_arrive(self, g: Any, where: Array | None, barrier: Any, op: Op) -> Any:
        state = self._state(g)
        if barrier.watch is None:
            barrier.watch = NamedWatch(state.team)
        watch: NamedWatch = barrier.watch
        board = watch.board
        problem = watch.arrive(rows_of(state.team, g, where))
        if problem:
            self._rules.named_barrier(g, barrier, problem, op)
        return board

    def named_wait(self, g: Any, token: Any) -> None:
        state = self._state(g)
        state.team.acquire(rows_of(state.team, g), token)

    def cluster_arrive(self, g: Any, generation: int, *, relaxed: bool) -> None:
        state = self._state(g)
        state.barrier.arrive(rows_of(state.team, g), generation, relaxed=relaxed)

    def cluster_wait(self, g: Any, generation: int) -> None:
        state = self._state(g)
        state.barrier.wait(rows_of(state.team, g), generation)

    def sync_warp(self, g: Any) -> None:
        state = self._state(g)
        rows = rows_of(state.team, g)
        if g.full:
            state.team.sync_warps(rows)
            return
        board = Board(state.team.columns)
        state.team.release(rows, board)
        state.team.acquire(rows, board)

    def fence(self, g: Any, op: Op) -> None:
        state = self._state(g)
        rows: Rows = rows_of(state.team, g)
        if isinstance(op, sync.FenceAcqRel):
            if op.scope != "cta":
                state.team.look_again(rows)
            self._atomics.fence(state.team, g.cta, rows, op.scope)
            return
        if isinstance(op, sync.GridDependencyWait):
            if self._predecessor is not None:
                self._predecessor.waited(state.team, rows)
            return
        kinds = fence_kinds(op)
        if not kinds:
            return
        now = self.clock.now
        state.team.fence(rows, *kinds)
        if INITS in kinds and state.unfenced:
            mine = set(range(rows.start, rows.stop) if type(rows) is slice else rows.tolist())
            for watch in state.unfenced:
                if watch.init_row in mine:
                    watch.init_fence = now
            state.unfenced = [w for w in state.unfenced if w.init_fence == NEVER]
