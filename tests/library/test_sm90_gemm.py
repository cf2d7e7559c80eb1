"""The Hopper GEMM in the simulator: every config, every layout, batches, fused epilogues."""

from __future__ import annotations

import gc
import itertools
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.arch.target import target
from tilewright.errors import LaunchError
from tilewright.library import heuristics, measured
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.gemm import prepare_gemm, random_operands
from tilewright.library.problem import GemmProblem
from tilewright.library.sm90_refusal import sm90_refusal
from tilewright.sim.options import SimOptions

H200 = target("sm_90a")
CROWDED = (
    Sm90GemmConfig((128, 128, 64), 3, 8, schedule="warp_specialized", blocks_per_sm=2),
    Sm90GemmConfig((128, 64, 64), 2, 8, 1, schedule="warp_specialized", blocks_per_sm=3),
    Sm90GemmConfig((64, 64, 64), 2, 8, 1, schedule="warp_specialized", blocks_per_sm=4),
)
BASES = tuple(dict.fromkeys((*heuristics._WIDE, *CROWDED, *heuristics._NARROW)))
PINGPONG = Sm90GemmConfig((128, 128, 64), 3, schedule="pingpong", store_buffers=2)
COOPERATIVE = Sm90GemmConfig((128, 128, 64), 3)
ONE_TILE = Sm90GemmConfig((128, 128, 64), 3, schedule="warp_specialized", blocks_per_sm=2)
ALONE = replace(ONE_TILE, schedule="unspecialized")
SCHEDULES = (COOPERATIVE, PINGPONG, ONE_TILE, ALONE)


def check(problem: GemmProblem, config: Sm90GemmConfig, races: bool = False, **call: Any) -> None:
    a, b, c, out = random_operands(problem)
    prepared = prepare_gemm(a, b, c, out=out, kernel="sm90_gemm", config=config, **call)
    prepared.run(options=SimOptions(check_races=races))
    result = prepared.verify()
    assert result.passed, result.message


@pytest.mark.parametrize("base", BASES, ids=str)
def test_every_config_of_the_heuristics(base: Sm90GemmConfig) -> None:
    """Ragged edges, several tiles for each of two blocks, and more k tiles than stages."""
    config = replace(base, max_ctas=2, num_stages=min(base.num_stages, 3))
    check(GemmProblem.packed(328, 280, 264, ab="bf16", d="bf16"), config)


@pytest.mark.parametrize("base", BASES, ids=str)
def test_every_config_with_its_own_stages_and_no_race(base: Sm90GemmConfig) -> None:
    problem = GemmProblem.packed(136, 136, 136, ab="f16", d="f16")
    check(problem, replace(base, max_ctas=2), races=True)


@pytest.mark.parametrize("config", SCHEDULES, ids=str)
@pytest.mark.parametrize("majors", list(itertools.product("KM", "KN", "NM")), ids="".join)
def test_every_layout(majors: tuple[str, str, str], config: Sm90GemmConfig) -> None:
    a, b, d = majors
    problem = GemmProblem.packed(
        136, 200, 136, ab="bf16", d="bf16", a_major=a, b_major=b, d_major=d, batch=2
    )
    check(problem, replace(config, max_ctas=3))


@pytest.mark.parametrize("config", SCHEDULES, ids=str)
@pytest.mark.parametrize("size", [(1, 8, 1), (8, 8, 8), (129, 136, 8), (128, 128, 200)], ids=str)
def test_ragged(size: tuple[int, int, int], config: Sm90GemmConfig) -> None:
    m, n, k = size
    wide = random_operands(GemmProblem.packed(m, n, 208, ab="f16", d="f16"))
    a, b, out = wide[0][:, :k], wide[1][:k], wide[3]
    prepared = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=config)
    prepared.run()
    assert prepared.verify().passed


@pytest.mark.parametrize("d", ["bf16", "f32"])
@pytest.mark.parametrize("d_major", ["N", "M"])
@pytest.mark.parametrize("config", SCHEDULES, ids=str)
def test_direct_store_of_any_output(config: Sm90GemmConfig, d_major: str, d: str) -> None:
    direct = replace(config, epilogue="direct", max_ctas=2)
    check(GemmProblem.packed(131, 133, 72, ab="bf16", d=d, d_major=d_major), direct)


def test_a_block_for_each_tile() -> None:
    """However few blocks `max_ctas` says, and each has its place in a cluster."""
    a, b, _, out = random_operands(GemmProblem.packed(136, 200, 72, ab="f16", d="f16", batch=3))
    for cluster, blocks in (((1, 1), 12), ((2, 1), 12), ((1, 4), 24), ((4, 1), 24)):
        config = replace(ONE_TILE, max_ctas=1, cluster_shape_mn=cluster)
        prepared = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=config)
        assert prepared.compiled is not None
        (launch,) = prepared.compiled.launches(*prepared.arguments)
        assert (launch.grid, launch.block) == ((blocks, 1, 1), (256, 1, 1))
    alone = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=ALONE)
    assert alone.compiled is not None
    assert alone.compiled.launches(*alone.arguments)[0].block == (128, 1, 1)


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("parts", [2, 3, 9])
def test_split_k(parts: int, swap: bool) -> None:
    config = replace(COOPERATIVE, split_k=parts, max_ctas=5, swap_operands=swap)
    check(GemmProblem.packed(136, 200, 600, ab="bf16", d="bf16"), config, races=True)


def test_split_k_leaves_its_counters_at_zero_and_reports_its_workspace() -> None:
    a, b, _, out = random_operands(GemmProblem.packed(128, 128, 256, ab="bf16", d="bf16"))
    config = replace(COOPERATIVE, split_k=2)
    prepared = prepare_gemm(a, b, out=out, config=config, kernel="sm90_gemm")
    assert prepared.workspace_bytes == 2 * (128 * 128 * 4) + 2 * 4
    for _ in range(2):
        out[...] = np.nan
        prepared.run()
        assert prepared.verify().passed


def test_a_bound_launch_keeps_its_workspace() -> None:
    """Else its memory would be somebody else's at the second launch."""

    class Launcher:
        def bind(self, *arguments: Any, stream: Any) -> Any:
            del arguments, stream
            return lambda: None

    def owner_of(arguments: tuple[Any, ...]) -> Any:
        return weakref.ref(arguments[5][0].owner)

    a, b, _, out = random_operands(GemmProblem.packed(128, 128, 256, ab="bf16", d="bf16"))
    config = replace(COOPERATIVE, split_k=2)
    prepared = prepare_gemm(a, b, out=out, config=config, kernel="sm90_gemm")
    launch, owner = replace(prepared, compiled=Launcher()).bind(), owner_of(prepared.arguments)
    del prepared
    gc.collect()
    assert owner() is not None
    launch()
    del launch
    gc.collect()
    assert owner() is None


@pytest.mark.parametrize("m", [1, 16, 24, 64])
def test_few_rows_by_the_model_s_pick(m: int) -> None:
    problem = GemmProblem.packed(m, 200, 264, ab="bf16", d="bf16")
    best = heuristics.rank(problem, H200)[0].config
    check(problem, best)


@pytest.mark.parametrize("activation", ["", "relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("config", SCHEDULES, ids=str)
def test_fused_epilogue(config: Sm90GemmConfig, swap: bool, activation: str) -> None:
    bias = np.random.default_rng(5).standard_normal(200).astype(np.float32)
    problem = GemmProblem.packed(136, 200, 72, ab="bf16", d="bf16", with_c=True)
    swapped = replace(config, swap_operands=swap, max_ctas=2)
    check(problem, swapped, beta=0.5, alpha=1.5, bias=bias, activation=activation)


@pytest.mark.parametrize("kernel", ["sm90_gemm", "sm80_gemm", "simt_gemm"])
def test_batches_and_broadcast(kernel: str) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-3, 4, (3, 40, 64)).astype(np.float16)
    b = rng.integers(-3, 4, (3, 24, 64)).astype(np.float16).swapaxes(1, 2)
    c = rng.integers(-3, 4, (40, 24)).astype(np.float16)
    bias = rng.integers(-3, 4, 24).astype(np.float16)
    for left, right in ((a, b), (a[0], b), (a, b[0])):
        got = tw.gemm(left, right, c, beta=2.0, bias=bias, kernel=kernel)
        wanted = left.astype(np.float64) @ right.astype(np.float64) + 2.0 * c + bias
        assert got.shape == (3, 40, 24)
        assert (got == wanted).all()
    assert tw.gemm(a[:1], b[:1], kernel=kernel).shape == (1, 40, 24)
    assert tw.gemm(a[:0], b[:0], kernel=kernel).shape == (0, 40, 24)


@pytest.mark.parametrize("kernel", ["", "sm90_gemm", "sm80_gemm", "simt_gemm"])
def test_alpha_zero_never_reads_a_or_b(kernel: str) -> None:
    a, b = np.full((16, 64), np.nan, np.float16), np.full((64, 8), np.inf, np.float16)
    c = np.arange(128, dtype=np.float16).reshape(16, 8)
    assert (tw.gemm(a, b, c, alpha=0.0, beta=0.5, kernel=kernel) == 0.5 * c).all()


def refused(problem: GemmProblem, config: Sm90GemmConfig) -> str:
    return str(sm90_refusal(problem, H200, config))


BIG = GemmProblem.packed(256, 256, 256, ab="bf16", d="bf16")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            Sm90GemmConfig(schedule="stream"),
            "schedule is 'stream', expected one of cooperative, pingpong, warp_specialized, "
            "unspecialized",
        ),
        (Sm90GemmConfig(epilogue="none"), "epilogue is 'none', expected tma or direct"),
        (
            Sm90GemmConfig((64, 128, 64)),
            "tile 64x128x64: expected M of 128 or 256 (cooperative), N of 16 to 256 by 8, K of "
            "64 or 128",
        ),
        (Sm90GemmConfig(split_k=5), "split_k = 5 is more than the k tiles of K = 256"),
        (
            Sm90GemmConfig(store_boxes=3),
            "tile 128x256: 4 boxes for each consumer are no multiple of store_boxes x "
            "store_buffers = 3",
        ),
        (Sm90GemmConfig(blocks_per_sm=3), "blocks_per_sm is 3, expected 1 to 2 (cooperative)"),
        (
            Sm90GemmConfig(blocks_per_sm=2),
            "tile 128x256x64 with 4 stages: 2 blocks need 460,928 B of shared memory, an SM of "
            "sm_90a has 233,472; use fewer num_stages",
        ),
        (
            Sm90GemmConfig((128, 128, 64), 2, blocks_per_sm=2),
            "tile 128x128 needs 64 accumulator registers per thread, with 2 blocks on an SM at "
            "most 32 fit; use a smaller tile",
        ),
        (
            replace(ONE_TILE, tile_shape_mnk=(256, 64, 64)),
            "tile 256x64x64: expected M of 64 or 128 (warp_specialized), N of 16 to 256 by 8, K "
            "of 64 or 128",
        ),
        (
            replace(ONE_TILE, blocks_per_sm=5),
            "blocks_per_sm is 5, expected 1 to 4 (warp_specialized)",
        ),
        (
            replace(ONE_TILE, blocks_per_sm=3),
            "tile 128x128x64 with 3 stages: 3 blocks need 347,280 B of shared memory, an SM of "
            "sm_90a has 233,472; use fewer num_stages",
        ),
        (
            replace(ONE_TILE, tile_shape_mnk=(64, 128, 64), num_stages=2, blocks_per_sm=3),
            "tile 64x128: a wgmma of 128 columns needs 92 registers per thread at the launch, with "
            "3 blocks on an SM there are 80; at most 104 columns do",
        ),
        (
            replace(ONE_TILE, tile_shape_mnk=(128, 200, 64), num_stages=2, store_boxes=1),
            "tile 128x200 needs 200 accumulator registers per thread and about 40 more, a consumer "
            "has 224 with 2 blocks on an SM; use a smaller tile",
        ),
        (
            replace(ONE_TILE, scheduler="stream_k"),
            "scheduler 'stream_k': blocks wait for each other, but with schedule "
            "'warp_specialized' a block starts when another one has ended",
        ),
        (
            replace(ONE_TILE, split_k=2, reduction="serial"),
            "reduction 'serial': blocks wait for each other, but with schedule "
            "'warp_specialized' a block starts when another one has ended",
        ),
    ],
    ids=str,
)
def test_refusals(config: Sm90GemmConfig, message: str) -> None:
    assert refused(BIG, config) == message


@pytest.mark.parametrize("base", SCHEDULES, ids=str)
@pytest.mark.parametrize(
    ("name", "least"),
    [("num_stages", 2), ("raster", 1), ("store_boxes", 1), ("store_buffers", 1), ("max_ctas", 1),
     ("split_k", 1)],
)  # fmt: skip
def test_what_cannot_be_less(base: Sm90GemmConfig, name: str, least: int) -> None:
    """One stage would be a deadlock: it is given back when the next one is being read."""
    few = replace(base, **{name: least - 1})
    assert refused(BIG, few) == f"{name} is {least - 1}, expected {least} or more"
    assert refused(BIG, replace(base, blocks_per_sm=0)).startswith("blocks_per_sm is 0, expected 1")


def test_one_tile_leaves_fewer_registers_the_more_blocks_there_are() -> None:
    three = replace(ONE_TILE, tile_shape_mnk=(128, 80, 64), num_stages=2, store_boxes=1)
    three = replace(three, blocks_per_sm=3)
    assert refused(BIG, three) == "None"
    assert refused(replace(BIG, c=BIG.d), three) == (
        "80 accumulator registers per thread: C with boxes of two widths needs 96 more, a consumer "
        "has 128 with 3 blocks on an SM; use whole boxes of 64 columns"
    )
    three = replace(three, epilogue="direct")
    assert refused(replace(BIG, c=BIG.d), three) == (
        "80 accumulator registers per thread: C beside them needs 56 more, a consumer has 128 with "
        "3 blocks on an SM; use a smaller tile"
    )
    assert refused(BIG, replace(three, split_k=2)) == (
        "80 accumulator registers per thread: parts of a sum need twice as many more, a consumer "
        "has 128 with 3 blocks on an SM; use reduction 'cluster' or a smaller tile"
    )
    assert refused(BIG, replace(three, split_k=2, reduction="cluster")) == "None"


def test_refusals_of_operands() -> None:
    heavy = Sm90GemmConfig((128, 192, 64), 4, 8, schedule="pingpong", store_boxes=3)
    assert refused(replace(BIG, bias=True, activation="gelu"), heavy) == (
        "192 accumulator registers per thread leave too few for a bias and gelu, at most 128 do; "
        "use a smaller tile"
    )
    f32 = GemmProblem.packed(64, 64, 64, ab="bf16", d="f32")
    assert refused(f32, COOPERATIVE) == "D is f32, expected bf16 like A and B"
    f16 = GemmProblem.packed(64, 64, 64, ab="bf16", d="f16")
    assert refused(f16, replace(COOPERATIVE, epilogue="direct")) == (
        "D is f16, expected f32, or bf16 like A and B"
    )
    column = GemmProblem.packed(60, 64, 64, ab="bf16", d="bf16", d_major="M")
    assert refused(replace(column, d=replace(column.d, pitch=64)), COOPERATIVE) == (
        "M = 60 is no multiple of 8: a TMA store would overrun the row by up to 14 bytes"
    )
    strided = replace(BIG, a=replace(BIG.a, major="strided"))
    assert refused(strided, COOPERATIVE) == "A has no contiguous index: TMA needs one"
    batches = replace(BIG, batch=3, b=replace(BIG.b, batch_pitch=4))
    assert refused(batches, replace(COOPERATIVE, swap_operands=True)) == (
        "with swapped operands: A needs every row at a multiple of 16 bytes (TMA), got 8 "
        "(pitch 512 B)"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda a: tw.gemm(np.stack([a, a]), np.stack([a] * 3)),
            "gemm: a has 2 matrices and b has 3, expected as many\n"
            "  hint: a matrix that is the same for all batches is passed with two modes",
        ),
        (
            lambda a: tw.gemm(a, a, bias=a[0, :4]),
            "gemm: bias has shape (4,), expected (16,)",
        ),
        (
            lambda a: tw.gemm(a, a, a[:4], beta=1.0),
            "gemm: c has shape (4, 16), expected (16, 16)",
        ),
        (
            lambda a: tw.gemm(a, a, activation="softmax"),
            "activation 'softmax' does not exist, expected identity, relu, gelu, gelu_tanh, silu",
        ),
        (
            lambda a: tw.gemm(a, a, bias=np.ones(16, np.int8)),
            "gemm: bias is i8, expected f16, bf16 or f32",
        ),
        (
            lambda a: tw.gemm(a, a, out=np.lib.stride_tricks.as_strided(a, (16, 16), (0, 2))),
            "gemm: out has strides (0, 1) for shape (16, 16): its elements share memory\n"
            "  hint: pass an output of its own memory",
        ),
    ],
)
def test_bad_calls(call: Any, message: str) -> None:
    with pytest.raises(LaunchError) as error:
        call(np.ones((16, 16), np.float16))
    assert str(error.value) == message


SHAPES = [(1, 1, 8), (16, 8192, 64), (4096, 8, 4096), (1000, 1000, 1000), (7, 9, 8), (0, 8, 8)]


@pytest.mark.parametrize("size", SHAPES, ids=str)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_an_unseen_shape_never_fails(size: tuple[int, int, int], arch: str) -> None:
    ranked = heuristics.rank(GemmProblem.packed(*size, ab="f16", d="f16"), target(arch))
    assert ranked
    assert all(p.clocks > 0 for p in ranked)


def test_the_model_prints_its_numbers() -> None:
    best = heuristics.rank(GemmProblem.packed(8192, 8192, 512, ab="bf16", d="bf16"), H200)[0]
    assert str(best.config) == "pingpong 128x192x64 4 stages"
    assert "2752 tiles, 21 on the busiest SM x (8 k tiles x 768 + epilogue 2808)" in str(best)
    assert str(best).endswith("tensor core bound")


def test_the_model_prints_what_sharing_tiles_costs() -> None:
    problem = GemmProblem.packed(4224, 4352, 4096, ab="bf16", d="bf16")
    stream = heuristics.predict(problem, H200, replace(BASES[0], scheduler="stream_k"))
    assert (
        "561 tiles, 4 on the busiest SM x (64 k tiles x 1024 + epilogue 1912) clocks + 16.0 "
        "streamed k tiles, gather "
    ) in str(stream)
    # Of all shares the busiest block has the last one: 4 whole tiles, and 33 tiles in 132 parts.
    assert stream.waves * 64 + stream.share == 561 * 64 / 132


def test_the_model_knows_blocks_of_one_tile() -> None:
    """More of them on an SM hide more of each other; the more K, the less there is to hide."""
    short, long = (GemmProblem.packed(8192, 8192, k, ab="bf16", d="bf16") for k in (128, 8192))
    direct = replace(ONE_TILE, num_stages=2, epilogue="direct")
    ratios = [
        heuristics.predict(x, H200, replace(direct, blocks_per_sm=1)).clocks
        / heuristics.predict(x, H200, direct).clocks
        for x in (short, long)
    ]
    assert ratios[0] > 1.5 > 1.2 > ratios[1] > 1
    crowded = heuristics.predict(long, H200, ONE_TILE)
    assert (crowded.tiles, crowded.waves, crowded.k_tiles) == (4096, 16, 128)
    # An SM has 32 of the tiles, whoever computes them.
    assert crowded.clocks > 32 * 128 * 128 * 4
    assert crowded.clocks > heuristics.rank(long, H200)[0].clocks


@pytest.mark.parametrize("size", [(16, 4096, 4096), (16, 16, 32768), (512, 512, 8192),
                                  (1000, 1000, 1000)], ids=str)  # fmt: skip
def test_no_proposed_workspace_is_more_than_twice_the_output(size: tuple[int, int, int]) -> None:
    """In f32, of whole tiles; the counters aside."""
    problem = GemmProblem.packed(*size, ab="bf16", d="bf16")
    shared = 0
    for config in heuristics.candidates(problem, H200):
        seen = problem.transposed() if config.swap_operands else problem
        shape = config.workspace(seen)
        bm, bn, _ = config.tile_shape_mnk
        tiles = -(-seen.m // bm) * -(-seen.n // bn)
        shared += config.shares_tiles
        assert shape is None or shape.sums * shape.elements <= 2 * tiles * bm * bn
    assert shared


def whole(config: Sm90GemmConfig) -> Sm90GemmConfig:
    """The config that computes the same tiles, without sharing them or what is loaded."""
    return replace(
        config, split_k=1, scheduler="data_parallel", stream_waves=1, reduction="parallel",
        epilogue="tma", swap_operands=False, num_stages=4, max_ctas=132, raster=16,
        cluster_shape_mn=(1, 1),
    )  # fmt: skip


def test_measured_picks_come_first_and_can_run() -> None:
    table = measured._table()
    assert table
    for key in table:
        size, majors, *end = key.split()
        *batch, m, n, k = map(int, size.split("x"))
        problem = GemmProblem.packed(
            m, n, k, ab="bf16", d="bf16", a_major=majors[0], b_major=majors[1],
            d_major=majors[2], batch=batch[0] if batch else 1,
        )  # fmt: skip
        if end:
            problem = replace(problem, bias=True, activation=end[0].removeprefix("+"))
        assert measured.key(problem) == key
        config = heuristics.rank(problem, H200)[0].config
        assert config == measured.pick(problem, H200)
        assert sm90_refusal(problem, H200, config) is None
        # ... and its like is tested above at a small size, the ways to share tiles in
        # test_sm90_sharing.py.
        assert whole(config) in set(map(whole, BASES))
    assert measured.pick(problem, target("sm_80")) is None
