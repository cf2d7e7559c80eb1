"""The Hopper GEMM without TMA: any layout, any alignment, exact, and clean under the sanitizer."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.arch.target import target
from tilewright.collective.pipeline import PipelineAsync
from tilewright.compiler import build
from tilewright.errors import LaunchError
from tilewright.lang.cute import arch
from tilewright.library import cpasync_config, registry
from tilewright.library.cpasync_config import (
    Sm90CpAsyncConfig,
    candidates,
    clocks,
    copy_bytes,
    cpasync_refusal,
    default_config,
)
from tilewright.library.gemm import prepare_gemm, random_operands
from tilewright.library.kernels.simt_gemm import SimtGemmConfig
from tilewright.library.problem import GemmProblem, Operand
from tilewright.numeric.dtypes import F16, F32
from tilewright.sim.findings import SimulationError
from tilewright.sim.options import SimOptions

from .odd_arrays import integers, product

KERNEL = "sm90_cpasync_gemm"
H200 = target("sm_90a")
CHECKED = SimOptions(check_races=True, check_global=True, runs=2)
WIDTHS = {16: (0, 0), 8: (4, 4), 4: (2, 2), 2: (1, 1)}
"""Gap and skip that leave an operand no more than so many bytes at a time."""
MAJORS = tuple(itertools.product((True, False), repeat=2))


def fits(a: Any, b: Any, config: Sm90CpAsyncConfig, d_dtype: str = "f16") -> Sm90CpAsyncConfig:
    """The config with copies as wide as the operands allow."""
    problem = prepare_gemm(a, b, kernel=KERNEL, out_dtype=d_dtype).plan.problem
    seen = problem.transposed() if config.swap_operands else problem
    a_bytes, b_bytes = copy_bytes(seen, seen.a), copy_bytes(seen, seen.b)
    return replace(config, a_bytes=a_bytes, b_bytes=b_bytes)


def exact(a: Any, b: Any, **call: Any) -> None:
    prepared = prepare_gemm(a, b, kernel=KERNEL, **call)
    prepared.out[...] = np.nan
    prepared.run(options=CHECKED)
    assert (prepared.out == product(a, b)).all()


@pytest.mark.parametrize(
    ("a_bytes", "b_bytes", "a_major", "b_major"),
    [
        (*width, *majors)
        for i, width in enumerate([(16, 2), (8, 4), (4, 8), (2, 16), (2, 2)])
        for majors in MAJORS[i % 2 :: 2]
    ],
)
def test_every_width_of_copy(a_bytes: int, b_bytes: int, a_major: bool, b_major: bool) -> None:
    """Sizes are multiples of 8, so that gaps and the base decide."""
    (a_gap, a_skip), (b_gap, b_skip) = WIDTHS[a_bytes], WIDTHS[b_bytes]
    a = integers(136, 72, row_major=a_major, gap=a_gap, skip=a_skip)
    b = integers(72, 40, row_major=b_major, gap=b_gap, skip=b_skip, seed=1)
    config = fits(a, b, Sm90CpAsyncConfig((128, 64, 64), 4, 2))
    assert (config.a_bytes, config.b_bytes) == (a_bytes, b_bytes)
    exact(a, b, config=config)


@pytest.mark.parametrize(
    ("size", "gap", "skip", "a_major", "b_major"),
    [
        (*odd, *majors)
        for i, odd in enumerate(
            [((77, 93, 61), 0, 0), ((77, 93, 61), 3, 1), ((1, 1, 1), 0, 1), ((129, 3, 200), 1, 0)]
        )
        for majors in MAJORS[i % 2 :: 2]
    ],
    ids=str,
)
def test_odd_sizes(size: Any, gap: int, skip: int, a_major: bool, b_major: bool) -> None:
    m, n, k = size
    a = integers(m, k, row_major=a_major, gap=gap, skip=skip)
    b = integers(k, n, row_major=b_major, gap=gap, skip=skip, seed=1)
    exact(a, b)


TILES = (
    *cpasync_config._TILES,
    Sm90CpAsyncConfig((128, 192, 64), 4, 2),
    Sm90CpAsyncConfig((128, 64, 64), 4, 2, producers=2, batch=8),
)


@pytest.mark.parametrize("base", TILES, ids=str)
def test_every_tile_with_several_for_a_block(base: Sm90CpAsyncConfig) -> None:
    """More k tiles than stages, more tiles than blocks, ragged everywhere."""
    bm, bn, _ = base.tile_shape_mnk
    a, b = integers(bm + 13, 199), integers(199, bn + 5, seed=1)
    exact(a, b, config=fits(a, b, replace(base, max_ctas=2, num_stages=3, in_flight=1)))


@pytest.mark.parametrize("in_flight", [0, 1, 3])
@pytest.mark.parametrize("k", [60, 188, 700])
def test_stages_in_flight(in_flight: int, k: int) -> None:
    """Fewer k tiles than stages in flight, as many, and more; two tiles for a block."""
    a, b = integers(200, k, gap=4), integers(k, 60, row_major=False, gap=4, seed=1)
    config = Sm90CpAsyncConfig((128, 64, 64), 5, in_flight, max_ctas=1)
    exact(a, b, config=fits(a, b, config))


def test_batches_and_broadcast() -> None:
    a = integers(77, 61, batch=3)
    b = integers(61, 93, row_major=False, gap=1, batch=3, seed=1)
    for left, right in ((a, b), (a[0], b), (a, b[0])):
        got = tw.gemm(left, right, kernel=KERNEL)
        assert (got == product(left, right)).all()


@pytest.mark.parametrize("d_dtype", ["f16", "f32"])
@pytest.mark.parametrize("d_major", [True, False])
@pytest.mark.parametrize("gap", [0, 1])
def test_output_of_any_layout_keeps_its_surroundings(d_dtype: str, d_major: bool, gap: int) -> None:
    a, b = integers(77, 61), integers(61, 94, row_major=False, seed=1)
    dtype = np.float32 if d_dtype == "f32" else np.float16
    c = integers(77, 94, row_major=d_major, gap=gap, seed=2, dtype=dtype)
    lines, length = (77, 94) if d_major else (94, 77)
    whole = np.full((lines + 2, length + gap), 7, c.dtype)
    out = whole[1:-1, :length] if d_major else whole[1:-1, :length].T
    bias = np.arange(94, dtype=np.float32) % 5
    prepared = prepare_gemm(a, b, c, beta=2.0, bias=bias, out=out, kernel=KERNEL)
    assert prepared.plan.swapped == (not d_major)
    prepared.run(options=CHECKED)
    assert (out == product(a, b) + 2.0 * c + bias).all()
    whole[1:-1, :length] = 7
    assert (whole == 7).all()


def test_output_by_tma_where_d_allows_it() -> None:
    a, b = integers(200, 61), integers(61, 72, row_major=False, seed=1)
    prepared = prepare_gemm(a, b, kernel=KERNEL)
    assert prepared.plan.config.epilogue == "tma"
    prepared.run(options=CHECKED)
    assert (prepared.out == product(a, b)).all()


def test_an_operand_without_contiguous_index() -> None:
    a, b = integers(77, 122)[:, ::2], integers(61, 93, seed=1)
    prepared = prepare_gemm(a, b)
    assert (prepared.plan.kernel, prepared.plan.config.a_bytes) == (KERNEL, 2)
    prepared.run()
    assert (prepared.out == product(a, b)).all()


@pytest.mark.parametrize("activation", ["relu", "gelu_tanh"])
def test_fused_epilogue(activation: str) -> None:
    problem = GemmProblem.packed(131, 93, 61, ab="bf16", d="bf16", with_c=True)
    a, b, c, out = random_operands(problem)
    bias = np.random.default_rng(5).standard_normal(93).astype(np.float32)
    prepared = prepare_gemm(
        a, b, c, beta=0.5, alpha=1.5, bias=bias, activation=activation, out=out, kernel=KERNEL
    )
    prepared.run()
    result = prepared.verify()
    assert result.passed, result.message


def odd_prepared() -> Any:
    a, b = integers(136, 264, gap=4), integers(264, 40, row_major=False, gap=1, seed=1)
    config = fits(a, b, Sm90CpAsyncConfig((128, 64, 64), 4, 2))
    return prepare_gemm(a, b, config=config, kernel=KERNEL)


@pytest.fixture
def compile_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled in a test does not outlive it."""
    monkeypatch.setattr(build, "_compiled", type(build._compiled)())


@pytest.mark.usefixtures("compile_anew")
def test_the_sanitizer_misses_a_proxy_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arch, "fence_view_async_shared", lambda: None)
    with pytest.raises(SimulationError) as error:
        odd_prepared().run(options=CHECKED)
    assert "fence" in str(error.value)


@pytest.mark.usefixtures("compile_anew")
def test_the_sanitizer_sees_a_stage_handed_over_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = arch.cp_async_wait_group
    monkeypatch.setattr(arch, "cp_async_wait_group", lambda n: wait(n + 1))
    with pytest.raises(SimulationError):
        odd_prepared().run(options=CHECKED)


@pytest.mark.usefixtures("compile_anew")
def test_the_sanitizer_sees_a_stage_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PipelineAsync, "producer_acquire", lambda *_: None)
    with pytest.raises(SimulationError):
        odd_prepared().run(options=CHECKED)


ODD = GemmProblem.packed(1000, 1000, 1001, ab="bf16", d="bf16")


def test_the_plan_takes_it_where_tma_cannot_and_copies_do_not_pay() -> None:
    plan = registry.plan(GemmProblem.packed(64, 64, 60, ab="bf16", d="bf16"), H200)
    assert plan.kernel == KERNEL
    assert plan.passed_over[1] == (
        "sm90_gemm: A needs every row at a multiple of 16 bytes (TMA), got 8 (pitch 120 B)"
    )
    assert plan.passed_over[2].startswith("sm90_padded_gemm: copying first takes ")
    assert (plan.config.a_bytes, plan.config.b_bytes, plan.config.epilogue) == (8, 8, "tma")
    aligned = GemmProblem.packed(1000, 1000, 1000, ab="bf16", d="bf16")
    assert registry.plan(aligned, H200).kernel == "sm90_gemm"
    ragged_d = replace(aligned, d=replace(aligned.d, pitch=1001))
    assert registry.plan(ragged_d, H200).kernel == "sm90_gemm"


@pytest.mark.parametrize(
    ("operand", "k", "expected"),
    [
        (Operand("A", F16, "K", 64), 64, 16),
        (Operand("A", F16, "K", 64), 60, 8),  # a chunk would end beyond K
        (Operand("A", F16, "K", 68), 64, 8),
        (Operand("A", F16, "K", 66), 64, 4),
        (Operand("A", F16, "K", 64, base_align=2), 64, 2),
        (Operand("A", F16, "K", 64, batch_pitch=66), 64, 4),
        (Operand("A", F16, "M", 64), 63, 16),  # K is not what is contiguous
        (Operand("A", F16, "strided", 0), 64, 2),
    ],
    ids=str,
)
def test_copy_bytes(operand: Operand, k: int, expected: int) -> None:
    problem = GemmProblem.packed(64, 64, k, ab="f16", d="f16")
    assert copy_bytes(problem, operand) == expected


@pytest.mark.parametrize("size", [(1, 1, 1), (1000, 1000, 1001), (16, 8191, 4097), (4095, 33, 65)])
def test_the_model_always_has_a_config(size: tuple[int, int, int]) -> None:
    problem = GemmProblem.packed(*size, ab="f16", d="f16", batch=2)
    ranked = list(candidates(problem, H200))
    assert all(cpasync_refusal(problem, H200, config) is None for config in ranked)
    assert default_config(problem, H200) in ranked
    assert min(clocks(problem, c) for c in ranked) == clocks(problem, default_config(problem, H200))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            Sm90CpAsyncConfig(),
            "A can be copied 2 bytes at a time, the config says 16 (rows at multiples of 2, pitch "
            "2002 B)",
        ),
        (Sm90CpAsyncConfig(a_bytes=2, b_bytes=3), "B by 3 bytes at a time: expected 16, 8, 4 or 2"),
        (
            Sm90CpAsyncConfig((192, 64, 64), a_bytes=2, b_bytes=2),
            "tile 192x64x64: expected M of 128 or 256, N of 16, 32, or 64 to 256 by 64, K of 64",
        ),
        (
            Sm90CpAsyncConfig(num_stages=4, in_flight=3, a_bytes=2, b_bytes=2),
            "in_flight = 3 of 4 stages: expected 0 to 2, two stages are the consumers'",
        ),
        (
            Sm90CpAsyncConfig(a_bytes=2, b_bytes=2, epilogue="none"),
            "epilogue is 'none', expected tma or direct",
        ),
        (
            Sm90CpAsyncConfig(a_bytes=2, b_bytes=2, epilogue="tma", store_boxes=3),
            "tile 128x128: 2 boxes for each consumer are no multiple of store_boxes x "
            "store_buffers = 3",
        ),
        (
            Sm90CpAsyncConfig((256, 256, 64), 2, 0, a_bytes=2, b_bytes=2),
            "tile 256x256 needs 256 accumulator registers per thread, beside 1 producers at most "
            "128 fit; use a smaller tile",
        ),
        (Sm90CpAsyncConfig(a_bytes=2, b_bytes=2, producers=3), "producers is 3, expected 1 or 2"),
        (
            Sm90CpAsyncConfig((128, 16, 64), a_bytes=2, b_bytes=2, producers=2),
            "tile 128x16x64 has too few columns for 2 producers",
        ),
        (
            Sm90CpAsyncConfig(num_stages=8, a_bytes=2, b_bytes=2),
            "tile 128x128x64 with 8 stages needs 262,272 B of shared memory, sm_90a has 232,448; "
            "use fewer num_stages or a smaller tile",
        ),
        (SimtGemmConfig(), "the config is a SimtGemmConfig, expected Sm90CpAsyncConfig"),
    ],
    ids=str,
)
def test_refusals(config: Any, message: str) -> None:
    assert str(cpasync_refusal(ODD, H200, config)) == message


def test_refusals_of_problems() -> None:
    config = Sm90CpAsyncConfig(a_bytes=2, b_bytes=2)
    assert str(cpasync_refusal(ODD, target("sm_80"), config)) == (
        "needs wgmma (sm_90a), the target is sm_80"
    )
    empty = GemmProblem.packed(8, 8, 0, ab="f16", d="f16")
    assert cpasync_refusal(empty, H200, config) == (
        "K is 0: there is nothing for the tensor cores to do"
    )
    f32 = GemmProblem.packed(8, 8, 8, ab="f32", d="f32")
    assert cpasync_refusal(f32, H200, config) == "A and B are f32, expected f16 or bf16"
    tma = replace(config, epilogue="tma")
    odd = GemmProblem.packed(8, 9, 8, ab="f16", d="f16")
    assert cpasync_refusal(odd, H200, tma) == (
        "D needs rows of whole 16 bytes (TMA store), got N = 9, rows at multiples of 2 bytes; use "
        "epilogue 'direct'"
    )
    wide = replace(odd, d=replace(odd.d, dtype=F32))
    assert cpasync_refusal(wide, H200, tma) == ("D is f32, expected f16 like A and B (TMA store)")
    turned = replace(config, swap_operands=True, a_bytes=16, b_bytes=4)
    assert cpasync_refusal(ODD, H200, turned) == (
        "with swapped operands: A can be copied 2 bytes at a time, the config says 16 (rows at "
        "multiples of 2, pitch 2002 B)"
    )
    a = np.ones((8, 8), np.float32)
    with pytest.raises(LaunchError, match="sm90_cpasync_gemm: A and B are f32"):
        tw.gemm(a, a, kernel=KERNEL)
