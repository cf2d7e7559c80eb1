"""Hopper GEMM for operands that TMA cannot take: cp.async or plain loads, wgmma, persistent.

    D[M,N,L] = epilogue(A[M,K,L] * B[N,K,L]^T)

The first warpgroup (or the first two) are the producers: all of their threads copy tiles of A and B
into a ring of shared-memory stages, in pieces as wide as the operands' addresses allow.  The last
two are the consumers of `sm90_gemm`'s cooperative schedule, with its epilogues.

Operands are 16-bit, in any layout at any alignment; so is D, which may be f32 too.
"""

from __future__ import annotations

from typing import Any

from tilewright import cute, dsl
from tilewright.arch.target import Target
from tilewright.collective.epilogue.fusion import Fusion
from tilewright.collective.epilogue.sm90_store import consumer_store, make_store_atoms
from tilewright.collective.mainloop.sm90_cpasync import CpAsyncProducer
from tilewright.collective.mainloop.sm90_tma import WgmmaConsumer, stage_layout, wgmma_op
from tilewright.collective.pipeline import (
    PipelineAsync,
    make_consumer_state,
    make_producer_state,
)
from tilewright.collective.scheduler import RasterScheduler, batch_count
from tilewright.collective.work import DataParallel
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Uint64, const_expr
from tilewright.library import cpasync_config
from tilewright.library.configs import CONSUMERS, WARPGROUP
from tilewright.library.cpasync_config import Sm90CpAsyncConfig, cpasync_refusal
from tilewright.library.problem import GemmProblem
from tilewright.utils import SmemAllocator

NAME = "sm90_cpasync_gemm"

STORE_BARRIER = 1
"""Named barriers 1 and 2: the threads of one consumer, around its store boxes."""


@cute.kernel
def sm90_cpasync_gemm_kernel(
    mA: cute.Tensor,  # (M, K, L)
    mB: cute.Tensor,  # (N, K, L)
    tma_d: Any,  # an atom for each width of its boxes; none where D is stored directly
    mD: cute.Tensor,  # (M, N, L), coordinates (of TMA), or in memory
    tensors: Any,
    scalars: Any,
    sA_layout: cute.ComposedLayout,
    sB_layout: cute.ComposedLayout,
    sD_layouts: Any,
    majors: Constexpr,
    tree: Constexpr,
    config: Constexpr,
) -> None:
    bm, bn, bk = config.tile_shape_mnk
    tidx, _, _ = cute.arch.thread_idx()
    role = cute.arch.make_warp_uniform(tidx // WARPGROUP)
    element = mA.element_type

    # Shared memory: the ring of stages, the store boxes of both consumers, the barriers.
    smem = SmemAllocator()
    sA = smem.allocate_tensor(element, sA_layout, 1024, label="sA")  # (BM, BK, STAGE)
    sB = smem.allocate_tensor(element, sB_layout, 1024, label="sB")  # (BN, BK, STAGE)
    sD = tuple(  # (ROWS, COLUMNS, BUFFER) of each width
        smem.allocate_tensor(element, layout, 1024, label="sD") for layout in sD_layouts
    )
    barriers = smem.allocate_array(Uint64, 2 * config.num_stages, label="barriers")
    warps = WARPGROUP // 32
    pipe = PipelineAsync(barriers, config.num_stages, config.producers * warps, CONSUMERS * warps)
    if tidx == 0:
        for atom in tma_d:
            cpasync.prefetch_descriptor(atom)
        pipe.init_barriers()
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    # This block may have started beside the kernel before it; now what that one wrote is there.
    cute.arch.griddepcontrol_wait()

    m, n, _ = mD.shape
    tiles_m, tiles_n = cute.ceil_div(m, bm), cute.ceil_div(n, bn)
    raster = RasterScheduler(tiles_m, tiles_n, config.raster, batch_count(mD))
    k_tiles, block = cute.ceil_div(mA.shape[1], bk), cute.arch.block_idx()[0]
    work = DataParallel(raster, k_tiles, block, cute.arch.grid_dim()[0])

    if role < config.producers:
        if const_expr(config.registers is not None):
            cute.arch.setmaxregister_decrease(config.registers[0])
        producer = CpAsyncProducer(
            mA,
            sA,
            mB,
            sB,
            pipe,
            config.tile_shape_mnk,
            contiguous=(int(majors.a == "K"), int(majors.b == "K")),
            nbytes=(config.a_bytes, config.b_bytes),
            in_flight=config.in_flight,
            thread=tidx,
            threads=WARPGROUP * config.producers,
            batch=config.batch,
        )
        produce(producer, work, config.num_stages)
    else:
        if const_expr(config.registers is not None):
            cute.arch.setmaxregister_increase(config.registers[1])
        consumer, thread = role - config.producers, tidx % WARPGROUP
        tiled_mma = cute.make_tiled_mma(wgmma_op(element, bn, majors.a, majors.b))
        first_lane = thread % 32 == 0
        mainloop = WgmmaConsumer(
            sA, sB, pipe, tiled_mma, config.consumer_rows, consumer, first_lane
        )
        fusion = Fusion(tree, tensors, scalars)
        store = consumer_store(
            tma_d, mD, sD, fusion, tiled_mma, consumer, thread, majors.d, config, STORE_BARRIER
        )
        consume(mainloop, work, store, consumer, config.num_stages)


@cute.jit
def produce(producer, work, stages):
    """A producer thread: its share of what this block multiplies, tile after tile."""
    state = make_producer_state(stages)
    start, stop, step = work.walk()
    for number in dsl.range(start, stop, step, unroll=1):
        producer.fill(state, work.at(number))
    producer.finish()
    # The kernel after this one may take the SMs that are done with.
    cute.arch.griddepcontrol_launch_dependents()


@cute.jit
def consume(mainloop, work, store, consumer, stages):
    """A consumer: its own rows of every tile of this block."""
    state = make_consumer_state(stages)
    start, stop, step = work.walk()
    for number in dsl.range(start, stop, step, unroll=1):
        piece = work.at(number)
        last = mainloop.multiply(state, piece.k_count)
        mainloop.finish(last)
        store.tile(mainloop.acc, piece.m * CONSUMERS + consumer, piece.n, piece.batch)
    store.finish()


@cute.jit
def host(
    mA: cute.Tensor,  # (M, K, L)
    mB: cute.Tensor,  # (N, K, L)
    mD: cute.Tensor,  # (M, N, L)
    tensors: Any,  # what the epilogue loads, each (M, N, L)
    scalars: Any,
    workspace: Any,  # none is needed
    majors: Constexpr,  # the contiguous index of A, B, D
    tree: Constexpr,
    config: Constexpr,
) -> None:
    """Launches one block for each SM, or for each tile if fewer."""
    bm, bn, bk = config.tile_shape_mnk
    element = mA.element_type
    sA_layout = stage_layout(element, bm, bk, config.num_stages, majors.a)
    sB_layout = stage_layout(element, bn, bk, config.num_stages, majors.b)
    tma_d, tD, sD_layouts = make_store_atoms(mD, majors.d, CONSUMERS, config)
    m, n, _ = mD.shape
    tiles = cute.ceil_div(m, bm) * cute.ceil_div(n, bn) * batch_count(mD)
    sm90_cpasync_gemm_kernel(
        mA,
        mB,
        tma_d,
        tD,
        tensors,
        scalars,
        sA_layout,
        sB_layout,
        sD_layouts,
        majors,
        tree,
        config,
    ).launch(
        grid=(dsl.min(tiles, config.max_ctas), 1, 1),
        block=(config.threads, 1, 1),
        use_pdl=True,
        min_blocks_per_mp=1,
    )


def default_config(problem: GemmProblem, target: Target) -> Sm90CpAsyncConfig:
    """The config that the cost model likes best."""
    return cpasync_config.default_config(problem, target)


def can_implement(problem: GemmProblem, target: Target, config: Sm90CpAsyncConfig) -> str | None:
    """None, or why this kernel cannot run the problem."""
    return cpasync_refusal(problem, target, config)
