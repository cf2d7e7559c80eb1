"""What is known of run-time integers: a divisor, and which of their bits can be set.

Both are read off the operations that made the value, plus what the kernel's author vouches for
with `assume`.  They decide how wide an access may be and how cheap a swizzled address is.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

from tilewright.errors import TypeMismatchError
from tilewright.ir.builder import constant_value
from tilewright.ir.core import Op, Value
from tilewright.ir.ops import arith, sync
from tilewright.ir.types import ScalarType
from tilewright.lang import trace
from tilewright.lang.values import Numeric

_assumptions: dict[int, dict[Value, int]] = {}
"""What was vouched for in each living trace, by the trace's id."""
_DEPTH = 24
"""How far back through its operands a value is examined."""
_SPECIAL_ONES = {"lane": 31, "thread_idx": 1023, "cluster_rank": 15, "block_in_cluster": 15}


def assume_divisible(value: Value, by: int) -> None:
    """Records, for the current trace, that `by` divides `value`."""
    _assumed()[value] = math.lcm(by, _assumed().get(value, 1))


def _assumed() -> dict[Value, int]:
    active = trace.current()
    return {} if active is None else _table(active)


def _table(of: trace.Trace) -> dict[Value, int]:
    key = id(of)
    if key not in _assumptions:
        _assumptions[key] = {}
        weakref.finalize(of, _assumptions.pop, key, None)
    return _assumptions[key]


def hand_on(old: Sequence[Value], new: Sequence[Value]) -> None:
    """Lets arguments of a kernel keep what its caller knew of them.

    Inside one function nothing is handed on: what a loop carries may change.
    """
    here = trace.current()
    for outer in trace._stack:
        if outer is here:
            continue
        table = _table(outer)
        for before, after in zip(old, new, strict=True):
            known = _divisor(before, table, _DEPTH) if before in table else 1
            if known != 1:
                assume_divisible(after, known)


def assume(x: Any, divby: int | None = None) -> Any:
    """`x` itself, known from here on to be a multiple of `divby` (the kernel's author vouches).

    Raises: TypeMismatchError if `x` is no integer, or a compile-time one that `divby` does not
            divide.

    >>> assume(64, divby=8)
    64
    """
    if divby is None:
        return x
    raw = x.raw if isinstance(x, Numeric) else x
    if isinstance(raw, Value):
        assume_divisible(raw, divby)
    elif not isinstance(raw, int):
        raise TypeMismatchError(
            f"assume: expected an integer, got {type(x).__name__} {x!r}", loc=trace.loc()
        )
    elif raw % divby:
        raise TypeMismatchError(f"assume: {raw} is not a multiple of {divby}", loc=trace.loc())
    return x


def divisor(x: Any) -> int:
    """The largest number known to divide `x` (0 for zero, which everything divides).

    >>> divisor(12), divisor(0)
    (12, 0)
    """
    raw = x.raw if isinstance(x, Numeric) else x
    if isinstance(raw, Value):
        return _divisor(raw, _assumed(), _DEPTH)
    return abs(int(raw))


def _divisor(value: Value, assumed: dict[Value, int], depth: int) -> int:
    known = assumed.get(value, 1)
    op = value.owner
    if not isinstance(op, Op) or depth == 0:
        return known
    found = _divisor_of_op(op, assumed, depth - 1)
    return math.lcm(found, known) if found else 0


def _divisor_of_op(op: Op, assumed: dict[Value, int], depth: int) -> int:
    def of(v: Value) -> int:
        return _divisor(v, assumed, depth)

    kind, args = type(op), op.operands
    if isinstance(op, arith.Constant):
        return abs(int(op.value)) if isinstance(op.value, int) else 1
    if kind in (arith.Add, arith.Sub, arith.Min, arith.Max, arith.Mod):
        return math.gcd(of(args[0]), of(args[1]))
    if kind is arith.Mul:
        return of(args[0]) * of(args[1])
    if kind is arith.Fma:
        return math.gcd(of(args[0]) * of(args[1]), of(args[2]))
    if kind is arith.Select:
        return math.gcd(of(args[1]), of(args[2]))
    if kind in (arith.Neg, sync.WarpUniform):
        return of(args[0])
    if kind in (arith.Or, arith.Xor):
        return math.gcd(_two_part(of(args[0])), _two_part(of(args[1])))
    if kind is arith.And:
        return max(_two_part(of(args[0])), _two_part(of(args[1])))
    if kind is arith.Cast:
        return _of_cast(op, of)
    return _of_shift(op, of)


def _of_cast(op: Op, of: Any) -> int:
    source, target = op.operands[0].type, op.results[0].type
    if not isinstance(source, ScalarType) or source.dtype.is_float:
        return 1
    d: int = of(op.operands[0])
    if isinstance(target, ScalarType) and target.dtype.bits < source.dtype.bits:
        return _two_part(d)
    return d


def _of_shift(op: Op, of: Any) -> int:
    if not isinstance(op, arith.Shl | arith.Shr | arith.FloorDiv):
        return 1
    amount = constant_value(op.operands[1])
    if not isinstance(amount, int) or amount < 0:
        return 1
    d: int = of(op.operands[0])
    if isinstance(op, arith.Shl):
        return d << amount
    by = amount if isinstance(op, arith.FloorDiv) else 1 << amount
    return d // by if by and d % by == 0 else 1


def _two_part(d: int) -> int:
    """The largest power of two that divides `d`; 2**62 stands for that of zero."""
    return d & -d if d else 1 << 62


def ones(x: Any) -> int:
    """A mask with every bit that can be set in `x`; -1 if `x` may be negative or is unknown.

    >>> ones(12), ones(-4)
    (12, -1)
    """
    raw = x.raw if isinstance(x, Numeric) else x
    if isinstance(raw, Value):
        return _ones(raw, _DEPTH)
    return int(raw) if raw >= 0 else -1


def _ones(value: Value, depth: int) -> int:
    op = value.owner
    t = value.type
    if not isinstance(op, Op) or not isinstance(t, ScalarType) or t.dtype.is_float or depth == 0:
        return -1
    mask = _ones_of_op(op, depth - 1)
    limit = (1 << (t.dtype.bits - t.dtype.is_signed)) - 1 if t.dtype.is_integer else 1
    return mask if 0 <= mask <= limit else -1


def _ones_of_op(op: Op, depth: int) -> int:
    args = op.operands
    if isinstance(op, arith.Constant):
        return int(op.value) if isinstance(op.value, int) and op.value >= 0 else -1
    if isinstance(op, sync.Special):
        return _SPECIAL_ONES.get(op.register, -1)
    if not args:
        return -1
    first = _ones(args[0], depth)
    if isinstance(op, sync.WarpUniform | arith.Cast):
        return first
    if len(args) < 2:
        return -1
    second = _ones(args[1], depth)
    known = constant_value(args[1])
    if isinstance(op, arith.And):
        return second if first < 0 else first if second < 0 else first & second
    if isinstance(op, arith.Mod):
        return _ones_of_mod(first, known)
    if isinstance(op, arith.Select):
        third = _ones(args[2], depth)
        return second | third if min(second, third) >= 0 else -1
    if first < 0 or second < 0:
        return -1
    if isinstance(op, arith.Or | arith.Xor):
        return first | second
    if isinstance(op, arith.Add):
        return first | second if first & second == 0 else _spread(first + second, first | second)
    if isinstance(op, arith.Mul):
        return _ones_of_mul(first, second)
    return _ones_of_shift(op, first, known)


def _ones_of_mod(first: int, known: Any) -> int:
    if not isinstance(known, int) or known <= 0:
        return -1
    below = (1 << (known - 1).bit_length()) - 1
    return first & below if first >= 0 and known & (known - 1) == 0 else below


def _ones_of_mul(first: int, second: int) -> int:
    for a, b in ((first, second), (second, first)):
        if a and a & (a - 1) == 0:
            return a * b
    return _spread(first * second, (first & -first) * (second & -second))


def _ones_of_shift(op: Op, first: int, known: Any) -> int:
    if not isinstance(known, int) or known < 0:
        return -1
    if isinstance(op, arith.Shl):
        return first << known
    if isinstance(op, arith.Shr):
        return first >> known
    if isinstance(op, arith.FloorDiv) and known > 0:
        if known & (known - 1) == 0:
            return first >> (known.bit_length() - 1)
        return (1 << (first // known).bit_length()) - 1
    return -1


def _spread(largest: int, low: int) -> int:
    """Every bit up to that of `largest`, from the lowest bit of `low` on."""
    lowest = low & -low if low else 1
    return ((1 << largest.bit_length()) - 1) & ~(lowest - 1)
