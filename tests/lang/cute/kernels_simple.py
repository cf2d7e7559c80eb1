"""A GEMM by one thread at a time, and one on Ampere's tensor cores, for `test_programs`."""

from __future__ import annotations

from tilewright.lang import cute
from tilewright.lang.arguments import Constexpr
from tilewright.lang.cute.smem import SmemAllocator
from tilewright.lang.ranges import range_constexpr
from tilewright.lang.values import BFloat16, Boolean, Float32

warp, cpasync = cute.nvgpu.warp, cute.nvgpu.cpasync
BM, BN, BK, STAGES = 64, 64, 32, 2


@cute.kernel
def simt(
    gA: cute.Tensor, gB: cute.Tensor, gC: cute.Tensor, load: cute.TiledCopy, mma: cute.TiledMma
):
    tidx, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    smem = SmemAllocator()
    layout = cute.make_layout((BM, 8), stride=(1, BM + 4))
    sA = smem.allocate_tensor(Float32, layout, label="sA")  # (BM, BK)
    sB = smem.allocate_tensor(Float32, layout, label="sB")  # (BN, BK)
    tA = cute.local_tile(gA, (BM, 8), (bx, None))  # (BM, BK, k)
    tB = cute.local_tile(gB, (BN, 8), (by, None))
    tC = cute.local_tile(gC, (BM, BN), (bx, by))  # (BM, BN)
    cA = cute.local_tile(cute.make_identity_tensor(gA.shape), (BM, 8), (bx, None))
    cB = cute.local_tile(cute.make_identity_tensor(gB.shape), (BN, 8), (by, None))
    cC = cute.local_tile(cute.make_identity_tensor(gC.shape), (BM, BN), (bx, by))
    copy = load.get_slice(tidx)
    tAgA, tAsA, tAcA = copy.partition_S(tA), copy.partition_D(sA), copy.partition_S(cA)
    tBgB, tBsB, tBcB = copy.partition_S(tB), copy.partition_D(sB), copy.partition_S(cB)
    thr = mma.get_slice(tidx)
    tCsA, tCsB = thr.partition_A(sA), thr.partition_B(sB)
    tCgC, tCcC = thr.partition_C(tC), thr.partition_C(cC)
    rA, rB = mma.make_fragment_A(tCsA), mma.make_fragment_B(tCsB)
    acc = mma.make_fragment_C(tCgC)
    acc.fill(0.0)
    rest = (tAsA.shape[0][1], cute.size(tAsA, mode=[1]), cute.size(tAsA, mode=[2]))
    for k in range(cute.size(tA, mode=[2])):
        pA, pB = cute.make_rmem_tensor(rest, Boolean), cute.make_rmem_tensor(rest, Boolean)
        tAsA.fill(0.0)
        tBsB.fill(0.0)
        for i in range_constexpr(cute.size(pA)):
            pA[i] = cute.elem_less(tAcA[None, None, None, k][i], gA.shape)
            pB[i] = cute.elem_less(tBcB[None, None, None, k][i], gB.shape)
        cute.copy(load, tAgA[None, None, None, k], tAsA, pred=pA)
        cute.copy(load, tBgB[None, None, None, k], tBsB, pred=pB)
        cute.arch.sync_threads()
        cute.autovec_copy(tCsA, rA)
        cute.autovec_copy(tCsB, rB)
        cute.gemm(mma, acc, rA, rB, acc)
        cute.arch.sync_threads()
    for i in range_constexpr(cute.size(acc)):
        if cute.elem_less(tCcC[i], gC.shape):
            tCgC[i] = acc[i]


@cute.jit
def simt_host(A: cute.Tensor, B: cute.Tensor, C: cute.Tensor):
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), Float32)
    threads = cute.make_layout((32, 8), stride=(8, 1))
    load = cute.make_tiled_copy_tv(atom, threads, cute.make_layout((1, 1)))
    four = cute.make_layout((16, 4), stride=(4, 1))
    op = cute.nvgpu.MmaUniversalOp(Float32)
    mma = cute.make_tiled_mma(op, (16, 16, 1), permutation_mnk=(four, four, None))
    m, n = C.shape
    grid = (cute.ceil_div(m, BM), cute.ceil_div(n, BN), 1)
    simt(A, B, C, load, mma).launch(grid=grid, block=(256, 1, 1))


@cute.kernel
def ampere(
    gA: cute.Tensor,
    gB: cute.Tensor,
    gC: cute.Tensor,
    load: cute.TiledCopy,
    mma: cute.TiledMma,
    sA_layout,
    sB_layout,
    transposed: Constexpr,
):
    tidx, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    smem = SmemAllocator()
    sA = smem.allocate_tensor(BFloat16, sA_layout, label="sA")  # (BM, BK, STAGE)
    sB = smem.allocate_tensor(BFloat16, sB_layout, label="sB")  # (BN, BK, STAGE)
    tA = cute.local_tile(gA, (BM, BK), (bx, None))
    tB = cute.local_tile(gB, (BN, BK), (by, None))
    tC = cute.local_tile(gC, (BM, BN), (bx, by))
    copy = load.get_slice(tidx)
    tAgA, tAsA = copy.partition_S(tA), copy.partition_D(sA)
    tBgB, tBsB = copy.partition_S(tB), copy.partition_D(sB)
    thr = mma.get_slice(tidx)
    rA = mma.make_fragment_A(thr.partition_A(sA)[None, None, None, 0])
    rB = mma.make_fragment_B(thr.partition_B(sB)[None, None, None, 0])
    tCgC = thr.partition_C(tC)
    acc = mma.make_fragment_C(tCgC)
    acc.fill(0.0)
    atom = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(transposed, 4), BFloat16)
    copy_A, copy_B = cute.make_tiled_copy_A(atom, mma), cute.make_tiled_copy_B(atom, mma)
    fromA, toA = copy_A.get_slice(tidx).partition_S(sA), copy_A.retile(rA)
    fromB, toB = copy_B.get_slice(tidx).partition_S(sB), copy_B.retile(rB)
    for k in range(cute.size(tA, mode=[2])):
        stage = k % STAGES
        cute.copy(load, tAgA[None, None, None, k], tAsA[None, None, None, stage])
        cute.copy(load, tBgB[None, None, None, k], tBsB[None, None, None, stage])
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        cute.arch.sync_threads()
        for kk in range_constexpr(cute.size(rA, mode=[2])):
            cute.copy(copy_A, fromA[None, None, kk, stage], toA[None, None, kk])
            cute.copy(copy_B, fromB[None, None, kk, stage], toB[None, None, kk])
            cute.gemm(mma, acc, rA[None, None, kk], rB[None, None, kk], acc)
        cute.arch.sync_threads()
    out = cute.make_fragment_like(acc, BFloat16)
    out.store(acc.load().to(BFloat16))
    cute.autovec_copy(out, tCgC)


@cute.jit
def ampere_host(A: cute.Tensor, B: cute.Tensor, C: cute.Tensor, transposed: Constexpr):
    op = cpasync.CopyG2SOp(cpasync.LoadCacheMode.GLOBAL)
    atom = cute.make_copy_atom(op, BFloat16, num_bits_per_copy=128)
    if transposed:
        threads, values = cute.make_layout((8, 16)), cute.make_layout((8, 1))
        block = cute.make_layout((64, 8))
        swizzle = cute.make_swizzle(3, 3, 3)
    else:
        threads = cute.make_layout((32, 4), stride=(4, 1))
        values = cute.make_layout((1, 8))
        block = cute.make_layout((8, 32), stride=(32, 1))
        swizzle = cute.make_swizzle(2, 3, 3)
    load = cute.make_tiled_copy_tv(atom, threads, values)
    mma_op = warp.MmaF16BF16Op(BFloat16, Float32, (16, 8, 16))
    mma = cute.make_tiled_mma(mma_op, (2, 2, 1), permutation_mnk=(32, 32, 16))
    piece = cute.make_composed_layout(swizzle, 0, block)
    layout = cute.tile_to_shape(piece, (BM, BK, STAGES), (0, 1, 2))
    m, n = C.shape
    grid = (cute.ceil_div(m, BM), cute.ceil_div(n, BN), 1)
    ampere(A, B, C, load, mma, layout, layout, transposed).launch(grid=grid, block=(128, 1, 1))
