"""Arithmetic of two operands: promotion, broadcasting, rounding; comparisons and `where`.

A pair of Python numbers is computed at compile time, in Python's own arithmetic.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.ir.ops.tile import arith as ops
from tilewright.ir.ops.tile.base import TileOp
from tilewright.ir.ops.tile.shape import Select
from tilewright.lang.tile.compare import compared
from tilewright.lang.tile.convert import promoted
from tilewright.lang.tile.dtypes import (
    DType,
    Kind,
    bool_,
    broadcast,
    dtype_of_constant,
    float32,
    int8,
    promote,
    promote_constant,
)
from tilewright.lang.tile.enums import RoundingMode
from tilewright.lang.tile.errors import (
    TileTypeError,
    TileValueError,
)
from tilewright.lang.tile.require import tile_of
from tilewright.lang.tile.state import value
from tilewright.lang.tile.values import Number, Tile, described, is_number, strict

_IEEE = (RoundingMode.RN, RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP)


@dataclass(frozen=True)
class Rule:
    """How a function is rounded and whether it can flush denormals to zero."""

    modes: tuple[RoundingMode, ...] = ()
    flush: bool = False


RULES: dict[str, Rule] = {
    "add": Rule(_IEEE, True),
    "sub": Rule(_IEEE, True),
    "mul": Rule(_IEEE, True),
    "truediv": Rule((*_IEEE, RoundingMode.FULL, RoundingMode.APPROX), True),
    "min": Rule((), True),
    "max": Rule((), True),
    "exp": Rule((RoundingMode.FULL, RoundingMode.APPROX)),
    "exp2": Rule((), True),
    "tanh": Rule((RoundingMode.FULL, RoundingMode.APPROX)),
    "sqrt": Rule((*_IEEE, RoundingMode.APPROX), True),
    "rsqrt": Rule((), True),
}


def check_modes(name: str, mode: RoundingMode | None, flush: bool, dtype: DType) -> None:
    """Raises: TileTypeError if `name` on `dtype` has no such rounding mode, or cannot flush."""
    rule = RULES.get(name, Rule())
    if mode is not None:
        if mode not in rule.modes:
            raise TileTypeError(f"{name}: it has no rounding mode {mode}")
        if dtype.kind is not Kind.FLOAT:
            raise TileTypeError(f"{name}: rounding modes are for floats, got {dtype}")
        if mode in (RoundingMode.FULL, RoundingMode.APPROX) and dtype is not float32:
            raise TileTypeError(f"{name}: {mode} is for float32 only, got {dtype}")
    if flush and (not rule.flush or dtype is not float32):
        why = f"is for float32 only, got {dtype}" if rule.flush else "does not exist"
        raise TileTypeError(f"{name}: flush_to_zero {why}")


def _c_div(x: Number, y: Number) -> Number:
    return -(-x // y)


_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "cdiv": _c_div,
    "mod": operator.mod,
    "pow": operator.pow,
    "min": min,
    "max": max,
    "atan2": math.atan2,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def folded(name: str, x: Any, y: Any) -> Any:
    """Python's own result for two numbers.

    Raises: TileValueError or TileTypeError where Python has none.
    """
    try:
        return _PYTHON[name](x, y)
    except (ArithmeticError, ValueError) as error:
        raise TileValueError(f"{name} of {x} and {y}: {error}") from error
    except TypeError as error:
        raise TileTypeError(f"{name} of {x!r} and {y!r}: {error}") from error


def common_dtype(x: object, y: object) -> DType:
    """The type that both operands take.

    Raises: TileTypeError if there is none.
    """
    if isinstance(x, bool | int | float):
        if isinstance(y, bool | int | float):
            return promote(dtype_of_constant(x), dtype_of_constant(y))
        return promote_constant(tile_of(y, "right operand").dtype_, x)
    left = tile_of(x, "left operand").dtype_
    if isinstance(y, bool | int | float):
        return promote_constant(left, y)
    return promote(left, tile_of(y, "right operand").dtype_)


def matched(x: object, y: object, dtype: DType, what: str) -> tuple[Tile, Tile]:
    """Both operands in one type and shape."""
    shapes = [() if is_number(o) else tile_of(o, what).shape_ for o in (x, y)]
    shape = broadcast(shapes)
    return promoted(x, dtype, shape, what), promoted(y, dtype, shape, what)


_FLOAT_OPS: dict[str, type[TileOp]] = {
    "add": ops.AddF,
    "sub": ops.SubF,
    "mul": ops.MulF,
    "truediv": ops.DivF,
    "min": ops.MinF,
    "max": ops.MaxF,
    "pow": ops.FPowF,
    "atan2": ops.Atan2,
    "rem": ops.RemF,
}
_INT_OPS: dict[str, type[TileOp]] = {
    "add": ops.AddI,
    "sub": ops.SubI,
    "mul": ops.MulI,
    "min": ops.MinI,
    "max": ops.MaxI,
    "rem": ops.RemI,
    "and": ops.AndI,
    "or": ops.OrI,
    "xor": ops.XOrI,
    "lshift": ops.ShLI,
    "rshift": ops.ShRI,
    "floordiv": ops.DivI,
    "cdiv": ops.DivI,
}
_SIGNED_INTS = ("min", "max", "rem", "rshift")


def raw(
    name: str,
    x: Tile,
    y: Tile,
    mode: RoundingMode | None = None,
    flush: bool = False,
    propagate_nan: bool = False,
) -> Tile:
    """The operation itself, on two tiles of one type and shape."""
    dtype = x.dtype_
    table = _FLOAT_OPS if dtype.is_float else _INT_OPS
    if name not in table:
        raise TileTypeError(f"{name}: there is no such operation on {dtype}")
    kind = table[name]
    attrs: dict[str, Any] = {}
    if dtype.is_float:
        if "rounding_mode" in kind.ATTRS and mode is not None:
            attrs["rounding_mode"] = mode.value
        if flush:
            attrs["flush_to_zero"] = True
        if propagate_nan:
            attrs["propagate_nan"] = True
    elif name in ("floordiv", "cdiv"):
        attrs["signedness"] = dtype.signedness
        if name == "cdiv":
            attrs["rounding"] = "positive_inf"
        elif dtype.signed:
            attrs["rounding"] = "negative_inf"
    elif name in _SIGNED_INTS:
        attrs["signedness"] = dtype.signedness
    made = value(kind, (x.ir, y.ir), x.type, **attrs)
    return Tile(made, dtype, x.shape_)


def binary(
    name: str,
    x: object,
    y: object,
    mode: RoundingMode | None = None,
    flush: bool = False,
    propagate_nan: bool = False,
) -> Any:
    """`name` of two operands, with promotion and broadcasting."""
    for side, operand in (("left", x), ("right", y)):
        kind = dtype_of_constant(operand).kind if is_number(operand) else None  # type: ignore[arg-type]
        kind = kind if kind is not None else tile_of(operand, f"{name}: {side} operand").dtype_.kind
        if kind in (Kind.RESTRICTED, Kind.POINTER):
            raise TileTypeError(
                f"{name}: there is no arithmetic on {described(operand)} ({side} operand)",
                hint="convert it with ct.astype",
            )
    if is_number(x) and is_number(y):
        return folded(name, x, y)
    dtype = common_dtype(x, y)
    if name == "truediv" and not dtype.is_float:
        dtype = float32
    if dtype is bool_:
        raise TileTypeError(f"{name}: bool_ has no arithmetic", hint="convert it with ct.astype")
    a, b = matched(x, y, dtype, name)
    check_modes(name, mode, flush, dtype)
    if a.const is not None and b.const is not None and not a.shape_ and mode is None:
        return strict(_wrapped(folded(name, a.const, b.const), dtype), dtype)
    if dtype.is_float and name in ("floordiv", "cdiv"):
        return _rounded_quotient(name, a, b)
    if name in ("pow", "atan2") and not dtype.is_float:
        raise TileTypeError(f"{name}: it is for floats, got {dtype}", hint="convert with ct.astype")
    return raw(name, a, b, mode, flush, propagate_nan)


def _wrapped(number: Number, dtype: DType) -> Number:
    """An integer modulo the type's range, as the operation itself gives."""
    if not dtype.is_int:
        return number
    low, _ = dtype.int_range()
    return (int(number) - low) % (1 << dtype.bitwidth) + low


def _rounded_quotient(name: str, a: Tile, b: Tile) -> Tile:
    quotient = raw("truediv", a, b)
    kind = ops.Floor if name == "floordiv" else ops.Ceil
    return Tile(value(kind, (quotient.ir,), quotient.type), a.dtype_, a.shape_)


def remainder(x: object, y: object) -> Any:
    """Python's `%`: the sign is that of the divisor."""
    if is_number(x) and is_number(y):
        return folded("mod", x, y)
    dtype = common_dtype(x, y)
    if dtype is bool_ or dtype.kind in (Kind.RESTRICTED, Kind.POINTER):
        raise TileTypeError(f"mod: it is not defined on {dtype}")
    a, b = matched(x, y, dtype, "mod")
    if a.const is not None and b.const is not None and not a.shape_:
        return strict(folded("mod", a.const, b.const), dtype)
    found = raw("rem", a, b)
    if dtype.is_int and not dtype.signed:
        return found
    zero = strict(0, dtype, found.shape_)
    differs = raw_bits("xor", compared("lt", found, zero), compared("lt", b, zero))
    needed = raw_bits("and", differs, compared("ne", found, zero))
    return chosen(needed, raw("add", found, b), found)


def raw_bits(name: str, x: Tile, y: Tile) -> Tile:
    """A bitwise operation on two tiles of one integer or bool type."""
    kind = _INT_OPS[name]
    return Tile(value(kind, (x.ir, y.ir), x.type), x.dtype_, x.shape_)


def bitwise(name: str, x: object, y: object) -> Any:
    """`&`, `|`, `^`: both operands of one integer type or bool."""
    if is_number(x) and is_number(y):
        return folded(name, x, y)
    types = [o.dtype_ if isinstance(o, Tile) else common_dtype(o, 0) for o in (x, y)]
    types = [bool_ if isinstance(o, bool) else t for o, t in zip((x, y), types, strict=True)]
    for t in types:
        if t.kind not in (Kind.BOOL, Kind.INT):
            raise TileTypeError(
                f"{name}: bits are those of integers and bools, got {t}",
                hint="reinterpret it with ct.bitcast",
            )
    if not is_number(x) and not is_number(y) and types[0] is not types[1]:
        raise TileTypeError(f"{name}: expected operands of one type, got {types[0]} and {types[1]}")
    if {*types} == {bool_, int8}:
        raise TileTypeError(f"{name}: bool_ and int8 do not mix")
    a, b = matched(x, y, common_dtype(x, y), name)
    if a.const is not None and b.const is not None and not a.shape_:
        return strict(folded(name, a.const, b.const), a.dtype_)
    return raw_bits(name, a, b)


def shift(name: str, x: object, y: object) -> Any:
    """`<<` and `>>` of integers; the right shift of a signed integer keeps its sign."""
    if is_number(x) and is_number(y):
        return folded(name, x, y)
    for side, o in (("left", x), ("right", y)):
        t = tile_of(o, f"{name}: {side} operand").dtype_
        if not t.is_int:
            raise TileTypeError(f"{name}: expected integers, got {t} ({side} operand)")
    dtype = common_dtype(x, y)
    a, b = matched(x, y, dtype, name)
    return raw(name, a, b)


def comparison(name: str, x: object, y: object) -> Any:
    """A tile of bool: `x name y`."""
    if is_number(x) and is_number(y):
        return folded(name, x, y)
    dtype = common_dtype(x, y)
    a, b = matched(x, y, dtype, name)
    if a.const is not None and b.const is not None and not a.shape_:
        return strict(folded(name, a.const, b.const), bool_)
    return compared(name, a, b)


def chosen(cond: Tile, x: Tile, y: Tile) -> Tile:
    """`x` where `cond`, else `y`: all of one shape, `x` and `y` of one type."""
    return Tile(value(Select, (cond.ir, x.ir, y.ir), x.type), x.dtype_, x.shape_)
