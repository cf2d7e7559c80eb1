"""Ampere GEMM: cp.async in several stages, ldmatrix, mma.sync.

    D[M,N,L] = epilogue(A[M,K,L] * B[N,K,L]^T)

Each block computes one tile of D with a grid of warps.  Tiles of A and B travel to a ring of
swizzled shared-memory stages by cp.async, a few k tiles ahead, in pieces as wide as their addresses
allow; what lies outside of A and B arrives as zeros.  Fragments are loaded one k step ahead of the
mma that uses them, transposed where K is not contiguous.

Operands are 16-bit, in any layout at any alignment; so is D, which may be f32 too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright import cute, dsl
from tilewright.arch.target import Target
from tilewright.collective.epilogue.direct import DirectStore
from tilewright.collective.epilogue.fusion import Fusion
from tilewright.collective.scheduler import RasterScheduler, batch_count
from tilewright.collective.tile_copy import TileCopy, fits
from tilewright.cute.nvgpu import warp, warpgroup
from tilewright.dsl import Constexpr, Float32, Int32, const_expr, range_constexpr
from tilewright.library.cpasync_config import ELEMENT_BYTES, copy_bytes, refused_width
from tilewright.library.problem import GemmProblem
from tilewright.library.status import with_swapped_operands, wrong_target, wrong_type
from tilewright.utils import SmemAllocator

NAME = "sm80_gemm"

BATCH = 8
"""Copies that are unrolled: more would take the registers of the accumulators."""


@dataclass(frozen=True, slots=True)
class Sm80GemmConfig:
    """How the problem is cut up.

    `warps` are the warps of a block along M and N, `blocks_per_sm` how many blocks share an SM
    (and its registers); `raster` rows of tiles are walked column by column.  `a_bytes` and
    `b_bytes` are copied at a time; `swap_operands` computes D^T = B^T A^T.
    """

    tile_shape_mnk: tuple[int, int, int] = (128, 128, 64)
    num_stages: int = 3
    warps: tuple[int, int] = (2, 2)
    blocks_per_sm: int = 2
    raster: int = 8
    a_bytes: int = 16
    b_bytes: int = 16
    swap_operands: bool = False

    @property
    def threads(self) -> int:
        return 32 * self.warps[0] * self.warps[1]

    @property
    def smem_bytes(self) -> int:
        """Shared memory of one block: the ring of stages."""
        m, n, k = self.tile_shape_mnk
        return self.num_stages * (m + n) * k * ELEMENT_BYTES


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
    majors: Constexpr,
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
    along_A, along_B = int(majors.a == "K"), int(majors.b == "K")
    by = tidx, config.threads, BATCH
    load_A = TileCopy(own_A, sA, tile.m, (bm, bk), along_A, config.a_bytes, *by)
    load_B = TileCopy(own_B, sB, tile.n, (bn, bk), along_B, config.b_bytes, *by)
    for stage in dsl.range(config.num_stages - 1, unroll=1):
        load_A.start(stage, stage)
        load_B.start(stage, stage)
        cute.arch.cp_async_commit_group()

    thr_mma = tiled_mma.get_slice(tidx)
    acc = thr_mma.make_fragment_C(thr_mma.partition_shape_C((bm, bn)))
    acc.fill(0.0)
    transposed = majors.a != "K", majors.b != "K"
    multiply(tiled_mma, acc, sA, sB, load_A, load_B, transposed, tidx, k_tiles, config.num_stages)
    store = DirectStore(thr_mma, mD, Fusion(tree, tensors, scalars), (bm, bn))
    store.tile(acc, tile.m, tile.n, tile.batch)


@cute.jit
def multiply(tiled_mma, acc, sA, sB, load_A, load_B, transposed, thread, k_tiles, stages):
    """The main loop.  Stage `read` is multiplied while `stages - 1` later ones arrive."""
    thr_mma = tiled_mma.get_slice(thread)
    atoms = [
        cute.make_copy_atom(warp.LdMatrix8x8x16bOp(turn, 4), sA.element_type) for turn in transposed
    ]
    copy_A = cute.make_tiled_copy_A(atoms[0], tiled_mma)
    copy_B = cute.make_tiled_copy_B(atoms[1], tiled_mma)
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


def ring_layout(element: Any, rows: int, k: int, stages: int, major: str) -> Any:
    """(ROWS, K, STAGE): an operand's ring, swizzled along its contiguous index.

    The eight rows of a matrix that ldmatrix reads then lie in different banks.
    """
    kinds = warpgroup.SmemLayoutAtomKind
    if major == "K":
        kind = kinds.K_SW128 if k % 64 == 0 else kinds.K_SW64
    else:
        kind = {0: kinds.MN_SW128, 32: kinds.MN_SW64}.get(rows % 64, kinds.MN_SW32)
    atom = warpgroup.make_smem_layout_atom(kind, element)
    return cute.tile_to_shape(atom, (rows, k, stages), order=(0, 1, 2))


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
    sA_layout = ring_layout(element, bm, bk, config.num_stages, majors.a)
    sB_layout = ring_layout(element, bn, bk, config.num_stages, majors.b)
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
        mA, mB, mD, tensors, scalars, tiled_mma, sA_layout, sB_layout, majors, tree, config
    ).launch(
        grid=(tiles, 1, 1),
        block=(config.threads, 1, 1),
        min_blocks_per_mp=config.blocks_per_sm,
    )


def default_config(problem: GemmProblem, target: Target) -> Sm80GemmConfig:
    """Deep k tiles where shared memory holds two blocks of them, else shallow ones.

    On Blackwell the deep ones spill a few registers.  A D with M contiguous is stored transposed,
    so that neighbours in a row are neighbours in memory.
    """
    swap = problem.d.major == "M"
    seen = problem.transposed() if swap else problem
    a_bytes, b_bytes = copy_bytes(seen, seen.a), copy_bytes(seen, seen.b)
    deep = Sm80GemmConfig(a_bytes=a_bytes, b_bytes=b_bytes, swap_operands=swap)
    if target.sm < 100 and deep.blocks_per_sm * deep.smem_bytes <= target.smem_per_sm:
        return deep
    return replace(deep, tile_shape_mnk=(128, 128, 32), num_stages=4)


def can_implement(problem: GemmProblem, target: Target, config: Sm80GemmConfig) -> str | None:
    """None, or why this kernel cannot run the problem."""
    if not isinstance(config, Sm80GemmConfig):
        return f"the config is a {type(config).__name__}, expected Sm80GemmConfig"
    if config.swap_operands:
        turned = replace(config, swap_operands=False)
        reason = can_implement(problem.transposed(), target, turned)
        return with_swapped_operands(reason) if reason else None
    if not target.has("cp_async"):
        return wrong_target("cp.async (sm_80 or newer)", "sm_80", target.name)
    a, d = problem.a.dtype.name, problem.d.dtype.name
    if a not in ("f16", "bf16"):
        return wrong_type("A", a, "f16 or bf16")
    if d not in ("f16", "bf16", "f32"):
        return wrong_type("D", d, "f16, bf16 or f32")
    reason = refused_width(problem, problem.a, config.a_bytes)
    reason = reason or refused_width(problem, problem.b, config.b_bytes)
    return reason or refused_config(target, config)


def refused_config(target: Target, config: Sm80GemmConfig) -> str | None:
    """None, or what no GPU of this target can do."""
    bm, bn, bk = config.tile_shape_mnk
    along_m, along_n = (16 * w for w in config.warps)
    if bm % along_m or bn % along_n or bk not in (32, 64) or config.num_stages < 2:
        return (
            f"tile {bm}x{bn}x{bk}, {config.num_stages} stages: expected M by {along_m}, N by "
            f"{along_n}, K of 32 or 64, at least 2 stages"
        )
    if not (fits((bm, bk), config.threads) and fits((bn, bk), config.threads)):
        return (
            f"tile {bm}x{bn}x{bk} cannot be shared among {config.threads} threads in copies of "
            "16 bytes; use a larger tile or fewer warps"
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
    by_elements = ELEMENT_BYTES in (config.a_bytes, config.b_bytes)
    if accumulators > 64 and config.threads == 32 and by_elements:
        return (
            f"tile {bm}x{bn}: {accumulators} accumulators per thread leave a single warp too few "
            f"registers to copy {ELEMENT_BYTES} bytes at a time, at most 64 do; use more warps or "
            "a smaller tile"
        )
    return None
