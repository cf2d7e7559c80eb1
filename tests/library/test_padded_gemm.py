"""Operands that TMA cannot take, copied to rows that it can: exact, clean, chosen where it pays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import device
from tilewright.arch.target import target
from tilewright.library import padded_config, registry
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.gemm import prepare_gemm
from tilewright.library.kernels import sm90_padded_gemm
from tilewright.library.padded_config import PaddedGemmConfig
from tilewright.library.problem import GemmProblem
from tilewright.runtime import cuda_api
from tilewright.runtime.arrays import ArrayView
from tilewright.sim.options import SimOptions

from .odd_arrays import integers, product

H200 = target("sm_90a")
KERNEL = sm90_padded_gemm.NAME
SMALL = Sm90GemmConfig((128, 64, 64), 3, store_boxes=1, epilogue="direct")
CHECKED = SimOptions(seed=3, check_races=True, check_global=True)


def exact(a: Any, b: Any, config: PaddedGemmConfig | None = None, **how: Any) -> Any:
    """Runs under all checks twice, in other orders and over NaN; the plan."""
    batches = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.empty((*batches, a.shape[-2], b.shape[-1]), np.float16)
    prepared = prepare_gemm(a, b, out=out, kernel=KERNEL, config=config, **how)
    for seed in (0, 3):
        out[...] = np.nan
        prepared.run(options=replace(CHECKED, seed=seed))
        assert (out == product(a, b).astype(np.float16)).all()
    return prepared.plan


@pytest.mark.parametrize("layout", ["KK", "KN", "MK", "MN"])
@pytest.mark.parametrize("k", [75, 76])
def test_every_layout(layout: str, k: int) -> None:
    a = integers(130, k, row_major=layout[0] == "K", gap=1)
    b = integers(k, 67, row_major=layout[1] == "N", gap=3, seed=1)
    plan = exact(a, b, PaddedGemmConfig(SMALL, "AB"))
    assert plan.config.copies == "AB"


def test_one_copy() -> None:
    a, b = integers(70, 75), integers(75, 64, seed=1)
    assert exact(a, b, PaddedGemmConfig(SMALL, "A")).workspace_bytes == 70 * 128 * 2


def test_what_tma_could_take_may_be_copied_too() -> None:
    a, b = integers(70, 64), integers(64, 64, seed=1)
    exact(a, b, PaddedGemmConfig(SMALL, "B"))


def test_batches_one_matrix_for_all_and_bases_anywhere() -> None:
    a, b = integers(40, 75, batch=3, skip=1), integers(75, 33, skip=3, seed=1)
    plan = exact(a, b, PaddedGemmConfig(SMALL, "AB"))
    one, other = plan.config.workspace(plan.seen).copies
    assert (one.batches, one.shared, other.batches, other.shared) == (3, False, 1, True)


def test_operands_with_no_contiguous_index() -> None:
    a, b = integers(40, 150)[:, ::2], integers(75, 66, seed=1)[:, ::2]
    exact(a, b, PaddedGemmConfig(SMALL, "AB"))


def test_few_rows_by_swapped_operands() -> None:
    config = Sm90GemmConfig((128, 16, 64), 4, store_boxes=1, epilogue="direct", swap_operands=True)
    exact(integers(9, 75), integers(75, 130, seed=1), PaddedGemmConfig(config, "AB"))


def test_a_cluster_may_share_a_tile() -> None:
    config = replace(SMALL, split_k=2, reduction="cluster")
    exact(integers(64, 259), integers(259, 64, seed=1), PaddedGemmConfig(config, "A"))


def test_c_and_bias_and_activation() -> None:
    a, b, c = integers(70, 75), integers(75, 67, seed=1), integers(70, 67, seed=2)
    bias = integers(1, 67, seed=3)[0]
    how: dict[str, Any] = {"bias": bias, "activation": "relu", "alpha": 0.5, "beta": 2.0}
    found = tw.gemm(a, b, c, kernel=KERNEL, config=PaddedGemmConfig(SMALL, "AB"), **how)
    want = np.maximum(0.5 * product(a, b) + 2.0 * c.astype(np.float64) + bias, 0)
    assert (found == want.astype(np.float16)).all()


def test_the_workspace_holds_the_copies_one_behind_the_other() -> None:
    seen = GemmProblem.packed(100, 50, 33, ab="bf16", d="bf16", b_major="N", batch=2)
    shape = PaddedGemmConfig(SMALL, "AB").workspace(seen)
    whole = ArrayView(0x1000, (shape.bytes // 4,), (1,), "f32", 32, "cuda:0")
    first, again, second, _ = shape.parts(whole)
    assert (first.shape, first.strides) == ((100, 33, 2), (64, 1, 6400))
    assert again == first
    assert (second.shape, second.strides) == ((50, 33, 2), (1, 64, 2112))
    assert second.pointer == 0x1000 + 2 * 6400 * 2
    assert shape.bytes == 2 * 6400 * 2 + -(-2 * 2112 * 2 // 128) * 128
    assert not shape.cleared


def test_it_is_chosen_where_copying_pays_and_says_where_not() -> None:
    large = registry.plan(GemmProblem.packed(4095, 4097, 4099, ab="bf16", d="bf16"), H200)
    assert large.kernel == KERNEL
    assert large.config.gemm.epilogue == "direct"
    assert large.passed_over[-1].startswith("sm90_gemm: A needs every row at a multiple of 16")
    small = registry.plan(GemmProblem.packed(64, 64, 60, ab="bf16", d="bf16"), H200)
    assert small.kernel == "sm90_cpasync_gemm"
    assert small.passed_over[-1].startswith(f"{KERNEL}: copying first takes ")
    assert " clocks by the model, cp.async " in small.passed_over[-1]
    aligned = registry.plan(GemmProblem.packed(4096, 4096, 4096, ab="bf16", d="bf16"), H200)
    assert aligned.kernel == "sm90_gemm"


def test_only_what_needs_it_is_copied() -> None:
    aligned = GemmProblem.packed(64, 64, 64, ab="bf16", d="bf16")
    assert padded_config.default_config(aligned, H200).copies == "AB"  # it was asked for
    problem = GemmProblem.packed(4096, 4096, 4098, ab="bf16", d="bf16", b_major="N")
    assert padded_config.default_config(problem, H200).copies == "A"
    narrow = GemmProblem.packed(16, 4096, 4098, ab="bf16", d="bf16", a_major="M")
    config = padded_config.default_config(narrow, H200)
    assert (config.swap_operands, config.copies) == (True, "A")  # the weight, that is B


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (SMALL, "the config is a Sm90GemmConfig, expected PaddedGemmConfig"),
        (PaddedGemmConfig(SMALL, "D"), "copies is 'D', expected 'A', 'B' or 'AB'"),
        (
            PaddedGemmConfig(replace(SMALL, split_k=2), "AB"),
            "the workspace is that of the copies: tiles may be shared by clusters only",
        ),
        (
            PaddedGemmConfig(SMALL, "A"),
            "B needs every row at a multiple of 16 bytes (TMA), got 2 (pitch 66 B)",
        ),
        (
            PaddedGemmConfig(replace(SMALL, swap_operands=True), "A"),
            "with swapped operands: B needs every row at a multiple of 16 bytes (TMA), got 2 "
            "(pitch 66 B)",
        ),
    ],
)
def test_refusals(config: Any, text: str) -> None:
    problem = GemmProblem.packed(100, 50, 33, ab="bf16", d="bf16")
    assert sm90_padded_gemm.can_implement(problem, H200, config) == text


def test_the_handle_asks_for_the_workspace_and_counts_the_blocks_of_the_product() -> None:
    gemm = device.Gemm("f16", "RowMajor", "f16", "RowMajor")
    a, b = integers(1000, 1001), integers(1001, 512, seed=1)
    d = np.full((1000, 512), np.nan, np.float16)
    arguments = gemm.Arguments((1000, 512, 1001), a, b, None, d)
    nbytes = gemm.get_workspace_size(arguments)
    assert nbytes == 1000 * 1024 * 2
    problem = GemmProblem.packed(1000, 512, 1001, ab="f16", d="f16", b_major="N")
    config = registry.plan(problem, H200).config
    bm, bn, _ = config.tile_shape_mnk
    tiles = -(-1000 // bm) * -(-512 // bn)
    assert gemm.get_grid_shape(arguments) == (tiles * config.split_k, 1, 1)
    workspace = np.full(nbytes, 7, np.uint8)
    gemm.initialize(arguments, workspace)
    assert (workspace == 7).all()  # copies are written anyway: nothing is cleared before


@pytest.mark.skipif(cuda_api.nvrtc is None, reason="the cuda extra is not installed: no NVRTC")
@pytest.mark.parametrize("layout", ["KK", "MN"])
def test_machine_code(layout: str) -> None:
    a = integers(130, 75, row_major=layout[0] == "K")
    b = integers(75, 67, row_major=layout[1] == "N", seed=1)
    compiled = prepare_gemm(a, b, kernel=KERNEL).compiled
    assert compiled is not None
    assert len(compiled.launches(*prepare_gemm(a, b, kernel=KERNEL).arguments)) == 3
    for name in compiled.module.kernels:
        cubin = compiled.cubin(name)
        assert cubin.warnings == ()
        assert (cubin.spill_stores, cubin.spill_loads) == (0, 0)
