"""Arithmetic on typed numbers: in which type two operands meet, and the operation there.

A Python literal takes the type of the other operand; otherwise the wider integer wins, unsigned
over signed at equal width, floats over integers, the wider float (bf16 with f16: f32).
"""

from __future__ import annotations

import math
import operator
from typing import Any, cast

from tilewright.errors import DTypeError
from tilewright.ir.core import Op, Value
from tilewright.ir.evaluate import BINARY, Number, wrap
from tilewright.ir.ops import arith
from tilewright.lang import trace
from tilewright.lang.scalar import Scalar, as_numeric, describe, numeric_of
from tilewright.numeric.dtypes import BOOL, F32, I32

_NO_ARITHMETIC = {"tf32", "e4m3", "e5m2", "e8m0", "e2m1", "i4", "u4"}


def promoted(a: type[Scalar], b: type[Scalar]) -> type[Scalar]:
    """The type in which two typed numbers meet.

    Laws: commutative; ``promoted(a, a) is a``; Boolean gives way to every other type.

    >>> from tilewright.lang.values import BFloat16, Int32, Int64, Uint32
    >>> promoted(Int32, Int64), promoted(Int32, Uint32), promoted(Int64, BFloat16)
    (Int64, Uint32, BFloat16)
    """
    if a is b:
        return a
    x, y = a._row, b._row
    if x.is_float or y.is_float:
        if not (x.is_float and y.is_float):
            return a if x.is_float else b
        if x.bits == y.bits:  # f16 with bf16, or two small formats: neither holds the other.
            return numeric_of(F32)
        return a if x.bits > y.bits else b
    if BOOL in (x, y):
        return b if x is BOOL else a
    if x.bits == y.bits:
        return a if not x.is_signed else b
    return a if x.bits > y.bits else b


def adopted(literal: Number, other: type[Scalar]) -> type[Scalar]:
    """The type that a Python literal takes beside a number of type `other`."""
    if isinstance(literal, bool):
        return other
    if isinstance(literal, float):
        return other if other._row.is_float else numeric_of(F32)
    row = other._row
    if row.is_float:
        return other
    if row is BOOL:
        return type(as_numeric(literal))
    if -(1 << (row.bits - 1)) <= literal < 1 << (row.bits - row.is_signed):
        return other
    return promoted(other, type(as_numeric(literal)))


def common_type(a: object, b: object) -> type[Scalar]:
    """The type in which two numbers, typed or Python's, meet."""
    if isinstance(a, Scalar):
        if isinstance(b, Scalar):
            return promoted(type(a), type(b))
        return adopted(cast(Number, b), type(a))
    if isinstance(b, Scalar):
        return adopted(cast(Number, a), type(b))
    return promoted(type(as_numeric(a)), type(as_numeric(b)))


_BITWISE = (arith.And, arith.Or, arith.Xor)


def binary(op: type[Op], a: object, b: object) -> Any:
    """``a op b`` in the operands' common type."""
    kind = common_type(a, b)
    if kind._row is BOOL and op not in _BITWISE:
        kind = numeric_of(I32)  # As in Python, True + True == 2.
    if op is arith.Div and not kind._row.is_float:
        kind = numeric_of(F32)
    _check_arithmetic(op, kind)
    x, y = kind(a), kind(b)
    if not (isinstance(x.raw, Value) or isinstance(y.raw, Value)):
        return kind._of(wrap(BINARY[op](x.raw, y.raw), kind._row))
    if kind._row.is_float and op in (arith.FloorDiv, arith.Mod):
        whole = floor(binary(arith.Div, x, y))
        return whole if op is arith.FloorDiv else x - whole * y
    return kind._of(trace.value(op, x.ir_value(), y.ir_value()))


def _check_arithmetic(op: type[Op], kind: type[Scalar]) -> None:
    row = kind._row
    word = op.name.removeprefix("arith.")
    if row.name in _NO_ARITHMETIC:
        raise DTypeError(
            f"{word}: {kind.__name__} is a storage type without arithmetic",
            loc=trace.loc(),
            hint="convert first, such as x.to(Float32)",
        )
    if row.is_float and op in _BITWISE:
        raise DTypeError(
            f"{word}: expected integers or Booleans, got {kind.__name__}", loc=trace.loc()
        )


def shift(op: type[Op], a: object, b: object) -> Any:
    """``a << b`` or ``a >> b`` in the type of `a`."""
    kind = type(as_numeric(a)) if isinstance(a, Scalar) else common_type(a, b)
    kind = numeric_of(I32) if kind._row is BOOL else kind
    if kind._row.is_float or as_numeric(b).dtype.is_float:
        raise DTypeError(
            f"shift: expected integers, got {describe(a)} and {describe(b)}", loc=trace.loc()
        )
    x, y = kind(a), kind(b)
    if not (isinstance(x.raw, Value) or isinstance(y.raw, Value)):
        return kind._of(wrap(BINARY[op](x.raw, y.raw), kind._row))
    return kind._of(trace.value(op, x.ir_value(), y.ir_value()))


def unary(op: type[Op], a: Scalar) -> Any:
    """``-a``."""
    kind = numeric_of(I32) if type(a)._row is BOOL else type(a)
    _check_arithmetic(op, kind)
    x = kind(a)
    if not isinstance(x.raw, Value):
        return kind(wrap(-x.raw, kind._row))
    return kind._of(trace.value(op, x.raw))


def floor(a: Scalar) -> Any:
    """The largest whole number <= a float, as that float type."""
    if not isinstance(a.raw, Value):
        return type(a)(float(math.floor(a.raw)))
    return type(a)._of(trace.value(arith.Math, a.raw, function="floor"))


def compare(predicate: str, a: object, b: object) -> Any:
    """``a < b`` and its kin, in the operands' common type."""
    kind = common_type(a, b)
    x, y = kind(a), kind(b)
    if not (isinstance(x.raw, Value) or isinstance(y.raw, Value)):
        return numeric_of(BOOL)._of(bool(getattr(operator, predicate)(x.raw, y.raw)))
    if kind._row.name in _NO_ARITHMETIC:
        x, y = numeric_of(F32)(x), numeric_of(F32)(y)
    made = trace.value(arith.Cmp, x.ir_value(), y.ir_value(), predicate=predicate)
    return numeric_of(BOOL)._of(made)


def truth(x: Scalar) -> Any:
    """Whether a number is not zero."""
    return x if type(x)._row is BOOL else compare("ne", x, 0)


def logical_not(x: Scalar) -> Any:
    """``not x``."""
    t = truth(x)
    if not isinstance(t.raw, Value):
        return numeric_of(BOOL)._of(not t.raw)
    one = trace.constant(True, BOOL)
    return numeric_of(BOOL)._of(trace.value(arith.Xor, t.raw, one))


def select(condition: object, a: object, b: object) -> Any:
    """`a` where the condition holds, else `b`, both evaluated, in their common type."""
    c = truth(as_numeric(condition))
    kind = common_type(a, b)
    if not isinstance(c.raw, Value):
        return kind(a if c.raw else b)
    x, y = kind(a).ir_value(), kind(b).ir_value()
    return kind._of(trace.value(arith.Select, c.raw, x, y))
