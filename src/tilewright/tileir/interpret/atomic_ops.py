"""Atomic operations: read, combine, write, element by element.

Elements of one tile that share an address take turns, in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops.tile import memory, views
from tilewright.ir.ops.tile.base import TileOp
from tilewright.numeric.dtypes import DType
from tilewright.tileir.interpret import access
from tilewright.tileir.interpret.memory import Array
from tilewright.tileir.interpret.pointer_ops import pointed
from tilewright.tileir.interpret.scope import Compile, Frame, Run, Scope, Step
from tilewright.tileir.interpret.shape_ops import scalars
from tilewright.tileir.interpret.tracked import tracked_update, tracked_write
from tilewright.tileir.interpret.values import carrier, row_of, unsigned
from tilewright.tileir.interpret.view_ops import locate_tile, number_row
from tilewright.tileir.interpret.window import window_of

Combine = Callable[[Array, Array], Array]


def _of_unsigned(fn: Combine) -> Combine:
    def combine(old: Array, new: Array) -> Array:
        wide = np.dtype(f"uint{old.dtype.itemsize * 8}")
        return fn(old.view(wide), new.view(wide)).view(old.dtype)

    return combine


MODES: dict[str, Combine] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "addf": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "umax": _of_unsigned(np.maximum),
    "umin": _of_unsigned(np.minimum),
    "xchg": lambda _, new: new,
}


def update(
    run: Run, op: Op, addresses: Array, mask: Any, row: DType, combine: Combine, new: Array
) -> Array:
    """Lets `combine(old, new)` replace each element; the old ones."""
    flat = addresses.reshape(-1)
    active = None if mask is None else np.asarray(mask).reshape(-1)
    values = np.broadcast_to(new, addresses.shape).reshape(-1)
    out = access.load(run, op, flat, active, row)
    for lanes in turns(flat, active):
        if lanes is None:
            old = out
            access.store(run, op, flat, combine(old, values), active, row)
        else:
            old = access.load(run, op, flat[lanes], None, row)
            out[lanes] = old
            access.store(run, op, flat[lanes], combine(old, values[lanes]), None, row)
    return out.reshape(addresses.shape)


def turns(addresses: Array, active: Any) -> list[Array | None]:
    """Groups of lanes without an address in common, in turn; [None] if there is one group.

    >>> [lanes.tolist() for lanes in turns(np.array([4, 8, 4, 4]), None)]
    [[0, 1], [2], [3]]
    """
    lanes = np.arange(addresses.size) if active is None else np.flatnonzero(active)
    chosen = addresses[lanes]
    order = np.argsort(chosen, kind="stable")
    ordered = chosen[order]
    begins = np.concatenate(([True], ordered[1:] != ordered[:-1])) if lanes.size else order == 0
    if begins.all():
        return [None]
    # The rank of each lane among those with its address.
    starts = np.maximum.accumulate(np.where(begins, np.arange(ordered.size), 0))
    rank = np.empty(lanes.size, np.int64)
    rank[order] = np.arange(ordered.size) - starts
    return [lanes[rank == i] for i in range(int(rank.max()) + 1)]


def _rmw(op: Any, scope: Scope) -> Step:
    locate, row = pointed(scope, op.pointers, op.mask), row_of(op.arg.type)
    value, out, combine = scope.slot(op.arg), scope.slot(op.result), MODES[op.mode]

    def perform(f: Frame, addresses: Any, mask: Any) -> None:
        new = np.asarray(f[value])
        f[out] = scalars(update(f[0], op, addresses, mask, row, combine, new))

    return _atomic(op, scope, locate, row, perform)


def _cas(op: Any, scope: Scope) -> Step:
    locate, row = pointed(scope, op.pointers, op.mask), row_of(op.val.type)
    expected, value, out = scope.slot(op.cmp), scope.slot(op.val), scope.slot(op.result)
    bits = unsigned(row)

    def perform(f: Frame, addresses: Any, mask: Any) -> None:
        wanted, new = np.asarray(f[expected]), np.asarray(f[value])
        # What combines carries its own comparand: both travel with the lanes.
        pairs = np.empty(addresses.shape, np.dtype([("wanted", bits), ("new", bits)]))
        pairs["wanted"] = wanted.view(bits)
        pairs["new"] = new.view(bits)

        def swap(old: Array, pair: Array) -> Array:
            same = old.view(bits) == pair["wanted"]
            return np.where(same, pair["new"], old.view(bits)).view(old.dtype)

        found = update(f[0], op, addresses, mask, row, swap, pairs)
        # A lane that takes no part yields what it would have compared with.
        f[out] = scalars(found if mask is None else np.where(mask, found, wanted))

    return _atomic(op, scope, locate, row, perform)


def _atomic(
    op: Any,
    scope: Scope,
    locate: Callable[[Frame], tuple[Any, Any]],
    row: DType,
    perform: Callable[[Frame, Any, Any], None],
) -> Step:
    if scope.tracked:
        return tracked_update(op, scope, locate, carrier(row).itemsize, perform)
    return lambda f: perform(f, *locate(f))


def _reduce_view(op: Any, scope: Scope) -> Step:
    row = number_row(op.view.type.view)
    locate = locate_tile(op, scope, window_of(op.view.type), row)
    value, combine = scope.slot(op.value), MODES[op.mode]

    def prepare(f: Frame, addresses: Any, mask: Any) -> Callable[[], None]:
        run, new = f[0], f[value]

        def write() -> None:
            update(run, op, addresses, mask, row, combine, new)

        return write

    if scope.tracked:
        return tracked_write(op, scope, locate, carrier(row).itemsize, prepare)
    return lambda f: prepare(f, *locate(f))()


TABLE: dict[type[TileOp], Compile] = {
    memory.AtomicRMWTko: _rmw,
    memory.AtomicCASTko: _cas,
    views.AtomicRedViewTko: _reduce_view,
}
