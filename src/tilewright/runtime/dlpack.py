"""Reading a DLPack capsule: the address, shape and element type that a foreign array hands over.

The capsule is only read, never consumed: whoever holds it keeps the array alive, and its own
destructor gives the array back.  Source: dlpack.h 1.1 (DLTensor, DLManagedTensorVersioned).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from tilewright.errors import LaunchError

# (type code, bits) of DLDataType -> our element type.
_DTYPES = {
    **{(0, bits): f"i{bits}" for bits in (4, 8, 16, 32, 64)},
    **{(1, bits): f"u{bits}" for bits in (4, 8, 16, 32, 64)},
    **{(2, bits): f"f{bits}" for bits in (16, 32, 64)},
    (4, 16): "bf16",
    (6, 8): "bool",
    (10, 8): "e4m3",
    (12, 8): "e5m2",
    (14, 8): "e8m0",
    (17, 4): "e2m1",
}
_CPU_DEVICES = {1, 3, 11}  # host, and host memory pinned for CUDA or ROCm
_CUDA_DEVICES = {2, 13}  # device and managed memory
_READ_ONLY = 1  # flags of DLManagedTensorVersioned
_SUBBYTE_PADDED = 4


@dataclass(frozen=True, slots=True)
class DlpackView:
    """What a capsule says.

    Units:  `strides` count the array's own items, None for row-major; an item is `lanes` elements
            of `element_bits` each.  4-bit elements are packed unless the producer says padded.
    """

    pointer: int
    dtype: str
    element_bits: int
    lanes: int
    device: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    readonly: bool


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_is_valid.restype = ctypes.c_int
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_get_pointer.restype = ctypes.c_void_p


def export_capsule(obj: Any) -> Any:
    """Ask `obj` for a capsule, of the newest version that it knows, without waiting for a stream.

    The caller orders its own work, as with any pointer.
    """
    on_gpu = int(obj.__dlpack_device__()[0]) in _CUDA_DEVICES
    stream = {"stream": -1} if on_gpu else {}
    try:
        return obj.__dlpack__(max_version=(1, 1), **stream)
    except TypeError:  # written before DLPack 1.0
        return obj.__dlpack__(**stream)


def read_capsule(capsule: Any, argument: str = "argument") -> DlpackView:
    """The fields of a capsule that nobody has consumed yet.

    Raises: LaunchError for a used capsule, an element type or a device that we do not have.
    """
    flags = 0
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _ManagedVersioned.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise LaunchError(
                f"{argument}: DLPack version {managed.major}.{managed.minor}, expected 1.x"
            )
        tensor, flags = managed.tensor, managed.flags
    elif _is_valid(capsule, b"dltensor"):
        tensor = _Managed.from_address(_get_pointer(capsule, b"dltensor")).tensor
    else:
        raise LaunchError(f"{argument}: the DLPack capsule was used before, or is not one")
    name = _DTYPES.get((tensor.code, tensor.bits))
    if name is None or tensor.lanes not in ((1, 2) if tensor.bits == 4 else (1,)):
        raise LaunchError(
            f"{argument}: DLPack element type (code {tensor.code}, {tensor.bits} bits, "
            f"{tensor.lanes} lanes) is not supported"
        )
    rank = tensor.ndim
    return DlpackView(
        pointer=(tensor.data or 0) + tensor.byte_offset,
        dtype=name,
        element_bits=8 if flags & _SUBBYTE_PADDED and tensor.bits < 8 else tensor.bits,
        lanes=tensor.lanes,
        device=_device_name(tensor.device_type, tensor.device_id, argument),
        shape=tuple(tensor.shape[:rank]),
        strides=tuple(tensor.strides[:rank]) if tensor.strides else None,
        readonly=bool(flags & _READ_ONLY),
    )


def _device_name(device_type: int, device_id: int, argument: str) -> str:
    if device_type in _CPU_DEVICES:
        return "cpu"
    if device_type in _CUDA_DEVICES:
        return f"cuda:{device_id}"
    raise LaunchError(
        f"{argument}: the array lies on DLPack device type {device_type}, expected CPU or CUDA"
    )
