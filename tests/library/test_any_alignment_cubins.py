"""Kernels for any alignment as machine code: copies and stores as wide as the data allow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilewright.arch.target import target
from tilewright.library import cpasync_config
from tilewright.library.cpasync_config import Sm90CpAsyncConfig, copy_bytes, cpasync_refusal
from tilewright.library.gemm import prepare_gemm, random_operands
from tilewright.library.kernels.sm80_gemm import Sm80GemmConfig
from tilewright.library.problem import GemmProblem
from tilewright.runtime import cuda_api
from tilewright.runtime.sass import opcode_counts

from .odd_arrays import integers

needs_nvrtc = pytest.mark.skipif(
    cuda_api.nvrtc is None, reason="the cuda extra is not installed: no NVRTC"
)
ODD = GemmProblem.packed(255, 255, 255, ab="bf16", d="bf16", with_c=True, b_major="N")
COPIES = {16: "128", 8: "64", 4: "32"}


def widths(counts: Any, family: str) -> set[str]:
    """The widths of the instructions of a family: "16", "32", "64" or "128"."""
    found = set()
    for op in counts:
        name, *fields = op.split(".")
        if name == family:
            wide = [f for f in fields if f in ("64", "128")]
            found.add(wide[0] if wide else "16" if "U16" in fields else "32")
    return found


def machine_code(kernel: str, arch: str, problem: GemmProblem, config: Any = None, **call: Any):
    """(opcode counts, cubin); compiling raises for a spill or a warning."""
    a, b, c, out = random_operands(problem)
    prepared = prepare_gemm(
        a, b, c, out=out, kernel=kernel, arch=arch, config=config, beta=1.0 if c is not None else 0,
        **call,
    )  # fmt: skip
    assert prepared.compiled is not None
    cubin = prepared.compiled.cubin()
    assert cubin.warnings == ()
    assert (cubin.spill_stores, cubin.spill_loads, cubin.stack_bytes) == (0, 0, 0)
    return opcode_counts(cubin.cubin), cubin


@needs_nvrtc
@pytest.mark.parametrize(
    ("kernel", "arch", "turn"),
    [("sm90_cpasync_gemm", "sm_90a", 0), ("sm80_gemm", "sm_80", 1)],
)
@pytest.mark.parametrize(
    ("k", "first"), [(256, "KK"), (252, "MN"), (254, "KK"), (255, "MN"), (252, "KK")], ids=str
)
def test_copies_are_as_wide_as_the_operands_allow(
    kernel: str, arch: str, turn: int, k: int, first: str
) -> None:
    """Where one kernel has K contiguous in A and B, the other one has M and N."""
    majors = ("KK", "MN")[(first == "MN") ^ turn]
    m, n = (256, 256) if majors == "KK" else (k, k)
    problem = GemmProblem.packed(m, n, k, ab="bf16", d="bf16", a_major=majors[0], b_major=majors[1])
    counts, _ = machine_code(kernel, arch, problem)
    nbytes = copy_bytes(problem, problem.a)
    if nbytes > 2:
        assert widths(counts, "LDGSTS") == {COPIES[nbytes]}
    else:
        assert not widths(counts, "LDGSTS")
        assert widths(counts, "LDG") == {"16"}
        assert "32" in widths(counts, "STS")
    if kernel == "sm90_cpasync_gemm":
        assert any(op.startswith("HGMMA") for op in counts)
    else:
        turned = any(op.startswith("LDSM") and ".MT88" in op for op in counts)
        assert turned == (majors == "MN")


BY_ELEMENTS = [
    config
    for base in cpasync_config._TILES
    for config in cpasync_config._by_elements(replace(base, a_bytes=2, b_bytes=2))
    if cpasync_refusal(ODD, target("sm_90a"), config) is None
]
KINDS = (((256, 128, 64), 1), ((128, 128, 64), 2), ((128, 32, 64), 1))
"""The most accumulators, two producers, and few registers for all."""


@needs_nvrtc
@pytest.mark.parametrize(
    "config", [c for c in BY_ELEMENTS if (c.tile_shape_mnk, c.producers) in KINDS], ids=str
)
def test_no_tile_spills(config: Sm90CpAsyncConfig) -> None:
    """The most registers: copies through them, C, a bias and the longest activation."""
    bias = random_operands(ODD)[3][0].copy()
    _, cubin = machine_code(
        "sm90_cpasync_gemm", "sm_90a", ODD, config, bias=bias, activation="gelu"
    )
    assert max(cubin.registers.values()) <= 65536 // config.threads // 8 * 8


@needs_nvrtc
@pytest.mark.parametrize(
    ("kernel", "n", "d_dtype", "width", "d_major"),
    [
        ("sm80_gemm", 256, "bf16", "32", "N"),
        ("sm80_gemm", 255, "bf16", "16", "N"),
        ("sm80_gemm", 256, "f32", "64", "M"),
        ("simt_gemm", 256, "f32", "128", "N"),
        ("simt_gemm", 256, "f32", "128", "M"),
        ("simt_gemm", 254, "f32", "64", "N"),
        ("simt_gemm", 252, "bf16", "64", "M"),
    ],
)
def test_the_direct_epilogue_loads_c_and_stores_in_vectors(
    kernel: str, n: int, d_dtype: str, width: str, d_major: str
) -> None:
    """A thread of mma.sync has two neighbours of a row, one of `simt_gemm` four of both."""
    m, n = (256, n) if d_major == "N" else (n, 256)
    problem = GemmProblem.packed(m, n, 64, ab="bf16", d=d_dtype, d_major=d_major, with_c=True)
    counts, _ = machine_code(kernel, "sm_80", problem)
    assert width in widths(counts, "STG")
    assert width in widths(counts, "LDG")
    assert max(map(int, widths(counts, "STG"))) == int(width)


@needs_nvrtc
def test_an_odd_output_has_one_store_for_each_element() -> None:
    a, b = integers(256, 64), integers(64, 255, row_major=False)
    prepared = prepare_gemm(a, b, kernel="sm80_gemm", config=Sm80GemmConfig(), arch="sm_90a")
    assert prepared.compiled is not None
    counts = opcode_counts(prepared.compiled.cubin().cubin)
    assert sum(n for op, n in counts.items() if op.startswith("STG")) == 128
