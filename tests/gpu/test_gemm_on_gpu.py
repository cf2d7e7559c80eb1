"""The kernels on a GPU: exact on integers like the simulator, within the bound on random data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilewright.library import heuristics
from tilewright.library.arrays import host_array
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.gemm import prepare_gemm
from tilewright.library.kernels.sm80_gemm import Sm80GemmConfig

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.gpu("sm_90a")

CROWDED = (
    Sm90GemmConfig((128, 128, 64), 3, 8, schedule="warp_specialized", blocks_per_sm=2),
    Sm90GemmConfig((128, 64, 64), 2, 8, 1, schedule="warp_specialized", blocks_per_sm=3),
    Sm90GemmConfig((64, 64, 64), 2, 8, 1, schedule="warp_specialized", blocks_per_sm=4),
)
BASES = tuple(dict.fromkeys((*heuristics._WIDE, *CROWDED, *heuristics._NARROW)))
ALONE = Sm90GemmConfig((128, 128, 64), 3, schedule="unspecialized", blocks_per_sm=2)
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
    ("sm90_gemm", Sm90GemmConfig((128, 128, 64), 4, epilogue="direct")),
    ("sm90_gemm", Sm90GemmConfig((128, 128, 64), 4, swap_operands=True)),
    ("sm90_gemm", ALONE),
    ("sm90_gemm", replace(ALONE, tile_shape_mnk=(64, 128, 64), store_boxes=1, blocks_per_sm=2)),
    ("sm90_gemm", replace(ALONE, schedule="warp_specialized", epilogue="direct")),
    *(("sm90_gemm", base) for base in BASES),
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
        if beta and getattr(config, "accumulators", 0) > 128:
            continue  # no registers are left to load C
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


@pytest.mark.parametrize("a_major", "KM")
@pytest.mark.parametrize("b_major", "KN")
@pytest.mark.parametrize("d_major", "NM")
@pytest.mark.parametrize("config", [BASES[0], BASES[4]], ids=str)
def test_every_layout_in_batches(a_major: str, b_major: str, d_major: str, config: Any) -> None:
    def draw(rows: int, columns: int, row_major: bool) -> Any:
        shape = (3, rows, columns) if row_major else (3, columns, rows)
        data = torch.randint(-2, 3, shape, device="cuda").bfloat16()
        return data if row_major else data.transpose(1, 2)

    a, b = draw(520, 200, a_major == "K"), draw(200, 392, b_major == "N")
    out = draw(520, 392, d_major == "N").fill_(float("nan"))
    prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=config).run()
    assert bool((out == (a.double() @ b.double()).bfloat16()).all())


@pytest.mark.parametrize("parts", [2, 8, 31])
def test_split_k_is_exact_and_always_the_same(parts: int) -> None:
    a, b, _, out = operands((520, 392, 2000), torch.bfloat16, integers=True)
    config = Sm90GemmConfig((128, 128, 64), 4, split_k=parts)
    launch = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=config).bind()
    wanted = (a.double() @ b.double()).bfloat16()
    for _ in range(50):
        out.fill_(float("nan"))
        launch()
        assert bool((out == wanted).all())
    assert guards_survive(out)


@pytest.mark.parametrize("batches", [65535, 65536, 100000])
@pytest.mark.parametrize("kernel", ["sm90_gemm", "simt_gemm"])
def test_more_batches_than_a_grid_has_rows(kernel: str, batches: int) -> None:
    """CASES A21."""
    a = torch.randint(-2, 3, (batches, 16, 8), device="cuda").half()
    b = torch.randint(-2, 3, (batches, 16, 8), device="cuda").half().transpose(1, 2)
    out = torch.full((batches, 16, 16), float("nan"), device="cuda", dtype=torch.half)
    prepare_gemm(a, b, out=out, kernel=kernel).run()
    assert bool((out == (a.float() @ b.float()).half()).all())


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_fused_epilogue(activation: str) -> None:
    a, b, _, out = operands((520, 392, 200), torch.bfloat16, integers=False)
    bias = torch.randn(392, device="cuda")
    prepared = prepare_gemm(a, b, bias=bias, activation=activation, out=out)
    prepared.run()
    torch.cuda.synchronize()
    result = prepared.verify()
    assert result.passed, result.message
    assert guards_survive(out)
