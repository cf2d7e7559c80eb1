"""A modelled timeline of one launch: what each warp, TMA and the tensor cores do when.

The simulator says in which order things happen; `cost_model` says how long they take.  A clock
per warp advances with each instruction; waits let it jump to the modelled moment of what they
wait for.  Nothing here is measured: every drawing says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.ir.core import Op, Value
from tilewright.ir.ops import bulk, copy, memory, mma, sync
from tilewright.ir.types import PtrType, Space
from tilewright.profiler.cost_model import H200, CostModel
from tilewright.profiler.timeline_waits import Moments
from tilewright.sim.build import program_of
from tilewright.sim.exec_sync import MBarrierWait
from tilewright.sim.machine import Launch, simulate
from tilewright.sim.memory import GlobalMemory
from tilewright.sim.options import SimOptions
from tilewright.sim.state import Wait
from tilewright.sim.tma import box_bytes

MODELLED = "modelled, not measured"
ASYNC = ("TMA loads", "TMA stores", "cp.async", "tensor cores")
"""Lanes of a block's engines, below those of its warps."""


@dataclass(slots=True)
class Span:
    """Something that takes time: [start, end) in clocks."""

    start: float
    end: float
    kind: str
    """issue, shared, global, wait, or the lane of an engine."""
    label: str


@dataclass(slots=True)
class Timeline:
    """Spans by block and lane: warps by number, engines by name (see `ASYNC`)."""

    kernel: str
    blocks: dict[tuple[int, int, int], dict[int | str, list[Span]]]
    model: CostModel
    counters: dict[str, int] = field(default_factory=dict)
    source: str = MODELLED
    """Where the times come from."""

    @property
    def clocks(self) -> float:
        """When the last block ends."""
        ends = [s[-1].end for lanes in self.blocks.values() for s in lanes.values() if s]
        return max(ends, default=0.0)


def record_timeline(
    launch: Launch,
    memory: GlobalMemory,
    model: CostModel = H200,
    options: SimOptions | None = None,
) -> Timeline:
    """Runs the launch once more, without checks, and models when things happen."""
    recorder = Recorder(model, launch.sm_count)
    program = program_of(launch.kernel)
    plain = program.steps
    program.steps = [
        recorder.resumed(step) if op is None else recorder.traced(step, op)
        for step, op in zip(plain, program.ops, strict=True)
    ]
    try:
        chosen = options or SimOptions(raise_on_findings=False)
        report = simulate(launch, memory, chosen, watch=recorder)
    finally:
        program.steps = plain
    return Timeline(launch.kernel.name, recorder.blocks, model, report.counters)


class Recorder:
    """Keeps the clocks.  It is the run's watch as well, to learn which barrier a copy signals."""

    def __init__(self, model: CostModel, sm_count: int) -> None:
        self.model = model
        self.blocks: dict[Any, dict[int | str, list[Span]]] = {}
        self.moments = Moments()
        self._sm_count = sm_count
        self._clock: dict[tuple[Any, int], float] = {}
        self._free: dict[tuple[Any, str], float] = defaultdict(float)
        self._ready: dict[tuple[Any, int, Value], float] = {}
        self._waits: dict[int, tuple[Any, Wait, Op]] = {}
        self._sm_of: dict[Any, int] = {}
        self._sm_free: dict[int, float] = defaultdict(float)
        self._now = 0.0
        """When the instruction that is executed now is issued; waits inside of it raise it."""
        self._moved = 0.0
        """When the bytes of that instruction have moved."""

    # -- steps -------------------------------------------------------------------------------------

    def traced(self, step: Callable[[Any], Any], op: Op) -> Callable[[Any], Any]:
        """The step, timed."""
        uses = [root(v) for v in op.operands]
        makes = [*op.results, *(root(v) for v in written(op))]
        latency, kind = self._latency(op), kind_of(op)

        def run(g: Any) -> Any:
            warps = warps_of(g)
            start = self._start(g, warps, uses)
            self._now = start
            self._moved = start
            signal = step(g)
            if isinstance(op, copy.CpAsyncWait) and self._now > start:
                self._jump(g, warps, self._now, op.name)
                start = self._now
            end = max(self._now, start) + self.model.issue(op, len(warps))
            self._advance(g, warps, start, end, kind, op.name)
            for value in makes:
                self._ready[g.cta.index, warps[0], value] = max(end, self._moved) + latency
            if isinstance(op, mma.WgmmaCommit):
                for warpgroup in g.warpgroups:
                    self.moments.commit(g.cta.index, warpgroup)
            if isinstance(signal, Wait):
                self._waits[id(g)] = (g, signal, op)
            elif isinstance(op, sync.SyncThreads | sync.BarrierSync) and signal is None:
                self._jump(g, warps, self.moments.opened() + self.model.barrier_latency, op.name)
            return signal

        return run

    def resumed(self, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A step between instructions: threads that waited at the end of a branch have waited."""

        def run(g: Any) -> Any:
            if id(g) in self._waits:
                self._end_wait(g, warps_of(g))
            return step(g)

        return run

    def _end_wait(self, g: Any, warps: list[int]) -> None:
        waited = self._waits.pop(id(g), None)
        if waited is not None:
            _, wait, op = waited
            self._jump(g, warps, self._moment(g, wait), op.name)

    def _latency(self, op: Op) -> float:
        spaces = {v.type.space for v in op.operands if isinstance(v.type, PtrType)}
        if isinstance(op, memory.Load | memory.Copy | memory.Atomic):
            if Space.GMEM in spaces:
                return self.model.global_latency
            if spaces & _SHARED:
                return self.model.shared_latency
        return self.model.shared_latency if isinstance(op, copy.LdMatrix) else 0.0

    def _start(self, g: Any, warps: list[int], uses: list[Value]) -> float:
        """When the group can issue: after its clock, what it waited for, and its operands."""
        cta = g.cta
        if (cta.index, warps[0]) not in self._clock:
            self._enter(cta)
        self._end_wait(g, warps)
        now = max(self._clock[cta.index, w] for w in warps)
        needed = max((self._ready.get((cta.index, warps[0], v), 0.0) for v in uses), default=0.0)
        if needed > now:
            self._jump(g, warps, needed, "operands")
        return max(now, needed)

    def _moment(self, g: Any, wait: Wait) -> float:
        if isinstance(wait, MBarrierWait):
            return self.moments.of(g, wait) + self.model.mbarrier_latency
        slow = self.model.barrier_latency if hasattr(wait, "barrier") else 0.0
        return self.moments.of(g, wait) + slow

    def _enter(self, cta: Any) -> None:
        """A block begins on the SM that is free first."""
        number = len(self._sm_of)
        sm = (
            number
            if number < self._sm_count
            else min(self._sm_free, key=lambda s: self._sm_free[s])
        )
        self._sm_of[cta.index] = sm
        self.blocks[cta.index] = defaultdict(list)
        for warp in range(-(-cta.size // 32)):
            self._clock[cta.index, warp] = self._sm_free[sm]

    def _advance(
        self, g: Any, warps: list[int], start: float, end: float, kind: str, label: str
    ) -> None:
        cta = g.cta
        self._sm_free[self._sm_of[cta.index]] = max(end, self._sm_free[self._sm_of[cta.index]])
        lanes = self.blocks[cta.index]
        for w in warps:
            begin = self._clock[cta.index, w]
            self._clock[cta.index, w] = end
            spans = lanes[w]
            if begin < start:
                extend(spans, Span(begin, start, "wait", "other warps"))
            if end > start:
                extend(spans, Span(start, end, kind, label))

    def _jump(self, g: Any, warps: list[int], moment: float, what: str) -> None:
        """The group waits until `moment`."""
        lanes = self.blocks[g.cta.index]
        for w in warps:
            begin = self._clock[g.cta.index, w]
            if moment > begin:
                extend(lanes[w], Span(begin, moment, "wait", what))
                self._clock[g.cta.index, w] = moment

    def _engine(self, cta: Any, lane: str, clocks: float, latency: float, label: str) -> float:
        """Queues work at an engine of the block; when it is done."""
        start = max(self._now, self._free[cta.index, lane])
        end = start + clocks
        self._free[cta.index, lane] = end
        self.blocks[cta.index][lane].append(Span(start, end + latency, lane, label))
        return end + latency

    # -- what the machine says: `sim.watch.Watch` --------------------------------------------------

    def access(
        self,
        g: Any,
        window: Any,
        kind: str,
        address: Any,
        bounds: tuple[int, int],
        size: int,
        op: Op,
        lanes: Any,
        data: Any,
    ) -> None:
        """Accesses queue up; a shared one keeps its issuer until its bytes have moved."""
        del kind, bounds, data
        count = len(lanes) if lanes is not None else g.n if np.size(address) > 1 else 1
        shared = window.init is not None
        rate = self.model.shared_bytes if shared else self.model.global_bytes
        if isinstance(op, copy.CpAsync):
            return
        lane = "shared" if shared else "global"
        start = max(self._now, self._free[g.cta.index, lane])
        self._moved = self._free[g.cta.index, lane] = start + count * size / rate
        if shared:
            self._now = self._moved

    def sync(self, g: Any, kind: str, what: object, op: Op) -> None:
        del g, kind, what, op

    def atomic(self, g: Any, shared: bool, addresses: Any, size: int, op: Op) -> None:
        del g, shared, addresses, size, op

    def silent(self) -> AbstractContextManager[None]:
        return nullcontext()

    def exit(self, g: Any) -> None:
        del g

    def cp_async(self, g: Any, op: Any, src: Any, dst: Any, predicate: Any) -> float:
        del src, dst, predicate
        clocks = g.n * op.bytes / self.model.global_bytes
        return self._engine(
            g.cta, "cp.async", clocks, self.model.global_latency, f"{g.n * op.bytes} B"
        )

    def cp_async_done(self, event: Any, threads: Any) -> None:
        """A thread waits for copies: it goes on when they have landed."""
        del threads
        self._now = max(self._now, event)

    def cp_async_arrive(self, g: Any, where: Any, barrier: Any, op: Op, events: list[Any]) -> None:
        del g, where, op
        self.moments.arrive(barrier, barrier.phase, max(events, default=self._now))

    def cp_async_arrived(self, event: Any) -> None:
        del event

    def tma_load(self, g: Any, lane: int, cta: Any, barrier: Any, op: Op, box: Any) -> Any:
        del g, lane, op
        size = box_bytes(box.tensor)
        clocks = size / self.model.global_bytes
        done = self._engine(cta, "TMA loads", clocks, self.model.tma_latency, f"load {size} B")
        self.moments.arrive(barrier, barrier.phase, done)

    def tma_loaded(self, event: Any) -> None:
        del event

    def tma_store(self, g: Any, lane: int, op: Op, box: Any) -> float:
        del lane, op
        size = box_bytes(box.tensor)
        return self._engine(
            g.cta,
            "TMA stores",
            size / self.model.global_bytes,
            self.model.tma_latency,
            f"store {size} B",
        )

    def bulk_load(
        self, g: Any, lane: int, op: Op, cta: Any, barrier: Any, src: int, dst: int, size: int
    ) -> None:
        del g, lane, op, src, dst
        clocks = size / self.model.global_bytes
        done = self._engine(cta, "TMA loads", clocks, self.model.tma_latency, f"load {size} B")
        self.moments.arrive(barrier, barrier.phase, done)

    def bulk_store(self, g: Any, lane: int, op: Op, src: int, dst: int, size: int) -> float:
        del lane, op, src, dst
        clocks, label = size / self.model.global_bytes, f"store {size} B"
        return self._engine(g.cta, "TMA stores", clocks, self.model.tma_latency, label)

    def store_async(
        self, g: Any, lanes: Any, op: Op, cta: Any, barrier: Any, addresses: Any, size: int
    ) -> None:
        del g, op, cta, addresses
        clocks = len(lanes) * size / self.model.shared_bytes
        self.moments.arrive(barrier, barrier.phase, self._now + clocks + self.model.shared_latency)

    def bulk_waited(self, events: list[Any], *, read: bool) -> None:
        del events, read

    def wgmma(self, g: Any, warpgroup: int, entry: Any) -> tuple[Any, ...]:
        clocks = self.model.wgmma(entry.op)
        done = self._engine(g.cta, "tensor cores", clocks, 0.0, f"wgmma of warpgroup {warpgroup}")
        self.moments.multiply(g.cta.index, warpgroup, done + self.model.wgmma_latency)
        return ()

    def wgmma_done(self, entries: list[Any]) -> None:
        del entries

    def init(self, g: Any, lane: int, offset: int, old: Any, barrier: Any, op: Op) -> None:
        del g, lane, offset, old, barrier, op

    def arrive(self, g: Any, where: Any, cta: Any, barrier: Any, op: Op) -> None:
        del g, where, cta, op
        self.moments.arrive(barrier, barrier.phase, self._now)

    def wait(self, g: Any, barrier: Any, op: Op) -> None:
        del g, barrier, op

    def stuck(self, g: Any, barrier: Any, op: Op) -> None:
        del g, barrier, op

    def may_fail(self, g: Any, barrier: Any, parity: int, op: Op) -> bool:
        del g, barrier, parity, op
        return False

    def named_arrive(self, g: Any, where: Any, barrier: Any, op: Op) -> Any:
        del g, where, op
        return self.moments.arrive_named(barrier, self._now)

    def named_wait(self, g: Any, token: Any) -> None:
        del g
        self.moments.open_named(token)

    def cluster_arrive(self, g: Any, generation: int, *, relaxed: bool) -> None:
        del relaxed
        self.moments.arrive(g.cta.cluster.barrier, generation, self._now)

    def cluster_wait(self, g: Any, generation: int) -> None:
        del g, generation

    def sync_warp(self, g: Any) -> None:
        del g

    def fence(self, g: Any, op: Op) -> None:
        del g, op

    def start(self, cluster: Any) -> None:
        """Kernels that read their clock read the modelled one."""
        cluster.run.clock = lambda _: round(self._now)

    def end(self, cluster: Any) -> None:
        del cluster

    def finish(self) -> None:
        """The run is over."""


_SHARED = {Space.SMEM, Space.DSMEM}


def kind_of(op: Op) -> str:
    """Which colour an instruction has."""
    spaces = {v.type.space for v in op.operands if isinstance(v.type, PtrType)}
    if isinstance(op, copy.TmaLoad | copy.TmaLoadMulticast | copy.TmaStore | copy.CpAsync):
        return "async"
    if op.name.startswith("bulk.") or isinstance(op, bulk.TmaReduce):
        return "async"
    if isinstance(op, mma.Mma | mma.Wgmma | mma.WgmmaRs):
        return "mma"
    if Space.GMEM in spaces and not isinstance(op, memory.Offset):
        return "global"
    if (spaces & _SHARED and not isinstance(op, memory.Offset)) or isinstance(
        op, copy.LdMatrix | copy.StMatrix
    ):
        return "shared"
    return "sync" if op.name.startswith(("sync", "barrier", "mbarrier", "fence")) else "issue"


def root(v: Value) -> Value:
    """The array or pointer that a pointer comes from; other values are their own root."""
    while isinstance(v.owner, memory.Offset | memory.CastPointer):
        v = v.owner.base
    return v


def written(op: Op) -> list[Value]:
    """Register arrays that an operation fills."""
    found = []
    for name in ("dst", "d"):
        v = getattr(op, name, None)
        if isinstance(v, Value) and isinstance(v.type, PtrType) and v.type.space is Space.RMEM:
            found.append(v)
    return found


def warps_of(g: Any) -> list[int]:
    return sorted(set((g.threads >> 5).tolist()))


def extend(spans: list[Span], more: Span) -> None:
    """Appends a span, or lengthens the last one of the same kind."""
    last = spans[-1] if spans else None
    if last is not None and last.kind == more.kind and more.start <= last.end + 1e-9:
        if last.kind == "wait" and last.label != more.label:
            spans.append(more)
        else:
            last.end = more.end
        return
    spans.append(more)
