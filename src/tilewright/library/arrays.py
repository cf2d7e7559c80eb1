"""Arrays of any framework, as the library needs them: made anew, brought to the host.

NumPy arrays are made by NumPy; torch tensors and CuPy arrays make their own kind (`new_empty`,
`cupy.empty`), so that a result lies where its inputs lie.  No framework is imported.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewright.errors import LaunchError
from tilewright.numeric.convert import storage_dtype
from tilewright.numeric.dtypes import BF16, DType, dtype
from tilewright.runtime.arrays import as_array

Array = np.ndarray[Any, np.dtype[Any]]

_TORCH_NAMES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "i32": "int32",
    "i8": "int8",
    "u8": "uint8",
}


def new_array(like: Any, shape: tuple[int, ...], element: str | DType) -> Any:
    """An uninitialised row-major array of the kind of `like`, on its device.

    Raises: LaunchError where the framework of `like` has no such type, or is not known.
    """
    row = dtype(element)
    if isinstance(like, np.ndarray):
        return np.empty(shape, storage_dtype(row))
    if hasattr(like, "new_empty"):
        torch_type = getattr(sys.modules.get("torch"), _TORCH_NAMES.get(row.name, ""), None)
        if torch_type is None:
            raise LaunchError(f"torch has no element type for {row.name}", hint="pass out=")
        return like.new_empty(shape, dtype=torch_type)
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(like, cupy.ndarray) and row is not BF16:
        return cupy.empty(shape, storage_dtype(row))
    raise LaunchError(
        f"no way to make a {row.name} array like {type(like).__name__}", hint="pass out="
    )


def zeros(like: Any, shape: tuple[int, ...], element: str | DType) -> Any:
    """A row-major array of zeros, of the kind of `like`."""
    made = new_array(like, shape, element)
    made[...] = 0
    return made


def host_array(obj: Any) -> Array:
    """The elements as a NumPy array on the host (a copy from a GPU, else a view)."""
    if isinstance(obj, np.ndarray):
        return obj
    view = as_array(obj)
    if hasattr(obj, "detach"):  # torch: NumPy does not know its bf16 and fp8, the bits it does
        host = obj.detach().cpu()
        bits = sys.modules["torch"].uint8 if host.element_size() == 1 else None
        bits = bits or {2: sys.modules["torch"].int16}.get(host.element_size())
        if bits is None or view.dtype in ("f16", "i8", "u8", "i16", "bool"):
            return np.asarray(host.numpy())
        return np.asarray(host.view(bits).numpy()).view(storage_dtype(dtype(view.dtype)))
    if hasattr(obj, "get"):  # CuPy
        return np.asarray(obj.get())
    return np.asarray(obj)
