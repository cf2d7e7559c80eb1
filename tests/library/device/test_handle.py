"""The device handles in the simulator: statuses, workspaces, grids, runs, updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilewright.errors import LaunchError
from tilewright.library.device import (
    CollectiveBuilder,
    EpilogueTileAuto,
    Gemm,
    GemmArguments,
    GemmUniversal,
    GemmUniversalAdapter,
    KernelHardwareInfo,
    LinCombPerColBiasEltAct,
    LinearCombination,
    LinearCombinationGELU,
    LinearCombinationRelu,
    PersistentScheduler,
    StageCountAutoCarveoutEpi,
    Status,
    StatusCode,
    StreamKScheduler,
    TensorDescription,
    TensorRef,
)
from tilewright.library.status import ProblemError

ROW, COLUMN = (TensorDescription("f16", x) for x in ("RowMajor", "ColumnMajor"))
CPU = KernelHardwareInfo("cpu")


def adapter(
    tile: Any = (128, 64, 64),
    c: TensorDescription | None = ROW,
    a: TensorDescription = ROW,
    fusion: Any = LinearCombination,
    scheduler: Any = PersistentScheduler(),  # noqa: B008
) -> GemmUniversalAdapter:
    builder = CollectiveBuilder("sm_90a", "TensorOp", tile)
    end = builder.epilogue(ROW, c, fusion=fusion)
    loop = builder.mainloop(a, COLUMN, stages=StageCountAutoCarveoutEpi(end))
    return GemmUniversalAdapter(GemmUniversal(loop, end, scheduler))


def integers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


def arguments(m: int = 40, n: int = 24, k: int = 72, seed: int = 0, **more: Any) -> GemmArguments:
    a, b, c = integers(m, k, seed=seed), integers(n, k, seed=seed + 1).T, integers(m, n, seed=9)
    d = np.full((m, n), np.nan, np.float16)
    return GemmArguments((m, n, k), a, b, c, d, **more)


def wanted(x: GemmArguments) -> Any:
    a, b, c = (np.asarray(v, np.float64) for v in (x.a, x.b, x.c))
    return x.alpha * (a @ b) + (x.beta * c if x.beta else 0)


@pytest.mark.parametrize("gemm", [adapter(), adapter((64, 64, 64)), Gemm()], ids=["co", "pp", "2x"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (2.0, -1.0)])
def test_call(gemm: Any, alpha: float, beta: float) -> None:
    x = arguments(alpha=alpha, beta=beta)
    assert gemm(x) == Status()
    assert (x.d == wanted(x)).all()
    assert gemm.prepared.verify().passed


def test_initialize_once_and_run_often() -> None:
    gemm, x = adapter(), arguments()
    gemm.initialize(x)
    assert np.isnan(x.d).all()
    for _ in range(2):
        x.d[...] = np.nan
        report = gemm.run()
        assert (x.d == wanted(x)).all()
        assert report.counters["flops"] > 0


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": 3.0, "beta": 2.0},
        {"alpha": 0.0, "beta": 2.0},
        {"seed": 5},
        {"m": 200, "k": 136},
    ],
    ids=str,
)
def test_update_computes_what_a_new_handle_would(change: dict[str, Any]) -> None:
    gemm = adapter()
    gemm(arguments(alpha=2.0))
    x = arguments(**change)
    gemm.update(x)
    gemm.run()
    assert (x.d == wanted(x)).all()
    assert gemm.prepared.verify().passed


def test_addresses_with_strides() -> None:
    """The operands of a wider memory, by pointer and leading dimension."""
    a, b, d = integers(40, 96), integers(24, 96, seed=1), np.zeros((40, 32), np.float16)
    gemm = adapter(c=None)
    x = gemm.Arguments(
        (40, 24, 72),
        TensorRef(a.ctypes.data, 96),
        TensorRef(b.ctypes.data, 96),
        None,
        TensorRef(d.ctypes.data, 32),
        hw_info=CPU,
    )
    assert gemm(x).ok
    assert (d[:, :24] == a[:, :72].astype(float) @ b[:, :72].T.astype(float)).all()
    assert (d[:, 24:] == 0).all()


@pytest.mark.parametrize("shared", [False, True])
def test_batches_by_address(shared: bool) -> None:
    a, d = integers(3, 16, 64), np.zeros((3, 16, 8), np.float16)
    b = integers(1 if shared else 3, 8, 64, seed=1)
    gemm = Gemm("f16", "RowMajor", layout_b="ColumnMajor")
    x = gemm.Arguments(
        (16, 8, 64, 3),
        a.ctypes.data,
        TensorRef(b.ctypes.data, batch_stride=0 if shared else None),
        None,
        d.ctypes.data,
        hw_info=CPU,
    )
    assert gemm(x).ok
    assert (d == a.astype(float) @ b.swapaxes(1, 2).astype(float)).all()


def test_fused_epilogues() -> None:
    x = replace(arguments(), bias=integers(24, seed=4))
    product = wanted(x)
    for gemm in (Gemm(epilogue=LinCombPerColBiasEltAct("relu")),
                 adapter(fusion=LinCombPerColBiasEltAct("relu"))):  # fmt: skip
        gemm(x)
        assert (x.d == np.maximum(product + x.bias, 0)).all()
    plain = replace(x, bias=None)
    Gemm(epilogue=LinearCombinationRelu)(plain)
    assert (x.d == np.maximum(product, 0)).all()
    gelu = adapter(fusion=LinearCombinationGELU)
    gelu(plain)
    assert gelu.prepared.verify().passed


SPLIT = StreamKScheduler(splits=3)


def test_workspace_is_reported_cleared_and_reused() -> None:
    """CASES A26: what a workspace holds on entry does not matter."""
    gemm, x = adapter(scheduler=SPLIT), arguments(k=600)
    size = gemm.get_workspace_size(x)
    assert size >= 4 * 40 * 24
    workspace = np.full(size, 0xFF, np.uint8)  # NaN sums, counters of -1
    gemm.initialize(x, workspace)
    for _ in range(2):
        x.d[...] = np.nan
        gemm.run()
        assert (x.d == wanted(x)).all()
    y = arguments(k=600, seed=7)
    gemm.update(y)  # keeps the workspace
    gemm.run()
    assert (y.d == wanted(y)).all()
    assert adapter().get_workspace_size(x) == 0


def test_a_workspace_may_be_an_address_or_larger_than_needed() -> None:
    gemm, x = adapter(scheduler=SPLIT), arguments(k=600)
    floats = np.full(gemm.get_workspace_size(x) // 4 + 100, np.nan, np.float32)
    gemm(x, floats.ctypes.data)
    assert (x.d == wanted(x)).all()
    assert np.isnan(floats[-100:]).all()
    gemm(x, floats.reshape(2, -1))
    assert (x.d == wanted(x)).all()


def bad_workspaces() -> list[tuple[Callable[[int, Any], Any], StatusCode, str]]:
    invalid, size = StatusCode.INVALID_PROBLEM, "{size:,} bytes"
    return [
        (lambda _n, _x: None, StatusCode.WORKSPACE_NULL, f"workspace: needs {size}, got none"),
        (lambda n, _x: np.zeros(n - 1, np.uint8), invalid, f"workspace: needs {size}, got"),
        (lambda n, _x: np.zeros(2 * n, np.uint8)[::2], invalid, "workspace: needs a contiguous"),
        (
            lambda n, _x: np.zeros(n + 64, np.uint8).ctypes.data // 16 * 16 + 24,
            StatusCode.MISALIGNED_OPERAND,
            "workspace: needs an address at a multiple of 16, got 8 past one",
        ),
        (lambda _n, x: x.d.ctypes.data, invalid, "workspace: needs memory of its own, got memory"),
        (
            lambda n, _x: np.broadcast_to(np.zeros(1, np.float32), (n,)),
            invalid,
            "workspace: needs a contiguous array, got strides (0,)",
        ),
    ]


@pytest.mark.parametrize(("make", "code", "message"), bad_workspaces(), ids=lambda x: str(x)[:30])
def test_wrong_workspaces(make: Any, code: StatusCode, message: str) -> None:
    gemm, x = adapter(scheduler=SPLIT), arguments(k=600)
    size = gemm.get_workspace_size(x)
    with pytest.raises(ProblemError) as error:
        gemm.initialize(x, make(size, x))
    assert str(error.value).startswith(message.format(size=size))
    assert (error.value.code, error.value.operand) == (code, "workspace")
    assert "get_workspace_size(arguments)" in error.value.hint


def test_grid_shape() -> None:
    gemm = adapter()
    assert gemm.get_grid_shape(arguments()) == (1, 1, 1)
    assert gemm.get_grid_shape(arguments(m=300, n=200)) == (12, 1, 1)
    few = arguments(m=300, n=200, hw_info=KernelHardwareInfo("cpu", sm_count=5))
    assert gemm.get_grid_shape(few) == (5, 1, 1)
    assert gemm.get_grid_shape(arguments(m=0)) == (0, 0, 0)
    gemm(few)
    assert (few.d == wanted(few)).all()


def change(x: GemmArguments, **what: Any) -> GemmArguments:
    return replace(x, **what)


BAD: list[tuple[Callable[[GemmArguments], GemmArguments], Status]] = [
    (
        lambda x: change(x, problem_shape=(40, 24)),
        Status(
            StatusCode.INVALID_PROBLEM,
            "problem_shape is (40, 24), expected (M, N, K) or (M, N, K, L), each 0 or more",
            "problem_shape",
            "(M, N, K) or (M, N, K, L)",
            "(40, 24)",
        ),
    ),
    (
        lambda x: change(x, problem_shape=(40, 24, 64)),
        Status(
            StatusCode.INVALID_PROBLEM,
            "A has shape (40, 72), the problem needs (40, 64)",
            "A",
            "(40, 64)",
            "(40, 72)",
        ),
    ),
    (
        lambda x: change(x, problem_shape=(40, 24, 72, 2)),
        Status(
            StatusCode.INVALID_PROBLEM,
            "D has shape (40, 24), the problem needs (2, 40, 24)",
            "D",
            "(2, 40, 24)",
            "(40, 24)",
        ),
    ),
    (
        lambda x: change(x, d=None),
        Status(StatusCode.INVALID_PROBLEM, "D is missing", "D", "an array or address", "none"),
    ),
    (
        lambda x: change(x, beta=1.0, c=None),
        Status(
            StatusCode.INVALID_PROBLEM,
            "gemm: beta = 1.0 needs C, got none",
            "C",
            "an array",
            "none",
        ),
    ),
    (
        lambda x: change(x, a=x.a.astype(np.float32)),
        Status(
            StatusCode.INVALID_DATA_TYPE,
            "gemm: a is f32 and b is f16, expected one element type",
            "B",
            "f32",
            "f16",
        ),
    ),
    (
        lambda x: change(x, a=x.a.view(np.int16), b=x.b.view(np.int16)),
        Status(
            StatusCode.INVALID_DATA_TYPE,
            "A: type is i16, the kernel was built for f16",
            "A",
            "f16",
            "i16",
        ),
    ),
    (
        lambda x: change(x, b=np.ascontiguousarray(x.b)),
        Status(
            StatusCode.INVALID_LAYOUT,
            "B: layout is N contiguous, the kernel was built for K contiguous",
            "B",
            "K contiguous",
            "N contiguous",
        ),
    ),
    (
        lambda x: change(x, a=np.zeros((40, 145), np.float16)[:, :144:2]),
        Status(
            StatusCode.INVALID_LAYOUT,
            "A: layout is strided, the kernel was built for K contiguous",
            "A",
            "K contiguous",
            "strided",
        ),
    ),
    (
        lambda x: change(x, a=np.zeros((40, 76), np.float16)[:, :72]),
        Status(
            StatusCode.MISALIGNED_OPERAND,
            "A: alignment is 8 bytes, the kernel was built for 16 bytes",
            "A",
            "16 bytes",
            "8 bytes",
        ),
    ),
    (
        lambda x: change(x, bias=np.zeros(24, np.float16)),
        Status(
            StatusCode.INVALID_PROBLEM,
            "bias: LinearCombination needs none, got a bias",
            "bias",
            "none",
            "a bias",
        ),
    ),
]


@pytest.mark.parametrize(("spoil", "status"), BAD, ids=[s.message[:40] for _, s in BAD])
def test_can_implement_names_operand_needed_and_actual(spoil: Any, status: Status) -> None:
    gemm, x = adapter(), spoil(arguments())
    assert gemm.can_implement(x) == status
    for call in (gemm.initialize, gemm.get_grid_shape, gemm.get_workspace_size, gemm):
        with pytest.raises(ProblemError) as error:
            call(x)
        assert error.value.message == status.message


def test_can_implement_of_good_arguments_is_a_success_and_runs_nothing() -> None:
    x = arguments()
    assert adapter().can_implement(x) == Status()
    assert Gemm().can_implement(x).ok
    assert np.isnan(x.d).all()


def test_a_kernel_without_c_needs_beta_zero() -> None:
    status = adapter(c=None).can_implement(arguments(beta=0.5))
    assert status == Status(
        StatusCode.NOT_SUPPORTED,
        "beta is 0.5, the epilogue was built without C: beta must be 0",
        "C",
        "beta = 0",
        "beta = 0.5",
    )


def test_addresses_need_a_type() -> None:
    status = Gemm().can_implement(GemmArguments((8, 8, 8), 4096, 4096, None, 4096, hw_info=CPU))
    assert status.message == "A is an address, and the element type is not known"
    assert status.needed == "an array, or a kernel with element types"


def test_no_arguments_yet() -> None:
    gemm = Gemm()
    for call in (gemm.run, lambda: gemm.update(arguments()), lambda: gemm.prepared):
        with pytest.raises(LaunchError) as error:
            call()
        assert str(error.value) == (
            "this GEMM has no arguments yet\n"
            "  hint: call initialize(arguments) before run or update"
        )


def test_the_problem_of_the_short_handle() -> None:
    assert str(Gemm().problem(arguments())) == (
        "gemm 40x24x72 A=f16:row B=f16:column D=f16:row accum=f32"
    )


def built(
    tile: Any,
    arch: str = "sm_90a",
    op_class: str = "TensorOp",
    schedule: str = "KernelScheduleAuto",
    end: str = "EpilogueScheduleAuto",
    d: TensorDescription = ROW,
    b: TensorDescription = COLUMN,
    epilogue_tile: Any = EpilogueTileAuto(),  # noqa: B008
) -> GemmUniversalAdapter:
    builder = CollectiveBuilder(arch, op_class, tile)
    epilogue = builder.epilogue(d, schedule=end, epilogue_tile=epilogue_tile)
    stages = StageCountAutoCarveoutEpi(epilogue)
    loop = builder.mainloop(ROW, b, stages=stages, schedule=schedule)
    return GemmUniversalAdapter(GemmUniversal(loop, epilogue))


PINGPONG, REGISTERS = "KernelTmaWarpSpecializedPingpong", "NoSmemWarpSpecialized"
TALL = TensorDescription("f16", "ColumnMajor")
BUILT = {
    "128x256": built((128, 256, 64)),
    "128x256 one box": built((128, 256, 64), epilogue_tile=(128, 64)),
    "256x128": built((256, 128, 64)),
    "128x192": built((128, 192, 64)),
    "128x208": built((128, 208, 64)),
    "128x32": built((128, 32, 64)),
    "64x256": built((64, 256, 64)),
    "64x16": built((64, 16, 64)),
    "ping-pong 128x128": built((128, 128, 64), schedule=PINGPONG, end="TmaWarpSpecialized"),
    "ping-pong direct": built((64, 128, 64), end=REGISTERS),
    "a block for each tile": built(
        (128, 128, 64), schedule="KernelTmaWarpSpecialized", end="TmaWarpSpecialized"
    ),
    "a block for each tile, alone": built(
        (64, 128, 64), schedule="KernelTma", end="TmaWarpSpecialized"
    ),
    "D column-major": built((128, 128, 64), d=TALL),
    "B N-major": built((128, 64, 64), b=ROW),
    "f32 out": built((128, 64, 64), d=TensorDescription("f32")),
    "cp.async": built((128, 64, 64), schedule="KernelCpAsyncWarpSpecializedCooperative"),
    "multistage": built((128, 128, 64), schedule="KernelMultistage", end=REGISTERS),
    "multistage on Ampere": built((64, 64, 32), arch="sm_80"),
    "simt": built((128, 128, 8), op_class="Simt"),
}


@pytest.mark.parametrize("name", BUILT)
def test_what_is_built_runs(name: str) -> None:
    gemm, x = BUILT[name], arguments(136, 216, 136)
    main, end = gemm.gemm.mainloop, gemm.gemm.epilogue
    d = np.full((136, 216), np.nan, np.float32 if end.d.dtype.name == "f32" else np.float16)
    x = replace(
        x,
        b=np.ascontiguousarray(x.b) if main.b.major("B") == "N" else x.b,
        c=None,
        d=np.asfortranarray(d) if end.d.major("D") == "M" else d,
        hw_info=KernelHardwareInfo("cpu", sm_count=3),
    )
    assert gemm(x).ok
    assert (x.d == product(x)).all()


def product(x: GemmArguments) -> Any:
    return np.asarray(x.a, np.float64) @ np.asarray(x.b, np.float64)


@pytest.mark.parametrize("shared", [False, True])
def test_batches_of_arrays(shared: bool) -> None:
    a, b = integers(3, 40, 64), integers(3, 24, 64, seed=1).swapaxes(1, 2)
    d = np.full((3, 40, 24), np.nan, np.float16)
    x = GemmArguments((40, 24, 64, 3), a, b[0] if shared else b, None, d)
    for gemm in (adapter(c=None), Gemm()):
        assert gemm(x).ok
        assert (d == product(x)).all()
        d[...] = np.nan
