"""Arithmetic: one NumPy call for all threads of a group, or plain Python where they agree.

Floats of 16 bits and fewer are computed in float32 and rounded to their type.  A float32 `fma` is
computed in float64 and rounded to float32: the product is exact, the sum is rounded twice, which
differs from one rounding only where the first lands exactly halfway between two float32.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.ops import arith
from tilewright.ir.types import ScalarType, VecType, element_type
from tilewright.numeric.convert import bits_to_storage, convert, storage_dtype, storage_to_bits
from tilewright.numeric.dtypes import F32, F64, DType
from tilewright.numeric.dtypes import dtype as row
from tilewright.sim.group import Group
from tilewright.sim.step import Context, Step, executes
from tilewright.sim.values import Array, Val, is_array

Number = Any
Round = Callable[[Any], Any]


def constant(op: arith.Constant) -> Number:
    """The value of a constant as the slots hold it: rounded to its type."""
    t = row(op.dtype)
    return scalar_rounder(t)(op.value)


# -- rounding to a type --------------------------------------------------------------------------


def scalar_rounder(t: DType) -> Round:
    """Any number to the Python number that the type holds: integers wrap, floats round."""
    if t is F64:
        return float
    if t.is_float:
        if t is F32:
            single = np.float32
            return lambda v: float(single(v))
        wide, narrow = np.float32, storage_dtype(t)
        if t.bits == 16:
            return lambda v: float(np.array(v, wide).astype(narrow))
        return lambda v: convert(np.array([v], wide), F32, t).astype(np.float64).item()
    if t.kind == "bool":
        return bool
    mask, top = (1 << t.bits) - 1, 1 << (t.bits - 1)
    if not t.is_signed:
        return lambda v: int(v) & mask

    def wrap(v: Any) -> int:
        i = int(v)
        return i if -top <= i < top else ((i + top) & mask) - top

    return wrap


def _widen(t: DType) -> Round:
    """An array of the type as one that NumPy computes with."""
    if t.is_float:
        return (lambda a: a) if t in (F32, F64) else (_as_float)
    if t.bits == 4:
        return lambda a: a.astype(np.int16) if is_array(a) else a
    return lambda a: a


def _as_float(a: Any) -> Any:
    return a.astype(np.float32) if is_array(a) else a


def array_rounder(t: DType) -> Round | None:
    """What turns the result of the wide computation back into storage; None if nothing need."""
    if t in (F32, F64) or t.kind == "bool" or (t.is_integer and t.bits >= 8):
        return None
    dt = storage_dtype(t)
    if t.is_integer:
        return lambda a: convert(a.astype(np.int16), row("i16"), t)
    if t.bits == 16:
        return lambda a: np.asarray(a, np.float32).astype(dt)
    return lambda a: convert(np.asarray(a, np.float32), F32, t)


# -- binary operations ---------------------------------------------------------------------------


def _floordiv(a: Number, b: Number) -> Number:
    return a // b if b else 0


def _mod(a: Number, b: Number) -> Number:
    return a % b if b else 0


def _div(a: Number, b: Number) -> Number:
    if b:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _float_min(a: Number, b: Number) -> Number:
    return b if a != a else a if b != b else min(a, b)


def _float_max(a: Number, b: Number) -> Number:
    return b if a != a else a if b != b else max(a, b)


# Of the operation: on Python integers, on integer arrays; on Python floats, on float arrays.
_BINARY: dict[type, tuple[Any, Any, Any, Any]] = {
    arith.Add: (operator.add, np.add, operator.add, np.add),
    arith.Sub: (operator.sub, np.subtract, operator.sub, np.subtract),
    arith.Mul: (operator.mul, np.multiply, operator.mul, np.multiply),
    arith.Div: (None, None, _div, np.divide),
    arith.FloorDiv: (_floordiv, np.floor_divide, None, None),
    arith.Mod: (_mod, np.remainder, None, None),
    arith.Min: (min, np.minimum, _float_min, np.fmin),
    arith.Max: (max, np.maximum, _float_max, np.fmax),
    arith.And: (operator.and_, np.bitwise_and, None, None),
    arith.Or: (operator.or_, np.bitwise_or, None, None),
    arith.Xor: (operator.xor, np.bitwise_xor, None, None),
}


def _safely(f: Callable[..., Number]) -> Callable[..., Number]:
    """Python floats raise where IEEE has an infinity."""

    def safe(*args: Number) -> Number:
        try:
            return f(*args)
        except OverflowError:
            return math.inf if args[0] > 0 else -math.inf

    return safe


@executes(*_BINARY)
def binary(op: Any, context: Context) -> Step:
    t = element_type(op.results[0].type)
    int_number, int_array, float_number, float_array = _BINARY[type(op)]
    on_numbers = float_number if t.is_float else int_number
    on_arrays = float_array if t.is_float else int_array
    return _two(op, context, t, on_numbers, on_arrays)


def _two(op: Any, context: Context, t: DType, on_numbers: Any, on_arrays: Any) -> Step:
    ia, ib, out = context.slot(op.a), context.slot(op.b), context.slot(op.results[0])
    exact = scalar_rounder(t)
    finish = array_rounder(t)
    if finish is None:

        def step(g: Group) -> None:
            s = g.slots
            a, b = s[ia], s[ib]
            if type(a) is np.ndarray or type(b) is np.ndarray:
                s[out] = on_arrays(a, b)
            else:
                s[out] = exact(on_numbers(a, b))

        return step
    wide = _widen(t)

    def rounded(g: Group) -> None:
        s = g.slots
        a, b = s[ia], s[ib]
        if is_array(a) or is_array(b):
            s[out] = finish(on_arrays(wide(a), wide(b)))
        else:
            s[out] = exact(on_numbers(a, b))

    return rounded


@executes(arith.Shl, arith.Shr)
def shift(op: Any, context: Context) -> Step:
    """Shifts by the width or more give 0 (or the sign), as PTX's do."""
    t = element_type(op.results[0].type)
    bits = t.bits
    if isinstance(op, arith.Shl):
        return _two(op, context, t, lambda a, b: a << b if 0 <= b < bits else 0, np.left_shift)
    return _two(op, context, t, lambda a, b: a >> (b if 0 <= b < bits else bits), np.right_shift)


@executes(arith.Fma)
def fma(op: arith.Fma, context: Context) -> Step:
    t = element_type(op.result.type)
    ia, ib, ic, out = *context.slots(op.operands), context.slot(op.result)
    exact = scalar_rounder(t)
    finish = array_rounder(t)
    single = t is F32
    wide = _widen(t)

    def step(g: Group) -> None:
        s = g.slots
        a, b, c = s[ia], s[ib], s[ic]
        if not (is_array(a) or is_array(b) or is_array(c)):
            s[out] = exact(a * b + c)
        elif single:
            s[out] = (np.multiply(a, b, dtype=np.float64) + c).astype(np.float32)
        elif finish is None:
            s[out] = a * b + c
        else:
            s[out] = finish(wide(a) * wide(b) + wide(c))

    return step


@executes(arith.Neg)
def neg(op: arith.Neg, context: Context) -> Step:
    t = element_type(op.result.type)
    ia, out = context.slot(op.a), context.slot(op.result)
    exact, finish, wide = scalar_rounder(t), array_rounder(t), _widen(t)

    def step(g: Group) -> None:
        a = g.slots[ia]
        if not is_array(a):
            g.slots[out] = exact(-a)
        else:
            g.slots[out] = np.negative(a) if finish is None else finish(-wide(a))

    return step


# -- comparison, choice, conversion --------------------------------------------------------------

_COMPARE: dict[str, tuple[Any, Any]] = {
    "eq": (operator.eq, np.equal),
    "ne": (operator.ne, np.not_equal),
    "lt": (operator.lt, np.less),
    "le": (operator.le, np.less_equal),
    "gt": (operator.gt, np.greater),
    "ge": (operator.ge, np.greater_equal),
}


@executes(arith.Cmp)
def compare(op: arith.Cmp, context: Context) -> Step:
    t = element_type(op.a.type)
    ia, ib, out = context.slot(op.a), context.slot(op.b), context.slot(op.result)
    on_numbers, on_arrays = _COMPARE[op.predicate]
    wide = _widen(t)

    def step(g: Group) -> None:
        s = g.slots
        a, b = s[ia], s[ib]
        if is_array(a) or is_array(b):
            s[out] = on_arrays(wide(a), wide(b))
        else:
            s[out] = on_numbers(a, b)

    return step


@executes(arith.Select)
def select(op: arith.Select, context: Context) -> Step:
    ic, ia, ib, out = *context.slots(op.operands), context.slot(op.result)
    dt = storage_dtype(element_type(op.result.type))
    column = isinstance(op.result.type, VecType) and isinstance(op.condition.type, ScalarType)

    def step(g: Group) -> None:
        s = g.slots
        mask = s[ic]
        if not is_array(mask):
            s[out] = s[ia] if mask else s[ib]
            return
        if column:
            mask = mask[:, None]
        s[out] = np.where(mask, np.asarray(s[ia], dt), np.asarray(s[ib], dt))

    return step


@executes(arith.Cast)
def cast(op: arith.Cast, context: Context) -> Step:
    src, dst = element_type(op.a.type), row(op.dtype)
    ia, out = context.slot(op.a), context.slot(op.result)
    of_array = _array_cast(src, dst, op.rounding, op.saturate)
    of_number = _number_cast(src, dst, op.rounding, op.saturate)

    def step(g: Group) -> None:
        a = g.slots[ia]
        g.slots[out] = of_array(a) if is_array(a) else of_number(a)

    return step


def _array_cast(src: DType, dst: DType, rounding: str, saturate: bool) -> Round:
    dt = storage_dtype(dst)
    if src is dst and not saturate:
        return lambda a: a
    plain = src.is_integer and dst.is_integer and min(src.bits, dst.bits) >= 8 and not saturate
    if plain or (src.kind == "bool" and dst.is_integer and dst.bits >= 8):
        return lambda a: a.astype(dt)
    if dst.kind == "bool":
        zero = src.python_type(0)
        return lambda a: a != zero if src.bits > 8 or src.is_integer else convert(a, src, dst)
    return lambda a: convert(a, src, dst, rounding, saturate)  # type: ignore[arg-type]


def _number_cast(src: DType, dst: DType, rounding: str, saturate: bool) -> Round:
    if not src.is_float and not dst.is_float and not saturate:
        return scalar_rounder(dst)
    of_array = _array_cast(src, dst, rounding, saturate)
    held = storage_dtype(src)
    return lambda v: of_array(np.array([v], held)).item()


@executes(arith.Bitcast)
def bitcast(op: arith.Bitcast, context: Context) -> Step:
    src, dst = element_type(op.a.type), row(op.dtype)
    ia, out = context.slot(op.a), context.slot(op.result)
    held = storage_dtype(src)

    def turn(a: Array) -> Array:
        return bits_to_storage(storage_to_bits(np.ascontiguousarray(a), src), dst)

    def step(g: Group) -> None:
        a = g.slots[ia]
        g.slots[out] = turn(a) if is_array(a) else turn(np.array([a], held)).item()

    return step


_ERF = np.frompyfunc(math.erf, 1, 1)
_MATH: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "rcp": lambda a: 1 / a,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": lambda a: np.asarray(_ERF(a), np.asarray(a).dtype),
    "floor": np.floor,
    "ceil": np.ceil,
    "abs": np.abs,
}


@executes(arith.Math)
def elementary(op: arith.Math, context: Context) -> Step:
    """`fast` is not modelled: the result is the accurate one."""
    t = element_type(op.result.type)
    ia, out = context.slot(op.a), context.slot(op.result)
    f = _MATH[op.function]
    finish, wide = array_rounder(t), _widen(t)
    held = np.float64 if t is F64 else np.float32
    exact = scalar_rounder(t)

    def step(g: Group) -> None:
        a = g.slots[ia]
        if not is_array(a):
            g.slots[out] = exact(f(held(a)))
        else:
            g.slots[out] = f(a) if finish is None else finish(f(wide(a)))

    return step


@executes(arith.Popc)
def popc(op: arith.Popc, context: Context) -> Step:
    t = element_type(op.a.type)
    ia, out = context.slot(op.a), context.slot(op.result)
    mask = (1 << t.bits) - 1

    def step(g: Group) -> None:
        a = g.slots[ia]
        if is_array(a):
            g.slots[out] = np.bitwise_count(storage_to_bits(a, t)).astype(np.uint32)
        else:
            g.slots[out] = (int(a) & mask).bit_count()

    return step


# -- vectors -------------------------------------------------------------------------------------


@executes(arith.Splat)
def splat(op: arith.Splat, context: Context) -> Step:
    ia, out, count = context.slot(op.a), context.slot(op.result), op.count
    dt = storage_dtype(element_type(op.a.type))

    def step(g: Group) -> None:
        a = g.slots[ia]
        column = a[:, None] if is_array(a) else np.array([[a]], dt)
        g.slots[out] = np.repeat(column, count, axis=1)

    return step


@executes(arith.Extract)
def extract(op: arith.Extract, context: Context) -> Step:
    iv, out, index = context.slot(op.vector), context.slot(op.result), op.index

    def step(g: Group) -> None:
        v = g.slots[iv]
        g.slots[out] = v[:, index] if v.shape[0] != 1 else v[0, index].item()

    return step


@executes(arith.Pack)
def pack(op: arith.Pack, context: Context) -> Step:
    sources, out = context.slots(op.elements), context.slot(op.result)
    dt = storage_dtype(element_type(op.result.type))
    count = len(sources)

    def step(g: Group) -> None:
        s = g.slots
        parts = [s[i] for i in sources]
        n = g.n if any(is_array(p) for p in parts) else 1
        made = np.empty((n, count), dt)
        for i, p in enumerate(parts):
            made[:, i] = p
        s[out] = made

    return step


@executes(arith.Shuffle)
def shuffle(op: arith.Shuffle, context: Context) -> Step:
    iv, out = context.slot(op.vector), context.slot(op.result)
    first, count = op.indices[0], len(op.indices)
    where: Any = list(op.indices)
    if where == list(range(first, first + count)):
        where = slice(first, first + count)

    def step(g: Group) -> None:
        g.slots[out] = g.slots[iv][:, where]

    return step


@executes(arith.Reduce)
def reduce(op: arith.Reduce, context: Context) -> Step:
    """From the first element to the last, rounding after each."""
    t = element_type(op.result.type)
    iv, out, n = context.slot(op.vector), context.slot(op.result), op.vector.type.count  # type: ignore[union-attr]
    integers, floats = {
        "add": (np.add, np.add),
        "mul": (np.multiply, np.multiply),
        "min": (np.minimum, np.fmin),
        "max": (np.maximum, np.fmax),
    }[op.kind]
    f = floats if t.is_float else integers
    finish, wide = array_rounder(t), _widen(t)

    def step(g: Group) -> None:
        v: Val = g.slots[iv]
        total = v[:, 0]
        for i in range(1, n):
            total = f(wide(total), wide(v[:, i]))
            if finish is not None:
                total = finish(total)
        g.slots[out] = total if v.shape[0] != 1 else total[0].item()

    return step
