"""wgmma: its asynchronous reads, its registers, and the proxy of its operands."""

from __future__ import annotations

import numpy as np
import pytest
from engine_checks import check, expect

from tilewright import cute, dsl
from tilewright.cute.nvgpu import warpgroup
from tilewright.dsl import Constexpr, Float16, Float32, Int32, Uint64, const_expr, range_constexpr
from tilewright.utils import SmemAllocator

M, N, K = 64, 32, 64


def operands():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((M, K), (N, K)))
    return a, b, np.zeros((M, N), np.float32)


def tiled():
    op = warpgroup.MmaF16BF16Op(
        Float16,
        Float32,
        (M, N, 16),
        warpgroup.OperandSource.SMEM,
        warpgroup.OperandMajorMode.K,
        warpgroup.OperandMajorMode.K,
    )
    return cute.make_tiled_mma(op)


def layouts(stages):
    atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, Float16)
    return [cute.tile_to_shape(atom, (rows, K, stages), order=(0, 1, 2)) for rows in (M, N)]


@cute.kernel
def product_kernel(
    a: cute.Tensor, b: cute.Tensor, d: cute.Tensor, zero: Int32, la: cute.ComposedLayout,
    lb: cute.ComposedLayout, bug: Constexpr,
):  # fmt: skip
    """One warpgroup: fill by ordinary stores, multiply, fill again, multiply, store."""
    tidx, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    sA = smem.allocate_tensor(Float16, la, 1024, label="sA")
    sB = smem.allocate_tensor(Float16, lb, 1024, label="sB")
    mma = tiled()
    thread = mma.get_slice(tidx)
    tCrA = mma.make_fragment_A(thread.partition_A(sA))
    tCrB = mma.make_fragment_B(thread.partition_B(sB))
    acc = mma.make_fragment_C(mma.partition_shape_C((M, N)))
    for turn in range_constexpr(2):
        for i in range_constexpr(M * K // 128):
            at = i * 128 + tidx
            sA[at // K, at % K, 0] = a[at // K, at % K]  # FAULT (overwrite)
        for i in range_constexpr(N * K // 128):
            at = i * 128 + tidx
            sB[at // K, at % K, 0] = b[at // K, at % K]  # FAULT (overwrite)
        if const_expr(bug == "fence in a loop"):
            for _ in dsl.range(zero, unroll=1):
                cute.arch.fence_proxy("async.shared", space="cta")
        elif const_expr(bug != "no proxy fence"):
            cute.arch.fence_proxy("async.shared", space="cta")
        if const_expr(bug != "no barrier"):
            cute.arch.sync_threads()
        if const_expr(bug != "no fence"):
            warpgroup.fence()
        for kk in range_constexpr(K // 16):
            first = turn == 0 and kk == 0 and bug != "scale d"
            mma.set(warpgroup.Field.ACCUMULATE, not first)
            cute.gemm(  # FAULT
                mma, acc, tCrA[None, None, kk, 0], tCrB[None, None, kk, 0], acc
            )
        warpgroup.commit_group()
        if const_expr(bug == "touched"):
            acc[0] = acc[0] + 1.0  # FAULT
        if const_expr(bug != "overwrite"):
            warpgroup.wait_group(0)
        if const_expr(bug != "warps apart"):
            cute.arch.sync_threads()
    warpgroup.wait_group(0)
    tCgD = thread.partition_C(cute.local_tile(d, (M, N), (0, 0)))
    for i in range_constexpr(cute.size(acc)):
        tCgD[i] = acc[i]


@cute.jit
def product(a: cute.Tensor, b: cute.Tensor, d: cute.Tensor, bug: Constexpr):
    la, lb = layouts(1)
    zero = a.shape[0] // 1_000_000
    product_kernel(a, b, d, zero, la, lb, bug).launch(grid=1, block=128)


@pytest.mark.parametrize(
    ("bug", "kind"),
    [
        ("no proxy fence", "proxy_fence"),
        ("fence in a loop", "proxy_fence"),
        ("no barrier", "race"),
        ("overwrite", "race"),
        ("warps apart", "race"),
        ("touched", "in_flight"),
        ("no fence", "fence"),
        ("scale d", "uninitialised"),
    ],
)
def test_wgmma_rules(bug, kind):
    expect(product, operands(), bug, kind)


def test_the_product_is_right():
    a, b, d = operands()
    report = check(product, a, b, d, "")
    assert not report.findings


def test_reads_in_flight_name_the_rule():
    report = check(product, *operands(), "overwrite")
    race = next(f for f in report.findings if f.kind == "race")
    first, second = race.accesses
    assert first.agent == "wgmma of warpgroup 0 of block (0, 0, 0)"
    assert (first.op, first.proxy, second.op) == ("wgmma.mma", "async", "mem.store")
    assert race.rule.startswith("wgmma reads its operands until a wgmma.wait_group that covers it")


# -- a stage is released when its reads have retired -----------------------------------------------


@cute.kernel
def stages_kernel(
    a: cute.Tensor, b: cute.Tensor, d: cute.Tensor, la: cute.ComposedLayout,
    lb: cute.ComposedLayout, bug: Constexpr,
):  # fmt: skip
    """Warpgroup 0 fills two stages by ordinary stores, warpgroup 1 multiplies."""
    tidx, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    sA = smem.allocate_tensor(Float16, la, 1024, label="sA")
    sB = smem.allocate_tensor(Float16, lb, 1024, label="sB")
    full = smem.allocate_array(Uint64, 2, label="full")
    empty = smem.allocate_array(Uint64, 2, label="empty")
    if tidx == 0:
        for i in range_constexpr(2):
            cute.arch.mbarrier_init(full + i, 128)
            cute.arch.mbarrier_init(empty + i, 1 if bug == "one warp releases" else 4)
    cute.arch.sync_threads()
    lane = tidx % 128
    if cute.arch.make_warp_uniform(tidx // 128) == 0:
        for step in range_constexpr(6):
            stage, phase = step % 2, (step // 2) & 1
            cute.arch.mbarrier_wait(empty + stage, phase ^ 1)
            for i in range_constexpr(M * K // 128):
                at = i * 128 + lane
                sA[at // K, at % K, stage] = a[at // K, at % K]  # FAULT
            for i in range_constexpr(N * K // 128):
                at = i * 128 + lane
                sB[at // K, at % K, stage] = b[at // K, at % K]  # FAULT
            cute.arch.fence_proxy("async.shared", space="cta")
            cute.arch.mbarrier_arrive(full + stage)
    else:
        mma = tiled()
        thread = mma.get_slice(lane)
        tCrA = mma.make_fragment_A(thread.partition_A(sA))
        tCrB = mma.make_fragment_B(thread.partition_B(sB))
        acc = mma.make_fragment_C(mma.partition_shape_C((M, N)))
        first_lane = lane == 0 if bug == "one warp releases" else lane % 32 == 0
        for step in range_constexpr(6):
            stage, phase = step % 2, (step // 2) & 1
            cute.arch.mbarrier_wait(full + stage, phase)
            warpgroup.fence()
            for kk in range_constexpr(K // 16):
                mma.set(warpgroup.Field.ACCUMULATE, step > 0 or kk > 0)
                a_kk, b_kk = tCrA[None, None, kk, stage], tCrB[None, None, kk, stage]
                cute.gemm(mma, acc, a_kk, b_kk, acc)
            warpgroup.commit_group()
            warpgroup.wait_group(1)
            if const_expr(bug == "early release"):
                if first_lane:
                    cute.arch.mbarrier_arrive(empty + stage)
            elif first_lane and step > 0:
                cute.arch.mbarrier_arrive(empty + (stage ^ 1))
        warpgroup.wait_group(0)
        tCgD = thread.partition_C(cute.local_tile(d, (M, N), (0, 0)))
        for i in range_constexpr(cute.size(acc)):
            tCgD[i] = acc[i]


@cute.jit
def stages(a: cute.Tensor, b: cute.Tensor, d: cute.Tensor, bug: Constexpr):
    la, lb = layouts(2)
    stages_kernel(a, b, d, la, lb, bug).launch(grid=1, block=256)


@pytest.mark.parametrize("bug", ["early release", "one warp releases"])
def test_a_stage_is_released_behind_the_wait_of_all_four_warps(bug):
    expect(stages, operands(), bug, "race")
