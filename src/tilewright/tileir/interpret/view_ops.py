"""Views of tensors in memory, and access to them by tile.

A view that lies inside one buffer is one NumPy array, and a tile inside it is a slice.  Whatever
else there is (edges, gathered positions, tensors that leave their buffer) goes by addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.ir.ops.tile import views as ops
from tilewright.ir.ops.tile.base import TileOp, tile_type
from tilewright.ir.tile_types import NumberType, TensorViewType
from tilewright.numeric.dtypes import BOOL, DType
from tilewright.tileir.interpret import access
from tilewright.tileir.interpret.memory import Array
from tilewright.tileir.interpret.packed import load_packed, store_packed
from tilewright.tileir.interpret.scope import Compile, Frame, Run, Scope, Step
from tilewright.tileir.interpret.tracked import tracked_read, tracked_write
from tilewright.tileir.interpret.values import carrier, dtype_of, padding_value
from tilewright.tileir.interpret.window import Window, window_of


class TensorView:
    """A tensor in memory.  Units: `shape` and `strides` in elements.

    `array` is the whole tensor, if it lies inside one buffer with whole elements.
    """

    __slots__ = ("address", "array", "shape", "strides")

    def __init__(
        self, run: Run, address: int, shape: tuple[int, ...], strides: tuple[int, ...], row: DType
    ) -> None:
        self.address, self.shape, self.strides = address, shape, strides
        self.array = None if row.bits == 4 else _array(run, self, carrier(row))


def _array(run: Run, view: TensorView, dtype: np.dtype[Any]) -> Array | None:
    size = dtype.itemsize
    buffer = run.memory.find(view.address)
    if buffer is None or view.address % size or 0 in view.shape:
        return None
    reach = [(n - 1) * s * size for n, s in zip(view.shape, view.strides, strict=True)]
    low = view.address + sum(r for r in reach if r < 0)
    high = view.address + sum(r for r in reach if r > 0) + size
    if low < buffer.start or high > buffer.end:
        return None
    return np.ndarray(
        view.shape,
        dtype,
        buffer.data,
        view.address - buffer.start,
        tuple(s * size for s in view.strides),
    )


def number_row(t: TensorViewType) -> DType:
    assert isinstance(t.element, NumberType), "a tensor view holds numbers"
    return t.element.row


def _make_tensor_view(op: Any, scope: Scope) -> Step:
    t = op.result.type
    base, out = scope.slot(op.base), scope.slot(op.result)
    row = number_row(t)
    shape = _filled(t.shape, scope.slots(op.dynamicShape))
    strides = _filled(t.strides, scope.slots(op.dynamicStrides))

    def step(f: Frame) -> None:
        f[out] = TensorView(f[0], int(f[base]), shape(f), strides(f), row)

    return step


def _filled(
    extents: Sequence[int | None], dynamic: Sequence[int]
) -> Callable[[Frame], tuple[int, ...]]:
    """Static extents, with the dynamic ones from their slots."""
    fixed = [e for e in extents if e is not None]
    if len(fixed) == len(extents):
        known = tuple(fixed)
        return lambda _: known
    waiting = list(dynamic)
    parts = [(e, -1) if e is not None else (0, waiting.pop(0)) for e in extents]
    return lambda f: tuple([e if slot < 0 else int(f[slot]) for e, slot in parts])


def _make_view(op: Any, scope: Scope) -> None:
    """What a view of tiles adds is in its type."""
    scope.alias(op.result, op.tensor_view)


def _extents(op: Any, scope: Scope, of_tiles: bool) -> Step:
    source, outputs = scope.slot(op.src), scope.slots(op.results)
    number = dtype_of(tile_type(op.results[0].type)).type if op.results else np.int32
    window = window_of(op.src.type) if of_tiles else None

    def step(f: Frame) -> None:
        shape = f[source].shape
        extents = shape if window is None else window.counts(shape)
        for slot, extent in zip(outputs, extents, strict=True):
            f[slot] = np.int64(extent).astype(number)

    return step


# --- where a tile lies --------------------------------------------------------------------------


def _index(op: Any, scope: Scope, window: Window) -> Callable[[Frame], list[Any]]:
    """Where the tile begins along each of its dimensions, or its positions, in elements."""
    sources = tuple(zip(scope.slots(op.index), window.steps, strict=True))
    if window.sparse < 0:
        return lambda f: [int(f[slot]) * step for slot, step in sources]
    sparse = window.sparse

    def positions(f: Frame) -> list[Any]:
        return [
            np.asarray(f[slot]).astype(np.int64) if i == sparse else int(f[slot])
            for i, (slot, _) in enumerate(sources)
        ]

    return positions


def _inside_index_space(run: Run, op: Any, window: Window, at: list[Any], view: TensorView) -> bool:
    """Whether an index is in the index space, and keeps the promises of `inbounds`."""
    extents = window.extents(view.shape)
    if window.sparse < 0:
        counts = window.counts(view.shape)
        for i, (start, step, count) in enumerate(zip(at, window.steps, counts, strict=True)):
            if not 0 <= start < count * step:
                run.report(
                    "index_space",
                    op,
                    f"{op.mnemonic}: index {start // step} in dimension {i}, expected 0 to "
                    f"{count - 1}: a tensor of {extents[i]} elements has {count} tiles there",
                )
                return False
    inbounds = getattr(op, "inbounds", None) or ()
    for i, promised in enumerate(inbounds):
        if promised and not window.within(i, at[i], extents[i]):
            run.report(
                "index_space",
                op,
                f"{op.mnemonic}: the tile leaves the tensor in dimension {i}, which `inbounds` "
                f"promises not to happen: begins at {at[i]}, {window.tile[i]} of {extents[i]}",
            )
    return True


def locate_tile(
    op: Any, scope: Scope, window: Window, row: DType
) -> Callable[[Frame], tuple[Any, Any]]:
    """The address of every element of the tile, and a mask of those inside the tensor."""
    view_slot, index = scope.slot(op.view), _index(op, scope, window)

    def locate(f: Frame) -> tuple[Any, Any]:
        view, at = f[view_slot], index(f)
        inside = _inside_index_space(f[0], op, window, at, view)
        addresses, mask = window.addresses(view.address, view.shape, view.strides, at, row)
        return addresses, mask if inside else np.zeros(window.tile, np.bool_)

    return locate


# --- access -------------------------------------------------------------------------------------


def _load_view(op: Any, scope: Scope) -> Step:
    window = window_of(op.view.type)
    row, out = number_row(op.view.type.view), scope.slot(op.tile)
    fill = padding_value(op.view.type.padding, row)
    locate = locate_tile(op, scope, window, row)
    read = load_packed if row.bits == 4 else access.load

    def by_address(f: Frame, addresses: Any, mask: Any) -> None:
        f[out] = read(f[0], op, addresses, mask, row, fill)

    if scope.tracked:
        size = 1 if row.bits == 4 else carrier(row).itemsize
        return tracked_read(op, scope, locate, size, by_address)
    view_slot, index = scope.slot(op.view), _index(op, scope, window)
    borrows = op in scope.borrowed and row is not BOOL
    order, tile = window.order, window.tile

    def step(f: Frame) -> None:
        view = f[view_slot]
        if view.array is None:
            return by_address(f, *locate(f))
        at = index(f)
        found = window.slices(view.shape, at)
        if found is None:
            if not _inside_index_space(f[0], op, window, at, view):
                at = [-n for n in tile]
            f[out] = window.clipped(view.array, at, fill, row)
            return None
        part = view.array[found]
        if order is not None:
            part = part.transpose(order)
        if borrows:
            f[out] = part
        else:
            f[out] = part != 0 if row is BOOL else part.copy()
        return None

    return step if window.sparse < 0 else (lambda f: by_address(f, *locate(f)))


def _store_view(op: Any, scope: Scope) -> Step:
    window = window_of(op.view.type)
    row, value = number_row(op.view.type.view), scope.slot(op.tile)
    locate = locate_tile(op, scope, window, row)
    write = store_packed if row.bits == 4 else access.store

    def prepare(f: Frame, addresses: Any, mask: Any) -> Callable[[], None]:
        run, values = f[0], f[value]
        return lambda: write(run, op, addresses, values, mask, row)

    if scope.tracked:
        size = 1 if row.bits == 4 else carrier(row).itemsize
        return tracked_write(op, scope, locate, size, prepare)
    view_slot, index = scope.slot(op.view), _index(op, scope, window)
    order = window.order

    def step(f: Frame) -> None:
        view = f[view_slot]
        found = None
        if view.array is not None and view.array.flags.writeable:
            found = window.slices(view.shape, index(f))
        if found is None:
            prepare(f, *locate(f))()
            return
        part = view.array[found]
        if order is not None:
            part = part.transpose(order)
        part[...] = f[value]

    return step if window.sparse < 0 else (lambda f: prepare(f, *locate(f))())


TABLE: dict[type[TileOp], Compile] = {
    ops.MakeTensorView: _make_tensor_view,
    ops.MakePartitionView: _make_view,
    ops.MakeStridedView: _make_view,
    ops.MakeGatherScatterView: _make_view,
    ops.GetTensorShape: lambda op, scope: _extents(op, scope, False),
    ops.GetIndexSpaceShape: lambda op, scope: _extents(op, scope, True),
    ops.LoadViewTko: _load_view,
    ops.StoreViewTko: _store_view,
}
