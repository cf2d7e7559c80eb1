"""Typed numbers of the language: `Int32`, `Float32`, `Boolean`, ... known now or at run time.

An instance holds a Python number (known at compile time) or an IR value (known at run time) in
`raw`.  Operators mean what they mean in Python; two compile-time operands give a compile-time
result.  A Python literal takes the type of the other operand; otherwise types are promoted as in
CuTe: the wider integer, unsigned over signed at equal width, floats over integers, the wider
float (bf16 with f16: f32).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar, cast

from tilewright.errors import CaptureError, DTypeError, TypeMismatchError
from tilewright.ir.builder import constant_value
from tilewright.ir.core import Effect, Op, Value
from tilewright.ir.evaluate import Number, wrap
from tilewright.ir.ops import arith
from tilewright.ir.types import ScalarType
from tilewright.lang import trace
from tilewright.numeric import dtypes
from tilewright.numeric.dtypes import ALL_DTYPES, DType

N = TypeVar("N", bound="Numeric")

_CLASSES: dict[str, NumericMeta] = {}


class NumericMeta(type):
    """What a numeric type itself knows: its row and what follows from it."""

    _row: DType

    @property
    def dtype(cls) -> DType:
        """The element type's row."""
        return cls._row

    @property
    def width(cls) -> int:
        """Bits of one value; 8 for Boolean as in memory?  No: 1, as in CuTe."""
        return cls._row.bits

    @property
    def is_integer(cls) -> bool:
        return cls._row.is_integer

    @property
    def is_float(cls) -> bool:
        return cls._row.is_float

    @property
    def signed(cls) -> bool:
        return cls._row.is_signed

    @property
    def zero(cls) -> int | float:
        """The Python number 0, as a float for float types."""
        return 0.0 if cls._row.is_float else 0

    @property
    def inf(cls) -> float:
        """Python's infinity; float types only."""
        if not cls._row.is_float:
            raise DTypeError(f"{cls.__name__} has no infinity: it is not a float type")
        return math.inf

    def __repr__(cls) -> str:
        return cls.__name__

    def is_same_kind(cls, other: NumericMeta) -> bool:
        """Both integers, both floats, or both Boolean."""
        return (cls.is_integer, cls.is_float) == (other.is_integer, other.is_float)


class Numeric(metaclass=NumericMeta):
    """A number of one element type.

    >>> Int32(7) // Int32(-2), Int32(3) + 1.5, Uint8(250) + Uint8(10)
    (Int32(-4), Float32(4.5), Uint8(4))
    """

    __slots__ = ("raw",)
    raw: Number | Value
    _row: ClassVar[DType]
    __tw_numeric__ = True

    def __init__(self, value: object = 0) -> None:
        self.raw = _convert(value, type(self))

    @classmethod
    def _of(cls, raw: Number | Value) -> Self:
        """Wraps a raw value that is known to be of this type."""
        self = object.__new__(cls)
        self.raw = raw
        return self

    @property
    def dtype(self) -> NumericMeta:
        """The numeric type of this value."""
        return type(self)

    @property
    def is_static(self) -> bool:
        """Whether the number is known at compile time."""
        return not isinstance(self.raw, Value)

    @property
    def value(self) -> Number | Value:
        """The Python number, or the IR value."""
        return self.raw

    def ir_value(self) -> Value:
        """The IR value; a number known at compile time becomes a constant."""
        if isinstance(self.raw, Value):
            return self.raw
        return trace.constant(self.raw, type(self)._row)

    def to(self, kind: type[N]) -> N:
        """This value converted to another numeric type (rounds, truncates or wraps as a cast)."""
        return kind(self)

    def bitcast(self, kind: type[N]) -> N:
        """The same bits as another type of the same width."""
        return kind._of(trace.value(arith.Bitcast, self.ir_value(), dtype=kind.dtype.name))

    # Arithmetic.
    def __add__(self, other: object) -> Any:
        return binary(arith.Add, self, other)

    def __radd__(self, other: object) -> Any:
        return binary(arith.Add, other, self)

    def __sub__(self, other: object) -> Any:
        return binary(arith.Sub, self, other)

    def __rsub__(self, other: object) -> Any:
        return binary(arith.Sub, other, self)

    def __mul__(self, other: object) -> Any:
        return binary(arith.Mul, self, other)

    def __rmul__(self, other: object) -> Any:
        return binary(arith.Mul, other, self)

    def __truediv__(self, other: object) -> Any:
        return binary(arith.Div, self, other)

    def __rtruediv__(self, other: object) -> Any:
        return binary(arith.Div, other, self)

    def __floordiv__(self, other: object) -> Any:
        return binary(arith.FloorDiv, self, other)

    def __rfloordiv__(self, other: object) -> Any:
        return binary(arith.FloorDiv, other, self)

    def __mod__(self, other: object) -> Any:
        return binary(arith.Mod, self, other)

    def __rmod__(self, other: object) -> Any:
        return binary(arith.Mod, other, self)

    def __divmod__(self, other: object) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> tuple[Any, Any]:
        return other // self, other % self

    def __and__(self, other: object) -> Any:
        return binary(arith.And, self, other)

    def __rand__(self, other: object) -> Any:
        return binary(arith.And, other, self)

    def __or__(self, other: object) -> Any:
        return binary(arith.Or, self, other)

    def __ror__(self, other: object) -> Any:
        return binary(arith.Or, other, self)

    def __xor__(self, other: object) -> Any:
        return binary(arith.Xor, self, other)

    def __rxor__(self, other: object) -> Any:
        return binary(arith.Xor, other, self)

    def __lshift__(self, other: object) -> Any:
        return shift(arith.Shl, self, other)

    def __rlshift__(self, other: object) -> Any:
        return shift(arith.Shl, other, self)

    def __rshift__(self, other: object) -> Any:
        return shift(arith.Shr, self, other)

    def __rrshift__(self, other: object) -> Any:
        return shift(arith.Shr, other, self)

    def __pow__(self, exponent: object) -> Any:
        known = static_number(exponent)
        if not isinstance(known, int) or not 0 <= known <= 64:
            raise TypeMismatchError(
                f"**: the exponent must be a compile-time int in 0..64, got {describe(exponent)}",
                loc=trace.loc(),
                hint="for other powers use cute.math.exp2(y * cute.math.log2(x))",
            )
        result: Any = type(self)(1)
        square: Any = self
        while known:
            if known & 1:
                result = square if known & (known - 1) == known - 1 == 0 else result * square
            known >>= 1
            square = square * square if known else square
        return result

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
    def __eq__(self, other: object) -> Any:
        return compare("eq", self, other) if is_number(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return compare("ne", self, other) if is_number(other) else NotImplemented

    def __lt__(self, other: object) -> Any:
        return compare("lt", self, other)

    def __le__(self, other: object) -> Any:
        return compare("le", self, other)

    def __gt__(self, other: object) -> Any:
        return compare("gt", self, other)

    def __ge__(self, other: object) -> Any:
        return compare("ge", self, other)

    def __hash__(self) -> int:
        return hash(self.raw)

    def provably_equal(self, other: object) -> bool:
        """Certainly equal: the same constant, the same value, or the same pure expression."""
        if isinstance(other, Numeric) and isinstance(other.raw, Value):
            return isinstance(self.raw, Value) and same_expression(self.raw, other.raw)
        known = static_number(other)
        mine = static_number(self)
        return known is not None and mine is not None and known == mine

    # Python asks for a number: possible only at compile time.
    def __bool__(self) -> bool:
        return bool(self._known("its truth decides what Python does next", _BRANCH))

    def __index__(self) -> int:
        number = self._known("Python needs it as an int here", _INDEX)
        if isinstance(number, float):
            raise TypeMismatchError(
                f"an int is needed here, got {self!r}", loc=trace.loc(), hint="convert with Int32()"
            )
        return int(number)

    def __int__(self) -> int:
        return int(self._known("int() needs the number", _CONVERT.format("Int32")))

    def __float__(self) -> float:
        return float(self._known("float() needs the number", _CONVERT.format("Float32")))

    def _known(self, need: str, hint: str) -> Number:
        if isinstance(self.raw, Value):
            raise CaptureError(
                f"{describe(self)} is known only at run time, but {need}",
                loc=trace.loc(),
                hint=hint,
            )
        return self.raw

    def __repr__(self) -> str:
        shown = f"%{self.raw.name or '?'}" if isinstance(self.raw, Value) else repr(self.raw)
        return f"{type(self).__name__}({shown})"

    def __str__(self) -> str:
        return repr(self) if isinstance(self.raw, Value) else str(self.raw)

    def __format__(self, spec: str) -> str:
        return format(str(self) if isinstance(self.raw, Value) else self.raw, spec)


_BRANCH = (
    "branch on it with `if`, `while`, `and`, `or` or `x if c else y` directly in a @kernel or @jit"
    " function (not in a comprehension, lambda or library call); a compile-time choice is"
    " const_expr(...)"
)
_INDEX = (
    "loop with range_constexpr, whose index is a Python int, or pass it as a Constexpr argument"
)
_CONVERT = "convert a run-time value with .to({0}) or {0}(x)"


def _define(row: DType) -> NumericMeta:
    body = {"__slots__": (), "_row": row, "__doc__": f"A number of type {row.name}."}
    made = NumericMeta(row.cute_name, (Numeric,), body)
    made.__module__ = __name__
    _CLASSES[row.name] = made
    return made


class Boolean(Numeric):
    """Truth: of type bool.  A run-time Boolean has no Python truth; branch on it with `if`."""

    __slots__ = ()
    _row = dtypes.BOOL


class Int32(Numeric):
    """A number of type i32; what Python ints become at run time."""

    __slots__ = ()
    _row = dtypes.I32


class Int64(Numeric):
    """A number of type i64."""

    __slots__ = ()
    _row = dtypes.I64


class Float32(Numeric):
    """A number of type f32; what Python floats become at run time."""

    __slots__ = ()
    _row = dtypes.F32
