"""Making tiles and changing their shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright.ir.ops.tile.shape import Cat, Extract, Insert, Iota, Permute
from tilewright.lang.tile.arith import raw
from tilewright.lang.tile.convert import converted, index_scalar
from tilewright.lang.tile.dtypes import DType, int32, require_dtype
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.require import (
    axis_of,
    constant_int,
    constant_ints,
    index_items,
    require_version,
    tile_of,
    tile_shape,
)
from tilewright.lang.tile.state import api, value
from tilewright.lang.tile.values import (
    Shape,
    Tile,
    as_tile,
    broadcasted,
    check_shape,
    constant_of,
    dense_value,
    described,
    method,
    pattern_of,
    reshaped,
    strict,
)


def filled(shape: Shape, fill: object, dtype: DType, what: str) -> Tile:
    """A tile of one number."""
    check_shape(shape, dtype, what)
    known = constant_of(fill)
    if known is not None:
        number = known if dtype.is_float else int(known)
        pattern_of(number, dtype)  # refuses what the type cannot hold
        return strict(number, dtype, shape)
    tile = tile_of(fill, what)
    if tile.shape_:
        raise TileTypeError(f"{what}: expected a scalar to fill with, got {described(tile)}")
    return broadcasted(converted(tile, dtype), shape)


@api
def full(shape: Any, fill_value: Any, dtype: Any) -> Any:
    """A tile whose elements are all `fill_value`.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     ct.store(y, 0, ct.full((2,), 2.5, y.dtype))
    >>> y = np.zeros(2)
    >>> ct.launch(None, (1,), example, (y,)); y
    array([2.5, 2.5])
    """
    extents = tile_shape(shape, "full: shape")
    return filled(extents, fill_value, require_dtype(dtype, "full"), "full")


@api
def zeros(shape: Any, dtype: Any) -> Any:
    """A tile of zeros."""
    return filled(tile_shape(shape, "zeros: shape"), 0, require_dtype(dtype, "zeros"), "zeros")


@api
def ones(shape: Any, dtype: Any) -> Any:
    """A tile of ones."""
    return filled(tile_shape(shape, "ones: shape"), 1, require_dtype(dtype, "ones"), "ones")


@api
def arange(size: Any, /, *, dtype: Any, start: Any = 0, step: Any = 1) -> Any:
    """The 1-D tile start, start + step, start + 2 step... of `size` elements.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     ct.store(y, 0, ct.arange(4, dtype=ct.float64, start=1, step=0.5))
    >>> y = np.zeros(4)
    >>> ct.launch(None, (1,), example, (y,)); y
    array([1. , 1.5, 2. , 2.5])
    """
    (extent,) = tile_shape(constant_int(size, "arange: size"), "arange: size")
    target = require_dtype(dtype, "arange")
    whole = target if target.is_int else int32
    found = converted(
        Tile(value(Iota, (), check_shape((extent,), whole, "arange")), whole, (extent,)), target
    )
    for name, by, neutral in (("mul", step, 1), ("add", start, 0)):
        if constant_of(by) != neutral:
            other = converted(as_tile(by, "arange"), target)
            found = raw(name, found, broadcasted(other, (extent,), "arange"))
    return found


def _tuple_shape(x: object, path: str) -> Shape:
    if not isinstance(x, tuple):
        if as_tile(x, path).shape_:
            raise TileTypeError(f"astile: expected a scalar at {path}, got {described(x)}")
        return ()
    if not x or len(x) & (len(x) - 1):
        raise TileTypeError(f"astile: the extents of a tile are powers of two, {path} has {len(x)}")
    inner = {_tuple_shape(item, f"{path}[{i}]") for i, item in enumerate(x)}
    if len(inner) != 1:
        raise TileTypeError(f"astile: the items of {path} have different shapes")
    return (len(x), *inner.pop())


def _leaves(x: object) -> list[object]:
    return [leaf for item in x for leaf in _leaves(item)] if isinstance(x, tuple) else [x]


@api
def astile(value: Any, /, *, dtype: Any) -> Any:
    """A tile of the scalars in a (nested) tuple, or a scalar.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     ct.store(y, (0, 0), ct.astile(((1, 2), (ct.bid(0), 4)), dtype=ct.int32))
    >>> y = np.zeros((2, 2), np.int32)
    >>> ct.launch(None, (1,), example, (y,)); y
    array([[1, 2],
           [0, 4]], dtype=int32)
    """
    target = require_dtype(dtype, "astile")
    shape = _tuple_shape(value, "value")
    leaves = _leaves(value)
    known = [constant_of(leaf) for leaf in leaves]
    if not shape:
        return converted(as_tile(value, "astile"), target)
    numbers = [k if target.is_float else int(k) for k in known if k is not None]
    if len(numbers) == len(leaves):
        return Tile(dense_value(numbers, target, shape), target, shape)
    parts = [reshaped(converted(as_tile(leaf), target), (1,)) for leaf in leaves]
    while len(parts) > 1:
        parts = [joined(a, b, 0) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return reshaped(parts[0], shape)


def joined(a: Tile, b: Tile, axis: int) -> Tile:
    """`a` and then `b` along an axis."""
    shape = tuple(e + b.shape_[i] if i == axis else e for i, e in enumerate(a.shape_))
    out = check_shape(shape, a.dtype_, "cat")
    return Tile(value(Cat, (a.ir, b.ir), out, dim=axis), a.dtype_, shape)


@api
def cat(tiles: Any, /, axis: Any) -> Any:
    """Two tiles, one after the other along `axis`.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     t = ct.arange(2, dtype=ct.int32)
    ...     ct.store(y, 0, ct.cat((t, t + 5), axis=0))
    >>> y = np.zeros(4, np.int32)
    >>> ct.launch(None, (1,), example, (y,)); y
    array([0, 1, 5, 6], dtype=int32)
    """
    if not isinstance(tiles, tuple) or len(tiles) not in (1, 2):
        raise TileTypeError(f"cat: expected a tuple of one or two tiles, got {described(tiles)}")
    items = [tile_of(t, "cat") for t in tiles]
    first, last = items[0], items[-1]
    along = axis_of(axis, first.ndim, "cat")
    if first.dtype_ is not last.dtype_ or first.ndim != last.ndim:
        raise TileTypeError(
            f"cat: expected tiles of one type and rank, got {described(first)} and "
            f"{described(last)}"
        )
    for i, (a, b) in enumerate(zip(first.shape_, last.shape_, strict=True)):
        if i != along and a != b:
            raise TileTypeError(
                f"cat: shapes {first.shape_} and {last.shape_} differ at dimension {i}, which is "
                f"not axis {along}"
            )
    return first if len(items) == 1 else joined(first, last, along)


def _inferred(shape: Sequence[int], size: int) -> Shape:
    """A shape in which one -1 stands for what is left of `size`."""
    if sum(extent == -1 for extent in shape) > 1 or any(extent < -1 for extent in shape):
        raise TileTypeError(f"reshape: {tuple(shape)} is no shape: only one extent may be -1")
    known = math.prod(extent for extent in shape if extent != -1)
    if (-1 in shape and (not known or size % known)) or (-1 not in shape and known != size):
        raise TileTypeError(f"reshape: {size} elements do not fill shape {tuple(shape)}")
    return tuple(size // known if extent == -1 else extent for extent in shape)


@method("reshape")
@api
def reshape(x: Any, /, shape: Any) -> Any:
    """The same elements in row-major order; one extent may be -1.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     ct.store(y, (0, 0), ct.reshape(ct.arange(4, dtype=ct.int32), (2, -1)))
    >>> y = np.zeros((2, 2), np.int32)
    >>> ct.launch(None, (1,), example, (y,)); y
    array([[0, 1],
           [2, 3]], dtype=int32)
    """
    tile = tile_of(x, "reshape")
    extents = _inferred(constant_ints(shape, "reshape: shape"), math.prod(tile.shape_))
    return reshaped(tile, extents)


@api
def broadcast_to(x: Any, /, shape: Any) -> Any:
    """`x` with extents of 1 repeated and dimensions added in front.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     ct.store(y, (0, 0), ct.broadcast_to(ct.arange(2, dtype=ct.int32), (2, 2)))
    >>> y = np.zeros((2, 2), np.int32)
    >>> ct.launch(None, (1,), example, (y,)); y
    array([[0, 1],
           [0, 1]], dtype=int32)
    """
    return broadcasted(
        tile_of(x, "broadcast_to"), tile_shape(shape, "broadcast_to: shape"), "broadcast_to"
    )


@api
def expand_dims(x: Any, /, axis: Any) -> Any:
    """`x` with a dimension of extent 1 at `axis`."""
    tile = tile_of(x, "expand_dims")
    at = axis_of(axis, tile.ndim + 1, "expand_dims")
    return reshaped(tile, (*tile.shape_[:at], 1, *tile.shape_[at:]))


def permuted(tile: Tile, axes: tuple[int, ...]) -> Tile:
    """Dimension i of the result is dimension axes[i] of `tile`."""
    if axes == tuple(range(tile.ndim)):
        return tile
    shape = tuple(tile.shape_[axis] for axis in axes)
    if tile.const is not None:
        return Tile(None, tile.dtype_, shape, tile.const)
    out = check_shape(shape, tile.dtype_, "permute")
    return Tile(value(Permute, (tile.ir,), out, permutation=axes), tile.dtype_, shape)


@method("permute")
@api
def permute(x: Any, /, axes: Any) -> Any:
    """`x` with its dimensions in another order.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     ct.store(y, (0, 0), ct.permute(ct.load(x, (0, 0), (1, 4)), (1, 0)))
    >>> x, y = np.arange(4.0)[None], np.zeros((4, 1))
    >>> ct.launch(None, (1,), example, (x, y,)); y[:, 0]
    array([0., 1., 2., 3.])
    """
    tile = tile_of(x, "permute")
    order = tuple(axis_of(a, tile.ndim, "permute") for a in constant_ints(axes, "permute: axes"))
    if sorted(order) != list(range(tile.ndim)):
        raise TileTypeError(f"permute: {axes} is no order of the axes of {described(tile)}")
    return permuted(tile, order)


@method("transpose")
@api
def transpose(x: Any, /, axis0: Any = None, axis1: Any = None) -> Any:
    """`x` with two dimensions exchanged; a 2-D tile needs no axes."""
    tile = tile_of(x, "transpose")
    if tile.ndim < 2:
        raise TileTypeError(f"transpose: expected at least two dimensions, got {described(tile)}")
    if (axis0 is None) != (axis1 is None):
        raise TileTypeError("transpose: give both axes, or neither")
    if axis0 is None:
        if tile.ndim > 2:
            raise TileTypeError(f"transpose: {described(tile)} needs axis0 and axis1")
        axis0, axis1 = 0, 1
    a, b = (axis_of(axis, tile.ndim, "transpose") for axis in (axis0, axis1))
    order = list(range(tile.ndim))
    order[a], order[b] = order[b], order[a]
    return permuted(tile, tuple(order))


def _subtile_index(tile: Tile, index: object, shape: Shape, what: str) -> list[Any]:
    """The index of a subtile, checked as far as it is known."""
    items = index_items(index)
    if len(items) != tile.ndim:
        raise TileTypeError(f"{what}: expected {tile.ndim} indices, got {len(items)}")
    for i, (whole, part, item) in enumerate(zip(tile.shape_, shape, items, strict=True)):
        if whole % part:
            raise TileTypeError(f"{what}: {shape} does not divide {tile.shape_} at dimension {i}")
        known = constant_of(item)
        if known is not None and not 0 <= known < whole // part:
            raise TileTypeError(
                f"{what}: index {known} at dimension {i} counts tiles of {part}, there are "
                f"{whole // part}"
            )
    return [index_scalar(item, int32, f"{what}: index").ir for item in items]


@method("extract")
@api
def extract(x: Any, /, index: Any, shape: Any) -> Any:
    """The part of `x` at `index`; the index counts parts of `shape`, not elements.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     ct.store(y, 0, ct.extract(ct.arange(8, dtype=ct.int32), 3, 2))
    >>> y = np.zeros(2, np.int32)
    >>> ct.launch(None, (1,), example, (y,)); y
    array([6, 7], dtype=int32)
    """
    tile = tile_of(x, "extract")
    extents = tile_shape(shape, "extract: shape")
    part = extents or (1,) * tile.ndim
    if len(part) != tile.ndim:
        raise TileTypeError(f"extract: expected {tile.ndim} extents, got {extents}")
    at = _subtile_index(tile, index, part, "extract")
    out = check_shape(part, tile.dtype_, "extract")
    found = Tile(value(Extract, (tile.ir, *at), out), tile.dtype_, part)
    return reshaped(found, extents)


@method("insert")
@api
def insert(x: Any, /, index: Any, value: Any) -> Any:
    """`x` with the part at `index` replaced by `value`; the index counts parts of its shape."""
    tile, part = tile_of(x, "insert"), tile_of(value, "insert: value")
    require_version(Insert.since, "insert")
    if tile.dtype_ is not part.dtype_:
        raise TileTypeError(f"insert: expected a value of {tile.dtype_}, got {part.dtype_}")
    if not part.shape_:
        part = reshaped(part, (1,) * tile.ndim)
    if part.ndim != tile.ndim:
        raise TileTypeError(f"insert: {described(part)} has not the rank of {described(tile)}")
    at = _subtile_index(tile, index, part.shape_, "insert")
    return _inserted(tile, part, at)


def _inserted(tile: Tile, part: Tile, at: list[Any]) -> Tile:
    made = value(Insert, (part.ir, tile.ir, *at), tile.type)
    return Tile(made, tile.dtype_, tile.shape_)


def expanded(tile: Tile, key: object) -> Tile:
    """`t[None, :]`: new dimensions of extent 1, and nothing else."""
    items = key if isinstance(key, tuple) else (key,)
    whole = slice(None)
    for item in items:
        if not (item is None or item is Ellipsis or item == whole):
            raise TileTypeError(
                f"a tile is not indexed by {described(item)}: None, ':' and '...' add dimensions",
                hint="use ct.extract for a part of a tile, .item() for its only element",
            )
    slices = sum(item == whole for item in items)
    dots = sum(item is Ellipsis for item in items)
    if dots > 1 or slices > tile.ndim:
        raise TileTypeError(f"{described(tile)} does not have the dimensions that are indexed")
    rest = list(tile.shape_)
    out: list[int] = []
    for item in items:
        if item is None:
            out.append(1)
        elif item is Ellipsis:
            keep = len(rest) - sum(i == whole for i in items[items.index(Ellipsis) :])
            out += rest[:keep]
            del rest[:keep]
        else:
            out.append(rest.pop(0))
    return reshaped(tile, (*out, *rest))
