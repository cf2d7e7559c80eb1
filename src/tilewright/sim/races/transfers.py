"""Hooks of what engines do: cp.async, TMA, bulk copies and reductions, st.async, wgmma."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops import bulk, copy
from tilewright.sim.races import engines
from tilewright.sim.races.clocks import GLOBAL, NEVER, Board
from tilewright.sim.races.cluster_state import Memories
from tilewright.sim.races.edges import MBarrierWatch, rows_of
from tilewright.sim.races.records import Record
from tilewright.sim.tma import Box
from tilewright.sim.values import Array, Val


class Transfers(Memories):
    """The hooks of `watch.Watch` that tell of engines."""

    def cp_async(self, g: Any, op: copy.CpAsync, src: Val, dst: Val, predicate: Val) -> Any:
        state = self._state(g)
        window = g.cta.smem
        low, high = int(np.min(dst)), int(np.max(dst))
        if (
            low < window.start
            or high + op.bytes > window.end
            or int(np.bitwise_or.reduce(dst, axis=None)) % op.bytes
        ):
            return None
        self._rules.shared_access(g, g.cta, "write", op, dst, (low, high), op.bytes)
        sides: list[Any] = [("write", self._smem(g.cta, state), dst, None)]
        lanes = np.flatnonzero(predicate) if type(predicate) is np.ndarray else None
        rows = rows_of(state.team, g)
        watched = self.check_global or self._predecessor is not None
        if watched and (predicate is True or (lanes is not None and len(lanes))):
            some = src[lanes] if lanes is not None and type(src) is np.ndarray else src
            self._global(g, rows_of(state.team, g, lanes), int(np.min(some)), "read", op)
            source = self.run.memory.window(int(np.min(some))) if self.check_global else None
            if source is not None and int(np.max(some)) + op.bytes <= source.end:
                sides.append(("read", self._shadow(source, source, self._ledger), some, lanes))
        records = engines.cp_async_records(state.team, g, op, rows, sides)
        for record in records:
            owner = record.shadow.owner
            self._touch(state.ledger if owner is g.cta else self._ledger, record)
        return records

    def cp_async_done(self, event: Any, threads: Array) -> None:
        for record in event or ():
            rows = threads + record.cta.rank * record.team.stride
            engines.cp_async_done(record, rows, self.clock.now)

    def cp_async_arrive(
        self, g: Any, where: Array | None, barrier: Any, op: Op, events: list[Any]
    ) -> Any:
        state = self._state(g)
        watch: MBarrierWatch = barrier.watch
        rows = rows_of(state.team, g, where)
        self._rules.barrier_use(g, 0, watch, rows, op, to_engine=False)
        watch.arrived(rows, state.waited[rows][0])
        state.team.counts_generic = True
        board = Board(state.team.columns)
        state.team.release(rows, board)
        # Copies that an earlier arrival has counted are complete: this one says so as well.
        numbers = np.arange(rows.start, rows.stop) if type(rows) is slice else rows
        landed = state.landed.setdefault(numbers.tobytes(), {})
        for column, clock in landed.items():
            board.vec[: GLOBAL + 1, column] = clock
        records = [record for event in events for record in event or ()]
        for record in records:
            record.barrier, record.phase = watch, barrier.phase
        return (watch, numbers, board, landed, records)

    def cp_async_arrived(self, event: Any) -> None:
        watch, numbers, board, landed, records = event
        watch.board.add(board.vec, board.far)
        now = landed[watch.column] = watch.bytes_arrived()
        for record in records:
            engines.signalled(record, numbers, watch.column, now)

    def tma_load(self, g: Any, lane: int, cta: Any, barrier: Any, op: Op, box: Box) -> Any:
        state = self._state(g)
        team = state.team
        watch: MBarrierWatch = barrier.watch
        row = engines.one_row(team, g, lane)
        self._rules.barrier_use(g, lane, watch, row, op, to_engine=True)
        shadow = self._smem(cta, state)
        self._rules.shared_box(g, lane, op, op.dst, box)  # type: ignore[attr-defined]
        record = engines.load_of(engines.shared_box(team, g, lane, op, box, shadow), watch)
        self._touch(state.ledger, record)
        self._reach(g, cta, row, record, op, lane)
        self._global(g, row, box.tensor.base, "read", op)
        read = None
        if self.check_global:
            read = self._global_box(g, lane, op, box, store=False, learnt=record)
        return (record, read)

    def bulk_load(
        self, g: Any, lane: int, op: Op, cta: Any, barrier: Any, src: int, dst: int, size: int
    ) -> Any:
        state, watch = self._state(g), barrier.watch
        row = engines.one_row(state.team, g, lane)
        self._rules.barrier_use(g, lane, watch, row, op, to_engine=True)
        self._rules.shared_run(g, lane, op, cta, dst, size, "write")
        shadow = self._smem(cta, state)
        made = engines.run_of_bytes(state.team, g, lane, op, "write", shadow, dst, size)
        written = engines.counted(made, watch)
        self._touch(state.ledger, written)
        self._reach(g, cta, row, written, op, lane)
        read = self._bulk_source(g, lane, op, src, size)
        if read is not None:
            engines.counted(read, watch)
            if isinstance(op, bulk.BulkSend):  # the block stays until its memory has been read
                self._reach(g, g.cta, row, read, op, lane)
        return (written, read)

    def _bulk_source(self, g: Any, lane: int, op: Op, src: int, size: int) -> Record | None:
        state = self._state(g)
        if isinstance(op, bulk.BulkLoad | bulk.BulkLoadMulticast):
            return self._global_run(g, lane, op, "read", src, size)
        self._rules.shared_run(g, lane, op, g.cta, src, size, "read")
        shadow = self._smem(g.cta, state)
        record = engines.run_of_bytes(state.team, g, lane, op, "read", shadow, src, size)
        self._touch(state.ledger, record)
        return record

    def _global_run(
        self, g: Any, lane: int, op: Op, kind: str, address: int, size: int
    ) -> Record | None:
        team = self._state(g).team
        self._global(g, engines.one_row(team, g, lane), address, kind, op)
        window = self.run.memory.window(address)
        if window is None or not self.check_global:
            return None
        shadow = self._shadow(window, window, self._ledger)
        record = engines.run_of_bytes(team, g, lane, op, kind, shadow, address, size)
        record.scope = "gpu" if kind == "atomic" else ""
        self._touch(self._ledger, record)
        return record

    def bulk_store(self, g: Any, lane: int, op: Op, src: int, dst: int, size: int) -> Any:
        source = self._bulk_source(g, lane, op, src, size)
        kind = "atomic" if isinstance(op, bulk.BulkReduce) else "write"
        return (source, self._global_run(g, lane, op, kind, dst, size))

    def store_async(
        self, g: Any, lanes: Array, op: Op, cta: Any, barrier: Any, addresses: Array, size: int
    ) -> Any:
        state, watch = self._state(g), barrier.watch
        rows = rows_of(state.team, g, lanes)
        self._rules.barrier_use(g, int(lanes[0]), watch, rows, op, to_engine=False)
        bounds = int(addresses.min()), int(addresses.max())
        self._rules.shared_access(g, cta, "write", op, addresses, bounds, size)
        state.team.counts_generic = True
        shadow = self._smem(cta, state)
        record = engines.counted(
            Record(
                op, state.team, g.cta, "write", shadow, addresses - shadow.origin, size, rows, rows,
                NEVER, engine="st.async",
            ),
            watch,
        )  # fmt: skip
        self._touch(state.ledger, record)
        self._reach(g, cta, rows, record, op, int(lanes[0]))
        return (record, None)

    def tma_loaded(self, event: Any) -> None:
        written, read = event
        written.clock = written.barrier.bytes_arrived()
        if read is not None:
            read.clock = written.clock

    def tma_store(self, g: Any, lane: int, op: Op, box: Box) -> Any:
        state = self._state(g)
        self._rules.shared_box(g, lane, op, op.src, box)  # type: ignore[attr-defined]
        if isinstance(op, copy.TmaStore):
            self._rules.overrun(g, lane, op, box)
        shadow = self._smem(g.cta, state)
        record = engines.shared_box(state.team, g, lane, op, box, shadow)
        self._touch(state.ledger, record)
        kind = "atomic" if isinstance(op, bulk.TmaReduce) else "write"
        self._global(g, engines.one_row(state.team, g, lane), box.tensor.base, kind, op)
        written = self._global_box(g, lane, op, box, store=True) if self.check_global else None
        return (record, written)

    def _global_box(
        self, g: Any, lane: int, op: Op, box: Box, *, store: bool, learnt: Record | None = None
    ) -> Record | None:
        state = self._state(g)
        window = self.run.memory.window(box.tensor.base)
        if window is None:
            return None
        shadow = self._shadow(window, window, self._ledger)
        record = engines.global_box(state.team, g, lane, op, box, shadow, store=store)
        if record is None or int(np.max(record.offsets)) + record.size > shadow.size:
            return None
        if learnt is not None:
            record.own, record.rows = learnt.own, learnt.rows
        self._touch(self._ledger, record)
        return record

    def bulk_waited(self, events: list[Any], *, read: bool) -> None:
        now = self.clock.now
        for source, written in filter(None, events):
            if source.clock == NEVER:
                source.clock = now
            if written is not None and not read and written.clock == NEVER:
                written.clock = now

    def wgmma(self, g: Any, warpgroup: int, entry: Any) -> tuple[Any, ...]:
        state = self._state(g)
        shadow = self._smem(g.cta, state)
        made = self._operands.records(state.team, g, warpgroup, entry, shadow)
        for record, bits, value in made:
            self._rules.operand(g, warpgroup, entry.op, record, bits, value)
            self._touch(state.ledger, record)
        return tuple(record for record, _, _ in made)

    def wgmma_done(self, entries: list[Any]) -> None:
        now = self.clock.now
        for entry in entries:
            for record in entry.events:
                record.clock = now
