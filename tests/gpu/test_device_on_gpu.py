"""The device handles on a GPU; field reports (CASES) that need real memory or many blocks."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tilewright as tw
from tilewright import device
from tilewright.library.gemm import prepare_gemm

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.gpu("sm_90a")

KERNELS = ("sm90_gemm", "sm90_padded_gemm", "sm90_cpasync_gemm", "sm80_gemm", "simt_gemm")


def integers(*shape: int, dtype: str = "bfloat16") -> Any:
    return torch.randint(-2, 3, shape, device="cuda").to(getattr(torch, dtype))


def adapter(scheduler: Any = None, tile: Any = (128, 128, 64)) -> device.GemmUniversalAdapter:
    row, column = (device.TensorDescription("bf16", x) for x in ("RowMajor", "ColumnMajor"))
    builder = device.CollectiveBuilder("sm_90a", "TensorOp", tile)
    epilogue = builder.epilogue(row, row)
    stages = device.StageCountAutoCarveoutEpi(epilogue)
    mainloop = builder.mainloop(row, column, stages=stages)
    gemm = device.GemmUniversal(mainloop, epilogue, scheduler or device.PersistentScheduler())
    return device.GemmUniversalAdapter(gemm)


def arguments(m: int, n: int, k: int, **more: Any) -> device.GemmArguments:
    d = torch.full((m, n), math.nan, device="cuda", dtype=torch.bfloat16)
    a, b = integers(m, k), integers(n, k).T
    return device.GemmArguments((m, n, k), a, b, integers(m, n), d, **more)


def wanted(x: device.GemmArguments) -> Any:
    out = x.alpha * (x.a.double() @ x.b.double())
    return (out + x.beta * x.c.double() if x.beta else out).bfloat16()


@pytest.mark.parametrize("gemm", [adapter(), adapter(tile=(64, 128, 64)), device.Gemm()])
def test_run_update_run(gemm: Any) -> None:
    first, second = arguments(520, 264, 192), arguments(520, 264, 192, alpha=2.0)
    assert gemm.can_implement(first).ok
    gemm.initialize(first)
    gemm.run()
    gemm.run()
    gemm.update(second)
    gemm.run()
    third = arguments(264, 520, 128, beta=1.0)
    gemm.update(third)
    gemm.run()
    torch.cuda.synchronize()
    for x in (first, second, third):
        assert bool((x.d == wanted(x)).all())


def test_an_update_keeps_the_packed_launch() -> None:
    gemm, x = adapter(), arguments(256, 256, 128)
    gemm.initialize(x)
    launch = gemm._launch
    y = arguments(256, 256, 128, alpha=-1.0)
    gemm.update(y)
    assert gemm._launch is launch
    gemm.run()
    torch.cuda.synchronize()
    assert bool((y.d == wanted(y)).all())
    assert bool(torch.isnan(x.d).all())


def test_streams_of_initialize_and_of_run() -> None:
    gemm, x = adapter(), arguments(256, 256, 256)
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    gemm.initialize(x, stream=streams[0])
    gemm.run()
    streams[0].synchronize()
    assert bool((x.d == wanted(x)).all())
    x.d.fill_(math.nan)
    torch.cuda.synchronize()
    gemm.run(streams[1])
    streams[1].synchronize()
    assert bool((x.d == wanted(x)).all())


def test_addresses() -> None:
    x = arguments(256, 128, 64)
    gemm = adapter()
    given = gemm.Arguments(x.problem_shape, x.a.data_ptr(), x.b.data_ptr(), None, x.d.data_ptr())
    assert gemm(given).ok
    torch.cuda.synchronize()
    assert bool((x.d == wanted(x)).all())


@pytest.mark.parametrize("mode", ["Deterministic", "Nondeterministic"])
@pytest.mark.parametrize("decomposition", ["SplitK", "StreamK"])
@pytest.mark.parametrize("shape", [(16, 2560, 8192), (8, 8192, 8192)], ids=str)
def test_a26_stream_k_ends_and_repeats(shape: Any, decomposition: str, mode: str) -> None:
    """CASES A26: 50 runs, the workspace dirty on entry."""
    splits = 2 if decomposition == "SplitK" else 1
    scheduler = device.StreamKScheduler(
        splits, reduction_mode=mode, decomposition_mode=decomposition
    )
    gemm, x = adapter(scheduler), arguments(*shape)
    status = gemm.can_implement(x)
    assert status.ok, status
    size = gemm.get_workspace_size(x)
    workspace = torch.full((size,), 0xFF, device="cuda", dtype=torch.uint8)
    gemm.initialize(x, workspace)
    for _ in range(50):
        x.d.fill_(math.nan)
        gemm.run()
        assert bool((x.d == wanted(x)).all())  # integers: exact in any order


@pytest.mark.parametrize("batches", [65_535, 65_536, 100_000])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a21_many_batches(batches: int, dtype: str) -> None:
    a, b = integers(batches, 16, 8, dtype=dtype), integers(batches, 8, 16, dtype=dtype)
    got = tw.gemm(a, b)
    torch.cuda.synchronize()
    assert bool((got == a @ b).all())


def test_a21_more_tiles_along_m_than_a_grid_has_rows() -> None:
    a, b = integers(128 * 65_537, 8), integers(8, 8)
    for kernel in KERNELS:
        got = tw.gemm(a, b.T, kernel=kernel)
        torch.cuda.synchronize()
        assert bool((got == a @ b.T).all())


@pytest.mark.parametrize("kernel", KERNELS)
def test_a25_an_output_of_more_than_2_to_31_elements(kernel: str) -> None:
    size = 65_384
    a, b = integers(size, 64), integers(size, 64)
    out = torch.full((size, size), math.nan, device="cuda", dtype=torch.bfloat16)
    tw.gemm(a, b.T, out=out, kernel=kernel)
    torch.cuda.synchronize()
    for start in range(0, size, 8192):
        rows = slice(start, start + 8192)
        assert bool((out[rows] == a[rows] @ b.T).all())


@pytest.mark.parametrize("kernel", KERNELS)
def test_a25_a_batch_stride_of_more_than_2_to_31_elements(kernel: str) -> None:
    a = torch.randint(-2, 3, (2, 49_152, 65_536), device="cuda", dtype=torch.int8).bfloat16()
    b = integers(65_536, 16) if kernel == "simt_gemm" else integers(16, 65_536).T
    got = tw.gemm(a, b, kernel=kernel)
    torch.cuda.synchronize()
    for batch in range(2):
        for rows in (slice(0, 256), slice(24_000, 24_256), slice(48_896, 49_152)):
            exact = a[batch, rows].double() @ b.double()
            assert bool((got[batch, rows] == exact.bfloat16()).all())


@pytest.mark.parametrize("kernel", ["", *KERNELS])
def test_nothing_to_multiply(kernel: str) -> None:
    nans = torch.full((64, 64), math.nan, device="cuda", dtype=torch.bfloat16)
    c = integers(64, 64)
    got = tw.gemm(nans, nans, c, alpha=0.0, beta=2.0, kernel=kernel)
    assert bool((got == 2 * c).all())
    empty = tw.gemm(nans[:, :0], nans[:0], c, beta=2.0, out=nans.clone(), kernel=kernel)
    assert bool((empty == 2 * c).all())
    assert tw.gemm(nans[:0], nans, kernel=kernel).shape == (0, 64)


def test_c_may_be_the_output_itself() -> None:
    a, b, d = integers(1032, 256), integers(776, 256).T, integers(1032, 776)
    exact = (a.double() @ b.double() + 2 * d.double()).bfloat16()
    prepare_gemm(a, b, d, beta=2.0, out=d).run()
    torch.cuda.synchronize()
    assert bool((d == exact).all())
