"""Blocks that share tiles, on a GPU: exact, launch after launch on one workspace, no deadlock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.gemm import prepare_gemm

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.gpu("sm_90a")

WIDE = Sm90GemmConfig()
IN_TURNS = Sm90GemmConfig((128, 128, 64), 5, 8, schedule="pingpong", store_buffers=2)
CLUSTER = Sm90GemmConfig((128, 64, 64), 6, reduction="cluster", epilogue="direct")
NARROW = Sm90GemmConfig((128, 16, 128), 5, reduction="cluster", epilogue="direct")
STREAMS = [
    replace(base, scheduler="stream_k", stream_waves=waves, reduction=reduction)
    for base in (WIDE, IN_TURNS)
    for waves in (1, 2)
    for reduction in ("parallel", "fast")
]
SPLITS = [
    *(replace(WIDE, split_k=3, reduction=r) for r in ("parallel", "serial", "fast")),
    *(replace(CLUSTER, split_k=parts) for parts in (2, 3, 8, 16)),
    replace(NARROW, split_k=4),
]
SIZES = [(3000, 1304, 1032), (200, 264, 4096), (129, 136, 1024), (2048, 2048, 2048)]


def integers(size: tuple[int, int, int]) -> tuple[Any, Any, Any, Any]:
    m, n, k = size
    a = torch.randint(-2, 3, (m, k), device="cuda").bfloat16()
    b = torch.randint(-2, 3, (n, k), device="cuda").bfloat16().T
    out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    return a, b, out, (a.double() @ b.double()).bfloat16()


@pytest.mark.parametrize("config", [*STREAMS, *SPLITS], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_exact_launch_after_launch(config: Sm90GemmConfig, size: tuple[int, int, int]) -> None:
    a, b, out, wanted = integers(size)
    launch = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=config).bind()
    for _ in range(30):
        out.fill_(float("nan"))
        launch()
        assert bool((out == wanted).all())
    # Back to back, so that the next launch's blocks start while the last ones end.
    for _ in range(200):
        launch()
    torch.cuda.synchronize()
    assert bool((out == wanted).all())


@pytest.mark.parametrize("config", [*STREAMS, *SPLITS], ids=str)
def test_the_same_bits_in_every_run(config: Sm90GemmConfig) -> None:
    if config.reduction == "fast":
        pytest.skip("its order of adding is that of arrival")
    a = torch.randn(1000, 1304, device="cuda").bfloat16()
    b = torch.randn(1000, 1304, device="cuda").bfloat16().T
    out = torch.empty(1000, 1000, device="cuda", dtype=torch.float32)
    direct = replace(config, epilogue="direct")
    prepared = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=direct)
    launch = prepared.bind()
    launch()
    first = out.clone()
    for _ in range(50):
        out.fill_(float("nan"))
        launch()
        assert bool((out == first).all())
    assert prepared.verify().passed


def test_with_another_kernel_beside_it() -> None:
    """Blocks that wait are safe where not all of them can run at the same time."""
    config = replace(WIDE, scheduler="stream_k")
    a, b, out, wanted = integers((1664, 1304, 4096))
    launch = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=config).bind()
    side, busy = torch.cuda.Stream(), torch.randn(4096, 4096, device="cuda")
    for _ in range(20):
        with torch.cuda.stream(side):
            busy @ busy
        out.fill_(float("nan"))
        launch()
        assert bool((out == wanted).all())


@pytest.mark.parametrize("m", [16, 32, 64])
@pytest.mark.parametrize("parts", [2, 4, 8])
def test_few_rows(m: int, parts: int) -> None:
    a, b, out, wanted = integers((m, 1000, 4096))
    config = Sm90GemmConfig(
        (128, m, 128), 4, split_k=parts, reduction="cluster", epilogue="direct", swap_operands=True
    )
    launch = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=config).bind()
    for _ in range(30):
        out.fill_(float("nan"))
        launch()
        assert bool((out == wanted).all())
