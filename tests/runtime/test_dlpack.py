"""Capsules made by NumPy, or by hand for what NumPy cannot say, are read but never consumed."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import numpy as np
import pytest

from tilewright.errors import LaunchError
from tilewright.runtime import dlpack
from tilewright.runtime.arrays import as_array, host_bytes
from tilewright.runtime.dlpack import read_capsule

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_new_capsule.restype = ctypes.py_object
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Handmade:
    """An array that speaks DLPack only, with any field chosen by the test."""

    def __init__(self, versioned: bool = True, flags: int = 0, major: int = 1, **fields: Any):
        self.data = np.zeros(64, np.uint8)
        self.shape = (ctypes.c_int64 * 2)(3, 4)
        self.strides = (ctypes.c_int64 * 2)(4, 1)
        known = {"data": self.data.ctypes.data, "ndim": 2, "device_type": 1, "device_id": 0}
        known |= {"code": 2, "bits": 32, "lanes": 1, "byte_offset": 0}
        self.managed = dlpack._ManagedVersioned() if versioned else dlpack._Managed()
        if versioned:
            self.managed.major, self.managed.minor, self.managed.flags = major, 1, flags
        for name, value in (known | fields).items():
            setattr(self.managed.tensor, name, value)
        self.managed.tensor.shape = self.shape
        if fields.get("has_strides", True):
            self.managed.tensor.strides = self.strides
        self.name = b"dltensor_versioned" if versioned else b"dltensor"
        self.streams: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.managed.tensor.device_type, self.managed.tensor.device_id

    def __dlpack__(self, max_version: Any = None, stream: Any = None) -> Any:
        self.streams.append(stream)
        return _new_capsule(ctypes.addressof(self.managed), self.name, None)


class Old(Handmade):
    """Written before DLPack 1.0: it does not know `max_version`."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return super().__dlpack__(stream=stream)


class OnlyDlpack:
    """A NumPy array behind nothing but its DLPack methods."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


def test_numpys_capsule_is_the_array_itself() -> None:
    array = np.arange(24, dtype=np.int16).reshape(4, 6)[::2, 1::2]
    view = as_array(OnlyDlpack(array))
    assert (view.shape, view.strides, view.dtype) == ((2, 3), (12, 2), "i16")
    assert (view.pointer, view.device) == (array.ctypes.data, "cpu")
    data, base = host_bytes(view)
    data[view.pointer - base] = 99
    assert array[0, 0] == 99


def test_the_view_keeps_the_producers_memory() -> None:
    array = np.zeros(8, np.float32)
    before = sys.getrefcount(array)
    view = as_array(OnlyDlpack(array))
    assert sys.getrefcount(array) > before
    del view
    gc.collect()
    assert sys.getrefcount(array) == before  # the capsule was read, not consumed: it gave back


@pytest.mark.parametrize(
    ("code", "bits", "name"),
    [
        (0, 8, "i8"), (0, 64, "i64"), (1, 16, "u16"), (1, 32, "u32"), (2, 16, "f16"),
        (2, 64, "f64"), (4, 16, "bf16"), (6, 8, "bool"), (10, 8, "e4m3"), (12, 8, "e5m2"),
        (14, 8, "e8m0"),
    ],
)  # fmt: skip
def test_element_types(code: int, bits: int, name: str) -> None:
    view = as_array(Handmade(code=code, bits=bits))
    assert (view.dtype, view.element_bits, view.shape) == (name, bits, (3, 4))


def test_four_bit_types_packed_padded_and_in_pairs() -> None:
    packed = as_array(Handmade(code=17, bits=4))
    assert (packed.dtype, packed.element_bits, packed.strides) == ("e2m1", 4, (4, 1))
    padded = as_array(Handmade(code=17, bits=4, flags=4))
    assert (padded.element_bits, padded.shape) == (8, (3, 4))
    pairs = as_array(Handmade(code=17, bits=4, lanes=2))
    assert (pairs.element_bits, pairs.shape, pairs.strides) == (4, (3, 8), (8, 1))


def test_device_offset_flags_and_missing_strides() -> None:
    array = Handmade(device_type=2, device_id=3, byte_offset=16, flags=1, has_strides=False)
    view = as_array(array)
    assert (view.device, view.readonly, view.strides) == ("cuda:3", True, (4, 1))
    assert view.pointer == array.data.ctypes.data + 16
    assert array.streams == [-1]  # no synchronisation: the caller orders its streams
    assert as_array(Handmade(device_type=3)).device == "cpu"
    assert as_array(Handmade(device_type=13)).device == "cuda:0"


def test_capsules_from_before_1_0() -> None:
    view = as_array(Old(versioned=False, code=4, bits=16))
    assert (view.dtype, view.readonly) == ("bf16", False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"code": 5, "bits": 64}, r"DLPack element type \(code 5, 64 bits, 1 lanes\) is not"),
        ({"lanes": 4}, r"DLPack element type \(code 2, 32 bits, 4 lanes\) is not supported"),
        ({"device_type": 10}, "lies on DLPack device type 10, expected CPU or CUDA"),
        ({"major": 2}, "DLPack version 2.1, expected 1.x"),
    ],
)
def test_what_we_do_not_have_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError, match=rf"argument 2 \(b\): .*{message}"):
        as_array(Handmade(**fields), "argument 2 (b)")


def test_a_used_capsule_is_refused() -> None:
    owner = Handmade()
    capsule = owner.__dlpack__()
    _set_name(capsule, b"used_dltensor_versioned")
    with pytest.raises(LaunchError, match="a: the DLPack capsule was used before, or is not one"):
        read_capsule(capsule, "a")


def test_a_producer_that_refuses_is_quoted() -> None:
    class Refuses(Handmade):
        def __dlpack__(self, max_version: Any = None, stream: Any = None) -> Any:
            raise BufferError("it requires grad")

    with pytest.raises(
        LaunchError, match="a: Refuses refuses to hand over its memory: it requires"
    ):
        as_array(Refuses(), "a")


def test_packed_pairs_need_a_contiguous_dimension() -> None:
    array = Handmade(code=17, bits=4, lanes=2)
    array.strides[1] = 2
    with pytest.raises(LaunchError, match="packed e2m1 elements need a contiguous dimension"):
        as_array(array)
