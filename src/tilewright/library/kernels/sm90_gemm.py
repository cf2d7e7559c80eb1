"""Hopper GEMM: TMA, wgmma, warp-specialised, persistent.

    D[M,N] = alpha * A[M,K] * B[N,K]^T + beta * C[M,N]

Warpgroup 0 is the producer: one thread walks the output tiles of this block and fills a ring of
shared-memory stages by TMA.  Warpgroups 1 and 2 are the consumers: each owns half of the rows of
the tile, multiplies on the tensor cores, and writes its half through shared memory by TMA.

    producer   wait empty -> announce bytes -> TMA A, TMA B          (for every k tile)
    consumer   wait full -> 4 x wgmma -> wait for the group before -> release its stage
    epilogue   registers -> stmatrix -> swizzled shared memory -> TMA store

Operands are 16-bit, A and B with K contiguous, C and D with N contiguous; ragged M, N and K are
cut off by TMA's own bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import cute, dsl
from tilewright.arch.target import Target
from tilewright.collective.pipeline import (
    PipelineTmaAsync,
    make_consumer_state,
    make_producer_state,
)
from tilewright.collective.scheduler import RasterScheduler
from tilewright.cute.nvgpu import cpasync, warp, warpgroup
from tilewright.dsl import Constexpr, Float32, Int32, Uint64, const_expr, range_constexpr
from tilewright.library.problem import GemmProblem
from tilewright.utils import SmemAllocator

NAME = "sm90_gemm"

WARPGROUP = 128
CONSUMERS = 2
THREADS = WARPGROUP * (1 + CONSUMERS)
BOX = 64
"""Rows and columns of one TMA store: 64 columns of 2 bytes are one 128-byte swizzle span."""
STORE_BARRIER = 1
"""Named barriers 1 and 2: the threads of one consumer, around its store buffer."""


@dataclass(frozen=True, slots=True)
class Sm90GemmConfig:
    """How the problem is cut up.

    `raster` rows of tiles are walked column by column, which keeps a wave's operands in L2;
    `store_boxes` boxes of 64x64 are staged at a time by each consumer; `max_ctas` blocks are
    launched at most, one for each SM.
    """

    tile_shape_mnk: tuple[int, int, int] = (128, 256, 64)
    num_stages: int = 4
    raster: int = 16
    store_boxes: int = 2
    consumer_registers: int = 232
    producer_registers: int = 40
    max_ctas: int = 132

    @property
    def smem_bytes(self) -> int:
        """Shared memory of one block: the ring, the store boxes, the barriers."""
        m, n, k = self.tile_shape_mnk
        ring = self.num_stages * (m + n) * k * 2
        return ring + CONSUMERS * self.store_boxes * BOX * BOX * 2 + 16 * self.num_stages


@cute.kernel
def sm90_gemm_kernel(
    tma_a: cute.CopyAtom,
    mA: cute.Tensor,  # (M, K), coordinates
    tma_b: cute.CopyAtom,
    mB: cute.Tensor,  # (N, K), coordinates
    tma_d: cute.CopyAtom,
    mD: cute.Tensor,  # (M, N), coordinates
    mC: cute.Tensor | None,  # (M, N)
    alpha: Float32,
    beta: Float32,
    sA_layout: cute.ComposedLayout,
    sB_layout: cute.ComposedLayout,
    sD_layout: cute.ComposedLayout,
    element: Constexpr,
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
    sD = smem.allocate_tensor(element, sD_layout, 1024, label="sD")  # (BOX, BOX, BUFFER)
    barriers = smem.allocate_array(Uint64, 2 * config.num_stages, label="barriers")
    stage_bytes = (bm + bn) * bk * element.width // 8
    pipe = PipelineTmaAsync(barriers, config.num_stages, stage_bytes, CONSUMERS * 4)
    if tidx == 0:
        cpasync.prefetch_descriptor(tma_a)
        cpasync.prefetch_descriptor(tma_b)
        cpasync.prefetch_descriptor(tma_d)
        pipe.init_barriers()
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    m, n = mD.shape
    k_tiles = cute.ceil_div(mA.shape[1], bk)
    scheduler = RasterScheduler(cute.ceil_div(m, bm), cute.ceil_div(n, bn), config.raster)

    if role == 0:
        cute.arch.setmaxregister_decrease(config.producer_registers)
        if warp_idx == 0 and cute.arch.elect_one_sync():
            produce(tma_a, mA, sA, tma_b, mB, sB, pipe, scheduler, k_tiles, config)
    else:
        cute.arch.setmaxregister_increase(config.consumer_registers)
        consumer = role - 1
        store = BoxStore(tma_d, mD, mC, sD, alpha, beta, consumer, tidx % WARPGROUP, config)
        consume(sA, sB, pipe, scheduler, k_tiles, store, config)


@cute.jit
def produce(tma_a, mA, sA, tma_b, mB, sB, pipe, scheduler, k_tiles, config):
    """The producer thread: fills the ring with the tiles of A and B that this block multiplies."""
    bm, bn, bk = config.tile_shape_mnk
    gA = cute.local_tile(mA, (bm, bk), (None, None))  # (BM, BK, m, k)
    gB = cute.local_tile(mB, (bn, bk), (None, None))  # (BN, BK, n, k)
    one = cute.make_layout(1)
    tAsA, tAgA = cpasync.tma_partition(  # (TMA, STAGE), (TMA, m, k)
        tma_a, 0, one, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
    )
    tBsB, tBgB = cpasync.tma_partition(  # (TMA, STAGE), (TMA, n, k)
        tma_b, 0, one, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2)
    )
    state = make_producer_state(config.num_stages)
    for tile in dsl.range(
        cute.arch.block_idx()[0], scheduler.num_tiles, cute.arch.grid_dim()[0], unroll=1
    ):
        tile_m, tile_n = scheduler.tile_at(tile)
        for k in dsl.range(k_tiles, unroll=1):
            full = pipe.producer_acquire(state)
            stage = state.index
            cute.copy(tma_a, tAgA[None, tile_m, k], tAsA[None, stage], tma_bar_ptr=full)
            cute.copy(tma_b, tBgB[None, tile_n, k], tBsB[None, stage], tma_bar_ptr=full)
            state.advance()


@cute.jit
def consume(sA, sB, pipe, scheduler, k_tiles, store, config):
    """A consumer warpgroup: multiplies its own rows of A with all of B, tile after tile."""
    bm, bn, bk = config.tile_shape_mnk
    rows = bm // CONSUMERS
    tiled_mma = cute.make_tiled_mma(wgmma_op(sA.element_type, bn))
    own_A = cute.local_tile(sA, (rows, bk), (store.consumer, 0, None))  # (ROWS, BK, STAGE)
    thr_mma = tiled_mma.get_slice(0)
    tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(own_A))  # (MMA, MMA_M, MMA_K, STAGE)
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))  # (MMA, MMA_N, MMA_K, STAGE)
    acc = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C((rows, bn)))
    first_lane = store.thread % 32 == 0

    state = make_consumer_state(config.num_stages)
    for tile in dsl.range(
        cute.arch.block_idx()[0], scheduler.num_tiles, cute.arch.grid_dim()[0], unroll=1
    ):
        tile_m, tile_n = scheduler.tile_at(tile)
        previous = Int32(0)
        for k in dsl.range(k_tiles, unroll=1):
            pipe.consumer_wait(state)
            warpgroup.fence()
            for kk in range_constexpr(cute.size(tCrA, mode=[2])):
                # The first step of a tile overwrites the accumulator: it is never zeroed.
                tiled_mma.set(warpgroup.Field.ACCUMULATE, k > 0 if kk == 0 else True)
                a = tCrA[None, None, kk, state.index]
                b = tCrB[None, None, kk, state.index]
                cute.gemm(tiled_mma, acc, a, b, acc)
            warpgroup.commit_group()
            # One group stays in flight; the one before it has read its stage.
            warpgroup.wait_group(1)
            if k > 0:
                pipe.consumer_release(previous, first_lane)
            previous = state.index
            state.advance()
        warpgroup.wait_group(0)
        pipe.consumer_release(previous, first_lane)
        store.tile(acc, tile_m * bm + store.consumer * rows, tile_n * bn)
    store.finish()


class BoxStore:
    """The epilogue of one consumer: its part of a tile, box by box, to global memory.

    A box is 64x64.  Its 32 accumulators per thread are scaled, rounded, stored to swizzled shared
    memory by stmatrix, and from there to D by TMA, which clips at M and N.
    """

    def __init__(self, tma_d, mD, mC, sD, alpha, beta, consumer, thread, config):
        self.tma_d, self.mC, self.alpha, self.beta = tma_d, mC, alpha, beta
        self.consumer, self.thread, self.config = consumer, thread, config
        element = sD.element_type
        box_mma = cute.make_tiled_mma(wgmma_op(element, BOX))
        atom = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), element)
        self.copy = cute.make_tiled_copy_C(atom, box_mma)
        self.sD = self.copy.get_slice(thread).partition_D(sD)  # (CPY, CPY_M, CPY_N, BUFFER)
        self.rD = cute.make_rmem_tensor(box_mma.partition_shape_C((BOX, BOX)), element)
        box = cute.make_identity_tensor((BOX, BOX))
        self.coords = box_mma.get_slice(thread).partition_C(box)
        gD = cute.local_tile(mD, (BOX, BOX), (None, None))  # (BOX, BOX, m, n)
        self.tma_sD, self.tma_gD = cpasync.tma_partition(  # (TMA, BUFFER), (TMA, m, n)
            tma_d, 0, cute.make_layout(1), cute.group_modes(sD, 0, 2), cute.group_modes(gD, 0, 2)
        )

    @cute.jit
    def tile(self, acc, row, column):
        """Stores the accumulators, whose first element is D[row, column]."""
        across = self.config.tile_shape_mnk[1] // BOX
        boxes = self.config.tile_shape_mnk[0] // CONSUMERS // BOX * across
        values = cute.make_layout((BOX * BOX // WARPGROUP, boxes))
        acc_boxes = cute.make_tensor(acc.iterator, values)
        at_once = self.config.store_boxes
        for first in range_constexpr(0, boxes, at_once):
            # The buffers are free once the stores that last used them have read them.
            if self.thread == 0:
                cute.arch.cp_async_bulk_wait_group(0, read=True)
            self.sync()
            for x in range_constexpr(at_once):
                down, right = (first + x) // across, (first + x) % across
                out = acc_boxes[None, first + x].load() * self.alpha
                if const_expr(self.mC is not None):
                    out = out + self.load_C(row + down * BOX, column + right * BOX) * self.beta
                self.rD.store(out.to(self.rD.element_type))
                buffer = self.sD[None, None, None, self.consumer * at_once + x]
                cute.copy(self.copy, self.copy.retile(self.rD), buffer)
            # Each writer makes its stores visible to TMA, then all wait for each other.
            cute.arch.fence_proxy("async.shared", space="cta")
            self.sync()
            if self.thread == 0:
                for x in range_constexpr(at_once):
                    down, right = (first + x) // across, (first + x) % across
                    box = self.tma_gD[None, row // BOX + down, column // BOX + right]
                    cute.copy(self.tma_d, self.tma_sD[None, self.consumer * at_once + x], box)
                cute.arch.cp_async_bulk_commit_group()

    @cute.jit
    def load_C(self, row, column):
        """This thread's elements of the box of C at (row, column); zero outside of C."""
        rC = cute.make_rmem_tensor(cute.size(self.coords), Float32)
        for i in range_constexpr(cute.size(self.coords)):
            at = (row + self.coords[i][0], column + self.coords[i][1])
            rC[i] = Float32(0.0)
            if cute.elem_less(at, self.mC.shape):
                rC[i] = self.mC[at].to(Float32)
        return rC.load()

    def sync(self) -> None:
        """Waits for the threads of this consumer."""
        barrier = STORE_BARRIER + self.consumer
        cute.arch.barrier(barrier_id=barrier, number_of_threads=WARPGROUP)

    @cute.jit
    def finish(self):
        """Shared memory must outlive the stores that read it."""
        if self.thread == 0:
            cute.arch.cp_async_bulk_wait_group(0, read=True)


def wgmma_op(element, columns):
    """64 x `columns` x 16 on the tensor cores, both operands in shared memory, K contiguous."""
    return warpgroup.MmaF16BF16Op(
        element,
        Float32,
        (64, columns, 16),
        warpgroup.OperandSource.SMEM,
        warpgroup.OperandMajorMode.K,
        warpgroup.OperandMajorMode.K,
    )


@cute.jit
def host(
    mA: cute.Tensor,  # (M, K)
    mB: cute.Tensor,  # (N, K)
    mC: cute.Tensor | None,  # (M, N)
    mD: cute.Tensor,  # (M, N)
    alpha: Float32,
    beta: Float32,
    config: Constexpr,
) -> None:
    """Makes the tensor maps and launches one block for each SM, or for each tile if fewer."""
    bm, bn, bk = config.tile_shape_mnk
    element = mA.element_type
    atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, element)
    sA_layout = cute.tile_to_shape(atom, (bm, bk, config.num_stages), order=(0, 1, 2))
    sB_layout = cute.tile_to_shape(atom, (bn, bk, config.num_stages), order=(0, 1, 2))
    buffers = CONSUMERS * config.store_boxes
    sD_layout = cute.tile_to_shape(atom, (BOX, BOX, buffers), order=(0, 1, 2))

    load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
    one_A, one_B, one_D = (
        cute.slice_(layout, (None, None, 0)) for layout in (sA_layout, sB_layout, sD_layout)
    )
    tma_a, tA = cpasync.make_tiled_tma_atom(load, mA, one_A, (bm, bk))
    tma_b, tB = cpasync.make_tiled_tma_atom(load, mB, one_B, (bn, bk))
    tma_d, tD = cpasync.make_tiled_tma_atom(store, mD, one_D, (BOX, BOX))
    m, n = mD.shape
    tiles = cute.ceil_div(m, bm) * cute.ceil_div(n, bn)
    sm90_gemm_kernel(
        tma_a,
        tA,
        tma_b,
        tB,
        tma_d,
        tD,
        mC,
        alpha,
        beta,
        sA_layout,
        sB_layout,
        sD_layout,
        element,
        config,
    ).launch(
        grid=(dsl.min(tiles, config.max_ctas), 1, 1),
        block=(THREADS, 1, 1),
        min_blocks_per_mp=1,
    )


def default_config(problem: GemmProblem, target: Target) -> Sm90GemmConfig:
    """The tile that fits the output's width; fewer columns waste fewer of them."""
    bn = 256 if problem.n > 128 else 128 if problem.n > 64 else 64
    return Sm90GemmConfig(
        tile_shape_mnk=(128, bn, 64),
        num_stages=4 if bn == 256 else 6,
        store_boxes=min(2, bn // BOX),
        max_ctas=target.sm_count,
    )


def can_implement(problem: GemmProblem, target: Target, config: Sm90GemmConfig) -> str | None:
    """None, or why this kernel cannot run the problem."""
    bm, bn, bk = config.tile_shape_mnk
    if not target.has("wgmma"):
        return f"needs wgmma (sm_90a), the target is {target.name}"
    if problem.a.dtype.name not in ("f16", "bf16"):
        return f"A and B are {problem.a.dtype.name}, expected f16 or bf16"
    if problem.d.dtype is not problem.a.dtype:
        return f"D is {problem.d.dtype.name}, expected {problem.a.dtype.name} like A and B"
    if problem.k == 0:
        return "K is 0: there is nothing for the tensor cores to do"
    for operand, major in ((problem.a, "K"), (problem.b, "K"), (problem.d, "N")):
        if operand.major != major:
            return f"{operand.name} has {operand.major} contiguous, expected {major}"
        if operand.align_bytes < 16:
            return (
                f"{operand.name} needs every row at a multiple of 16 bytes (TMA), "
                f"got {operand.align_bytes} (pitch {operand.pitch_bytes} B)"
            )
    if problem.n % 8:
        return (
            f"N = {problem.n} is no multiple of 8: a TMA store would overrun the row by up to "
            "14 bytes"
        )
    if bm % (CONSUMERS * BOX) or bn % BOX or not 64 <= bn <= 256 or bk != 64:
        return f"tile {bm}x{bn}x{bk}: expected M of 128 or 256, N of 64 to 256 by 64, K of 64"
    if config.smem_bytes > target.smem_per_block:
        return (
            f"tile {bm}x{bn}x{bk} with {config.num_stages} stages needs {config.smem_bytes:,} B "
            f"of shared memory, {target.name} has {target.smem_per_block:,}; "
            "use fewer num_stages or a smaller tile"
        )
    accumulators = bm // CONSUMERS * bn // WARPGROUP
    if accumulators + 40 > config.consumer_registers:
        return (
            f"tile {bm}x{bn} needs {accumulators} accumulator registers per thread and about 40 "
            f"more, consumer_registers is {config.consumer_registers}; use a smaller tile"
        )
    return None
