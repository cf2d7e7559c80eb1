"""The GEMM kernels in the simulator against the host reference, and what they refuse."""

from __future__ import annotations

import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.arch.target import target
from tilewright.errors import LaunchError
from tilewright.library import registry
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.gemm import prepare_gemm, random_operands
from tilewright.library.kernels.sm80_gemm import Sm80GemmConfig
from tilewright.library.problem import GemmProblem
from tilewright.library.status import ProblemError, StatusCode

SIMT_SIZES = [(1, 1, 1), (128, 128, 8), (33, 70, 19), (130, 129, 7), (5, 300, 16)]
TENSOR_SIZES = [(128, 256, 64), (8, 8, 8), (200, 264, 72), (129, 136, 200), (300, 16, 64)]


def check(problem: GemmProblem, kernel: str, *, alpha: float = 1.0, beta: float = 0.0,
          config: Any = None, seed: int = 0) -> None:  # fmt: skip
    a, b, c, out = random_operands(problem, seed)
    prepared = prepare_gemm(a, b, c, alpha=alpha, beta=beta, out=out, kernel=kernel, config=config)
    prepared.run()
    result = prepared.verify()
    assert result.passed, result.message


@pytest.mark.parametrize("size", SIMT_SIZES, ids=str)
def test_simt_any_size(size: tuple[int, int, int]) -> None:
    check(GemmProblem.packed(*size, ab="f32", d="f32"), "simt_gemm")


@pytest.mark.parametrize("a_major", ["K", "M"])
@pytest.mark.parametrize("b_major", ["K", "N"])
@pytest.mark.parametrize("d_major", ["N", "M"])
def test_simt_any_layout(a_major: str, b_major: str, d_major: str) -> None:
    problem = GemmProblem.packed(
        40, 36, 20, ab="f16", d="f32", a_major=a_major, b_major=b_major, d_major=d_major
    )
    check(problem, "simt_gemm")


@pytest.mark.parametrize("kernel", ["sm80_gemm", "sm90_gemm"])
@pytest.mark.parametrize("size", TENSOR_SIZES, ids=str)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_tensor_cores_ragged(kernel: str, size: tuple[int, int, int], dtype: str) -> None:
    check(GemmProblem.packed(*size, ab=dtype, d=dtype), kernel)


@pytest.mark.parametrize("kernel", ["simt_gemm", "sm80_gemm", "sm90_gemm"])
@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 0.5), (-1.5, 1.0), (0.0, 1.0)])
def test_alpha_and_beta(kernel: str, alpha: float, beta: float) -> None:
    problem = GemmProblem.packed(136, 72, 64, ab="bf16", d="bf16", with_c=True)
    check(problem, kernel, alpha=alpha, beta=beta)


@pytest.mark.parametrize(
    "config",
    [
        Sm90GemmConfig(tile_shape_mnk=(128, 128, 64), num_stages=3),
        Sm90GemmConfig(tile_shape_mnk=(128, 64, 64), num_stages=2, store_boxes=1),
        Sm90GemmConfig(tile_shape_mnk=(256, 128, 64), num_stages=2),
        Sm90GemmConfig(tile_shape_mnk=(128, 192, 64), num_stages=3, store_boxes=3),
        Sm90GemmConfig(max_ctas=2, raster=2),
    ],
    ids=lambda c: f"{c.tile_shape_mnk}x{c.num_stages}",
)
def test_sm90_configs_several_tiles_for_a_block(config: Sm90GemmConfig) -> None:
    problem = GemmProblem.packed(520, 400, 136, ab="bf16", d="bf16")
    check(problem, "sm90_gemm", config=config)


@pytest.mark.parametrize("out", ["f32", "bf16"])
@pytest.mark.parametrize("tile", [(128, 128, 32), (64, 64, 64)])
def test_sm80_configs(out: str, tile: tuple[int, int, int]) -> None:
    problem = GemmProblem.packed(200, 130, 120, ab="bf16", d=out)
    check(problem, "sm80_gemm", config=Sm80GemmConfig(tile_shape_mnk=tile, num_stages=3))


@pytest.mark.parametrize("kernel", ["simt_gemm", "sm80_gemm", "sm90_gemm"])
def test_integers_are_exact(kernel: str) -> None:
    rng = np.random.default_rng(7)
    a = rng.integers(-4, 5, (136, 96)).astype(np.float16)
    b = rng.integers(-4, 5, (72, 96)).astype(np.float16)
    got = tw.gemm(a, b.T, kernel=kernel)
    assert (got.astype(np.float64) == a.astype(np.float64) @ b.T.astype(np.float64)).all()


@pytest.mark.parametrize("kernel", ["simt_gemm", "sm80_gemm", "sm90_gemm"])
@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("beta", [0.0, -0.0])
def test_beta_zero_never_reads_c(kernel: str, poison: float, beta: float) -> None:
    """CASES A20."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal((72, 64)).astype(np.float16)
    b = rng.standard_normal((40, 64)).astype(np.float16).T
    c = np.full((72, 40), poison, np.float16)
    clean = tw.gemm(a, b, kernel=kernel)
    poisoned = tw.gemm(a, b, c, beta=beta, kernel=kernel)
    assert np.isfinite(poisoned.astype(np.float64)).all()
    assert (poisoned.view(np.uint16) == clean.view(np.uint16)).all()


def test_beta_without_c_is_refused() -> None:
    a = np.ones((8, 8), np.float16)
    with pytest.raises(LaunchError) as error:
        tw.gemm(a, a, beta=2.0)
    assert str(error.value) == "gemm: beta = 2.0 needs C, got none\n  hint: pass c=, or beta=0"


def test_constant_input() -> None:
    """CASES A26: all 0.5 gives 64 everywhere at K = 256."""
    a = np.full((256, 256), 0.5, np.float16)
    assert (tw.gemm(a, a.T) == 64).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_k_zero_is_beta_c(dtype: Any) -> None:
    c = np.arange(6, dtype=np.float32).reshape(2, 3).astype(dtype)
    a, b = np.empty((2, 0), dtype), np.empty((0, 3), dtype)
    assert (tw.gemm(a, b, c, beta=2.0) == 2 * c).all()
    assert (tw.gemm(a, b) == 0).all()


@pytest.mark.parametrize(("m", "n"), [(0, 4), (4, 0), (0, 0)])
def test_empty_output(m: int, n: int) -> None:
    got = tw.gemm(np.ones((m, 8), np.float16), np.ones((8, n), np.float16))
    assert got.shape == (m, n)


def test_output_is_the_callers_array_and_its_surroundings_survive() -> None:
    """Guard bands around a strided output stay as they were."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((40, 64)).astype(np.float16)
    b = rng.standard_normal((24, 64)).astype(np.float16).T
    whole = np.full((44, 64), 7, np.float16)
    out = whole[2:42, 8:32]
    assert tw.gemm(a, b, out=out) is out
    assert (whole[:2] == 7).all()
    assert (whole[42:] == 7).all()
    assert (whole[:, :8] == 7).all()
    assert (whole[:, 32:] == 7).all()
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(out.astype(np.float64) - wanted).max() < 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda a: tw.gemm(a[:, :8], a[:4]),
            "gemm: a is 16x8 and b is 4x16: K = 8 and 4 do not agree\n"
            "  hint: b is (K, N); a weight stored (N, K) is passed transposed, as b.T",
        ),
        (lambda a: tw.gemm(a[0], a), "gemm: a has shape (16,), expected a matrix"),
        (
            lambda a: tw.gemm(a, a.astype(np.float32)),
            "gemm: a is f16 and b is f32, expected one element type",
        ),
        (
            lambda a: tw.gemm(a, a, out=a[:4]),
            "gemm: out has shape (4, 16), expected (16, 16)",
        ),
        (
            lambda a: tw.gemm(a, a, backend="gpu"),
            "backend 'gpu' does not fit arrays on cpu\n"
            "  hint: pass GPU arrays (torch, CuPy) to run on a GPU, NumPy arrays to simulate",
        ),
        (
            lambda a: tw.gemm(a, a, kernel="sm70_gemm"),
            "kernel 'sm70_gemm' does not exist, expected one of sm90_",
        ),
        (lambda a: tw.gemm(a, [[1.0]]), "argument 2 (b): expected an array"),
    ],
)
def test_bad_calls(call: Any, message: str) -> None:
    with pytest.raises(LaunchError) as error:
        call(np.ones((16, 16), np.float16))
    assert str(error.value).startswith(message)


def reason(problem: GemmProblem, kernel: str, config: Any = None, arch: str = "sm_90a") -> str:
    on = target(arch)
    module = registry.KERNELS[kernel]
    chosen = config if config is not None else module.default_config(problem, on)
    return str(module.can_implement(problem, on, chosen))


def test_alignment_names_operand_needed_and_actual() -> None:
    """CASES A22: 36 fp16 columns are a pitch of 72 bytes, which 8 divides and 16 does not."""
    problem = GemmProblem.packed(36, 40, 36, ab="f16", d="f16")
    assert reason(problem, "sm90_gemm") == (
        "A needs every row at a multiple of 16 bytes (TMA), got 8 (pitch 72 B)"
    )
    check(problem, "")  # ... and the slower kernel does it


def test_ragged_n_would_overrun_by_tma() -> None:
    base = GemmProblem.packed(64, 60, 64, ab="f16", d="f16")
    wide = GemmProblem(
        64, 60, 64, base.a, base.b, type(base.d)("D", base.d.dtype, "N", 64), None, base.accumulator
    )  # fmt: skip
    assert reason(wide, "sm90_gemm", Sm90GemmConfig()) == (
        "N = 60 is no multiple of 8: a TMA store would overrun the row by up to 14 bytes"
    )
    assert registry.plan(wide, target("sm_90a")).config.epilogue == "direct"


def test_shared_memory_and_registers_name_the_knob() -> None:
    problem = GemmProblem.packed(256, 256, 64, ab="f16", d="f16")
    assert reason(problem, "sm90_gemm", Sm90GemmConfig(num_stages=5)) == (
        "tile 128x256x64 with 5 stages needs 278,608 B of shared memory, sm_90a has 232,448; "
        "use fewer num_stages or a smaller tile"
    )
    assert reason(problem, "sm90_gemm", Sm90GemmConfig((256, 256, 64), num_stages=2)) == (
        "tile 256x256 needs 256 accumulator registers per thread and about 40 more, "
        "consumer_registers is 232; use a smaller tile"
    )
    assert "use fewer num_stages" in reason(problem, "sm80_gemm", Sm80GemmConfig(num_stages=20))


def test_dtype_without_an_atom() -> None:
    problem = GemmProblem.packed(64, 64, 64, ab="f32", d="f32")
    assert reason(problem, "sm90_gemm") == "A and B are f32, expected f16 or bf16"
    assert reason(problem, "sm80_gemm") == "A and B are f32, expected f16 or bf16"


def test_hopper_kernel_for_ampere() -> None:
    problem = GemmProblem.packed(64, 64, 64, ab="f16", d="f16")
    assert reason(problem, "sm90_gemm", arch="sm_80") == (
        "needs wgmma (sm_90a), the target is sm_80"
    )
    assert registry.plan(problem, target("sm_80")).kernel == "sm80_gemm"


def test_plan_says_why_better_kernels_do_not_fit() -> None:
    problem = GemmProblem.packed(64, 64, 60, ab="f16", d="f16")
    plan = registry.plan(problem, target("sm_90a"))
    assert plan.kernel == "sm90_cpasync_gemm"
    assert plan.passed_over[1].startswith("sm90_gemm: A needs every row at a multiple of 16")
    assert registry.plan(problem, target("sm_80")).kernel == "sm80_gemm"


def test_launching_without_a_gpu_says_what_is_missing() -> None:
    problem = GemmProblem.packed(64, 64, 64, ab="f16", d="f16")
    a, b, c, out = random_operands(problem)
    prepared = prepare_gemm(a, b, c, out=out)
    assert prepared.compiled is not None
    with pytest.raises(LaunchError) as error:
        prepared.bind()
    assert str(error.value) == (
        "host: the arrays are on the CPU, expected a GPU\n"
        "  hint: pass GPU arrays (torch, CuPy), or use .simulate(...)"
    )


def test_gemm_has_the_parameters_of_prepare_gemm() -> None:
    assert inspect.signature(tw.gemm) == inspect.signature(prepare_gemm)
    assert list(inspect.signature(tw.gemm).parameters)[:4] == ["a", "b", "c", "alpha"]
    a = np.ones((8, 8), np.float16)
    with pytest.raises(TypeError, match="unexpected keyword argument 'gamma'"):
        tw.gemm(a, a, gamma=1.0)  # type: ignore[call-arg]


def test_a_plan_is_made_once() -> None:
    problem = GemmProblem.packed(520, 264, 72, ab="f16", d="f16")
    first = registry.plan(problem, target("sm_90a"))
    assert registry.plan(problem, target("sm_90a")) is first
    assert registry.plan(problem, target("sm_80")) is not first


def test_what_no_kernel_takes_is_refused_with_its_parts() -> None:
    a = np.ones((8, 8), np.int16)
    with pytest.raises(ProblemError) as error:
        tw.gemm(a, a)
    assert (error.value.code, error.value.operand) == (StatusCode.INVALID_DATA_TYPE, "A")
    assert (error.value.needed, error.value.actual) == ("f16, bf16 or f32", "i16")
