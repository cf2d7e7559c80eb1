"""reduce and scan: a region over pairs of scalars, run on whole arrays of them.

The region's steps work on arrays as they do on scalars, so one run combines many pairs.  A
reduction halves the dimension, neighbours with neighbours, until one is left; a scan doubles the
distance over which it combines.  Both keep the elements in order.  A region of one operation that
NumPy can reduce by itself is left to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.core import Block, Op
from tilewright.ir.ops.tile import arith, control, shape
from tilewright.ir.ops.tile.base import TileOp, tile_type
from tilewright.numeric.dtypes import BOOL, F32, F64
from tilewright.tileir.interpret import convert_ops, float_ops, int_ops
from tilewright.tileir.interpret.memory import Array
from tilewright.tileir.interpret.scope import Compile, Frame, Scope, Step, run_steps
from tilewright.tileir.interpret.values import row_of

Arrays = tuple[Any, ...]
Pairwise = Callable[[Frame, Arrays, Arrays], Arrays]
"""(frame, elements, accumulators) -> the combined ones."""

ELEMENTWISE = frozenset(
    (
        *int_ops.TABLE,
        *float_ops.TABLE,
        *convert_ops.TABLE,
        shape.Select,
        shape.Constant,
        shape.Offset,
        control.Yield,
    )
)
"""The operations that work on arrays of scalars as they do on one scalar."""

_UFUNCS: dict[type[Op], np.ufunc] = {
    arith.AddI: np.add,
    arith.MulI: np.multiply,
    arith.AndI: np.bitwise_and,
    arith.OrI: np.bitwise_or,
    arith.XOrI: np.bitwise_xor,
    arith.MaxI: np.maximum,
    arith.MinI: np.minimum,
    arith.AddF: np.add,
    arith.MulF: np.multiply,
}


def ufunc_of(op: Any) -> np.ufunc | None:
    """The NumPy function that is the whole region of a reduction, or None."""
    body: Block = op.body
    if len(body.ops) != 2 or len(op.operands_) != 1:
        return None
    inner, last = body.ops
    assert isinstance(inner, TileOp), "the region holds tile operations"
    if set(inner.operands) != set(body.args) or last.operands != inner.results:
        return None
    row = row_of(op.operands_[0].type)
    if isinstance(inner, arith.AddF | arith.MulF):
        # NumPy sums f16 in f32 and rounds at the end; here every sum is rounded.
        plain = inner.rounding_mode == "nearest_even" and not inner.flush_to_zero
        return _UFUNCS[type(inner)] if plain and row in (F32, F64) else None
    if isinstance(inner, arith.MaxI | arith.MinI) and inner.signedness == "unsigned":
        return None
    if row is BOOL and not isinstance(inner, arith.AndI | arith.OrI | arith.XOrI):
        return None
    if inner.attrs.get("overflow", "none") != "none":
        return None
    return _UFUNCS.get(type(inner))


def _pairwise(op: Any, scope: Scope) -> Pairwise:
    """The region as a function of arrays."""
    args = scope.slots(op.body.args)
    outputs = tuple(len(scope.template) + i for i in range(len(op.operands_)))
    scope.template.extend([None] * len(outputs))
    scope.yields.append(outputs)
    steps = scope.body(op.body)
    scope.yields.pop()

    def fn(f: Frame, elements: Arrays, accumulators: Arrays) -> Arrays:
        for i, (element, accumulator) in enumerate(zip(elements, accumulators, strict=True)):
            f[args[2 * i]] = element
            f[args[2 * i + 1]] = accumulator
        run_steps(steps, f)
        shape_of = np.shape(elements[0])
        return tuple(np.broadcast_to(f[slot], shape_of) for slot in outputs)

    if all(type(inner) in ELEMENTWISE for inner in op.body.walk()):
        return fn
    return _one_by_one(fn)


def _one_by_one(fn: Pairwise) -> Pairwise:
    """For regions that branch, or that treat their scalars as tiles."""

    def each(f: Frame, elements: Arrays, accumulators: Arrays) -> Arrays:
        results = [np.empty_like(e) for e in elements]
        for at in np.ndindex(np.shape(elements[0])):
            combined = fn(f, tuple(e[at] for e in elements), tuple(a[at] for a in accumulators))
            for result, value in zip(results, combined, strict=True):
                result[at] = value
        return tuple(results)

    return each


def _reduce(op: Any, scope: Scope) -> Step:
    dim, inputs, outputs = op.dim, scope.slots(op.operands_), scope.slots(op.results)
    ufunc = ufunc_of(op)
    if ufunc is not None:
        (a,), (r,) = inputs, outputs
        reduce = ufunc.reduce
        dtype = None if row_of(op.operands_[0].type) is BOOL else _dtype_kept(op)

        def direct(f: Frame) -> None:
            f[r] = reduce(f[a], dim, dtype)

        return direct
    combine = _pairwise(op, scope)

    def step(f: Frame) -> None:
        arrays = tuple(np.moveaxis(f[a], dim, -1) for a in inputs)
        while arrays[0].shape[-1] > 1:
            arrays = combine(
                f, tuple(a[..., 1::2] for a in arrays), tuple(a[..., 0::2] for a in arrays)
            )
        for r, array in zip(outputs, arrays, strict=True):
            f[r] = array[..., 0]

    return step


def _dtype_kept(op: Any) -> Any:
    """NumPy widens sums of narrow integers unless it is told the type."""
    return np.dtype(f"int{row_of(op.operands_[0].type).bits}") if _is_int(op) else None


def _is_int(op: Any) -> bool:
    return not row_of(op.operands_[0].type).is_float


def _scan(op: Any, scope: Scope) -> Step:
    dim, inputs, outputs = op.dim, scope.slots(op.operands_), scope.slots(op.results)
    backward = op.reverse
    size = tile_type(op.operands_[0].type).shape[dim]
    combine = _pairwise(op, scope)

    def turned(array: Any) -> Array:
        moved: Array = np.moveaxis(array, dim, -1)
        return moved[..., ::-1] if backward else moved

    def step(f: Frame) -> None:
        arrays = tuple(turned(f[a]).copy() for a in inputs)
        distance = 1
        while distance < size:
            later = tuple(a[..., distance:] for a in arrays)
            combined = combine(f, later, tuple(a[..., :-distance] for a in arrays))
            for target, value in zip(later, [np.array(c) for c in combined], strict=True):
                target[...] = value
            distance *= 2
        for r, array in zip(outputs, arrays, strict=True):
            f[r] = np.moveaxis(array[..., ::-1] if backward else array, -1, dim)

    return step


TABLE: dict[type[TileOp], Compile] = {
    control.Reduce: _reduce,
    control.Scan: _scan,
}
