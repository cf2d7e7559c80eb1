"""The kernels on a GPU: exact on integers like the simulator, within the bound on random data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.library.arrays import host_array
from tilewright.library.gemm import prepare_gemm
from tilewright.library.kernels.sm80_gemm import Sm80GemmConfig
from tilewright.library.kernels.sm90_gemm import Sm90GemmConfig

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.gpu("sm_90a")

SIZES = [(1, 8, 8), (128, 256, 64), (200, 264, 72), (1000, 1304, 528), (513, 72, 4096)]
CONFIGS: list[tuple[str, Any]] = [
    ("simt_gemm", None),
    ("sm80_gemm", Sm80GemmConfig()),
    ("sm80_gemm", Sm80GemmConfig((128, 128, 32), 4)),
    ("sm90_gemm", Sm90GemmConfig()),
    ("sm90_gemm", Sm90GemmConfig((128, 128, 64), 6)),
    ("sm90_gemm", Sm90GemmConfig((128, 64, 64), 4, store_boxes=1)),
    ("sm90_gemm", Sm90GemmConfig((256, 128, 64), 4, 8)),
    ("sm90_gemm", Sm90GemmConfig((128, 192, 64), 3, store_boxes=3)),
]


def operands(size: tuple[int, int, int], dtype: Any, integers: bool) -> tuple[Any, Any, Any, Any]:
    m, n, k = size

    def draw(rows: int, columns: int) -> Any:
        if integers:
            return torch.randint(-2, 3, (rows, columns), device="cuda").to(dtype)
        return torch.randn(rows, columns, device="cuda").to(dtype)

    # Guard bands around the output: they must survive.
    whole = torch.full((m + 2, n + 16), 7.0, device="cuda", dtype=dtype)
    out = whole[1 : m + 1, 8 : n + 8]
    out.fill_(float("nan"))
    return draw(m, k), draw(n, k).T, draw(m, n), out


def guards_survive(out: Any) -> bool:
    whole = out._base
    copy = whole.clone()
    copy[1:-1, 8:-8] = 7.0
    return bool((copy == 7.0).all())


@pytest.mark.parametrize(("kernel", "config"), CONFIGS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_random_data(kernel: str, config: Any, size: tuple[int, int, int], dtype: str) -> None:
    a, b, c, out = operands(size, getattr(torch, dtype), integers=False)
    for beta in (0.0, 0.5):
        prepared = prepare_gemm(
            a, b, c, alpha=1.5, beta=beta, out=out, kernel=kernel, config=config
        )
        assert prepared.backend == "gpu"
        prepared.run()
        torch.cuda.synchronize()
        result = prepared.verify()
        assert result.passed, result.message
        assert guards_survive(out)


@pytest.mark.parametrize(("kernel", "config"), CONFIGS, ids=str)
@pytest.mark.parametrize("size", SIZES[:4], ids=str)
def test_integers_equal_the_simulator_bit_for_bit(
    kernel: str, config: Any, size: tuple[int, int, int]
) -> None:
    a, b, _, out = operands(size, torch.float16, integers=True)
    prepare_gemm(a, b, out=out, kernel=kernel, config=config).run()
    torch.cuda.synchronize()
    simulated = np.full(size[:2], np.nan, np.float16)
    prepare_gemm(
        host_array(a), host_array(b.T).T, out=simulated, kernel=kernel, config=config
    ).run()
    assert (host_array(out).view(np.uint16) == simulated.view(np.uint16)).all()


def test_beta_zero_never_reads_c() -> None:
    """CASES A20: on the device too, in full tiles and at the edges."""
    a, b, c, out = operands((513, 520, 512), torch.float16, integers=False)
    for kernel in ("simt_gemm", "sm80_gemm", "sm90_gemm"):
        prepare_gemm(a, b, c.fill_(float("nan")), out=out, kernel=kernel).run()
        assert bool(torch.isfinite(out).all())


def test_runs_in_the_callers_stream() -> None:
    a, b, _, out = operands((256, 256, 256), torch.float16, integers=True)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        prepare_gemm(a, b, out=out).run()
    stream.synchronize()
    assert bool((out == (a.double() @ b.double()).half()).all())
