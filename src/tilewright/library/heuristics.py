"""Which config for which problem: a cost model that prints its numbers.

`rank` lists the configs that can run a problem, fastest first by the model.  The model counts SM
clocks of the busiest block:

    tiles of the busiest block x (k tiles x clocks of a k tile + epilogue as far as it shows)

plus, with Stream-K, its share of the streamed k tiles, plus what it takes to add up shared tiles;
and compares them with the clocks that memory takes for all bytes.  A problem that was never
measured (`library/measured.py`) gets the model's pick.  The constants are those of an H200, as
`benchmarks/gemm.py` and clock64() show them; they rank configs, they do not promise a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.arch.target import Target
from tilewright.collective.reduction.cluster import inbox_bytes
from tilewright.collective.reduction.last import IN_FLIGHT
from tilewright.collective.stream_k import stream_blocks, streamed_tiles
from tilewright.library import measured
from tilewright.library.configs import (
    BOX,
    CONSUMERS,
    IN_PLACE,
    RESERVED_SMEM,
    Sm90GemmConfig,
)
from tilewright.library.problem import GemmProblem
from tilewright.library.sm90_refusal import sm90_refusal

LAUNCH = 3400
"""Clocks from a block's start to its first product: barriers, registers, the first TMA."""
FIRST_WAIT = 180
"""Clocks at the start of each cooperative tile until the tensor cores are busy again."""
HAND_OVER = 200
"""Clocks of a ping-pong turn beyond its products."""
EPILOGUE, EPILOGUE_BY_REGISTER = 120, 14
"""Clocks of an epilogue: a start, and those for each accumulator of a thread."""
DIRECT_BY_REGISTER = 45
"""The same, when D is stored from registers."""
NARROW = 54
"""The fewest clocks of one wgmma below N = 128: its operands come from shared memory."""
L2_BYTES = 64
"""Bytes that one SM gets out of the L2 in a clock."""
HBM_BYTES = 2500
"""Bytes that the GPU gets out of its memory in a clock: 4.3 TB/s at 1.7 GHz."""
SHORT_ROWS = 1.03
"""How much longer it takes the memory to give rows of 128 bytes than longer ones."""
SM_BYTES = 34
"""Bytes of memory that one block gets in a clock when most SMs have none."""
GATHER, GATHER_BY_REGISTER, GATHER_TURN = 2500, 25, 600
"""Clocks of the block that adds up a tile: a start, its own sums, and each round of loads."""
SEND, SEND_BYTES = 1200, 32
"""The same in a cluster: clocks of a start, and bytes that one block is sent in a clock."""
ROW_SPAN, SPLIT_ROW = 128, 4.2
"""Bytes of a row that TMA loads at a time, and clocks of one whose pitch is no multiple of 32."""
FUSED_BY_REGISTER = 26
"""Clocks of an epilogue for each accumulator that also gets a C, a bias or an activation."""
TWO_BLOCKS = 1500
"""Clocks that the start takes longer with several blocks on an SM."""
SECTOR = 32
CLOCK_MHZ = 1700


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model thinks of a config; `waves` are the whole tiles of the busiest block.

    `share` are its streamed k tiles, `block` the clocks of one k tile, `epilogue` those of one
    epilogue, `gather` of adding up shared tiles, `memory` what all bytes take; `clocks` is the sum,
    `bound` what most of it is.
    """

    config: Sm90GemmConfig
    tiles: int
    waves: int
    k_tiles: int
    share: float
    block: float
    epilogue: float
    gather: float
    memory: float
    clocks: float
    bound: str

    @property
    def us(self) -> float:
        return self.clocks / CLOCK_MHZ

    def __str__(self) -> str:
        share = f" + {self.share:.1f} streamed k tiles" if self.share else ""
        gather = f", gather {self.gather:.0f}" if self.gather else ""
        return (
            f"{self.us:8.1f} us  {self.config}: {self.tiles} tiles, {self.waves} on the busiest "
            f"SM x ({self.k_tiles} k tiles x {self.block:.0f} + epilogue {self.epilogue:.0f}) "
            f"clocks{share}{gather}, memory {self.memory:.0f}: {self.bound} bound"
        )


def predict(problem: GemmProblem, target: Target, config: Sm90GemmConfig) -> Prediction:
    """The model's opinion of one config."""
    seen = problem.transposed() if config.swap_operands else problem
    bm, bn, bk = config.tile_shape_mnk
    tiles = -(-seen.m // bm) * -(-seen.n // bn) * seen.batch * config.split_k
    blocks = target.sm_count * config.blocks_per_sm
    if config.is_persistent:
        blocks = min(blocks, config.max_ctas)
    blocks -= blocks % config.cluster_size
    waves = max(1, -(-tiles // blocks))
    all_k_tiles = -(-seen.k // bk)
    k_tiles = -(-all_k_tiles // config.split_k)
    products = bm // 64 * bk // 16 * max(bn / 2, NARROW if bn < 128 else 0)
    products *= config.blocks_per_sm
    along_m, along_n = config.cluster_shape_mn
    loaded = (bm / along_n + bn / along_m) * bk * 2 * config.blocks_per_sm
    block = max(products, loaded / L2_BYTES, _split_rows(seen, config) * SPLIT_ROW)
    by_register = EPILOGUE_BY_REGISTER if config.epilogue == "tma" else DIRECT_BY_REGISTER
    if problem.c or problem.bias or problem.activation:
        by_register += FUSED_BY_REGISTER
    epilogue = EPILOGUE + by_register * config.accumulators
    share, gather = 0.0, _gather(config, config.split_k)
    if config.scheduler == "stream_k":
        blocks = stream_blocks(tiles, k_tiles, blocks, config.reduction in IN_PLACE)
        streamed = streamed_tiles(tiles, blocks, config.stream_waves)
        waves = (tiles - streamed) // blocks
        share = streamed * k_tiles / blocks
        parts = 1 + -(-blocks // max(streamed, 1))
        # A share of more than a tile ends two tiles at most that others have begun or will end.
        gather = _gather(config, parts) + (share > 0) * (epilogue + FIRST_WAIT)
    if not config.is_persistent:
        # The tensor cores are never idle, or each of the blocks that follow each other shows.
        own = k_tiles * block / config.blocks_per_sm
        busiest = -(-tiles // target.sm_count) * own
        compute = max(busiest, waves * own + (waves - 1) * (epilogue + LAUNCH)) + epilogue + gather
    elif config.schedule == "cooperative":
        compute = waves * (k_tiles * block + epilogue + FIRST_WAIT) + share * block + gather
    else:
        # Small tiles leave less room between the two consumers.
        slower = 1.015 if bm * bn <= 128 * 128 else 1.01
        own = k_tiles * block * slower
        compute = waves * max(own + HAND_OVER, (own + epilogue) / CONSUMERS) + 0.4 * epilogue
        compute += share * block * slower + gather
    ctas = max(min(tiles, blocks), 1) if not share else blocks
    idle = 0.0
    if config.cluster_size == 1 and not share:
        # Blocks that leave SMs idle, at once or in their last wave, do not spread evenly over the
        # pairs of SMs that share a way to memory, it seems; clusters fill whole pairs.
        idle = max(waves * blocks / tiles - 1 if tiles > blocks else 1 - tiles / blocks, 0.0)
    memory = problem.bytes / min(HBM_BYTES, ctas * SM_BYTES) * (1 + 0.5 * idle)
    memory *= SHORT_ROWS if bk * 2 <= ROW_SPAN else 1
    start = LAUNCH + TWO_BLOCKS * (config.blocks_per_sm > 1)
    # Both consumers of the cooperative schedule store at once, and nothing is loaded for a while.
    ends = waves if config.schedule == "cooperative" else 1
    clocks = start + max(compute, memory + ends * (epilogue + gather)) + 0.2 * min(compute, memory)
    bound = "memory" if memory > compute else "L2" if block > products else "tensor core"
    return Prediction(
        config, tiles, waves, k_tiles, share, block, epilogue, gather, memory, clocks, bound
    )


def _split_rows(seen: GemmProblem, config: Sm90GemmConfig) -> float:
    """Rows of a k tile that TMA loads in pieces: those that begin inside of a 32-byte sector."""
    bm, bn, bk = config.tile_shape_mnk
    along_m, along_n = config.cluster_shape_mn
    parts = ((seen.a, bm / along_n), (seen.b, bn / along_m))
    rows = sum(x * bk * 2 / ROW_SPAN for operand, x in parts if operand.pitch_bytes % SECTOR)
    return rows * config.blocks_per_sm


def _gather(config: Sm90GemmConfig, parts: int) -> float:
    """Clocks of the block that adds up a tile of `parts` parts."""
    if parts == 1:
        return 0.0
    if config.in_cluster:
        sent = inbox_bytes(parts, config.sharers, True, config.accumulators)
        return SEND + sent / SEND_BYTES
    read = 1 if config.reduction in IN_PLACE else parts
    turns = -(-read * config.accumulators // IN_FLIGHT)
    once = GATHER + GATHER_BY_REGISTER * config.accumulators + GATHER_TURN * turns
    return once * (parts - 1) if config.reduction == "serial" else once


_WIDE: tuple[Sm90GemmConfig, ...] = (
    Sm90GemmConfig(),
    Sm90GemmConfig((256, 128, 64), 4, 8),
    Sm90GemmConfig((128, 192, 64), 4, 16, store_boxes=3),
    Sm90GemmConfig((128, 128, 64), 6),
    Sm90GemmConfig((128, 128, 64), 5, 8, schedule="pingpong", store_buffers=2),
    Sm90GemmConfig((128, 192, 64), 4, 8, schedule="pingpong", store_boxes=3),
    Sm90GemmConfig((64, 256, 64), 4, 16, schedule="pingpong", store_boxes=4),
    Sm90GemmConfig((64, 128, 64), 8, 8, schedule="pingpong", store_boxes=1),
    Sm90GemmConfig((128, 64, 64), 8, store_boxes=1),
)
"""Each of them wins somewhere on an H200; blocks of one tile each won nowhere."""

_NARROW: tuple[Sm90GemmConfig, ...] = (
    Sm90GemmConfig((128, 64, 64), 8, store_boxes=1),
    Sm90GemmConfig((128, 32, 64), 10, store_boxes=1),
    Sm90GemmConfig((128, 16, 64), 11, store_boxes=1),
    Sm90GemmConfig((64, 64, 64), 12, schedule="pingpong", store_boxes=1),
    Sm90GemmConfig((64, 32, 64), 14, schedule="pingpong", store_boxes=1),
    Sm90GemmConfig((64, 16, 64), 14, schedule="pingpong", store_boxes=1),
    Sm90GemmConfig((128, 32, 128), 5, store_boxes=1),
    Sm90GemmConfig((128, 16, 128), 5, store_boxes=1),
    Sm90GemmConfig((64, 64, 128), 6, schedule="pingpong", store_boxes=1),
    Sm90GemmConfig((64, 32, 128), 9, schedule="pingpong", store_boxes=1),
    Sm90GemmConfig((64, 16, 128), 9, schedule="pingpong", store_boxes=1),
    Sm90GemmConfig((128, 32, 64), 5, store_boxes=1, blocks_per_sm=2),
    Sm90GemmConfig((128, 16, 64), 5, store_boxes=1, blocks_per_sm=2),
)
"""For few columns, or few rows by swapped operands: deep rings, to keep the memory busy."""

_SPLITS = (2, 3, 4, 5, 6, 8, 12, 16)


def candidates(problem: GemmProblem, target: Target) -> Iterator[Sm90GemmConfig]:
    """The configs that are worth a thought: D is stored directly where TMA cannot."""
    swaps = (False, True) if problem.m <= 64 < problem.n else (False,)
    narrow = _NARROW if min(problem.m, problem.n) <= 64 else ()
    fitting = _fitting(problem, target)
    for base in dict.fromkeys((*_WIDE, *narrow, *fitting)):
        for swap in swaps:
            rows, columns = (problem.n, problem.m) if swap else (problem.m, problem.n)
            width = base.tile_shape_mnk[1]
            if width < columns <= 64 or (rows <= 64 < columns and width < 48):
                continue  # the wide operand would be read twice, or be a small part of the ring
            ctas = target.sm_count * base.blocks_per_sm
            whole = replace(base, swap_operands=swap, max_ctas=ctas)
            for config in (whole, *_sharing(problem, target, whole)):
                if sm90_refusal(problem, target, config) is None:
                    yield config
                else:
                    yield replace(config, epilogue="direct")


def _fitting(problem: GemmProblem, target: Target) -> Iterator[Sm90GemmConfig]:
    """Tiles as wide as it takes to give all SMs equally much."""
    m, n, sms = problem.m, problem.n, target.sm_count
    # Where N is contiguous, only whole swizzle atoms of 64 columns are fast.
    step = 8 if problem.b.major == "K" else BOX
    if m <= BOX:
        width = -(-n // sms // step) * step
        # TMA is slow on rows outside of A: the tile has to be nearly full.
        if m > BOX - 8 and 16 <= width <= 256:
            narrow = Sm90GemmConfig((BOX, width, 128), 10, schedule="pingpong", store_boxes=1)
            yield _fitted(narrow, target)
        return

    def work(width: int) -> int:
        tiles = -(-m // 128) * -(-n // width) * problem.batch
        return -(-tiles // sms) * width

    widths = [w for w in range(128, 193, step) if w not in (128, 192)]
    width = min(widths, key=lambda w: (work(w), -w), default=128)
    if work(width) < min(work(128), work(192)):
        wide = Sm90GemmConfig((128, width, 64), 5, 8, schedule="pingpong")
        yield _fitted(wide, target)
    if any(x.pitch_bytes % SECTOR for x in problem.inputs):
        # Two blocks that share an operand load fewer of the rows that are slow to load.
        tall = Sm90GemmConfig((128, 64, 64), 8, 8, store_boxes=1)
        flat = replace(tall, tile_shape_mnk=(64, 128, 64), schedule="pingpong")
        yield replace(flat, cluster_shape_mn=(2, 1))
        yield replace(tall, cluster_shape_mn=(1, 2))


def _sharing(
    problem: GemmProblem, target: Target, config: Sm90GemmConfig
) -> Iterator[Sm90GemmConfig]:
    """The ways to share tiles that may keep idle SMs busy, with the same bits in every run.

    Splits of K have at least four k tiles for each part; in a cluster they need no workspace, two
    parts fit the allowed one.  Stream-K is not among them: on an H200 it was never the fastest
    (its blocks are at different k tiles, so that what one loads is no longer in the L2 for the
    others), and neither is adding by atomics, whose last bits differ from run to run.
    """
    if config.cluster_shape_mn != (1, 1) or not config.is_persistent:
        return
    seen = problem.transposed() if config.swap_operands else problem
    bm, bn, bk = config.tile_shape_mnk
    tiles = -(-seen.m // bm) * -(-seen.n // bn) * seen.batch
    most = min(config.max_ctas // max(tiles, 1), seen.k // (4 * bk))
    if min(problem.m, problem.n) <= BOX and seen.k >= 8 * bk:
        most = max(most, 2)  # two loads of a tile at a time keep the memory busier, in any wave
    if config.schedule == "cooperative" or bm == BOX:
        for parts in (s for s in _SPLITS if s <= most):
            split = replace(config, split_k=parts)
            if parts == 2:
                yield split
            yield _fitted(replace(split, reduction="cluster", epilogue="direct"), target)


def _fitted(config: Sm90GemmConfig, target: Target) -> Sm90GemmConfig:
    """The config with as many of its stages as fit beside what else it keeps in shared memory."""
    room = min(target.smem_per_block, target.smem_per_sm // config.blocks_per_sm - RESERVED_SMEM)
    while config.num_stages > 2 and config.smem_bytes > room:
        config = replace(config, num_stages=config.num_stages - 1)
    return config


def rank(problem: GemmProblem, target: Target) -> tuple[Prediction, ...]:
    """The configs that can run the problem, best first; a plain one if none can.

    A config that was measured to be the fastest comes first, whatever the model thinks of it.

    >>> from tilewright.arch.target import target
    >>> found = rank(GemmProblem.packed(1024, 1024, 1024, ab="bf16", d="bf16"), target("sm_90a"))
    >>> found[0].config.tile_shape_mnk[2], len(found) > 4
    (64, True)
    """
    found = [
        predict(problem, target, config)
        for config in candidates(problem, target)
        if sm90_refusal(problem, target, config) is None
    ]
    if not found:
        return (predict(problem, target, Sm90GemmConfig(max_ctas=target.sm_count)),)
    known = measured.pick(problem, target)
    ranked = sorted(found, key=lambda p: (p.config != known, p.clocks))
    is_new = known is not None and ranked[0].config != known
    if known is not None and is_new and sm90_refusal(problem, target, known) is None:
        ranked.insert(0, predict(problem, target, known))
    return tuple(ranked)
