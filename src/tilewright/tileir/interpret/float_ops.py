"""Floats: arithmetic with rounding modes, extrema, comparisons, elementary functions.

f16 and bf16 are computed in f32 and rounded; + - * / and sqrt then round as if once.  Elementary
functions of f32 are computed in float64 and rounded.  `approx` and `full` let hardware be less
accurate; here they are `nearest_even`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.ops.tile import arith
from tilewright.ir.ops.tile.base import TileOp
from tilewright.numeric.convert import storage_dtype
from tilewright.numeric.dtypes import F32, F64, DType
from tilewright.tileir.interpret.int_ops import PREDICATES, element_row
from tilewright.tileir.interpret.rounding import MODES, flushing, fma_f32, fma_f64, rounded
from tilewright.tileir.interpret.scope import Compile, computed

Fn = Callable[..., Any]


def _maybe_flushing(op: Any, fn: Fn) -> Fn:
    return flushing(fn) if op.flush_to_zero else fn


def _arithmetic(what: str, ufunc: Fn) -> Compile:
    """An operation with a rounding mode; NumPy's own function rounds to nearest."""

    def make(op: Any) -> Fn:
        mode = op.rounding_mode
        nearest = mode == "nearest_even" or mode not in MODES
        return _maybe_flushing(op, ufunc if nearest else rounded(what, element_row(op), mode))

    return computed(make)


def _fma(op: Any) -> Fn:
    row, mode = element_row(op), op.rounding_mode
    if mode == "nearest_even" and row in (F32, F64):
        return _maybe_flushing(op, fma_f32 if row is F32 else fma_f64)
    return _maybe_flushing(op, rounded("fma", row, mode))


def _zero_sign(prefer_negative: bool, ignoring: Fn) -> Fn:
    """An extremum that tells +0 from -0, which NumPy's does not."""

    def fn(a: Any, b: Any) -> Any:
        r = ignoring(a, b)
        zero = (a == 0) & (b == 0)
        if not zero.any():
            return r
        # Both are zeros: the wanted one is that with the wanted sign, if either has it.
        picked = np.where(np.signbit(a) == prefer_negative, a, b)
        return np.where(zero, picked, r)

    return fn


maximum_number = _zero_sign(False, np.fmax)
minimum_number = _zero_sign(True, np.fmin)
maximum = _zero_sign(False, np.maximum)
minimum = _zero_sign(True, np.minimum)


def _max(op: Any) -> Fn:
    return _maybe_flushing(op, maximum if op.propagate_nan else maximum_number)


def _min(op: Any) -> Fn:
    return _maybe_flushing(op, minimum if op.propagate_nan else minimum_number)


def _compare(op: Any) -> Fn:
    ufunc, unordered = PREDICATES[op.comparison_predicate], op.comparison_ordering == "unordered"
    # NumPy's comparisons are false where an operand is NaN, except that not_equal is true.
    if unordered == (op.comparison_predicate == "not_equal"):
        return ufunc
    if unordered:
        return lambda a, b: ufunc(a, b) | np.isnan(a) | np.isnan(b)
    return lambda a, b: ufunc(a, b) & ~(np.isnan(a) | np.isnan(b))


def elementary(fn: Fn, row: DType) -> Fn:
    """`fn` in float64, rounded to f32, and from there to narrower types."""
    if row is F64:
        return fn
    if row is F32:
        return lambda *xs: fn(*(x.astype(np.float64) for x in xs)).astype(np.float32)
    narrow = storage_dtype(row)
    return lambda *xs: fn(*(x.astype(np.float64) for x in xs)).astype(np.float32).astype(narrow)


def _function(fn: Fn) -> Compile:
    def make(op: Any) -> Fn:
        computed_fn = elementary(fn, element_row(op))
        return flushing(computed_fn) if op.attrs.get("flush_to_zero") else computed_fn

    return computed(make)


def _integer_power(op: Any) -> Fn:
    narrow = storage_dtype(element_row(op))
    return lambda a, b: (
        np.power(a.astype(np.float64), b.astype(np.float64)).astype(np.float32).astype(narrow)
        if narrow != np.float64
        else np.power(a, b.astype(np.float64))
    )


def _remainder(op: Any) -> Fn:
    narrow = storage_dtype(element_row(op))
    if narrow in (np.float32, np.float64):
        return np.fmod
    return lambda a, b: np.fmod(a.astype(np.float32), b.astype(np.float32)).astype(narrow)


def _of_one(fn: Fn) -> Compile:
    """A function that is exact in the type itself."""
    return computed(lambda _: fn)


TABLE: dict[type[TileOp], Compile] = {
    arith.AddF: _arithmetic("add", np.add),
    arith.SubF: _arithmetic("sub", np.subtract),
    arith.MulF: _arithmetic("mul", np.multiply),
    arith.DivF: _arithmetic("div", np.divide),
    arith.Sqrt: _arithmetic("sqrt", np.sqrt),
    arith.Fma: computed(_fma),
    arith.RemF: computed(_remainder),
    arith.MaxF: computed(_max),
    arith.MinF: computed(_min),
    arith.CmpF: computed(_compare),
    arith.AbsF: _of_one(np.abs),
    arith.NegF: _of_one(np.negative),
    arith.Ceil: _of_one(np.ceil),
    arith.Floor: _of_one(np.floor),
    arith.Rsqrt: _function(lambda x: 1.0 / np.sqrt(x)),
    arith.Exp: _function(np.exp),
    arith.Exp2: _function(np.exp2),
    arith.Log: _function(np.log),
    arith.Log2: _function(np.log2),
    arith.Sin: _function(np.sin),
    arith.Cos: _function(np.cos),
    arith.Tan: _function(np.tan),
    arith.SinH: _function(np.sinh),
    arith.CosH: _function(np.cosh),
    arith.TanH: _function(np.tanh),
    arith.Atan2: _function(np.arctan2),
    arith.FPowF: _function(np.power),
    arith.FPowI: computed(_integer_power),
}
