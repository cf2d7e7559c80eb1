"""GEMM, version 3: Hopper's own way in: TMA brings the tiles, wgmma reads them where they lie.

One thread asks for whole tiles; nobody computes an address, and no register sees an operand.  Two
warpgroups multiply 64 rows each.  There is one stage: TMA and tensor cores still take turns.
"""

import numpy as np

from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync, warpgroup
from tilewright.utils import SmemAllocator

TILE_M, TILE_N, TILE_K, THREADS = 128, 128, 64, 256


@cute.kernel
def gemm_kernel(
    tma_a: cute.CopyAtom,
    mA: cute.Tensor,
    tma_b: cute.CopyAtom,
    mB: cute.Tensor,
    mD: cute.Tensor,
    tiled_mma: cute.TiledMma,
    sA_layout: cute.ComposedLayout,
    sB_layout: cute.ComposedLayout,
):
    tidx, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    element = mD.element_type
    smem = SmemAllocator()
    sA = smem.allocate_tensor(element, sA_layout, 1024, label="sA")  # (BM, BK)
    sB = smem.allocate_tensor(element, sB_layout, 1024, label="sB")  # (BN, BK)
    full = smem.allocate_array(dsl.Uint64, 1, label="full")
    if tidx == 0:
        cute.arch.mbarrier_init(full, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    gA = cute.local_tile(mA, (TILE_M, TILE_K), (bx, None))  # (BM, BK, k)
    gB = cute.local_tile(mB, (TILE_N, TILE_K), (by, None))  # (BN, BK, k)
    gD = cute.local_tile(mD, (TILE_M, TILE_N), (bx, by))  # (BM, BN)
    one = cute.make_layout(1)
    tAsA, tAgA = cpasync.tma_partition(
        tma_a, 0, one, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
    )
    tBsB, tBgB = cpasync.tma_partition(
        tma_b, 0, one, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2)
    )

    thr_mma = tiled_mma.get_slice(tidx)
    tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))  # (MMA, MMA_M, MMA_K): descriptors
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))  # (MMA, MMA_N, MMA_K)
    acc = tiled_mma.make_fragment_C(thr_mma.partition_shape_C((TILE_M, TILE_N)))

    for k_tile in dsl.range(cute.size(gA, mode=[2]), unroll=1):
        if tidx == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(full, (TILE_M + TILE_N) * TILE_K * 2)
            cute.copy(tma_a, tAgA[None, k_tile], tAsA, tma_bar_ptr=full)
            cute.copy(tma_b, tBgB[None, k_tile], tBsB, tma_bar_ptr=full)
        cute.arch.mbarrier_wait(full, k_tile & 1)
        warpgroup.fence()
        for k in dsl.range_constexpr(cute.size(tCrA, mode=[2])):
            # The first product overwrites the accumulators: they are never zeroed.
            tiled_mma.set(warpgroup.Field.ACCUMULATE, k_tile > 0 if k == 0 else True)
            cute.gemm(tiled_mma, acc, tCrA[None, None, k], tCrB[None, None, k], acc)
        warpgroup.commit_group()
        warpgroup.wait_group(0)
        cute.arch.sync_threads()  # both warpgroups have read the tiles
    thr_mma.partition_C(gD).store(acc.load().to(element))


@cute.jit
def gemm(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor):
    """A (M,K), B (N,K), D (M,N): 16-bit, M and N multiples of 128, K of 64."""
    element = mA.element_type
    swizzled = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, element)
    sA_layout = cute.tile_to_shape(swizzled, (TILE_M, TILE_K), order=(0, 1))
    sB_layout = cute.tile_to_shape(swizzled, (TILE_N, TILE_K), order=(0, 1))
    load = cpasync.CopyBulkTensorTileG2SOp()
    tma_a, tA = cpasync.make_tiled_tma_atom(load, mA, sA_layout, (TILE_M, TILE_K))
    tma_b, tB = cpasync.make_tiled_tma_atom(load, mB, sB_layout, (TILE_N, TILE_K))
    k_major = warpgroup.OperandMajorMode.K
    op = warpgroup.MmaF16BF16Op(
        element,
        dsl.Float32,
        (64, TILE_N, 16),
        warpgroup.OperandSource.SMEM,
        k_major,
        k_major,
    )
    tiled_mma = cute.make_tiled_mma(op, cute.make_layout((2, 1, 1)))
    m, n = mD.shape
    gemm_kernel(tma_a, tA, tma_b, tB, mD, tiled_mma, sA_layout, sB_layout).launch(
        grid=(m // TILE_M, n // TILE_N, 1), block=(THREADS, 1, 1)
    )


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((128, 128), (256, 128)))
    d = np.full((128, 256), np.nan, np.float16)
    gemm(a, b, d)
    assert (d == a.astype(np.float32) @ b.T.astype(np.float32)).all()
    print("v3, TMA and wgmma: exact")


if __name__ == "__main__":
    main()
