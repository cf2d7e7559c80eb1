"""Ampere GEMM: cp.async in several stages, ldmatrix, mma.sync.

    D[M,N,L] = epilogue(A[M,K,L] * B[N,K,L]^T)

Each block computes one tile of D with a grid of warps.  Tiles of A and B travel to a ring
of swizzled shared-memory stages by cp.async, a few k tiles ahead; what lies outside of A and B
arrives as zeros.  Fragments are loaded one k step ahead of the mma that uses them.

Operands are 16-bit with K contiguous and rows at multiples of 16 bytes; D is 16-bit or f32, in any
layout; M, N and K are free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright import cute, dsl
from tilewright.arch.target import Target
from tilewright.collective.epilogue.direct import DirectStore
from tilewright.collective.epilogue.fusion import Fusion
from tilewright.collective.scheduler import RasterScheduler, batch_count
from tilewright.cute.nvgpu import cpasync, warp, warpgroup
from tilewright.dsl import Boolean, Constexpr, Float32, Int32, const_expr, range_constexpr
from tilewright.library.problem import GemmProblem
from tilewright.utils import SmemAllocator

NAME = "sm80_gemm"

CHUNK = 8
"""Elements of one cp.async: 16 bytes."""


@dataclass(frozen=True, slots=True)
class Sm80GemmConfig:
    """How the problem is cut up.

    `warps` are the warps of a block along M and N, `blocks_per_sm` how many blocks share an SM
    (and its registers); `raster` rows of tiles are walked column by column.
    """

    tile_shape_mnk: tuple[int, int, int] = (128, 128, 64)
    num_stages: int = 3
    warps: tuple[int, int] = (2, 2)
    blocks_per_sm: int = 2
    raster: int = 8

    @property
    def threads(self) -> int:
        return 32 * self.warps[0] * self.warps[1]

    @property
    def smem_bytes(self) -> int:
        """Shared memory of one block: the ring of stages."""
        m, n, k = self.tile_shape_mnk
        return self.num_stages * (m + n) * k * 2


@cute.kernel
def sm80_gemm_kernel(
    mA: cute.Tensor,  # (M, K, L)
    mB: cute.Tensor,  # (N, K, L)
    mD: cute.Tensor,  # (M, N, L)
    tensors: Any,
    scalars: Any,
    tiled_mma: cute.TiledMma,
    sA_layout: cute.ComposedLayout,
    sB_layout: cute.ComposedLayout,
    tree: Constexpr,
    config: Constexpr,
) -> None:
    bm, bn, bk = config.tile_shape_mnk
    tidx, _, _ = cute.arch.thread_idx()
    m, n, _ = mD.shape
    batches = batch_count(mD)
    scheduler = RasterScheduler(cute.ceil_div(m, bm), cute.ceil_div(n, bn), config.raster, batches)
    tile = scheduler.tile_at(cute.arch.block_idx()[0])
    k_tiles = cute.ceil_div(mA.shape[1], bk)

    smem = SmemAllocator()
    sA = smem.allocate_tensor(mA.element_type, sA_layout, 128, label="sA")  # (BM, BK, STAGE)
    sB = smem.allocate_tensor(mB.element_type, sB_layout, 128, label="sB")  # (BN, BK, STAGE)
    own_A, own_B = mA[None, None, tile.batch], mB[None, None, tile.batch]  # (M, K), (N, K)
    load_A = StageLoad(own_A, sA, tile.m, (bm, bk), tidx, config.threads)
    load_B = StageLoad(own_B, sB, tile.n, (bn, bk), tidx, config.threads)
    for stage in range_constexpr(config.num_stages - 1):
        load_A.start(stage, stage)
        load_B.start(stage, stage)
        cute.arch.cp_async_commit_group()

    thr_mma = tiled_mma.get_slice(tidx)
    acc = thr_mma.make_fragment_C(thr_mma.partition_shape_C((bm, bn)))
    acc.fill(0.0)
    multiply(tiled_mma, acc, sA, sB, load_A, load_B, tidx, k_tiles, config)
    store = DirectStore(thr_mma, mD, Fusion(tree, tensors, scalars), (bm, bn))
    store.tile(acc, tile.m, tile.n, tile.batch)


class StageLoad:
    """One operand's way from global memory into a stage: which chunks this thread copies.

    `g` are the chunks in global memory, `s` those in shared memory, `crd` the coordinate of each;
    a chunk is copied where both of its coordinates lie inside the operand, else zeros are.
    """

    def __init__(self, mX, sX, tile, tile_shape, thread, threads):
        across = tile_shape[1] // CHUNK
        rows = cute.make_layout((threads // across, across), stride=(across, 1))
        op = cpasync.CopyG2SOp(cache_mode=cpasync.LoadCacheMode.GLOBAL)
        self.atom = cute.make_copy_atom(op, mX.element_type, num_bits_per_copy=128)
        values = cute.make_layout((1, CHUNK))
        copy = cute.make_tiled_copy_tv(self.atom, rows, values).get_slice(thread)
        gX = cute.local_tile(mX, tile_shape, (tile, None))  # (BX, BK, k)
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), tile_shape, (tile, None))
        self.shape = mX.shape
        self.g = copy.partition_S(gX)  # (CPY, CPY_X, CPY_K, k)
        self.s = copy.partition_D(sX)  # (CPY, CPY_X, CPY_K, STAGE)
        self.crd = copy.partition_S(cX)

    @cute.jit
    def start(self, k_tile, stage):
        """Starts the copies of k tile `k_tile` into `stage`."""
        chunks = cute.size(self.s, mode=[1])
        inside = cute.make_rmem_tensor((1, chunks, 1), Boolean)
        for i in range_constexpr(chunks):
            inside[0, i, 0] = cute.elem_less(self.crd[0, i, 0, k_tile], self.shape)
        g, s = self.g[None, None, None, k_tile], self.s[None, None, None, stage]
        cute.copy(self.atom, g, s, pred=inside)


@cute.jit
def multiply(tiled_mma, acc, sA, sB, load_A, load_B, thread, k_tiles, config):
    """The main loop.  Stage `read` is multiplied while `num_stages - 1` later ones arrive."""
    stages = config.num_stages
    thr_mma = tiled_mma.get_slice(thread)
    atom = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), sA.element_type)
    copy_A = cute.make_tiled_copy_A(atom, tiled_mma)
    copy_B = cute.make_tiled_copy_B(atom, tiled_mma)
    tCsA = copy_A.get_slice(thread).partition_S(sA)  # (CPY, CPY_M, CPY_K, STAGE)
    tCsB = copy_B.get_slice(thread).partition_S(sB)  # (CPY, CPY_N, CPY_K, STAGE)
    tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA[None, None, 0]))  # (MMA, MMA_M, MMA_K)
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB[None, None, 0]))  # (MMA, MMA_N, MMA_K)
    rA, rB = copy_A.retile(tCrA), copy_B.retile(tCrB)
    steps = cute.size(tCrA, mode=[2])

    cute.arch.cp_async_wait_group(stages - 2)
    cute.arch.sync_threads()
    cute.copy(copy_A, tCsA[None, None, 0, 0], rA[None, None, 0])
    cute.copy(copy_B, tCsB[None, None, 0, 0], rB[None, None, 0])
    read, write = Int32(0), Int32(stages - 1)
    for k_tile in dsl.range(k_tiles, unroll=1):
        for k in range_constexpr(steps):
            following = (k + 1) % steps
            if const_expr(k == 0):
                # The stage to fill was last read before the previous barrier.
                load_A.start(k_tile + (stages - 1), write)
                load_B.start(k_tile + (stages - 1), write)
                cute.arch.cp_async_commit_group()
                write = cute.where(write == stages - 1, Int32(0), write + 1)
            if const_expr(following == 0):
                read = cute.where(read == stages - 1, Int32(0), read + 1)
                cute.arch.cp_async_wait_group(stages - 2)
                cute.arch.sync_threads()
            cute.copy(copy_A, tCsA[None, None, following, read], rA[None, None, following])
            cute.copy(copy_B, tCsB[None, None, following, read], rB[None, None, following])
            cute.gemm(tiled_mma, acc, tCrA[None, None, k], tCrB[None, None, k], acc)
    cute.arch.cp_async_wait_group(0)


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
    bm, bn, bk = config.tile_shape_mnk
    element = mA.element_type
    kinds = warpgroup.SmemLayoutAtomKind
    kind = kinds.K_SW128 if bk % 64 == 0 else kinds.K_SW64
    atom = warpgroup.make_smem_layout_atom(kind, element)
    sA_layout = cute.tile_to_shape(atom, (bm, bk, config.num_stages), order=(0, 1, 2))
    sB_layout = cute.tile_to_shape(atom, (bn, bk, config.num_stages), order=(0, 1, 2))
    tiled_mma = cute.make_tiled_mma(
        warp.MmaF16BF16Op(element, Float32, (16, 8, 16)),
        cute.make_layout((*config.warps, 1)),
        # Two n8 atoms side by side, so that one ldmatrix.x4 feeds both.
        permutation_mnk=(16 * config.warps[0], 16 * config.warps[1], 16),
    )
    m, n, _ = mD.shape
    batches = batch_count(mD)
    tiles = cute.ceil_div(m, bm) * cute.ceil_div(n, bn) * batches
    sm80_gemm_kernel(
        mA, mB, mD, tensors, scalars, tiled_mma, sA_layout, sB_layout, tree, config
    ).launch(
        grid=(tiles, 1, 1),
        block=(config.threads, 1, 1),
        min_blocks_per_mp=config.blocks_per_sm,
    )


def default_config(problem: GemmProblem, target: Target) -> Sm80GemmConfig:
    """Deep k tiles where shared memory holds two blocks of them, else shallow ones.

    On Blackwell the deep ones spill a few registers.
    """
    deep = Sm80GemmConfig()
    if target.sm < 100 and deep.blocks_per_sm * deep.smem_bytes <= target.smem_per_sm:
        return deep
    return Sm80GemmConfig(tile_shape_mnk=(128, 128, 32), num_stages=4)


def can_implement(problem: GemmProblem, target: Target, config: Sm80GemmConfig) -> str | None:
    """None, or why this kernel cannot run the problem."""
    bm, bn, bk = config.tile_shape_mnk
    if not target.has("cp_async"):
        return f"needs cp.async (sm_80 or newer), the target is {target.name}"
    if problem.a.dtype.name not in ("f16", "bf16"):
        return f"A and B are {problem.a.dtype.name}, expected f16 or bf16"
    if problem.d.dtype.name not in ("f16", "bf16", "f32"):
        return f"D is {problem.d.dtype.name}, expected f16, bf16 or f32"
    for operand in (problem.a, problem.b):
        if operand.major != "K":
            return f"{operand.name} has {operand.major} contiguous, expected K"
        if operand.align_bytes < 16:
            return (
                f"{operand.name} needs every row at a multiple of 16 bytes (cp.async), "
                f"got {operand.align_bytes} (pitch {operand.pitch_bytes} B)"
            )
    if problem.k % CHUNK:
        return f"K = {problem.k} is no multiple of {CHUNK}: cp.async copies 16 bytes"
    along_m, along_n = (16 * w for w in config.warps)
    if bm % along_m or bn % along_n or bk not in (32, 64) or config.num_stages < 2:
        return (
            f"tile {bm}x{bn}x{bk}, {config.num_stages} stages: expected M by {along_m}, N by "
            f"{along_n}, K of 32 or 64, at least 2 stages"
        )
    if config.smem_bytes > target.smem_per_block:
        return (
            f"tile {bm}x{bn}x{bk} with {config.num_stages} stages needs {config.smem_bytes:,} B "
            f"of shared memory, {target.name} has {target.smem_per_block:,}; "
            "use fewer num_stages or a smaller tile"
        )
    accumulators = bm * bn // config.threads
    if accumulators > 128:
        return f"tile {bm}x{bn} needs {accumulators} accumulators per thread; use 128x128 or less"
    return None
