"""Arrays of a kernel: how they are made from an address, shape and strides, and sliced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir.core import Value
from tilewright.ir.ops.tile.convert import IntToPtr
from tilewright.ir.ops.tile.memory import LoadPtrTko
from tilewright.ir.ops.tile.module import Assume
from tilewright.ir.ops.tile.shape import Offset
from tilewright.ir.ops.tile.views import MakeTensorView
from tilewright.ir.tile_attrs import Bounded, DivBy
from tilewright.ir.tile_types import NUMBERS, TOKEN, PointerType, TensorViewType, TileType
from tilewright.lang.tile.arith import binary
from tilewright.lang.tile.convert import converted, index_scalar
from tilewright.lang.tile.dtypes import DType, Kind, foreign_pointer_dtype, int32, int64
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.require import axis_of, index_items, tile_of
from tilewright.lang.tile.state import EVERYTHING, AliasSet, emit, value
from tilewright.lang.tile.values import (
    Array,
    ArrayList,
    Tile,
    constant_of,
    described,
    method,
    pointer_to,
    strict,
)

Extent = int | Tile


def make_array(
    base: Value,
    dtype: DType,
    shape: Sequence[Extent],
    strides: Sequence[Extent],
    index_dtype: DType,
    aliases: AliasSet,
) -> Array:
    """An array at `base`; extents that are ints are part of its type."""
    fixed = [tuple(e if isinstance(e, int) else None for e in es) for es in (shape, strides)]
    given = [[e.ir for e in es if isinstance(e, Tile)] for es in (shape, strides)]
    view_type = TensorViewType(dtype.element, fixed[0], fixed[1])
    view = value(
        MakeTensorView,
        (base, *given[0], *given[1]),
        view_type,
        segments=(1, len(given[0]), len(given[1])),
    )
    return Array(base, dtype, tuple(shape), tuple(strides), index_dtype, aliases, view)


def assume(v: Value, *predicates: DivBy | Bounded) -> Value:
    """`v` with promises about it."""
    for predicate in predicates:
        t: Any = v.type
        v = value(Assume, (v,), t, predicate=predicate)
    return v


def offset_pointer(base: Value, dtype: DType, by: Tile) -> Value:
    """The address `by` elements after `base`, a scalar."""
    if by.const == 0:
        return base
    return value(Offset, (base, by.ir), pointer_to(dtype))


def extent_tile(extent: Extent, index_dtype: DType) -> Tile:
    """An extent as a scalar tile."""
    return extent if isinstance(extent, Tile) else strict(extent, index_dtype)


@method("slice")
def sliced(array: Array, axis: object, start: object, stop: object) -> Array:
    """Elements start to stop along one axis, in place: no element moves."""
    along = axis_of(axis, array.ndim, "slice")
    ends = [constant_of(e) for e in (start, stop)]
    for name, known in zip(("start", "stop"), ends, strict=True):
        if known is not None and known < 0:
            raise TileTypeError(f"slice: {name} is {known}, expected 0 or more")
    low, high = ends
    if low is not None and high is not None and high < low:
        raise TileTypeError(f"slice: stop {high} lies before start {low}")
    dtype = array.index_dtype
    begin = converted(index_scalar(start, int64, "slice: start"), int64)
    step = converted(extent_tile(array.strides_[along], dtype), int64)
    base = offset_pointer(array.base, array.dtype_, binary("mul", begin, step))
    extent: Extent
    if low is not None and high is not None and high > low:
        extent = int(high - low)
    else:
        difference = binary("sub", tile_of(stop, "slice: stop"), tile_of(start, "slice: start"))
        extent = converted(tile_of(difference, "slice"), dtype)
        extent = Tile(assume(extent.ir, Bounded(0, None)), dtype, ())
    shape = tuple(extent if i == along else e for i, e in enumerate(array.shape_))
    return make_array(base, array.dtype_, shape, array.strides_, dtype, array.aliases)


@method("foreign_pointer")
def foreign_pointer(array: Array) -> Tile:
    """The address of the array's first element."""
    return Tile(array.base, foreign_pointer_dtype(array.dtype_), ())


def _extents(items: object, what: str) -> list[Extent]:
    out: list[Extent] = []
    for item in index_items(items):
        known = constant_of(item)
        tile = tile_of(item, what)
        if tile.shape_ or not tile.dtype_.is_int or not tile.dtype_.signed:
            raise TileTypeError(f"{what}: expected signed integers, got {described(item)}")
        if known is not None and known < 0:
            raise TileTypeError(f"{what}: {known} is negative")
        out.append(int(known) if known is not None else tile)
    return out


@method("from_foreign")
def from_foreign(pointer: Any, shape: Any, strides: Any) -> Array:
    """The array at an address that comes from outside of tile code."""
    tile = tile_of(pointer, "from_foreign")
    if tile.dtype_.kind is not Kind.POINTER or tile.shape_ or tile.dtype_.pointee is None:
        raise TileTypeError(f"from_foreign: expected a pointer, got {described(tile)}")
    extents = [_extents(shape, "from_foreign: shape"), _extents(strides, "from_foreign: strides")]
    if len(extents[0]) != len(extents[1]):
        raise TileTypeError(
            f"from_foreign: {len(extents[0])} extents and {len(extents[1])} strides"
        )
    tiles = [e for es in extents for e in es if isinstance(e, Tile)]
    dtype = int64 if any(t.dtype_.bitwidth > 32 for t in tiles) else int32
    shaped = [[converted(e, dtype) if isinstance(e, Tile) else e for e in es] for es in extents]
    return make_array(tile.ir, tile.dtype_.pointee, shaped[0], shaped[1], dtype, EVERYTHING)


def list_item(items: ArrayList, index: object) -> Array:
    """Element `index` of a list of arrays, read from its table in memory.

    Layout: 64-bit words: address, then `ndim` extents, then `ndim` strides, for each element.
    """
    spec = items.element
    at = converted(index_scalar(index, int64, "list index"), int64)
    words = 1 + 2 * spec.ndim
    first = binary("mul", at, words)
    found: list[Tile] = []
    table = pointer_to(int64)
    for i in range(words):
        where = value(Offset, (items.base, binary("add", first, i).ir), table)
        op = emit(
            LoadPtrTko,
            (where,),
            (TileType((), NUMBERS["i64"]), TOKEN),
            segments=(1, 0, 0, 0),
            memory_ordering_semantics="weak",
            aliases=frozenset({"list table"}),
        )
        found.append(Tile(op.results[0], int64, ()))
    pointer = TileType((), PointerType(spec.dtype.element))
    base = value(IntToPtr, (found[0].ir,), pointer)
    extents = [converted(t, spec.index_dtype) for t in found[1:]]
    made = spec.build(base, extents)
    assert isinstance(made, Array), "an element of a list is an array"
    return made
