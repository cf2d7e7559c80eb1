"""Tiled views of arrays, and access by one list of positions and slices."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Value
from tilewright.ir.ops.tile.views import AtomicRedViewTko, MakeGatherScatterView
from tilewright.ir.tile_types import TOKEN, GatherScatterViewType, TensorViewType, fault
from tilewright.lang.tile.atomics import MODES, check_exact, mode_for
from tilewright.lang.tile.convert import converted, implicit, index_scalar
from tilewright.lang.tile.dtypes import DType, int32
from tilewright.lang.tile.enums import PaddingMode
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.memory import (
    counted,
    hints,
    inbounds,
    load_view,
    partition,
    store_view,
    tile_index,
)
from tilewright.lang.tile.require import (
    array_of,
    axis_of,
    constant_enum,
    constant_int,
    constant_ints,
    tile_of,
    tile_shape,
)
from tilewright.lang.tile.state import api, emit, value
from tilewright.lang.tile.values import Array, Shape, Tile, broadcasted, described, method, reshaped

_WEAK = {"memory_ordering_semantics": "weak"}


class TiledView:
    """An array cut into tiles of one shape: `array.tiled_view(shape)`.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     tiles = x.tiled_view(2, traversal_steps=1)
    ...     for i in range(3):
    ...         ct.store(y, i, ct.sum(tiles.load(i)))
    >>> x, y = np.arange(4.0), np.zeros(3)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([1., 3., 5.])
    """

    __slots__ = ("array", "padding", "shape_", "steps")

    def __init__(self, array: Array, shape: Shape, padding: PaddingMode, steps: Shape) -> None:
        self.array = array
        self.shape_ = shape
        self.padding = padding
        self.steps = steps

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.array.dtype_

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """The extents of a tile."""
        return self.shape_

    @property
    def traversal_steps(self) -> tuple[int, ...]:
        """How many elements lie between the origins of neighbouring tiles."""
        return self.steps

    @property
    def _extents(self) -> Shape:
        return self.shape_ or (1,) * self.array.ndim

    def _view(self, padding: PaddingMode) -> Any:
        axes = tuple(range(self.array.ndim))
        return partition(self.array, self._extents, axes, padding, self.steps)

    @api
    def num_tiles(self, axis: Any) -> Any:
        """How many tiles there are along `axis`."""
        at = axis_of(axis, self.array.ndim, "num_tiles")
        axes = tuple(range(self.array.ndim))
        return counted(self.array, self._extents, axes, self.steps)[at]

    @api
    def load(
        self,
        index: Any,
        *,
        check_bounds: Any = True,
        latency: int | None = None,
        allow_tma: bool | None = None,
    ) -> Any:
        """The tile at `index`, padded as the view says."""
        at = tile_index(self.array, index, "TiledView.load")
        bounds = inbounds(check_bounds, self.array.ndim, "TiledView.load")
        hint = hints(latency, allow_tma)
        view, kind = self._view(self.padding)
        found = load_view(
            view,
            kind,
            self.dtype,
            at,
            self.array.aliases,
            optimization_hints=hint,
            **_WEAK,
            **bounds,
        )
        return reshaped(found, self.shape_)

    @api
    def store(
        self,
        index: Any,
        tile: Any,
        *,
        check_bounds: Any = True,
        latency: int | None = None,
        allow_tma: bool | None = None,
    ) -> None:
        """Writes a tile at `index`; what lies outside of the array is dropped."""
        at = tile_index(self.array, index, "TiledView.store")
        given = implicit(tile, self.dtype, "TiledView.store: tile")
        shaped = broadcasted(given, self._extents, "TiledView.store: tile")
        bounds = inbounds(check_bounds, self.array.ndim, "TiledView.store")
        hint = hints(latency, allow_tma)
        view, _ = self._view(PaddingMode.UNDETERMINED)
        store_view(view, shaped, at, self.array.aliases, optimization_hints=hint, **_WEAK, **bounds)

    def _combine(self, name: str, index: Any, update: Any) -> None:
        what = f"TiledView.atomic_store_{name}"
        mode = mode_for(name, self.dtype, what)
        at = tile_index(self.array, index, what)
        given = tile_of(update, f"{what}: update")
        check_exact(name, given, self.dtype, what)
        if not MODES[name].exact:
            given = implicit(update, self.dtype, f"{what}: update")
        shaped = broadcasted(given, self._extents, f"{what}: update")
        view, _ = self._view(PaddingMode.UNDETERMINED)
        emit(
            AtomicRedViewTko,
            (view, *at, shaped.ir),
            (TOKEN,),
            segments=(1, len(at), 1, 0),
            aliases=self.array.aliases,
            memory_ordering_semantics="relaxed",
            memory_scope="device",
            mode=mode,
        )

    @api
    def atomic_store_add(self, index: Any, update: Any, /) -> None:
        """Adds a tile to memory, each element atomically."""
        self._combine("add", index, update)

    @api
    def atomic_store_max(self, index: Any, update: Any, /) -> None:
        """Keeps the greater elements, each atomically."""
        self._combine("max", index, update)

    @api
    def atomic_store_min(self, index: Any, update: Any, /) -> None:
        """Keeps the lesser elements, each atomically."""
        self._combine("min", index, update)

    @api
    def atomic_store_and(self, index: Any, update: Any, /) -> None:
        """element & update, each atomically."""
        self._combine("and", index, update)

    @api
    def atomic_store_or(self, index: Any, update: Any, /) -> None:
        """element | update, each atomically."""
        self._combine("or", index, update)

    @api
    def atomic_store_xor(self, index: Any, update: Any, /) -> None:
        """element ^ update, each atomically."""
        self._combine("xor", index, update)


@method("tiled_view")
def tiled_view(array: Array, tile_shape: Any, padding_mode: Any, traversal_steps: Any) -> TiledView:
    """The array cut into tiles; `traversal_steps` lets tiles overlap or leave gaps."""
    shape = _shape_argument(tile_shape, array.ndim)
    padding = constant_enum(padding_mode, PaddingMode, "tiled_view: padding_mode")
    steps = shape or (1,) * array.ndim
    if traversal_steps is not None:
        steps = constant_ints(traversal_steps, "tiled_view: traversal_steps")
        if len(steps) != array.ndim or any(step <= 0 for step in steps):
            raise TileTypeError(
                f"tiled_view: expected {array.ndim} positive traversal_steps, got {steps}"
            )
    return TiledView(array, shape, padding, steps)


def _shape_argument(shape: object, rank: int) -> Shape:
    found = tile_shape(shape, "tiled_view: tile_shape")
    if found and len(found) != rank:
        raise TileTypeError(f"tiled_view: expected {rank} extents, got {found}")
    return found


class Slice:
    """Positions start, start + 1... of a constant length, as an index."""

    __slots__ = ("length", "start")

    def __init__(self, start: Any, length: Any, /) -> None:
        self.start = start
        self.length = length


def _positions(array: Array, indices: object, what: str) -> tuple[int, Shape, list[Value]]:
    """The dimension with a list of positions, the tile's shape, the index of the view."""
    if array.ndim < 2:
        raise TileTypeError(
            f"{what}: expected an array of two dimensions or more, got {described(array)}",
            hint="use ct.gather and ct.scatter",
        )
    if not isinstance(indices, tuple) or len(indices) != array.ndim:
        raise TileTypeError(f"{what}: expected {array.ndim} indices, got {described(indices)}")
    lists: list[int] = []
    shape: list[int] = []
    index: list[Value] = []
    for dim, item in enumerate(indices):
        if isinstance(item, Slice):
            length = constant_int(item.length, f"{what}: length of dimension {dim}")
            shape += tile_shape(length, f"{what}: length of dimension {dim}")
            index.append(index_scalar(item.start, int32, f"{what}: start of dimension {dim}").ir)
        elif isinstance(item, Tile) and item.ndim == 1 and item.dtype_.is_int:
            lists.append(dim)
            shape.append(item.shape_[0])
            index.append(converted(item, int32).ir)
        else:
            raise TileTypeError(
                f"{what}: expected a 1-D integer tile or ct.Slice for dimension {dim}, got "
                f"{described(item)}"
            )
    if len(lists) != 1:
        raise TileTypeError(f"{what}: expected one 1-D tile among the indices, got {len(lists)}")
    return lists[0], tuple(shape), index


def _scattered_view(array: Array, dim: int, shape: Shape, padding: PaddingMode) -> Any:
    tensor = array.view.type
    assert isinstance(tensor, TensorViewType), "an array's view is a tensor view"
    pad = "" if padding is PaddingMode.UNDETERMINED else padding.value
    kind = GatherScatterViewType(shape, tensor, pad, dim)
    if problem := fault(kind):
        raise TileTypeError(f"tiles of {described(array)}: {problem}")
    return value(MakeGatherScatterView, (array.view,), kind), kind


@api
def load_advanced_indexing(
    array: Any,
    indices: Any,
    /,
    *,
    padding_mode: PaddingMode = PaddingMode.UNDETERMINED,
    latency: int | None = None,
    allow_tma: bool | None = None,
) -> Any:
    """Rows (or columns...) given one by one: one index is a 1-D tile, the others are `Slice`s.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     rows = ct.astile((2, 0), dtype=ct.int32)
    ...     ct.store(y, (0, 0), ct.load_advanced_indexing(x, (rows, ct.Slice(1, 2))))
    >>> x, y = np.arange(12.0).reshape(3, 4), np.zeros((2, 2))
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([[ 9., 10.],
           [ 1.,  2.]])
    """
    source = array_of(array, "load_advanced_indexing")
    dim, shape, index = _positions(source, indices, "load_advanced_indexing")
    padding = constant_enum(padding_mode, PaddingMode, "load_advanced_indexing: padding_mode")
    hint = hints(latency, allow_tma)
    view, kind = _scattered_view(source, dim, shape, padding)
    return load_view(
        view, kind, source.dtype_, index, source.aliases, optimization_hints=hint, **_WEAK
    )


@api
def store_advanced_indexing(
    array: Any,
    indices: Any,
    tile: Any,
    /,
    *,
    latency: int | None = None,
    allow_tma: bool | None = None,
) -> None:
    """Writes rows (or columns...) given one by one."""
    target = array_of(array, "store_advanced_indexing")
    dim, shape, index = _positions(target, indices, "store_advanced_indexing")
    given = implicit(tile, target.dtype_, "store_advanced_indexing: tile")
    if given.shape_ != shape:
        raise TileTypeError(
            f"store_advanced_indexing: the indices make a tile of shape {shape}, got {given.shape_}"
        )
    hint = hints(latency, allow_tma)
    view, _ = _scattered_view(target, dim, shape, PaddingMode.UNDETERMINED)
    store_view(view, given, index, target.aliases, optimization_hints=hint, **_WEAK)
