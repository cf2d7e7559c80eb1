"""Hopper GEMM: TMA, wgmma, warp-specialised, persistent.

    D[M,N,L] = epilogue(A[M,K,L] * B[N,K,L]^T)

Warpgroup 0 is the producer: one thread walks the output tiles of this block and fills a ring of
shared-memory stages by TMA.  Warpgroups 1 and 2 are the consumers: they multiply on the tensor
cores and store.  The parts are collectives of their own: the main loop, the epilogue and what it
computes, the scheduler, the pipelines.  Here is how they are put together, in two schedules:

    cooperative   both consumers share a tile, half of its rows each
    ping-pong     each consumer has a tile of its own: while one multiplies, the other one stores

Operands are 16-bit, with any one index contiguous in each; ragged M, N and K are cut off by TMA's
own bounds.
"""

from __future__ import annotations

from typing import Any

from tilewright import cute, dsl
from tilewright.arch.target import Target
from tilewright.collective.epilogue.direct import DirectStore
from tilewright.collective.epilogue.fusion import Fusion, linear_combination
from tilewright.collective.epilogue.sm90_store import BOX, TmaStore, box_columns, box_layout
from tilewright.collective.epilogue.split_k import SplitK
from tilewright.collective.mainloop.sm90_tma import (
    TmaProducer,
    WgmmaConsumer,
    stage_layout,
    wgmma_op,
)
from tilewright.collective.pipeline import (
    OrderedSequenceBarrier,
    PipelineTmaAsync,
    make_consumer_state,
    make_producer_state,
)
from tilewright.collective.scheduler import RasterScheduler, batch_count
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Uint64, const_expr
from tilewright.library import heuristics
from tilewright.library.configs import CONSUMERS, WARPGROUP, Sm90GemmConfig, sm90_refusal
from tilewright.library.problem import GemmProblem
from tilewright.utils import SmemAllocator

NAME = "sm90_gemm"

THREADS = WARPGROUP * (1 + CONSUMERS)
LENT = 8
"""Registers of each consumer thread that come from the producer: 16 of its own for two of them."""
STORE_BARRIER = 1
"""Named barriers 1 and 2: the threads of one consumer, around its store boxes."""
TURN_BARRIER = 3
"""Named barriers 3 and 4: whose turn on the tensor cores it is."""


@cute.kernel
def sm90_gemm_kernel(
    tma_a: cute.CopyAtom,
    mA: cute.Tensor,  # (M, K, L), coordinates
    tma_b: cute.CopyAtom,
    mB: cute.Tensor,  # (N, K, L), coordinates
    tma_d: cute.CopyAtom | None,
    mD: cute.Tensor,  # (M, N, L), coordinates (of TMA), or in memory
    tensors: Any,
    scalars: Any,
    workspace: Any,
    sA_layout: cute.ComposedLayout,
    sB_layout: cute.ComposedLayout,
    sD_layout: cute.ComposedLayout | None,
    majors: Constexpr,
    element: Constexpr,
    tree: Constexpr,
    config: Constexpr,
) -> None:
    bm, bn, bk = config.tile_shape_mnk
    tidx, _, _ = cute.arch.thread_idx()
    warp_idx = cute.arch.make_warp_uniform(tidx // 32)
    role = cute.arch.make_warp_uniform(tidx // WARPGROUP)

    # Shared memory: the ring of stages, the store boxes of both consumers, the barriers.
    smem = SmemAllocator()
    sA = smem.allocate_tensor(element, sA_layout, 1024, label="sA")  # (BM, BK, STAGE)
    sB = smem.allocate_tensor(element, sB_layout, 1024, label="sB")  # (BN, BK, STAGE)
    sD = None
    if const_expr(tma_d is not None):
        sD = smem.allocate_tensor(element, sD_layout, 1024, label="sD")  # (ROWS, COLUMNS, BUFFER)
    barriers = smem.allocate_array(Uint64, 2 * config.num_stages, label="barriers")
    flags = None
    if const_expr(config.split_k > 1):
        flags = smem.allocate_array(dsl.Int32, CONSUMERS, label="flags")
    stage_bytes = (bm + bn) * bk * element.width // 8
    readers = CONSUMERS if config.schedule == "cooperative" else 1
    pipe = PipelineTmaAsync(barriers, config.num_stages, stage_bytes, readers * 4)
    if tidx == 0:
        cpasync.prefetch_descriptor(tma_a)
        cpasync.prefetch_descriptor(tma_b)
        if const_expr(tma_d is not None):
            cpasync.prefetch_descriptor(tma_d)
        pipe.init_barriers()
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    m, n, _ = mD.shape
    k_tiles = cute.ceil_div(mA.shape[1], bk)
    tiles_m, tiles_n = cute.ceil_div(m, bm), cute.ceil_div(n, bn)
    scheduler = RasterScheduler(tiles_m, tiles_n, config.raster, batch_count(mD), config.split_k)

    lent = registers_lent(tree)
    if role == 0:
        if const_expr(config.blocks_per_sm == 1):
            cute.arch.setmaxregister_decrease(config.producer_registers - 2 * lent)
        if warp_idx == 0 and cute.arch.elect_one_sync():
            producer = TmaProducer(tma_a, mA, sA, tma_b, mB, sB, pipe, config.tile_shape_mnk)
            produce(producer, scheduler, k_tiles, config)
    else:
        if const_expr(config.blocks_per_sm == 1):
            cute.arch.setmaxregister_increase(config.consumer_registers + lent)
        consumer, thread = role - 1, tidx % WARPGROUP
        tiled_mma = cute.make_tiled_mma(wgmma_op(element, bn, majors.a, majors.b))
        part = consumer if const_expr(config.schedule == "cooperative") else 0
        first_lane = thread % 32 == 0
        mainloop = WgmmaConsumer(sA, sB, pipe, tiled_mma, config.consumer_rows, part, first_lane)
        fusion = Fusion(tree, tensors, scalars)
        store = make_store(tma_d, mD, sD, fusion, tiled_mma, consumer, thread, majors.d, config)
        if const_expr(config.schedule == "pingpong"):
            consume_in_turns(mainloop, scheduler, store, k_tiles, consumer, config)
        else:
            split = None
            if const_expr(config.split_k > 1):
                barrier = STORE_BARRIER + consumer
                split = SplitK(
                    workspace, flags, config.split_k, CONSUMERS, consumer, thread, barrier
                )
                split.touch()
            consume_together(mainloop, scheduler, store, split, k_tiles, consumer, config)


def registers_lent(tree: Any) -> int:
    """Registers that a consumer thread has of the producer's: none if D is only scaled."""
    return 0 if tree == linear_combination() else LENT


@cute.jit
def make_store(tma_d, mD, sD, fusion, tiled_mma, consumer, thread, d_major, config):
    """The epilogue of one consumer."""
    tile = config.consumer_rows, config.tile_shape_mnk[1]
    if const_expr(tma_d is None):
        return DirectStore(tiled_mma.get_slice(thread), mD, fusion, tile)
    own = cute.local_tile(  # (ROWS, COLUMNS, BUFFER)
        sD,
        (BOX, box_columns(tile[1]), config.store_boxes * config.store_buffers),
        (0, 0, consumer),
    )
    return TmaStore(
        tma_d,
        mD,
        own,
        fusion,
        tile,
        d_major=d_major,
        boxes_at_once=config.store_boxes,
        buffers=config.store_buffers,
        thread=thread,
        barrier=STORE_BARRIER + consumer,
    )


@cute.jit
def produce(producer, scheduler, k_tiles, config):
    """The producer thread: fills the ring with what this block multiplies, tile after tile."""
    state = make_producer_state(config.num_stages)
    for number in dsl.range(
        cute.arch.block_idx()[0], scheduler.num_tiles, cute.arch.grid_dim()[0], unroll=1
    ):
        tile = scheduler.tile_at(number)
        k_first, k_count = scheduler.k_range(tile, k_tiles)
        producer.fill(state, tile, k_first, k_count)


@cute.jit
def consume_together(mainloop, scheduler, store, split, k_tiles, consumer, config):
    """A consumer of the cooperative schedule: its own rows of every tile of this block."""
    state = make_consumer_state(config.num_stages)
    for number in dsl.range(
        cute.arch.block_idx()[0], scheduler.num_tiles, cute.arch.grid_dim()[0], unroll=1
    ):
        tile = scheduler.tile_at(number)
        _, k_count = scheduler.k_range(tile, k_tiles)
        last = mainloop.multiply(state, k_count)
        mainloop.finish(last)
        tile_m = tile.m * CONSUMERS + consumer
        if const_expr(split is not None):
            whole = split.collect(mainloop.acc, number // config.split_k, tile.part)
            if whole:
                store.tile(mainloop.acc, tile_m, tile.n, tile.batch)
        else:
            store.tile(mainloop.acc, tile_m, tile.n, tile.batch)
    store.finish()


@cute.jit
def consume_in_turns(mainloop, scheduler, store, k_tiles, consumer, config):
    """A consumer of the ping-pong schedule: every second tile of this block."""
    turns = OrderedSequenceBarrier(TURN_BARRIER, CONSUMERS, WARPGROUP)
    turns.start(consumer)
    state = make_consumer_state(config.num_stages)
    state.skip(consumer * k_tiles)
    blocks = cute.arch.grid_dim()[0]
    for number in dsl.range(
        cute.arch.block_idx()[0] + consumer * blocks,
        scheduler.num_tiles,
        CONSUMERS * blocks,
        unroll=1,
    ):
        tile = scheduler.tile_at(number)
        turns.wait(consumer)
        last = mainloop.multiply(state, k_tiles)
        # All products are issued: the other consumer's may queue behind them.
        turns.arrive(consumer)
        mainloop.finish(last)
        state.skip(k_tiles)
        store.tile(mainloop.acc, tile.m, tile.n, tile.batch)
    store.finish()


@cute.jit
def host(
    mA: cute.Tensor,  # (M, K, L)
    mB: cute.Tensor,  # (N, K, L)
    mD: cute.Tensor,  # (M, N, L)
    tensors: Any,  # what the epilogue loads, each (M, N, L)
    scalars: Any,
    workspace: Any,  # of split K: partial sums, counters
    majors: Constexpr,  # the contiguous index of A, B, D
    tree: Constexpr,
    config: Constexpr,
) -> None:
    """Makes the tensor maps and launches one block for each SM, or for each tile if fewer."""
    bm, bn, bk = config.tile_shape_mnk
    element = mA.element_type
    sA_layout = stage_layout(element, bm, bk, config.num_stages, majors.a)
    sB_layout = stage_layout(element, bn, bk, config.num_stages, majors.b)
    load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
    one = (None, None, 0)
    tma_a, tA = cpasync.make_tiled_tma_atom(load, mA, cute.slice_(sA_layout, one), (bm, bk))
    tma_b, tB = cpasync.make_tiled_tma_atom(load, mB, cute.slice_(sB_layout, one), (bn, bk))
    tma_d, tD, sD_layout = None, mD, None
    if const_expr(config.epilogue == "tma"):
        box = BOX, box_columns(bn)
        buffers = CONSUMERS * config.store_boxes * config.store_buffers
        sD_layout = box_layout(mD.element_type, box[1], majors.d, buffers)
        tma_d, tD = cpasync.make_tiled_tma_atom(store, mD, cute.slice_(sD_layout, one), box)
    m, n, _ = mD.shape
    batches = batch_count(mD)
    tiles = cute.ceil_div(m, bm) * cute.ceil_div(n, bn) * batches * config.split_k
    sm90_gemm_kernel(
        tma_a,
        tA,
        tma_b,
        tB,
        tma_d,
        tD,
        tensors,
        scalars,
        workspace,
        sA_layout,
        sB_layout,
        sD_layout,
        majors,
        element,
        tree,
        config,
    ).launch(
        grid=(dsl.min(tiles, config.max_ctas), 1, 1),
        block=(THREADS, 1, 1),
        min_blocks_per_mp=config.blocks_per_sm,
    )


def default_config(problem: GemmProblem, target: Target) -> Sm90GemmConfig:
    """The config that the cost model likes best."""
    return heuristics.rank(problem, target)[0].config


def can_implement(problem: GemmProblem, target: Target, config: Sm90GemmConfig) -> str | None:
    """None, or why this kernel cannot run the problem."""
    return sm90_refusal(problem, target, config)
