"""The race detector: what the machine tells it becomes records, edges and findings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops import copy, sync
from tilewright.sim.memory import Window
from tilewright.sim.races import engines
from tilewright.sim.races.atomics import Atomics
from tilewright.sim.races.check import Conflict, touch
from tilewright.sim.races.clocks import INITS, NEVER, Board, Clock, Rows, Team
from tilewright.sim.races.edges import (
    ClusterWatch,
    Exits,
    MBarrierWatch,
    NamedWatch,
    fence_kinds,
    rows_of,
)
from tilewright.sim.races.protocol import Phases, Protocol
from tilewright.sim.races.records import Ledger, Record
from tilewright.sim.races.report import report_conflict, thread_name
from tilewright.sim.races.shadow import UNIT_SHIFT, Shadow
from tilewright.sim.tma import Box
from tilewright.sim.values import Array, Val


class ClusterState:
    """What is known about one cluster while it runs."""

    def __init__(self, cluster: Any, number: int, clock: Clock) -> None:
        ctas = cluster.ctas
        self.team = Team(number, len(ctas), ctas[0].size, clock)
        self.ledger = Ledger()
        self.barrier = ClusterWatch(self.team)
        self.exits = Exits(self.team, len(ctas))
        self.waited: Array = np.empty(self.team.threads, object)
        """Per thread, the mbarrier that it last waited for."""
        self.unfenced: list[MBarrierWatch] = []
        """Barriers whose initialisation nobody has fenced."""


class RaceDetector:
    """Implements `watch.Watch` for one run."""

    def __init__(self, run: Any, *, check_global: bool) -> None:
        self.run = run
        self.check_global = check_global
        self.clock = Clock()
        self._states: dict[int, ClusterState] = {}
        self._clusters = 0
        self._ledger = Ledger()
        self._shadows: dict[int, Shadow] = {}
        self._shift = UNIT_SHIFT
        self._operands = engines.Operands()
        self._atomics = Atomics()
        self._muted = 0
        self._rules = Protocol(run)
        self._phases = Phases(run.log)

    # -- the run ----------------------------------------------------------------------------------

    def start(self, cluster: Any) -> None:
        self._states[id(cluster)] = ClusterState(cluster, self._clusters, self.clock)
        self._clusters += 1

    def end(self, cluster: Any) -> None:
        del self._states[id(cluster)]
        for cta in cluster.ctas:
            shadow = self._shadows.pop(id(cta.smem), None)
            if shadow is not None:
                self._shift = min(self._shift, shadow.shift)
        self._operands = engines.Operands()

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

    def _state(self, g: Any) -> ClusterState:
        return self._states[id(g.cta.cluster)]

    def _shadow(self, window: Window, owner: Any, ledger: Ledger) -> Shadow:
        found = self._shadows.get(id(window))
        if found is None:
            origin = window.start & ~15
            shift = self._shift if owner is not window else UNIT_SHIFT
            found = Shadow(origin, window.end - origin, owner, shift)
            self._shadows[id(window)] = found
            ledger.shadows.append(found)
        return found

    def _smem(self, cta: Any, state: ClusterState) -> Shadow:
        return self._shadow(cta.smem, cta, state.ledger)

    def _touch(self, ledger: Ledger, record: Record) -> None:
        touch(ledger, record, self._conflict)

    def _conflict(self, conflict: Conflict) -> None:
        first, second = conflict.first, conflict.second
        same = first.kind == second.kind == "write" and not first.engine
        if same and not conflict.fence and second.changes_nothing():
            return  # several threads store one value: whoever is last, the result is the same
        note = self._phases.explain(conflict)
        report_conflict(self.run.log, conflict, note)

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
        shared = window is g.cta.smem
        if not shared and not self.check_global:
            return
        state = self._state(g)
        if lanes is not None and len(lanes) == g.n:
            lanes = None
        rows = rows_of(state.team, g, lanes)
        if shared:
            shadow, ledger = self._smem(g.cta, state), state.ledger
            self._rules.shared_access(g, kind, op, address, bounds, size)
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

    def atomic(self, g: Any, shared: bool, addresses: Array, size: int, op: Any) -> None:
        state = self._state(g)
        rows = rows_of(state.team, g)
        columns = np.arange(rows.start, rows.stop) if type(rows) is slice else rows
        space = g.cta.rank + 1 if shared else 0
        self._atomics.atomic(state.team, g, space, addresses, columns, op)
        window = g.cta.smem if shared else self.run.memory.window(int(addresses[0]))
        low, high = int(addresses.min()), int(addresses.max())
        if window is None or low < window.start or high + size > window.end:
            return  # reported by the access itself
        if not shared and not self.check_global:
            return
        owner = g.cta if shared else window
        ledger = state.ledger if shared else self._ledger
        shadow = self._shadow(window, owner, ledger)
        record = Record(
            op, state.team, g.cta, "atomic", shadow, addresses - shadow.origin, size, rows, rows,
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
                self._rules.load_in_flight(g.cta, op)
            else:
                self._rules.early_exit(g.cta, op, agent)

    # -- engines ----------------------------------------------------------------------------------

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
        self._rules.shared_access(g, "write", op, dst, (low, high), op.bytes)
        sides: list[Any] = [("write", self._smem(g.cta, state), dst, None)]
        lanes = np.flatnonzero(predicate) if type(predicate) is np.ndarray else None
        if self.check_global and (predicate is True or (lanes is not None and len(lanes))):
            some = src[lanes] if lanes is not None and type(src) is np.ndarray else src
            source = self.run.memory.window(int(np.min(some)))
            if source is not None and int(np.max(some)) + op.bytes <= source.end:
                sides.append(("read", self._shadow(source, source, self._ledger), some, lanes))
        rows = rows_of(state.team, g)
        records = engines.cp_async_records(state.team, g, op, rows, sides)
        for record in records:
            owner = record.shadow.owner
            self._touch(state.ledger if owner is g.cta else self._ledger, record)
        return records

    def cp_async_done(self, event: Any, threads: Array) -> None:
        for record in event or ():
            rows = threads + record.cta.rank * record.team.stride
            engines.cp_async_done(record, rows, self.clock.now)

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
        agent = thread_name(record, row.start)
        state.exits.reach(cta.rank, row, record, op, agent)
        read = None
        if self.check_global:
            read = self._global_box(g, lane, op, box, store=False, learnt=record)
        return (record, read)

    def tma_loaded(self, event: Any) -> None:
        written, read = event
        written.clock = written.barrier.bytes_arrived()
        if read is not None:
            read.clock = written.clock

    def tma_store(self, g: Any, lane: int, op: Op, box: Box) -> Any:
        state = self._state(g)
        self._rules.shared_box(g, lane, op, op.src, box)  # type: ignore[attr-defined]
        self._rules.overrun(g, lane, op, box)
        shadow = self._smem(g.cta, state)
        record = engines.shared_box(state.team, g, lane, op, box, shadow)
        self._touch(state.ledger, record)
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
        now = state.team.release(rows, watch.board)
        watch.arrived(rows, state.waited[rows][0])
        if cta is not g.cta:
            agent = g.cta.thread_name(int(g.threads[lane]))
            state.exits.reach(cta.rank, rows, now, op, agent)
            if cta.live == 0:
                self._rules.early_exit(cta, op, agent)

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
            self._atomics.fence(state.team, g.cta, rows, op.scope)
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
