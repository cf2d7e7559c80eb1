"""GEMM, version 5: persistent blocks, and an epilogue by TMA that overlaps the next tile.

One block for each SM walks over many tiles, so that the producer already fetches the next tile
while the consumers store this one.  They store through shared memory: stmatrix, then one TMA for
each 64x64 box, which runs on while the next tile is multiplied.  Tiles are walked in groups of 16
rows, whose operands stay in the L2.
"""

import numpy as np

from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync, warp, warpgroup
from tilewright.pipeline import (
    PipelineTmaAsync,
    PipelineTmaStore,
    make_consumer_state,
    make_producer_state,
)
from tilewright.utils import RasterScheduler, SmemAllocator

TILE_M, TILE_N, TILE_K, STAGES = 128, 256, 64, 4
WARPGROUP, CONSUMERS = 128, 2
BOX, BOXES_AT_ONCE, GROUP = 64, 2, 16


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
    pipe = PipelineTmaAsync(barriers, STAGES, (TILE_M + TILE_N) * TILE_K * 2, CONSUMERS * 4)
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
        multiply = Multiply(sA, sB, pipe, (TILE_M // CONSUMERS, consumer), thread)
        store = Store(tma_d, mD, sD, (TILE_M // CONSUMERS, TILE_N), consumer, thread)
        state = make_consumer_state(STAGES)
        for number in dsl.range(block, tiles.num_tiles, blocks, unroll=1):
            tile = tiles.tile_at(number)
            multiply.finish(multiply.issue(state, k_tiles))
            store.tile(multiply.acc, tile.m * CONSUMERS + consumer, tile.n)
        store.finish()


class Multiply:
    """A consumer's products: `rows` = (how many, which part) of each stage's A, with all of B."""

    def __init__(self, sA, sB, pipe, rows, thread):
        self.pipe, self.first_lane = pipe, thread % 32 == 0
        columns, bk = cute.size(sB, mode=[0]), cute.size(sB, mode=[1])
        self.mma = cute.make_tiled_mma(wgmma(sA.element_type, columns))
        own_A = cute.local_tile(sA, (rows[0], bk), (rows[1], 0, None))  # (ROWS, BK, STAGE)
        thr_mma = self.mma.get_slice(0)
        self.a = self.mma.make_fragment_A(thr_mma.partition_A(own_A))  # (MMA, MMA_M, K, STAGE)
        self.b = self.mma.make_fragment_B(thr_mma.partition_B(sB))  # (MMA, MMA_N, K, STAGE)
        shape = self.mma.partition_shape_C((rows[0], columns))
        self.acc = self.mma.make_fragment_C(shape)

    @cute.jit
    def issue(self, state, k_tiles):
        """Issues the products of one tile; returns the stage that is still being read."""
        previous = dsl.Int32(0)
        for k_tile in dsl.range(k_tiles, unroll=1):
            self.pipe.consumer_wait(state)
            warpgroup.fence()
            for k in dsl.range_constexpr(cute.size(self.a, mode=[2])):
                self.mma.set(warpgroup.Field.ACCUMULATE, k_tile > 0 if k == 0 else True)
                a, b = self.a[None, None, k, state.index], self.b[None, None, k, state.index]
                cute.gemm(self.mma, self.acc, a, b, self.acc)
            warpgroup.commit_group()
            warpgroup.wait_group(1)
            if k_tile > 0:
                self.pipe.consumer_release(previous, self.first_lane)
            previous = state.index
            state.advance()
        return previous

    def finish(self, last_stage):
        """Waits for the accumulators and releases the last stage."""
        warpgroup.wait_group(0)
        self.pipe.consumer_release(last_stage, self.first_lane)


class Store:
    """A consumer's way out for a `tile` (rows, columns): registers -> stmatrix -> boxes -> TMA."""

    def __init__(self, tma_d, mD, sD, tile, consumer, thread):
        self.tma_d, self.thread, self.barrier = tma_d, thread, 1 + consumer
        self.down, self.across = tile[0] // BOX, tile[1] // BOX
        own = cute.local_tile(sD, (BOX, BOX, BOXES_AT_ONCE), (0, 0, consumer))
        box_mma = cute.make_tiled_mma(wgmma(sD.element_type, BOX))
        stmatrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), sD.element_type)
        self.copy = cute.make_tiled_copy_C(stmatrix, box_mma)
        self.into = self.copy.get_slice(thread).partition_D(own)  # (CPY, CPY_M, CPY_N, BOX)
        self.out = cute.make_rmem_tensor(box_mma.partition_shape_C((BOX, BOX)), sD.element_type)
        self.pipe = PipelineTmaStore(1)
        gD = cute.local_tile(mD, (BOX, BOX), (None, None))
        self.sD, self.gD = cpasync.tma_partition(
            tma_d, 0, cute.make_layout(1), cute.group_modes(own, 0, 2), cute.group_modes(gD, 0, 2)
        )

    @cute.jit
    def tile(self, acc, tile_m, tile_n):
        boxes = self.down * self.across
        values = cute.make_layout((BOX * BOX // WARPGROUP, boxes))
        acc_boxes = cute.make_tensor(acc.iterator, values)
        out = cute.make_tensor(self.out.iterator, cute.make_layout(cute.size(self.out)))
        for turn in dsl.range_constexpr(0, boxes, BOXES_AT_ONCE):
            if self.thread == 0:
                self.pipe.producer_acquire()  # the boxes of the turn before have been read
            cute.arch.barrier(barrier_id=self.barrier, number_of_threads=WARPGROUP)
            for x in dsl.range_constexpr(BOXES_AT_ONCE):
                out.store(acc_boxes[None, turn + x].load().to(self.out.element_type))
                cute.copy(self.copy, self.copy.retile(self.out), self.into[None, None, None, x])
            # Every writer makes its part visible to TMA, then all wait for each other.
            cute.arch.fence_proxy("async.shared", space="cta")
            cute.arch.barrier(barrier_id=self.barrier, number_of_threads=WARPGROUP)
            if self.thread == 0:
                for x in dsl.range_constexpr(BOXES_AT_ONCE):
                    m = tile_m * self.down + (turn + x) // self.across
                    n = tile_n * self.across + (turn + x) % self.across
                    cute.copy(self.tma_d, self.sD[None, x], self.gD[None, m, n])
                self.pipe.producer_commit()

    @cute.jit
    def finish(self):
        if self.thread == 0:
            self.pipe.producer_tail()


def wgmma(element, columns):
    """64 x `columns` x 16, both operands in shared memory with K contiguous."""
    k_major = warpgroup.OperandMajorMode.K
    shape, source = (64, columns, 16), warpgroup.OperandSource.SMEM
    return warpgroup.MmaF16BF16Op(element, dsl.Float32, shape, source, k_major, k_major)


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
    gemm(a, b, d, 4)  # four blocks for nine tiles
    assert (d == a.astype(np.float32) @ b.T.astype(np.float32)).all()
    print("v5, persistent: exact")


if __name__ == "__main__":
    main()
