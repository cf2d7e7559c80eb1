"""How a Hopper GEMM without TMA is cut up, what it refuses, and which cut is likely the fastest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.arch.target import Target
from tilewright.collective.tile_copy import ASYNC_BYTES, fits
from tilewright.library.configs import BOX, CONSUMERS, EPILOGUES, WARPGROUP
from tilewright.library.heuristics import (
    DIRECT_BY_REGISTER,
    EPILOGUE,
    EPILOGUE_BY_REGISTER,
    GATHER_TURN,
    HBM_BYTES,
    L2_BYTES,
    NARROW,
)
from tilewright.library.problem import GemmProblem, Operand
from tilewright.library.sm90_refusal import refused_by_wgmma
from tilewright.library.status import Refusal, StatusCode, with_swapped_operands, wrong_type

ELEMENT_BYTES = 2
"""Copied one at a time where nothing wider divides an operand's addresses."""
COPY, COPY_PAIR = 10, 27
"""Clocks of a warp's copy instruction of any width, and of a pair of elements by registers."""


def copy_bytes(problem: GemmProblem, operand: Operand) -> int:
    """The most bytes that A or B of the problem can be copied at a time: 16, 8, 4 or 2.

    They divide every row's address, and the extent of the contiguous index: a copy lies inside or
    outside of the operand as a whole.

    >>> odd = GemmProblem.packed(64, 64, 36, ab="bf16", d="bf16")
    >>> copy_bytes(odd, odd.a)
    8
    """
    extents = {"K": problem.k, "M": problem.m, "N": problem.n}
    if operand.major not in extents:
        return ELEMENT_BYTES
    run = extents[operand.major] * ELEMENT_BYTES
    fits = (w for w in ASYNC_BYTES if operand.align_bytes % w == 0 and run % w == 0)
    return next(fits, ELEMENT_BYTES)


@dataclass(frozen=True, slots=True)
class Sm90CpAsyncConfig:
    """How the problem is cut up.

    Both consumers share a tile, half of its rows each; `producers` warpgroups copy.  `a_bytes` and
    `b_bytes` are copied at a time, `in_flight` stages are on their way.  A producer thread has up
    to `batch` copies unrolled: element by element, as many pairs are on their way to it.  The rest
    is what `Sm90GemmConfig` says of it.
    """

    tile_shape_mnk: tuple[int, int, int] = (128, 128, 64)
    num_stages: int = 6
    in_flight: int = 4
    a_bytes: int = 16
    b_bytes: int = 16
    raster: int = 8
    epilogue: str = "direct"
    store_boxes: int = 1
    store_buffers: int = 1
    swap_operands: bool = False
    max_ctas: int = 132
    producers: int = 1
    batch: int = 16

    @property
    def is_persistent(self) -> bool:
        """Whether a block stays for one tile after another: always."""
        return True

    @property
    def threads(self) -> int:
        return WARPGROUP * (self.producers + CONSUMERS)

    @property
    def consumer_rows(self) -> int:
        """Rows of a tile that one consumer multiplies."""
        return self.tile_shape_mnk[0] // CONSUMERS

    @property
    def accumulators(self) -> int:
        """Accumulator registers of a consumer's thread."""
        return self.consumer_rows * self.tile_shape_mnk[1] // WARPGROUP

    @property
    def registers(self) -> tuple[int, int] | None:
        """Registers of a producer's and of a consumer's thread; None if both have as many."""
        return (104, 200) if self.accumulators > 64 else None

    @property
    def smem_bytes(self) -> int:
        """Shared memory of one block: the ring, the store boxes, the barriers."""
        m, n, k = self.tile_shape_mnk
        ring = self.num_stages * (m + n) * k * ELEMENT_BYTES
        boxes = CONSUMERS * self.store_buffers * self.store_boxes * BOX * min(n, BOX)
        return ring + boxes * ELEMENT_BYTES * (self.epilogue == "tma") + 16 * self.num_stages

    def __str__(self) -> str:
        tile = "x".join(map(str, self.tile_shape_mnk))
        extra = [f"{self.producers} producers"] * (self.producers > 1)
        extra += ["swapped"] * self.swap_operands + ["direct"] * (self.epilogue == "direct")
        widths = f"A by {self.a_bytes} B", f"B by {self.b_bytes} B"
        return " ".join((tile, f"{self.num_stages} stages", *widths, *extra))


def cpasync_refusal(problem: GemmProblem, target: Target, config: Sm90CpAsyncConfig) -> str | None:
    """None, or why `sm90_cpasync_gemm` cannot run the problem."""
    if not isinstance(config, Sm90CpAsyncConfig):
        return f"the config is a {type(config).__name__}, expected Sm90CpAsyncConfig"
    if config.swap_operands:
        turned = replace(config, swap_operands=False)
        reason = cpasync_refusal(problem.transposed(), target, turned)
        return with_swapped_operands(reason) if reason else None
    reason = refused_by_wgmma(problem, target)
    reason = reason or refused_width(problem, problem.a, config.a_bytes)
    reason = reason or refused_width(problem, problem.b, config.b_bytes)
    reason = reason or _refused_output(problem, config) or _refused_config(config, target)
    return reason or _refused_registers(problem, config)


def refused_width(problem: GemmProblem, operand: Operand, nbytes: int) -> str | None:
    """None, or why A or B cannot be copied `nbytes` at a time."""
    if nbytes not in (*ASYNC_BYTES, ELEMENT_BYTES):
        return f"{operand.name} by {nbytes} bytes at a time: expected 16, 8, 4 or 2"
    most = copy_bytes(problem, operand)
    if nbytes > most:
        return Refusal(
            f"{operand.name} can be copied {most} bytes at a time, the config says {nbytes} "
            f"(rows at multiples of {operand.align_bytes}, pitch {operand.pitch_bytes} B)",
            StatusCode.MISALIGNED_OPERAND,
            operand.name,
            f"{nbytes} bytes",
            f"{most} bytes",
        )
    return None


def _refused_output(problem: GemmProblem, config: Sm90CpAsyncConfig) -> str | None:
    """None, or why the epilogue cannot store D."""
    if config.epilogue not in EPILOGUES:
        return f"epilogue is {config.epilogue!r}, expected {' or '.join(EPILOGUES)}"
    d, tma = problem.d, config.epilogue == "tma"
    types = (problem.a.dtype.name,) if tma else ("f16", "bf16", "f32")
    if d.dtype.name not in types:
        needed = f"{types[0]} like A and B (TMA store)" if tma else "f16, bf16 or f32"
        return wrong_type("D", d.dtype.name, needed)
    extent = problem.m if d.major == "M" else problem.n
    if tma and (d.major == "strided" or d.align_bytes < 16 or extent % 8):
        actual = f"{d.major} = {extent}, rows at multiples of {d.align_bytes} bytes"
        text = f"D needs rows of whole 16 bytes (TMA store), got {actual}; use epilogue 'direct'"
        return Refusal(text, StatusCode.MISALIGNED_OPERAND, "D", "rows of whole 16 bytes", actual)
    return None


def _refused_registers(problem: GemmProblem, config: Sm90CpAsyncConfig) -> str | None:
    """None, or what ptxas has shown to have too few registers: the addresses of C's columns."""
    c = problem.c
    if c is None or config.epilogue != "tma" or c.major == problem.d.major == "N":
        return None
    if config.accumulators <= 64 or config.consumer_rows <= BOX:
        return None
    bm, bn, _ = config.tile_shape_mnk
    majors = f"C {c.major}-major and D {problem.d.major}-major"
    return (
        f"tile {bm}x{bn}: {config.accumulators} accumulator registers per thread leave too few for "
        f"{majors} with epilogue 'tma'; use epilogue 'direct' or {BOX * CONSUMERS} rows"
    )


def _refused_config(config: Sm90CpAsyncConfig, target: Target) -> str | None:
    """None, or what no GPU of this target can do."""
    bm, bn, bk = config.tile_shape_mnk
    least = BOX * CONSUMERS
    if bm not in (least, 2 * least) or not (bn in (16, 32) or bn in range(64, 257, 64)) or bk != 64:
        return (
            f"tile {bm}x{bn}x{bk}: expected M of {least} or {2 * least}, N of 16, 32, or 64 to 256 "
            "by 64, K of 64"
        )
    if config.producers not in (1, 2):
        return f"producers is {config.producers}, expected 1 or 2"
    if not fits((bn, bk), WARPGROUP * config.producers):
        return f"tile {bm}x{bn}x{bk} has too few columns for {config.producers} producers"
    if not 0 <= config.in_flight <= config.num_stages - 2:
        return (
            f"in_flight = {config.in_flight} of {config.num_stages} stages: expected 0 to "
            f"{config.num_stages - 2}, two stages are the consumers'"
        )
    boxes = config.consumer_rows // BOX * max(bn // BOX, 1)
    turn = config.store_boxes * config.store_buffers
    if config.epilogue == "tma" and boxes % turn:
        return (
            f"tile {bm}x{bn}: {boxes} boxes for each consumer are no multiple of "
            f"store_boxes x store_buffers = {turn}"
        )
    most = 128 if config.producers == 1 else 64
    if config.accumulators > most:
        return (
            f"tile {bm}x{bn} needs {config.accumulators} accumulator registers per thread, beside "
            f"{config.producers} producers at most {most} fit; use a smaller tile"
        )
    if config.smem_bytes > target.smem_per_block:
        return (
            f"tile {bm}x{bn}x{bk} with {config.num_stages} stages needs {config.smem_bytes:,} B "
            f"of shared memory, {target.name} has {target.smem_per_block:,}; "
            "use fewer num_stages or a smaller tile"
        )
    return None


_TILES = (
    Sm90CpAsyncConfig((128, 256, 64), 4, 2),
    Sm90CpAsyncConfig((256, 128, 64), 4, 2),
    Sm90CpAsyncConfig((128, 128, 64), 6, 4),
    Sm90CpAsyncConfig((128, 64, 64), 8, 6),
    Sm90CpAsyncConfig((128, 32, 64), 9, 7),
    Sm90CpAsyncConfig((128, 16, 64), 10, 8),
)


def candidates(problem: GemmProblem, target: Target) -> Iterator[Sm90CpAsyncConfig]:
    """The configs that are worth a thought: D is stored by TMA where it can be."""
    for swap in (False, True):
        seen = problem.transposed() if swap else problem
        for base in _TILES:
            widths = copy_bytes(seen, seen.a), copy_bytes(seen, seen.b)
            plain = replace(
                base,
                a_bytes=widths[0],
                b_bytes=widths[1],
                swap_operands=swap,
                max_ctas=target.sm_count,
            )
            for config in _by_elements(plain) if ELEMENT_BYTES in widths else (plain,):
                stored = replace(config, epilogue="tma")
                if cpasync_refusal(problem, target, stored) is None:
                    yield stored
                elif cpasync_refusal(problem, target, config) is None:
                    yield config


def _by_elements(config: Sm90CpAsyncConfig) -> tuple[Sm90CpAsyncConfig, ...]:
    """The config as it suits copies through registers: many at a time, by one or two producers.

    They are there at once, so that they need not be handed over later.
    """
    lag = 0 if config.a_bytes == config.b_bytes else 1
    plain = replace(config, in_flight=lag, batch=32)
    return plain, replace(plain, producers=2)


def clocks(problem: GemmProblem, config: Sm90CpAsyncConfig) -> float:
    """What the model thinks of a config: clocks of the busiest SM, or of the memory.

    A k tile takes as long as its products, its way out of the L2, or its copies, whichever is
    slowest.  Each batch of pairs of elements waits for a round of loads.
    """
    seen = problem.transposed() if config.swap_operands else problem
    bm, bn, bk = config.tile_shape_mnk
    tiles = -(-seen.m // bm) * -(-seen.n // bn) * seen.batch
    waves = max(1, -(-tiles // config.max_ctas))
    k_tiles = -(-seen.k // bk)
    products = bm // 64 * 4 * max(bn / 2, NARROW if bn < 128 else 0)
    copies = rounds = 0.0
    for rows, nbytes in ((bm, config.a_bytes), (bn, config.b_bytes)):
        if nbytes > ELEMENT_BYTES:
            copies += COPY * rows * bk * ELEMENT_BYTES / nbytes / 32
        else:
            pairs = rows * bk / 2
            copies += COPY_PAIR * pairs / 32
            rounds += pairs / (WARPGROUP * config.producers * config.batch)
    from_l2 = (bm + bn) * bk * ELEMENT_BYTES / L2_BYTES
    block = max(products, from_l2, copies, rounds * GATHER_TURN)
    direct = config.epilogue == "direct"
    by_register = DIRECT_BY_REGISTER if direct else EPILOGUE_BY_REGISTER
    # Directly, neighbours of a row are stored together, those of a column one by one.
    scattered = direct and seen.d.major != "N"
    epilogue = EPILOGUE + by_register * config.accumulators * (2 if scattered else 1)
    return max(waves * (k_tiles * block + epilogue), problem.bytes / HBM_BYTES)


def default_config(problem: GemmProblem, target: Target) -> Sm90CpAsyncConfig:
    """The config that the model likes best; a plain one where none can run the problem.

    >>> from tilewright.arch.target import target
    >>> odd = GemmProblem.packed(4095, 4097, 4099, ab="bf16", d="bf16")
    >>> print(default_config(odd, target("sm_90a")))
    256x128x64 4 stages A by 2 B B by 2 B direct
    """
    plain = Sm90CpAsyncConfig(max_ctas=target.sm_count)
    found = candidates(problem, target)
    return min(found, key=lambda config: clocks(problem, config), default=plain)
