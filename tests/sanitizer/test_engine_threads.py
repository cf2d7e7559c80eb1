"""Races between threads: barriers, warps, named barriers, cp.async, allocations."""

from __future__ import annotations

import numpy as np
import pytest
from engine_checks import check, expect

from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Float32, Int32, Uint64, const_expr, range_constexpr
from tilewright.utils import SmemAllocator


def numbers(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


# -- __syncthreads --------------------------------------------------------------------------------


@cute.kernel
def reverse_kernel(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    tile = SmemAllocator().allocate_tensor(Float32, cute.make_layout(128), 16, label="tile")
    for i in dsl.range(3, unroll=1):
        tile[tidx] = x[i * 128 + tidx]  # FAULT (war)
        if const_expr(bug != "raw"):
            cute.arch.sync_threads()
        y[i * 128 + tidx] = tile[127 - tidx]  # FAULT (raw)
        if const_expr(bug != "war"):
            cute.arch.sync_threads()


@cute.jit
def reverse(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    reverse_kernel(x, y, bug).launch(grid=2, block=128)


@pytest.mark.parametrize("bug", ["raw", "war"])
def test_missing_sync_threads(bug):
    expect(reverse, (numbers(384), numbers(384)), bug, "race")


def test_a_race_names_both_accesses_and_the_rule():
    (finding,) = check(reverse, numbers(384), numbers(384), "war").findings[:1]
    first, second = finding.accesses
    assert (first.kind, first.proxy, first.op) == ("read", "generic", "mem.load")
    assert (second.kind, second.proxy, second.op) == ("write", "generic", "mem.store")
    assert finding.loc == second.loc
    assert finding.lines == {first.loc.line, second.loc.line}
    assert "block (0, 0, 0), thread" in second.agent
    assert (
        finding.rule == "accesses of different threads to one address need a barrier between them"
    )
    text = str(finding)
    assert text.startswith("race: tile[")
    assert "is written by block (0, 0, 0), thread " in text
    assert "nothing orders the two" in text
    assert f"and before that: read (mem.load, generic proxy) by {first.agent}" in text


# -- warps ----------------------------------------------------------------------------------------


@cute.kernel
def exchange_kernel(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    tile = SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16, label="tile")
    tile[tidx] = x[tidx]
    if const_expr(bug == ""):
        cute.arch.sync_warp()
    y[tidx] = tile[tidx ^ 1]  # FAULT


@cute.jit
def exchange(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    exchange_kernel(x, y, bug).launch(grid=1, block=64)


def test_missing_sync_warp():
    expect(exchange, (numbers(64), numbers(64)), "no sync", "race")


@cute.kernel
def across_kernel(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    tile = SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16, label="tile")
    tile[tidx] = x[tidx]
    if const_expr(bug == ""):
        cute.arch.sync_threads()
    else:
        cute.arch.sync_warp()
    y[tidx] = tile[tidx ^ 32]  # FAULT


@cute.jit
def across(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    across_kernel(x, y, bug).launch(grid=1, block=64)


def test_sync_warp_does_not_order_warps():
    expect(across, (numbers(64), numbers(64)), "one warp only", "race")


@cute.kernel
def vote_kernel(y: cute.Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    flag = SmemAllocator().allocate_tensor(Int32, cute.make_layout(4), 16, label="flag")
    if const_expr(bug == ""):
        flag[0] = Int32(7)
    else:
        flag[0] = tidx  # FAULT
    cute.arch.sync_threads()
    y[tidx] = flag[0].to(Float32)


@cute.kernel
def flags_kernel(y: cute.Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    flag = SmemAllocator().allocate_tensor(Int32, cute.make_layout(4), 16, label="flag")
    flag[0] = Int32(7)
    flag[1] = tidx // 32 if bug == "different" else Int32(3)  # FAULT
    cute.arch.sync_threads()
    y[tidx] = (flag[0] + flag[1]).to(Float32)


@cute.jit
def flags(y: cute.Tensor, bug: Constexpr):
    flags_kernel(y, bug).launch(grid=1, block=64)


def test_warps_may_store_one_value_to_one_address():
    expect(flags, (numbers(64),), "different", "race")


@cute.jit
def vote(y: cute.Tensor, bug: Constexpr):
    vote_kernel(y, bug).launch(grid=1, block=32)


def test_lanes_store_different_values_to_one_address():
    report = check(vote, numbers(32), "different")
    assert [f.kind for f in report.findings] == ["race"]
    assert "lanes of one store write different values" in report.findings[0].message


def test_lanes_that_store_one_value_are_no_race_in_one_instruction():
    assert not check(vote, numbers(32), "").findings


# -- named barriers -------------------------------------------------------------------------------


@cute.kernel
def handoff_kernel(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    """Warp 0 fills, warp 1 reads, step after step: two named barriers."""
    tidx, _, _ = cute.arch.thread_idx()
    tile = SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16, label="tile")
    full, empty = 1, 2
    lane = tidx % 32
    if cute.arch.make_warp_uniform(tidx // 32) == 0:
        for i in dsl.range(4, unroll=1):
            if const_expr(bug != "no empty"):
                cute.arch.barrier(barrier_id=empty, number_of_threads=64)
            tile[lane] = x[i * 32 + lane]  # FAULT (no empty)
            cute.arch.barrier_arrive(barrier_id=full, number_of_threads=64)
    else:
        for i in dsl.range(4, unroll=1):
            if const_expr(bug != "no empty"):
                cute.arch.barrier_arrive(barrier_id=empty, number_of_threads=64)
            cute.arch.barrier(barrier_id=full, number_of_threads=64)
            y[i * 32 + lane] = tile[31 - lane]


@cute.jit
def handoff(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    handoff_kernel(x, y, bug).launch(grid=1, block=64)


def test_named_barriers_hand_over():
    x, y = numbers(128), numbers(128)
    assert not check(handoff, x, y, "").findings
    for seed in range(20):
        report = check(handoff, x, y, "no empty", seeds=1, seed=seed)
        assert {"race", "barrier"} & {f.kind for f in report.findings}


@cute.kernel
def shared_id_kernel(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    """Two halves of the block, each with a barrier of its own."""
    tidx, _, _ = cute.arch.thread_idx()
    tile = SmemAllocator().allocate_tensor(Float32, cute.make_layout(128), 16, label="tile")
    half = cute.arch.make_warp_uniform(tidx // 64)
    barrier = half + 1
    if const_expr(bug != ""):
        barrier = Int32(1)
    tile[tidx] = x[tidx]
    cute.arch.barrier(barrier_id=barrier, number_of_threads=64)
    y[tidx] = tile[tidx ^ 63]
    if half == 0:
        cute.arch.barrier(barrier_id=barrier, number_of_threads=64)  # FAULT
    else:
        cute.arch.barrier(barrier_id=barrier, number_of_threads=64)  # FAULT


@cute.jit
def shared_id(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    shared_id_kernel(x, y, bug).launch(grid=1, block=128)


def test_one_named_barrier_for_two_halves():
    assert not check(shared_id, numbers(128), numbers(128), "").findings
    report = check(shared_id, numbers(128), numbers(128), "one id")
    assert any(f.kind == "barrier" for f in report.findings)


# -- cp.async -------------------------------------------------------------------------------------


@cute.kernel
def prefetch_kernel(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    """Three stages; the copy of step i+2 is started at step i."""
    tidx, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    ring = smem.allocate_tensor(Float32, cute.make_layout((4, 32, 3)), 16, label="ring")
    atom = cute.make_copy_atom(
        cpasync.CopyG2SOp(cache_mode=cpasync.LoadCacheMode.GLOBAL), Float32, num_bits_per_copy=128
    )
    g = cute.make_tensor(x.iterator, cute.make_layout((4, 32, 8)))
    for i in range_constexpr(2):
        cute.copy(atom, g[None, tidx, i], ring[None, tidx, i])
        cute.arch.cp_async_commit_group()
    for i in range_constexpr(8):
        if const_expr(bug == "no wait"):
            pass
        elif const_expr(bug == "late"):
            cute.arch.cp_async_wait_group(2)
        else:
            cute.arch.cp_async_wait_group(1)
        if const_expr(bug != "no barrier"):
            cute.arch.sync_threads()
        for j in range_constexpr(4):
            y[i * 128 + tidx * 4 + j] = ring[j, 31 - tidx, i % 3]  # FAULT
        if const_expr(i + 2 < 8):
            cute.copy(atom, g[None, tidx, i + 2], ring[None, tidx, (i + 2) % 3])
        cute.arch.cp_async_commit_group()


@cute.jit
def prefetch(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    prefetch_kernel(x, y, bug).launch(grid=1, block=32)


@pytest.mark.parametrize("bug", ["no wait", "late", "no barrier"])
def test_cp_async(bug):
    expect(prefetch, (numbers(1024), numbers(1024)), bug, "race")


# -- allocations and mbarriers in memory ----------------------------------------------------------


@cute.kernel
def neighbours_kernel(y: cute.Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    first = smem.allocate_tensor(Float32, cute.make_layout(128), 16, label="first")
    second = smem.allocate_tensor(Float32, cute.make_layout(64), 16, label="second")
    second[tidx] = Float32(1.0)
    cute.arch.sync_threads()
    for i in dsl.range(2 if bug == "" else 3, unroll=1):
        first[i * 64 + tidx] = Float32(2.0)  # FAULT
    cute.arch.sync_threads()
    y[tidx] = second[tidx] + first[tidx]


@cute.jit
def neighbours(y: cute.Tensor, bug: Constexpr):
    neighbours_kernel(y, bug).launch(grid=1, block=64)


def test_an_index_beyond_its_allocation():
    expect(neighbours, (numbers(64),), "one too many", "overflow")


@cute.kernel
def clobber_kernel(y: cute.Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    ready = SmemAllocator().allocate_array(Uint64, 2, label="ready")
    if tidx == 0:
        cute.arch.mbarrier_init(ready, 1)
        if const_expr(bug == "twice"):
            cute.arch.mbarrier_init(ready, 1)  # FAULT (twice)
    if const_expr(bug != "unordered"):
        cute.arch.sync_threads()
    if tidx == 0:
        if const_expr(bug == "store"):
            cute.arch.store(ready, Uint64(0))  # FAULT (store)
        cute.arch.mbarrier_arrive(ready)
    cute.arch.mbarrier_wait(ready, 0)  # FAULT (unordered)
    y[tidx] = Float32(1.0)


@cute.jit
def clobber(y: cute.Tensor, bug: Constexpr):
    clobber_kernel(y, bug).launch(grid=1, block=64)


@pytest.mark.parametrize(
    ("bug", "kind"), [("twice", "barrier"), ("store", "barrier"), ("unordered", "race")]
)
def test_mbarriers_in_memory(bug, kind):
    expect(clobber, (numbers(64),), bug, kind)


# -- liveness (found without the detector too) ----------------------------------------------------


@cute.kernel
def counts_kernel(y: cute.Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    ready = SmemAllocator().allocate_array(Uint64, 1, label="ready")
    if tidx == 0:
        cute.arch.mbarrier_init(ready, 3 if bug == "count" else 2)
    cute.arch.sync_threads()
    if tidx % 32 == 0:
        cute.arch.mbarrier_arrive(ready)
    cute.arch.mbarrier_wait(ready, 0)  # FAULT (count)
    if tidx < 16:
        if const_expr(bug == "divergent"):
            cute.arch.barrier(barrier_id=1, number_of_threads=32)  # FAULT (divergent)
        y[tidx] = Float32(1.0)


@cute.jit
def counts(y: cute.Tensor, bug: Constexpr):
    counts_kernel(y, bug).launch(grid=1, block=64)


@pytest.mark.parametrize(
    ("bug", "kind"), [("count", "deadlock"), ("divergent", "aligned_divergence")]
)
def test_counts_and_divergence(bug, kind):
    expect(counts, (numbers(64),), bug, kind)
