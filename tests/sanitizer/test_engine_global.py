"""Global memory, on request: blocks, atomics with semantics and scopes, TMA."""

from __future__ import annotations

import numpy as np
import pytest
from engine_checks import check, expect

from tilewright import cute
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Float32, Int32, Uint64, const_expr, range_constexpr
from tilewright.utils import SmemAllocator


@cute.kernel
def twice_kernel(y: cute.Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    step = 32 if bug == "" else 16
    y[bidx * step + tidx] = bidx.to(Float32) + 1.0  # FAULT


@cute.jit
def twice(y: cute.Tensor, bug: Constexpr):
    twice_kernel(y, bug).launch(grid=2, block=32)


def test_two_blocks_write_one_place():
    y = np.zeros(64, np.float32)
    expect(twice, (y,), "overlap", "race", check_global=True)
    (finding,) = check(twice, y, "overlap", check_global=True).findings
    assert "bytes of y" in finding.message.replace("byte 64 of y", "bytes of y")
    assert not check(twice, y, "overlap").findings  # global memory is checked on request


@cute.kernel
def message_kernel(data: cute.Tensor, flag: cute.Tensor, out: cute.Tensor, bug: Constexpr):
    """Block 0 writes and raises a flag; block 1 waits for it and reads."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    if bidx == 0:
        data[tidx] = Float32(3.0)
        cute.arch.sync_threads()
        if tidx == 0:
            if const_expr(bug == "fences" or bug == "one fence"):
                cute.arch.fence_acq_rel_gpu()
                cute.arch.atomic_add(flag.iterator, Int32(1))
            elif const_expr(bug == "relaxed"):
                cute.arch.atomic_add(flag.iterator, Int32(1))
            else:
                cute.arch.atomic_add(
                    flag.iterator, Int32(1), sem="release", scope="cta" if bug == "scope" else "gpu"
                )
    else:
        if tidx == 0:
            seen = Int32(0)
            while seen == 0:
                if const_expr(bug == "fences" or bug == "one fence" or bug == "relaxed"):
                    seen = cute.arch.atomic_add(flag.iterator, Int32(0))
                else:
                    seen = cute.arch.atomic_add(flag.iterator, Int32(0), sem="acquire")
            if const_expr(bug == "fences"):
                cute.arch.fence_acq_rel_gpu()
        cute.arch.sync_threads()
        out[tidx] = data[tidx]  # FAULT


@cute.jit
def message(data: cute.Tensor, flag: cute.Tensor, out: cute.Tensor, bug: Constexpr):
    message_kernel(data, flag, out, bug).launch(grid=2, block=64)


MESSAGE = (np.zeros(64, np.float32), np.zeros(4, np.int32), np.zeros(64, np.float32))


@pytest.mark.parametrize("bug", ["relaxed", "one fence", "scope"])
def test_message_passing_between_blocks(bug):
    expect(message, MESSAGE, bug, "race", check_global=True)


def test_fences_around_relaxed_atomics_pass_messages():
    assert not check(message, *MESSAGE, "fences", check_global=True).findings


@cute.kernel
def count_kernel(total: cute.Tensor, bug: Constexpr):
    if const_expr(bug == "plain"):
        total[0] = total[0] + 1  # FAULT
    else:
        scope = "cta" if bug == "narrow" else "gpu"
        cute.arch.atomic_add(total.iterator, Int32(1), scope=scope)  # FAULT


@cute.jit
def count(total: cute.Tensor, bug: Constexpr):
    count_kernel(total, bug).launch(grid=2, block=32)


@pytest.mark.parametrize("bug", ["plain", "narrow"])
def test_counting_needs_atomics_of_wide_scope(bug):
    expect(count, (np.zeros(4, np.int32),), bug, "race", check_global=True)


@cute.kernel
def read_back_kernel(
    store: cute.CopyAtom, mY: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: Constexpr
):
    """What TMA stores is read back by ordinary loads."""
    tidx, _, _ = cute.arch.thread_idx()
    layout = cute.make_layout((8, 32), stride=(32, 1))
    s = SmemAllocator().allocate_tensor(Float32, layout, 128, label="s")
    for r in range_constexpr(8):
        s[r, tidx] = tidx.to(Float32)
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.sync_threads()
    g = cute.local_tile(mY, (8, 32), (0, None))
    ts, tg = cpasync.tma_partition(
        store, 0, cute.make_layout(1), cute.group_modes(s, 0, 2), cute.group_modes(g, 0, 2)
    )
    if tidx == 0:
        cute.copy(store, ts, tg[None, 0])
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0, read=True)
        if const_expr(bug != "read only"):
            cute.arch.cp_async_bulk_wait_group(0)
    cute.arch.sync_threads()
    out[tidx] = y[3, tidx]  # FAULT


@cute.jit
def read_back(y: cute.Tensor, out: cute.Tensor, bug: Constexpr):
    layout = cute.make_layout((8, 32), stride=(32, 1))
    store, mY = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), y, layout, (8, 32))
    read_back_kernel(store, mY, y, out, bug).launch(grid=1, block=32)


def test_bulk_stores_are_complete_behind_the_full_wait():
    args = (np.zeros((8, 32), np.float32), np.zeros(32, np.float32))
    expect(read_back, args, "read only", "race", check_global=True)


@cute.kernel
def handed_kernel(
    load: cute.CopyAtom, mX: cute.Tensor, x: cute.Tensor, out: cute.Tensor, bug: Constexpr
):
    """What ordinary stores write to global memory is loaded by TMA."""
    tidx, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    layout = cute.make_layout((8, 32), stride=(32, 1))
    s = smem.allocate_tensor(Float32, layout, 128, label="s")
    ready = smem.allocate_array(Uint64, 1, label="ready")
    if tidx == 0:
        cute.arch.mbarrier_init(ready, 1)
        cute.arch.mbarrier_init_fence()
    for r in range_constexpr(8):
        x[r, tidx] = Float32(2.0)
    cute.arch.fence_proxy("async" if bug == "" else "async.shared")
    cute.arch.sync_threads()
    g = cute.local_tile(mX, (8, 32), (0, None))
    ts, tg = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(s, 0, 2), cute.group_modes(g, 0, 2)
    )
    if tidx == 0:
        cute.arch.mbarrier_arrive_and_expect_tx(ready, 1024)
        cute.copy(load, tg[None, 0], ts, tma_bar_ptr=ready)  # FAULT
    cute.arch.mbarrier_wait(ready, 0)
    out[tidx] = s[0, tidx]


@cute.jit
def handed(x: cute.Tensor, out: cute.Tensor, bug: Constexpr):
    layout = cute.make_layout((8, 32), stride=(32, 1))
    load, mX = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), x, layout, (8, 32))
    handed_kernel(load, mX, x, out, bug).launch(grid=1, block=32)


def test_generic_global_writes_before_a_tma_load_need_the_fence_of_all_memory():
    args = (np.zeros((8, 32), np.float32), np.zeros(32, np.float32))
    expect(handed, args, "shared only", "proxy_fence", check_global=True)


@cute.kernel
def sums_kernel(sums: cute.Tensor, count: cute.Tensor, out: cute.Tensor, bug: Constexpr):
    """Both blocks add to all sums and count themselves in; the second one reads the sums."""
    tidx, _, _ = cute.arch.thread_idx()
    last = SmemAllocator().allocate_array(Int32, 1, label="last")
    cute.arch.atomic_add(sums.iterator + tidx, Float32(1.0))  # FAULT
    if const_expr(bug != "barrier"):
        cute.arch.sync_threads()
    if tidx == 0:
        if const_expr(bug == "relaxed"):
            before = cute.arch.atomic_add(count.iterator, Int32(1))
        else:
            before = cute.arch.atomic_add(count.iterator, Int32(1), sem="acq_rel", scope="gpu")
        cute.arch.store(last, before)
    cute.arch.sync_threads()
    if cute.arch.load(last) == 1:
        out[tidx] = sums[tidx]


@cute.jit
def all_sums(sums: cute.Tensor, count: cute.Tensor, out: cute.Tensor, bug: Constexpr):
    sums_kernel(sums, count, out, bug).launch(grid=2, block=64)


@pytest.mark.parametrize("bug", ["relaxed", "barrier"])
def test_an_atomic_does_not_hide_those_before_it(bug):
    """The reader's own atomic comes between the other block's and its read."""
    arrays = np.zeros(64, np.float32), np.zeros(1, np.int32), np.zeros(64, np.float32)
    expect(all_sums, arrays, bug, "race", check_global=True)


@cute.kernel
def two_readers_kernel(x: cute.Tensor, out: cute.Tensor, ready: cute.Tensor, bug: Constexpr):
    """Blocks 0 and 1 read the same places with one instruction; block 2 then writes there."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    if bidx < 2:
        out[bidx * 32 + tidx] = x[tidx]  # FAULT
        cute.arch.sync_threads()
        counts = bidx == 1 if const_expr(bug == "one waited for") else True
        if counts and tidx == 0:
            cute.arch.atomic_add(ready.iterator, Int32(1), sem="release")
    else:
        if tidx == 0:
            seen = Int32(0)
            while seen < (1 if const_expr(bug == "one waited for") else 2):
                seen = cute.arch.atomic_add(ready.iterator, Int32(0), sem="acquire")
        cute.arch.sync_threads()
        x[tidx] = Float32(1.0)


@cute.jit
def two_readers(x: cute.Tensor, out: cute.Tensor, ready: cute.Tensor, bug: Constexpr):
    two_readers_kernel(x, out, ready, bug).launch(grid=3, block=32)


def test_a_read_of_one_block_does_not_stand_for_that_of_another():
    args = np.zeros(32, np.float32), np.zeros(64, np.float32), np.zeros(4, np.int32)
    expect(two_readers, args, "one waited for", "race", check_global=True)


@cute.kernel
def relayed_kernel(
    load: cute.CopyAtom, mX: cute.Tensor, x: cute.Tensor, flag: cute.Tensor, out: cute.Tensor,
    bug: Constexpr,
):  # fmt: skip
    """Block 0 writes with ordinary stores and raises a flag; block 1 then loads by TMA."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    smem = SmemAllocator()
    layout = cute.make_layout((8, 32), stride=(32, 1))
    s = smem.allocate_tensor(Float32, layout, 128, label="s")
    ready = smem.allocate_array(Uint64, 1, label="ready")
    if tidx == 0:
        cute.arch.mbarrier_init(ready, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    if bidx == 0:
        for r in range_constexpr(8):
            x[r, tidx] = Float32(2.0)  # FAULT
        if const_expr(bug == ""):
            cute.arch.fence_proxy("async")
        elif const_expr(bug == "shared only"):
            cute.arch.fence_proxy("async.shared")
        cute.arch.sync_threads()
        if tidx == 0:
            cute.arch.atomic_add(flag.iterator, Int32(1), sem="release")
    else:
        g = cute.local_tile(mX, (8, 32), (0, None))
        ts, tg = cpasync.tma_partition(
            load, 0, cute.make_layout(1), cute.group_modes(s, 0, 2), cute.group_modes(g, 0, 2)
        )
        if tidx == 0:
            if const_expr(bug == "too early"):
                cute.arch.fence_proxy("async")
            seen = Int32(0)
            while seen == 0:
                seen = cute.arch.atomic_add(flag.iterator, Int32(0), sem="acquire")
            if const_expr(bug == "reader"):
                cute.arch.fence_proxy("async")
            cute.arch.mbarrier_arrive_and_expect_tx(ready, 1024)
            cute.copy(load, tg[None, 0], ts, tma_bar_ptr=ready)  # FAULT
        cute.arch.mbarrier_wait(ready, 0)
        out[tidx] = s[0, tidx]


@cute.jit
def relayed(x: cute.Tensor, flag: cute.Tensor, out: cute.Tensor, bug: Constexpr):
    layout = cute.make_layout((8, 32), stride=(32, 1))
    load, mX = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), x, layout, (8, 32))
    relayed_kernel(load, mX, x, flag, out, bug).launch(grid=2, block=32)


RELAYED = np.zeros((8, 32), np.float32), np.zeros(1, np.int32), np.zeros(32, np.float32)


@pytest.mark.parametrize("bug", ["none", "shared only", "too early"])
def test_another_block_loads_by_tma_what_ordinary_stores_have_written(bug):
    expect(relayed, RELAYED, bug, "proxy_fence", check_global=True)


def test_the_fence_may_be_on_either_side_of_the_flag():
    assert not check(relayed, *RELAYED, "reader", check_global=True).findings


def test_the_report_asks_for_the_fence_of_all_memory():
    (finding,) = check(relayed, *RELAYED, "shared only", check_global=True).findings
    assert finding.message == (
        "byte 0 of x is read by TMA of block (1, 0, 0), thread 0 (warp 0, lane 0), and was written "
        "by block (0, 0, 0), thread 0 (warp 0, lane 0): no proxy fence stands between the two"
    )
    assert finding.rule == (
        "ordinary writes to global memory are ordered before accesses of the async proxy (TMA, "
        "bulk copies) only by a fence.proxy.async for all memory (not .shared::cta) that the "
        "writing thread executes after them, before the barrier or the flag that tells of them"
    )
