"""Blocks that share tiles, in the simulator: Stream-K and split K, with every reduction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilewright.arch.target import target
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.gemm import PreparedGemm, prepare_gemm
from tilewright.library.problem import GemmProblem
from tilewright.library.sm90_refusal import sm90_refusal
from tilewright.sim.options import SimOptions

H200 = target("sm_90a")
TOGETHER = Sm90GemmConfig((128, 64, 64), 3, store_boxes=1, max_ctas=5)
IN_TURNS = replace(TOGETHER, schedule="pingpong", store_buffers=2)
CLUSTER = replace(TOGETHER, reduction="cluster", epilogue="direct", max_ctas=5)
ONE_TILE = replace(TOGETHER, schedule="warp_specialized", num_stages=2, blocks_per_sm=2)
NARROW = Sm90GemmConfig((128, 16, 128), 3, store_boxes=1, max_ctas=5)


def stream(config: Sm90GemmConfig, **fields: Any) -> Sm90GemmConfig:
    return replace(config, scheduler="stream_k", **fields)


def split(config: Sm90GemmConfig, parts: int, **fields: Any) -> Sm90GemmConfig:
    return replace(config, split_k=parts, **fields)


def integers(m: int, n: int, k: int, batch: int = 0) -> tuple[Any, Any, Any, Any]:
    """Operands whose product is exact in any order of adding, a poisoned output, the product."""
    rng = np.random.default_rng(m + n + k)
    lead = (batch,) if batch else ()
    a = rng.integers(-3, 4, (*lead, m, k)).astype(np.float16)
    b = rng.integers(-3, 4, (*lead, n, k)).astype(np.float16).swapaxes(-1, -2)
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    return a, b, np.full(wanted.shape, np.nan, np.float16), wanted


def check(
    size: tuple[int, int, int], config: Sm90GemmConfig, *, seed: int = 0, batch: int = 0
) -> PreparedGemm:
    """Exact, without a race in shared or global memory, twice on one workspace."""
    a, b, out, wanted = integers(*size, batch)
    prepared = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=config)
    options = SimOptions(seed=seed, check_races=True, check_global=True)
    for _ in range(2):
        out[...] = np.nan
        prepared.run(options=options)
        assert (out == wanted).all()
    return prepared


SHARING = [
    stream(TOGETHER),
    stream(TOGETHER, stream_waves=2, max_ctas=3),
    stream(TOGETHER, reduction="fast"),
    stream(IN_TURNS),
    stream(IN_TURNS, stream_waves=2, max_ctas=3),
    stream(IN_TURNS, reduction="fast"),
    split(TOGETHER, 3),
    split(TOGETHER, 3, reduction="serial"),
    split(TOGETHER, 3, reduction="fast"),
    split(IN_TURNS, 3),
    split(IN_TURNS, 3, reduction="serial"),
    split(CLUSTER, 2),
    split(CLUSTER, 5),
    split(CLUSTER, 2, schedule="pingpong"),
    split(CLUSTER, 5, schedule="pingpong"),
    split(ONE_TILE, 3),
    split(ONE_TILE, 3, reduction="fast"),
    split(ONE_TILE, 5, reduction="cluster", epilogue="direct"),
    split(ONE_TILE, 3, schedule="unspecialized"),
]


@pytest.mark.parametrize("config", SHARING, ids=str)
def test_several_ragged_tiles_for_each_block(config: Sm90GemmConfig) -> None:
    check((136, 136, 456), config)


@pytest.mark.parametrize(("seed", "config"), tuple(enumerate(SHARING, 1)), ids=str)
def test_adversarial_orders_of_blocks_and_engines(seed: int, config: Sm90GemmConfig) -> None:
    """No order is a deadlock: whoever waits does so for blocks that do not."""
    check((136, 40, 328), config, seed=seed)


@pytest.mark.parametrize("config", SHARING[:5:2], ids=str)
@pytest.mark.parametrize(
    "size",
    [(16, 16, 64), (100, 40, 128), (100, 40, 1032), (128, 72, 448), (384, 64, 72)],
    ids=str,
)
def test_shapes_of_a_stream(size: tuple[int, int, int], config: Sm90GemmConfig) -> None:
    """One k tile, one tile, fewer tiles than blocks, as many whole tiles as blocks, short K."""
    check(size, config)


@pytest.mark.parametrize("config", [SHARING[0], SHARING[3], SHARING[7]], ids=str)
def test_batches(config: Sm90GemmConfig) -> None:
    check((136, 40, 200), replace(config, max_ctas=4), batch=3)


@pytest.mark.parametrize("parts", [3, 4, 8, 16])
def test_clusters_of_any_size(parts: int) -> None:
    """Two tiles one after the other: places are written again when they have been read."""
    config = split(replace(CLUSTER, tile_shape_mnk=(128, 16, 64)), parts, max_ctas=parts)
    check((136, 16, 1032), config)
    in_turns = replace(config, schedule="pingpong", tile_shape_mnk=(64, 16, 64))
    check((200, 16, 1032), in_turns)


@pytest.mark.parametrize("config", [stream(NARROW), split(NARROW, 2), NARROW], ids=str)
def test_stages_of_128_k(config: Sm90GemmConfig) -> None:
    check((24, 264, 456), replace(config, swap_operands=True))


@pytest.mark.parametrize("config", [SHARING[0], SHARING[3], split(TOGETHER, 5)], ids=str)
def test_along_n(config: Sm90GemmConfig) -> None:
    check((264, 72, 328), replace(config, raster_along="N", raster=2))


@pytest.mark.parametrize("config", SHARING, ids=str)
def test_the_same_bits_in_any_order(config: Sm90GemmConfig) -> None:
    """With the fast reduction only nearly so: its order of adding is that of arrival."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal((136, 328)).astype(np.float16)
    b = rng.standard_normal((40, 328)).astype(np.float16).T
    out = np.full((136, 40), np.nan, np.float32)
    prepared = prepare_gemm(
        a, b, out=out, kernel="sm90_gemm", config=replace(config, epilogue="direct")
    )
    results = []
    for seed in range(2):
        out[...] = np.nan
        prepared.run(options=SimOptions(seed=seed))
        assert prepared.verify().passed
        results.append(out.copy())
    same = all((r.view(np.uint32) == results[0].view(np.uint32)).all() for r in results)
    assert same or config.reduction == "fast"


@pytest.mark.parametrize("config", [SHARING[1], SHARING[5]], ids=str)
def test_fused_epilogue(config: Sm90GemmConfig) -> None:
    a, b, out, wanted = integers(136, 136, 328)
    bias = np.arange(136, dtype=np.float16)
    prepare_gemm(
        a, b, bias=bias, activation="relu", out=out, kernel="sm90_gemm", config=config
    ).run()
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert (out == np.maximum(exact + bias, 0).astype(np.float16)).all()
    assert (wanted != out).any()


PROBLEM = GemmProblem.packed(1024, 1024, 1024, ab="bf16", d="bf16")


@pytest.mark.parametrize(
    ("config", "places"),
    [
        (stream(Sm90GemmConfig()), (63, 32)),  # 32 tiles, two blocks each
        (stream(Sm90GemmConfig((128, 64, 64), 8, store_boxes=1)), (131, 128)),
        (stream(Sm90GemmConfig(), reduction="fast"), (32, 32)),
        (stream(Sm90GemmConfig((128, 64, 64), 8, store_boxes=1, max_ctas=60)), (59, 8)),
        (stream(Sm90GemmConfig((128, 64, 64), 8, store_boxes=1, max_ctas=60), stream_waves=2),
         (59, 68)),
        (split(Sm90GemmConfig(), 2), (64, 32)),
        (split(Sm90GemmConfig(), 4, reduction="serial"), (32, 32)),
        (split(Sm90GemmConfig(), 4, reduction="fast"), (32, 32)),
    ],
    ids=str,
)  # fmt: skip
def test_workspace(config: Sm90GemmConfig, places: tuple[int, int]) -> None:
    """What the plan reports: for each consumer its accumulators at each place, and counters."""
    shape = config.workspace(PROBLEM)
    assert shape is not None
    consumers = 2
    assert (shape.sums, shape.counters) == (consumers * places[0], consumers * places[1])
    bm, bn, _ = config.tile_shape_mnk
    assert shape.elements * consumers == bm * bn
    assert shape.bytes == 4 * (places[0] * bm * bn + consumers * places[1])
    assert shape.bytes <= 2 * 4 * PROBLEM.m * PROBLEM.n + 4 * shape.counters


def test_whole_tiles_and_clusters_need_no_workspace() -> None:
    assert Sm90GemmConfig().workspace(PROBLEM) is None
    assert split(CLUSTER, 4).workspace(PROBLEM) is None
    prepared = check((136, 136, 136), TOGETHER)
    assert prepared.workspace_bytes == 0


@pytest.mark.parametrize(
    "config", [TOGETHER, SHARING[0], *(split(CLUSTER, p) for p in (2, 3, 5)),
     split(CLUSTER, 3, schedule="pingpong")],
    ids=str,
)  # fmt: skip
def test_shared_memory_is_what_the_config_says(config: Sm90GemmConfig) -> None:
    a, b, out, _ = integers(136, 136, 328)
    prepared = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=config)
    assert prepared.compiled is not None
    (launch,) = prepared.compiled.launches(*prepared.arguments)
    assert launch.kernel.smem_bytes == config.smem_bytes
    assert launch.cluster == (config.cluster_size, 1, 1)
    assert launch.grid[0] % config.cluster_size == 0


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            replace(TOGETHER, scheduler="dynamic"),
            "scheduler is 'dynamic', expected data_parallel or stream_k",
        ),
        (
            stream(TOGETHER, reduction="tree"),
            "reduction is 'tree', expected parallel or serial or cluster or fast",
        ),
        (
            stream(TOGETHER, split_k=2),
            "split_k = 2 with scheduler 'stream_k': tiles are cut one way only",
        ),
        (stream(TOGETHER, stream_waves=3), "stream_waves is 3, expected 1 or 2"),
        (
            stream(TOGETHER, reduction="serial"),
            "scheduler 'stream_k': reduction 'serial' would make each block wait for the next",
        ),
        (
            stream(TOGETHER, max_ctas=133),
            "scheduler 'stream_k': max_ctas = 133, but blocks wait for each other, and sm_90a "
            "runs 132 at a time",
        ),
        (
            split(TOGETHER, 2, reduction="serial", max_ctas=200),
            "reduction 'serial': max_ctas = 200, but blocks wait for each other, and sm_90a "
            "runs 132 at a time",
        ),
        (
            stream(CLUSTER),
            "scheduler 'stream_k': reduction 'cluster' is for the equal parts of a split_k",
        ),
        (
            split(CLUSTER, 16, max_ctas=15),
            "split_k = 16 in a cluster: max_ctas = 15 is less",
        ),
        (
            split(CLUSTER, 2, epilogue="tma"),
            "reduction 'cluster' needs epilogue 'direct', got 'tma': each block stores the rows "
            "of a few warps",
        ),
        (split(CLUSTER, 17), "split_k = 17 in a cluster: at most 16 blocks are one"),
        (replace(TOGETHER, raster_along="K"), "raster_along is 'K', expected M or N"),
    ],
    ids=str,
)
def test_refusals(config: Sm90GemmConfig, message: str) -> None:
    assert sm90_refusal(PROBLEM, H200, config) == message


def test_configs_say_how_tiles_are_shared() -> None:
    assert str(stream(Sm90GemmConfig())) == "cooperative 128x256x64 4 stages stream_k=1"
    fast = stream(Sm90GemmConfig(), stream_waves=2, reduction="fast", raster_along="N")
    assert str(fast) == "cooperative 128x256x64 4 stages stream_k=2 fast along N"
    assert str(split(Sm90GemmConfig(), 3)) == "cooperative 128x256x64 4 stages split_k=3"
    # A reduction that nothing uses is not named.
    plain = replace(Sm90GemmConfig(), reduction="fast")
    assert str(plain) == "cooperative 128x256x64 4 stages"
