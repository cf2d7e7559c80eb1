"""Matrix loads and stores, cp.async, and the instructions of the bulk tensor engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops import bulk, copy
from tilewright.ir.types import Space
from tilewright.sim import tma
from tilewright.sim.access import Access
from tilewright.sim.barriers import MBarrier
from tilewright.sim.copies import (
    BulkWait,
    commit_bulk_group,
    finish_copies,
    finish_issued,
    open_bulk_group,
)
from tilewright.sim.exec_sync import find_barrier, lanes_of, parts
from tilewright.sim.exec_warp import WARP, check_full
from tilewright.sim.group import Group
from tilewright.sim.inflight import BulkStore, CpAsyncBatch
from tilewright.sim.memory import RANK_SHIFT
from tilewright.sim.state import Cta, Wait
from tilewright.sim.step import Context, Step, executes
from tilewright.sim.tensormap import TensorMap
from tilewright.sim.values import INT64, Array, Val


def nothing(g: Group) -> None:
    """An instruction that changes nothing here."""
    del g


# -- matrices ------------------------------------------------------------------------------------


def _row_lanes(g: Group, num: int) -> Array:
    """Positions in the group of the lanes whose addresses count: the first 8 * num of each warp."""
    return np.arange(g.n).reshape(-1, WARP)[:, : 8 * num].reshape(-1)


def _whole_warps(g: Group, op: Op) -> bool:
    check_full(g, op)
    return g.full and g.n % WARP == 0


@executes(copy.LdMatrix)
def ldmatrix(op: copy.LdMatrix, context: Context) -> Step:
    i_src, i_dst = context.slot(op.src), context.slot(op.dst)
    num, transpose = op.num, op.transpose
    access = Access(op, Space.SMEM, 16)

    def step(g: Group) -> None:
        if not _whole_warps(g, op):
            return
        lanes = _row_lanes(g, num)
        address = np.broadcast_to(np.asarray(g.slots[i_src], INT64), (g.n,))[lanes]
        rows = access.read(g, address, lanes)
        matrices = rows.view(np.uint16).reshape(-1, num, 8, 8)
        if transpose:
            matrices = matrices.swapaxes(2, 3)
        # Lane 4*row + pair holds elements 2*pair, 2*pair + 1 of its row, matrix after matrix.
        held = matrices.reshape(-1, num, WARP, 2).swapaxes(1, 2).reshape(g.n, 2 * num)
        array, at = g.slots[i_dst]
        array.write_bytes(g, at, np.ascontiguousarray(held).view(np.uint8), op)

    return step


@executes(copy.StMatrix)
def stmatrix(op: copy.StMatrix, context: Context) -> Step:
    i_src, i_dst = context.slot(op.src), context.slot(op.dst)
    num, transpose = op.num, op.transpose
    access = Access(op, Space.SMEM, 16)

    def step(g: Group) -> None:
        if not _whole_warps(g, op):
            return
        array, at = g.slots[i_src]
        held = np.ascontiguousarray(array.read_bytes(g, at, 4 * num, op)).view(np.uint16)
        matrices = held.reshape(-1, WARP, num, 2).swapaxes(1, 2).reshape(-1, num, 8, 8)
        if transpose:
            matrices = matrices.swapaxes(2, 3)
        lanes = _row_lanes(g, num)
        address = np.broadcast_to(np.asarray(g.slots[i_dst], INT64), (g.n,))[lanes]
        rows = np.ascontiguousarray(matrices).reshape(-1).view(access.carrier)
        access.write(g, address, rows, lanes)

    return step


# -- cp.async ------------------------------------------------------------------------------------


@executes(copy.CpAsync)
def cp_async(op: copy.CpAsync, context: Context) -> Step:
    i_src, i_dst = context.slot(op.src), context.slot(op.dst)
    i_predicate = context.slot(op.predicate[0]) if op.predicate else -1
    fetch, put = Access(op, Space.GMEM, op.bytes), Access(op, Space.SMEM, op.bytes)

    def move(g: Group, src: Val, dst: Val, predicate: Val) -> None:
        if type(predicate) is not np.ndarray:
            data = fetch.read(g, src) if predicate else np.zeros(1, fetch.carrier)
        else:
            data = np.zeros(g.n, fetch.carrier)
            lanes = np.flatnonzero(predicate)
            if len(lanes):
                some = src[lanes] if type(src) is np.ndarray else src
                data[lanes] = fetch.read(g, some, lanes)
        put.write(g, dst, data)

    def step(g: Group) -> None:
        s = g.slots
        predicate = s[i_predicate] if i_predicate >= 0 else True
        tags = g.cta.copy_groups[g.rows].copy()
        src, dst, watch = s[i_src], s[i_dst], g.run.watch
        event = watch.cp_async(g, op, src, dst, predicate) if watch is not None else None
        batch = CpAsyncBatch(g.threads, tags, src, dst, predicate, move, g.cta.copies_issued)
        batch.event = event
        g.cta.copies_issued += 1
        g.cta.copies.append(batch)

    return step


@executes(copy.CpAsyncCommit)
def cp_async_commit(op: copy.CpAsyncCommit, context: Context) -> Step:
    del op, context

    def step(g: Group) -> None:
        g.cta.copy_groups[g.rows] += 1

    return step


@executes(copy.CpAsyncWait)
def cp_async_wait(op: copy.CpAsyncWait, context: Context) -> Step:
    del context
    pending = op.pending

    def step(g: Group) -> None:
        finish_copies(g, pending)

    return step


@executes(copy.CpAsyncArrive)
def cp_async_arrive(op: copy.CpAsyncArrive, context: Context) -> Step:
    i_barrier = context.slot(op.barrier)

    def step(g: Group) -> None:
        for (address,), _, lane in parts(g.n, g.slots[i_barrier]):
            barrier = find_barrier(g, g.cta, address, op, lane)
            if barrier is not None:
                where = lanes_of(g, (address,), g.slots[i_barrier])
                _arrive_later(g, op, barrier, np.arange(g.n) if where is None else where)

    return step


def _arrive_later(g: Group, op: Op, barrier: MBarrier, lanes: Array) -> None:
    """Arrives as soon as the copies that these lanes have issued so far are there."""
    cta, watch = g.cta, g.run.watch
    threads, issued = g.threads[lanes], cta.copies_issued
    events = []
    if watch is not None:
        mine = [b for b in cta.copies if not b.moved and np.isin(b.threads, threads).any()]
        events = [batch.event for batch in mine]
    event = watch.cp_async_arrive(g, lanes, barrier, op, events) if watch is not None else None

    def finish() -> None:
        finish_issued(cta, threads, issued)
        if watch is not None:
            watch.cp_async_arrived(event)
        wrong = barrier.arrive(len(threads))
        if wrong:
            g.report("barrier", wrong, op, int(lanes[0]))

    cta.cluster.issue(finish, cta, "an arrival of cp.async", op)


# -- the bulk tensor engine ------------------------------------------------------------------------


def lane_value(v: Val, i: int) -> Any:
    """The value of one lane as a Python number (or tensor map)."""
    if type(v) is not np.ndarray:
        return v
    found = v[i] if v.shape[0] > 1 else v[0]
    return found.item() if isinstance(found, np.generic) else found


def _usable(
    g: Group, op: Op, tensor: TensorMap, address: int, coords: tuple[int, ...], lane: int
) -> bool:
    """Reports what keeps the engine from doing the copy; only some of it stops the copy."""
    problem = tma.map_problem(tensor, len(coords))
    if problem:
        g.report("descriptor", problem, op, lane)
        return False
    load = isinstance(op, copy.TmaLoad | copy.TmaLoadMulticast)
    problem = tma.coordinate_problem(tensor, coords, load=load)
    if problem:
        g.report("misaligned", problem, op, lane)
        return False
    problem = tma.address_problem(tensor, address)
    if problem:
        g.report("misaligned", problem, op, lane)
        return address % tma.UNIT == 0
    return True


def _shared_rows(
    g: Group, op: Op, tensor: TensorMap, cta: Cta, address: int, lane: int
) -> Array | None:
    rows = tma.unit_rows(tensor, cta.smem, address)
    if rows is None:
        g.report(
            "out_of_bounds",
            f"the box of {tma.box_bytes(tensor)} bytes at {address - cta.smem.start} leaves the "
            f"block's {cta.smem.data.size} bytes of shared memory",
            op,
            lane,
        )
    return rows


def _load_into(
    g: Group,
    op: Op,
    lane: int,
    cta: Cta,
    tensor: TensorMap,
    local: tuple[int, int],
    coords: tuple[int, ...],
) -> None:
    """Issues the copy of one box into one CTA; `local`: addresses without rank."""
    at, barrier_at = ((cta.rank << RANK_SHIFT) | a for a in local)
    barrier = find_barrier(g, cta, barrier_at, op, lane)
    rows = _shared_rows(g, op, tensor, cta, at, lane)
    if barrier is None or rows is None:
        return
    size = tma.box_bytes(tensor)
    run = g.run
    box = tma.Box(tensor, coords, at, rows)
    event = run.watch.tma_load(g, lane, cta, barrier, op, box) if run.watch is not None else None

    def finish() -> None:
        data, problem = tma.load_box(run.memory, tensor, coords)
        if problem:
            g.report(
                "out_of_bounds",
                f"a TMA load of {tensor.dtype} box {tensor.box} at {coords} reads {problem}",
                op,
                lane,
            )
        window = cta.smem
        window.rows(tma.UNIT)[1][rows] = data.view(np.complex128)
        window.init_rows(tma.UNIT)[rows] = 0x0101010101010101
        bytes_arrived(g, op, lane, barrier, size, event)

    cta.cluster.issue(finish, cta, "a TMA load", op)


def bytes_arrived(g: Group, op: Op, lane: int, barrier: Any, size: int, event: Any) -> None:
    """An engine's load has landed: it is counted, watched, and completes bytes of its barrier."""
    run = g.run
    run.counters.tma_loaded += size
    if run.watch is not None:
        run.watch.tma_loaded(event)
    wrong = barrier.complete_bytes(size)
    if wrong:
        g.report("barrier", wrong, op, lane)


@executes(copy.TmaLoad, copy.TmaLoadMulticast)
def tma_load(op: Any, context: Context) -> Step:
    i_map, i_dst, i_barrier = (context.slot(v) for v in (op.tensormap, op.dst, op.barrier))
    i_coords = context.slots(op.coords)
    i_mask = context.slot(op.mask) if isinstance(op, copy.TmaLoadMulticast) else -1
    local = (1 << RANK_SHIFT) - 1

    def step(g: Group) -> None:
        s = g.slots
        ctas = g.cta.cluster.ctas
        for lane in range(g.n):
            tensor = lane_value(s[i_map], lane)
            address = int(lane_value(s[i_dst], lane))
            barrier = int(lane_value(s[i_barrier], lane)) & local
            coords = tuple(int(lane_value(s[i], lane)) for i in i_coords)
            if not _usable(g, op, tensor, address, coords, lane):
                continue
            mask = int(lane_value(s[i_mask], lane)) if i_mask >= 0 else 1 << g.cta.rank
            if mask >> len(ctas):
                g.report(
                    "descriptor",
                    f"multicast mask {mask:#x} names CTAs beyond the cluster's {len(ctas)}",
                    op,
                    lane,
                )
            for cta in ctas:
                if mask >> cta.rank & 1:
                    _load_into(g, op, lane, cta, tensor, (address & local, barrier), coords)

    return step


@executes(copy.TmaStore, bulk.TmaReduce)
def tma_store(op: Any, context: Context) -> Step:
    i_map, i_src = context.slot(op.tensormap), context.slot(op.src)
    i_coords = context.slots(op.coords)

    def step(g: Group) -> None:
        s = g.slots
        for lane in range(g.n):
            tensor = lane_value(s[i_map], lane)
            address = int(lane_value(s[i_src], lane))
            coords = tuple(int(lane_value(s[i], lane)) for i in i_coords)
            if _usable(g, op, tensor, address, coords, lane):
                _store_from(g, op, lane, tensor, address, coords)

    return step


def _store_from(
    g: Group, op: Op, lane: int, tensor: TensorMap, address: int, coords: tuple[int, ...]
) -> None:
    reduction = op.kind if isinstance(op, bulk.TmaReduce) else ""
    if reduction and tensor.dtype not in bulk.REDUCIBLE[reduction]:
        g.report("descriptor", f"{reduction} cannot reduce a tensor of {tensor.dtype}", op, lane)
        return
    what = "a TMA reduction" if reduction else "a TMA store"
    rows = _shared_rows(g, op, tensor, g.cta, address, lane)
    if rows is None:
        return
    store = BulkStore(op)
    open_bulk_group(g.cta, int(g.threads[lane])).stores.append(store)
    run, cta, window = g.run, g.cta, g.cta.smem
    if run.watch is not None:
        store.event = run.watch.tma_store(g, lane, op, tma.Box(tensor, coords, address, rows))

    def read() -> None:
        init = window.init_rows(tma.UNIT).take(rows, axis=0).view(np.uint8)
        if run.options.check_uninitialised and not tma.is_written(tensor, coords, init):
            g.report(
                "uninitialised",
                f"{what} reads shared memory at {cta.place(address - window.start)} that "
                "nothing has written",
                op,
                lane,
            )
        data = window.rows(tma.UNIT)[1].take(rows).view(np.uint8)
        store.read = True

        def write() -> None:
            if reduction:
                problem = tma.reduce_box(run.memory, tensor, coords, data, reduction)
            else:
                problem = tma.store_box(run.memory, tensor, coords, data)
            if problem:
                g.report(
                    "out_of_bounds",
                    f"{what} of {tensor.dtype} box {tensor.box} at {coords} writes {problem}",
                    op,
                    lane,
                )
            run.counters.tma_stored += len(data)
            store.done = True

        cta.cluster.issue(write, cta, f"the writes of {what}", op)

    cta.cluster.issue(read, cta, what, op)


@executes(copy.BulkCommit)
def bulk_commit(op: copy.BulkCommit, context: Context) -> Step:
    del op, context

    def step(g: Group) -> None:
        for t in g.threads.tolist():
            commit_bulk_group(g.cta, t)

    return step


@executes(copy.BulkWait)
def bulk_wait(op: copy.BulkWait, context: Context) -> Step:
    del context
    pending, read = op.pending, op.read

    def step(g: Group) -> Wait:
        return BulkWait(op, g, pending, read)

    return step


@executes(copy.PrefetchDescriptor)
def prefetch(op: copy.PrefetchDescriptor, context: Context) -> Step:
    del op, context
    return nothing
