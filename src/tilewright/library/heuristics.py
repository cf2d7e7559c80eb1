"""Which config for which problem: a cost model that prints its numbers.

`rank` lists the configs that can run a problem, fastest first by the model.  The model counts SM
clocks of the busiest block:

    tiles of the busiest block x (k tiles x clocks of a k tile + epilogue as far as it shows)

and compares them with the clocks that memory takes for all bytes.  A problem that was never
measured (`library/measured.py`) gets the model's pick.  The constants are those of an H200, as
`benchmarks/gemm.py` and clock64() show them; they rank configs, they do not promise a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.arch.target import Target
from tilewright.collective.epilogue.split_k import IN_FLIGHT
from tilewright.library import measured
from tilewright.library.configs import CONSUMERS, Sm90GemmConfig, sm90_refusal
from tilewright.library.problem import GemmProblem

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
SM_BYTES = 34
"""Bytes of memory that one block gets in a clock when most SMs have none."""
GATHER, GATHER_BY_REGISTER, GATHER_TURN = 2500, 25, 600
"""Clocks of the last block of a split tile: a start, its own sums, and each round of loads."""
FUSED_BY_REGISTER = 26
"""Clocks of an epilogue for each accumulator that also gets a C, a bias or an activation."""
TWO_BLOCKS = 1500
"""Clocks that the start takes longer with two blocks on an SM."""
CLOCK_MHZ = 1700


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model thinks of a config; `waves` are the tiles of the busiest block.

    `block` are the clocks of one k tile, `epilogue` those of one epilogue, `memory` what all bytes
    take; `clocks` is the sum, `bound` what most of it is.
    """

    config: Sm90GemmConfig
    tiles: int
    waves: int
    k_tiles: int
    block: float
    epilogue: float
    memory: float
    clocks: float
    bound: str

    @property
    def us(self) -> float:
        return self.clocks / CLOCK_MHZ

    def __str__(self) -> str:
        return (
            f"{self.us:8.1f} us  {self.config}: {self.tiles} tiles, {self.waves} on the busiest "
            f"SM x ({self.k_tiles} k tiles x {self.block:.0f} + epilogue {self.epilogue:.0f}) "
            f"clocks, memory {self.memory:.0f}: {self.bound} bound"
        )


def predict(problem: GemmProblem, target: Target, config: Sm90GemmConfig) -> Prediction:
    """The model's opinion of one config."""
    seen = problem.transposed() if config.swap_operands else problem
    bm, bn, bk = config.tile_shape_mnk
    tiles = -(-seen.m // bm) * -(-seen.n // bn) * seen.batch * config.split_k
    blocks = min(target.sm_count * config.blocks_per_sm, config.max_ctas)
    waves = max(1, -(-tiles // blocks))
    all_k_tiles = -(-seen.k // bk)
    k_tiles = -(-all_k_tiles // config.split_k)
    products = bm // 64 * 4 * max(bn / 2, NARROW if bn < 128 else 0)
    products *= config.blocks_per_sm
    block = max(products, config.blocks_per_sm * (bm + bn) * bk * 2 / L2_BYTES)
    by_register = EPILOGUE_BY_REGISTER if config.epilogue == "tma" else DIRECT_BY_REGISTER
    if problem.c or problem.bias or problem.activation:
        by_register += FUSED_BY_REGISTER
    epilogue = EPILOGUE + by_register * config.accumulators
    extra = 0.0
    if config.split_k > 1:
        turns = -(-config.split_k * config.accumulators // IN_FLIGHT)
        extra = GATHER + GATHER_BY_REGISTER * config.accumulators + GATHER_TURN * turns
    if config.schedule == "cooperative":
        compute = waves * (k_tiles * block + epilogue + FIRST_WAIT) + extra
    else:
        # Small tiles leave less room between the two consumers.
        slower = 1.015 if bm * bn <= 128 * 128 else 1.01
        own = k_tiles * block * slower
        compute = waves * max(own + HAND_OVER, (own + epilogue) / CONSUMERS) + 0.4 * epilogue
    # Few blocks do not keep the memory busy, and an uneven last wave leaves it idle.
    ctas = max(min(tiles, blocks), 1)
    uneven = waves * ctas / max(tiles, 1) - 1
    memory = problem.bytes / min(HBM_BYTES, ctas * SM_BYTES) * (1 + 0.5 * uneven)
    start = LAUNCH + TWO_BLOCKS * (config.blocks_per_sm - 1)
    clocks = start + max(compute, memory + epilogue + extra) + 0.2 * min(compute, memory)
    bound = "memory" if memory > compute else "L2" if block > products else "tensor core"
    return Prediction(config, tiles, waves, k_tiles, block, epilogue, memory, clocks, bound)


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
"""Each of them wins somewhere on an H200."""

_NARROW: tuple[Sm90GemmConfig, ...] = (
    Sm90GemmConfig((128, 64, 64), 8, store_boxes=1),
    Sm90GemmConfig((128, 32, 64), 10, store_boxes=1),
    Sm90GemmConfig((128, 16, 64), 11, store_boxes=1),
    Sm90GemmConfig((64, 64, 64), 12, schedule="pingpong", store_boxes=1),
    Sm90GemmConfig((64, 32, 64), 14, schedule="pingpong", store_boxes=1),
    Sm90GemmConfig((64, 16, 64), 14, schedule="pingpong", store_boxes=1),
    Sm90GemmConfig((128, 32, 64), 5, store_boxes=1, blocks_per_sm=2),
    Sm90GemmConfig((128, 16, 64), 5, store_boxes=1, blocks_per_sm=2),
)
"""For few columns, or few rows by swapped operands: deep rings, to keep the memory busy."""

_SPLITS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)


def candidates(problem: GemmProblem, target: Target) -> Iterator[Sm90GemmConfig]:
    """The configs that are worth a thought: D is stored directly only where TMA cannot."""
    swaps = (False, True) if problem.m <= 64 < problem.n else (False,)
    narrow = _NARROW if min(problem.m, problem.n) <= 64 else ()
    for base in dict.fromkeys((*_WIDE, *narrow)):
        for swap in swaps:
            rows, columns = (problem.n, problem.m) if swap else (problem.m, problem.n)
            width = base.tile_shape_mnk[1]
            if width < columns <= 64 or (rows <= 64 < columns and width < 64):
                continue  # the wide operand would be read twice, or be a small part of the ring
            for split in _splits(problem, target, base, swap):
                ctas = target.sm_count * base.blocks_per_sm
                config = replace(base, split_k=split, swap_operands=swap, max_ctas=ctas)
                if sm90_refusal(problem, target, config) is None:
                    yield config
                else:
                    yield replace(config, epilogue="direct")


def _splits(
    problem: GemmProblem, target: Target, config: Sm90GemmConfig, swap: bool
) -> tuple[int, ...]:
    """The splits of K that fill idle SMs: at least four k tiles for each."""
    seen = problem.transposed() if swap else problem
    bm, bn, bk = config.tile_shape_mnk
    tiles = -(-seen.m // bm) * -(-seen.n // bn) * seen.batch
    most = min(target.sm_count * config.blocks_per_sm // max(tiles, 1), seen.k // (4 * bk))
    if config.schedule != "cooperative" or most < 2:
        return (1,)
    return tuple(s for s in _SPLITS if s <= most)


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
