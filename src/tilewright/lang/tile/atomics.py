"""Atomic read-modify-write of array elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.ir.ops.tile.memory import AtomicCASTko, AtomicRMWTko
from tilewright.ir.tile_types import TOKEN, TileType
from tilewright.lang.tile.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)
from tilewright.lang.tile.elements import Elements, elements_of, spread
from tilewright.lang.tile.enums import MemoryOrder, MemoryScope
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.memory import ATOMIC_ORDERS, ordering
from tilewright.lang.tile.require import tile_of
from tilewright.lang.tile.state import api, emit
from tilewright.lang.tile.values import Tile, broadcasted

_INTS = (int32, int64, uint32, uint64)
_WORDS = (*_INTS, float32, float64)


@dataclass(frozen=True)
class Mode:
    """An atomic operation: its mode for signed, unsigned and float elements."""

    signed: str
    unsigned: str
    floating: str
    dtypes: tuple[DType, ...]
    exact: bool = False
    """The update must already have the array's type."""


MODES = {
    "xchg": Mode("xchg", "xchg", "xchg", _WORDS),
    "add": Mode("add", "add", "addf", (*_WORDS, float16, bfloat16)),
    "max": Mode("max", "umax", "", _INTS),
    "min": Mode("min", "umin", "", _INTS),
    "and": Mode("and", "and", "", _INTS, exact=True),
    "or": Mode("or", "or", "", _INTS, exact=True),
    "xor": Mode("xor", "xor", "", _INTS, exact=True),
}


def mode_for(name: str, dtype: DType, what: str) -> str:
    """The Tile IR mode of an operation on elements of a type.

    Raises: TileTypeError if there is none.
    """
    mode = MODES[name]
    if dtype not in mode.dtypes:
        shown = ", ".join(t.name for t in mode.dtypes)
        raise TileTypeError(f"{what}: it works on {shown}, got an array of {dtype}")
    if dtype.is_float:
        return mode.floating
    return mode.signed if dtype.signed else mode.unsigned


def check_exact(name: str, update: Tile, dtype: DType, what: str) -> None:
    """Bitwise operations do not convert their operand."""
    if MODES[name].exact and update.dtype_ is not dtype:
        raise TileTypeError(f"{what}: expected an update of {dtype}, got {update.dtype_}")


def update_elements(
    name: str, where: Elements, update: object, order: object, scope: object, what: str
) -> Tile:
    """Combines `update` into the elements; what was there before."""
    mode = mode_for(name, where.dtype, what)
    check_exact(name, tile_of(update, f"{what}: update"), where.dtype, what)
    attrs = ordering(what, order, scope, ATOMIC_ORDERS)
    if MODES[name].exact:
        arg = broadcasted(tile_of(update, what), where.shape, f"{what}: update")
    else:
        arg = spread(update, where, f"{what}: update")
    masked = [] if where.mask is None else [where.mask.ir]
    op = emit(
        AtomicRMWTko,
        (where.pointers, arg.ir, *masked),
        (TileType(where.shape, where.dtype.element), TOKEN),
        segments=(1, 1, len(masked), 0),
        aliases=where.aliases,
        mode=mode,
        **attrs,
    )
    return Tile(op.results[0], where.dtype, where.shape)


def exchange_elements(
    where: Elements, expected: object, desired: object, order: object, scope: object, what: str
) -> Tile:
    """Writes `desired` where memory equals `expected`; what was there before."""
    if where.dtype not in _WORDS:
        shown = ", ".join(t.name for t in _WORDS)
        raise TileTypeError(f"{what}: it works on {shown}, got an array of {where.dtype}")
    attrs = ordering(what, order, scope, ATOMIC_ORDERS)
    cmp = spread(expected, where, f"{what}: expected")
    val = spread(desired, where, f"{what}: desired")
    masked = [] if where.mask is None else [where.mask.ir]
    op = emit(
        AtomicCASTko,
        (where.pointers, cmp.ir, val.ir, *masked),
        (TileType(where.shape, where.dtype.element), TOKEN),
        segments=(1, 1, 1, len(masked), 0),
        aliases=where.aliases,
        **attrs,
    )
    return Tile(op.results[0], where.dtype, where.shape)


def _rmw(
    name: str, array: Any, indices: Any, update: Any, check: Any, order: Any, scope: Any
) -> Any:
    what = f"atomic_{name}"
    where = elements_of(array, indices, check, None, what)
    return update_elements(name, where, update, order, scope, what)


@api
def atomic_cas(
    array: Any,
    indices: Any,
    expected: Any,
    desired: Any,
    /,
    *,
    check_bounds: Any = True,
    memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
    memory_scope: MemoryScope = MemoryScope.DEVICE,
) -> Any:
    """Writes `desired` where the element equals `expected`, bit for bit; the old elements.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     ct.store(y, 1, ct.atomic_cas(y, 0, 7, 9))
    >>> y = np.array([7, 0], np.int32)
    >>> ct.launch(None, (1,), example, (y,)); y
    array([9, 7], dtype=int32)
    """
    where = elements_of(array, indices, check_bounds, None, "atomic_cas")
    return exchange_elements(where, expected, desired, memory_order, memory_scope, "atomic_cas")


@api
def atomic_xchg(
    array: Any,
    indices: Any,
    update: Any,
    /,
    *,
    check_bounds: Any = True,
    memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
    memory_scope: MemoryScope = MemoryScope.DEVICE,
) -> Any:
    """Replaces the elements at `indices` by `update`; the old elements."""
    return _rmw("xchg", array, indices, update, check_bounds, memory_order, memory_scope)


@api
def atomic_add(
    array: Any,
    indices: Any,
    update: Any,
    /,
    *,
    check_bounds: Any = True,
    memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
    memory_scope: MemoryScope = MemoryScope.DEVICE,
) -> Any:
    """Adds `update` to the elements at `indices`; the old elements.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     old = ct.atomic_add(y, ct.arange(2, dtype=ct.int32), ct.bid(0) + 1)
    ...     ct.static_assert(old.shape == (2,))
    >>> y = np.zeros(3, np.int32)
    >>> ct.launch(None, (4,), example, (y,)); y
    array([10, 10,  0], dtype=int32)
    """
    return _rmw("add", array, indices, update, check_bounds, memory_order, memory_scope)


@api
def atomic_max(
    array: Any,
    indices: Any,
    update: Any,
    /,
    *,
    check_bounds: Any = True,
    memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
    memory_scope: MemoryScope = MemoryScope.DEVICE,
) -> Any:
    """Keeps the greater of element and `update`; the old elements."""
    return _rmw("max", array, indices, update, check_bounds, memory_order, memory_scope)


@api
def atomic_min(
    array: Any,
    indices: Any,
    update: Any,
    /,
    *,
    check_bounds: Any = True,
    memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
    memory_scope: MemoryScope = MemoryScope.DEVICE,
) -> Any:
    """Keeps the lesser of element and `update`; the old elements."""
    return _rmw("min", array, indices, update, check_bounds, memory_order, memory_scope)


@api
def atomic_and(
    array: Any,
    indices: Any,
    update: Any,
    /,
    *,
    check_bounds: Any = True,
    memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
    memory_scope: MemoryScope = MemoryScope.DEVICE,
) -> Any:
    """element & update; the old elements."""
    return _rmw("and", array, indices, update, check_bounds, memory_order, memory_scope)


@api
def atomic_or(
    array: Any,
    indices: Any,
    update: Any,
    /,
    *,
    check_bounds: Any = True,
    memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
    memory_scope: MemoryScope = MemoryScope.DEVICE,
) -> Any:
    """element | update; the old elements."""
    return _rmw("or", array, indices, update, check_bounds, memory_order, memory_scope)


@api
def atomic_xor(
    array: Any,
    indices: Any,
    update: Any,
    /,
    *,
    check_bounds: Any = True,
    memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
    memory_scope: MemoryScope = MemoryScope.DEVICE,
) -> Any:
    """element ^ update; the old elements."""
    return _rmw("xor", array, indices, update, check_bounds, memory_order, memory_scope)
