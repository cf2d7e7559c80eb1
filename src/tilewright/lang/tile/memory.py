"""Loads and stores by tile index, and what all accesses share: memory orders, hints, views."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.ops.tile.base import TileOp
from tilewright.ir.ops.tile.versions import since_of
from tilewright.ir.ops.tile.views import (
    GetIndexSpaceShape,
    LoadViewTko,
    MakePartitionView,
    MakeStridedView,
    StoreViewTko,
)
from tilewright.ir.tile_attrs import HintsAttr
from tilewright.ir.tile_types import (
    NUMBERS,
    TOKEN,
    PartitionViewType,
    StridedViewType,
    TensorViewType,
    TileType,
    ViewType,
    fault,
)
from tilewright.lang.tile.convert import converted, implicit
from tilewright.lang.tile.dtypes import (
    DType,
    int32,
    int64,
)
from tilewright.lang.tile.enums import MemoryOrder, MemoryScope, PaddingMode
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.require import (
    array_of,
    axis_of,
    axis_order,
    constant_bool,
    constant_enum,
    index_items,
    latency_of,
    require_version,
    tile_of,
    tile_shape,
)
from tilewright.lang.tile.state import AliasSet, api, emit, value
from tilewright.lang.tile.values import (
    Array,
    Shape,
    Tile,
    described,
    reshaped,
)

LOAD_ORDERS = (MemoryOrder.WEAK, MemoryOrder.RELAXED, MemoryOrder.ACQUIRE)
STORE_ORDERS = (MemoryOrder.WEAK, MemoryOrder.RELAXED, MemoryOrder.RELEASE)
ATOMIC_ORDERS = (
    *(MemoryOrder.RELAXED, MemoryOrder.ACQUIRE, MemoryOrder.RELEASE, MemoryOrder.ACQ_REL),
)
_SCOPES = {
    MemoryScope.NONE: None,
    MemoryScope.BLOCK: "tl_blk",
    MemoryScope.DEVICE: "device",
    MemoryScope.SYS: "sys",
}


def ordering(
    what: str, order: object, scope: object, allowed: tuple[MemoryOrder, ...]
) -> dict[str, Any]:
    """The attributes of a memory order and scope.

    Raises: TileTypeError for an order that the access cannot have, or an order without a scope.
    """
    o = constant_enum(order, MemoryOrder, f"{what}: memory_order")
    s = constant_enum(scope, MemoryScope, f"{what}: memory_scope")
    if o not in allowed:
        shown = ", ".join(str(a) for a in allowed)
        raise TileTypeError(f"{what}: expected one of {shown} as memory_order, got {o}")
    if s not in _SCOPES:
        raise TileTypeError(f"{what}: {s} is no scope of an access")
    if (o is MemoryOrder.WEAK) != (s is MemoryScope.NONE):
        need = "no memory_scope" if o is MemoryOrder.WEAK else "a memory_scope"
        raise TileTypeError(f"{what}: {o} takes {need}, got {s}")
    return {"memory_ordering_semantics": o.value, "memory_scope": _SCOPES[s]}


def hints(latency: object, allow_tma: object = None) -> HintsAttr | None:
    """The hints of an access, or None."""
    pairs: list[tuple[str, int | bool | str]] = []
    if allow_tma is not None:
        if not isinstance(allow_tma, bool):
            raise TileTypeError(f"allow_tma: expected True or False, got {described(allow_tma)}")
        pairs.append(("allow_tma", allow_tma))
    found = latency_of(latency)
    if found is not None:
        pairs.append(("latency", found))
    return HintsAttr((("default", tuple(pairs)),)) if pairs else None


def inbounds(check_bounds: object, rank: int, what: str) -> dict[str, Any]:
    """The promise that an access stays inside the array."""
    if constant_bool(check_bounds, f"{what}: check_bounds"):
        return {}
    late = since_of(LoadViewTko, LoadViewTko.ATTRS["inbounds"])
    require_version(late, f"{what}: check_bounds=False")
    return {"inbounds": (True,) * rank}


def partition(
    array: Array,
    shape: Shape,
    order: tuple[int, ...],
    padding: PaddingMode,
    steps: Shape | None = None,
) -> tuple[Value, ViewType]:
    """The view of an array's tiles.  `order[i]` is the array's axis of tile dimension i."""
    pad = "" if padding is PaddingMode.UNDETERMINED else padding.value
    tensor = array.view.type
    assert isinstance(tensor, TensorViewType), "an array's view is a tensor view"
    kind: type[TileOp] = MakePartitionView
    view: ViewType = PartitionViewType(shape, tensor, pad, order)
    if steps is not None and steps != shape:
        kind, view = MakeStridedView, StridedViewType(shape, tensor, pad, steps, order)
    if problem := fault(view):
        raise TileTypeError(f"tiles of {described(array)}: {problem}")
    return value(kind, (array.view,), view), view


def tile_index(array: Array, index: object, what: str) -> list[Value]:
    """The index of a tile: one signed integer per dimension."""
    items = index_items(index)
    if len(items) != array.ndim:
        raise TileTypeError(
            f"{what}: {described(array)} takes {array.ndim} indices, got {len(items)}"
        )
    tiles = [tile_of(item, f"{what}: index") for item in items]
    for tile in tiles:
        if tile.shape_ or not tile.dtype_.is_int or not tile.dtype_.signed:
            raise TileTypeError(
                f"{what}: an index is a signed integer scalar, got {described(tile)}"
            )
    wide = any(t.dtype_.bitwidth > 32 for t in tiles) or array.index_dtype is int64
    return [converted(t, int64 if wide else int32).ir for t in tiles]


def load_view(
    view: Value,
    view_type: ViewType,
    dtype: DType,
    index: list[Value],
    aliases: AliasSet,
    **attrs: Any,
) -> Tile:
    op = emit(
        LoadViewTko,
        (view, *index),
        (view_type.loaded, TOKEN),
        segments=(1, len(index), 0),
        aliases=aliases,
        **attrs,
    )
    return Tile(op.results[0], dtype, view_type.tile)


def store_view(view: Value, tile: Tile, index: list[Value], aliases: AliasSet, **attrs: Any) -> Op:
    return emit(
        StoreViewTko,
        (tile.ir, view, *index),
        (TOKEN,),
        segments=(1, 1, len(index), 0),
        aliases=aliases,
        **attrs,
    )


@api
def load(
    array: Any,
    /,
    index: Any,
    shape: Any,
    *,
    order: Any = "C",
    padding_mode: PaddingMode = PaddingMode.UNDETERMINED,
    check_bounds: Any = True,
    latency: int | None = None,
    allow_tma: bool | None = None,
    memory_order: MemoryOrder = MemoryOrder.WEAK,
    memory_scope: MemoryScope = MemoryScope.NONE,
) -> Any:
    """The tile of `shape` at `index`, which counts tiles.

    Tile dimension i runs along the array's axis `order[i]`.  Elements outside of the array are
    `padding_mode`'s.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     t = ct.load(x, (0, 1), (2, 2), padding_mode=ct.PaddingMode.ZERO)
    ...     ct.store(y, (0, 0), t)
    >>> x, y = np.arange(6.0).reshape(2, 3), np.zeros((2, 2))
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([[2., 0.],
           [5., 0.]])
    """
    source = array_of(array, "load")
    at = tile_index(source, index, "load")
    wanted = tile_shape(shape, "load: shape")
    extents = wanted or (1,) * source.ndim
    if len(extents) != source.ndim:
        raise TileTypeError(
            f"load: {described(source)} has tiles of {source.ndim} extents, got {wanted}"
        )
    axes = axis_order(order, source.ndim, "load: order")
    padding = constant_enum(padding_mode, PaddingMode, "load: padding_mode")
    attrs = ordering("load", memory_order, memory_scope, LOAD_ORDERS)
    bounds = inbounds(check_bounds, source.ndim, "load")
    hint = hints(latency, allow_tma)
    view, kind = partition(source, extents, axes, padding)
    found = load_view(
        view, kind, source.dtype_, at, source.aliases, optimization_hints=hint, **attrs, **bounds
    )
    return reshaped(found, wanted)


@api
def store(
    array: Any,
    /,
    index: Any,
    tile: Any,
    *,
    order: Any = "C",
    check_bounds: Any = True,
    latency: int | None = None,
    allow_tma: bool | None = None,
    memory_order: MemoryOrder = MemoryOrder.WEAK,
    memory_scope: MemoryScope = MemoryScope.NONE,
) -> None:
    """Writes `tile` at `index`, which counts tiles; what lies outside of the array is dropped.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     ct.store(y, ct.bid(0), ct.full((2,), ct.bid(0) + 1, ct.int32))
    >>> y = np.zeros(5, np.int32)
    >>> ct.launch(None, (3,), example, (y,)); y
    array([1, 1, 2, 2, 3], dtype=int32)
    """
    target = array_of(array, "store")
    at = tile_index(target, index, "store")
    given = implicit(tile, target.dtype_, "store: tile")
    extents = given.shape_ or (1,) * target.ndim
    if len(extents) != target.ndim:
        raise TileTypeError(
            f"store: {described(target)} takes tiles of {target.ndim} dimensions, got "
            f"{described(given)}"
        )
    axes = axis_order(order, target.ndim, "store: order")
    attrs = ordering("store", memory_order, memory_scope, STORE_ORDERS)
    bounds = inbounds(check_bounds, target.ndim, "store")
    hint = hints(latency, allow_tma)
    view, _ = partition(target, extents, axes, PaddingMode.UNDETERMINED)
    shaped = reshaped(given, extents)
    store_view(view, shaped, at, target.aliases, optimization_hints=hint, **attrs, **bounds)


@api
def num_tiles(array: Any, /, axis: Any, shape: Any, order: Any = "C") -> Any:
    """How many tiles of `shape` cover the array along `axis` of the tile.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     ct.store(y, 0, ct.num_tiles(x, 1, (4, 8)))
    >>> x, y = np.zeros((10, 20)), np.zeros(1, np.int32)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([3], dtype=int32)
    """
    source = array_of(array, "num_tiles")
    at = axis_of(axis, source.ndim, "num_tiles")
    extents = tile_shape(shape, "num_tiles: shape") or (1,) * source.ndim
    if len(extents) != source.ndim:
        raise TileTypeError(f"num_tiles: expected {source.ndim} extents, got {extents}")
    axes = axis_order(order, source.ndim, "num_tiles: order")
    return counted(source, extents, axes, None)[at]


def counted(array: Array, extents: Shape, axes: tuple[int, ...], steps: Shape | None) -> list[Tile]:
    """How many tiles there are along each tile dimension."""
    view, _ = partition(array, extents, axes, PaddingMode.UNDETERMINED, steps)
    types = [TileType((), NUMBERS["i32"])] * len(extents)
    op = emit(GetIndexSpaceShape, (view,), types)
    return [Tile(v, int32, ()) for v in op.results]
