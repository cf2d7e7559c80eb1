"""How a Hopper GEMM is cut up: the choices that a heuristic or a person makes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from tilewright.arch.target import Target
from tilewright.collective.reduction.cluster import inbox_bytes
from tilewright.collective.stream_k import stream_blocks, streamed_tiles
from tilewright.library.problem import GemmProblem
from tilewright.library.status import Refusal, StatusCode, misaligned, with_swapped_operands

WARPGROUP = 128
BOX = 64
"""Rows, and the most columns, of what one TMA store writes."""
CONSUMERS = 2
RESERVED_SMEM = 1024
"""Shared memory that the system takes of every block."""
SCHEDULES = ("cooperative", "pingpong")
EPILOGUES = ("tma", "direct")
CLUSTER = 16
"""The most blocks of a cluster; more than 8 are not portable, the launch asks for them."""
SCHEDULERS = ("data_parallel", "stream_k")
REDUCTIONS = ("parallel", "serial", "cluster", "fast")
IN_PLACE = ("serial", "fast")
"""Reductions that need one place for each tile, whatever the number of parts."""


class WorkspaceShape(NamedTuple):
    """What blocks that share tiles need in global memory: places of f32 sums, and i32 counters.

    A place has `elements` sums: one consumer's accumulators.
    """

    sums: int
    counters: int
    elements: int

    @property
    def bytes(self) -> int:
        return 4 * (self.sums * self.elements + self.counters)


@dataclass(frozen=True, slots=True)
class Sm90GemmConfig:
    """How the problem is cut up.

    `schedule`: with "cooperative" both consumers share a tile, half of its rows each; with
    "pingpong" each has a tile of its own, and while one multiplies the other one stores.
    `raster` rows of tiles are walked column by column, which keeps a wave's operands in L2.
    `store_boxes` boxes of 64x64 (and a row's narrower rest) are staged at a time by each consumer,
    in `store_buffers` turns;
    `epilogue` "direct" stores from registers instead, to any D.
    `swap_operands` computes the transposed problem, D^T = B^T A^T.
    `raster_along` N: that many columns of tiles are walked row by row instead.
    `scheduler` "stream_k" deals the k tiles of the last wave, or of the last two waves that are not
    full (`stream_waves`), out evenly to all blocks; the others have whole tiles.
    `split_k` blocks share the K of each tile.
    `reduction` says how shared tiles are added up: "parallel", where each part leaves its sums in a
    workspace and one block adds them in order of K; "serial" (of a split K), where one part after
    the other adds to one place; "cluster" (of a split K up to 16), where the blocks of a tile are a
    cluster and send each other their sums; or "fast", in place by atomics, in any order.
    `cluster_shape_mn` blocks (along M, along N) are a cluster, and share what they load.
    An epilogue that does more than to scale has 8 `consumer_registers` more, from the producer's.
    `max_ctas` blocks are launched at most, `blocks_per_sm` for each SM: with two, the registers
    are shared evenly, so that only narrow tiles fit.
    """

    tile_shape_mnk: tuple[int, int, int] = (128, 256, 64)
    num_stages: int = 4
    raster: int = 16
    store_boxes: int = 2
    consumer_registers: int = 232
    producer_registers: int = 40
    max_ctas: int = 132
    schedule: str = "cooperative"
    store_buffers: int = 1
    epilogue: str = "tma"
    swap_operands: bool = False
    split_k: int = 1
    blocks_per_sm: int = 1
    raster_along: str = "M"
    scheduler: str = "data_parallel"
    stream_waves: int = 1
    reduction: str = "parallel"
    cluster_shape_mn: tuple[int, int] = (1, 1)

    @property
    def shares_tiles(self) -> bool:
        """Whether several blocks may work on one tile."""
        return self.split_k > 1 or self.scheduler == "stream_k"

    @property
    def in_cluster(self) -> bool:
        """Whether the blocks of a tile are a cluster, and meet in its shared memory."""
        return self.split_k > 1 and self.reduction == "cluster"

    @property
    def cluster_size(self) -> int:
        """Blocks of a cluster."""
        if self.in_cluster:
            return self.split_k
        return self.cluster_shape_mn[0] * self.cluster_shape_mn[1]

    @property
    def consumer_rows(self) -> int:
        """Rows of a tile that one consumer multiplies."""
        m = self.tile_shape_mnk[0]
        return m // CONSUMERS if self.schedule == "cooperative" else m

    @property
    def boxes(self) -> int:
        """Boxes that one consumer stores of a tile."""
        n = self.tile_shape_mnk[1]
        return self.consumer_rows // 64 * max(n // 64, 1)

    @property
    def accumulators(self) -> int:
        """Accumulator registers of a consumer's thread."""
        return self.consumer_rows * self.tile_shape_mnk[1] // WARPGROUP

    @property
    def smem_bytes(self) -> int:
        """Shared memory of one block: the ring, the store boxes, the barriers, the split's flag."""
        m, n, k = self.tile_shape_mnk
        ring = self.num_stages * (m + n) * k * 2
        columns = min(n, BOX) * self.store_boxes + (n % BOX if n > BOX else 0)
        boxes = CONSUMERS * self.store_buffers * BOX * columns * 2
        flags = 4 * CONSUMERS if self.shares_tiles else 0
        if self.in_cluster:
            together = self.schedule == "cooperative"
            flags = inbox_bytes(self.split_k, CONSUMERS, together, self.accumulators)
        return ring + boxes * (self.epilogue == "tma") + 16 * self.num_stages + flags

    def workspace(self, problem: GemmProblem) -> WorkspaceShape | None:
        """The workspace for a problem, as the kernel sees it; None where tiles are not shared."""
        if not self.shares_tiles or self.in_cluster:
            return None
        bm, bn, bk = self.tile_shape_mnk
        tiles = -(-problem.m // bm) * -(-problem.n // bn) * problem.batch
        sums, counters = tiles * self.split_k, tiles
        if self.scheduler == "stream_k":
            in_place = self.reduction in IN_PLACE
            blocks = stream_blocks(tiles, -(-problem.k // bk), self.max_ctas, in_place)
            # Where nothing happens to be shared, a counter remains to be touched.
            counters = max(streamed_tiles(tiles, blocks, self.stream_waves), 1)
            sums = max(blocks - 1, 1)
        if self.reduction in IN_PLACE:
            sums = counters
        shares = CONSUMERS if self.schedule == "cooperative" else 1
        return WorkspaceShape(sums * shares, counters * shares, self.accumulators * WARPGROUP)

    def __str__(self) -> str:
        tile = "x".join(map(str, self.tile_shape_mnk))
        extra = [f"{self.blocks_per_sm} blocks"] * (self.blocks_per_sm > 1)
        extra += [f"split_k={self.split_k}"] * (self.split_k > 1)
        extra += [f"stream_k={self.stream_waves}"] * (self.scheduler == "stream_k")
        extra += [self.reduction] * (self.shares_tiles and self.reduction != "parallel")
        extra += [f"along {self.raster_along}"] * (self.raster_along != "M")
        shape = "x".join(map(str, self.cluster_shape_mn))
        extra += [f"cluster {shape}"] * (self.cluster_shape_mn != (1, 1))
        extra += ["swapped"] * self.swap_operands + ["direct"] * (self.epilogue == "direct")
        return " ".join((self.schedule, tile, f"{self.num_stages} stages", *extra))


def sm90_refusal(problem: GemmProblem, target: Target, config: Sm90GemmConfig) -> str | None:
    """None, or why `sm90_gemm` cannot run the problem."""
    if config.swap_operands:
        reason = sm90_refusal(problem.transposed(), target, replace(config, swap_operands=False))
        return with_swapped_operands(reason) if reason else None
    if not target.has("wgmma"):
        text = f"needs wgmma (sm_90a), the target is {target.name}"
        return Refusal(text, StatusCode.ARCH_MISMATCH, "", "sm_90a", target.name)
    if problem.a.dtype.name not in ("f16", "bf16"):
        name = problem.a.dtype.name
        text = f"A and B are {name}, expected f16 or bf16"
        return Refusal(text, StatusCode.INVALID_DATA_TYPE, "A", "f16 or bf16", name)
    if problem.k == 0:
        return "K is 0: there is nothing for the tensor cores to do"
    work = {"C": problem.c, "a bias": problem.bias, "gelu": problem.activation == "gelu"}
    if any(work.values()) and config.accumulators > 128:
        return (
            f"{config.accumulators} accumulator registers per thread leave too few for "
            f"{' and '.join(x for x in work if work[x])}, at most 128 do; use a smaller tile"
        )
    reason = _refused_operands(problem, config) or _refused_config(config, target)
    reason = reason or _refused_registers(problem, config)
    if reason is None and config.split_k > -(-problem.k // config.tile_shape_mnk[2]):
        return f"split_k = {config.split_k} is more than the k tiles of K = {problem.k}"
    return reason


def _refused_operands(problem: GemmProblem, config: Sm90GemmConfig) -> str | None:
    """None, or which operand TMA cannot take."""
    d = problem.d
    tma_operands = (problem.a, problem.b, d) if config.epilogue == "tma" else problem.inputs
    for operand in tma_operands:
        if operand.major == "strided":
            text = f"{operand.name} has no contiguous index: TMA needs one"
            return Refusal(text, StatusCode.INVALID_LAYOUT, operand.name, "a stride of 1", "none")
        if operand.align_bytes < 16:
            return misaligned(operand.name, "TMA", 128, operand.align_bytes, operand.pitch_bytes)
    bn = config.tile_shape_mnk[1]
    if problem.b.major == "N" and bn % 16:
        needed = "a multiple of 16"
        text = f"B has N contiguous: a tile of {bn} columns is no whole number of swizzle atoms"
        text += f", expected {needed}"
        return Refusal(text, StatusCode.INVALID_LAYOUT, "B", needed, str(bn))
    if config.epilogue == "direct":
        if d.dtype is problem.a.dtype or d.dtype.name == "f32":
            return None
        needed = f"f32, or {problem.a.dtype.name} like A and B"
        text = f"D is {d.dtype.name}, expected {needed}"
        return Refusal(text, StatusCode.INVALID_DATA_TYPE, "D", needed, d.dtype.name)
    if d.dtype is not problem.a.dtype:
        needed = f"{problem.a.dtype.name} like A and B"
        text = f"D is {d.dtype.name}, expected {needed}"
        return Refusal(text, StatusCode.INVALID_DATA_TYPE, "D", needed, d.dtype.name)
    extent = problem.m if d.major == "M" else problem.n
    if extent % 8:
        return Refusal(
            f"{d.major} = {extent} is no multiple of 8: a TMA store would overrun the row by up to "
            "14 bytes",
            StatusCode.MISALIGNED_OPERAND,
            "D",
            f"{d.major} a multiple of 8",
            str(extent),
        )
    return None


def _refused_config(config: Sm90GemmConfig, target: Target) -> str | None:
    """None, or what no GPU of this target can do."""
    bm, bn, bk = config.tile_shape_mnk
    if config.schedule not in SCHEDULES:
        return f"schedule is {config.schedule!r}, expected {' or '.join(SCHEDULES)}"
    if config.epilogue not in EPILOGUES:
        return f"epilogue is {config.epilogue!r}, expected {' or '.join(EPILOGUES)}"
    if config.raster_along not in ("M", "N"):
        return f"raster_along is {config.raster_along!r}, expected M or N"
    least = BOX * (CONSUMERS if config.schedule == "cooperative" else 1)
    if bm not in (least, 2 * least) or bn not in range(16, 257, 8) or bk not in (64, 128):
        return (
            f"tile {bm}x{bn}x{bk}: expected M of {least} or {2 * least} ({config.schedule}), N of "
            "16 to 256 by 8, K of 64 or 128"
        )
    if reason := _refused_sharing(config, target) or _refused_multicast(config):
        return reason
    turn = config.store_boxes * config.store_buffers
    across = max(bn // BOX, 1)
    if config.epilogue == "tma" and bn > BOX and bn % BOX and across % config.store_boxes:
        return (
            f"tile {bm}x{bn}: {across} whole boxes and a rest in each row, expected store_boxes "
            f"that divide {across}, got {config.store_boxes}"
        )
    if config.epilogue == "tma" and config.boxes % turn:
        return (
            f"tile {bm}x{bn}: {config.boxes} boxes for each consumer are no multiple of "
            f"store_boxes x store_buffers = {turn}"
        )
    if config.blocks_per_sm not in (1, 2):
        return f"blocks_per_sm is {config.blocks_per_sm}, expected 1 or 2"
    together = config.blocks_per_sm * (config.smem_bytes + RESERVED_SMEM)
    if config.blocks_per_sm > 1 and together > target.smem_per_sm:
        return (
            f"tile {bm}x{bn}x{bk} with {config.num_stages} stages: {config.blocks_per_sm} blocks "
            f"need {together:,} B of shared memory, an SM of {target.name} has "
            f"{target.smem_per_sm:,}; use fewer num_stages"
        )
    if config.smem_bytes > target.smem_per_block:
        return (
            f"tile {bm}x{bn}x{bk} with {config.num_stages} stages needs {config.smem_bytes:,} B "
            f"of shared memory, {target.name} has {target.smem_per_block:,}; "
            "use fewer num_stages or a smaller tile"
        )
    if config.blocks_per_sm > 1 and config.accumulators > 32:
        return (
            f"tile {bm}x{bn} needs {config.accumulators} accumulator registers per thread, with "
            f"{config.blocks_per_sm} blocks on an SM at most 32 fit; use a smaller tile"
        )
    if config.accumulators + 40 > config.consumer_registers:
        return (
            f"tile {bm}x{bn} needs {config.accumulators} accumulator registers per thread and "
            f"about 40 more, consumer_registers is {config.consumer_registers}; "
            "use a smaller tile"
        )
    return None


def _refused_sharing(config: Sm90GemmConfig, target: Target) -> str | None:
    """None, or why blocks cannot share tiles in this way."""
    if config.scheduler not in SCHEDULERS:
        return f"scheduler is {config.scheduler!r}, expected {' or '.join(SCHEDULERS)}"
    if config.reduction not in REDUCTIONS:
        return f"reduction is {config.reduction!r}, expected {' or '.join(REDUCTIONS)}"
    waits = f"scheduler {config.scheduler!r}" if config.scheduler == "stream_k" else ""
    if config.split_k > 1 and config.reduction == "serial":
        waits = "reduction 'serial'"
    resident = target.sm_count * config.blocks_per_sm
    if waits and config.max_ctas > resident:
        return (
            f"{waits}: max_ctas = {config.max_ctas}, but blocks wait for each other, and "
            f"{target.name} runs {resident} at a time"
        )
    if config.in_cluster:
        return _refused_cluster(config)
    if config.scheduler != "stream_k":
        return None
    if config.split_k > 1:
        return f"split_k = {config.split_k} with scheduler 'stream_k': tiles are cut one way only"
    if config.stream_waves not in (1, 2):
        return f"stream_waves is {config.stream_waves}, expected 1 or 2"
    if config.reduction == "serial":
        return "scheduler 'stream_k': reduction 'serial' would make each block wait for the next"
    if config.reduction == "cluster":
        return "scheduler 'stream_k': reduction 'cluster' is for the equal parts of a split_k"
    return None


def _refused_registers(problem: GemmProblem, config: Sm90GemmConfig) -> str | None:
    """None, or what ptxas has shown to have too few registers."""
    what, most = "", config.accumulators
    streams, direct = config.scheduler == "stream_k", config.epilogue == "direct"
    if config.schedule == "pingpong" and config.reduction == "parallel":
        turn = "schedule 'pingpong', reduction 'parallel' and"
        if streams and problem.c:
            what, most = f"{turn} scheduler 'stream_k' with a C", 112
        elif config.split_k > 1 and direct:
            what, most = f"{turn} a split_k with epilogue 'direct'", 128
    elif streams and direct and problem.c and config.reduction == "fast":
        what, most = "scheduler 'stream_k', reduction 'fast' and epilogue 'direct' with a C", 80
    if config.accumulators <= most:
        return None
    return (
        f"{config.accumulators} accumulator registers per thread leave too few for {what}, at most "
        f"{most} do; use another reduction or a smaller tile"
    )


def _refused_multicast(config: Sm90GemmConfig) -> str | None:
    """None, or why a cluster cannot share what it loads."""
    if config.cluster_shape_mn == (1, 1):
        return None
    along_m, along_n = config.cluster_shape_mn
    text = f"cluster {along_m}x{along_n}"
    if min(along_m, along_n) < 1 or along_m * along_n > CLUSTER:
        return f"{text}: expected 1 to {CLUSTER} blocks"
    if config.shares_tiles:
        return f"{text}: its blocks have tiles of their own, but split_k or stream_k shares tiles"
    if config.max_ctas < along_m * along_n:
        return f"{text}: max_ctas = {config.max_ctas} is less"
    bm, bn, bk = config.tile_shape_mnk
    # A part is whole swizzle atoms: 8 rows, or 8 of K where the rows are contiguous.
    for name, extent, blocks in (("A", bm, along_n), ("B", bn, along_m)):
        if extent % (8 * blocks) or bk % (8 * blocks):
            return f"{text}: {blocks} blocks cannot share a tile of {name} of {extent}x{bk} evenly"
    return None


def _refused_cluster(config: Sm90GemmConfig) -> str | None:
    """None, or why the blocks of a tile cannot be a cluster."""
    if config.split_k > CLUSTER:
        return f"split_k = {config.split_k} in a cluster: at most {CLUSTER} blocks are one"
    if config.max_ctas < config.split_k:
        return f"split_k = {config.split_k} in a cluster: max_ctas = {config.max_ctas} is less"
    if config.epilogue != "direct":
        return (
            f"reduction 'cluster' needs epilogue 'direct', got {config.epilogue!r}: each block "
            "stores the rows of a few warps"
        )
    return None
