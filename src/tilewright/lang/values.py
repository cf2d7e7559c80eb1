"""Typed numbers of the language: `Int32`, `Float32`, `Boolean`, ... known now or at run time.

An instance holds a Python number (known at compile time) or an IR value (known at run time) in
`raw`.  Operators mean what they mean in Python; two compile-time operands give a compile-time
result.  `operations` says in which type two operands meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tilewright.errors import TypeMismatchError
from tilewright.ir.evaluate import Number
from tilewright.ir.ops import arith
from tilewright.lang import trace
from tilewright.lang.operations import (
    binary,
    common_type,
    compare,
    logical_not,
    promoted,
    select,
    shift,
    truth,
    unary,
)
from tilewright.lang.scalar import (
    NumericMeta,
    Scalar,
    as_numeric,
    describe,
    from_ir,
    is_number,
    numeric_of,
    static_number,
)
from tilewright.numeric import dtypes

__all__ = [
    "NUMERICS",
    "BFloat16",
    "Boolean",
    "Float4E2M1FN",
    "Float8E4M3FN",
    "Float8E5M2",
    "Float8E8M0FNU",
    "Float16",
    "Float32",
    "Float64",
    "Int4",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Numeric",
    "NumericMeta",
    "TFloat32",
    "Uint4",
    "Uint8",
    "Uint16",
    "Uint32",
    "Uint64",
    "as_numeric",
    "binary",
    "common_type",
    "compare",
    "describe",
    "from_ir",
    "is_number",
    "logical_not",
    "numeric_of",
    "promoted",
    "select",
    "static_number",
    "truth",
]

Operator = Callable[[Any, object], Any]


def _operators(fn: Callable[[Any, Any], Any]) -> tuple[Operator, Operator]:
    """The method for ``self op other`` and that for ``other op self``."""

    def forward(self: Numeric, other: object) -> Any:
        return fn(self, other) if is_number(other) else NotImplemented

    def reflected(self: Numeric, other: object) -> Any:
        return fn(other, self) if is_number(other) else NotImplemented

    return forward, reflected


def _comparison(predicate: str) -> Operator:
    def method(self: Numeric, other: object) -> Any:
        return compare(predicate, self, other) if is_number(other) else NotImplemented

    return method


class Numeric(Scalar):
    """A number of one element type.

    >>> Int32(7) // Int32(-2), Int32(3) + 1.5, Uint8(250) + Uint8(10)
    (Int32(-4), Float32(4.5), Uint8(4))
    """

    __slots__ = ()

    # Arithmetic.
    __add__, __radd__ = _operators(lambda a, b: binary(arith.Add, a, b))
    __sub__, __rsub__ = _operators(lambda a, b: binary(arith.Sub, a, b))
    __mul__, __rmul__ = _operators(lambda a, b: binary(arith.Mul, a, b))
    __truediv__, __rtruediv__ = _operators(lambda a, b: binary(arith.Div, a, b))
    __floordiv__, __rfloordiv__ = _operators(lambda a, b: binary(arith.FloorDiv, a, b))
    __mod__, __rmod__ = _operators(lambda a, b: binary(arith.Mod, a, b))
    __divmod__, __rdivmod__ = _operators(lambda a, b: (a // b, a % b))
    __and__, __rand__ = _operators(lambda a, b: binary(arith.And, a, b))
    __or__, __ror__ = _operators(lambda a, b: binary(arith.Or, a, b))
    __xor__, __rxor__ = _operators(lambda a, b: binary(arith.Xor, a, b))
    __lshift__, __rlshift__ = _operators(lambda a, b: shift(arith.Shl, a, b))
    __rshift__, __rrshift__ = _operators(lambda a, b: shift(arith.Shr, a, b))

    def __pow__(self, exponent: object) -> Any:
        known = static_number(exponent)
        if not isinstance(known, int) or not 0 <= known <= 64:
            raise TypeMismatchError(
                f"**: the exponent must be a compile-time int in 0..64, got {describe(exponent)}",
                loc=trace.loc(),
                hint="for other powers use cute.math.exp2(y * cute.math.log2(x))",
            )
        result: Any = None
        power: Any = self
        while known:
            if known & 1:
                result = power if result is None else result * power
            known >>= 1
            if known:
                power = power * power
        return type(self)(1) if result is None else result

    def __neg__(self) -> Any:
        return unary(arith.Neg, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        if self.is_static:
            return type(self)(abs(cast(Number, self.raw)))
        if type(self)._row.is_float:
            return type(self)._of(trace.value(arith.Math, self.ir_value(), function="abs"))
        return binary(arith.Max, self, unary(arith.Neg, self))

    def __invert__(self) -> Any:
        if isinstance(self, Boolean):
            return logical_not(self)
        return binary(arith.Xor, self, -1)

    # Comparison.
    __eq__ = _comparison("eq")
    __ne__ = _comparison("ne")
    __lt__ = _comparison("lt")
    __le__ = _comparison("le")
    __gt__ = _comparison("gt")
    __ge__ = _comparison("ge")

    def __hash__(self) -> int:
        return hash(self.raw)


class Float64(Numeric):
    __slots__ = ()
    _row = dtypes.F64


class Float32(Numeric):
    __slots__ = ()
    _row = dtypes.F32


class TFloat32(Numeric):
    __slots__ = ()
    _row = dtypes.TF32


class Float16(Numeric):
    __slots__ = ()
    _row = dtypes.F16


class BFloat16(Numeric):
    __slots__ = ()
    _row = dtypes.BF16


class Float8E4M3FN(Numeric):
    __slots__ = ()
    _row = dtypes.E4M3


class Float8E5M2(Numeric):
    __slots__ = ()
    _row = dtypes.E5M2


class Float8E8M0FNU(Numeric):
    __slots__ = ()
    _row = dtypes.E8M0


class Float4E2M1FN(Numeric):
    __slots__ = ()
    _row = dtypes.E2M1


class Int4(Numeric):
    __slots__ = ()
    _row = dtypes.I4


class Uint4(Numeric):
    __slots__ = ()
    _row = dtypes.U4


class Int8(Numeric):
    __slots__ = ()
    _row = dtypes.I8


class Uint8(Numeric):
    __slots__ = ()
    _row = dtypes.U8


class Int16(Numeric):
    __slots__ = ()
    _row = dtypes.I16


class Uint16(Numeric):
    __slots__ = ()
    _row = dtypes.U16


class Int32(Numeric):
    __slots__ = ()
    _row = dtypes.I32


class Uint32(Numeric):
    __slots__ = ()
    _row = dtypes.U32


class Int64(Numeric):
    __slots__ = ()
    _row = dtypes.I64


class Uint64(Numeric):
    __slots__ = ()
    _row = dtypes.U64


class Boolean(Numeric):
    __slots__ = ()
    _row = dtypes.BOOL


NUMERICS: tuple[type[Numeric], ...] = (
    *(Float64, Float32, TFloat32, Float16, BFloat16, Float8E4M3FN, Float8E5M2, Float8E8M0FNU),
    *(Float4E2M1FN, Int4, Uint4, Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64, Uint64, Boolean),
)
