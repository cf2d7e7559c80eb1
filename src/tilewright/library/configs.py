"""How a Hopper GEMM is cut up: the choices that a heuristic or a person makes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.arch.target import Target
from tilewright.library.problem import GemmProblem

WARPGROUP = 128
BOX = 64
"""Rows, and the most columns, of what one TMA store writes."""
CONSUMERS = 2
RESERVED_SMEM = 1024
"""Shared memory that the system takes of every block."""
SCHEDULES = ("cooperative", "pingpong")
EPILOGUES = ("tma", "direct")


@dataclass(frozen=True, slots=True)
class Sm90GemmConfig:
    """How the problem is cut up.

    `schedule`: with "cooperative" both consumers share a tile, half of its rows each; with
    "pingpong" each has a tile of its own, and while one multiplies the other one stores.
    `raster` rows of tiles are walked column by column, which keeps a wave's operands in L2.
    `store_boxes` boxes of 64x64 are staged at a time by each consumer, in `store_buffers` turns;
    `epilogue` "direct" stores from registers instead, to any D.
    `swap_operands` computes the transposed problem, D^T = B^T A^T.
    `split_k` blocks share the K of a tile; the last one to finish adds up and stores.
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
        boxes = CONSUMERS * self.store_buffers * self.store_boxes * 64 * min(n, 64) * 2
        flags = 4 * CONSUMERS if self.split_k > 1 else 0
        return ring + boxes * (self.epilogue == "tma") + 16 * self.num_stages + flags

    def __str__(self) -> str:
        tile = "x".join(map(str, self.tile_shape_mnk))
        extra = [f"{self.blocks_per_sm} blocks"] * (self.blocks_per_sm > 1)
        extra += [f"split_k={self.split_k}"] * (self.split_k > 1)
        extra += ["swapped"] * self.swap_operands + ["direct"] * (self.epilogue == "direct")
        return " ".join((self.schedule, tile, f"{self.num_stages} stages", *extra))


def sm90_refusal(problem: GemmProblem, target: Target, config: Sm90GemmConfig) -> str | None:
    """None, or why `sm90_gemm` cannot run the problem."""
    if config.swap_operands:
        reason = sm90_refusal(problem.transposed(), target, replace(config, swap_operands=False))
        return f"with swapped operands: {reason}" if reason else None
    if not target.has("wgmma"):
        return f"needs wgmma (sm_90a), the target is {target.name}"
    if problem.a.dtype.name not in ("f16", "bf16"):
        return f"A and B are {problem.a.dtype.name}, expected f16 or bf16"
    if problem.k == 0:
        return "K is 0: there is nothing for the tensor cores to do"
    work = {"C": problem.c, "a bias": problem.bias, "gelu": problem.activation == "gelu"}
    if any(work.values()) and config.accumulators > 128:
        return (
            f"{config.accumulators} accumulator registers per thread leave too few for "
            f"{' and '.join(x for x in work if work[x])}, at most 128 do; use a smaller tile"
        )
    reason = _refused_operands(problem, config) or _refused_config(config, target)
    if reason is None and config.split_k > -(-problem.k // config.tile_shape_mnk[2]):
        return f"split_k = {config.split_k} is more than the k tiles of K = {problem.k}"
    return reason


def _refused_operands(problem: GemmProblem, config: Sm90GemmConfig) -> str | None:
    """None, or which operand TMA cannot take."""
    d = problem.d
    tma_operands = (problem.a, problem.b, d) if config.epilogue == "tma" else problem.inputs
    for operand in tma_operands:
        if operand.major == "strided":
            return f"{operand.name} has no contiguous index: TMA needs one"
        if operand.align_bytes < 16:
            return (
                f"{operand.name} needs every row at a multiple of 16 bytes (TMA), "
                f"got {operand.align_bytes} (pitch {operand.pitch_bytes} B)"
            )
    if config.epilogue == "direct":
        if d.dtype is problem.a.dtype or d.dtype.name == "f32":
            return None
        return f"D is {d.dtype.name}, expected f32, or {problem.a.dtype.name} like A and B"
    if d.dtype is not problem.a.dtype:
        return f"D is {d.dtype.name}, expected {problem.a.dtype.name} like A and B"
    extent = problem.m if d.major == "M" else problem.n
    if extent % 8:
        return (
            f"{d.major} = {extent} is no multiple of 8: a TMA store would overrun the row by up to "
            "14 bytes"
        )
    return None


def _refused_config(config: Sm90GemmConfig, target: Target) -> str | None:
    """None, or what no GPU of this target can do."""
    bm, bn, bk = config.tile_shape_mnk
    if config.schedule not in SCHEDULES:
        return f"schedule is {config.schedule!r}, expected {' or '.join(SCHEDULES)}"
    if config.epilogue not in EPILOGUES:
        return f"epilogue is {config.epilogue!r}, expected {' or '.join(EPILOGUES)}"
    least = BOX * (CONSUMERS if config.schedule == "cooperative" else 1)
    if bm not in (least, 2 * least) or not (bn in (16, 32) or bn in range(64, 257, 64)) or bk != 64:
        return (
            f"tile {bm}x{bn}x{bk}: expected M of {least} or {2 * least} ({config.schedule}), N of "
            "16, 32, or 64 to 256 by 64, K of 64"
        )
    if config.split_k > 1 and config.schedule != "cooperative":
        return f"split_k = {config.split_k} needs the cooperative schedule, got {config.schedule}"
    turn = config.store_boxes * config.store_buffers
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
