"""GEMM on the ordinary float units: one fused multiply-add at a time.

    D[M,N,L] = epilogue(A[M,K,L] * B[N,K,L]^T)

Each block computes a tile of D, each thread an 8x8 part of it, in f32.  Tiles of A and B are
converted to f32 on their way into shared memory.  Nothing is assumed of the operands: any float
type, any strides, any alignment, any M, N and K.  It is the kernel that always works, and the one
to read first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright import cute, dsl
from tilewright.arch.target import Target
from tilewright.collective.epilogue.direct import DirectStore
from tilewright.collective.epilogue.fusion import Fusion
from tilewright.collective.scheduler import RasterScheduler, batch_count
from tilewright.cute import nvgpu
from tilewright.dsl import Constexpr, Float32, range_constexpr
from tilewright.library.problem import GemmProblem
from tilewright.library.status import wrong_type
from tilewright.utils import SmemAllocator

NAME = "simt_gemm"

GRID = (16, 16)
"""Threads along M and N of the tile."""
THREADS = GRID[0] * GRID[1]
PAD = 4
"""Words added to each column of a shared tile, so that storing along K meets no bank twice."""


@dataclass(frozen=True, slots=True)
class SimtGemmConfig:
    """How the problem is cut up; `raster` rows of tiles are walked column by column."""

    tile_shape_mnk: tuple[int, int, int] = (128, 128, 8)
    raster: int = 8

    @property
    def smem_bytes(self) -> int:
        """Shared memory of one block: a tile of A and one of B, in f32."""
        m, n, k = self.tile_shape_mnk
        return (m + PAD + n + PAD) * k * 4


@cute.kernel
def simt_gemm_kernel(
    mA: cute.Tensor,  # (M, K, L)
    mB: cute.Tensor,  # (N, K, L)
    mD: cute.Tensor,  # (M, N, L)
    tensors: Any,
    scalars: Any,
    tiled_mma: cute.TiledMma,
    tree: Constexpr,
    config: Constexpr,
) -> None:
    bm, bn, bk = config.tile_shape_mnk
    tidx, _, _ = cute.arch.thread_idx()
    m, n, _ = mD.shape
    batches = batch_count(mD)
    scheduler = RasterScheduler(cute.ceil_div(m, bm), cute.ceil_div(n, bn), config.raster, batches)
    tile = scheduler.tile_at(cute.arch.block_idx()[0])
    own_A, own_B = mA[None, None, tile.batch], mB[None, None, tile.batch]  # (M, K), (N, K)

    smem = SmemAllocator()
    column_A = cute.make_layout((bm, bk), stride=(1, bm + PAD))
    column_B = cute.make_layout((bn, bk), stride=(1, bn + PAD))
    sA = smem.allocate_tensor(Float32, column_A, 16, label="sA")  # (BM, BK)
    sB = smem.allocate_tensor(Float32, column_B, 16, label="sB")  # (BN, BK)

    thr_mma = tiled_mma.get_slice(tidx)
    tCsA = thr_mma.partition_A(sA)  # (MMA, MMA_M, BK)
    tCsB = thr_mma.partition_B(sB)  # (MMA, MMA_N, BK)
    tCrA = tiled_mma.make_fragment_A(tCsA[None, None, 0])  # (MMA, MMA_M)
    tCrB = tiled_mma.make_fragment_B(tCsB[None, None, 0])  # (MMA, MMA_N)
    acc = thr_mma.make_fragment_C(thr_mma.partition_shape_C((bm, bn)))
    acc.fill(0.0)
    for k_tile in dsl.range(cute.ceil_div(mA.shape[1], bk), unroll=1):
        load_tile(own_A, sA, tile.m, k_tile, (bm, bk), tidx)
        load_tile(own_B, sB, tile.n, k_tile, (bn, bk), tidx)
        cute.arch.sync_threads()
        for k in dsl.range(bk, unroll_full=True):
            cute.autovec_copy(tCsA[None, None, k], tCrA)
            cute.autovec_copy(tCsB[None, None, k], tCrB)
            cute.gemm(tiled_mma, acc, tCrA, tCrB, acc)
        cute.arch.sync_threads()
    store = DirectStore(thr_mma, mD, Fusion(tree, tensors, scalars), (bm, bn))
    store.tile(acc, tile.m, tile.n, tile.batch)


@cute.jit
def load_tile(mX, sX, tile, k_tile, shape, thread):
    """Copies one tile of an operand to shared memory as f32, with zeros outside of it."""
    threads = cute.make_layout((THREADS // shape[1], shape[1]), stride=(shape[1], 1))
    cX = cute.local_tile(cute.make_identity_tensor(mX.shape), shape, (tile, k_tile))
    tXcX = cute.local_partition(cX, threads, thread)
    tXsX = cute.local_partition(sX, threads, thread)
    tXrX = cute.make_rmem_tensor(cute.size(tXsX), Float32)
    for i in range_constexpr(cute.size(tXsX)):
        tXrX[i] = Float32(0.0)
        if cute.elem_less(tXcX[i], mX.shape):
            tXrX[i] = mX[tXcX[i]].to(Float32)
    for i in range_constexpr(cute.size(tXsX)):
        tXsX[i] = tXrX[i]


@cute.jit
def host(
    mA: cute.Tensor,  # (M, K, L)
    mB: cute.Tensor,  # (N, K, L)
    mD: cute.Tensor,  # (M, N, L)
    tensors: Any,  # what the epilogue loads, each (M, N, L)
    scalars: Any,
    workspace: Any,
    majors: Constexpr,
    tree: Constexpr,
    config: Constexpr,
) -> None:
    """Launches one block for each tile of D."""
    bm, bn, _ = config.tile_shape_mnk
    rows = cute.make_layout((GRID[0], 4), stride=(4, 1))
    columns = cute.make_layout((GRID[1], 4), stride=(4, 1))
    tiled_mma = cute.make_tiled_mma(
        nvgpu.MmaUniversalOp(Float32),
        cute.make_layout((*GRID, 1)),
        # Each thread owns runs of four rows and four columns: vector loads from shared memory.
        permutation_mnk=(rows, columns, None),
    )
    m, n, _ = mD.shape
    batches = batch_count(mD)
    tiles = cute.ceil_div(m, bm) * cute.ceil_div(n, bn) * batches
    simt_gemm_kernel(mA, mB, mD, tensors, scalars, tiled_mma, tree, config).launch(
        grid=(tiles, 1, 1), block=(THREADS, 1, 1)
    )


def default_config(problem: GemmProblem, target: Target) -> SimtGemmConfig:
    """One tile for all: this kernel is for what the others cannot do."""
    return SimtGemmConfig()


def can_implement(problem: GemmProblem, target: Target, config: SimtGemmConfig) -> str | None:
    """None, or why this kernel cannot run the problem."""
    bm, bn, bk = config.tile_shape_mnk
    for operand in (problem.a, problem.d):
        name = operand.dtype.name
        if name not in ("f16", "bf16", "f32"):
            return wrong_type(operand.name, name, "f16, bf16 or f32")
    if bm % (4 * GRID[0]) or bn % (4 * GRID[1]) or THREADS % bk or bm * bk % THREADS:
        return f"tile {bm}x{bn}x{bk}: expected M and N by 64, K a divisor of {THREADS}"
    if bm * bn // THREADS > 128:
        return f"tile {bm}x{bn} needs {bm * bn // THREADS} accumulators per thread, at most 128"
    if config.smem_bytes > min(target.smem_per_block, 48 * 1024):
        return f"tile {bm}x{bn}x{bk} needs {config.smem_bytes:,} B of shared memory, at most 49,152"
    return None
