"""The library's kernels are free of findings, and checking them is cheap."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tilewright.library.gemm import prepare_gemm, random_operands
from tilewright.library.kernels.sm80_gemm import Sm80GemmConfig
from tilewright.library.kernels.sm90_gemm import Sm90GemmConfig
from tilewright.library.problem import GemmProblem
from tilewright.sim.options import SimOptions

SEEDS = 20


def prepared(kernel: str, size: Any, dtype: str, config: Any, beta: float) -> Any:
    problem = GemmProblem.packed(*size, ab=dtype, d=dtype, with_c=beta != 0)
    a, b, c, out = random_operands(problem, 1)
    return prepare_gemm(a, b, c, alpha=1.5, beta=beta, out=out, kernel=kernel, config=config)


@pytest.mark.parametrize(
    ("kernel", "size", "dtype", "config", "beta"),
    [
        ("simt_gemm", (33, 70, 19), "f32", None, 0.0),
        ("simt_gemm", (40, 36, 20), "f16", None, 0.5),
        ("sm80_gemm", (136, 72, 96), "bf16", None, 0.5),
        ("sm80_gemm", (64, 130, 120), "f16",
         Sm80GemmConfig(tile_shape_mnk=(64, 64, 32), num_stages=2), 0.0),
        ("sm90_gemm", (136, 72, 200), "bf16", None, 0.5),
        ("sm90_gemm", (264, 264, 136), "f16", Sm90GemmConfig(max_ctas=1, raster=2), 0.0),
        ("sm90_gemm", (300, 136, 264), "bf16",
         Sm90GemmConfig(tile_shape_mnk=(128, 64, 64), num_stages=2, store_boxes=1, max_ctas=2),
         1.0),
        ("sm90_gemm", (264, 200, 192), "bf16",
         Sm90GemmConfig(tile_shape_mnk=(256, 128, 64), num_stages=2, max_ctas=2), 0.0),
    ],
)  # fmt: skip
def test_library_kernels_have_no_findings(kernel, size, dtype, config, beta):
    p = prepared(kernel, size, dtype, config, beta)
    options = SimOptions(check_races=True, check_global=True, runs=SEEDS)
    report = p.compiled.simulate(*p.arguments, options=options)
    assert report.runs == SEEDS
    assert p.verify().passed


def test_checking_a_gemm_costs_at_most_four_times_the_run():
    p = prepared("sm90_gemm", (512, 512, 512), "bf16", None, 0.0)

    def seconds(**options: Any) -> float:
        times = []
        for _ in range(3):
            start = time.process_time()
            p.compiled.simulate(*p.arguments, options=SimOptions(**options))
            times.append(time.process_time() - start)
        return min(times)

    plain, checked = seconds(), seconds(check_races=True)
    assert checked < 30
    assert checked <= 4 * plain, f"{checked:.3f} s against {plain:.3f} s"
