"""What arithmetic operations compute on Python numbers: the scalar semantics, in one place.

The builder folds constants with it, and the host side of a program (grid sizes, descriptor
fields) is evaluated with it.  Integers wrap to their type; f32 and smaller floats are left in
Python's double, so only exact operations on them are folded (see `foldable`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir.core import Op
from tilewright.ir.ops import arith
from tilewright.ir.types import ScalarType, element_type
from tilewright.numeric.dtypes import DType

Number = int | float | bool

BINARY: dict[type[Op], Callable[[Any, Any], Any]] = {
    arith.Add: operator.add,
    arith.Sub: operator.sub,
    arith.Mul: operator.mul,
    arith.Div: operator.truediv,
    arith.FloorDiv: operator.floordiv,
    arith.Mod: operator.mod,
    arith.Min: min,
    arith.Max: max,
    arith.And: operator.and_,
    arith.Or: operator.or_,
    arith.Xor: operator.xor,
    arith.Shl: operator.lshift,
    arith.Shr: operator.rshift,
}
"""What each two-operand operation is on Python numbers, before the result wraps to its type."""

_COMPARE: dict[str, Callable[[Number, Number], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def wrap(value: Number, dtype: DType) -> Number:
    """`value` as the type holds it: integers modulo 2^bits, bool as truth.

    >>> from tilewright.numeric.dtypes import I8, U8
    >>> wrap(200, I8), wrap(-1, U8)
    (-56, 255)
    """
    if dtype.is_float:
        return float(value)
    if not dtype.is_integer:
        return bool(value)
    bits = int(value) & ((1 << dtype.bits) - 1)
    return bits - (1 << dtype.bits) if dtype.is_signed and bits >> (dtype.bits - 1) else bits


def evaluate(op: Op, args: Sequence[Number]) -> Number | None:
    """The result of a pure scalar operation on numbers, or None if it has none here.

    Division by zero has no result: the operation is left for the machine.
    """
    if not op.results or not isinstance(op.results[0].type, ScalarType):
        return None
    out = op.results[0].type.dtype
    kind = type(op)
    if isinstance(op, arith.Constant):
        return wrap(op.value, out)
    if kind in BINARY:
        if kind in (arith.Div, arith.FloorDiv, arith.Mod) and args[1] == 0:
            return None
        return wrap(BINARY[kind](args[0], args[1]), out)
    if isinstance(op, arith.Cmp):
        return _COMPARE[op.predicate](args[0], args[1])
    if isinstance(op, arith.Select):
        return args[1] if args[0] else args[2]
    if isinstance(op, arith.Neg):
        return wrap(-args[0], out)
    if isinstance(op, arith.Fma) and out.is_integer:
        return wrap(args[0] * args[1] + args[2], out)
    if isinstance(op, arith.Cast):
        return _cast(args[0], element_type(op.a.type), out)
    return None


def _cast(value: Number, source: DType, out: DType) -> Number | None:
    """Integers convert exactly; of floats only small whole numbers, which every width holds."""
    if out.is_float:
        small = out.name in ("f64", "f32") and abs(value) < 2**24 and value == int(value)
        return float(value) if small else None
    return None if source.is_float else wrap(value, out)


def foldable(op: Op) -> bool:
    """Whether evaluating in Python gives the very bits that the machine would.

    Integer and bool results are; of floats only what `evaluate` knows to be exact.
    """
    t = op.results[0].type
    if not isinstance(t, ScalarType):
        return False
    return not t.dtype.is_float or isinstance(op, arith.Cast | arith.Select | arith.Neg)
