"""Clusters: remote arrivals, multicast, and who may exit."""

from __future__ import annotations

import numpy as np
import pytest
from engine_checks import check, expect

from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Float32, Int32, Uint64, const_expr, range_constexpr
from tilewright.utils import SmemAllocator

ROWS, COLUMNS = 8, 32
BYTES = ROWS * COLUMNS * 4


@cute.kernel
def greet_kernel(y: cute.Tensor, bug: Constexpr):
    """Every block arrives at the barrier of the other."""
    tidx, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    ready = SmemAllocator().allocate_array(Uint64, 1, label="ready")
    if tidx == 0:
        cute.arch.mbarrier_init(ready, 1)
        cute.arch.mbarrier_init_fence()
    if const_expr(bug == "no first"):
        cute.arch.sync_threads()
    else:
        cute.arch.cluster_arrive_relaxed()
        cute.arch.cluster_wait()
    if tidx == 0:
        cute.arch.mbarrier_arrive(ready, rank ^ 1)  # FAULT
    if const_expr(bug != "no wait"):
        cute.arch.mbarrier_wait(ready, 0)
    y[tidx] = Float32(1.0)


@cute.jit
def greet(y: cute.Tensor, bug: Constexpr):
    greet_kernel(y, bug).launch(grid=2, block=32, cluster=(2, 1, 1))


def test_a_block_that_exits_before_remote_arrivals():
    expect(greet, (np.zeros(32, np.float32),), "no wait", "exit")


def test_a_remote_barrier_is_initialised_before_it_is_used():
    y = np.zeros(32, np.float32)
    for seed in range(20):
        report = check(greet, y, "no first", seeds=1, seed=seed)
        assert {"race", "barrier"} & {f.kind for f in report.findings}, seed


@cute.kernel
def multicast_kernel(load: cute.CopyAtom, mX: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    """Block 0 loads every tile into both blocks, one stage, as soon as both have read it."""
    tidx, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    smem = SmemAllocator()
    layout = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    s = smem.allocate_tensor(Float32, layout, 128, label="stage")
    full = smem.allocate_array(Uint64, 1, label="full")
    empty = smem.allocate_array(Uint64, 1, label="empty")
    readers = 1 if bug == "own reader only" else 2
    if tidx == 0:
        cute.arch.mbarrier_init(full, 1)
        cute.arch.mbarrier_init(empty, readers)
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive_relaxed()
    cute.arch.cluster_wait()
    g = cute.local_tile(mX, (ROWS, COLUMNS), (None, 0))
    ts, tg = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(s, 0, 2), cute.group_modes(g, 0, 2)
    )
    for tile in dsl.range(4, unroll=1):
        if tidx == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(full, BYTES)
            if rank == 0:
                cute.arch.mbarrier_wait(empty, (tile & 1) ^ 1)
                cute.copy(  # FAULT
                    load, tg[None, tile], ts, tma_bar_ptr=full, mcast_mask=dsl.Uint16(3)
                )
        cute.arch.mbarrier_wait(full, tile & 1)
        y[(rank * 4 + tile) * 32 + tidx] = s[3, tidx]  # FAULT
        cute.arch.sync_warp()
        if tidx == 0:
            if const_expr(bug == "own reader only"):
                if rank == 0:
                    cute.arch.mbarrier_arrive(empty)
            else:
                cute.arch.mbarrier_arrive(empty, 0)
    if const_expr(bug != "no last"):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()


@cute.jit
def multicast(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    layout = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    op = cpasync.CopyBulkTensorTileG2SMulticastOp()
    load, mX = cpasync.make_tiled_tma_atom(op, x, layout, (ROWS, COLUMNS))
    multicast_kernel(load, mX, y, bug).launch(grid=2, block=32, cluster=(2, 1, 1))


MULTICAST = (np.ones((4 * ROWS, COLUMNS), np.float32), np.zeros(256, np.float32))


def test_multicast_waits_for_the_readers_of_all_blocks():
    expect(multicast, MULTICAST, "own reader only", "race")


def test_multicast_names_the_other_block():
    report = check(multicast, *MULTICAST, "own reader only")
    race = next(f for f in report.findings if f.kind == "race")
    assert "of block (1, 0, 0) (rank 1)" in race.message


def test_the_last_remote_arrivals_keep_a_block_alive():
    report = check(multicast, *MULTICAST, "no last")
    assert "exit" in {f.kind for f in report.findings}


@cute.kernel
def together_kernel(y: cute.Tensor, bug: Constexpr):
    """Named rounds over the cluster's barrier."""
    for _ in range_constexpr(3):
        cute.arch.cluster_arrive()
        if const_expr(bug != "twice"):
            cute.arch.cluster_wait()  # FAULT
    if const_expr(bug == "twice"):
        cute.arch.cluster_wait()
    y[cute.arch.thread_idx()[0]] = Float32(1.0)


@cute.jit
def together(y: cute.Tensor, bug: Constexpr):
    together_kernel(y, bug).launch(grid=2, block=32, cluster=(2, 1, 1))


@pytest.mark.parametrize(("bug", "found"), [("", set()), ("twice", {"barrier"})])
def test_cluster_barrier_rounds(bug, found):
    report = check(together, np.zeros(32, np.float32), bug)
    assert {f.kind for f in report.findings} == found


@cute.kernel
def passed_kernel(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    """Each block writes to global memory and tells the other one, which reads it."""
    tidx, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    ready = SmemAllocator().allocate_array(Uint64, 1, label="ready")
    if tidx == 0:
        cute.arch.mbarrier_init(ready, 32)
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    x[rank * 32 + tidx] = Float32(1.0)  # FAULT
    if const_expr(bug != "writer"):
        cute.arch.fence_acq_rel_cluster()
    cute.arch.mbarrier_arrive(ready, rank ^ 1)
    cute.arch.mbarrier_wait(ready, 0)
    if const_expr(bug == "barrier"):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    elif const_expr(bug == "narrow"):
        cute.arch.fence_acq_rel_cta()
    elif const_expr(bug == "one thread"):
        if tidx == 0:
            cute.arch.fence_acq_rel_cluster()
        cute.arch.sync_threads()
    elif const_expr(bug != "reader" and bug != "overwrites"):
        cute.arch.fence_acq_rel_cluster()
    if const_expr(bug == "overwrites"):
        x[(rank ^ 1) * 32 + tidx] = Float32(2.0)
    else:
        y[rank * 32 + tidx] = x[(rank ^ 1) * 32 + tidx]  # FAULT
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@cute.jit
def passed(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    passed_kernel(x, y, bug).launch(grid=2, block=32, cluster=(2, 1, 1))


PASSED = np.zeros(64, np.float32), np.zeros(64, np.float32)


@pytest.mark.parametrize("bug", ["writer", "reader", "narrow"])
def test_global_memory_behind_an_mbarrier_needs_fences_on_both_sides(bug):
    expect(passed, PASSED, bug, "race", check_global=True)


@pytest.mark.parametrize("way", ["barrier", "one thread", "overwrites"])
def test_a_barrier_hands_the_fence_of_the_reader_on_and_stores_need_none(way):
    assert not check(passed, *PASSED, way, check_global=True).findings


def test_the_report_names_the_cache():
    (finding,) = check(passed, *PASSED, "reader", check_global=True).findings
    assert finding.rule == (
        "a wait for an mbarrier at which another block arrives is of the block's own scope: lines "
        "of global memory may stay in its L1 cache; fence_acq_rel_cluster() comes behind the wait, "
        "or the blocks meet at the cluster's barrier"
    )


@cute.kernel
def relayed_kernel(x: cute.Tensor, flag: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    """The first cluster writes; of the second one, a block sees the flag and tells the other."""
    tidx, _, _ = cute.arch.thread_idx()
    block = cute.arch.block_idx()[0]
    ready = SmemAllocator().allocate_array(Uint64, 1, label="ready")
    if tidx == 0:
        cute.arch.mbarrier_init(ready, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if block == 0:
        x[tidx] = Float32(1.0)  # FAULT
        cute.arch.sync_threads()
        if tidx == 0:
            cute.arch.atomic_add(flag.iterator, Int32(1), sem="release")
    elif block == 2:
        if tidx == 0:
            seen = Int32(0)
            while seen == 0:
                seen = cute.arch.atomic_add(flag.iterator, Int32(0), sem="acquire")
            cute.arch.fence_acq_rel_cluster()
            cute.arch.mbarrier_arrive(ready, 1)
    elif block == 3:
        cute.arch.mbarrier_wait(ready, 0)
        if const_expr(bug == ""):
            cute.arch.fence_acq_rel_cluster()
        y[tidx] = x[tidx]  # FAULT
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@cute.jit
def relayed(x: cute.Tensor, flag: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    relayed_kernel(x, flag, y, bug).launch(grid=4, block=32, cluster=(2, 1, 1))


def test_a_block_that_learns_of_another_cluster_by_an_mbarrier_fences_too():
    args = np.zeros(32, np.float32), np.zeros(1, np.int32), np.zeros(32, np.float32)
    expect(relayed, args, "reader", "race", check_global=True)
    (finding,) = check(relayed, *args, "reader", check_global=True).findings
    assert "lines of global memory may stay in its L1 cache" in finding.rule
