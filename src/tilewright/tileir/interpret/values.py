"""How the elements of tiles lie in NumPy arrays.

An element type is held in the storage dtype of its row (`numeric.convert.storage_dtype`): signed
integers for the signless ones, bool for i1, float32 for tf32, one byte per 4-bit element.
Pointers are int64 addresses.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tilewright.ir.ops.tile.base import tile_type
from tilewright.ir.tile_attrs import DenseAttr
from tilewright.ir.tile_types import NumberType, PointerType, TileType
from tilewright.numeric.convert import bits_to_storage, storage_dtype
from tilewright.numeric.dtypes import BOOL, DType
from tilewright.numeric.encode import bits_dtype, decode, encode
from tilewright.tileir.interpret.memory import Array

ADDRESS = np.dtype(np.int64)
UNSPECIFIED_BYTE = 0x5A


def number_of(t: object) -> NumberType:
    """The element type of a tile of numbers."""
    element = tile_type(t).element
    assert isinstance(element, NumberType), f"a constraint admits only numbers, got {t}"
    return element


def row_of(t: object) -> DType:
    """The facts of the element type of a tile of numbers."""
    return number_of(t).row


def pointee_row(t: object) -> DType:
    """The facts of what a tile of pointers points to."""
    element = tile_type(t).element
    assert isinstance(element, PointerType), f"a constraint admits only pointers, got {t}"
    assert isinstance(element.pointee, NumberType), "a pointer points to numbers"
    return element.pointee.row


def dtype_of(t: TileType) -> np.dtype[Any]:
    """The NumPy dtype of a tile's array."""
    return storage_dtype(t.element.row) if isinstance(t.element, NumberType) else ADDRESS


@cache
def unsigned(row: DType) -> np.dtype[Any]:
    """The unsigned integer of an element's width."""
    return np.dtype(f"uint{max(row.bits, 8)}")


@cache
def carrier(row: DType) -> np.dtype[Any]:
    """How an element lies in memory: a byte for i1, else its storage."""
    return np.dtype(np.uint8) if row is BOOL else storage_dtype(row)


@cache
def unspecified(row: DType) -> Any:
    """What elements are that Tile IR leaves unspecified: NaN, or a pattern that is seen at once.

    >>> from tilewright.numeric.dtypes import F32, I32
    >>> unspecified(F32), hex(unspecified(I32))
    (np.float32(nan), '0x5a5a5a5a')
    """
    if row.is_float:
        return _element(float("nan"), row)
    if row is BOOL:
        return np.bool_(True)
    if row.bits == 4:
        return bits_to_storage(np.asarray([UNSPECIFIED_BYTE & 7], np.uint8), row)[0]
    return np.frombuffer(bytes([UNSPECIFIED_BYTE] * (row.bits // 8)), storage_dtype(row))[0]


@cache
def padding_value(name: str, row: DType) -> Any:
    """The element that a view's `padding_value` names; unspecified if it has none."""
    if not name:
        return unspecified(row)
    if name == "zero":
        return _element(0.0 if row.is_float else 0, row)
    values = {"neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}
    return _element(values[name], row)


def _element(value: float, row: DType) -> Any:
    rounding = "rz" if row.is_float and not row.mantissa_bits else "rn"
    return bits_to_storage(encode([value], row, rounding), row)[0]  # type: ignore[arg-type]


def dense(value: DenseAttr) -> Array:
    """The elements of a constant; read-only."""
    t = value.type
    assert isinstance(t, TileType), "a constant is a tile"
    assert isinstance(t.element, NumberType), "a constant holds numbers"
    row = t.element.row
    bits = np.array(value.bits, np.uint64)
    if row is BOOL:
        elements: Array = bits != 0
    else:
        elements = bits_to_storage(bits.astype(bits_dtype(row)), row)
    if elements.size == 1:
        elements = np.full(t.shape, elements[0], elements.dtype)
    elements = elements.reshape(t.shape)
    elements.flags.writeable = False
    return elements


def as_unsigned(array: Any, row: DType) -> Any:
    """Integers of one width read as unsigned."""
    if row is BOOL:
        return array.astype(np.uint8)
    if row.bits == 4:
        return decode(array.view(np.uint8), row).astype(np.uint8) & np.uint8(0xF)
    return array.view(unsigned(row))


def as_signed(array: Any, row: DType) -> Any:
    """Integers of one width read as signed; -1 for a true i1."""
    if row is BOOL:
        return -array.astype(np.int8)
    if row.bits == 4:
        return decode(array.view(np.uint8), row).astype(np.int8)
    return array


def from_integers(array: Any, row: DType) -> Any:
    """The low bits of integers of at least that width."""
    if row is BOOL:
        return (array & 1).astype(np.bool_)
    if row.bits == 4:
        return bits_to_storage(np.asarray(array).astype(np.uint8) & np.uint8(0xF), row)
    return array.astype(storage_dtype(row), copy=False)
