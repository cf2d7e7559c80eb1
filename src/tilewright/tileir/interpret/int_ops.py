"""Integers: arithmetic that wraps, comparisons, bits.

i1 counts modulo 2; read as signed, its true is -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops.tile import arith
from tilewright.ir.ops.tile.base import TileOp
from tilewright.numeric.dtypes import BOOL, DType
from tilewright.tileir.interpret.scope import Compile, Run, Scope, Step, computed, watched
from tilewright.tileir.interpret.values import (
    as_signed,
    as_unsigned,
    from_integers,
    row_of,
)

Fn = Callable[..., Any]


def element_row(op: Any) -> DType:
    """The element type that an operation works on: that of its first operand."""
    return row_of(op.operands[0].type)


def first(fault: Any, *arrays: Any) -> str:
    """The operands at the first place where `fault` is true, as messages show them."""
    at = np.unravel_index(int(np.argmax(fault)), np.shape(fault))
    shown = ", ".join(str(np.broadcast_to(a, np.shape(fault))[at]) for a in arrays)
    return shown + (f" at element {tuple(map(int, at))}" if at else "")


# --- operations that may promise not to wrap ----------------------------------------------------


def _signed_wraps(kind: type[Op], a: Any, b: Any, r: Any, row: DType) -> Any:
    """Where the signed result is not the exact one."""
    if kind is arith.AddI:
        return ((a ^ r) & (b ^ r)) < 0
    if kind is arith.SubI:
        return ((a ^ b) & (a ^ r)) < 0
    if kind is arith.MulI:
        high = mulhi(as_unsigned(a, row), as_unsigned(b, row), row).view(r.dtype)
        high = high - np.where(a < 0, b, 0).astype(r.dtype) - np.where(b < 0, a, 0).astype(r.dtype)
        return high != (r >> (row.bits - 1))
    count = as_unsigned(b, row)
    return (count >= row.bits) | (np.right_shift(r, b) != a)


def _unsigned_wraps(kind: type[Op], a: Any, b: Any, r: Any, row: DType) -> Any:
    ua, ub, ur = (as_unsigned(x, row) for x in (a, b, r))
    if kind is arith.AddI:
        return ur < ua
    if kind is arith.SubI:
        return ua < ub
    if kind is arith.MulI:
        return mulhi(ua, ub, row) != 0
    return (ub >= row.bits) | (np.right_shift(ur, ub) != ua)


_WRAPPING: dict[type[Op], Fn] = {
    arith.AddI: np.add,
    arith.SubI: np.subtract,
    arith.MulI: np.multiply,
    arith.ShLI: np.left_shift,  # which reads the amount as unsigned: 0 from the width on
}


def _of_i1(fn: Fn) -> Fn:
    """`fn` on bytes, of which the low bit is kept."""
    return lambda *xs: (fn(*(x.astype(np.uint8) for x in xs)) & 1).astype(np.bool_)


def _wrapping(op: Any) -> Fn:
    row, kind = element_row(op), type(op)
    if row is BOOL:
        if kind is arith.ShLI:
            return lambda a, b: a & ~b
        return _of_i1(_WRAPPING[kind])
    return _WRAPPING[kind]


def _promising(op: Any) -> Fn:
    """An operation that promises not to wrap, and is held to it."""
    row, kind, fn, promise = element_row(op), type(op), _wrapping(op), op.overflow
    signed = promise in ("no_signed_wrap", "no_wrap")
    unsigned = promise in ("no_unsigned_wrap", "no_wrap")

    def check(run: Run, a: Any, b: Any) -> Any:
        r = fn(a, b)
        for wanted, wraps, how in (
            (signed, _signed_wraps, "signed"),
            (unsigned, _unsigned_wraps, "unsigned"),
        ):
            if wanted and (fault := wraps(kind, a, b, r, row)).any():
                run.report(
                    "overflow",
                    op,
                    f"{op.mnemonic} wraps, {how}, though it promises {promise}: operands "
                    f"{first(fault, a, b)}",
                )
        return r

    return check


def _overflowing(op: Any, scope: Scope) -> Step | None:
    if op.overflow == "none" or element_row(op) is BOOL:
        return computed(_wrapping)(op, scope)
    return watched(_promising)(op, scope)


def _negate(op: Any, scope: Scope) -> Step | None:
    row = element_row(op)
    if row is BOOL:
        return computed(lambda _: lambda a: a)(op, scope)
    if op.overflow == "none":
        return computed(lambda _: np.negative)(op, scope)
    lowest = row.min

    def check(run: Run, a: Any) -> Any:
        if (fault := a == lowest).any():
            run.report("overflow", op, f"negi wraps: operand {first(fault, a)}")
        return np.negative(a)

    return watched(lambda _: check)(op, scope)


# --- division -----------------------------------------------------------------------------------


def _divide(op: Any) -> Fn:
    row, mode = element_row(op), op.rounding
    signed = op.signedness == "signed"

    def fn(run: Run, a: Any, b: Any) -> Any:
        x, y = _operands(run, op, a, b, row, signed)
        quotient = np.floor_divide(x, y)
        if mode != "negative_inf":
            inexact = quotient * y != x
            up = inexact if mode == "positive_inf" else inexact & ((x < 0) ^ (y < 0))
            quotient = quotient + up.astype(quotient.dtype)
        return _back(quotient, row)

    return fn


def _remainder(op: Any) -> Fn:
    row, signed = element_row(op), op.signedness == "signed"

    def fn(run: Run, a: Any, b: Any) -> Any:
        x, y = _operands(run, op, a, b, row, signed)
        return _back(np.fmod(x, y), row)

    return fn


def _operands(run: Run, op: Any, a: Any, b: Any, row: DType, signed: bool) -> tuple[Any, Any]:
    """Operands as they are read; where the quotient is undefined, the divisor is made 1."""
    x, y = (as_signed(v, row) if signed else as_unsigned(v, row) for v in (a, b))
    fault = y == 0
    if fault.any():
        run.report("division", op, f"{op.mnemonic} by zero: operands {first(fault, x, y)}")
    if signed:
        beyond = (y == -1) & (x == (row.min if row is not BOOL else -1))
        if beyond.any():
            run.report(
                "division", op, f"{op.mnemonic} of the lowest {row} by -1: its quotient is no {row}"
            )
        fault = fault | beyond
    if fault.any():
        y = np.where(fault, y.dtype.type(1), y)
    return x, y


def _back(r: Any, row: DType) -> Any:
    return from_integers(r, row) if row is BOOL else r.view(np.dtype(f"int{row.bits}"))


# --- the rest -----------------------------------------------------------------------------------


def mulhi(a: Any, b: Any, row: DType) -> Any:
    """The high half of the product of unsigned integers."""
    if row.bits <= 32:
        wide = a.astype(np.uint64) * b.astype(np.uint64)
        return (wide >> np.uint64(row.bits)).astype(a.dtype)
    low32, half = np.uint64(0xFFFF_FFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low32, a >> half, b & low32, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    other = a0 * b1 + (middle & low32)
    return a1 * b1 + (middle >> half) + (other >> half)


def _mulhi(op: Any) -> Fn:
    row = element_row(op)
    if row is BOOL:
        return lambda a, b: a & ~a & b
    return lambda a, b: mulhi(as_unsigned(a, row), as_unsigned(b, row), row).view(a.dtype)


def _reading(op: Any, ufunc: Fn) -> Fn:
    """A function of the operands, read as `signedness` says."""
    row = element_row(op)
    if op.signedness == "signed" and row is not BOOL:
        return ufunc
    read = as_signed if op.signedness == "signed" else as_unsigned
    return lambda a, b: _back(ufunc(read(a, row), read(b, row)), row)


def _shift_right(op: Any) -> Fn:
    row, signed = element_row(op), op.signedness == "signed"
    if row is BOOL:
        return (lambda a, _: a) if signed else (lambda a, b: a & ~b)
    if not signed:
        return lambda a, b: np.right_shift(as_unsigned(a, row), as_unsigned(b, row)).view(a.dtype)
    return np.right_shift  # all of the sign from the width on


PREDICATES: dict[str, Fn] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}


def _compare(op: Any) -> Fn:
    row, ufunc = element_row(op), PREDICATES[op.comparison_predicate]
    if op.signedness == "signed" and row is not BOOL:
        return ufunc
    read = as_signed if op.signedness == "signed" else as_unsigned
    return lambda a, b: ufunc(read(a, row), read(b, row))


def _absolute(op: Any) -> Fn:
    return (lambda a: a) if element_row(op) is BOOL else np.absolute


TABLE: dict[type[TileOp], Compile] = {
    arith.AbsI: computed(_absolute),
    arith.AddI: _overflowing,
    arith.SubI: _overflowing,
    arith.MulI: _overflowing,
    arith.ShLI: _overflowing,
    arith.NegI: _negate,
    arith.MulhiI: computed(_mulhi),
    arith.DivI: watched(_divide),
    arith.RemI: watched(_remainder),
    arith.MaxI: computed(lambda op: _reading(op, np.maximum)),
    arith.MinI: computed(lambda op: _reading(op, np.minimum)),
    arith.ShRI: computed(_shift_right),
    arith.AndI: computed(lambda _: np.bitwise_and),
    arith.OrI: computed(lambda _: np.bitwise_or),
    arith.XOrI: computed(lambda _: np.bitwise_xor),
    arith.CmpI: computed(_compare),
}
