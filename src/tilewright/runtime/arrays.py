"""Any array of the Python world -> address, shape, strides and element type.

NumPy arrays, torch tensors, objects with the CUDA array interface (CuPy, Numba) and objects with
DLPack (JAX and the rest) come out as one `ArrayView`.  None of those packages is imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.errors import LaunchError
from tilewright.numeric.dtypes import ALL_DTYPES, DType
from tilewright.runtime.dlpack import export_capsule, read_capsule

_EXPECTED = "expected an array (NumPy, torch, CuPy, DLPack)"


@dataclass(frozen=True, slots=True)
class ArrayView:
    """Where an array lies.

    Units:  `pointer` in bytes, of element (0, 0, ...); `strides` in elements, may be negative;
            `element_bits` from one element to the next: 4 where two 4-bit elements share a byte,
            8 where each fills one (ml_dtypes), else the width of `dtype`.
    `owner` keeps the memory alive.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    element_bits: int
    device: str = "cpu"
    readonly: bool = False
    owner: Any = field(default=None, repr=False, compare=False)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def strides_bytes(self) -> tuple[int, ...]:
        """Strides in bytes; a packed 4-bit stride of 1 is half a byte and rounds down to 0."""
        return tuple(stride * self.element_bits // 8 for stride in self.strides)


def as_array(obj: object, argument: str = "argument") -> ArrayView:
    """The view of `obj`; `argument` is what messages call it: `argument 2 (b)`.

    Raises: LaunchError for something that is no array, or one that no kernel can address.

    >>> import numpy as np
    >>> view = as_array(np.zeros((4, 6), np.float16)[:, ::2])
    >>> view.shape, view.strides, view.dtype, view.device
    ((4, 3), (6, 2), 'f16', 'cpu')
    """
    reader = _readers.get(type(obj))
    if reader is None:
        reader = _choose_reader(obj, argument)
        _readers[type(obj)] = reader
    return reader(obj, argument)


def host_bytes(view: ArrayView) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], int]:
    """The caller's own memory from the lowest to the highest element, and its base address.

    Writing to the buffer writes to the array.  Element (i, j, ...) lies at byte
    `view.pointer - base + sum(index * stride) * element_bits / 8`.
    Raises: LaunchError for an array on a GPU.

    >>> import numpy as np
    >>> a = np.zeros((2, 3), np.int16)
    >>> data, base = host_bytes(as_array(a[:, ::-1]))
    >>> data[:2] = 1, 2
    >>> int(a[0, 0]), len(data), base == a.ctypes.data
    (513, 12, True)
    """
    if view.device != "cpu":
        raise LaunchError(f"the array lies on {view.device}, expected CPU memory")
    if not view.size:
        return np.empty(0, np.uint8), view.pointer
    low = high = 0
    for extent, stride in zip(view.shape, view.strides, strict=True):
        low += min((extent - 1) * stride, 0)
        high += max((extent - 1) * stride, 0)
    start = view.pointer + low * view.element_bits // 8
    stop = view.pointer - (-(high + 1) * view.element_bits // 8)
    return np.asarray(_Span(start, stop - start, view)), start


class _Span:
    """Raw host memory in NumPy's own terms; NumPy keeps this object, and so the owner, alive."""

    def __init__(self, address: int, size: int, view: ArrayView) -> None:
        self.owner = view.owner
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (size,),
            "data": (address, view.readonly),
        }


_Reader = Callable[[Any, str], ArrayView]
_readers: dict[type, _Reader] = {}


def _choose_reader(obj: Any, argument: str) -> _Reader:
    if isinstance(obj, ArrayView):
        return _read_view
    if isinstance(obj, np.ndarray):
        return _read_numpy
    if all(hasattr(obj, name) for name in ("data_ptr", "stride", "dtype", "shape", "is_cuda")):
        return _read_torch
    if hasattr(type(obj), "__cuda_array_interface__"):
        return _read_cuda_interface
    if hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__"):
        return _read_dlpack
    raise LaunchError(f"{argument}: {_EXPECTED}, got {type(obj).__name__}")


def _read_view(view: ArrayView, _argument: str) -> ArrayView:
    return view


# ml_dtypes are NumPy types of their own; tf32 and f32 look the same, and f32 is meant.
_NUMPY_ROWS: dict[np.dtype[Any], DType] = {
    np.dtype(getattr(ml_dtypes, row.numpy_name, None) or row.numpy_name): row
    for row in ALL_DTYPES
    if row.name != "tf32"
}


def _read_numpy(array: np.ndarray[Any, np.dtype[Any]], argument: str) -> ArrayView:
    # Never through __dlpack__: NumPy refuses to export ml_dtypes and read-only arrays by it.
    row = _NUMPY_ROWS.get(array.dtype)
    if row is None:
        raise LaunchError(
            f"{argument}: NumPy dtype {array.dtype} is not an element type of a kernel"
        )
    item = array.dtype.itemsize
    return ArrayView(
        pointer=int(array.ctypes.data),
        shape=array.shape,
        strides=_element_strides(array.strides, item, argument),
        dtype=row.name,
        element_bits=8 * item,
        readonly=not array.flags.writeable,
        owner=array,
    )


_TORCH_NAMES = {row.numpy_name: row for row in ALL_DTYPES if row.name != "tf32"}
_PACKED_SUFFIX = "_x2"  # torch.float4_e2m1fn_x2: one torch element is two of ours


def _read_torch(tensor: Any, argument: str) -> ArrayView:
    name = str(tensor.dtype).removeprefix("torch.")
    lanes = 2 if name.endswith(_PACKED_SUFFIX) else 1
    row = _TORCH_NAMES.get(name.removesuffix(_PACKED_SUFFIX))
    if row is None:
        raise LaunchError(f"{argument}: torch.{name} is not an element type of a kernel")
    if tensor.is_cuda:
        device = f"cuda:{tensor.get_device()}"
    elif str(tensor.device) == "cpu":
        device = "cpu"
    else:
        raise LaunchError(f"{argument}: the tensor lies on {tensor.device}, expected cpu or cuda")
    view = ArrayView(
        pointer=tensor.data_ptr(),
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        dtype=row.name,
        element_bits=row.storage_bits,
        device=device,
        owner=tensor,
    )
    return _unpack_lanes(view, lanes, argument)


def _read_cuda_interface(obj: Any, argument: str) -> ArrayView:
    # A type whose elements the interface cannot name (bf16, fp8) raises or says "V"; DLPack can.
    try:
        facts = obj.__cuda_array_interface__
        row = _NUMPY_ROWS.get(np.dtype(facts["typestr"]))
    except (AttributeError, TypeError):
        facts, row = {}, None
    if row is None:
        if hasattr(obj, "__dlpack__"):
            return _read_dlpack(obj, argument)
        raise LaunchError(
            f"{argument}: CUDA array interface type {facts.get('typestr')!r} is not an element "
            "type of a kernel"
        )
    if facts.get("mask") is not None:
        raise LaunchError(f"{argument}: a masked array has no plain memory, pass its data")
    pointer, readonly = facts["data"]
    shape = tuple(facts["shape"])
    strides = facts.get("strides")
    item = row.storage_bits // 8
    return ArrayView(
        pointer=pointer or 0,
        shape=shape,
        strides=_element_strides(strides, item, argument) if strides else _row_major(shape),
        dtype=row.name,
        element_bits=row.storage_bits,
        # The interface does not name the GPU; CuPy does beside it.
        device=f"cuda:{getattr(getattr(obj, 'device', None), 'id', 0)}",
        readonly=bool(readonly),
        owner=obj,
    )


def _read_dlpack(obj: Any, argument: str) -> ArrayView:
    try:
        capsule = export_capsule(obj)
    except (BufferError, RuntimeError, ValueError) as error:
        raise LaunchError(
            f"{argument}: {type(obj).__name__} refuses to hand over its memory: {error}"
        ) from error
    raw = read_capsule(capsule, argument)
    view = ArrayView(
        pointer=raw.pointer,
        shape=raw.shape,
        strides=_row_major(raw.shape) if raw.strides is None else raw.strides,
        dtype=raw.dtype,
        element_bits=raw.element_bits,
        device=raw.device,
        readonly=raw.readonly,
        owner=(obj, capsule),
    )
    return _unpack_lanes(view, raw.lanes, argument)


def _element_strides(strides: tuple[int, ...], item: int, argument: str) -> tuple[int, ...]:
    for index, stride in enumerate(strides):
        if stride % item:
            raise LaunchError(
                f"{argument}: stride {index} is {stride} bytes, not a multiple of the "
                f"{item}-byte element",
                hint="pass a contiguous copy",
            )
    return tuple(stride // item for stride in strides)


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _unpack_lanes(view: ArrayView, lanes: int, argument: str) -> ArrayView:
    """Count single elements where the array counts groups of `lanes` along its unit stride."""
    if lanes == 1:
        return view
    if 1 not in view.strides:
        raise LaunchError(
            f"{argument}: packed {view.dtype} elements need a contiguous dimension, strides are "
            f"{view.strides}"
        )
    inner = view.rank - 1 - view.strides[::-1].index(1)
    return ArrayView(
        pointer=view.pointer,
        shape=tuple(n * lanes if i == inner else n for i, n in enumerate(view.shape)),
        strides=tuple(1 if i == inner else s * lanes for i, s in enumerate(view.strides)),
        dtype=view.dtype,
        element_bits=view.element_bits,
        device=view.device,
        readonly=view.readonly,
        owner=view.owner,
    )
