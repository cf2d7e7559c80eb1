"""Loads and stores by element index: gather, scatter, and the addresses behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.ir.core import Value
from tilewright.ir.ops.tile.memory import LoadPtrTko, StorePtrTko
from tilewright.ir.ops.tile.shape import Broadcast, Offset, Reshape
from tilewright.ir.tile_types import TOKEN, TileType
from tilewright.lang.tile.arith import binary, raw_bits
from tilewright.lang.tile.arrays import extent_tile
from tilewright.lang.tile.compare import compared
from tilewright.lang.tile.convert import converted, implicit
from tilewright.lang.tile.dtypes import DType, bool_, broadcast, broadcasts_to, uint64
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.memory import hints
from tilewright.lang.tile.require import array_of, constant_bool, index_items, tile_of
from tilewright.lang.tile.state import AliasSet, api, emit, value
from tilewright.lang.tile.values import Shape, Tile, broadcasted, described, pointer_to

_WEAK: dict[str, Any] = {"memory_ordering_semantics": "weak", "memory_scope": None}


@dataclass(frozen=True)
class Elements:
    """Addresses of elements, and which of them are touched (None: all)."""

    pointers: Value
    shape: Shape
    mask: Tile | None
    dtype: DType
    aliases: AliasSet


def and_masks(a: Tile | None, b: Tile | None) -> Tile | None:
    """Where both are true; None is true everywhere."""
    if a is None or b is None:
        return b if a is None else a
    return raw_bits("and", a, b)


def custom_mask(mask: object, shape: Shape, what: str) -> Tile | None:
    """A mask that the user gave, in the shape of the elements."""
    if mask is None:
        return None
    tile = tile_of(mask, f"{what}: mask")
    if tile.dtype_ is not bool_:
        raise TileTypeError(f"{what}: a mask is a tile of bool_, got {described(tile)}")
    return broadcasted(tile, shape, f"{what}: mask")


def pointers_at(base: Value, dtype: DType, offset: Tile) -> Value:
    """Addresses `offset` elements after `base`."""
    pointer = Tile(base, dtype, ())
    spread = _spread_pointer(pointer, offset.shape_)
    return value(Offset, (spread, offset.ir), pointer_to(dtype, offset.shape_))


def _spread_pointer(pointer: Tile, shape: Shape) -> Value:
    """One address repeated in a tile."""
    from_type = pointer_to(pointer.dtype_)
    if not shape:
        return pointer.ir
    ones = TileType((1,) * len(shape), from_type.element)
    row = value(Reshape, (pointer.ir,), ones)
    whole = TileType(shape, from_type.element)
    return row if whole == ones else value(Broadcast, (row,), whole)


def elements_of(
    array: object, indices: object, check_bounds: object, mask: object, what: str
) -> Elements:
    """The elements at `indices`, one integer tile per dimension; they broadcast."""
    source = array_of(array, what)
    items = index_items(indices)
    if len(items) != source.ndim:
        raise TileTypeError(
            f"{what}: {described(source)} takes {source.ndim} indices, got {described(indices)}"
        )
    tiles = [tile_of(item, f"{what}: indices") for item in items]
    for i, tile in enumerate(tiles):
        if not tile.dtype_.is_int:
            raise TileTypeError(f"{what}: index {i} is not of integers: {described(tile)}")
    shape = broadcast([t.shape_ for t in tiles])
    check = constant_bool(check_bounds, f"{what}: check_bounds")
    offset: Any = None
    bounds: Tile | None = None
    for tile, extent, stride in zip(tiles, source.shape_, source.strides_, strict=True):
        wide = broadcasted(converted(tile, uint64), shape)
        if check:
            limit = converted(extent_tile(extent, source.index_dtype), uint64)
            bounds = and_masks(bounds, compared("lt", wide, broadcasted(limit, shape)))
        if stride != 1:
            step = converted(extent_tile(stride, source.index_dtype), uint64)
            wide = binary("mul", wide, step)
        offset = wide if offset is None else binary("add", offset, wide)
    pointers = source.base if offset is None else pointers_at(source.base, source.dtype_, offset)
    final = and_masks(bounds, custom_mask(mask, shape, what))
    return Elements(pointers, shape, final, source.dtype_, source.aliases)


def spread(x: object, where: Elements, what: str) -> Tile:
    """A value in the type and shape of the elements."""
    return broadcasted(implicit(x, where.dtype, what), where.shape, what)


def load_elements(where: Elements, padding: Tile | None, latency: object) -> Tile:
    masked = [] if where.mask is None else [where.mask.ir]
    padded = [padding.ir] if padding is not None and masked else []
    op = emit(
        LoadPtrTko,
        (where.pointers, *masked, *padded),
        (TileType(where.shape, where.dtype.element), TOKEN),
        segments=(1, len(masked), len(padded), 0),
        aliases=where.aliases,
        optimization_hints=hints(latency),
        **_WEAK,
    )
    return Tile(op.results[0], where.dtype, where.shape)


def store_elements(where: Elements, tile: Tile, latency: object) -> None:
    masked = [] if where.mask is None else [where.mask.ir]
    emit(
        StorePtrTko,
        (where.pointers, tile.ir, *masked),
        (TOKEN,),
        segments=(1, 1, len(masked), 0),
        aliases=where.aliases,
        optimization_hints=hints(latency),
        **_WEAK,
    )


@api
def gather(
    array: Any,
    indices: Any,
    /,
    *,
    mask: Any = None,
    padding_value: Any = 0,
    check_bounds: Any = True,
    latency: int | None = None,
) -> Any:
    """The elements at `indices`, one integer tile per dimension of the array.

    Outside of the array, and where `mask` is false, the result is `padding_value`.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     i = ct.arange(4, dtype=ct.int32) * 2
    ...     ct.store(y, 0, ct.gather(x, i, padding_value=-1))
    >>> x, y = np.arange(10.0, 15), np.zeros(4)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([10., 12., 14., -1.])
    """
    where = elements_of(array, indices, check_bounds, mask, "gather")
    if not broadcasts_to(tile_of(padding_value, "gather: padding_value").shape_, where.shape):
        raise TileTypeError(
            f"gather: padding_value of shape {tile_of(padding_value, 'gather').shape_} does not "
            f"broadcast to {where.shape}"
        )
    return load_elements(where, spread(padding_value, where, "gather: padding_value"), latency)


@api
def scatter(
    array: Any,
    indices: Any,
    value: Any,
    /,
    *,
    mask: Any = None,
    check_bounds: Any = True,
    latency: int | None = None,
) -> None:
    """Writes `value` to the elements at `indices`, except outside of the array and the mask.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     i = ct.arange(4, dtype=ct.int32)
    ...     ct.scatter(y, i * 2, i + 1, mask=i != 1)
    >>> y = np.zeros(6, np.int32)
    >>> ct.launch(None, (1,), example, (y,)); y
    array([1, 0, 0, 0, 3, 0], dtype=int32)
    """
    where = elements_of(array, indices, check_bounds, mask, "scatter")
    store_elements(where, spread(value, where, "scatter: value"), latency)
