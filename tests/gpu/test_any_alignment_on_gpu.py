"""Operands that TMA cannot take, on a GPU: exact on integers, and guard bands stay intact."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tilewright.library import cpasync_config
from tilewright.library.cpasync_config import copy_bytes
from tilewright.library.gemm import prepare_gemm

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.gpu("sm_90a")

KERNELS = ("sm90_padded_gemm", "sm90_cpasync_gemm", "sm80_gemm")
SIZES = [(1, 1, 1), (77, 93, 61), (1000, 1000, 1001), (513, 1026, 515), (2049, 260, 4100)]


def integers(
    rows: int, columns: int, row_major: bool, gap: int = 0, skip: int = 0, batch: int = 1
) -> Any:
    """(batch, rows, columns), `gap` elements of NaN behind each line, `skip` in front of all."""
    lines, length = (rows, columns) if row_major else (columns, rows)
    whole = torch.full((skip + batch * lines * (length + gap),), float("nan"), device="cuda")
    whole = whole.bfloat16()
    data = whole[skip:].view(batch, lines, length + gap)[:, :, :length]
    data.copy_(torch.randint(-2, 3, data.shape, device="cuda"))
    return data if row_major else data.transpose(1, 2)


def exact(a: Any, b: Any, **call: Any) -> Any:
    """Runs into an output of NaN between guard bands, three times."""
    wide = torch.full((a.shape[0], a.shape[1] + 2, b.shape[2] + 3), 7.0, device="cuda")
    wide = wide.bfloat16()
    out = wide[:, 1:-1, 1:-2]
    wanted = wide.clone()
    wanted[:, 1:-1, 1:-2] = (a.double() @ b.double()).bfloat16()
    prepared = prepare_gemm(a, b, out=out, **call)
    for _ in range(3):
        out.fill_(float("nan"))
        prepared.run()
        assert torch.equal(wide, wanted)
    return prepared.plan


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("a_major", "b_major"), itertools.product((True, False), repeat=2))
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("gap", "skip"), [(0, 0), (0, 1), (1, 0), (4, 4), (6, 2)])
def test_integers_are_exact(
    size: tuple[int, int, int], gap: int, skip: int, a_major: bool, b_major: bool, kernel: str
) -> None:
    m, n, k = size
    a, b = integers(m, k, a_major, gap, skip), integers(k, n, b_major, gap, skip)
    exact(a, b, kernel=kernel)


@pytest.mark.parametrize("base", cpasync_config._TILES, ids=str)
@pytest.mark.parametrize("k", [1000, 1001, 1002, 1004])
def test_every_tile(base: Any, k: int) -> None:
    a, b = integers(1100, k, True), integers(k, 777, False)
    problem = prepare_gemm(a, b, kernel="sm90_cpasync_gemm").plan.problem
    a_bytes, b_bytes = (copy_bytes(problem, x) for x in problem.inputs)
    config = type(base)(
        base.tile_shape_mnk, base.num_stages, base.in_flight, a_bytes, b_bytes, max_ctas=17
    )
    exact(a, b, kernel="sm90_cpasync_gemm", config=config)


@pytest.mark.parametrize("kernel", KERNELS)
def test_batches_and_broadcast(kernel: str) -> None:
    a, b = integers(300, 201, True, batch=5), integers(201, 111, True, batch=5)
    exact(a, b, kernel=kernel)
    exact(a[:1].expand(5, -1, -1), b, kernel=kernel)
    exact(a, b[:1].expand(5, -1, -1), kernel=kernel)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", [1000, 1001, 1002])
@pytest.mark.parametrize("d_major", [True, False])
def test_fused_epilogue(kernel: str, n: int, d_major: bool) -> None:
    a, b = torch.randn(515, 333, device="cuda"), torch.randn(333, n, device="cuda")
    c = torch.randn(515, n, device="cuda") if d_major else torch.randn(n, 515, device="cuda").T
    a, b, c = a.half(), b.half(), c.half()
    out = torch.full_like(c, float("nan"))
    bias = torch.randn(n, device="cuda")
    prepared = prepare_gemm(
        a, b, c, alpha=1.5, beta=0.5, bias=bias, activation="gelu_tanh", out=out, kernel=kernel
    )
    prepared.run()
    torch.cuda.synchronize()
    result = prepared.verify()
    assert result.passed, result.message


def test_the_plan_goes_there_by_itself() -> None:
    plan = exact(integers(1000, 1001, True), integers(1001, 1000, True))
    assert plan.kernel == "sm90_padded_gemm"
    assert exact(integers(64, 60, True), integers(60, 64, True)).kernel == "sm90_cpasync_gemm"
