"""Bulk copies and reductions, asynchronous stores, and arrivals behind cp.async."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tilewright.ir.ops import bulk, copy, memory, sync
from tilewright.numeric.convert import storage_dtype
from tilewright.numeric.dtypes import BF16, F16, F32, I32, U32, U64, dtype
from tilewright.sim.machine import SimOptions, TensorMap
from tilewright.sim.reductions import combiner

ALL = SimOptions(raise_on_findings=False, check_races=True, check_global=True)


def texts(report):
    return [f"{f.kind}: {f.message}" for f in report.findings]


def once(k, body):
    k.if_(k.cmp("eq", k.tid(), 0), body)


def barrier(k, arrivals=1, label="bar"):
    bar = k.shared(U64, 1, align=8, label=label)

    def init():
        k.do(sync.MBarrierInit, bar, k.u32(arrivals))
        k.do(sync.FenceMBarrierInit)

    once(k, init)
    k.do(sync.SyncThreads)
    return bar


def loads(k, x, s, bar, nbytes, expected):
    """One bulk load by thread 0, and everybody's wait."""

    def issue():
        k.do(sync.MBarrierArriveExpectTx, bar, k.u32(expected))
        k.do(bulk.BulkLoad, x, s, bar, nbytes)

    once(k, issue)
    k.do(sync.MBarrierWait, bar, k.u32(0))


@pytest.mark.parametrize("seed", range(4))
def test_in_and_out(kit, seed):
    k = kit(kit.gmem(F32), kit.gmem(F32))
    x, y = k.args
    s = k.shared(F32, 64, label="s")
    bar = barrier(k)
    loads(k, x, s, bar, k.u32(256), 256)

    def out():
        k.do(bulk.BulkStore, s, y, k.u32(256))
        k.do(copy.BulkCommit)
        k.do(copy.BulkWait, pending=0, read=False)

    once(k, out)
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    options = SimOptions(seed=seed, check_races=True, check_global=True)
    report = k.run(a, b, options=options)
    np.testing.assert_array_equal(b, a)
    assert (report.counters["tma_loaded_bytes"], report.counters["tma_stored_bytes"]) == (256, 256)


FAULTS = {
    "size": (200, 0, "misaligned: bulk.load of 200 bytes, which are no multiple of 16"),
    "address": (
        64, 1, "misaligned: bulk.load at address 0x7f0000000004, which is 4 bytes behind a "
        "multiple of 16",
    ),
    "global": (512, 0, "out_of_bounds: bulk.load of 512 bytes at 0x7f0000000000: 255 bytes behind "
               "the end of arg0 (256 bytes)"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_load_that_cannot_be(kit, name):
    nbytes, offset, text = FAULTS[name]
    k = kit(kit.gmem(F32), kit.scalar(U32), kit.scalar(I32))
    s = k.shared(F32, 128, label="s")
    bar = k.shared(U64, 1, align=8, label="bar")
    moved = k.v(memory.CastPointer, k.at(k.args[0], k.args[2]), dtype="f32", align=16)

    def issue():
        k.do(sync.MBarrierInit, bar, k.u32(1))
        k.do(sync.FenceMBarrierInit)
        k.do(bulk.BulkLoad, moved, s, bar, k.args[1])

    once(k, issue)
    report = k.run(np.zeros(64, np.float32), nbytes, offset, options=ALL)
    assert texts(report)[0] == text


def test_a_load_that_leaves_shared_memory(kit):
    k = kit(kit.gmem(F32))
    bar = barrier(k)
    s = k.shared(F32, 32, label="s")
    once(k, lambda: k.do(bulk.BulkLoad, k.args[0], s, bar, k.u32(256)))
    report = k.run(np.zeros(64, np.float32), quiet=True)
    assert texts(report) == [
        "out_of_bounds: bulk.load of 256 bytes at byte 16 leaves the block's 144 bytes of shared "
        "memory"
    ]


def test_a_load_that_nobody_waits_for(kit):
    k = kit(kit.gmem(F32))
    s = k.shared(F32, 64, label="s")
    bar = barrier(k)
    once(k, lambda: k.do(bulk.BulkLoad, k.args[0], s, bar, k.u32(256)))
    report = k.run(np.zeros(64, np.float32), options=ALL)
    assert texts(report) == [
        "in_flight: block (0, 0, 0) exits while bulk.load into its shared memory is in flight: "
        "nobody waited for it"
    ]


@pytest.mark.parametrize(
    ("kind", "t"), [(kind, t) for kind in bulk.REDUCTIONS for t in bulk.REDUCIBLE[kind]]
)
def test_reductions_of_every_type(kit, kind, t):
    element = dtype(t)
    k = kit(kit.gmem(element), kit.gmem(element))
    x, y = k.args
    count = 32
    s = k.shared(element, count, label="s")
    k.store(s, k.tid(), k.load(x, k.tid()))
    k.do(sync.FenceProxyAsync)
    k.do(sync.SyncThreads)

    def out():
        k.b.append(bulk.BulkReduce((s, y, k.u32(count * element.bits // 8)), {"kind": kind}))
        k.do(copy.BulkCommit)
        k.do(copy.BulkWait, pending=0, read=False)

    once(k, out)
    held = storage_dtype(element)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 9, count).astype(held) for _ in range(2))
    expected = combiner(kind, element)(b, a)
    k.run(a, b, options=SimOptions(check_races=True, check_global=True))
    np.testing.assert_array_equal(b, expected)


def test_what_reductions_compute():
    old, new = np.array([0, 3, 5, 7], np.uint32), np.array([5, 5, 5, 5], np.uint32)
    assert combiner("inc", U32)(old, new).tolist() == [1, 4, 0, 0]
    assert combiner("dec", U32)(old, new).tolist() == [5, 2, 4, 5]
    half = np.array([2048], np.float16)
    assert combiner("add", F16)(half, np.array([1], np.float16)) == half  # rounded once
    nan = np.array([np.nan], np.float32)
    assert combiner("max", F32)(nan, np.array([1.0], np.float32)) == 1.0
    assert combiner("add", BF16)(
        np.array([256], bfloat16), np.array([1], bfloat16)
    ) == np.array([256], bfloat16)  # fmt: skip


def test_a_tensor_that_cannot_be_reduced(kit):
    k = kit(kit.tensormap())
    s = k.shared(dtype("u8"), 64, align=128, label="s")
    k.store(s, k.tid(), k.c(1, dtype("u8")))
    k.do(sync.FenceProxyAsync)
    k.do(sync.SyncThreads)
    zero = k.c(0, I32)
    once(k, lambda: k.b.append(bulk.TmaReduce((k.args[0], s, zero), {"kind": "add"})))
    tensor = TensorMap("u8", k.map(np.zeros(64, np.uint8)), (64,), (), (32,), "none", False)
    report = k.run(tensor, quiet=True)
    assert texts(report) == ["descriptor: add cannot reduce a tensor of u8"]


def pair(k):
    """A buffer and a barrier, and those of the other block of a pair."""
    s = k.shared(F32, 128, label="s")
    bar = barrier(k)
    other = k.cast(k.mod(k.add(k.special("cluster_rank"), 1), 2), U32)
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)
    return s, bar, k.v(memory.MapShared, s, other), k.v(memory.MapShared, bar, other), other


def test_stores_count_at_the_block_that_receives(kit):
    k = kit(kit.gmem(F32))
    s, bar, there, _, _ = pair(k)
    own = k.v(memory.MapShared, bar, k.cast(k.special("cluster_rank"), U32))
    value = k.load(k.args[0], 0, 4)
    k.do(bulk.StoreAsync, k.at(there, k.mul(k.tid(), 4), 4), value, own)
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)
    x = np.zeros(64, np.float32)
    report = k.run(x, grid=2, cluster=(2, 1, 1), quiet=True)
    assert report.findings[0].message.endswith(
        "counts on an mbarrier of block (0, 0, 0) (rank 0); both must lie in one block"
    ) or report.findings[0].message.endswith(
        "counts on an mbarrier of block (1, 0, 0) (rank 1); both must lie in one block"
    )
    assert s is not None


def test_a_store_at_an_odd_place(kit):
    k = kit(kit.gmem(F32))
    s, _, there, far, _ = pair(k)
    odd = k.v(memory.CastPointer, k.at(there, 1), dtype="f32", align=16)
    once(k, lambda: k.do(bulk.StoreAsync, odd, k.load(k.args[0], 0, 4), far))
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)
    report = k.run(np.zeros(64, np.float32), grid=2, cluster=(2, 1, 1), quiet=True)
    assert texts(report) == [
        "misaligned: bulk.store_async of 16 bytes at s[1], which is 4 bytes behind a multiple of 16"
    ]
    assert s is not None


@pytest.mark.parametrize("seed", range(6))
def test_an_arrival_counts_for_all_earlier_copies(kit, seed):
    """Waiting for the second arrival alone is enough for what the first one has counted."""
    k = kit(kit.gmem(I32), kit.gmem(I32))
    x, y = k.args
    s = k.shared(I32, 64, label="s")
    bars = [barrier(k, 32, f"bar{i}") for i in range(2)]
    t = k.tid()
    for i, bar in enumerate(bars):
        at = k.add(t, 32 * i)
        k.do(copy.CpAsync, k.at(x, at), k.at(s, at), bytes=4, cache="ca")
        k.do(copy.CpAsyncArrive, bar)
        if i == 0 and seed % 2:  # the first arrival may have come already
            k.do(sync.MBarrierWait, bar, k.u32(0))
    k.do(sync.MBarrierWait, bars[1], k.u32(0))
    k.store(y, t, k.add(k.load(s, k.sub(31, t)), k.load(s, k.sub(63, t))))
    if seed % 2 == 0:
        k.do(sync.MBarrierWait, bars[0], k.u32(0))
    a, got = np.arange(64, dtype=np.int32), np.zeros(32, np.int32)
    k.run(a, got, options=SimOptions(seed=seed, check_races=True))
    np.testing.assert_array_equal(got, (a[:32] + a[32:])[::-1])


@pytest.mark.parametrize("seed", range(4))
def test_threads_may_wait_for_groups_as_well(kit, seed):
    k = kit(kit.gmem(I32), kit.gmem(I32))
    x, y = k.args
    s = k.shared(I32, 32, label="s")
    bar = barrier(k, 32)
    t = k.tid()
    k.do(copy.CpAsync, k.at(x, t), k.at(s, t), bytes=4, cache="ca")
    k.do(copy.CpAsyncCommit)
    k.do(copy.CpAsyncArrive, bar)
    k.do(copy.CpAsyncWait, pending=0)
    own = k.load(s, t)  # its own copy: no barrier needed
    k.do(sync.SyncThreads)
    k.store(y, t, k.add(own, k.load(s, k.sub(31, t))))
    k.do(sync.MBarrierWait, bar, k.u32(0))
    a, got = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    k.run(a, got, options=SimOptions(seed=seed, check_races=True))
    assert (got == 31).all()
