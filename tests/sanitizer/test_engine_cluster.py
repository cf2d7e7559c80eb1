"""Clusters: remote arrivals, multicast, and who may exit."""

from __future__ import annotations

import numpy as np
import pytest
from engine_checks import check, expect

from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Float32, Uint64, const_expr, range_constexpr
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
