"""The base of typed numbers: what one holds, what its type knows, and how it is converted.

`values` adds the operators and the types themselves.
"""

from __future__ import annotations

import math
import numbers
import operator
from typing import ClassVar, Self, TypeVar

from tilewright.errors import CaptureError, DTypeError, TypeMismatchError
from tilewright.ir.builder import constant_value
from tilewright.ir.core import Effect, Op, Value
from tilewright.ir.evaluate import Number, wrap
from tilewright.ir.ops import arith
from tilewright.ir.types import ScalarType
from tilewright.lang import trace
from tilewright.numeric.dtypes import BOOL, F32, I32, I64, DType, dtype

N = TypeVar("N", bound="Scalar")


class NumericMeta(type):
    """What a numeric type itself knows: its row and what follows from it."""

    _row: DType

    @property
    def dtype(cls) -> DType:
        """The element type's row."""
        return cls._row

    @property
    def width(cls) -> int:
        """Bits of one value (1 for Boolean)."""
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


_BRANCH = (
    "branch on it with `if`, `while`, `and`, `or` or `x if c else y` directly in a @kernel or @jit"
    " function (not in a comprehension, lambda or library call); a compile-time choice is"
    " const_expr(...)"
)
_INDEX = (
    "loop with range_constexpr, whose index is a Python int, or pass it as a Constexpr argument"
)
_CONVERT = "convert a run-time value with .to({0}) or {0}(x)"

_BY_DTYPE: dict[str, type[Scalar]] = {}


class Scalar(metaclass=NumericMeta):
    """A number of one element type, without operators; `values.Numeric` has them."""

    __slots__ = ("raw",)
    raw: Number | Value
    _row: ClassVar[DType]

    def __init_subclass__(cls) -> None:
        if "_row" in vars(cls):
            _BY_DTYPE[cls._row.name] = cls

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
        return kind._of(trace.value(arith.Bitcast, self.ir_value(), dtype=kind._row.name))

    def __hash__(self) -> int:
        return hash(self.raw)

    def provably_equal(self, other: object) -> bool:
        """Certainly equal: the same constant, the same value, or the same pure expression."""
        if isinstance(other, Scalar) and isinstance(other.raw, Value):
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


def numeric_of(row: DType | str) -> type[Scalar]:
    """The numeric type of an element type.

    >>> import tilewright.lang.values
    >>> numeric_of("bf16")
    BFloat16
    """
    return _BY_DTYPE[dtype(row).name]


def from_ir(value: Value) -> Scalar:
    """The language's view of a scalar IR value."""
    assert isinstance(value.type, ScalarType), f"{value} is not a scalar"
    return _BY_DTYPE[value.type.dtype.name]._of(value)


def is_number(x: object) -> bool:
    """A Numeric, or a Python int, float or bool."""
    return isinstance(x, Scalar | int | float)


def static_number(x: object) -> Number | None:
    """The Python number that `x` is known to be at compile time, or None."""
    raw = x.raw if isinstance(x, Scalar) else x
    if isinstance(raw, int | float):
        return raw
    return constant_value(raw) if isinstance(raw, Value) else None


def as_numeric(x: object) -> Scalar:
    """`x` as a Numeric: Python bool, int and float become Boolean, Int32 (or Int64) and Float32.

    Raises: TypeMismatchError for anything else.
    """
    if isinstance(x, Scalar):
        return x
    if isinstance(x, bool):
        return numeric_of(BOOL)._of(x)
    if isinstance(x, int):
        return numeric_of(I32)._of(x) if -(2**31) <= x < 2**31 else numeric_of(I64)(x)
    if isinstance(x, float):
        return numeric_of(F32)._of(x)
    if isinstance(x, Value) and isinstance(x.type, ScalarType):
        return from_ir(x)
    raise TypeMismatchError(f"expected a number, got {describe(x)}", loc=trace.loc())


def describe(x: object) -> str:
    """How messages speak of a value: its type, and its number where that is known.

    >>> from tilewright.lang.values import Int32
    >>> describe(3), describe(Int32(3)), describe(None), describe((1, 2.0))
    ('int 3', 'Int32 3', 'None', '(int 1, float 2.0)')
    """
    if isinstance(x, Scalar):
        name = type(x).__name__
        return f"{name} {x.raw}" if x.is_static else f"a run-time {name}"
    if isinstance(x, Value):
        return f"a run-time {x.type}"
    if x is None or isinstance(x, type):
        return getattr(x, "__name__", str(x))
    if isinstance(x, bool | int | float | str):
        return f"{type(x).__name__} {x!r}"
    if type(x) is tuple and len(x) <= 4:
        return f"({', '.join(describe(item) for item in x)})"
    article = "an" if type(x).__name__[0] in "AEIOUaeiou" else "a"
    return f"{article} {type(x).__name__}"


def _convert(value: object, kind: type[Scalar]) -> Number | Value:
    row = kind._row
    if isinstance(value, Scalar):
        value = value.raw
    if isinstance(value, Value):
        if value.type == ScalarType(row):
            return value
        if isinstance(value.type, ScalarType):
            return trace.value(arith.Cast, value, dtype=row.name)
    elif isinstance(value, int | float):
        return _python_number(value, kind)
    elif hasattr(value, "__index__"):
        return _python_number(operator.index(value), kind)
    elif isinstance(value, numbers.Real):
        return _python_number(float(value), kind)
    raise TypeMismatchError(
        f"{kind.__name__}: expected a number, got {describe(value)}", loc=trace.loc()
    )


def _python_number(number: Number, kind: type[Scalar]) -> Number:
    row = kind._row
    if row.is_integer:
        if isinstance(number, float) and not math.isfinite(number):
            raise TypeMismatchError(f"{kind.__name__}: {number} has no integer", loc=trace.loc())
        if not -(1 << (row.bits - 1)) <= int(number) < 1 << row.bits:
            raise TypeMismatchError(
                f"{kind.__name__}: {number} does not fit into {row.bits} bits", loc=trace.loc()
            )
    return wrap(number if row.is_float else int(number) if row.is_integer else bool(number), row)


def same_expression(a: Value, b: Value, depth: int = 8) -> bool:
    """Whether two values are the same pure expression of the same values."""
    if a is b:
        return True
    p, q = a.owner, b.owner
    if not isinstance(p, Op) or type(p) is not type(q) or p.effect is not Effect.PURE or not depth:
        return False
    return (
        p.attrs == q.attrs
        and len(p.operands) == len(q.operands)
        and all(map(same_expression, p.operands, q.operands, [depth - 1] * len(q.operands)))
    )
