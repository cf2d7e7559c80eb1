"""The types of IR values: scalars, short vectors, typed pointers and tensor maps.

A *tensor* is not a type: it is a pointer and a layout, and layouts are compile-time values that
the language resolves before IR exists.  What remains is what a machine has.

    bf16            scalar of an element type (`numeric` gives the rows)
    vec<f32, 8>     eight values in registers, handled elementwise
    ptr<bf16, smem, 128>    address of bf16 in shared memory, known to be 128-byte aligned
    tensormap       the 128-byte TMA descriptor, passed by value to the kernel
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tilewright.ir.tile_types import TileIrType
from tilewright.numeric.dtypes import BOOL, DType


class Space(enum.Enum):
    """Where a pointer points."""

    GMEM = "gmem"
    SMEM = "smem"
    DSMEM = "dsmem"
    """Shared memory of a CTA of the cluster: its own, or (distributed) that of another."""
    RMEM = "rmem"
    """A thread's own registers: an array whose indices are constants once loops are unrolled."""


@dataclass(frozen=True, slots=True)
class ScalarType:
    dtype: DType

    def __str__(self) -> str:
        return self.dtype.name


@dataclass(frozen=True, slots=True)
class VecType:
    """`count` values of one element type, in one thread's registers."""

    dtype: DType
    count: int

    def __str__(self) -> str:
        return f"vec<{self.dtype.name}, {self.count}>"


@dataclass(frozen=True, slots=True)
class PtrType:
    """Address of elements of `dtype` in `space`; the address is a multiple of `align` bytes."""

    dtype: DType
    space: Space
    align: int

    def __str__(self) -> str:
        return f"ptr<{self.dtype.name}, {self.space.value}, {self.align}>"


@dataclass(frozen=True, slots=True)
class TensorMapType:
    def __str__(self) -> str:
        return "tensormap"


Type = ScalarType | VecType | PtrType | TensorMapType | TileIrType
"""The thread vocabulary's types, and those of the tile vocabulary (`ir/tile_types.py`)."""


def element_type(t: Type) -> DType:
    """The element type of a scalar, vector or pointer."""
    if isinstance(t, TensorMapType | TileIrType):
        raise TypeError(f"{t} has no element type, expected a scalar, vector or pointer")
    return t.dtype


def like(t: Type, dtype: DType) -> Type:
    """The same shape of value (scalar, or vector of the same count) with another element type."""
    return VecType(dtype, t.count) if isinstance(t, VecType) else ScalarType(dtype)


def is_value(t: Type) -> bool:
    """Scalars and vectors: what arithmetic works on."""
    return isinstance(t, ScalarType | VecType)


BOOLEAN = ScalarType(BOOL)
