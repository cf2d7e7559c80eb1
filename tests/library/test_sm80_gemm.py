"""The Ampere GEMM: any layout, any alignment, exact, and clean under the sanitizer."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.arch.target import target
from tilewright.library import registry
from tilewright.library.cpasync_config import copy_bytes
from tilewright.library.gemm import prepare_gemm, random_operands
from tilewright.library.kernels.simt_gemm import SimtGemmConfig
from tilewright.library.kernels.sm80_gemm import Sm80GemmConfig, can_implement
from tilewright.library.problem import GemmProblem
from tilewright.sim.options import SimOptions

from .odd_arrays import integers, product

KERNEL = "sm80_gemm"
A100 = target("sm_80")
CHECKED = SimOptions(check_races=True, check_global=True, runs=2)
WIDTHS = {16: (0, 0), 8: (4, 4), 4: (2, 2), 2: (1, 1)}
"""Gap and skip that leave an operand no more than so many bytes at a time."""
MAJORS = tuple(itertools.product((True, False), repeat=2))


def exact(a: Any, b: Any, **call: Any) -> Any:
    prepared = prepare_gemm(a, b, kernel=KERNEL, arch="sm_80", **call)
    prepared.out[...] = np.nan
    prepared.run(options=CHECKED)
    assert (prepared.out == product(a, b)).all()
    return prepared.plan.config


@pytest.mark.parametrize(
    ("a_bytes", "b_bytes", "a_major", "b_major"),
    [
        (*width, *majors)
        for i, width in enumerate([(16, 2), (8, 4), (4, 8), (2, 16), (2, 2)])
        for majors in MAJORS[i % 2 :: 2]
    ],
)
def test_every_width_of_copy(a_bytes: int, b_bytes: int, a_major: bool, b_major: bool) -> None:
    (a_gap, a_skip), (b_gap, b_skip) = WIDTHS[a_bytes], WIDTHS[b_bytes]
    a = integers(72, 136, row_major=a_major, gap=a_gap, skip=a_skip)
    b = integers(136, 40, row_major=b_major, gap=b_gap, skip=b_skip, seed=1)
    config = exact(a, b)
    assert (config.a_bytes, config.b_bytes) == (a_bytes, b_bytes)


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


@pytest.mark.parametrize(
    ("tile", "warps", "a_major"),
    [
        ((128, 128, 64), (2, 2), True),
        ((128, 128, 32), (2, 2), False),
        ((64, 96, 32), (2, 2), True),
        ((64, 96, 32), (1, 2), False),
        ((32, 64, 64), (2, 2), False),
        ((32, 64, 64), (1, 2), True),
    ],
)
def test_every_tile(tile: tuple[int, int, int], warps: tuple[int, int], a_major: bool) -> None:
    a = integers(tile[0] + 9, 199, row_major=a_major)
    b = integers(199, tile[1] + 5, row_major=a_major, seed=1)
    problem = prepare_gemm(a, b).plan.problem
    a_bytes, b_bytes = (copy_bytes(problem, x) for x in problem.inputs)
    config = Sm80GemmConfig(tile, 3, warps, 1, a_bytes=a_bytes, b_bytes=b_bytes)
    exact(a, b, config=config)


def test_batches_and_broadcast() -> None:
    a = integers(77, 61, batch=3)
    b = integers(61, 93, row_major=False, gap=1, batch=3, seed=1)
    for left, right in ((a, b), (a[0], b), (a, b[0])):
        got = tw.gemm(left, right, kernel=KERNEL)
        assert (got == product(left, right)).all()


@pytest.mark.parametrize("d_dtype", [np.float16, np.float32])
@pytest.mark.parametrize("d_major", [True, False])
@pytest.mark.parametrize(("n", "gap"), [(94, 0), (94, 1), (94, 2), (93, 3)])
def test_output_of_any_layout_keeps_its_surroundings(
    d_dtype: Any, d_major: bool, n: int, gap: int
) -> None:
    """With N odd in an even pitch, a pair of neighbours may be half inside of D."""
    a, b = integers(77, 61), integers(61, n, row_major=False, seed=1)
    c = integers(77, n, row_major=d_major, gap=gap, seed=2, dtype=d_dtype)
    lines, length = (77, n) if d_major else (n, 77)
    whole = np.full((lines + 2, length + gap), 7, d_dtype)
    out = whole[1:-1, :length] if d_major else whole[1:-1, :length].T
    bias = np.arange(n, dtype=np.float32) % 5
    prepared = prepare_gemm(a, b, c, beta=2.0, bias=bias, out=out, kernel=KERNEL)
    assert prepared.plan.swapped == (not d_major)
    prepared.run(options=CHECKED)
    assert (out == product(a, b) + 2.0 * c + bias).all()
    whole[1:-1, :length] = 7
    assert (whole == 7).all()


def test_an_operand_without_contiguous_index() -> None:
    a, b = integers(77, 122)[:, ::2], integers(61, 93, seed=1)
    assert exact(a, b).a_bytes == 2


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_fused_epilogue(activation: str) -> None:
    problem = GemmProblem.packed(77, 93, 61, ab="bf16", d="bf16", with_c=True)
    a, b, c, out = random_operands(problem)
    bias = np.random.default_rng(5).standard_normal(93).astype(np.float32)
    prepared = prepare_gemm(
        a, b, c, beta=0.5, alpha=1.5, bias=bias, activation=activation, out=out, kernel=KERNEL
    )
    prepared.run()
    result = prepared.verify()
    assert result.passed, result.message


def test_ampere_takes_every_16_bit_problem() -> None:
    for size in ((1000, 1000, 1001), (7, 9, 11), (64, 64, 0)):
        problem = GemmProblem.packed(*size, ab="bf16", d="bf16", a_major="M", b_major="N")
        assert registry.plan(problem, A100).kernel == KERNEL


ODD = GemmProblem.packed(64, 63, 61, ab="f16", d="f16")
BY_ELEMENT = Sm80GemmConfig(a_bytes=2, b_bytes=2)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            Sm80GemmConfig(a_bytes=8, b_bytes=2),
            "A can be copied 2 bytes at a time, the config says 8 (rows at multiples of 2, pitch "
            "122 B)",
        ),
        (
            Sm80GemmConfig(a_bytes=2, b_bytes=8, swap_operands=True),
            "with swapped operands: B can be copied 2 bytes at a time, the config says 8 (rows at "
            "multiples of 2, pitch 122 B)",
        ),
        (
            replace(BY_ELEMENT, tile_shape_mnk=(128, 128, 48)),
            "tile 128x128x48, 3 stages: expected M by 32, N by 32, K of 32 or 64, at least 2 "
            "stages",
        ),
        (
            replace(BY_ELEMENT, tile_shape_mnk=(128, 256, 32)),
            "tile 128x256 needs 256 accumulators per thread; use 128x128 or less",
        ),
        (
            replace(BY_ELEMENT, tile_shape_mnk=(32, 64, 32), warps=(2, 4)),
            "tile 32x64x32 cannot be shared among 256 threads in copies of 16 bytes; use a larger "
            "tile or fewer warps",
        ),
        (SimtGemmConfig(), "the config is a SimtGemmConfig, expected Sm80GemmConfig"),
    ],
    ids=str,
)
def test_refusals(config: Any, message: str) -> None:
    assert str(can_implement(ODD, A100, config)) == message
