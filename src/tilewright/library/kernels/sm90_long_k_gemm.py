"""GEMM with few outputs and a long K: as many blocks as there are SMs share a 16x16 tile of D.

    D[M,N,L] = epilogue(A[M,K,L] * B[N,K,L]^T)

There is next to nothing to multiply, only memory to wait for, and a launch is over in microseconds:
no TMA descriptor is fetched, no ring is filled.  Each warp loads 32 elements of K of 16 rows of A
and of B straight into registers and feeds mma.sync.  The sums then come together level by level:

    warps of a block -> shared memory;  blocks of a cluster -> distributed shared memory;
    clusters -> a workspace, where the last one to arrive adds them in order

so that the result has the same bits in every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright import cute, dsl
from tilewright.arch.target import Target
from tilewright.collective.epilogue.direct import DirectStore
from tilewright.collective.epilogue.fusion import Fusion
from tilewright.collective.scheduler import batch_count
from tilewright.cute import nvgpu
from tilewright.cute.nvgpu import warp
from tilewright.dsl import Constexpr, Float32, Int32, const_expr, range_constexpr
from tilewright.library.configs import WorkspaceShape
from tilewright.library.problem import GemmProblem
from tilewright.library.status import wrong_target, wrong_type
from tilewright.utils import SmemAllocator

NAME = "sm90_long_k_gemm"

TILE = 16
"""Rows and columns of a tile: two mma of 16x8."""
UNIT = 32
"""Elements of K that a warp takes at a time: 16 bytes for each lane and row."""
LANES_PER_ROW = 4
UNROLL = 4
"""Units whose loads are on their way at the same time."""
LEAST_K = 4096
"""Below, the other kernels have enough to do."""


@dataclass(frozen=True, slots=True)
class LongKGemmConfig:
    """How K is cut up: `warps` of a block, blocks of a `cluster`, and `clusters` for each tile."""

    warps: int = 8
    cluster: int = 8
    clusters: int = 16

    @property
    def tile_shape_mnk(self) -> tuple[int, int, int]:
        return TILE, TILE, UNIT

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def smem_bytes(self) -> int:
        """Shared memory of one block: a tile of sums for each warp, and a flag."""
        return self.warps * TILE * TILE * 4 + 4

    def workspace(self, problem: GemmProblem) -> WorkspaceShape | None:
        """A tile of sums for each cluster, and a counter for each tile."""
        if self.clusters == 1:
            return None
        tiles = tile_count(problem)
        return WorkspaceShape(tiles * self.clusters, tiles, TILE * TILE)


def tile_count(problem: GemmProblem) -> int:
    """Tiles of D, in all batches."""
    return -(-problem.m // TILE) * -(-problem.n // TILE) * problem.batch


@cute.kernel
def long_k_gemm_kernel(
    mA: cute.Tensor,  # (M, K, L)
    mB: cute.Tensor,  # (N, K, L)
    mD: cute.Tensor,  # (M, N, L)
    tensors: Any,
    scalars: Any,
    workspace: Any,
    tiled_mma: cute.TiledMma,
    out_mma: cute.TiledMma,
    tree: Constexpr,
    config: Constexpr,
) -> None:
    tidx, _, _ = cute.arch.thread_idx()
    warp_idx, lane = tidx // 32, tidx % 32
    rank = cute.arch.block_idx_in_cluster()
    group = cute.arch.block_idx()[0] // config.cluster
    tile, part = group // config.clusters, group % config.clusters
    m, n, _ = mD.shape
    tiles_m, tiles_n = cute.ceil_div(m, TILE), cute.ceil_div(n, TILE)
    tile_m, tile_n, batch = tile % tiles_m, tile // tiles_m % tiles_n, tile // (tiles_m * tiles_n)

    smem = SmemAllocator()
    row_major = cute.make_layout((TILE, TILE, config.warps), stride=(TILE, 1, TILE * TILE))
    sums = smem.allocate_tensor(Float32, row_major, 16, label="sums")  # (16, 16, WARP)
    flag = smem.allocate_array(Int32, 1, label="flag")

    # This block may have started beside the kernel before it; now what that one wrote is there.
    cute.arch.griddepcontrol_wait()
    rows_A = OwnRows(mA, tile_m, m, batch, lane)
    rows_B = OwnRows(mB, tile_n, n, batch, lane)
    worker = (part * config.cluster + rank) * config.warps + warp_idx
    workers = config.clusters * config.cluster * config.warps
    acc = multiply(tiled_mma, rows_A, rows_B, worker, workers, mA.shape[1] // UNIT)
    # The kernel after this one may take the SMs that are done with.
    cute.arch.griddepcontrol_launch_dependents()

    # The warps of the block: each leaves its tile, then each thread adds up its own elements.
    thr_mma = tiled_mma.get_slice(lane)
    thr_mma.partition_C(sums[None, None, warp_idx]).store(acc.load())
    cute.arch.sync_threads()
    own = out_mma.get_slice(tidx)
    # Threads beyond those of a tile have no element of it.
    has_part = tidx < cute.size(out_mma)
    total = cute.make_rmem_tensor(own.partition_shape_C((TILE, TILE)), Float32)
    total.fill(0.0)
    if has_part:
        for w in range_constexpr(config.warps):
            total.store(total.load() + own.partition_C(sums[None, None, w]).load())
    is_last = rank == 0
    if const_expr(config.cluster > 1):
        add_cluster(total, sums, own, has_part, rank, config.cluster)
    if const_expr(config.clusters > 1):
        is_last = add_clusters(total, workspace, flag, tile, part, is_last, has_part, tidx, config)
    if is_last and has_part:
        store = DirectStore(own, mD, Fusion(tree, tensors, scalars), (TILE, TILE))
        store.tile(total, tile_m, tile_n, batch)


class OwnRows:
    """A lane's part of 16 rows of an operand: rows g and g + 8, 8 elements of each unit of 32.

    Rows beyond the operand are those of its end: what they give is not stored.
    """

    def __init__(self, mX: Any, tile: Any, extent: Any, batch: Any, lane: Any) -> None:
        units = cute.local_tile(mX[None, None, batch], (1, 8), (None, None))  # (1, 8, row, chunk)
        self.element, self.chunk = mX.element_type, lane % LANES_PER_ROW
        first = tile * TILE + lane // LANES_PER_ROW
        at = [dsl.min(first + 8 * half, extent - 1) for half in (0, 1)]
        self.rows = [units[0, None, row, None] for row in at]  # (8, chunk)

    def load(self, unit: Any) -> Any:
        """(4, 2) words: what this lane has of a unit, of each of its rows."""
        loaded = cute.make_rmem_tensor((8, 2), self.element)
        for half in range_constexpr(2):
            source = self.rows[half][None, unit * LANES_PER_ROW + self.chunk]
            cute.autovec_copy(source, loaded[None, half])
        return cute.recast_tensor(loaded, Int32)


@cute.jit
def multiply(tiled_mma, rows_A, rows_B, worker, workers, units):
    """The sums of the units of one warp.

    The order of K is free, if it is that of both operands: step s of a unit takes the words 2 s
    and 2 s + 1 of each lane's row for its two columns of fragments.
    """
    acc = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C((TILE, TILE)))
    acc.fill(0.0)
    frag_A = tiled_mma.make_fragment_A(tiled_mma.partition_shape_A((TILE, 16)))
    frag_B = tiled_mma.make_fragment_B(tiled_mma.partition_shape_B((TILE, 16)))
    words_A, words_B = (cute.recast_tensor(x, Int32) for x in (frag_A, frag_B))
    for unit in dsl.range(worker, units, workers, unroll=UNROLL):
        a, b = rows_A.load(unit), rows_B.load(unit)
        for step in range_constexpr(2):
            for half in range_constexpr(2):
                for column in range_constexpr(2):
                    words_A[half + 2 * column] = a[2 * step + column, half]
                    words_B[column + 2 * half] = b[2 * step + column, half]
            cute.gemm(tiled_mma, acc, frag_A, frag_B, acc)
    return acc


@cute.jit
def add_cluster(total, sums, own, has_part, rank, blocks):
    """Block 0 of the cluster adds up the sums of all its blocks, in their order."""
    # Every thread has read the warps' tiles: the first one becomes the block's.
    cute.arch.sync_threads()
    if has_part:
        own.partition_C(sums[None, None, 0]).store(total.load())
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if rank == 0 and has_part:
        total.fill(0.0)
        for peer in range_constexpr(blocks):
            place = cute.arch.map_dsmem_ptr(sums.iterator, peer)
            theirs = cute.make_tensor(place, sums.layout)
            total.store(total.load() + own.partition_C(theirs[None, None, 0]).load())
    # Shared memory must live until it has been read.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@cute.jit
def add_clusters(total, workspace, flag, tile, part, counts, has_part, thread, config):
    """Adds up the clusters of a tile; whether this block, the last of them, has the sum."""
    places, counters = workspace  # (ELEMENT, PLACE), (TILE)
    clusters, values = config.clusters, cute.size(total)
    own = cute.make_layout((values, places.shape[1]), stride=(1, TILE * TILE))
    mine = cute.make_tensor(places.iterator + thread * values, own)  # (value, PLACE)
    flat = cute.make_tensor(total.iterator, cute.make_layout(values))
    is_last = dsl.Boolean(False)
    if counts:
        if has_part:
            mine[None, tile * clusters + part].store(flat.load())
        cute.arch.sync_threads()
        if thread == 0:
            counter = counters.iterator + tile
            before = cute.arch.atomic_add(counter, Int32(1), sem="acq_rel", scope="gpu")
            if before == clusters - 1:
                cute.arch.atomic_exch(counter, Int32(0))
            cute.arch.store(flag, before)
        cute.arch.sync_threads()
        is_last = cute.arch.load(flag) == clusters - 1
        if is_last and has_part:
            flat.fill(0.0)
            for other in dsl.range(clusters, unroll_full=True):
                flat.store(flat.load() + mine[None, tile * clusters + other].load())
    return is_last


@cute.jit
def host(
    mA: cute.Tensor,  # (M, K, L)
    mB: cute.Tensor,  # (N, K, L)
    mD: cute.Tensor,  # (M, N, L)
    tensors: Any,  # what the epilogue loads, each (M, N, L)
    scalars: Any,
    workspace: Any,  # sums of each cluster, counters
    majors: Constexpr,
    tree: Constexpr,
    config: Constexpr,
) -> None:
    """Launches the clusters of every tile."""
    tiled_mma = cute.make_tiled_mma(
        warp.MmaF16BF16Op(mA.element_type, Float32, (16, 8, 16)), permutation_mnk=(None, 16, None)
    )
    # 128 threads have two neighbouring elements of a tile each.
    pairs = cute.make_layout((8, 2), stride=(2, 1))
    out_mma = cute.make_tiled_mma(
        nvgpu.MmaUniversalOp(Float32),
        cute.make_layout((TILE, 8, 1), stride=(8, 1, 0)),
        permutation_mnk=(None, pairs, None),
    )
    m, n, _ = mD.shape
    tiles = cute.ceil_div(m, TILE) * cute.ceil_div(n, TILE) * batch_count(mD)
    long_k_gemm_kernel(
        mA, mB, mD, tensors, scalars, workspace, tiled_mma, out_mma, tree, config
    ).launch(
        grid=(tiles * config.clusters * config.cluster, 1, 1),
        block=(config.threads, 1, 1),
        cluster=(config.cluster, 1, 1) if config.cluster > 1 else None,
        use_pdl=True,
    )


def default_config(problem: GemmProblem, target: Target) -> LongKGemmConfig:
    """About one block for each SM, in clusters of eight, if there are as many units of K."""
    base = LongKGemmConfig()
    most = max(target.sm_count // (base.cluster * max(tile_count(problem), 1)), 1)
    units = max(problem.k // (UNIT * base.cluster * base.warps), 1)
    return LongKGemmConfig(clusters=min(most, units))


def can_implement(problem: GemmProblem, target: Target, config: LongKGemmConfig) -> str | None:
    """None, or why this kernel cannot run the problem."""
    if not target.has("cluster"):
        return wrong_target("clusters (sm_90 or newer)", "sm_90", target.name)
    if problem.a.dtype.name not in ("f16", "bf16"):
        return wrong_type("A", problem.a.dtype.name, "f16 or bf16")
    if problem.d.dtype.name not in ("f16", "bf16", "f32"):
        return wrong_type("D", problem.d.dtype.name, "f16, bf16 or f32")
    for operand in problem.inputs:
        if operand.major != "K" or operand.align_bytes < 16:
            return (
                f"{operand.name} needs K contiguous and every row at a multiple of 16 bytes, got "
                f"{operand.major} and {operand.align_bytes}"
            )
    if problem.k < LEAST_K or problem.k % UNIT:
        return f"K = {problem.k}, expected a multiple of {UNIT} from {LEAST_K} on"
    blocks = tile_count(problem) * config.cluster * config.clusters
    if blocks > target.sm_count:
        return (
            f"{tile_count(problem)} tiles of {TILE}x{TILE} with {config.cluster * config.clusters} "
            f"blocks each are {blocks} blocks, {target.name} has {target.sm_count} SMs"
        )
    if config.threads < 128 or config.threads > 1024 or config.cluster not in (1, 2, 4, 8):
        return (
            f"{config.warps} warps and clusters of {config.cluster}: expected 4 to 32 warps, "
            "clusters of 1, 2, 4 or 8"
        )
    return None
