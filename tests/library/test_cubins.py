"""The kernels as CUDA text and as machine code: what a GPU would get, checked without one."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.compiler import Compiled
from tilewright.library import heuristics
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.gemm import prepare_gemm, random_operands
from tilewright.library.problem import GemmProblem
from tilewright.runtime import cuda_api
from tilewright.runtime.sass import opcode_counts

GOLDEN = Path(__file__).parent.parent / "golden" / "library"

needs_nvrtc = pytest.mark.skipif(
    cuda_api.nvrtc is None, reason="the cuda extra is not installed: no NVRTC"
)


def compiled(kernel: str, arch: str = "sm_90a", dtype: str = "bf16", c: bool = False) -> Compiled:
    problem = GemmProblem.packed(256, 256, 64, ab=dtype, d=dtype, with_c=c)
    a, b, given, out = random_operands(problem)
    beta = 1.0 if c else 0.0
    config = Sm90GemmConfig() if kernel == "sm90_gemm" else None
    prepared = prepare_gemm(
        a, b, given, beta=beta, out=out, kernel=kernel, config=config, arch=arch
    )
    assert prepared.compiled is not None
    return prepared.compiled


@pytest.mark.parametrize("kernel", ["sm90_gemm", "simt_gemm"])
def test_cuda_text_is_golden(kernel: str) -> None:
    """`UPDATE_GOLDEN=1 pytest tests/library/test_cubins.py` writes the files anew."""
    text = compiled(kernel).source(line_info=False)
    path = GOLDEN / f"{kernel}.cu"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "read the difference; if it should be, run UPDATE_GOLDEN=1"


@needs_nvrtc
@pytest.mark.parametrize("c", [False, True], ids=["beta0", "with_C"])
def test_sm90_gemm_is_what_hopper_wants(c: bool) -> None:
    """Compiling raises for a spill, a serialised wgmma, or an ignored setmaxnreg (C75xx)."""
    cubin = compiled("sm90_gemm", c=c).cubin()
    assert cubin.registers == {"sm90_gemm_kernel": 168}
    assert cubin.warnings == ()
    assert (cubin.spill_stores, cubin.spill_loads, cubin.stack_bytes) == (0, 0, 0)
    counts = opcode_counts(cubin.cubin)
    assert counts["HGMMA.64x256x16.F32.BF16"] == 4  # one k tile: not unrolled, not peeled
    assert counts["UTMALDG.2D"] == 2
    assert counts["UTMASTG.2D"] == 4
    assert counts["STSM.16.M88.4"] == 16
    assert counts["USETMAXREG.DEALLOC.CTAPOOL"] == counts["USETMAXREG.TRY_ALLOC.CTAPOOL"] == 1
    assert not any(op.startswith(("LDL", "STL")) for op in counts)


@needs_nvrtc
@pytest.mark.parametrize(
    ("arch", "dtype"), [("sm_80", "f16"), ("sm_90a", "bf16"), ("sm_100a", "f16")]
)
def test_sm80_gemm_uses_tensor_cores(arch: str, dtype: str) -> None:
    cubin = compiled("sm80_gemm", arch, dtype).cubin()
    assert (cubin.spill_stores, cubin.spill_loads) == (0, 0)
    counts = opcode_counts(cubin.cubin)
    k = 64 if arch == "sm_90a" else 32
    assert sum(n for op, n in counts.items() if op.startswith("HMMA.16816")) == 2 * k
    assert any(op.startswith("LDGSTS") for op in counts)
    assert any(op.startswith("LDSM.16") for op in counts)
    assert not any(op.startswith(("LDL", "STL")) for op in counts)


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_simt_gemm_keeps_its_registers(arch: str) -> None:
    cubin = compiled("simt_gemm", arch, "f32").cubin()
    assert (cubin.spill_stores, cubin.spill_loads) == (0, 0)
    counts = opcode_counts(cubin.cubin)
    assert counts["FFMA"] >= 512  # 8 k steps of 8x8, unrolled
    assert any(op.startswith("LDS.128") for op in counts)
    assert not any(op.startswith(("LDL", "STL")) for op in counts)


BASES = tuple(dict.fromkeys((*heuristics._WIDE, *heuristics._NARROW)))


KINDS = (
    *heuristics._WIDE,
    *heuristics._NARROW[1:5:2],
    *heuristics._NARROW[-2:],
    Sm90GemmConfig((128, 128, 64), 3, 8, schedule="warp_specialized", blocks_per_sm=2),
    Sm90GemmConfig((128, 64, 64), 2, 8, 1, schedule="warp_specialized", blocks_per_sm=3),
    Sm90GemmConfig((64, 64, 64), 2, 8, 1, schedule="warp_specialized", blocks_per_sm=4),
    Sm90GemmConfig((128, 128, 64), 3, schedule="unspecialized", blocks_per_sm=2),
    Sm90GemmConfig((64, 128, 64), 2, store_boxes=1, schedule="unspecialized", blocks_per_sm=3),
)
"""All wide ones, a narrow one of each schedule, and those of several blocks on an SM."""


@needs_nvrtc
@pytest.mark.parametrize("base", KINDS, ids=str)
def test_no_config_spills(base: Sm90GemmConfig) -> None:
    """Compiling raises for a spill, a serialised wgmma, or an ignored setmaxnreg (C75xx).

    With C, a bias and GELU, unless they are refused for want of registers.
    """
    fused = base.accumulators <= 128
    problem = GemmProblem.packed(256, 256, 128, ab="bf16", d="bf16", with_c=fused)
    a, b, c, out = random_operands(problem)
    extra: dict[str, Any] = (
        {"bias": out[0].copy(), "activation": "gelu_tanh", "beta": 1.0} if fused else {}
    )
    prepared = prepare_gemm(a, b, c, out=out, kernel="sm90_gemm", config=base, **extra)
    assert prepared.compiled is not None
    cubin = prepared.compiled.cubin()
    assert cubin.warnings == ()
    assert (cubin.spill_stores, cubin.spill_loads) == (0, 0)
    assert max(cubin.registers.values()) <= base.even_registers


@needs_nvrtc
def test_a_block_for_each_tile_has_its_instructions_once() -> None:
    """One tile: no loop over tiles, and no wait before the first of its two turns of boxes."""
    config = Sm90GemmConfig((128, 128, 64), 3, schedule="warp_specialized", blocks_per_sm=2)
    a, b, _, out = random_operands(GemmProblem.packed(256, 256, 512, ab="bf16", d="bf16"))
    prepared = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=config)
    assert prepared.compiled is not None
    cubin = prepared.compiled.cubin()
    assert cubin.registers == {"sm90_gemm_kernel": 128}
    counts = opcode_counts(cubin.cubin)
    assert counts["HGMMA.64x128x16.F32.BF16"] == 2 * 4  # two groups of 64 rows, four steps of K
    assert counts["UTMALDG.2D"] == 2
    assert counts["UTMASTG.2D"] == 4
    assert counts["USETMAXREG.DEALLOC.CTAPOOL"] == counts["USETMAXREG.TRY_ALLOC.CTAPOOL"] == 1
    assert not any(op.startswith(("LDL", "STL")) for op in counts)


WIDE = Sm90GemmConfig()
CLUSTER = Sm90GemmConfig((128, 16, 128), 5, epilogue="direct", reduction="cluster")
SHARING = (
    replace(WIDE, scheduler="stream_k"),
    replace(WIDE, scheduler="stream_k", stream_waves=2, reduction="fast"),
    replace(BASES[5], scheduler="stream_k", stream_waves=2),
    replace(WIDE, split_k=2, reduction="serial"),
    replace(CLUSTER, split_k=4),
    replace(CLUSTER, split_k=16),
    replace(CLUSTER, tile_shape_mnk=(64, 16, 64), schedule="pingpong", split_k=16),
)


@needs_nvrtc
@pytest.mark.parametrize("config", SHARING, ids=str)
def test_sharing_tiles_spills_nothing(config: Sm90GemmConfig) -> None:
    a, b, _, out = random_operands(GemmProblem.packed(256, 256, 2048, ab="bf16", d="bf16"))
    prepared = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=config)
    assert prepared.compiled is not None
    cubin = prepared.compiled.cubin()
    assert cubin.registers == {"sm90_gemm_kernel": 168}
    assert (cubin.warnings, cubin.spill_stores, cubin.stack_bytes) == ((), 0, 0)
    counts = opcode_counts(cubin.cubin)
    values = config.accumulators
    if config.in_cluster:
        assert counts["STAS.128"] == values // 4
        # The one fence is for another tile's sums: neither start nor end of a cluster has one.
        assert counts["MEMBAR.ALL.GPU"] == 1
        assert not any(op.startswith(("STG.E.128", "ATOM", "RED")) for op in counts)
    elif config.reduction == "fast":
        # No atomic of a sum waits for what was there.
        assert counts["REDG.E.ADD.F32.FTZ.RN.STRONG.GPU"] == values
        assert counts["LDG.E"] == counts["STG.E"] == values
    else:
        assert counts["STG.E.128"] == counts["LDG.E.128"] == values // 4


@needs_nvrtc
@pytest.mark.parametrize("tile", [(256, 128, 64), (128, 128, 64)], ids=str)
def test_the_longest_activation_spills_nothing(tile: tuple[int, int, int]) -> None:
    base = next(b for b in BASES if b.tile_shape_mnk == tile and b.accumulators == 128)
    a, b, _, out = random_operands(GemmProblem.packed(256, 256, 128, ab="bf16", d="bf16"))
    prepared = prepare_gemm(
        a, b, bias=out[0].copy(), activation="gelu", out=out, kernel="sm90_gemm", config=base
    )
    assert prepared.compiled is not None
    assert prepared.compiled.cubin().spill_stores == 0
