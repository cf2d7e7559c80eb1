"""Hopper GEMM: TMA and wgmma.

    D[M,N,L] = epilogue(A[M,K,L] * B[N,K,L]^T)

Warpgroup 0 is the producer: one thread walks the output tiles of this block and fills a ring of
shared-memory stages by TMA.  The other warpgroups are consumers: they multiply on the tensor cores
and store.  The parts are collectives of their own: the main loop, the epilogue and what it
computes, the scheduler, the pipelines.  Here is how they are put together, in four schedules:

    cooperative        two consumers share a tile, half of its rows each
    ping-pong          each has a tile of its own: while one multiplies, the other one stores
    warp-specialised   one consumer, and a block for each tile: several blocks share an SM
    unspecialised      the same without a producer: a thread of the consumer loads

In the first two, a block stays for one tile after another.

Operands are 16-bit, with any one index contiguous in each; ragged M, N and K are cut off by TMA's
own bounds.
"""

from __future__ import annotations

from typing import Any

from tilewright import cute, dsl
from tilewright.arch.target import Target
from tilewright.collective.epilogue.fusion import Fusion, linear_combination
from tilewright.collective.epilogue.sm90_store import consumer_store, make_store_atoms
from tilewright.collective.mainloop.sm90_tma import (
    TmaProducer,
    WgmmaConsumer,
    make_load_atom,
    stage_layout,
    wgmma_op,
)
from tilewright.collective.mainloop.sm90_tma_unspecialized import SelfFedConsumer
from tilewright.collective.multicast import Multicast, SideBySide, peers
from tilewright.collective.pipeline import (
    OrderedSequenceBarrier,
    PipelineTmaAsync,
    make_consumer_state,
    make_producer_state,
)
from tilewright.collective.reduction.atomic import AllAdd
from tilewright.collective.reduction.cluster import ClusterAdds, Inbox
from tilewright.collective.reduction.first import FirstAdds
from tilewright.collective.reduction.last import LastAdds
from tilewright.collective.reduction.serial import InTurn
from tilewright.collective.reduction.workspace import Workspace
from tilewright.collective.scheduler import RasterScheduler, batch_count
from tilewright.collective.stream_k import StreamK, stream_blocks
from tilewright.collective.work import DataParallel, SplitK
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Uint64, const_expr
from tilewright.library import heuristics
from tilewright.library.configs import WARPGROUP, Sm90GemmConfig
from tilewright.library.problem import GemmProblem
from tilewright.library.sm90_refusal import sm90_refusal
from tilewright.utils import SmemAllocator

NAME = "sm90_gemm"

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
    tma_d: Any,  # an atom for each width of its boxes; none where D is stored directly
    mD: cute.Tensor,  # (M, N, L), coordinates (of TMA), or in memory
    tensors: Any,
    scalars: Any,
    workspace: Any,
    sA_layout: cute.ComposedLayout,
    sB_layout: cute.ComposedLayout,
    sD_layouts: Any,
    majors: Constexpr,
    element: Constexpr,
    tree: Constexpr,
    config: Constexpr,
) -> None:
    bm, bn, bk = config.tile_shape_mnk
    tidx, _, _ = cute.arch.thread_idx()
    warp_idx = cute.arch.make_warp_uniform(tidx // 32)
    role = cute.arch.make_warp_uniform(tidx // WARPGROUP)

    # Shared memory: the ring of stages, the store boxes of all consumers, the barriers.
    smem = SmemAllocator()
    sA = smem.allocate_tensor(element, sA_layout, 1024, label="sA")  # (BM, BK, STAGE)
    sB = smem.allocate_tensor(element, sB_layout, 1024, label="sB")  # (BN, BK, STAGE)
    sD = tuple(  # (ROWS, COLUMNS, BUFFER) of each width
        smem.allocate_tensor(element, layout, 1024, label="sD") for layout in sD_layouts
    )
    barriers = smem.allocate_array(Uint64, 2 * config.num_stages, label="barriers")
    meeting = allocate_meeting(smem, config)
    stage_bytes = (bm + bn) * bk * element.width // 8
    arrivals = config.sharers * 4 * peers(config.cluster_shape_mn)
    multicast, peer, releases = find_peers(tidx % 32, config)
    pipe = PipelineTmaAsync(barriers, config.num_stages, stage_bytes, arrivals, peer)
    start((tma_a, tma_b, *tma_d), pipe, meeting, tidx, config)

    m, n, _ = mD.shape
    k_tiles = cute.ceil_div(mA.shape[1], bk)
    rows, columns = (x * y for x, y in zip((bm, bn), config.cluster_shape_mn, strict=True))
    tiles_m, tiles_n = cute.ceil_div(m, rows), cute.ceil_div(n, columns)
    raster = RasterScheduler(tiles_m, tiles_n, config.raster, batch_count(mD), config.raster_along)
    work = make_work(raster, k_tiles, multicast, config)

    loads = tma_a, mA, sA, tma_b, mB, sB, pipe, config.tile_shape_mnk, multicast
    registers = config.registers(is_fused(tree))
    if const_expr(config.producers > 0) and role == 0:
        if const_expr(registers is not None):
            cute.arch.setmaxregister_decrease(registers[0])
        if warp_idx == 0 and cute.arch.elect_one_sync():
            produce(TmaProducer(*loads), work, config)
    else:
        if const_expr(registers is not None):
            cute.arch.setmaxregister_increase(registers[1])
        consumer, thread = role - 1 if const_expr(config.consumers > 1) else 0, tidx % WARPGROUP
        tiled_mma = cute.make_tiled_mma(wgmma_op(element, bn, majors.a, majors.b))
        part = consumer if const_expr(config.sharers > 1) else 0
        reads = sA, sB, pipe, tiled_mma, config.consumer_rows, part, releases
        if const_expr(config.producers > 0):
            mainloop = WgmmaConsumer(*reads)
        else:
            mainloop = SelfFedConsumer(TmaProducer(*loads), thread, *reads)
        fusion = Fusion(tree, tensors, scalars)
        store = consumer_store(
            tma_d, mD, sD, fusion, tiled_mma, consumer, thread, majors.d, config, STORE_BARRIER
        )
        barrier = STORE_BARRIER + consumer
        reduction = make_reduction(workspace, meeting, consumer, thread, barrier, config)
        if const_expr(config.schedule == "pingpong"):
            consume_in_turns(mainloop, work, store, reduction, consumer, config)
        else:
            consume_together(mainloop, work, store, reduction, consumer, config)
    if const_expr(multicast is not None):
        # Others still write to, and arrive in, the shared memory of this block.
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()


def find_peers(lane, config):
    """(place in the cluster, block that a lane arrives in, whether it does so for its warp)."""
    if config.cluster_shape_mn == (1, 1):
        return None, None, lane == 0
    multicast = Multicast(config.cluster_shape_mn, cute.arch.block_idx_in_cluster())
    return multicast, lane, multicast.is_peer(lane)


@cute.jit
def start(atoms, pipe, meeting, thread, config):
    """Fetches descriptors and initialises barriers, in all blocks that use them."""
    if thread == 0:
        for atom in atoms:
            cpasync.prefetch_descriptor(atom)
        pipe.init_barriers()
        if const_expr(config.in_cluster):
            meeting.init_barriers()
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    if const_expr(config.cluster_size > 1):
        cute.arch.cluster_arrive_relaxed()
    if const_expr(config.cluster_shape_mn != (1, 1)):
        cute.arch.cluster_wait()
    # This block may have started beside the kernel before it; now what that one wrote is there.
    cute.arch.griddepcontrol_wait()


def make_work(raster, k_tiles, multicast, config):
    """What this block works on."""
    block = cute.arch.block_idx()[0]
    blocks = cute.arch.grid_dim()[0] if config.is_persistent else None
    if multicast is not None:
        return SideBySide(raster, k_tiles, multicast, block, blocks)
    if config.scheduler == "stream_k":
        return StreamK(raster, k_tiles, config.stream_waves, block, blocks)
    if config.split_k > 1:
        return SplitK(raster, k_tiles, config.split_k, block, blocks)
    return DataParallel(raster, k_tiles, block, blocks)


def allocate_meeting(smem, config):
    """Shared memory where the sums of shared tiles meet, or the news of them; None without any."""
    if config.in_cluster:
        together = config.sharers == config.consumers
        return Inbox(smem, config.split_k, config.consumers, together, config.accumulators)
    if config.shares_tiles:
        return smem.allocate_array(dsl.Int32, config.consumers, label="flags")
    return None


@cute.jit
def make_reduction(workspace, meeting, consumer, thread, barrier, config):
    """How one consumer adds up what blocks share; None if they do not."""
    if const_expr(not config.shares_tiles):
        return None
    if const_expr(config.in_cluster):
        # The others have started, and their barriers are initialised.
        cute.arch.cluster_wait()
        return ClusterAdds(meeting, consumer, thread, barrier)
    together = config.sharers > 1
    sums, counters = workspace
    shared = Workspace(
        sums,
        counters,
        meeting + consumer,
        config.sharers,
        consumer if together else 0,
        thread,
        barrier,
    )
    shared.touch()
    if const_expr(config.reduction == "parallel"):
        return FirstAdds(shared) if config.scheduler == "stream_k" else LastAdds(shared)
    return {"serial": InTurn, "fast": AllAdd}[config.reduction](shared)


def is_fused(tree: Any) -> bool:
    """Whether D is more than scaled."""
    return bool(tree != linear_combination())


@cute.jit
def produce(producer, work, config):
    """The producer thread: fills the ring with what this block multiplies, piece after piece."""
    state = make_producer_state(config.num_stages)
    for number in dsl.range(*work.walk(), unroll=1):
        piece = work.at(number)
        producer.fill(state, piece, piece.k_first, piece.k_count)
    # The kernel after this one may take the SMs that are done with.
    cute.arch.griddepcontrol_launch_dependents()


@cute.jit
def consume_together(mainloop, work, store, reduction, consumer, config):
    """A consumer that shares tiles, or the only one: its own rows of every tile of this block."""
    state = make_consumer_state(config.num_stages)
    for number in dsl.range(*work.walk(), unroll=1):
        piece = work.at(number)
        mainloop.begin(piece)
        last = mainloop.multiply(state, piece.k_count)
        mainloop.finish(last)
        finish_piece(mainloop.acc, work, number, piece, store, reduction, consumer, config)
        if const_expr(config.in_cluster):
            reduction.next_tile()
    store.finish()


@cute.jit
def consume_in_turns(mainloop, work, store, reduction, consumer, config):
    """A consumer of the ping-pong schedule: every second piece of this block."""
    turns = OrderedSequenceBarrier(TURN_BARRIER, config.consumers, WARPGROUP)
    turns.start(consumer)
    state = make_consumer_state(config.num_stages)
    state.skip(work.skipped(consumer))
    for number in dsl.range(*work.walk(consumer, config.consumers), unroll=1):
        piece = work.at(number)
        turns.wait(consumer)
        last = mainloop.multiply(state, piece.k_count)
        # All products are issued: the other consumer's may queue behind them.
        turns.arrive(consumer)
        mainloop.finish(last)
        state.skip(work.between(number))
        finish_piece(mainloop.acc, work, number, piece, store, reduction, 0, config)
        if const_expr(config.in_cluster):
            reduction.next_tile()
    store.finish()


@cute.jit
def finish_piece(acc, work, number, piece, store, reduction, sharer, config):
    """Stores a tile, if its sum is complete: the rows of one of the consumers that share it."""
    tile_m = piece.m * config.sharers + sharer
    if const_expr(reduction is None):
        store.tile(acc, tile_m, piece.n, piece.batch)
    else:
        complete = piece.k_count == work.k_tiles
        if not complete:
            turns = config.consumers // config.sharers
            complete = reduction.collect(acc, work.share(number, piece, turns))
        if complete:
            store.tile(acc, tile_m, piece.n, piece.batch)


@cute.jit
def host(
    mA: cute.Tensor,  # (M, K, L)
    mB: cute.Tensor,  # (N, K, L)
    mD: cute.Tensor,  # (M, N, L)
    tensors: Any,  # what the epilogue loads, each (M, N, L)
    scalars: Any,
    workspace: Any,  # where blocks share tiles: sums, counters
    majors: Constexpr,  # the contiguous index of A, B, D
    tree: Constexpr,
    config: Constexpr,
) -> None:
    """Makes the tensor maps and launches a block for each SM, or for each tile."""
    bm, bn, bk = config.tile_shape_mnk
    element = mA.element_type
    sA_layout = stage_layout(element, bm, bk, config.num_stages, majors.a)
    sB_layout = stage_layout(element, bn, bk, config.num_stages, majors.b)
    along_m, along_n = config.cluster_shape_mn
    tma_a, tA = make_load_atom(mA, sA_layout, (bm, bk), along_n)
    tma_b, tB = make_load_atom(mB, sB_layout, (bn, bk), along_m)
    tma_d, tD, sD_layouts = make_store_atoms(mD, majors.d, config.consumers, config)
    m, n, _ = mD.shape
    batches = batch_count(mD)
    cluster = config.cluster_size
    tiles = cute.ceil_div(m, bm * along_m) * cute.ceil_div(n, bn * along_n) * along_m * along_n
    blocks = tiles = tiles * batches * config.split_k
    if const_expr(config.is_persistent):
        blocks = dsl.min(tiles, config.max_ctas // cluster * cluster)
    if const_expr(config.scheduler == "stream_k"):
        k_tiles, in_place = cute.ceil_div(mA.shape[1], bk), config.reduction == "fast"
        blocks = stream_blocks(tiles, k_tiles, config.max_ctas, in_place)
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
        sD_layouts,
        majors,
        element,
        tree,
        config,
    ).launch(
        grid=(blocks, 1, 1),
        block=(config.threads, 1, 1),
        cluster=(cluster, 1, 1) if cluster > 1 else None,
        use_pdl=True,
        min_blocks_per_mp=config.blocks_per_sm,
    )


def default_config(problem: GemmProblem, target: Target) -> Sm90GemmConfig:
    """The config that the cost model likes best."""
    return heuristics.rank(problem, target)[0].config


def can_implement(problem: GemmProblem, target: Target, config: Sm90GemmConfig) -> str | None:
    """None, or why this kernel cannot run the problem."""
    return sm90_refusal(problem, target, config)
