"""Reductions and scans: along one axis, several, or all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir.core import Block
from tilewright.ir.ops.tile.base import TileOp
from tilewright.ir.ops.tile.control import Reduce, Scan, Yield
from tilewright.ir.ops.tile.shape import Iota
from tilewright.ir.tile_attrs import TypedAttr
from tilewright.lang.tile.arith import check_modes, chosen, raw, raw_bits
from tilewright.lang.tile.compare import compared
from tilewright.lang.tile.convert import converted, implicit
from tilewright.lang.tile.dtypes import DType, Kind, bool_, broadcast, int32
from tilewright.lang.tile.enums import RoundingMode
from tilewright.lang.tile.errors import TileSyntaxError, TileTypeError
from tilewright.lang.tile.require import (
    axis_of,
    constant_bool,
    constant_int,
    constant_ints,
    optional_enum,
    tile_of,
)
from tilewright.lang.tile.state import api, emit, new_block, trace, value
from tilewright.lang.tile.values import (
    Number,
    Tile,
    broadcasted,
    check_shape,
    constant_of,
    described,
    pattern_of,
    reshaped,
    scalar_type,
)

Combine = Callable[[Sequence[Tile], Sequence[Tile]], Sequence[Tile]]
"""Two lists of scalars, one scalar per operand, to one."""


def _identity(number: Number, dtype: DType) -> TypedAttr:
    """A number as the text of an attribute."""
    if dtype is bool_:
        return TypedAttr("true" if number else "false", dtype.element)
    if dtype.is_int:
        bits = pattern_of(number, dtype)
        negative = bits >> (dtype.bitwidth - 1)
        return TypedAttr(str(bits - (1 << dtype.bitwidth) if negative else bits), dtype.element)
    x = float(number)
    if math.isfinite(x):
        short = f"{x:.6e}"
        return TypedAttr(short if float(short) == x else _full(x), dtype.element)
    return TypedAttr(f"0x{_special_bits(x, dtype):X}", dtype.element)


def _full(x: float) -> str:
    """All digits of a number, with a decimal point."""
    mantissa, _, exponent = repr(x).partition("e")
    point = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{point}e{exponent}" if exponent else point


def _special_bits(x: float, dtype: DType) -> int:
    """The pattern of an infinity or NaN."""
    exponent, mantissa = {
        "float16": (5, 10),
        "bfloat16": (8, 7),
        "float32": (8, 23),
        "float64": (11, 52),
    }[dtype.name]
    bits = ((1 << exponent) - 1) << mantissa
    if math.isnan(x):
        return bits | 1 << (mantissa - 1)
    return bits | (1 << (exponent + mantissa) if x < 0 else 0)


def _combined(
    kind: type[TileOp],
    tiles: Sequence[Tile],
    identities: Sequence[Number],
    axis: int,
    combine: Combine,
    **attrs: Any,
) -> list[Tile]:
    """One reduction or scan along one axis."""
    t = trace()
    word = "reduction" if kind is Reduce else "scan"
    if t.combining:
        raise TileSyntaxError(f"a {word} inside of the function of a {t.combining}")
    block = new_block([scalar_type(x.dtype_) for x in tiles for _ in range(2)])
    _fill(block, tiles, combine, word)
    shape = tiles[0].shape_
    out = shape if kind is Scan else shape[:axis] + shape[axis + 1 :]
    types = [check_shape(out, x.dtype_, word) for x in tiles]
    op = emit(
        kind,
        [x.ir for x in tiles],
        types,
        regions=(block,),
        dim=axis,
        identities=tuple(_identity(n, x.dtype_) for n, x in zip(identities, tiles, strict=True)),
        **attrs,
    )
    return [Tile(v, x.dtype_, out) for v, x in zip(op.results, tiles, strict=True)]


def _fill(block: Block, tiles: Sequence[Tile], combine: Combine, word: str) -> None:
    t = trace()
    args = [Tile(v, tiles[i // 2].dtype_, ()) for i, v in enumerate(block.args)]
    t.combining = word
    try:
        with t.inside(block):
            found = combine(args[::2], args[1::2])
            emit(Yield, [x.ir for x in found])
    finally:
        t.combining = ""


def reduced(
    tiles: Sequence[Tile],
    identities: Sequence[Number],
    axes: Sequence[int] | None,
    keepdims: bool,
    combine: Combine,
    what: str,
) -> list[Tile]:
    """Reduces tiles, which broadcast against each other, along axes (None: all)."""
    shape = broadcast([x.shape_ for x in tiles])
    tiles = [broadcasted(x, shape) for x in tiles]
    along = sorted(
        range(len(shape)) if axes is None else [axis_of(a, len(shape), what) for a in axes]
    )
    if len(set(along)) != len(along):
        raise TileTypeError(f"{what}: an axis is named twice in {tuple(axes or ())}")
    for done, axis in enumerate(along):
        tiles = _combined(Reduce, tiles, identities, axis - done, combine)
    if keepdims:
        kept = tuple(1 if i in along else e for i, e in enumerate(shape))
        return [reshaped(x, kept) for x in tiles]
    return list(tiles)


def _axes(axis: object, what: str) -> tuple[int, ...] | None:
    return None if axis is None else constant_ints(axis, f"{what}: axis")


def _operand(x: object, what: str) -> Tile:
    tile = tile_of(x, what)
    if tile.dtype_.kind in (Kind.RESTRICTED, Kind.POINTER):
        raise TileTypeError(f"{what}: there is no arithmetic on {described(tile)}")
    return converted(tile, int32) if tile.dtype_ is bool_ else tile


def _limits(dtype: DType) -> tuple[Number, Number]:
    return (-math.inf, math.inf) if dtype.is_float else dtype.int_range()


def _binary(
    name: str, mode: RoundingMode | None, flush: bool, propagate_nan: bool = False
) -> Combine:
    def combine(a: Sequence[Tile], b: Sequence[Tile]) -> Sequence[Tile]:
        return [raw(name, a[0], b[0], mode, flush, propagate_nan)]

    return combine


def _simple(
    what: str,
    name: str,
    x: object,
    axis: object,
    keepdims: object,
    mode: object = None,
    flush: object = False,
    propagate_nan: object = False,
) -> Tile:
    tile = _operand(x, what)
    rounding = optional_enum(mode, RoundingMode, f"{what}: rounding_mode")
    flushed = constant_bool(flush, f"{what}: flush_to_zero")
    nan = constant_bool(propagate_nan, f"{what}: propagate_nan")
    check_modes(name, rounding, flushed, tile.dtype_)
    low, high = _limits(tile.dtype_)
    identity = {"add": 0, "mul": 1, "max": low, "min": high}[name]
    kept = constant_bool(keepdims, f"{what}: keepdims")
    combine = _binary(name, rounding, flushed, nan)
    return reduced([tile], [identity], _axes(axis, what), kept, combine, what)[0]


@api
def sum(
    x: Any,
    /,
    axis: Any = None,
    *,
    keepdims: Any = False,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Any:
    """The sum along `axis`: an int, a tuple of ints, or None for all.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     t = ct.load(x, (0, 0), (2, 2))
    ...     ct.store(y, 0, ct.sum(t, axis=1))
    ...     ct.store(y, 2, ct.sum(t))
    >>> x, y = np.arange(4.0).reshape(2, 2), np.zeros(3)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([1., 5., 6.])
    """
    return _simple("sum", "add", x, axis, keepdims, rounding_mode, flush_to_zero)


@api
def prod(
    x: Any,
    /,
    axis: Any = None,
    *,
    keepdims: Any = False,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Any:
    """The product along `axis`."""
    return _simple("prod", "mul", x, axis, keepdims, rounding_mode, flush_to_zero)


@api
def max(
    x: Any,
    /,
    axis: Any = None,
    *,
    keepdims: Any = False,
    flush_to_zero: bool = False,
    propagate_nan: bool = False,
) -> Any:
    """The greatest element along `axis`; NaN is ignored unless `propagate_nan`."""
    return _simple("max", "max", x, axis, keepdims, None, flush_to_zero, propagate_nan)


@api
def min(
    x: Any,
    /,
    axis: Any = None,
    *,
    keepdims: Any = False,
    flush_to_zero: bool = False,
    propagate_nan: bool = False,
) -> Any:
    """The least element along `axis`; NaN is ignored unless `propagate_nan`."""
    return _simple("min", "min", x, axis, keepdims, None, flush_to_zero, propagate_nan)


def _better(name: str, propagate_nan: bool) -> Combine:
    """(value, index) pairs: the better value wins, of equal ones the smaller index."""

    def combine(a: Sequence[Tile], b: Sequence[Tile]) -> Sequence[Tile]:
        (x, i), (y, j) = a, b
        wins, equal = compared(name, x, y), compared("eq", x, y)
        if x.dtype_.is_float:
            x_nan, y_nan = compared("ne", x, x), compared("ne", y, y)
            only = ("eq", y, y, x_nan) if propagate_nan else ("eq", x, x, y_nan)
            one_sided = raw_bits("and", compared(only[0], only[1], only[2]), only[3])
            wins = raw_bits("or", wins, one_sided)
            equal = raw_bits("or", equal, raw_bits("and", x_nan, y_nan))
        earlier = raw_bits("and", equal, compared("lt", i, j))
        first = raw_bits("or", wins, earlier)
        return [chosen(first, x, y), chosen(first, i, j)]

    return combine


def _arg(name: str, x: object, axis: object, keepdims: object, propagate_nan: object) -> Tile:
    what = f"arg{name}"
    tile = _operand(x, what)
    kept = constant_bool(keepdims, f"{what}: keepdims")
    rank = tile.ndim
    if axis is None:
        tile = reshaped(tile, (tile.type.size,))
    along = axis_of(0 if axis is None else axis, tile.ndim, what)
    count = tile.shape_[along]
    order = Tile(value(Iota, (), check_shape((count,), int32, what)), int32, (count,))
    order = reshaped(order, tuple(count if i == along else 1 for i in range(tile.ndim)))
    low, high = _limits(tile.dtype_)
    better = _better("gt" if name == "max" else "lt", constant_bool(propagate_nan, what))
    identities = [low if name == "max" else high, 0]
    found = reduced([tile, order], identities, (along,), kept and axis is not None, better, what)[1]
    return reshaped(found, (1,) * rank) if kept and axis is None else found


@api
def argmax(
    x: Any, /, axis: Any = None, *, keepdims: Any = False, propagate_nan: bool = False
) -> Any:
    """The index of the greatest element, the first of equal ones; None: in row-major order.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     ct.store(y, 0, ct.argmax(ct.load(x, 0, 4)))
    >>> x, y = np.array([1.0, 7, 7, 3]), np.zeros(1, np.int32)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([1], dtype=int32)
    """
    return _arg("max", x, axis, keepdims, propagate_nan)


@api
def argmin(
    x: Any, /, axis: Any = None, *, keepdims: Any = False, propagate_nan: bool = False
) -> Any:
    """The index of the least element, the first of equal ones; None: in row-major order."""
    return _arg("min", x, axis, keepdims, propagate_nan)


def _user_combine(func: Any, tiles: Sequence[Tile], many: bool, what: str) -> Combine:
    """Calls the user's function on scalars; several operands come and go as tuples."""

    def combine(a: Sequence[Tile], b: Sequence[Tile]) -> Sequence[Tile]:
        call = trace().call
        assert call is not None, "a kernel being captured can call functions"
        found = call(func, [*a, *b])
        items = found if many else (found,)
        if not isinstance(items, tuple) or len(items) != len(tiles):
            raise TileTypeError(
                f"{what}: the function returned {described(found)}, expected a tuple of "
                f"{len(tiles)} scalars"
            )
        out = []
        for item, tile in zip(items, tiles, strict=True):
            made = implicit(item, tile.dtype_, f"{what}: the function's result")
            if made.shape_:
                raise TileTypeError(
                    f"{what}: the function returned {described(made)}, expected a scalar"
                )
            out.append(made)
        return out

    return combine


def _user_operands(x: object, identity: object, what: str) -> tuple[list[Tile], list[Number], bool]:
    many = isinstance(x, tuple)
    items: Any = x if many else (x,)
    numbers: Any = identity if many else (identity,)
    tiles = [tile_of(item, what) for item in items]
    if not tiles:
        raise TileTypeError(f"{what}: expected at least one tile")
    if not isinstance(numbers, tuple) or len(numbers) != len(tiles):
        raise TileTypeError(f"{what}: expected one identity for each of {len(tiles)} tiles")
    known = [constant_of(n) for n in numbers]
    found = [k for k in known if k is not None]
    if len(found) != len(tiles):
        raise TileTypeError(f"{what}: an identity is a constant, got {described(identity)}")
    return tiles, found, many


@api
def reduce(x: Any, /, axis: Any, func: Any, identity: Any, *, keepdims: Any = False) -> Any:
    """Combines all elements along `axis` by `func`, in an unspecified order.

    `func` takes two scalars and returns one; for a tuple of n tiles it takes 2 n scalars, first
    those of one side, and returns a tuple of n.  `identity` changes nothing: func(x, identity) is
    x.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     longest = ct.reduce(ct.load(x, 0, 4), 0, lambda a, b: ct.maximum(a, b), 0.0)
    ...     ct.store(y, 0, longest)
    >>> x, y = np.array([3.0, 9, 2, 5]), np.zeros(1)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([9.])
    """
    tiles, numbers, many = _user_operands(x, identity, "reduce")
    combine = _user_combine(func, tiles, many, "reduce")
    at = (constant_int(axis, "reduce: axis"),)
    kept = constant_bool(keepdims, "reduce: keepdims")
    found = reduced(tiles, numbers, at, kept, combine, "reduce")
    return tuple(found) if many else found[0]


@api
def scan(x: Any, /, axis: Any, func: Any, identity: Any, *, reverse: Any = False) -> Any:
    """Combines every prefix along `axis` by `func`, itself included; suffixes if `reverse`.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     ct.store(y, 0, ct.scan(ct.load(x, 0, 4), 0, lambda a, b: a * b, 1, reverse=True))
    >>> x, y = np.array([1.0, 2, 3, 4]), np.zeros(4)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([24., 24., 12.,  4.])
    """
    tiles, numbers, many = _user_operands(x, identity, "scan")
    combine = _user_combine(func, tiles, many, "scan")
    found = _scanned(tiles, numbers, axis, reverse, combine, "scan")
    return tuple(found) if many else found[0]


def _scanned(
    tiles: Sequence[Tile],
    identities: Sequence[Number],
    axis: object,
    reverse: object,
    combine: Combine,
    what: str,
) -> list[Tile]:
    shape = broadcast([x.shape_ for x in tiles])
    tiles = [broadcasted(x, shape) for x in tiles]
    at = axis_of(axis, len(shape), what)
    backwards = constant_bool(reverse, f"{what}: reverse")
    return _combined(Scan, tiles, identities, at, combine, reverse=backwards)


def _simple_scan(
    what: str, name: str, x: object, axis: object, reverse: object, mode: object, flush: object
) -> Tile:
    tile = _operand(x, what)
    rounding = optional_enum(mode, RoundingMode, f"{what}: rounding_mode")
    flushed = constant_bool(flush, f"{what}: flush_to_zero")
    check_modes(name, rounding, flushed, tile.dtype_)
    identity = 0 if name == "add" else 1
    combine = _binary(name, rounding, flushed)
    return _scanned([tile], [identity], axis, reverse, combine, what)[0]


@api
def cumsum(
    x: Any,
    /,
    axis: Any = 0,
    *,
    reverse: Any = False,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Any:
    """The sums of all prefixes along `axis`; of suffixes if `reverse`.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     ct.store(y, 0, ct.cumsum(ct.load(x, 0, 4)))
    >>> x, y = np.array([1.0, 2, 3, 4]), np.zeros(4)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([ 1.,  3.,  6., 10.])
    """
    return _simple_scan("cumsum", "add", x, axis, reverse, rounding_mode, flush_to_zero)


@api
def cumprod(
    x: Any,
    /,
    axis: Any = 0,
    *,
    reverse: Any = False,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Any:
    """The products of all prefixes along `axis`; of suffixes if `reverse`."""
    return _simple_scan("cumprod", "mul", x, axis, reverse, rounding_mode, flush_to_zero)
