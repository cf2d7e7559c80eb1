"""How element types and pointers are spelled in the generated C++."""

from __future__ import annotations

from tilewright.errors import DTypeError, Loc
from tilewright.ir.types import PtrType, ScalarType, TensorMapType, Type, VecType
from tilewright.numeric.dtypes import DType

_SPELLING = {
    **{"f64": "double", "f32": "float", "tf32": "float", "i32": "int", "bool": "bool"},
    **{name: name for name in ("i8", "u8", "i16", "u16", "u32", "i64", "u64")},
    **{name: name for name in ("f16", "bf16", "e4m3", "e5m2", "e8m0")},
}
TYPEDEFS = {
    "i8": "signed char",
    "u8": "unsigned char",
    "i16": "short",
    "u16": "unsigned short",
    "u32": "unsigned int",
    "i64": "long long",
    "u64": "unsigned long long",
    # Floats without a C++ type of their own travel as bit patterns.
    "f16": "unsigned short",
    "bf16": "unsigned short",
    "e4m3": "unsigned char",
    "e5m2": "unsigned char",
    "e8m0": "unsigned char",
}

HALVES = ("f16", "bf16")
PATTERNS = ("f16", "bf16", "e4m3", "e5m2", "e8m0")
"""Float types whose values are held as bit patterns: arithmetic goes through f32."""


def ctype(dtype: DType, loc: Loc | None = None) -> str:
    """The C++ type that holds one element.

    Raises: DTypeError for types that are narrower than a byte.
    """
    spelled = _SPELLING.get(dtype.name)
    if spelled is None:
        raise DTypeError(
            f"CUDA code generation: {dtype.name} packs two elements to a byte, which generated "
            "code cannot address",
            loc=loc,
            hint="hold the packed bytes as u8 and convert explicitly",
        )
    return spelled


def declarator(t: Type, const: bool = False, loc: Loc | None = None) -> str:
    """The C++ type of a scalar or pointer; `const` says that what it points to is only read."""
    if isinstance(t, ScalarType):
        return ctype(t.dtype, loc)
    if isinstance(t, PtrType):
        return ("const " if const else "") + ctype(t.dtype, loc) + "*"
    if isinstance(t, TensorMapType):
        return "TensorMap"
    assert not isinstance(t, VecType), "a vector is an array, which has no declarator"
    raise AssertionError(t)


def alignment(dtype: DType, count: int) -> str:
    """`alignas(16) ` for arrays of small elements, so that packed words can be stored into them."""
    return "alignas(16) " if dtype.storage_bits < 32 and count > 1 else ""
