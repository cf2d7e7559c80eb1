"""Matrix products, by NumPy's matmul in a type that holds every product exactly.

mmaf of f16, bf16, tf32 and 8-bit floats multiplies and adds in f32, of f64 in f64; the order of the
sum is NumPy's.  mmaf_scaled is summed in f64 and rounded once.  mmai is exact, modulo 2^32.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.ops.tile import mma as ops
from tilewright.ir.ops.tile.base import TileOp, tile_type
from tilewright.numeric.dtypes import E2M1, E4M3, E5M2, F16, F32, F64, I8, TF32, DType
from tilewright.tileir.interpret.convert_ops import as_tf32, floats
from tilewright.tileir.interpret.memory import Array
from tilewright.tileir.interpret.scope import Compile, Frame, Scope, Step, computed
from tilewright.tileir.interpret.values import as_signed, as_unsigned, row_of

Fn = Callable[..., Any]


def _references_of_one_alone() -> int:
    """What `getrefcount` says of an array that only a list and a loop over it hold."""
    for array in [np.empty(0)]:
        return sys.getrefcount(array)
    raise AssertionError("the list has one array")


_ALONE = _references_of_one_alone()


class Scratch:
    """Arrays of one shape that are handed out again once nothing else refers to them.

    A result that lives on, in a slot or under a view, keeps its array; a loop that accumulates
    goes to and fro between two.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._shape = shape
        self._dtype = dtype
        self._arrays: list[Array] = []

    def take(self) -> Array:
        """An array whose elements nobody needs."""
        for array in self._arrays:
            if sys.getrefcount(array) == _ALONE:
                return array
        fresh = np.empty(self._shape, self._dtype)
        self._arrays.append(fresh)
        return fresh


def _operand(row: DType) -> Fn:
    """How an operand enters a product in f32 or f64."""
    if row in (F32, F64):
        return lambda a: a
    if row is TF32:
        return as_tf32
    if row in (E4M3, E5M2, E2M1):
        return floats(row, F32)
    return lambda a: a.astype(np.float32)


def _mmaf(op: Any, scope: Scope) -> Step:
    lhs, rhs, acc = scope.slots(op.operands)
    out = scope.slot(op.result)
    row, to = row_of(op.lhs.type), row_of(op.result.type)
    read = _operand(row)
    scratch = Scratch(tile_type(op.result.type).shape, np.float64 if to is F64 else np.float32)
    matmul, add = np.matmul, np.add
    plain = row in (F32, F64)

    def step(f: Frame) -> None:
        r = scratch.take()
        if plain:
            matmul(f[lhs], f[rhs], out=r)
        else:
            matmul(read(f[lhs]), read(f[rhs]), out=r)
        add(r, f[acc], out=r)
        f[out] = r

    def narrow(f: Frame) -> None:
        step(f)
        f[out] = f[out].astype(np.float16)

    return narrow if to is F16 else step


def _mmai(op: Any) -> Fn:
    """Integer products in floats: f32 holds them exactly while the sum stays below 2^24."""
    depth = tile_type(op.lhs.type).shape[-1]
    work = np.float32 if depth * 255 * 255 < 1 << 24 else np.float64
    readers = [
        as_signed if s == "signed" else as_unsigned for s in (op.signedness_lhs, op.signedness_rhs)
    ]

    def fn(a: Any, b: Any, acc: Any) -> Any:
        x, y = (read(v, I8).astype(work) for read, v in zip(readers, (a, b), strict=True))
        return (np.matmul(x, y).astype(np.int64) + acc).astype(np.int32)

    return fn


def _mmaf_scaled(op: Any) -> Fn:
    widen = floats(row_of(op.lhs.type), F64)
    scales = floats(row_of(op.lhs_scale.type), F64)
    block = tile_type(op.lhs.type).shape[-1] // tile_type(op.lhs_scale.type).shape[-1]

    def fn(a: Any, b: Any, acc: Any, a_scale: Any, b_scale: Any) -> Any:
        x = widen(a) * np.repeat(scales(a_scale), block, axis=-1)
        y = widen(b) * np.repeat(scales(b_scale), block, axis=-2)
        return (np.matmul(x, y) + acc).astype(np.float32)

    return fn


TABLE: dict[type[TileOp], Compile] = {
    ops.MmaF: _mmaf,
    ops.MmaI: computed(_mmai),
    ops.MmaFScaled: computed(_mmaf_scaled),
}
