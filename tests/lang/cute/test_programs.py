"""Whole kernels in CuTe's words, run on the simulated machine: the numbers are right."""

from __future__ import annotations

import kernels_hopper as hopper
import kernels_simple as simple
import launched
import ml_dtypes
import numpy as np
import pytest
from launched import BF16, integers, product

from tilewright.lang.values import Float8E4M3FN


@pytest.mark.parametrize("shape", [(128, 64, 64), (100, 70, 36)])
def test_simt_gemm(shape: tuple[int, int, int]) -> None:
    """Ragged sizes too: coordinates tell what is in bounds."""
    m, n, k = shape
    a, b = integers((m, k), np.float32, 0), integers((n, k), np.float32, 1)
    c = np.full((m, n), np.nan, np.float32)
    launched.run(simple.simt_host, [a, b, c])
    assert (c == product(a, b)).all()


@pytest.mark.parametrize("transposed", [False, True])
def test_ampere_gemm(transposed: bool) -> None:
    """cp.async into swizzled shared memory, ldmatrix (and its transpose), mma.sync."""
    a = integers((128, 96), BF16, 0, not transposed)
    b = integers((64, 96), BF16, 1, not transposed)
    c = np.full((128, 64), np.nan, BF16)
    launched.run(simple.ampere_host, [a, b, c], (transposed,), on="sm_80")
    assert (c == product(a, b).astype(BF16)).all()


CONFIGS = {
    "plain": hopper.Config(),
    "A in M": hopper.Config(a_major="MN"),
    "B in N": hopper.Config(b_major="MN"),
    "both": hopper.Config(a_major="MN", b_major="MN"),
    "64B": hopper.Config(swizzle="SW64"),
    "32B MN": hopper.Config(swizzle="SW32", a_major="MN", b_major="MN"),
    "no swizzle": hopper.Config(swizzle="INTER"),
    "no swizzle MN": hopper.Config(swizzle="INTER", a_major="MN", b_major="MN"),
    "two spans": hopper.Config(tile=(128, 64, 128), stages=2),
    "wide": hopper.Config(tile=(64, 128, 64)),
    "multicast": hopper.Config(cluster=2),
    "A in registers": hopper.Config(a_in_registers=True),
    "fp8": hopper.Config(tile=(128, 64, 128), element=Float8E4M3FN),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_hopper_gemm(name: str) -> None:
    config = CONFIGS[name]
    kind = BF16 if config.element.width == 16 else ml_dtypes.float8_e4m3fn
    a = integers((256, 320), kind, 0, config.a_major == "K")
    b = integers((128, 320), kind, 1, config.b_major == "K")
    c = np.full((256, 128), np.nan, BF16)
    for seed in range(2):
        launched.run(hopper.host, [a, b, c], (config,), seed=seed)
        assert (c == product(a, b).astype(BF16)).all()
