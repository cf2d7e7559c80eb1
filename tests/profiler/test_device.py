from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from tilewright.errors import LaunchError
from tilewright.numeric.convert import storage_dtype
from tilewright.numeric.dtypes import BF16, F16, DType
from tilewright.profiler import device
from tilewright.profiler.device import CupyDevice, TorchDevice, choose_backend, open_framework
from tilewright.runtime.driver import Availability


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.driver, "is_available", lambda: Availability(False, "none here"))


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.driver, "is_available", lambda: Availability(True))
    monkeypatch.setattr(device.driver, "require_gpu", lambda: None)
    info = types.SimpleNamespace(target="sm_90a")
    monkeypatch.setattr(device.driver, "device_info", lambda: info)
    monkeypatch.setattr(device, "installed", lambda: "torch")


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu() -> None:
    assert choose_backend("auto") == choose_backend("sim") == "sim"
    with pytest.raises(LaunchError, match="no usable GPU: none here"):
        choose_backend("gpu")


@pytest.mark.usefixtures("h200")
def test_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_backend("auto") == choose_backend("auto", "sm_90") == "gpu"
    assert choose_backend("auto", "sm_80") == choose_backend("sim") == "sim"
    monkeypatch.setattr(device, "installed", lambda: "")
    assert choose_backend("auto") == "sim"
    with pytest.raises(LaunchError) as caught:
        choose_backend("gpu")
    assert caught.value.message == "a GPU run needs torch or CuPy for its arrays"
    assert caught.value.hint == device.INSTALL_HINT
    with pytest.raises(LaunchError, match="a GPU run needs torch or CuPy"):
        open_framework()


def test_a_backend_that_does_not_exist() -> None:
    with pytest.raises(LaunchError, match="backend 'tpu': expected auto, sim or gpu"):
        choose_backend("tpu")


def test_a_framework_that_sees_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("No CUDA GPUs are available\nmore")

    monkeypatch.setattr(device, "installed", lambda: "torch")
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(init=broken))
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    with pytest.raises(
        LaunchError, match=r"torch cannot use the GPU: No CUDA GPUs are available\n  hint"
    ):
        open_framework()


def test_cupy_takes_numpy_s_types_only(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = types.SimpleNamespace(asarray=lambda host: ("on the GPU", host.shape))
    monkeypatch.setitem(sys.modules, "cupy", cupy)  # type: ignore[arg-type]
    framework = CupyDevice()
    assert framework.upload(np.zeros((2, 3), np.float16), F16) == ("on the GPU", (2, 3))
    with pytest.raises(LaunchError, match="CuPy has no element type for bf16"):
        framework.upload(np.zeros((2, 3), storage_dtype(BF16)), BF16)


@pytest.mark.parametrize("row", [BF16, F16])
def test_torch_gets_the_bits_and_the_layout(row: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)
    host = np.arange(6, dtype=np.float32).reshape(2, 3).astype(storage_dtype(row))
    for array, strides in ((host, (3, 1)), (host.T, (1, 3))):
        tensor = TorchDevice().upload(array, row)
        assert str(tensor.dtype) == f"torch.{row.numpy_name}"
        assert tensor.stride() == strides
        assert tensor.float().tolist() == array.astype(np.float32).tolist()
