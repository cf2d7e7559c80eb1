"""Few outputs and a long K: exact, the same bits in every run, clean, and chosen where it fits."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.arch.target import target
from tilewright.library import registry
from tilewright.library.gemm import prepare_gemm
from tilewright.library.kernels.sm90_long_k_gemm import NAME, LongKGemmConfig, can_implement
from tilewright.library.problem import GemmProblem
from tilewright.sim.options import SimOptions

H200 = target("sm_90a")


def integers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float16)


@pytest.mark.parametrize(
    ("size", "config"),
    [
        ((16, 16), LongKGemmConfig(8, 2, 2)),
        ((13, 10), LongKGemmConfig(4, 1, 3)),
        ((16, 16), LongKGemmConfig(8, 4, 1)),
        ((20, 40), LongKGemmConfig(4, 2, 2)),
        ((1, 1), LongKGemmConfig(4, 8, 2)),
    ],
    ids=str,
)
def test_exact_twice_and_clean(size: tuple[int, int], config: LongKGemmConfig) -> None:
    a, b = integers(size[0], 4096), integers(size[1], 4096, seed=1).T
    bias = integers(size[1], seed=2).astype(np.float32)
    out = np.full(size, np.nan, np.float32)
    prepared = prepare_gemm(a, b, bias=bias, out=out, kernel=NAME, config=config)
    want = a.astype(np.float32) @ b.astype(np.float32) + bias
    for seed in (0, 5):
        out[...] = np.nan
        prepared.run(options=SimOptions(seed=seed, check_races=True, check_global=True))
        assert (out == want).all()


def test_batches() -> None:
    a, b = integers(3, 8, 4096), integers(8, 4096, seed=1).T
    out = tw.gemm(a, b, kernel=NAME, config=LongKGemmConfig(4, 2, 1), out_dtype="f32")
    assert (out == a.astype(np.float32) @ b.astype(np.float32)).all()


def test_it_is_chosen_for_few_outputs_and_says_why_not_elsewhere() -> None:
    long = registry.plan(GemmProblem.packed(16, 16, 32768, ab="bf16", d="bf16"), H200)
    assert long.kernel == NAME
    assert long.workspace_shape is not None
    assert long.workspace_shape.sums == long.config.clusters
    wide = registry.plan(GemmProblem.packed(512, 512, 8192, ab="bf16", d="bf16"), H200)
    assert wide.kernel == "sm90_gemm"
    assert wide.passed_over == (
        f"{NAME}: 1024 tiles of 16x16 with 8 blocks each are 8192 blocks, sm_90a has 132 SMs",
    )


@pytest.mark.parametrize(
    ("problem", "config", "message"),
    [
        (
            GemmProblem.packed(16, 16, 2048, ab="f16", d="f16"),
            LongKGemmConfig(),
            "K = 2048, expected a multiple of 32 from 4096 on",
        ),
        (
            GemmProblem.packed(16, 16, 4104, ab="f16", d="f16"),
            LongKGemmConfig(),
            "K = 4104, expected a multiple of 32 from 4096 on",
        ),
        (
            GemmProblem.packed(16, 16, 4096, ab="f32", d="f32"),
            LongKGemmConfig(),
            "A and B are f32, expected f16 or bf16",
        ),
        (
            GemmProblem.packed(16, 16, 4096, ab="f16", d="f16"),
            LongKGemmConfig(2, 1, 1),
            "2 warps and clusters of 1: expected 4 to 32 warps, clusters of 1, 2, 4 or 8",
        ),
    ],
    ids=["short", "ragged", "f32", "warps"],
)
def test_refusals(problem: GemmProblem, config: LongKGemmConfig, message: str) -> None:
    assert can_implement(problem, H200, config) == message


def test_ampere_has_no_clusters() -> None:
    problem = GemmProblem.packed(16, 16, 8192, ab="f16", d="f16")
    reason = can_implement(problem, target("sm_80"), LongKGemmConfig())
    assert reason == "needs clusters (sm_90 or newer), the target is sm_80"
