"""The GPU's check against the host's, with NumPy in torch's clothes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.library.reference import gemm_reference, verify_gemm
from tilewright.numeric.dtypes import F16
from tilewright.profiler import verify
from tilewright.profiler.verify import verify_with_torch


class Tensor(np.ndarray[Any, Any]):
    """The few methods of a torch tensor that the check uses."""

    def double(self) -> Tensor:
        return self.astype(np.float64)

    def abs(self) -> Tensor:
        return np.abs(self)


class Torch:
    where = staticmethod(np.where)
    isfinite = staticmethod(np.isfinite)
    isnan = staticmethod(np.isnan)


def operands(seed: int = 0) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    a, b, c = (rng.standard_normal(s).astype(np.float16) for s in ((37, 24), (24, 19), (37, 19)))
    out = (2 * a.astype(np.float32) @ b.astype(np.float32) - c.astype(np.float32)).astype(
        np.float16
    )
    return a, b, c, out


def both(a: Any, b: Any, c: Any, out: Any) -> tuple[Any, Any]:
    reference, size = gemm_reference(a, b, c, 2.0, -1.0)
    host = verify_gemm(out, reference, size, a.shape[1], F16)
    tensors = [x.view(Tensor) for x in (out, a, b, c)]
    with np.errstate(invalid="ignore"):
        device = verify_with_torch(Torch, *tensors, 2.0, -1.0, F16)
    return host, device


@pytest.mark.parametrize("rows", [1, 5, 1000])
def test_it_agrees_with_the_host(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "BLOCK_ELEMENTS", rows * 19)
    host, device = both(*operands())
    assert host.passed
    assert device.passed
    assert device.where == host.where
    assert device.worst == pytest.approx(host.worst)
    assert device.relative == pytest.approx(host.relative)
    assert device.message == host.message


@pytest.mark.parametrize("value", [np.nan, np.inf, 3.0])
def test_one_wrong_element_is_found(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "BLOCK_ELEMENTS", 8 * 19)
    a, b, c, out = operands(1)
    out[33, 17] = value
    host, device = both(a, b, c, out)
    assert not device.passed
    assert device.where == host.where == (33, 17)
    assert device.message.startswith("WRONG: element (33, 17) is ")
    assert "expected" in device.message


def test_infinities_of_the_reference_are_allowed() -> None:
    a, b, c, out = operands(2)
    c[3, 4] = np.inf
    out[3, 4] = -np.inf
    host, device = both(a, b, c, out)
    assert host.passed
    assert device.passed


def test_empty() -> None:
    empty = np.empty((0, 4), np.float16).view(Tensor)
    assert verify_with_torch(Torch, empty, empty, empty, None, 1.0, 0.0, F16).passed
