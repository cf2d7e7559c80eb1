"""GEMM, version 4: a ring of stages, and a warp that does nothing but fill it.

    producer   wait empty[s] -> announce the bytes -> TMA A, TMA B      next s
    consumers  wait full[s]  -> wgmma -> release the stage before       next s

TMA runs up to four tiles ahead of the tensor cores, which now never wait for memory.  The tile is
128x256: wgmma reads both operands from shared memory, and below 128 columns that is the limit.
"""

import numpy as np

from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync, warpgroup
from tilewright.pipeline import PipelineTmaAsync, make_consumer_state, make_producer_state
from tilewright.utils import SmemAllocator

TILE_M, TILE_N, TILE_K, STAGES = 128, 256, 64, 4
WARPGROUP, CONSUMERS = 128, 2


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
    warp_idx = cute.arch.make_warp_uniform(tidx // 32)
    role = cute.arch.make_warp_uniform(tidx // WARPGROUP)
    element = mD.element_type
    smem = SmemAllocator()
    sA = smem.allocate_tensor(element, sA_layout, 1024, label="sA")  # (BM, BK, STAGE)
    sB = smem.allocate_tensor(element, sB_layout, 1024, label="sB")  # (BN, BK, STAGE)
    barriers = smem.allocate_array(dsl.Uint64, 2 * STAGES, label="barriers")
    # One lane of each of the eight consumer warps releases a stage.
    pipe = PipelineTmaAsync(barriers, STAGES, (TILE_M + TILE_N) * TILE_K * 2, CONSUMERS * 4)
    if tidx == 0:
        pipe.init_barriers()
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    gA = cute.local_tile(mA, (TILE_M, TILE_K), (bx, None))  # (BM, BK, k)
    gB = cute.local_tile(mB, (TILE_N, TILE_K), (by, None))  # (BN, BK, k)
    gD = cute.local_tile(mD, (TILE_M, TILE_N), (bx, by))  # (BM, BN)
    k_tiles = cute.size(gA, mode=[2])
    if role == 0:
        cute.arch.setmaxregister_decrease(40)
        if warp_idx == 0 and cute.arch.elect_one_sync():
            one = cute.make_layout(1)
            tAsA, tAgA = cpasync.tma_partition(  # (TMA, STAGE), (TMA, k)
                tma_a, 0, one, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
            )
            tBsB, tBgB = cpasync.tma_partition(
                tma_b, 0, one, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2)
            )
            state = make_producer_state(STAGES)
            for k_tile in dsl.range(k_tiles, unroll=1):
                full = pipe.producer_acquire(state)
                cute.copy(tma_a, tAgA[None, k_tile], tAsA[None, state.index], tma_bar_ptr=full)
                cute.copy(tma_b, tBgB[None, k_tile], tBsB[None, state.index], tma_bar_ptr=full)
                state.advance()
    else:
        cute.arch.setmaxregister_increase(232)
        thread = tidx - WARPGROUP
        first_lane = thread % 32 == 0
        thr_mma = tiled_mma.get_slice(thread)
        tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))  # (MMA, MMA_M, MMA_K, STAGE)
        tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))  # (MMA, MMA_N, MMA_K, STAGE)
        acc = tiled_mma.make_fragment_C(thr_mma.partition_shape_C((TILE_M, TILE_N)))
        state, previous = make_consumer_state(STAGES), dsl.Int32(0)
        for k_tile in dsl.range(k_tiles, unroll=1):
            pipe.consumer_wait(state)
            warpgroup.fence()
            for k in dsl.range_constexpr(cute.size(tCrA, mode=[2])):
                tiled_mma.set(warpgroup.Field.ACCUMULATE, k_tile > 0 if k == 0 else True)
                a, b = tCrA[None, None, k, state.index], tCrB[None, None, k, state.index]
                cute.gemm(tiled_mma, acc, a, b, acc)
            warpgroup.commit_group()
            # One group stays in flight; the one before it has read its stage.
            warpgroup.wait_group(1)
            if k_tile > 0:
                pipe.consumer_release(previous, first_lane)
            previous = state.index
            state.advance()
        warpgroup.wait_group(0)
        thr_mma.partition_C(gD).store(acc.load().to(element))


@cute.jit
def gemm(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor):
    """A (M,K), B (N,K), D (M,N): 16-bit, multiples of 128, 64 and 256 for M, K and N."""
    element = mA.element_type
    swizzled = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, element)
    sA_layout = cute.tile_to_shape(swizzled, (TILE_M, TILE_K, STAGES), order=(0, 1, 2))
    sB_layout = cute.tile_to_shape(swizzled, (TILE_N, TILE_K, STAGES), order=(0, 1, 2))
    load, one_stage = cpasync.CopyBulkTensorTileG2SOp(), (None, None, 0)
    tma_a, tA = cpasync.make_tiled_tma_atom(
        load, mA, cute.slice_(sA_layout, one_stage), (TILE_M, TILE_K)
    )
    tma_b, tB = cpasync.make_tiled_tma_atom(
        load, mB, cute.slice_(sB_layout, one_stage), (TILE_N, TILE_K)
    )
    k_major = warpgroup.OperandMajorMode.K
    op = warpgroup.MmaF16BF16Op(
        element,
        dsl.Float32,
        (64, TILE_N, 16),
        warpgroup.OperandSource.SMEM,
        k_major,
        k_major,
    )
    tiled_mma = cute.make_tiled_mma(op, cute.make_layout((CONSUMERS, 1, 1)))
    m, n = mD.shape
    gemm_kernel(tma_a, tA, tma_b, tB, mD, tiled_mma, sA_layout, sB_layout).launch(
        grid=(m // TILE_M, n // TILE_N, 1), block=(WARPGROUP * (1 + CONSUMERS), 1, 1)
    )


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((128, 512), (512, 512)))
    d = np.full((128, 512), np.nan, np.float16)
    gemm(a, b, d)
    assert (d == a.astype(np.float32) @ b.T.astype(np.float32)).all()
    print("v4, a pipeline: exact")


if __name__ == "__main__":
    main()
