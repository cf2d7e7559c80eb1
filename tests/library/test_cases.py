"""Field reports (CASES A12, A17 to A28) on 16-bit dense GEMM, in the simulator.

What needs real memory or many blocks runs on a GPU as well: `tests/gpu/test_device_on_gpu.py`.
"""

from __future__ import annotations

import mmap
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.arch.target import target
from tilewright.compiler import build
from tilewright.errors import LaunchError
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.device import (
    CollectiveBuilder,
    Gemm,
    GemmArguments,
    GemmUniversal,
    GemmUniversalAdapter,
    KernelHardwareInfo,
    StageCountAutoCarveoutEpi,
    StatusCode,
    StreamKScheduler,
    TensorDescription,
    TensorRef,
)
from tilewright.library.gemm import prepare_gemm
from tilewright.library.problem import GemmProblem
from tilewright.library.sm90_refusal import sm90_refusal
from tilewright.library.status import ProblemError

KERNELS = ("sm90_gemm", "sm90_cpasync_gemm", "sm80_gemm", "simt_gemm")
"""Those that take every problem, or say why not; `sm90_long_k_gemm` is for few shapes."""
H200 = target("sm_90a")
CPU = KernelHardwareInfo("cpu")
F16 = np.float16


def integers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(F16)


def product(a: Any, b: Any) -> Any:
    return a.astype(np.float64) @ b.astype(np.float64)


def adapter(tile: Any = (128, 128, 64), a: int = 8, d: int = 8) -> GemmUniversalAdapter:
    row, column = (
        TensorDescription("f16", "RowMajor", a),
        TensorDescription("f16", "ColumnMajor", a),
    )
    builder = CollectiveBuilder("sm_90a", "TensorOp", tile)
    end = builder.epilogue(TensorDescription("f16", "RowMajor", d))
    loop = builder.mainloop(row, column, stages=StageCountAutoCarveoutEpi(end))
    return GemmUniversalAdapter(GemmUniversal(loop, end))


def problem_of(m: int, n: int, k: int, **views: Any) -> GemmProblem:
    return GemmProblem.packed(m, n, k, ab="f16", d="f16", **views)


# A12: cache keys.


def test_a12_addresses_sizes_and_streams_compile_nothing_anew() -> None:
    gemm = Gemm()
    a, b, d = integers(40, 64), integers(24, 64).T, np.empty((40, 24), F16)
    gemm(gemm.Arguments((40, 24, 64), a, b, None, d))
    known = len(build._compiled)
    program = gemm.prepared.compiled
    a, b, d = integers(48, 128, seed=1), integers(32, 128).T, np.empty((48, 32), F16)
    gemm.update(gemm.Arguments((48, 32, 128), a, b, None, d))
    gemm.run()
    assert (d == product(a, b)).all()
    config = gemm.prepared.plan.config
    assert prepare_gemm(a, b, out=d, config=config, kernel="sm90_gemm", stream=7).compiled
    assert gemm.prepared.compiled is program
    assert len(build._compiled) == known


# A17: preconditions of TMA are in bytes.


@pytest.mark.parametrize("dtype", [F16, ml_dtypes.bfloat16])
def test_a17_a_pitch_of_1022_bytes_goes_without_tma(dtype: Any) -> None:
    a, b = integers(16, 511).astype(dtype), integers(16, 511, seed=1).astype(dtype).T
    prepared = prepare_gemm(a, b)
    assert (
        "sm90_gemm: A needs every row at a multiple of 16 bytes (TMA), got 2 (pitch 1022 B)"
        in prepared.plan.passed_over
    )
    prepared.run()
    assert prepared.verify().passed
    d = np.empty((16, 16), F16)
    x = GemmArguments((16, 16, 511), a.astype(F16), b.astype(F16), None, d)
    status = adapter().can_implement(x)
    assert (status.code, status.operand) == (StatusCode.MISALIGNED_OPERAND, "A")
    assert (status.needed, status.actual) == ("16 bytes", "2 bytes")


@pytest.mark.parametrize("n", [58, 60, 63, 64])
@pytest.mark.parametrize("kernel", ["", *KERNELS])
def test_a17_columns_beside_the_output_survive(kernel: str, n: int) -> None:
    """A bulk store of a box past N would write up to the next 16 bytes."""
    a, b = integers(72, 64), integers(n, 64, seed=1).T
    wide = np.full((72, 80), 7, F16)
    config = None
    if kernel == "sm90_gemm" and n % 8:  # the model's own pick may be another kernel
        config = Sm90GemmConfig((128, 64, 64), 3, store_boxes=1, epilogue="direct")
    tw.gemm(a, b, out=wide[:, :n], kernel=kernel, config=config)
    assert (wide[:, :n] == product(a, b)).all()
    assert (wide[:, n:] == 7).all()


# A18: swizzles divide what one warpgroup has of a tile.


@pytest.mark.parametrize("n", [16, 32, 64, 96, 112, 128, 192, 208, 256])
@pytest.mark.parametrize("majors", ["KNN", "MKM", "MNN", "KKM"])
def test_a18_every_tile_width_is_exact_in_every_layout(majors: Any, n: int) -> None:
    schedules = [("cooperative", 128)] + [("pingpong", 64)] * (n < 256)
    a, b = integers(136, 72), integers(72, n + 8, seed=1)
    a = a if majors[0] == "K" else np.asfortranarray(a)
    b = b if majors[1] == "N" else np.asfortranarray(b)
    out = np.full((136, n + 8), np.nan, F16, order="C" if majors[2] == "N" else "F")
    for schedule, m in schedules:
        boxes = 2 if n == 256 else 1
        config = Sm90GemmConfig((m, n, 64), 2, store_boxes=boxes, schedule=schedule)
        tw.gemm(a, b, out=out, kernel="sm90_gemm", config=config)
        assert (out == product(a, b)).all()


@pytest.mark.parametrize("n", [24, 40, 152])
def test_a18_widths_of_half_atoms_take_k_contiguous_only(n: int) -> None:
    config = Sm90GemmConfig((128, n, 64), 2, store_boxes=1)
    reason = str(sm90_refusal(problem_of(256, 256, 256, b_major="N"), H200, config))
    assert reason == (
        f"B has N contiguous: a tile of {n} columns is no whole number of swizzle atoms, "
        "expected a multiple of 16"
    )
    a, b = integers(136, 72), integers(n + 8, 72, seed=1).T
    out = np.full((136, n + 8), np.nan, F16)
    tw.gemm(a, b, out=out, kernel="sm90_gemm", config=config)
    assert (out == product(a, b)).all()


@pytest.mark.parametrize("n", [8, 60, 264])
def test_a18_other_widths_are_refused(n: int) -> None:
    reason = sm90_refusal(problem_of(256, 256, 256), H200, Sm90GemmConfig((128, n, 64), 2))
    expected = "M of 128 or 256 (cooperative), N of 16 to 256 by 8"
    assert str(reason).startswith(f"tile 128x{n}x64: expected {expected}")


# A19: an empty contraction, over poison.


@pytest.mark.parametrize("kernel", ["", *KERNELS])
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_a19_k_zero_is_beta_c(kernel: str, beta: float) -> None:
    c, d = integers(40, 24), np.full((40, 24), np.nan, F16)
    tw.gemm(np.empty((40, 0), F16), np.empty((0, 24), F16), c, beta=beta, out=d, kernel=kernel)
    assert (d == beta * c.astype(float)).all()


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_a19_k_zero_through_the_handle(beta: float) -> None:
    row, column = TensorDescription("f16"), TensorDescription("f16", "ColumnMajor")
    builder = CollectiveBuilder("sm_90a", "TensorOp", (128, 128, 64))
    end = builder.epilogue(row, row)
    loop = builder.mainloop(row, column, stages=StageCountAutoCarveoutEpi(end))
    gemm = GemmUniversalAdapter(GemmUniversal(loop, end))
    c, d = integers(40, 24), np.full((40, 24), np.nan, F16)
    a, b = np.empty((40, 0), F16), np.empty((24, 0), F16).T
    assert gemm(gemm.Arguments((40, 24, 0), a, b, c, d, beta=beta)).ok
    assert (d == beta * c.astype(float)).all()


# A20: beta = 0 never reads C, alpha = 0 neither A nor B.


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("beta", [0.0, -0.0])
def test_a20_full_tiles_and_edges(poison: float, beta: float) -> None:
    a, b = integers(264, 64), integers(136, 64, seed=1).T
    c = np.full((264, 136), poison, F16)
    for config in (
        Sm90GemmConfig((128, 128, 64), 3),
        Sm90GemmConfig((64, 128, 64), 3, schedule="pingpong"),
        Sm90GemmConfig((128, 128, 64), 3, epilogue="direct"),
    ):
        got = tw.gemm(a, b, c, beta=beta, kernel="sm90_gemm", config=config)
        assert (got == product(a, b)).all()


@pytest.mark.parametrize("kernel", ["", *KERNELS])
def test_a20_the_output_s_old_content_never_matters(kernel: str) -> None:
    a, b = integers(40, 64), integers(24, 64, seed=1).T
    d = np.full((40, 24), np.nan, F16)
    tw.gemm(a, b, out=d, kernel=kernel)
    assert (d == product(a, b)).all()
    d[...] = np.nan
    tw.gemm(np.full_like(a, np.nan), b, d, alpha=0.0, beta=0.0, out=d, kernel=kernel)
    assert (d == 0).all()


def test_a20_alpha_zero_through_the_handle() -> None:
    nans = np.full((40, 64), np.nan, F16)
    c, d = integers(40, 40), np.full((40, 40), np.nan, F16)
    gemm = Gemm()
    assert gemm(gemm.Arguments((40, 40, 64), nans, nans.T, c, d, alpha=0.0, beta=3.0)).ok
    assert (d == 3.0 * c.astype(float)).all()


# NaN and infinity stay where they belong.


@pytest.mark.parametrize("kernel", ["", *KERNELS])
def test_nan_and_inf_reach_their_row_and_column_only(kernel: str) -> None:
    a, b = integers(136, 72), integers(72, 72, seed=1).T
    a[a == 0], b[b == 0] = 1, 1
    a[5, 70], a[129, 3], b[7, 70] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        wanted = a.astype(np.float64) @ b.astype(np.float64)
    got = tw.gemm(a, b, kernel=kernel).astype(np.float64)
    assert ((got == wanted) | (np.isnan(got) & np.isnan(wanted))).all()
    assert np.isnan(got[5]).all()
    assert np.isinf(got[129, :70]).all()
    assert np.isnan(got).sum() == 72 + np.isnan(wanted[129]).sum()


@pytest.mark.parametrize("kernel", ["", *KERNELS])
def test_zero_times_infinity_is_nan(kernel: str) -> None:
    a, b = np.zeros((24, 64), F16), np.ones((64, 16), F16)
    b[3, 5] = np.inf
    got = tw.gemm(a, b, kernel=kernel)
    assert np.isnan(got[:, 5]).all()
    assert (np.delete(got, 5, axis=1) == 0).all()


@pytest.mark.parametrize("kernel", ["", *KERNELS])
def test_what_lies_beside_an_operand_is_not_read(kernel: str) -> None:
    """NaN in the rows' padding and below: K, M and N are cut off exactly."""
    whole_a, whole_b = np.full((80, 96), np.nan, F16), np.full((80, 96), np.nan, F16)
    whole_a[:40, :56], whole_b[:24, :56] = integers(40, 56), integers(24, 56, seed=1)
    a, b = whole_a[:40, :56], whole_b[:24, :56].T
    assert (tw.gemm(a, b, kernel=kernel) == product(a, b)).all()


def test_overflow_of_the_output_type_is_an_infinity() -> None:
    a = np.full((16, 64), 100, F16)
    assert np.isposinf(tw.gemm(a, a.T)).all()
    assert np.isneginf(tw.gemm(a, a.T, alpha=-1.0)).all()


@pytest.mark.parametrize("kernel", ["", *KERNELS])
def test_beta_times_nan_is_nan(kernel: str) -> None:
    c = np.zeros((24, 24), F16)
    c[2, 3] = np.nan
    got = tw.gemm(integers(24, 64), integers(24, 64).T, c, beta=0.5, kernel=kernel)
    assert np.isnan(got[2, 3])
    assert np.isnan(got).sum() == 1


SHARED = [
    StreamKScheduler(2),
    StreamKScheduler(3),
    StreamKScheduler(3, reduction_mode="Nondeterministic"),
    StreamKScheduler(3, reduction_mode="Cluster"),
    StreamKScheduler(),
    StreamKScheduler(reduction_mode="Nondeterministic"),
]


@pytest.mark.parametrize("scheduler", SHARED, ids=str)
def test_a26_shared_tiles_keep_nan_in_its_row_over_a_poisoned_workspace(scheduler: Any) -> None:
    row, column = (TensorDescription("f16", x) for x in ("RowMajor", "ColumnMajor"))
    builder = CollectiveBuilder("sm_90a", "TensorOp", (128, 64, 64))
    end = builder.epilogue(row, schedule="NoSmemWarpSpecialized")
    loop = builder.mainloop(row, column, stages=3)
    gemm = GemmUniversalAdapter(GemmUniversal(loop, end, scheduler))
    a, b, d = integers(136, 600), integers(72, 600, seed=1).T, np.full((136, 72), np.nan, F16)
    a[7, 599] = np.nan
    x = gemm.Arguments((136, 72, 600), a, b, None, d, hw_info=KernelHardwareInfo("cpu", 7))
    workspace = np.full(gemm.get_workspace_size(x) + 4, 0xFF, np.uint8)
    gemm.initialize(x, workspace)
    for _ in range(2):
        d[...] = -1
        gemm.run()
        assert np.isnan(d[7]).all()
        assert (np.delete(d, 7, axis=0) == product(np.delete(a, 7, axis=0), b)).all()


# A21: more batches, and more tiles, than a grid has along y or z.


@pytest.mark.parametrize("batches", [65_535, 65_536, 100_000])
@pytest.mark.parametrize("element", ["f16", "f32"])
def test_a21_many_batches_are_one_launch(batches: int, element: str) -> None:
    gemm = Gemm(element)
    x = gemm.Arguments((16, 16, 8, batches), 1 << 44, 1 << 45, None, 1 << 46, hw_info=CPU)
    x_blocks, *others = gemm.get_grid_shape(x)
    assert others == [1, 1]
    assert x_blocks == batches or x_blocks <= 2 * H200.sm_count


@pytest.mark.parametrize("kernel", KERNELS)
def test_a21_many_tiles_are_one_launch(kernel: str) -> None:
    m = 128 * 70_000
    views = TensorRef(1 << 44), TensorRef(1 << 45), TensorRef(1 << 46)
    gemm = Gemm("f16", layout_b="ColumnMajor")
    gemm._kernel = kernel
    x = gemm.Arguments((m, 8, 8), views[0], views[1], None, views[2], hw_info=CPU)
    assert gemm.get_grid_shape(x)[1:] == (1, 1)


@pytest.mark.parametrize(
    ("shape", "operand"), [((2**31, 8, 8), "M"), ((8, 2**31, 8), "N"), ((8, 8, 2**31), "K")]
)
def test_sizes_that_32_bits_do_not_hold_are_refused(shape: Any, operand: str) -> None:
    x = GemmArguments(shape, 1 << 44, 1 << 45, None, 1 << 46, hw_info=CPU)
    status = Gemm("f16").can_implement(x)
    assert (status.code, status.operand) == (StatusCode.INVALID_PROBLEM, operand)
    assert (status.needed, status.actual) == ("at most 2,147,418,112", "2,147,483,648")
    batches = GemmArguments((129, 8, 8, 2**31 - 2**17), 4096, 4096, None, 1 << 46, hw_info=CPU)
    assert "tiles of" in Gemm("f16").can_implement(batches).message


# A22: alignment.


@pytest.mark.parametrize("kernel", ["", *KERNELS])
@pytest.mark.parametrize("columns", [36, 34, 33])
def test_a22_short_rows_are_refused_or_right(kernel: str, columns: int) -> None:
    a, b = integers(columns, 64), integers(columns, 64, seed=1)
    operands = a, b.T
    turned = np.ascontiguousarray(a.T).T, np.ascontiguousarray(b.T)  # pitch of 72, 68 or 66 bytes
    for left, right in (operands, turned):
        if kernel == "sm90_gemm" and (left is not a or columns % 8):
            with pytest.raises(ProblemError, match="needs every row at a multiple of 16 bytes"):
                tw.gemm(left, right, kernel=kernel, config=Sm90GemmConfig())
        else:
            assert (tw.gemm(left, right, kernel=kernel) == product(left, right)).all()


@pytest.mark.parametrize("past", [1, 2, 4])
@pytest.mark.parametrize("which", ["A", "B", "D"])
def test_a22_a_base_that_starts_inside_of_16_bytes(which: str, past: int) -> None:
    a, b, d = integers(24, 64), integers(16, 64, seed=1), np.zeros((24, 16), F16)

    def moved(array: Any) -> Any:
        memory = np.zeros(array.size + 16, F16)
        start = (-memory.ctypes.data // 2) % 8 + past
        view = memory[start : start + array.size].reshape(array.shape)
        view[...] = array
        return view

    a = moved(a) if which == "A" else a
    b = (moved(b) if which == "B" else b).T
    d = moved(d) if which == "D" else d
    x = GemmArguments((24, 16, 64), a, b, None, d)
    status = adapter().can_implement(x)
    assert (status.code, status.operand) == (StatusCode.MISALIGNED_OPERAND, which)
    assert (status.needed, status.actual) == ("16 bytes", f"{2 * past} bytes")
    assert Gemm()(x).ok
    assert (d == product(a, b)).all()


def test_a22_kernels_of_small_alignment_really_run() -> None:
    a, b, d = integers(36, 36), integers(36, 36, seed=1).T, np.zeros((36, 36), F16)
    for elements in (1, 4):
        gemm = adapter((128, 64, 64), elements, elements)
        assert gemm.gemm.kernel == "sm90_cpasync_gemm"
        assert gemm(gemm.Arguments((36, 36, 36), a, b, None, d)).ok
        assert (d == product(a, b)).all()


# A23: ragged M, and an epilogue vector.


@pytest.mark.parametrize("kernel", ["", *KERNELS])
def test_a23_ragged_rows_and_a_bias_with_nan_behind_it(kernel: str) -> None:
    """M % 16 = 8 and all pitches legal, NN, as 1752x4720x584 is."""
    m, n, k = 152, 72, 88
    a, b = integers(m, k), integers(k, n, seed=1)
    memory = np.full(n + 64, np.nan, F16)
    memory[:n] = bias = integers(n, seed=2)
    got = tw.gemm(a, b, bias=memory[:n], kernel=kernel)
    assert (got == product(a, b) + bias).all()


# A25: more than 2^31 elements.


def sparse(elements: int) -> Any:
    """Memory that exists only where it is written."""
    reserve_nothing = 0x4000  # Linux's MAP_NORESERVE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | reserve_nothing
    return np.frombuffer(memoryview(mmap.mmap(-1, 2 * elements, flags=flags)), F16)


def far_apart(shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    reach = sum(s * (n - 1) for s, n in zip(strides, shape, strict=True)) + 1
    data = sparse(reach)
    return np.lib.stride_tricks.as_strided(data, shape, [2 * s for s in strides])


@pytest.mark.parametrize("kernel", KERNELS)
def test_a25_rows_that_are_more_than_2_to_31_elements_apart(kernel: str) -> None:
    pitch = 2**31 + 8
    a, c, d = (far_apart((3, n), (pitch, 1)) for n in (72, 16, 16))
    b = far_apart((16, 72), (pitch, 1)).T
    a[...], b[...], c[...] = integers(3, 72), integers(72, 16, seed=1), integers(3, 16)
    tw.gemm(a, b, c, beta=1.0, out=d, kernel=kernel)
    assert (d == product(a, b) + c).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a25_batches_that_are_more_than_2_to_31_elements_apart(kernel: str) -> None:
    apart = 49_152 * 65_536
    a, c, d = (far_apart((2, 8, n), (apart, 72, 1)) for n in (72, 16, 16))
    b = integers(16, 72, seed=1).T
    a[...], c[...] = integers(2, 8, 72), integers(2, 8, 16)
    tw.gemm(a, b, c, beta=1.0, out=d, kernel=kernel)
    assert (d == product(a, b) + c).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a25_strides_are_64_bit_in_the_generated_code(kernel: str) -> None:
    a, c = integers(2, 40, 72), integers(2, 40, 40)
    prepared = prepare_gemm(a, a.swapaxes(1, 2), c, beta=1.0, kernel=kernel)
    assert prepared.compiled is not None
    text = prepared.compiled.source(line_info=False)
    head = " ".join(text[text.index("__global__") :].partition("{")[0].split())
    # A pointer, its shape, its strides: those of 1 are compiled in.
    shape = r"\*(?: __restrict__)? (\w+)_0, int \1_1, int \1_2, int \1_3"
    strides = r", (\w+) \1_4, (\w+) \1_5"
    found = re.findall(shape + strides, head)
    assert found
    assert all((x, y) == ("i64", "i64") for _, x, y in found), head


# A26: constants, and the same bits again.


@pytest.mark.parametrize("kernel", ["", *KERNELS])
def test_a26_constant_inputs(kernel: str) -> None:
    half = np.full((256, 256), 0.5, F16)
    assert (tw.gemm(half, half.T, kernel=kernel) == 64).all()
    ones = np.ones((128, 64), F16), np.ones((64, 256), F16)
    c, bias = np.ones((128, 256), F16), np.ones(256, F16)
    assert (tw.gemm(*ones, c, beta=2.0, bias=bias, kernel=kernel) == 67).all()


# A28: nothing to do is a success.


@pytest.mark.parametrize("kernel", ["", *KERNELS])
@pytest.mark.parametrize("shape", [(0, 8, 8, 2), (8, 0, 8, 2), (8, 8, 8, 0), (0, 0, 0, 0)], ids=str)
def test_a28_empty_outputs(kernel: str, shape: tuple[int, int, int, int]) -> None:
    m, n, k, batch = shape
    a, b = np.empty((batch, m, k), F16), np.empty((batch, n, k), F16).swapaxes(1, 2)
    assert tw.gemm(a, b, kernel=kernel).shape == (batch, m, n)
    d = np.empty((batch, m, n), F16)
    for gemm in (Gemm(), adapter()):
        x = gemm.Arguments(shape, a, b, None, d)
        assert gemm.can_implement(x).ok
        assert gemm.get_grid_shape(x) == (0, 0, 0)
        assert gemm.get_workspace_size(x) == 0
        assert gemm(x).ok
        assert gemm.update(x).ok
        assert gemm.run() is None


def test_a28_an_unsupported_target_is_named() -> None:
    with pytest.raises(LaunchError, match=r"needs wgmma .*, the target is sm_80"):
        prepare_gemm(integers(8, 64), integers(64, 8), kernel="sm90_gemm", arch="sm_80")


# Outputs that share memory with what is read.


@pytest.mark.parametrize("kernel", ["", *KERNELS])
def test_c_may_be_the_output_itself(kernel: str) -> None:
    a, b, d = integers(136, 64), integers(72, 64, seed=1).T, integers(136, 72, seed=2)
    wanted = product(a, b) + 2.0 * d
    tw.gemm(a, b, d, beta=2.0, out=d, kernel=kernel)
    assert (d == wanted).all()


def test_an_output_over_an_operand_is_refused() -> None:
    whole = integers(80, 64)
    a, b, c = whole[:64], integers(64, 64, seed=1), integers(64, 64)
    moved = whole[8:72]
    for name, call in (
        ("a", lambda: tw.gemm(a, b, out=a)),
        ("a", lambda: tw.gemm(a, b, out=moved)),
        ("b", lambda: tw.gemm(b, a, out=moved)),
        ("c", lambda: tw.gemm(b, c, a, beta=1.0, out=moved)),
        ("bias", lambda: tw.gemm(b, c, bias=a[0], out=a)),
    ):
        with pytest.raises(ProblemError) as error:
            call()
        assert str(error.value) == (
            f"gemm: out overlaps {name} in memory: {name} would be read after it was written\n"
            "  hint: pass an output of its own memory"
        )
    status = Gemm().can_implement(GemmArguments((64, 64, 64), a, b, None, moved))
    assert (status.operand, status.needed) == ("D", "memory of its own")
    assert status.actual == "memory of a"


def test_columns_of_one_matrix_do_not_overlap() -> None:
    whole = integers(40, 128)
    a, d = whole[:, :64], whole[:, 64:]
    b = integers(64, 64, seed=1)
    wanted = product(a, b)
    tw.gemm(a, b, out=d)
    assert (d == wanted).all()


def test_an_output_that_cannot_be_written_is_refused() -> None:
    a, d = integers(16, 16), np.zeros((16, 16), F16)
    d.flags.writeable = False
    with pytest.raises(ProblemError, match="gemm: out is read-only"):
        tw.gemm(a, a, out=d)
    steps = np.lib.stride_tricks.as_strided(np.zeros(64, F16), (16, 16), (4, 2))
    with pytest.raises(ProblemError, match="its elements share memory"):
        tw.gemm(a, a, out=steps)


# The workspace of shared tiles.


@pytest.mark.parametrize("scheduler", SHARED, ids=str)
@pytest.mark.parametrize("shape", [(128, 64, 16_384), (256, 640, 4096), (2048, 1280, 512)], ids=str)
def test_a_workspace_has_at_most_twice_the_output(shape: Any, scheduler: Any) -> None:
    row, column = (TensorDescription("f16", x) for x in ("RowMajor", "ColumnMajor"))
    builder = CollectiveBuilder("sm_90a", "TensorOp", (128, 64, 64))
    end = builder.epilogue(row, schedule="NoSmemWarpSpecialized")
    loop = builder.mainloop(row, column, stages=3)
    gemm = GemmUniversalAdapter(GemmUniversal(loop, end, scheduler))
    x = gemm.Arguments(shape, 1 << 44, 1 << 45, None, 1 << 46, hw_info=CPU)
    m, n, _ = shape
    tiles = m // 128 * (n // 64)
    counters = 4 * 2 * tiles
    assert gemm.get_workspace_size(x) <= 2 * 4 * m * n + counters
