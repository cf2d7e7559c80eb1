"""Barriers, fences, clusters, and the registers that a warpgroup owns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops import sync
from tilewright.sim.barriers import MAX_ARRIVALS, ClusterBarrier, MBarrier, NamedBarrier
from tilewright.sim.exec_warp import check_full
from tilewright.sim.group import Group
from tilewright.sim.state import Cta, Wait
from tilewright.sim.step import Context, Step, executes
from tilewright.sim.values import Array, Val

NAMED_BARRIERS = 16


def tell(g: Group, kind: str, what: object, op: Op) -> None:
    """Tells those who watch."""
    for watcher in g.run.watchers:
        watcher.sync(g, kind, what, op)


def parts(n: int, *values: Val) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Distinct combinations of the values among `n` lanes: (combination, lanes, first lane)."""
    if all(type(v) is not np.ndarray for v in values):
        yield tuple(int(v) for v in values), n, 0
        return
    rows = np.stack([np.broadcast_to(np.asarray(v, np.int64), (n,)) for v in values], axis=1)
    found, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
    for i in np.argsort(first):
        yield tuple(int(x) for x in found[i]), int(counts[i]), int(first[i])


def differ(n: int, *values: Val) -> Array | None:
    """A number per lane that tells apart the lanes whose values differ; None if none do."""
    if all(type(v) is not np.ndarray for v in values):
        return None
    rows = np.stack([np.broadcast_to(np.asarray(v, np.int64), (n,)) for v in values], axis=1)
    _, keys = np.unique(rows, axis=0, return_inverse=True)
    keys = keys.reshape(-1)
    return keys if keys.any() else None


def lanes_of(g: Group, combination: tuple[int, ...], *values: Val) -> Array | None:
    """The lanes whose values are `combination`; None if all have it."""
    if all(type(v) is not np.ndarray for v in values):
        return None
    same = np.ones(g.n, np.bool_)
    for v, wanted in zip(values, combination, strict=True):
        same &= np.asarray(v) == wanted
    return None if same.all() else np.flatnonzero(same)


# -- named barriers --------------------------------------------------------------------------------


class NamedWait(Wait):
    def __init__(
        self, op: Op, cta: Cta, barrier: NamedBarrier, generation: int, token: Any
    ) -> None:
        super().__init__(op)
        self.cta, self.barrier, self.generation = cta, barrier, generation
        self.token = token

    def ready(self) -> bool:
        return self.barrier.generation != self.generation

    def finish(self, g: Group, *, timed_out: bool) -> None:
        del timed_out
        if g.run.watch is not None:
            g.run.watch.named_wait(g, self.token)

    def describe(self) -> str:
        number = self.barrier.id
        what = f"barrier {number}" if number < NAMED_BARRIERS else f"warp {number - NAMED_BARRIERS}"
        return f"{what}: {self.barrier.state(self.cta.live)}"


def named_barrier(g: Group, number: int) -> NamedBarrier:
    found = g.cta.named.get(number)
    if found is None:
        found = g.cta.named[number] = NamedBarrier(number)
    return found


def _arrive_named(
    g: Group,
    op: Op,
    number: int,
    threads: int,
    count: int,
    where: Array | None = None,
    *,
    waits: bool = True,
) -> Wait | None:
    """Arrives; the wait for the barrier, or None if it has opened."""
    barrier = named_barrier(g, number)
    generation = barrier.generation
    watch = g.run.watch
    token = watch.named_arrive(g, where, barrier, op) if watch is not None else None
    problem = barrier.arrive(threads, count, g.cta.live)
    if problem:
        g.report("barrier", problem, op, 0)
    tell(g, "arrive", barrier, op)
    g.run.counters.barrier_waits += 1
    if barrier.generation != generation:
        tell(g, "wait", barrier, op)
        if watch is not None and waits:
            watch.named_wait(g, token)
        return None
    return NamedWait(op, g.cta, barrier, generation, token)


@executes(sync.SyncThreads)
def sync_threads(op: sync.SyncThreads, context: Context) -> Step:
    del context

    def step(g: Group) -> Wait | None:
        check_full(g, op)
        return _arrive_named(g, op, 0, g.n, 0)

    return step


@executes(sync.BarrierSync)
def barrier_sync(op: sync.BarrierSync, context: Context) -> Step:
    i_id, i_count = context.slot(op.id), context.slot(op.count)

    def step(g: Group) -> Any:
        number, count = g.slots[i_id], g.slots[i_count]
        keys = differ(g.n, number, count)
        if keys is not None:
            return g.split_by(keys)
        check_full(g, op)
        number, count = _one(number), _one(count)
        if not _barrier_fits(g, op, number, count):
            return None
        return _arrive_named(g, op, number, g.n, count)

    return step


@executes(sync.BarrierArrive)
def barrier_arrive(op: sync.BarrierArrive, context: Context) -> Step:
    i_id, i_count = context.slot(op.id), context.slot(op.count)

    def step(g: Group) -> None:
        check_full(g, op)
        values = (g.slots[i_id], g.slots[i_count])
        for both, lanes, _ in parts(g.n, *values):
            number, count = both
            if _barrier_fits(g, op, number, count):
                where = lanes_of(g, both, *values) if g.run.watch is not None else None
                _arrive_named(g, op, number, lanes, count, where, waits=False)

    return step


def _one(v: Val) -> int:
    return int(v[0]) if type(v) is np.ndarray else int(v)


def _barrier_fits(g: Group, op: Op, number: int, count: int) -> bool:
    if 0 <= number < NAMED_BARRIERS and count > 0 and count % 32 == 0:
        return True
    g.report(
        "barrier",
        f"{op.name} of barrier {number} with {count} threads; expected a barrier 0..15 and a "
        "positive multiple of 32",
        op,
        0,
    )
    return False


# -- mbarriers -------------------------------------------------------------------------------------


class MBarrierWait(Wait):
    def __init__(self, op: Op, barrier: MBarrier, parity: int) -> None:
        super().__init__(op)
        self.barrier, self.parity = barrier, parity

    def ready(self) -> bool:
        return self.barrier.passed(self.parity)

    def finish(self, g: Group, *, timed_out: bool) -> None:
        if not timed_out:
            tell(g, "wait", self.barrier, self.op)
            if g.run.watch is not None:
                g.run.watch.wait(g, self.barrier, self.op)

    def stuck(self, g: Group) -> None:
        if g.run.watch is not None:
            g.run.watch.stuck(g, self.barrier, self.op)

    def describe(self) -> str:
        return (
            f"parity {self.parity} of mbarrier {self.barrier.name}, which is {self.barrier.state()}"
        )


class TryWait(MBarrierWait):
    timed = True

    def __init__(self, op: Op, barrier: MBarrier, parity: int, out: int) -> None:
        super().__init__(op, barrier, parity)
        self.out = out

    def finish(self, g: Group, *, timed_out: bool) -> None:
        super().finish(g, timed_out=timed_out)
        g.slots[self.out] = not timed_out


@executes(sync.MBarrierInit)
def mbarrier_init(op: sync.MBarrierInit, context: Context) -> Step:
    i_barrier, i_count = context.slot(op.barrier), context.slot(op.count)

    def step(g: Group) -> None:
        for (address, count), _, lane in parts(g.n, g.slots[i_barrier], g.slots[i_count]):
            window = g.cta.smem
            offset = address - window.start
            if not 0 <= offset <= window.data.size - 8 or offset % 8:
                g.report(
                    "out_of_bounds" if offset % 8 == 0 else "misaligned",
                    f"mbarrier at byte {offset} of {window.data.size} bytes of shared memory; "
                    "expected a multiple of 8 inside",
                    op,
                    lane,
                )
            elif not 1 <= count <= MAX_ARRIVALS:
                g.report(
                    "barrier", f"mbarrier count {count}, expected 1 to {MAX_ARRIVALS}", op, lane
                )
            else:
                name = f"{g.cta.place(offset)} of {g.cta.name}"
                old, barrier = g.cta.mbarriers.get(offset), MBarrier(name, count)
                g.cta.mbarriers[offset] = barrier
                if g.run.watch is not None:
                    g.run.watch.init(g, lane, offset, old, barrier, op)
                if window.init is not None:
                    window.init[offset : offset + 8] = 1

    return step


def find_barrier(g: Group, cta: Cta, address: int, op: Op, lane: int) -> MBarrier | None:
    """The mbarrier at an address, or None after a finding."""
    barrier, offset = cta.barrier_at(address)
    if barrier is None:
        g.report(
            "barrier",
            f"{op.name} on {cta.place(offset)} of {cta.name}, where no mbarrier was initialised",
            op,
            lane,
        )
    return barrier


def _note(g: Group, op: Op, lane: int, problem: str | None) -> None:
    if problem:
        g.report("barrier", problem, op, lane)


@executes(sync.MBarrierArrive, sync.MBarrierArriveExpectTx, sync.MBarrierExpectTx)
def mbarrier_arrive(op: Any, context: Context) -> Step:
    i_barrier = context.slot(op.barrier)
    expects = not isinstance(op, sync.MBarrierArrive)
    arrives = not isinstance(op, sync.MBarrierExpectTx)
    i_bytes = context.slot(op.bytes) if expects else -1

    def step(g: Group) -> None:
        count = g.slots[i_bytes] if expects else 0
        for both, lanes, lane in parts(g.n, g.slots[i_barrier], count):
            address, size = both
            barrier = find_barrier(g, g.cta, address, op, lane)
            if barrier is None:
                continue
            if arrives:
                tell(g, "arrive", barrier, op)
                if g.run.watch is not None:
                    where = lanes_of(g, both, g.slots[i_barrier], count)
                    g.run.watch.arrive(g, where, g.cta, barrier, op)
            if expects:
                _note(g, op, lane, barrier.expect(size * lanes))
            if arrives:
                _note(g, op, lane, barrier.arrive(lanes))

    return step


@executes(sync.MBarrierArriveRemote)
def mbarrier_arrive_remote(op: sync.MBarrierArriveRemote, context: Context) -> Step:
    i_barrier, i_rank = context.slot(op.barrier), context.slot(op.rank)

    def step(g: Group) -> None:
        ctas = g.cta.cluster.ctas
        for both, lanes, lane in parts(g.n, g.slots[i_barrier], g.slots[i_rank]):
            address, rank = both
            if rank >= len(ctas):
                g.report(
                    "out_of_bounds",
                    f"arrival at CTA {rank} of a cluster of {len(ctas)}",
                    op,
                    lane,
                )
                continue
            if ctas[rank].live == 0:
                text = f"arrival at an mbarrier of {ctas[rank].name}, which has exited"
                g.report("barrier", text, op, lane)
            barrier = find_barrier(g, ctas[rank], address, op, lane)
            if barrier is not None:
                tell(g, "arrive", barrier, op)
                if g.run.watch is not None:
                    where = lanes_of(g, both, g.slots[i_barrier], g.slots[i_rank])
                    g.run.watch.arrive(g, where, ctas[rank], barrier, op)
                _note(g, op, lane, barrier.arrive(lanes))

    return step


@executes(sync.MBarrierWait, sync.MBarrierTryWait)
def mbarrier_wait(op: Any, context: Context) -> Step:
    i_barrier, i_parity = context.slot(op.barrier), context.slot(op.parity)
    out = context.slot(op.result) if isinstance(op, sync.MBarrierTryWait) else -1

    def step(g: Group) -> Any:
        address, parity = g.slots[i_barrier], g.slots[i_parity]
        keys = differ(g.n, address, parity)
        if keys is not None:
            return g.split_by(keys)
        barrier = find_barrier(g, g.cta, _one(address), op, 0)
        g.run.counters.barrier_waits += 1
        if barrier is None:
            if out >= 0:
                g.slots[out] = True
            return None
        parity = _one(parity) & 1
        watch = g.run.watch
        if out >= 0 and watch is not None and watch.may_fail(g, barrier, parity, op):
            g.slots[out] = False
            return None
        return TryWait(op, barrier, parity, out) if out >= 0 else MBarrierWait(op, barrier, parity)

    return step


# -- clusters --------------------------------------------------------------------------------------


class ClusterBarrierWait(Wait):
    def __init__(self, op: Op, g: Group, barrier: ClusterBarrier, generation: int) -> None:
        super().__init__(op)
        self.cluster, self.barrier, self.generation = g.cta.cluster, barrier, generation

    def ready(self) -> bool:
        return self.barrier.generation > self.generation

    def finish(self, g: Group, *, timed_out: bool) -> None:
        del timed_out
        tell(g, "wait", self.barrier, self.op)
        if g.run.watch is not None:
            g.run.watch.cluster_wait(g, self.generation)

    def describe(self) -> str:
        return (
            f"the cluster barrier: {self.cluster.live()} threads expected, "
            f"{self.barrier.arrived} have arrived"
        )


@executes(sync.ClusterArrive)
def cluster_arrive(op: sync.ClusterArrive, context: Context) -> Step:
    del context
    relaxed = op.relaxed

    def step(g: Group) -> None:
        check_full(g, op)
        barrier = g.cta.cluster.barrier
        tell(g, "arrive", barrier, op)
        if g.run.watch is not None:
            g.run.watch.cluster_arrive(g, barrier.generation, relaxed=relaxed)
        for t in g.threads.tolist():
            if (g.cta.rank, t) in barrier.phase_of:
                g.report("barrier", "cluster.arrive twice without cluster.wait between", op, 0)
                break
            barrier.phase_of[g.cta.rank, t] = barrier.generation
        barrier.arrived += g.n
        barrier.release(g.cta.cluster.live())

    return step


@executes(sync.ClusterWait)
def cluster_wait(op: sync.ClusterWait, context: Context) -> Step:
    del context

    def step(g: Group) -> Wait | None:
        check_full(g, op)
        barrier = g.cta.cluster.barrier
        phases = [barrier.phase_of.pop((g.cta.rank, t), None) for t in g.threads.tolist()]
        known = [p for p in phases if p is not None]
        g.run.counters.barrier_waits += 1
        if len(known) < g.n:
            g.report("barrier", "cluster.wait without cluster.arrive before it", op, 0)
        return ClusterBarrierWait(op, g, barrier, max(known)) if known else None

    return step
