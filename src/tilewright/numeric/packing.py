"""Storage arrays to the bytes that a GPU sees in memory, and back.

Bytes run along the last axis, little endian.  4-bit types lie two to a byte, the element of lower
index in the low nibble (PTX ISA "Packed data types", CUTLASS `subbyte_iterator`).

>>> import numpy as np
>>> from tilewright.numeric.dtypes import F16, U4
>>> pack(np.arange(1, 4).astype("uint4"), U4).tolist()
[33, 3]
>>> to_bytes(np.float16([1.0]), F16).tolist()
[0, 60]
"""

from __future__ import annotations

import numpy as np

from tilewright.errors import DTypeError
from tilewright.numeric.convert import bits_to_storage, storage_to_bits
from tilewright.numeric.dtypes import DType
from tilewright.numeric.encode import Array, bits_dtype


def pack(array: Array, dtype: DType) -> Array:
    """Two 4-bit elements to a byte: storage (..., n) to uint8 (..., ceil(n / 2)).

    An odd last element leaves the high nibble of its byte zero.
    Raises: DTypeError if `dtype` has not 4 bits, or `array` is not its storage.
    """
    _check_packs("pack", dtype)
    nibbles = storage_to_bits(np.atleast_1d(array), dtype) & np.uint8(0xF)
    if nibbles.shape[-1] % 2:
        widths = [(0, 0)] * (nibbles.ndim - 1) + [(0, 1)]
        nibbles = np.pad(nibbles, widths)
    return nibbles[..., 0::2] | (nibbles[..., 1::2] << np.uint8(4))


def unpack(data: Array, dtype: DType, count: int) -> Array:
    """The first `count` 4-bit elements of packed bytes: uint8 (..., m) to storage (..., count).

    Raises: DTypeError if `dtype` has not 4 bits, or m bytes hold fewer than `count` elements.
    """
    _check_packs("unpack", dtype)
    _check_holds("unpack", data.shape[-1], dtype, count)
    nibbles = np.stack([data & np.uint8(0xF), data >> np.uint8(4)], axis=-1)
    flat = nibbles.reshape(*data.shape[:-1], 2 * data.shape[-1])
    return bits_to_storage(np.ascontiguousarray(flat[..., :count]), dtype)


def to_bytes(array: Array, dtype: DType) -> Array:
    """Memory image of a storage array: (..., n) to uint8 (..., dtype.bytes_for(n))."""
    array = np.atleast_1d(array)
    if dtype.bits == 4:
        return pack(array, dtype)
    bits = storage_to_bits(array, dtype)
    little = np.ascontiguousarray(bits, bits.dtype.newbyteorder("<"))
    return little.view(np.uint8) if little.size else _empty(little, dtype)


def from_bytes(
    data: Array | bytes | bytearray | memoryview, dtype: DType, count: int | None = None
) -> Array:
    """Storage array of the elements in memory: uint8 (..., m) to (..., count), a copy.

    `count` defaults to as many elements as m bytes hold.  Law: from_bytes(to_bytes(a), d, n) == a.
    Raises: DTypeError if m bytes hold fewer than `count` elements.

    >>> from tilewright.numeric.dtypes import U4
    >>> from_bytes(b"\\x21\\x03", U4, 3).tolist()
    [1, 2, 3]
    """
    raw = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    count = raw.shape[-1] * 8 // dtype.storage_bits if count is None else count
    if dtype.bits == 4:
        return unpack(raw, dtype, count)
    _check_holds("from_bytes", raw.shape[-1], dtype, count)
    used = np.ascontiguousarray(raw[..., : dtype.bytes_for(count)])
    if not used.size:
        return bits_to_storage(np.zeros((*raw.shape[:-1], count), bits_dtype(dtype)), dtype)
    bits = used.view(bits_dtype(dtype).newbyteorder("<")).astype(bits_dtype(dtype))
    if dtype.kind == "bool":
        bits = (bits != 0).astype(np.uint8)  # any other byte would be no bool to numpy
    return bits_to_storage(bits, dtype)


def _empty(bits: Array, dtype: DType) -> Array:
    return np.zeros((*bits.shape[:-1], dtype.bytes_for(bits.shape[-1])), np.uint8)


def _check_packs(what: str, dtype: DType) -> None:
    if dtype.bits != 4:
        raise DTypeError(f"{what}: {dtype} has {dtype.bits} bits, expected a 4-bit type")


def _check_holds(what: str, num_bytes: int, dtype: DType, count: int) -> None:
    if dtype.bytes_for(count) > num_bytes:
        held = num_bytes * 8 // dtype.storage_bits
        raise DTypeError(
            f"{what}: {num_bytes} bytes hold {held} elements of {dtype}, expected {count}"
        )
