"""Functions of one operand: negation, magnitude, powers, logarithms, circular functions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tilewright.ir.ops.tile import arith as ops
from tilewright.ir.ops.tile.base import TileOp
from tilewright.lang.tile.arith import check_modes, raw_bits
from tilewright.lang.tile.compare import compared
from tilewright.lang.tile.convert import converted
from tilewright.lang.tile.dtypes import DType, Kind, bool_, float32, int32
from tilewright.lang.tile.enums import RoundingMode
from tilewright.lang.tile.errors import TileTypeError, TileValueError
from tilewright.lang.tile.require import constant_bool, optional_enum, tile_of
from tilewright.lang.tile.state import api, value
from tilewright.lang.tile.values import Number, Tile, described, strict

_FLOAT_OPS: dict[str, type[TileOp]] = {
    "abs": ops.AbsF,
    "neg": ops.NegF,
    "ceil": ops.Ceil,
    "floor": ops.Floor,
    "sqrt": ops.Sqrt,
    "rsqrt": ops.Rsqrt,
    "exp": ops.Exp,
    "exp2": ops.Exp2,
    "log": ops.Log,
    "log2": ops.Log2,
    "sin": ops.Sin,
    "cos": ops.Cos,
    "tan": ops.Tan,
    "sinh": ops.SinH,
    "cosh": ops.CosH,
    "tanh": ops.TanH,
}
_PYTHON: dict[str, Callable[[Any], Any]] = {
    "abs": operator.abs,
    "neg": operator.neg,
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: x**-0.5,
    "exp": math.exp,
    "exp2": lambda x: 2**x,
    "log": math.log,
    "log2": math.log2,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
}


def _python(name: str, x: Number) -> Any:
    try:
        return _PYTHON[name](x)
    except (ArithmeticError, ValueError) as error:
        raise TileValueError(f"{name} of {x}: {error}") from error


def unary(name: str, x: object, mode: RoundingMode | None = None, flush: bool = False) -> Any:
    """A function of floats; integers and bools are converted to float32 first.

    A Python number is computed at compile time, in Python's own arithmetic.
    """
    if isinstance(x, bool | int | float):
        return _python(name, x)
    tile = tile_of(x, name)
    if tile.dtype_.kind in (Kind.RESTRICTED, Kind.POINTER):
        raise TileTypeError(f"{name}: there is no arithmetic on {described(tile)}")
    if not tile.dtype_.is_float:
        if name in ("floor", "ceil"):
            raise TileTypeError(f"{name}: it is for floats, got {tile.dtype_}")
        tile = converted(tile, float32)
    check_modes(name, mode, flush, tile.dtype_)
    return float_unary(name, tile, mode, flush)


def float_unary(
    name: str, tile: Tile, mode: RoundingMode | None = None, flush: bool = False
) -> Tile:
    """The operation itself on a tile of floats."""
    attrs: dict[str, Any] = {}
    if mode is not None:
        attrs["rounding_mode"] = mode.value
    if flush:
        attrs["flush_to_zero"] = True
    made = value(_FLOAT_OPS[name], (tile.ir,), tile.type, **attrs)
    return Tile(made, tile.dtype_, tile.shape_)


def _refuse(name: str, dtype: DType) -> None:
    if dtype.kind in (Kind.RESTRICTED, Kind.POINTER):
        raise TileTypeError(f"{name}: there is no arithmetic on {dtype}")


def negated(x: object) -> Any:
    """-x; a bool counts as an int32."""
    if isinstance(x, bool | int | float):
        return -x
    tile = tile_of(x, "negative")
    _refuse("negative", tile.dtype_)
    if tile.dtype_ is bool_:
        tile = converted(tile, int32)
    if tile.const is not None and not tile.shape_ and tile.dtype_.signed:
        return strict(-tile.const, tile.dtype_)
    if tile.dtype_.is_float:
        return float_unary("neg", tile)
    return Tile(value(ops.NegI, (tile.ir,), tile.type), tile.dtype_, tile.shape_)


def magnitude(x: object) -> Any:
    """|x|."""
    if isinstance(x, bool | int | float):
        return _python("abs", x)
    tile = tile_of(x, "abs")
    _refuse("abs", tile.dtype_)
    if tile.dtype_.is_float:
        return float_unary("abs", tile)
    if not tile.dtype_.signed:
        return tile
    return Tile(value(ops.AbsI, (tile.ir,), tile.type), tile.dtype_, tile.shape_)


def inverted(x: object) -> Any:
    """~x of an integer; not x of a tile of bools."""
    if isinstance(x, bool):
        raise TileTypeError("~ of a Python bool is not supported", hint="use ct.bitwise_not")
    if isinstance(x, int):
        return ~x
    tile = tile_of(x, "bitwise_not")
    if tile.dtype_ is not bool_ and not tile.dtype_.is_int:
        raise TileTypeError(f"bitwise_not: expected integers or bools, got {tile.dtype_}")
    ones = (
        strict(-1 if tile.dtype_.signed else tile.dtype_.int_range()[1], tile.dtype_)
        if (tile.dtype_.is_int)
        else strict(True, bool_)
    )
    return raw_bits("xor", tile, Tile(None, tile.dtype_, tile.shape_, ones.const))


def truth(x: object, what: str) -> bool | Tile:
    """The bool that `x` is where a condition stands: a Python bool, or a scalar of bool_."""
    if isinstance(x, Tile):
        if x.shape_:
            raise TileTypeError(
                f"{what}: a condition is a scalar, got {described(x)}",
                hint="reduce the tile first, for example with ct.max",
            )
        return converted(x, bool_) if x.const is None else bool(x.const)
    if isinstance(x, bool | int | float | str | tuple) or x is None:
        return bool(x)
    raise TileTypeError(f"{what}: {described(x)} is neither true nor false")


def negation(x: object) -> Any:
    """`not x`, elementwise for a tile."""
    if not isinstance(x, Tile):
        return not truth(x, "not")
    if x.const is not None and not x.shape_:
        return strict(not x.const, bool_)
    return compared("eq", x, strict(0, x.dtype_, x.shape_))


def _rounded(name: str, x: Any, mode: Any, flush: Any = False) -> Any:
    found = optional_enum(mode, RoundingMode, f"{name}: rounding_mode")
    return unary(name, x, found, constant_bool(flush, f"{name}: flush_to_zero"))


@api
def negative(x: Any, /) -> Any:
    """-x."""
    return negated(x)


@api
def abs(x: Any, /) -> Any:
    """|x|."""
    return magnitude(x)


@api
def bitwise_not(x: Any, /) -> Any:
    """~x of integers, `not x` of bools."""
    return (not x) if isinstance(x, bool) else inverted(x)


@api
def isnan(x: Any, /) -> Any:
    """Whether each element is NaN."""
    if isinstance(x, bool | int | float):
        return math.isnan(x)
    tile = tile_of(x, "isnan")
    if not tile.dtype_.is_float:
        raise TileTypeError(f"isnan: expected floats, got {tile.dtype_}")
    return compared("ne", tile, tile)


@api
def exp(x: Any, /, *, rounding_mode: RoundingMode | None = None) -> Any:
    """e to the power x; rounding_mode FULL (default) or APPROX."""
    return _rounded("exp", x, rounding_mode)


@api
def exp2(x: Any, /, *, flush_to_zero: bool = False) -> Any:
    """2 to the power x.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     ct.store(y, 0, ct.exp2(ct.load(x, 0, 4)))
    >>> x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([1., 2., 4., 8.], dtype=float32)
    """
    return _rounded("exp2", x, None, flush_to_zero)


@api
def log(x: Any, /) -> Any:
    """The natural logarithm."""
    return unary("log", x)


@api
def log2(x: Any, /) -> Any:
    """The logarithm to base 2."""
    return unary("log2", x)


@api
def sqrt(
    x: Any, /, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False
) -> Any:
    """The square root."""
    return _rounded("sqrt", x, rounding_mode, flush_to_zero)


@api
def rsqrt(x: Any, /, *, flush_to_zero: bool = False) -> Any:
    """One over the square root."""
    return _rounded("rsqrt", x, None, flush_to_zero)


@api
def sin(x: Any, /) -> Any:
    """The sine of radians."""
    return unary("sin", x)


@api
def cos(x: Any, /) -> Any:
    """The cosine of radians."""
    return unary("cos", x)


@api
def tan(x: Any, /) -> Any:
    """The tangent of radians."""
    return unary("tan", x)


@api
def sinh(x: Any, /) -> Any:
    """The hyperbolic sine."""
    return unary("sinh", x)


@api
def cosh(x: Any, /) -> Any:
    """The hyperbolic cosine."""
    return unary("cosh", x)


@api
def tanh(x: Any, /, *, rounding_mode: RoundingMode | None = None) -> Any:
    """The hyperbolic tangent; rounding_mode FULL (default) or APPROX."""
    return _rounded("tanh", x, rounding_mode)


@api
def floor(x: Any, /) -> Any:
    """The greatest whole number that is not above x."""
    return unary("floor", x)


@api
def ceil(x: Any, /) -> Any:
    """The least whole number that is not below x."""
    return unary("ceil", x)
