"""The GPU's side of a run: torch or CuPy makes the arrays, sweeps the L2 and keeps the time.

Neither is imported before a GPU is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Protocol

import numpy as np

from tilewright.errors import LaunchError
from tilewright.library.reference import Array
from tilewright.numeric.dtypes import DType
from tilewright.runtime import driver

SWEEP_BYTES = 256 << 20
"""Several times the L2 of any GPU (H200: 60 MB)."""

INSTALL_HINT = "pip install torch (or cupy-cuda13x), or use --backend=sim"


class Framework(Protocol):
    """What a run needs of an array package; it is a `timing.Clock` as well."""

    name: str

    def upload(self, host: Array, row: DType) -> Any:
        """A copy on the GPU, of the same shape and the same layout."""

    def sweep(self) -> None: ...

    def mark(self) -> Any: ...

    def synchronize(self) -> None: ...

    def elapsed_us(self, start: Any, stop: Any) -> float: ...


class TorchDevice:
    """torch on its current GPU."""

    name = "torch"

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")
        self.torch.cuda.init()
        self._l2: Any = None
        self._sum: Any = None

    def upload(self, host: Array, row: DType) -> Any:
        flipped = not host.flags.c_contiguous
        data = np.ascontiguousarray(host.T if flipped else host)
        # torch does not take ml_dtypes, so it is handed the bits.
        bits = data.view({1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}[data.itemsize])
        tensor = self.torch.from_numpy(bits).cuda().view(getattr(self.torch, row.numpy_name))
        return tensor.T if flipped else tensor

    def sweep(self) -> None:
        if self._l2 is None:
            self._l2 = self.torch.ones(SWEEP_BYTES // 4, device="cuda")
            self._sum = self.torch.empty((), device="cuda")
        self.torch.sum(self._l2, dim=0, out=self._sum)

    def mark(self) -> Any:
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()

    def elapsed_us(self, start: Any, stop: Any) -> float:
        return float(start.elapsed_time(stop)) * 1e3


class CupyDevice:
    """CuPy on its current GPU.  It has no bf16 and no fp8."""

    name = "cupy"

    def __init__(self) -> None:
        self.cupy = importlib.import_module("cupy")
        self._l2: Any = None
        self._sum: Any = None

    def upload(self, host: Array, row: DType) -> Any:
        if host.dtype.isbuiltin != 1:  # registered by ml_dtypes
            raise LaunchError(
                f"CuPy has no element type for {row.name}", hint="pip install torch, or use f16"
            )
        return self.cupy.asarray(host)

    def sweep(self) -> None:
        if self._l2 is None:
            self._l2 = self.cupy.ones(SWEEP_BYTES // 4, dtype="float32")
            self._sum = self.cupy.empty((), dtype="float32")
        self.cupy.sum(self._l2, out=self._sum)

    def mark(self) -> Any:
        event = self.cupy.cuda.Event()
        event.record()
        return event

    def synchronize(self) -> None:
        self.cupy.cuda.runtime.deviceSynchronize()

    def elapsed_us(self, start: Any, stop: Any) -> float:
        return float(self.cupy.cuda.get_elapsed_time(start, stop)) * 1e3


def installed() -> str:
    """The array package that a GPU run would use: `torch`, `cupy`, or empty.

    >>> installed() in ("torch", "cupy", "")
    True
    """
    for name in ("torch", "cupy"):
        if importlib.util.find_spec(name) is not None:
            return name
    return ""


def choose_backend(asked: str, arch: str = "") -> str:
    """`gpu` or `sim`: what `asked` says, or for `auto`, gpu where one can be used.

    An `arch` that is not the GPU's own can only be simulated.
    Raises: LaunchError if a GPU is asked for and there is none, with the reason.
    """
    if asked not in ("auto", "sim", "gpu"):
        raise LaunchError(f"backend {asked!r}: expected auto, sim or gpu")
    if asked == "gpu":
        driver.require_gpu()
        if not installed():
            raise LaunchError("a GPU run needs torch or CuPy for its arrays", hint=INSTALL_HINT)
        return "gpu"
    if asked == "sim" or not driver.is_available() or not installed():
        return "sim"
    own = driver.device_info().target
    return "gpu" if arch in ("", own, own.removesuffix("a")) else "sim"


def open_framework() -> Framework:
    """torch if it is installed, else CuPy.

    Raises: LaunchError if neither is, or it sees no GPU.
    """
    found = installed()
    if not found:
        raise LaunchError("a GPU run needs torch or CuPy for its arrays", hint=INSTALL_HINT)
    try:
        return TorchDevice() if found == "torch" else CupyDevice()
    except (ImportError, RuntimeError, AssertionError) as error:
        raise LaunchError(
            f"{found} cannot use the GPU: {str(error).splitlines()[0]}", hint=INSTALL_HINT
        ) from error
