"""GEMM, version 2: Ampere's tensor cores, mma.sync m16n8k16, fed by ldmatrix.

The tiles stay 16-bit in shared memory, swizzled so that eight rows of a matrix lie in different
banks.  Four warps multiply 64x64 each.  The block still loads, waits, multiplies, waits.
"""

import numpy as np

from tilewright import cute, dsl
from tilewright.cute.nvgpu import warp, warpgroup
from tilewright.utils import SmemAllocator

TILE_M, TILE_N, TILE_K, THREADS = 128, 128, 64, 128


@cute.kernel
def gemm_kernel(
    mA: cute.Tensor,
    mB: cute.Tensor,
    mD: cute.Tensor,
    tiled_mma: cute.TiledMma,
    sA_layout: cute.ComposedLayout,
    sB_layout: cute.ComposedLayout,
):
    tidx, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    gA = cute.local_tile(mA, (TILE_M, TILE_K), (bx, None))  # (BM, BK, k)
    gB = cute.local_tile(mB, (TILE_N, TILE_K), (by, None))  # (BN, BK, k)
    gD = cute.local_tile(mD, (TILE_M, TILE_N), (bx, by))  # (BM, BN)
    smem = SmemAllocator()
    sA = smem.allocate_tensor(mA.element_type, sA_layout, 128, label="sA")  # (BM, BK)
    sB = smem.allocate_tensor(mB.element_type, sB_layout, 128, label="sB")  # (BN, BK)

    # Global -> shared: 16 bytes for each thread and turn, eight threads side by side on a row.
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), mA.element_type, num_bits_per_copy=128)
    rows = cute.make_layout((THREADS // 8, 8), stride=(8, 1))
    load = cute.make_tiled_copy_tv(atom, rows, cute.make_layout((1, 8)))
    thr_load = load.get_slice(tidx)
    tAgA, tAsA = thr_load.partition_S(gA), thr_load.partition_D(sA)
    tBgB, tBsB = thr_load.partition_S(gB), thr_load.partition_D(sB)
    tArA, tBrB = cute.make_fragment_like(tAsA), cute.make_fragment_like(tBsB)

    # Shared -> registers by ldmatrix, in the order that the tensor cores want.
    thr_mma = tiled_mma.get_slice(tidx)
    tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))  # (MMA, MMA_M, MMA_K)
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))  # (MMA, MMA_N, MMA_K)
    tCgD = thr_mma.partition_C(gD)
    acc = thr_mma.make_fragment_C(thr_mma.partition_shape_C((TILE_M, TILE_N)))
    acc.fill(0.0)
    ldmatrix = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), mA.element_type)
    copy_A = cute.make_tiled_copy_A(ldmatrix, tiled_mma)
    copy_B = cute.make_tiled_copy_B(ldmatrix, tiled_mma)
    tCsA, tCsB = copy_A.get_slice(tidx).partition_S(sA), copy_B.get_slice(tidx).partition_S(sB)

    for k_tile in dsl.range(cute.size(gA, mode=[2]), unroll=1):
        cute.copy(load, tAgA[None, None, None, k_tile], tArA)
        cute.copy(load, tBgB[None, None, None, k_tile], tBrB)
        cute.copy(load, tArA, tAsA)
        cute.copy(load, tBrB, tBsB)
        cute.arch.sync_threads()
        cute.copy(copy_A, tCsA, copy_A.retile(tCrA))
        cute.copy(copy_B, tCsB, copy_B.retile(tCrB))
        cute.gemm(tiled_mma, acc, tCrA, tCrB, acc)
        cute.arch.sync_threads()
    tCgD.store(acc.load().to(mD.element_type))


@cute.jit
def gemm(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor):
    """A (M,K), B (N,K), D (M,N): 16-bit, M and N multiples of 128, K of 64."""
    element = mA.element_type
    swizzled = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, element)
    tiled_mma = cute.make_tiled_mma(
        warp.MmaF16BF16Op(element, dsl.Float32, (16, 8, 16)),
        cute.make_layout((2, 2, 1)),
        permutation_mnk=(32, 32, 16),  # two n8 side by side: one ldmatrix.x4 feeds both
    )
    m, n = mD.shape
    gemm_kernel(
        mA,
        mB,
        mD,
        tiled_mma,
        cute.tile_to_shape(swizzled, (TILE_M, TILE_K), order=(0, 1)),
        cute.tile_to_shape(swizzled, (TILE_N, TILE_K), order=(0, 1)),
    ).launch(grid=(m // TILE_M, n // TILE_N, 1), block=(THREADS, 1, 1))


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((128, 128), (256, 128)))
    d = np.full((128, 256), np.nan, np.float16)
    gemm(a, b, d)
    assert (d == a.astype(np.float32) @ b.T.astype(np.float32)).all()
    print("v2, tensor cores: exact")


if __name__ == "__main__":
    main()
