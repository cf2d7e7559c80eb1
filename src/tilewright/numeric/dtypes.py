"""Element types: one row per type, from which every size, range and special value is derived.

A row is a fact sheet, not code: the bit fields of the format, which patterns are infinities and
NaNs, and the names others give it.  `encode`, `convert` and `packing` read these rows; so do the
IR, the code generator and the simulator.  Rows are singletons, compared by identity.

>>> E4M3.max, E4M3.has_inf, E4M3.bytes_for(3)
(448.0, False, 3)
>>> dtype("float16") is F16, dtype("Float4E2M1FN").bytes_for(5)
(True, 3)
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tilewright.errors import DTypeError

Kind = Literal["float", "int", "uint", "bool"]
# Which patterns are not numbers.  ieee: exponent all ones is inf (mantissa 0) or NaN.
# fn: all ones is NaN, nothing is inf.  none: every pattern is a finite number.
Specials = Literal["ieee", "fn", "none"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DType:
    """One element type.  A float's value is (-1)^s · 1.m · 2^(e - bias), 0.m · 2^(1 - bias) at e=0.

    Units:  `bits` is the pattern's width in a register; tf32 fills 32 bits, of which the low
            `pad_bits` = 13 carry nothing.  `storage_bits` is what one element takes in memory
            (bool: 8; 4-bit types pack two to a byte).
    e8m0 (a block scale) has no sign, mantissa or zero: its value is 2^(e - 127), 0xFF is NaN.
    """

    name: str
    kind: Kind
    bits: int
    cute_name: str
    numpy_name: str
    exponent_bits: int = 0
    mantissa_bits: int = 0
    bias: int = 0
    specials: Specials = "none"
    is_signed: bool = True
    aliases: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self.name.upper()

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return dtype, (self.name,)  # a copy or an unpickled row is the row itself

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers; bool is neither float nor integer."""
        return self.kind in ("int", "uint")

    @property
    def width(self) -> int:
        """CuTe's word for `bits`."""
        return self.bits

    @property
    def storage_bits(self) -> int:
        return 8 if self.kind == "bool" else self.bits

    @property
    def pad_bits(self) -> int:
        """Low bits of the pattern that carry no value: 13 for tf32, else 0."""
        if not self.is_float:
            return 0
        return self.bits - self.is_signed - self.exponent_bits - self.mantissa_bits

    @property
    def python_type(self) -> type[float] | type[int] | type[bool]:
        """The Python scalar that holds one element."""
        return float if self.is_float else bool if self.kind == "bool" else int

    @property
    def has_inf(self) -> bool:
        return self.specials == "ieee"

    @property
    def has_nan(self) -> bool:
        return self.specials != "none"

    @property
    def max_code(self) -> int:
        """Pattern of `max`, without sign and padding; larger codes are specials or do not exist."""
        if not self.is_float:
            return (1 << (self.bits - (self.kind == "int"))) - 1
        if self.specials == "ieee":
            return (((1 << self.exponent_bits) - 1) << self.mantissa_bits) - 1
        return (1 << (self.exponent_bits + self.mantissa_bits)) - 1 - (self.specials == "fn")

    @property
    def max(self) -> float | int:
        """Largest finite value: the upper end of the saturation range."""
        if not self.is_float:
            return self.max_code
        exponent, fraction = divmod(self.max_code, 1 << self.mantissa_bits)
        significand = 1 + fraction / (1 << self.mantissa_bits)
        return math.ldexp(significand, exponent - self.bias)

    @property
    def min(self) -> float | int:
        """Lowest finite value (not the smallest positive): the lower end of the range."""
        if self.is_float and not self.is_signed:  # e8m0 has no zero
            return 0.0 if self.mantissa_bits else self.smallest_normal
        if self.is_float:
            return -self.max
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def smallest_normal(self) -> float | int:
        """Smallest positive value of full precision; 1 for integers."""
        if not self.is_float:
            return 1
        # e8m0 has no zero, so its exponent 0 is a number like any other.
        return math.ldexp(1.0, (1 if self.mantissa_bits else 0) - self.bias)

    @property
    def epsilon(self) -> float | int:
        """Distance from 1 to the next larger value."""
        return math.ldexp(1.0, -self.mantissa_bits) if self.is_float else 1

    def bytes_for(self, count: int) -> int:
        """Bytes that `count` packed elements take in memory, rounded up.

        >>> [I4.bytes_for(3), TF32.bytes_for(3), BOOL.bytes_for(3)]
        [2, 12, 3]
        """
        return -(-count * self.storage_bits // 8)


# Sources: IEEE 754-2019 (f16 f32 f64), OCP 8-bit Floating Point 1.0 (e4m3 e5m2),
# OCP Microscaling Formats 1.0 (e8m0 e2m1), PTX ISA "Alternate Floating-Point Data Formats".
# Columns: name, kind, bits, CuTe's and numpy's names, exponent bits, mantissa bits, bias, specials.
# fmt: off
F64 = DType("f64", "float", 64, "Float64", "float64", 11, 52, 1023, "ieee",
            aliases=("float64", "double", "fp64"))
F32 = DType("f32", "float", 32, "Float32", "float32", 8, 23, 127, "ieee",
            aliases=("float32", "float", "fp32"))
TF32 = DType("tf32", "float", 32, "TFloat32", "float32", 8, 10, 127, "ieee",
             aliases=("tfloat32",))
F16 = DType("f16", "float", 16, "Float16", "float16", 5, 10, 15, "ieee",
            aliases=("float16", "half", "fp16"))
BF16 = DType("bf16", "float", 16, "BFloat16", "bfloat16", 8, 7, 127, "ieee",
             aliases=("bfloat16",))
E4M3 = DType("e4m3", "float", 8, "Float8E4M3FN", "float8_e4m3fn", 4, 3, 7, "fn",
             aliases=("float8_e4m3fn", "e4m3fn", "float8_e4m3"))
E5M2 = DType("e5m2", "float", 8, "Float8E5M2", "float8_e5m2", 5, 2, 15, "ieee",
             aliases=("float8_e5m2",))
E8M0 = DType("e8m0", "float", 8, "Float8E8M0FNU", "float8_e8m0fnu", 8, 0, 127, "fn",
             is_signed=False, aliases=("float8_e8m0fnu", "e8m0fnu", "ue8m0"))
E2M1 = DType("e2m1", "float", 4, "Float4E2M1FN", "float4_e2m1fn", 2, 1, 1, "none",
             aliases=("float4_e2m1fn", "e2m1fn", "float4_e2m1"))
I4 = DType("i4", "int", 4, "Int4", "int4", aliases=("int4",))
U4 = DType("u4", "uint", 4, "Uint4", "uint4", is_signed=False, aliases=("uint4",))
I8 = DType("i8", "int", 8, "Int8", "int8", aliases=("int8",))
U8 = DType("u8", "uint", 8, "Uint8", "uint8", is_signed=False, aliases=("uint8",))
I16 = DType("i16", "int", 16, "Int16", "int16", aliases=("int16",))
U16 = DType("u16", "uint", 16, "Uint16", "uint16", is_signed=False, aliases=("uint16",))
I32 = DType("i32", "int", 32, "Int32", "int32", aliases=("int32", "int"))
U32 = DType("u32", "uint", 32, "Uint32", "uint32", is_signed=False, aliases=("uint32",))
I64 = DType("i64", "int", 64, "Int64", "int64", aliases=("int64",))
U64 = DType("u64", "uint", 64, "Uint64", "uint64", is_signed=False, aliases=("uint64",))
E5M3 = DType("e5m3", "float", 8, "Float8E5M3FNU", "float8_e5m3fnu", 5, 3, 15, "fn",
             is_signed=False, aliases=("float8_e5m3fnu", "e5m3fnu", "ue5m3"))
BOOL = DType("bool", "bool", 1, "Boolean", "bool", is_signed=False, aliases=("bool_", "i1"))

ALL_DTYPES: tuple[DType, ...] = (
    F64, F32, TF32, F16, BF16, E4M3, E5M2, E8M0, E2M1,
    I4, U4, I8, U8, I16, U16, I32, U32, I64, U64, BOOL,
)
TILE_DTYPES: tuple[DType, ...] = (E5M3,)
"""Rows of Tile IR alone: neither CuTe nor numpy has them."""
# fmt: on

_BY_NAME: dict[str, DType] = {
    name: row
    for row in ALL_DTYPES + TILE_DTYPES
    for name in (row.name, row.cute_name, *row.aliases)
}


def dtype(name: str | DType) -> DType:
    """The row called `name`: an IR name, a CuTe name, or what numpy and C call it.

    Raises: DTypeError if no row has that name.

    >>> dtype("half"), dtype("Int32"), dtype("float8_e4m3fn"), dtype(F16)
    (F16, I32, E4M3, F16)
    """
    if isinstance(name, DType):
        return name
    row = _BY_NAME.get(name) if isinstance(name, str) else None
    if row is not None:
        return row
    near = difflib.get_close_matches(str(name), _BY_NAME, n=4, cutoff=0.5)
    listed = ", ".join(near or [row.name for row in ALL_DTYPES])
    raise DTypeError(
        f"dtype: {name!r} is not an element type; {'near' if near else 'known'} names: {listed}"
    )
