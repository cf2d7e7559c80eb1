"""wgmma and mma: fences, groups, accumulators, descriptors, and operands in shared memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from corpus.case import case
from corpus.parts import barriers
from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync, warp, warpgroup
from tilewright.dsl import BFloat16, Constexpr, Float32, const_expr, range_constexpr
from tilewright.utils import SmemAllocator

arch = cute.arch
M, N, K = 64, 8, 64
BYTES = (M + N) * K * 2
A = np.ones((M, 4 * K), ml_dtypes.bfloat16)
B = np.ones((N, 4 * K), ml_dtypes.bfloat16)
D = np.zeros((M, N), np.float32)


def operation(source=warpgroup.OperandSource.SMEM):
    return warpgroup.MmaF16BF16Op(BFloat16, Float32, (M, N, 16), source)


def staged(rows, stages):
    atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, BFloat16)
    return cute.tile_to_shape(atom, (rows, K, stages), order=(0, 1, 2))


def operands(stages=1):
    smem = SmemAllocator()
    sA = smem.allocate_tensor(BFloat16, staged(M, stages), 1024, label="sA")
    sB = smem.allocate_tensor(BFloat16, staged(N, stages), 1024, label="sB")
    return sA, sB


@cute.jit
def by_hand(kernel: Constexpr, arrays, ok: Constexpr, shape: Constexpr):
    """`kernel(a, b, d, ok)`."""
    kernel(*arrays, ok).launch(grid=1, block=shape.block)


@cute.jit
def by_tma(kernel: Constexpr, arrays, ok: Constexpr, shape: Constexpr):
    """`kernel(tma_a, a, tma_b, b, d, ok)`."""
    op = cpasync.CopyBulkTensorTileG2SOp()
    one = (None, None, 0)
    tma_a, a = cpasync.make_tiled_tma_atom(op, arrays[0], cute.slice_(staged(M, 1), one), (M, K))
    tma_b, b = cpasync.make_tiled_tma_atom(op, arrays[1], cute.slice_(staged(N, 1), one), (N, K))
    kernel(tma_a, a, tma_b, b, arrays[2], ok).launch(grid=1, block=shape.block)


@cute.jit
def fill(a, b, sA, sB, *, fence=True):
    """Tile 0 of both operands, by ordinary stores of 128 threads; then a barrier."""
    t = arch.thread_idx()[0]
    for i in range_constexpr(M * K // 128):
        at = i * 128 + t
        sA[at // K, at % K, 0] = a[at // K, at % K]
    for i in range_constexpr(N * K // 128):
        at = i * 128 + t
        sB[at // K, at % K, 0] = b[at // K, at % K]
    if const_expr(fence):
        arch.fence_proxy("async.shared")
    arch.sync_threads()


def fragments(sA, sB):
    mma = cute.make_tiled_mma(operation())
    thr = mma.get_slice(0)
    rA = mma.make_fragment_A(thr.partition_A(sA))  # (MMA, MMA_M, MMA_K, STAGE)
    rB = mma.make_fragment_B(thr.partition_B(sB))  # (MMA, MMA_N, MMA_K, STAGE)
    return mma, rA, rB, mma.make_fragment_C(mma.partition_shape_C((M, N)))


@cute.jit
def multiply(mma, acc, rA, rB, stage=0, *, fresh=True, fence=True, commit=True):
    """The four k steps of one stage, as one group."""
    if const_expr(fence):
        warpgroup.fence()
    for k in range_constexpr(4):
        mma.set(warpgroup.Field.ACCUMULATE, not (fresh and k == 0))
        cute.gemm(mma, acc, rA[None, None, k, stage], rB[None, None, k, stage], acc)
    if const_expr(commit):
        warpgroup.commit_group()


@cute.jit
def write(mma, acc, d):
    mine = mma.get_slice(arch.thread_idx()[0]).partition_C(cute.local_tile(d, (M, N), (0, 0)))
    cute.autovec_copy(acc, mine)


@case(
    "fence",
    mechanism="no wgmma.fence before the first wgmma",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def wgmma_without_fence(a, b, d, ok: Constexpr):
    sA, sB = operands()
    fill(a, b, sA, sB)
    mma, rA, rB, acc = fragments(sA, sB)
    multiply(mma, acc, rA, rB, fence=ok)  # FAULT
    warpgroup.wait_group(0)
    write(mma, acc, d)


@case(
    "fence",
    mechanism="the accumulator is scaled between two groups, without another fence",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def accumulator_scaled_without_fence(a, b, d, ok: Constexpr):
    sA, sB = operands()
    fill(a, b, sA, sB)
    mma, rA, rB, acc = fragments(sA, sB)
    multiply(mma, acc, rA, rB)
    warpgroup.wait_group(0)
    acc.store(acc.load() * Float32(0.5))
    multiply(mma, acc, rA, rB, fresh=False, fence=ok)  # FAULT
    warpgroup.wait_group(0)
    write(mma, acc, d)


@case(
    "in_flight",
    mechanism="the accumulator is read before the wait",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def accumulator_read_in_flight(a, b, d, ok: Constexpr):
    sA, sB = operands()
    fill(a, b, sA, sB)
    mma, rA, rB, acc = fragments(sA, sB)
    multiply(mma, acc, rA, rB)
    if const_expr(ok):
        warpgroup.wait_group(0)
    write(mma, acc, d)  # FAULT
    warpgroup.wait_group(0)


@case(
    "in_flight",
    mechanism="the last wait leaves one group in flight",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def last_wait_too_weak(a, b, d, ok: Constexpr):
    sA, sB = operands()
    fill(a, b, sA, sB)
    mma, rA, rB, acc = fragments(sA, sB)
    for _ in dsl.range(2):
        multiply(mma, acc, rA, rB)
        warpgroup.wait_group(1)
    if const_expr(ok):
        warpgroup.wait_group(0)
    write(mma, acc, d)  # FAULT
    warpgroup.wait_group(0)


@case(
    "in_flight",
    mechanism="the wgmmas are not committed, so the wait does not cover them",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def wgmma_without_commit(a, b, d, ok: Constexpr):
    sA, sB = operands()
    fill(a, b, sA, sB)
    mma, rA, rB, acc = fragments(sA, sB)
    multiply(mma, acc, rA, rB, commit=ok)
    warpgroup.wait_group(0)
    write(mma, acc, d)  # FAULT


@case(
    "in_flight",
    mechanism="the warpgroup exits with wgmmas in flight",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def exit_with_wgmma_in_flight(a, b, _d, ok: Constexpr):
    sA, sB = operands()
    fill(a, b, sA, sB)
    mma, rA, rB, acc = fragments(sA, sB)
    multiply(mma, acc, rA, rB)  # FAULT
    if const_expr(ok):
        warpgroup.wait_group(0)


@case(
    "uninitialised",
    mechanism="the first wgmma adds to an accumulator that nothing wrote",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def accumulates_on_nothing(a, b, d, ok: Constexpr):
    sA, sB = operands()
    fill(a, b, sA, sB)
    mma, rA, rB, acc = fragments(sA, sB)
    multiply(mma, acc, rA, rB, fresh=ok)  # FAULT
    warpgroup.wait_group(0)
    write(mma, acc, d)


@case(
    "proxy_fence",
    mechanism="wgmma reads ordinary stores behind a barrier alone",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def operands_without_proxy_fence(a, b, d, ok: Constexpr):
    sA, sB = operands()
    fill(a, b, sA, sB, fence=ok)
    mma, rA, rB, acc = fragments(sA, sB)
    multiply(mma, acc, rA, rB)  # FAULT
    warpgroup.wait_group(0)
    write(mma, acc, d)


@case(
    "race",
    mechanism="an operand is overwritten while wgmma still reads it",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def operand_overwritten_in_flight(a, b, d, ok: Constexpr):
    t = arch.thread_idx()[0]
    sA, sB = operands()
    fill(a, b, sA, sB)
    mma, rA, rB, acc = fragments(sA, sB)
    multiply(mma, acc, rA, rB)  # FAULT
    if const_expr(ok):
        warpgroup.wait_group(0)
        arch.sync_threads()
    sA[t % M, 0, 0] = a[t % M, 1]  # FAULT
    warpgroup.wait_group(0)
    write(mma, acc, d)


@case(
    "aligned_divergence",
    mechanism="one warp of four issues the wgmmas",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def wgmma_by_one_warp(a, b, d, ok: Constexpr):
    t = arch.thread_idx()[0]
    sA, sB = operands()
    fill(a, b, sA, sB)
    mma, rA, rB, acc = fragments(sA, sB)
    acc.fill(0.0)
    if t < (128 if const_expr(ok) else 32):
        multiply(mma, acc, rA, rB)  # FAULT
        warpgroup.wait_group(0)
    write(mma, acc, d)


@case(
    "descriptor",
    mechanism="the threads of a warpgroup pass different stages",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def descriptor_differs_by_warp(a, b, d, ok: Constexpr):
    t = arch.thread_idx()[0]
    sA, sB = operands(2)
    fill(a, b, sA, sB)
    mma, rA, rB, acc = fragments(sA, sB)
    stage = t // 128 if const_expr(ok) else t // 64
    multiply(mma, acc, rA, rB, stage)  # FAULT
    warpgroup.wait_group(0)
    write(mma, acc, d)


@case(
    "uninitialised",
    "out_of_bounds",
    mechanism="the descriptor names a stage that was not filled",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def stage_never_filled(a, b, d, ok: Constexpr):
    sA, sB = operands(2)
    fill(a, b, sA, sB)
    mma, rA, rB, acc = fragments(sA, sB)
    multiply(mma, acc, rA, rB, 0 if const_expr(ok) else 1)  # FAULT
    warpgroup.wait_group(0)  # FAULT
    write(mma, acc, d)


# -- A in registers --------------------------------------------------------------------------------


@case(
    "in_flight",
    mechanism="the A registers are refilled while wgmma reads them",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def a_registers_modified_in_flight(a, b, d, ok: Constexpr):
    t = arch.thread_idx()[0]
    sA, sB = operands()
    fill(a, b, sA, sB)
    mma = cute.make_tiled_mma(operation(warpgroup.OperandSource.RMEM))
    thr = mma.get_slice(t)
    rB = mma.make_fragment_B(thr.partition_B(sB))
    mine = thr.partition_A(sA)
    rA = mma.make_fragment_A(mine[None, None, None, 0])
    acc = mma.make_fragment_C(mma.partition_shape_C((M, N)))
    cute.autovec_copy(mine[None, None, None, 0], rA)
    warpgroup.fence()
    for k in range_constexpr(4):
        mma.set(warpgroup.Field.ACCUMULATE, k > 0)
        cute.gemm(mma, acc, rA[None, None, k], rB[None, None, k, 0], acc)
    warpgroup.commit_group()
    if const_expr(ok):
        warpgroup.wait_group(0)
    rA.fill(0.0)  # FAULT
    warpgroup.wait_group(0)
    write(mma, acc, d)


# -- a ring between TMA and wgmma ------------------------------------------------------------------


@cute.jit
def gemm(tma_a, a, tma_b, b, d, *, early=False, unguarded=False):
    """One producer warp, one consumer warpgroup, two stages; the switches weaken one rule each."""
    t = arch.thread_idx()[0]
    sA, sB = operands(2)
    full, empty = barriers(2, 1), barriers(2, 4, "empty")
    if t >= 128:
        if t == 128:
            produce(tma_a, a, tma_b, b, sA, sB, full, empty, unguarded)
    else:
        consume(sA, sB, full, empty, d, t, early)


@cute.jit
def produce(tma_a, a, tma_b, b, sA, sB, full, empty, unguarded):
    one = cute.make_layout(1)
    tiles_a = cute.group_modes(cute.local_tile(a, (M, K), (0, None)), 0, 2)
    tiles_b = cute.group_modes(cute.local_tile(b, (N, K), (0, None)), 0, 2)
    sX, gX = cpasync.tma_partition(tma_a, 0, one, cute.group_modes(sA, 0, 2), tiles_a)
    sY, gY = cpasync.tma_partition(tma_b, 0, one, cute.group_modes(sB, 0, 2), tiles_b)
    for k in dsl.range(4):
        stage, turn = k % 2, k // 2
        if const_expr(not unguarded):
            arch.mbarrier_wait(empty + stage, turn & 1 ^ 1)
        arch.mbarrier_arrive_and_expect_tx(full + stage, BYTES)
        cute.copy(tma_a, gX[None, k], sX[None, stage], tma_bar_ptr=full + stage)
        cute.copy(tma_b, gY[None, k], sY[None, stage], tma_bar_ptr=full + stage)


@cute.jit
def consume(sA, sB, full, empty, d, t, early):
    mma, rA, rB, acc = fragments(sA, sB)
    acc.fill(0.0)
    for k in dsl.range(4):
        stage, turn = k % 2, k // 2
        arch.mbarrier_wait(full + stage, turn & 1)
        multiply(mma, acc, rA, rB, stage, fresh=False)
        if const_expr(not early):
            warpgroup.wait_group(0)
        if t % 32 == 0:  # one lane of each warp, after its own warp's wait
            arch.mbarrier_arrive(empty + stage)
        if const_expr(early):
            warpgroup.wait_group(0)
    write(mma, acc, d)


@case(
    "race",
    mechanism="a stage is released before the wgmmas that read it have retired",
    arrays=[A, B, D],
    block=160,
    host=by_tma,
)
@cute.kernel
def stage_released_before_wait(tma_a, a, tma_b, b, d, ok: Constexpr):
    gemm(tma_a, a, tma_b, b, d, early=not ok)  # FAULT


@case(
    "race",
    "barrier",
    "deadlock",
    mechanism="TMA refills a stage without waiting until it is empty",
    arrays=[A, B, D],
    block=160,
    host=by_tma,
)
@cute.kernel
def tma_refills_unguarded(tma_a, a, tma_b, b, d, ok: Constexpr):
    gemm(tma_a, a, tma_b, b, d, unguarded=not ok)  # FAULT


# -- mma.sync --------------------------------------------------------------------------------------


@case(
    "uninitialised",
    mechanism="one k step of the A fragment is never loaded",
    arrays=[D],
    block=32,
    host=by_hand,
)
@cute.kernel
def fragment_half_loaded(d, ok: Constexpr):
    t = arch.thread_idx()[0]
    mma = cute.make_tiled_mma(warp.MmaF16BF16Op(BFloat16, Float32, (16, 8, 16)))
    rA = cute.make_rmem_tensor(8, BFloat16)
    rB = cute.make_rmem_tensor(4, BFloat16)
    acc = cute.make_rmem_tensor(4, Float32)
    acc.fill(0.0)
    rB.fill(1.0)
    for i in range_constexpr(8 if const_expr(ok) else 4):
        rA[i] = BFloat16(1.0)
    cute.gemm(mma, acc, rA, rB, acc)  # FAULT
    d[t, 0] = acc[0]
