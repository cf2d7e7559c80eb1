"""The public functions of two operands: arithmetic, bits, comparisons, `where`."""

from __future__ import annotations

from typing import Any

from tilewright.ir.ops.tile.arith import Atan2
from tilewright.lang.tile.arith import (
    binary,
    bitwise,
    chosen,
    common_dtype,
    comparison,
    folded,
    matched,
    remainder,
    shift,
)
from tilewright.lang.tile.convert import converted
from tilewright.lang.tile.dtypes import bool_, broadcast
from tilewright.lang.tile.enums import RoundingMode
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.require import constant_bool, optional_enum, require_version, tile_of
from tilewright.lang.tile.state import api, host_api
from tilewright.lang.tile.values import broadcasted, is_number


def _with_modes(name: str, x: Any, y: Any, mode: Any, flush: Any, nan: Any = False) -> Any:
    found = optional_enum(mode, RoundingMode, f"{name}: rounding_mode")
    flushed = constant_bool(flush, f"{name}: flush_to_zero")
    return binary(name, x, y, found, flushed, constant_bool(nan, f"{name}: propagate_nan"))


@api
def add(
    x: Any, y: Any, /, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False
) -> Any:
    """x + y, elementwise.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     t = ct.load(x, 0, 2)
    ...     ct.store(y, 0, ct.add(t, 1e-9, rounding_mode=ct.RoundingMode.RP) > t)
    >>> x, y = np.ones(2, np.float32), np.zeros(2, np.bool_)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([ True,  True])
    """
    return _with_modes("add", x, y, rounding_mode, flush_to_zero)


@api
def sub(
    x: Any, y: Any, /, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False
) -> Any:
    """x - y, elementwise."""
    return _with_modes("sub", x, y, rounding_mode, flush_to_zero)


@api
def mul(
    x: Any, y: Any, /, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False
) -> Any:
    """x * y, elementwise."""
    return _with_modes("mul", x, y, rounding_mode, flush_to_zero)


@api
def truediv(
    x: Any, y: Any, /, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False
) -> Any:
    """x / y, elementwise; integers are divided as float32."""
    return _with_modes("truediv", x, y, rounding_mode, flush_to_zero)


@api
def floordiv(x: Any, y: Any, /) -> Any:
    """The quotient rounded down, as Python's `//`."""
    return binary("floordiv", x, y)


@host_api
def cdiv(x: Any, y: Any, /) -> Any:
    """The quotient rounded up.  Host code may call it on integers.

    >>> cdiv(1000, 128)
    8
    """
    return folded("cdiv", x, y) if is_number(x) and is_number(y) else _CDIV(x, y)


def _cdiv(x: Any, y: Any) -> Any:
    return binary("cdiv", x, y)


_cdiv.__name__ = "cdiv"
_CDIV = api(_cdiv)


@api
def mod(x: Any, y: Any, /) -> Any:
    """Python's `%`: the result has the sign of `y`.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     ct.store(y, 0, ct.mod(ct.load(x, 0, 2), 3))
    >>> x, y = np.array([7, -7]), np.zeros(2, np.int64)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([1, 2])
    """
    return remainder(x, y)


@api
def divmod(x: Any, y: Any, /) -> Any:
    """The pair (x // y, x % y) of integers."""
    if is_number(x) and is_number(y):
        return folded("floordiv", x, y), folded("mod", x, y)
    if common_dtype(x, y).is_float:
        raise TileTypeError(f"divmod: it is for integers, got {common_dtype(x, y)}")
    return binary("floordiv", x, y), remainder(x, y)


@api
def pow(x: Any, y: Any, /) -> Any:
    """x to the power y, of floats."""
    return binary("pow", x, y)


@api
def atan2(x1: Any, x2: Any, /) -> Any:
    """The angle of the point (x2, x1), in radians."""
    require_version(Atan2.since, "atan2")
    return binary("atan2", x1, x2)


@api
def maximum(x: Any, y: Any, /, *, flush_to_zero: bool = False, propagate_nan: bool = False) -> Any:
    """The greater operand; a NaN is ignored unless `propagate_nan`."""
    return _with_modes("max", x, y, None, flush_to_zero, propagate_nan)


@api
def minimum(x: Any, y: Any, /, *, flush_to_zero: bool = False, propagate_nan: bool = False) -> Any:
    """The lesser operand; a NaN is ignored unless `propagate_nan`."""
    return _with_modes("min", x, y, None, flush_to_zero, propagate_nan)


@api
def bitwise_and(x: Any, y: Any, /) -> Any:
    """x & y."""
    return bitwise("and", x, y)


@api
def bitwise_or(x: Any, y: Any, /) -> Any:
    """x | y."""
    return bitwise("or", x, y)


@api
def bitwise_xor(x: Any, y: Any, /) -> Any:
    """x ^ y."""
    return bitwise("xor", x, y)


@api
def bitwise_lshift(x: Any, y: Any, /) -> Any:
    """x << y."""
    return shift("lshift", x, y)


@api
def bitwise_rshift(x: Any, y: Any, /) -> Any:
    """x >> y; the sign of a signed integer is kept."""
    return shift("rshift", x, y)


@api
def equal(x: Any, y: Any, /) -> Any:
    """x == y, elementwise."""
    return comparison("eq", x, y)


@api
def not_equal(x: Any, y: Any, /) -> Any:
    """x != y, elementwise: true where an operand is NaN."""
    return comparison("ne", x, y)


@api
def less(x: Any, y: Any, /) -> Any:
    """x < y, elementwise."""
    return comparison("lt", x, y)


@api
def less_equal(x: Any, y: Any, /) -> Any:
    """x <= y, elementwise."""
    return comparison("le", x, y)


@api
def greater(x: Any, y: Any, /) -> Any:
    """x > y, elementwise."""
    return comparison("gt", x, y)


@api
def greater_equal(x: Any, y: Any, /) -> Any:
    """x >= y, elementwise."""
    return comparison("ge", x, y)


@api
def where(cond: Any, x: Any, y: Any, /) -> Any:
    """x where cond, else y; the three broadcast against each other.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     t = ct.load(x, 0, 4)
    ...     ct.store(y, 0, ct.where(t > 1, t, -1))
    >>> x, y = np.arange(4), np.zeros(4, np.int64)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([-1, -1,  2,  3])
    """
    dtype = common_dtype(x, y)
    c = converted(tile_of(cond, "where: cond"), bool_)
    a, b = matched(x, y, dtype, "where")
    shape = broadcast([c.shape_, a.shape_])
    return chosen(*(broadcasted(t, shape, "where") for t in (c, a, b)))
