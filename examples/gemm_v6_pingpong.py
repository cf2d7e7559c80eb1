"""GEMM, version 6: ping-pong.  Each consumer has a tile of its own, and they take turns.

    consumer 0   multiply | store    | multiply | store ..
    consumer 1            | multiply | store    | multiply ..

While one stores, the other one has the tensor cores to itself: the epilogue costs nothing.  The
parts are those of version 5; what is new is the order.
"""

import numpy as np
from gemm_v5_persistent import BOX, BOXES_AT_ONCE, Multiply, Store

from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync, warpgroup
from tilewright.pipeline import (
    OrderedSequenceBarrier,
    PipelineTmaAsync,
    make_consumer_state,
    make_producer_state,
)
from tilewright.utils import RasterScheduler, SmemAllocator

TILE_M, TILE_N, TILE_K, STAGES, GROUP = 128, 128, 64, 5, 8
WARPGROUP, CONSUMERS = 128, 2


@cute.kernel
def gemm_kernel(
    tma_a: cute.CopyAtom,
    mA: cute.Tensor,
    tma_b: cute.CopyAtom,
    mB: cute.Tensor,
    tma_d: cute.CopyAtom,
    mD: cute.Tensor,
    sA_layout: cute.ComposedLayout,
    sB_layout: cute.ComposedLayout,
    sD_layout: cute.ComposedLayout,
    element: dsl.Constexpr,
):
    tidx, _, _ = cute.arch.thread_idx()
    warp_idx = cute.arch.make_warp_uniform(tidx // 32)
    role = cute.arch.make_warp_uniform(tidx // WARPGROUP)
    smem = SmemAllocator()
    sA = smem.allocate_tensor(element, sA_layout, 1024, label="sA")  # (BM, BK, STAGE)
    sB = smem.allocate_tensor(element, sB_layout, 1024, label="sB")  # (BN, BK, STAGE)
    sD = smem.allocate_tensor(element, sD_layout, 1024, label="sD")  # (BOX, BOX, CONSUMER x BOX)
    barriers = smem.allocate_array(dsl.Uint64, 2 * STAGES, label="barriers")
    # A stage has one reader now: the consumer whose tile it is.
    pipe = PipelineTmaAsync(barriers, STAGES, (TILE_M + TILE_N) * TILE_K * 2, 4)
    if tidx == 0:
        pipe.init_barriers()
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    m, n = mD.shape
    k_tiles = cute.ceil_div(mA.shape[1], TILE_K)
    tiles = RasterScheduler(cute.ceil_div(m, TILE_M), cute.ceil_div(n, TILE_N), GROUP)
    block, blocks = cute.arch.block_idx()[0], cute.arch.grid_dim()[0]
    if role == 0:
        cute.arch.setmaxregister_decrease(40)
        if warp_idx == 0 and cute.arch.elect_one_sync():
            gA = cute.local_tile(mA, (TILE_M, TILE_K), (None, None))  # (BM, BK, m, k)
            gB = cute.local_tile(mB, (TILE_N, TILE_K), (None, None))  # (BN, BK, n, k)
            one = cute.make_layout(1)
            tAsA, tAgA = cpasync.tma_partition(
                tma_a, 0, one, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
            )
            tBsB, tBgB = cpasync.tma_partition(
                tma_b, 0, one, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2)
            )
            state = make_producer_state(STAGES)
            for number in dsl.range(block, tiles.num_tiles, blocks, unroll=1):
                tile = tiles.tile_at(number)
                for k_tile in dsl.range(k_tiles, unroll=1):
                    full = pipe.producer_acquire(state)
                    a, b = tAgA[None, tile.m, k_tile], tBgB[None, tile.n, k_tile]
                    cute.copy(tma_a, a, tAsA[None, state.index], tma_bar_ptr=full)
                    cute.copy(tma_b, b, tBsB[None, state.index], tma_bar_ptr=full)
                    state.advance()
    else:
        cute.arch.setmaxregister_increase(232)
        consumer, thread = role - 1, tidx % WARPGROUP
        multiply = Multiply(sA, sB, pipe, (TILE_M, 0), thread)
        store = Store(tma_d, mD, sD, (TILE_M, TILE_N), consumer, thread)
        turns = OrderedSequenceBarrier(3, CONSUMERS, WARPGROUP)
        turns.start(consumer)
        state = make_consumer_state(STAGES)
        state.skip(consumer * k_tiles)  # the first tile is the other one's
        first, step = block + consumer * blocks, CONSUMERS * blocks
        for number in dsl.range(first, tiles.num_tiles, step, unroll=1):
            tile = tiles.tile_at(number)
            turns.wait(consumer)
            last = multiply.issue(state, k_tiles)
            turns.arrive(consumer)  # all products are issued: the other one's may queue
            multiply.finish(last)
            state.skip(k_tiles)
            store.tile(multiply.acc, tile.m, tile.n)
        store.finish()


@cute.jit
def gemm(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor, blocks: dsl.Constexpr = 132):
    """A (M,K), B (N,K), D (M,N): 16-bit; any M, N and K whose rows are multiples of 16 bytes."""
    element = mA.element_type
    swizzled = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, element)

    def staged(rows, columns, stages):
        return cute.tile_to_shape(swizzled, (rows, columns, stages), order=(0, 1, 2))

    sA_layout, sB_layout = staged(TILE_M, TILE_K, STAGES), staged(TILE_N, TILE_K, STAGES)
    sD_layout = staged(BOX, BOX, CONSUMERS * BOXES_AT_ONCE)
    load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
    one = (None, None, 0)
    tma_a, tA = cpasync.make_tiled_tma_atom(load, mA, cute.slice_(sA_layout, one), (TILE_M, TILE_K))
    tma_b, tB = cpasync.make_tiled_tma_atom(load, mB, cute.slice_(sB_layout, one), (TILE_N, TILE_K))
    tma_d, tD = cpasync.make_tiled_tma_atom(store, mD, cute.slice_(sD_layout, one), (BOX, BOX))
    m, n = mD.shape
    tiles = cute.ceil_div(m, TILE_M) * cute.ceil_div(n, TILE_N)
    gemm_kernel(tma_a, tA, tma_b, tB, tma_d, tD, sA_layout, sB_layout, sD_layout, element).launch(
        grid=(dsl.min(tiles, blocks), 1, 1), block=(WARPGROUP * (1 + CONSUMERS), 1, 1)
    )


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((296, 200), (520, 200)))
    d = np.full((296, 520), np.nan, np.float16)
    gemm(a, b, d, 4)  # four blocks for fifteen tiles
    assert (d == a.astype(np.float32) @ b.T.astype(np.float32)).all()
    print("v6, ping-pong: exact")


if __name__ == "__main__":
    main()
