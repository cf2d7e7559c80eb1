"""Making tiles, and moving elements within and between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.ops.tile import shape as ops
from tilewright.ir.ops.tile.base import TileOp, tile_type
from tilewright.ir.tile_types import TileType
from tilewright.numeric.dtypes import BOOL
from tilewright.numeric.packing import from_bytes, to_bytes
from tilewright.tileir.interpret.memory import Array
from tilewright.tileir.interpret.scope import Compile, Run, Scope, computed, watched
from tilewright.tileir.interpret.values import (
    as_signed,
    dense,
    from_integers,
    pointee_row,
    row_of,
)

Fn = Callable[..., Any]


def scalars(array: Array) -> Any:
    """A tile without dimensions as a NumPy scalar, which is faster to compute with."""
    return array if array.ndim else array[()]


def _constant(op: Any, scope: Scope) -> None:
    scope.constant(op.results[0], scalars(dense(op.value)))


def _iota(op: Any, scope: Scope) -> None:
    t = tile_type(op.results[0].type)
    counted = np.arange(t.size, dtype=np.int64)
    scope.constant(op.results[0], from_integers(counted, row_of(t)))


def _broadcast(op: Any) -> Fn:
    shape = tile_type(op.result.type).shape
    return lambda a: np.broadcast_to(a, shape)


def _reshape(op: Any) -> Fn:
    shape = tile_type(op.result.type).shape
    if not shape:
        return lambda a: a.reshape(())[()]
    return lambda a: a.reshape(shape)


def _permute(op: Any) -> Fn:
    order = op.permutation
    return lambda a: a.transpose(order)


def _cat(op: Any) -> Fn:
    dim = op.dim
    return lambda a, b: np.concatenate((a, b), dim)


def _select(_: Any) -> Fn:
    # Inside a reduction a scalar's array has many elements, so the shape is asked for at run time.
    return lambda c, a, b: np.where(c, a, b) if c.ndim else (a if c else b)


def _subtile(run: Run, op: Any, whole: TileType, part: TileType, at: tuple[Any, ...]) -> Any:
    """The slices of the subtile at indices; None, with a finding, if there is none."""
    slices = []
    for i, (index, have, size) in enumerate(zip(at, whole.shape, part.shape, strict=True)):
        position, count = int(index) & 0xFFFF_FFFF, have // size
        if position >= count:
            run.report(
                "subtile",
                op,
                f"{op.mnemonic}: index {position} in dimension {i}, expected less than {count}: "
                f"{have} elements are {count} subtiles of {size}",
            )
            return None
        slices.append(slice(position * size, (position + 1) * size))
    return tuple(slices)


def _extract(op: Any) -> Fn:
    whole, part = tile_type(op.source.type), tile_type(op.result.type)

    def fn(run: Run, a: Any, *at: Any) -> Any:
        where = _subtile(run, op, whole, part, at)
        return a[where] if where is not None else np.resize(a, part.shape)

    return fn


def _insert(op: Any) -> Fn:
    part, whole = tile_type(op.source.type), tile_type(op.destination.type)

    def fn(run: Run, source: Any, destination: Any, *at: Any) -> Any:
        where = _subtile(run, op, whole, part, at)
        if where is None:
            return destination
        out = destination.copy()
        out[where] = source
        return out

    return fn


def _offset(op: Any) -> Fn:
    size = max(pointee_row(op.ptr.type).storage_bits // 8, 1)
    row = row_of(op.offset.type)
    return lambda p, n: p + as_signed(n, row).astype(np.int64) * size


def _pack(op: Any) -> Fn:
    row = row_of(op.source.type)
    if row is BOOL:
        return lambda a: np.packbits(a, bitorder="little").view(np.int8)
    return lambda a: to_bytes(a, row).view(np.int8)


def _unpack(op: Any) -> Fn:
    t = tile_type(op.result.type)
    row = row_of(t)
    if row is BOOL:
        return lambda a: np.unpackbits(a.view(np.uint8), bitorder="little").view(np.bool_)
    return lambda a: from_bytes(np.ascontiguousarray(a).view(np.uint8), row, t.size)


TABLE: dict[type[TileOp], Compile] = {
    ops.Constant: _constant,
    ops.Iota: _iota,
    ops.Broadcast: computed(_broadcast),
    ops.Reshape: computed(_reshape),
    ops.Permute: computed(_permute),
    ops.Cat: computed(_cat),
    ops.Extract: watched(_extract),
    ops.Insert: watched(_insert),
    ops.Select: computed(_select),
    ops.Offset: computed(_offset),
    ops.Pack: computed(_pack),
    ops.Unpack: computed(_unpack),
}
