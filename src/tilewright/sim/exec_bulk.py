"""Bulk copies and reductions of runs of bytes, and asynchronous stores to other CTAs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops import bulk
from tilewright.ir.types import PtrType
from tilewright.numeric.convert import storage_dtype
from tilewright.sim.access import codec
from tilewright.sim.barriers import MBarrier
from tilewright.sim.copies import open_bulk_group
from tilewright.sim.dsmem import check_alive, cta_of
from tilewright.sim.exec_copy import bytes_arrived, lane_value
from tilewright.sim.exec_sync import find_barrier, lanes_of, parts
from tilewright.sim.group import Group
from tilewright.sim.inflight import BulkStore
from tilewright.sim.memory import ALL_INIT, RANK_SHIFT, Window
from tilewright.sim.reductions import combiner
from tilewright.sim.state import Cta
from tilewright.sim.step import Context, Step, executes
from tilewright.sim.values import Array, spread


def _fits(g: Group, op: Op, lane: int, size: int, *addresses: int) -> bool:
    """Whether the engine can copy so many bytes between these addresses; reports what it cannot."""
    if size % bulk.UNIT:
        g.report(
            "misaligned",
            f"{op.name} of {size} bytes, which are no multiple of {bulk.UNIT}",
            op,
            lane,
            hint="copy the rest with ordinary loads and stores",
        )
    for address in addresses:
        if address % bulk.UNIT:
            g.report(
                "misaligned",
                f"{op.name} at address {address:#x}, which is {address % bulk.UNIT} bytes behind "
                f"a multiple of {bulk.UNIT}",
                op,
                lane,
            )
    return not any(x % bulk.UNIT for x in (size, *addresses))


def _global(g: Group, op: Op, lane: int, address: int, size: int) -> Array | None:
    """The bytes of global memory of a copy."""
    window = g.run.memory.window(address)
    if window is None or address + size > window.end:
        wrong = address if window is None else address + size - 1
        g.report(
            "out_of_bounds",
            f"{op.name} of {size} bytes at {address:#x}: {g.run.memory.describe(wrong)}",
            op,
            lane,
        )
        return None
    return window.data[address - window.start : address - window.start + size]


def _shared(
    g: Group, op: Op, lane: int, cta: Cta | None, address: int, size: int
) -> tuple[Window, slice] | None:
    """The bytes of a CTA's shared memory of a copy."""
    if cta is None:
        ctas = len(g.cta.cluster.ctas)
        g.report("out_of_bounds", f"{op.name} to a CTA beyond the cluster's {ctas}", op, lane)
        return None
    window = cta.smem
    at = address - window.start
    if at < 0 or at + size > window.data.size:
        g.report(
            "out_of_bounds",
            f"{op.name} of {size} bytes at byte {at} leaves the block's {window.data.size} bytes "
            "of shared memory",
            op,
            lane,
        )
        return None
    return window, slice(at, at + size)


def _counting(
    g: Group, op: Op, lane: int, cta: Cta, address: int, destination: Cta
) -> MBarrier | None:
    """The barrier that counts what arrives at `destination`, or None after a finding."""
    if cta is not destination:
        g.report(
            "barrier",
            f"{op.name} writes to {destination.name} and counts on an mbarrier of {cta.name}; "
            "both must lie in one block",
            op,
            lane,
        )
        return None
    return find_barrier(g, cta, address, op, lane)


@executes(bulk.BulkLoad, bulk.BulkLoadMulticast, bulk.BulkSend)
def bulk_load(op: Any, context: Context) -> Step:
    values = (op.src, op.dst, op.barrier, op.bytes)
    slots = context.slots(values)
    i_mask = context.slot(op.mask) if isinstance(op, bulk.BulkLoadMulticast) else -1

    def step(g: Group) -> None:
        for lane in range(g.n):
            src, dst, at, size = (int(lane_value(g.slots[i], lane)) for i in slots)
            if not _fits(g, op, lane, size, src, dst):
                continue
            if i_mask < 0:
                _load_one(g, op, lane, src, dst, at, size)
                continue
            mask = int(lane_value(g.slots[i_mask], lane))
            for rank in range(mask.bit_length()):
                if mask >> rank & 1:
                    there, counter = _in_rank(dst, rank), _in_rank(at, rank)
                    _load_one(g, op, lane, src, there, counter, size)

    return step


def _in_rank(address: int, rank: int) -> int:
    """The same offset in the shared memory of another CTA."""
    return address % (1 << RANK_SHIFT) + (rank << RANK_SHIFT)


def _load_one(g: Group, op: Op, lane: int, src: int, dst: int, at: int, size: int) -> None:
    """A copy into one CTA, if it can be done."""
    cta, counter = cta_of(g, dst), cta_of(g, at)
    target = _shared(g, op, lane, cta, dst, size)
    if cta is None or counter is None or target is None:
        return
    check_alive(g, cta, op, lane)
    barrier = _counting(g, op, lane, counter, at, cta)
    if isinstance(op, bulk.BulkSend):
        found = _shared(g, op, lane, g.cta, src, size)
        source = found[0].data[found[1]] if found else None
    else:
        source = _global(g, op, lane, src, size)
    if barrier is not None and source is not None:
        _copy_into(g, op, lane, cta, barrier, (src, dst), source, target)


def _copy_into(
    g: Group,
    op: Op,
    lane: int,
    cta: Cta,
    barrier: MBarrier,
    addresses: tuple[int, int],
    source: Array,
    target: tuple[Window, slice],
) -> None:
    """Issues a copy of bytes into shared memory, which `barrier` counts."""
    run, (window, rows) = g.run, target
    size = len(source)
    src, dst = addresses
    event = None
    if run.watch is not None:
        event = run.watch.bulk_load(g, lane, op, cta, barrier, src, dst, size)

    def finish() -> None:
        window.data[rows] = source
        assert window.init is not None, "shared memory tracks what was written"
        window.init[rows] = 1
        bytes_arrived(g, op, lane, barrier, size, event)

    cta.cluster.issue(finish, cta, "a bulk copy", op)


@executes(bulk.BulkStore, bulk.BulkReduce)
def bulk_store(op: Any, context: Context) -> Step:
    i_src, i_dst, i_size = context.slots((op.src, op.dst, op.bytes))

    def step(g: Group) -> None:
        s = g.slots
        for lane in range(g.n):
            src, dst, size = (int(lane_value(s[i], lane)) for i in (i_src, i_dst, i_size))
            if not _fits(g, op, lane, size, src, dst):
                continue
            source, target = _shared(g, op, lane, g.cta, src, size), _global(g, op, lane, dst, size)
            if source is not None and target is not None:
                _copy_out(g, op, lane, (src, dst), source, target)

    return step


def _copy_out(
    g: Group,
    op: Any,
    lane: int,
    addresses: tuple[int, int],
    source: tuple[Window, slice],
    target: Array,
) -> None:
    """Issues a copy of bytes out of shared memory, in the thread's bulk group."""
    store = BulkStore(op)
    open_bulk_group(g.cta, int(g.threads[lane])).stores.append(store)
    run, cta = g.run, g.cta
    if run.watch is not None:
        store.event = run.watch.bulk_store(g, lane, op, *addresses, len(target))
    window, rows = source

    def read() -> None:
        assert window.init is not None, "shared memory tracks what was written"
        if run.options.check_uninitialised and not window.init[rows].all():
            at = rows.start + int(np.argmin(window.init[rows]))
            g.report(
                "uninitialised",
                f"{op.name} reads shared memory at {cta.place(at)} that nothing has written",
                op,
                lane,
            )
        data = window.data[rows].copy()
        store.read = True

        def write() -> None:
            _write_out(op, target, data)
            run.counters.tma_stored += len(data)
            store.done = True

        cta.cluster.issue(write, cta, "the writes of a bulk store", op)

    cta.cluster.issue(read, cta, "a bulk store", op)


def _write_out(op: Any, target: Array, data: Array) -> None:
    if not isinstance(op, bulk.BulkReduce):
        target[...] = data
        return
    t = op.src.type
    assert isinstance(t, PtrType), "constraint SMEM"
    held = storage_dtype(t.dtype)
    changed = combiner(op.kind, t.dtype)(target.copy().view(held), data.view(held))
    target[...] = changed.view(np.uint8)


@executes(bulk.StoreAsync)
def store_async(op: bulk.StoreAsync, context: Context) -> Step:
    i_dst, i_value, i_barrier = context.slots((op.dst, op.value, op.barrier))
    t = op.value.type
    size, _, encode = codec(t.dtype, t.count)  # type: ignore[union-attr]

    def step(g: Group) -> None:
        s = g.slots
        where = np.broadcast_to(np.asarray(s[i_dst], np.int64), (g.n,))
        data = encode(spread(s[i_value], t, g.n))
        for (at,), _, lane in parts(g.n, s[i_barrier]):
            counter = cta_of(g, at)
            lanes = lanes_of(g, (at,), s[i_barrier])
            lanes = np.arange(g.n) if lanes is None else lanes
            good = [i for i in lanes.tolist() if _lands(g, op, i, int(where[i]), size, counter)]
            if not good or counter is None:
                continue
            check_alive(g, counter, op, good[0])
            barrier = find_barrier(g, counter, at, op, lane)
            if barrier is not None:
                some = np.array(good)
                _store_into(g, op, some, counter, barrier, where[some], data[some])

    return step


def _lands(g: Group, op: Op, lane: int, address: int, size: int, counter: Cta | None) -> bool:
    """Whether one lane's store can be done; reports why not."""
    cta = cta_of(g, address)
    if _shared(g, op, lane, cta, address, size) is None or cta is None:
        return False
    if address % size:
        g.report(
            "misaligned",
            f"{op.name} of {size} bytes at {cta.place(address - cta.smem.start)}, which is "
            f"{address % size} bytes behind a multiple of {size}",
            op,
            lane,
        )
        return False
    if cta is not counter:
        other = counter.name if counter is not None else "no block of the cluster"
        g.report(
            "barrier",
            f"{op.name} writes to {cta.name} and counts on an mbarrier of {other}; both must lie "
            "in one block",
            op,
            lane,
        )
        return False
    return True


def _store_into(
    g: Group, op: Op, lanes: Array, cta: Cta, barrier: MBarrier, addresses: Array, data: Array
) -> None:
    run, window, size = g.run, cta.smem, data.itemsize
    event = None
    if run.watch is not None:
        event = run.watch.store_async(g, lanes, op, cta, barrier, addresses, size)

    def finish() -> None:
        first, rows = window.rows(size)
        where = (addresses - first) // size
        rows[where] = data
        window.init_rows(size)[where] = ALL_INIT[size]
        run.counters.shared_written += size * len(lanes)
        if run.watch is not None:
            run.watch.tma_loaded(event)
        wrong = barrier.complete_bytes(size * len(lanes))
        if wrong:
            g.report("barrier", wrong, op, int(lanes[0]))

    cta.cluster.issue(finish, cta, "an asynchronous store", op)
