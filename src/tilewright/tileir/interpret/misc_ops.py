"""What a kernel says and promises: print_tko and assume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.ops.tile import memory, module
from tilewright.ir.ops.tile.base import TileOp, tile_type
from tilewright.ir.tile_attrs import Bounded, DivBy, SameElements
from tilewright.ir.tile_types import NumberType, PointerType, TensorViewType
from tilewright.numeric.dtypes import I64
from tilewright.tileir.interpret.printf import formatted
from tilewright.tileir.interpret.scope import Compile, Frame, Scope, Step
from tilewright.tileir.interpret.tokens import NO_TOKEN
from tilewright.tileir.interpret.values import as_signed, row_of


def _print(op: Any, scope: Scope) -> Step:
    args, token = scope.slots(op.args), scope.maybe(op.token)
    out = scope.slot(op.result_token)
    rows = [
        I64 if isinstance(tile_type(v.type).element, PointerType) else row_of(v.type)
        for v in op.args  # addresses are int64
    ]

    def step(f: Frame) -> None:
        run, held = f[0], NO_TOKEN if token is None else f[token]
        if run.tracker is not None:
            run.tracker.settle(held.history)
            f[out] = held
        run.say(formatted(op.str_, [f[a] for a in args], rows))

    return step


def _assume(op: Any, scope: Scope) -> Step:
    source, out = scope.slot(op.value), scope.slot(op.result)
    broken = _broken(op)

    def step(f: Frame) -> None:
        value = f[out] = f[source]
        if problem := broken(value):
            f[0].report("assume", op, f"assume {op.predicate} does not hold: {problem}")

    return step


def _broken(op: Any) -> Callable[[Any], str]:
    """A function that says how a value breaks the promise; empty if it does not."""
    predicate, t = op.predicate, op.value.type
    if isinstance(t, TensorViewType):
        assert isinstance(predicate, DivBy), "a view can only be promised to be divisible"
        divisor = predicate.divisor
        return lambda v: "" if v.address % divisor == 0 else f"its base is {v.address:#x}"
    tile = tile_type(t)
    row = tile.element.row if isinstance(tile.element, NumberType) else None

    def numbers(value: Any) -> Any:
        return np.asarray(value if row is None else as_signed(value, row))

    if isinstance(predicate, SameElements):
        return lambda v: _same_elements_fault(numbers(v), predicate.extents)
    if isinstance(predicate, DivBy):
        return lambda v: _div_by_fault(numbers(v), predicate)
    assert isinstance(predicate, Bounded), "there are three predicates"
    low, high = predicate.lower, predicate.upper
    return lambda v: _bounds_fault(numbers(v), low, high)


def _place(fault: Any, values: Any) -> str:
    at = tuple(map(int, np.argwhere(fault)[0]))
    return f"{values[at]}" + (f" at element {at}" if at else "")


def _div_by_fault(values: Any, predicate: DivBy) -> str:
    checked = values
    if predicate.every is not None and predicate.along is not None:
        picked = [slice(None)] * values.ndim
        picked[predicate.along] = slice(None, None, predicate.every)
        checked = values[tuple(picked)]
    fault = checked & (predicate.divisor - 1) != 0
    return _place(fault, checked) if fault.any() else ""


def _bounds_fault(values: Any, low: int | None, high: int | None) -> str:
    fault = np.zeros(values.shape, np.bool_)
    if low is not None:
        fault |= values < low
    if high is not None:
        fault |= values > high
    return _place(fault, values) if fault.any() else ""


def _same_elements_fault(values: Any, extents: tuple[int, ...]) -> str:
    """Elements must equal the first of their box."""
    leaders = values
    for dim, extent in enumerate(extents):
        if extent > 1:
            positions = np.arange(values.shape[dim])
            leaders = np.take(leaders, positions // extent * extent, axis=dim)
    fault = np.asarray(values != leaders)
    return _place(fault, values) if fault.any() else ""


TABLE: dict[type[TileOp], Compile] = {
    memory.PrintTko: _print,
    module.Assume: _assume,
}
