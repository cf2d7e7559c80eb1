"""Loads and stores through pointers, tokens without accesses, allocation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.ops.tile import memory as ops
from tilewright.ir.ops.tile.base import TileOp
from tilewright.tileir.interpret import access
from tilewright.tileir.interpret.scope import Compile, Frame, Scope, Step
from tilewright.tileir.interpret.shape_ops import scalars
from tilewright.tileir.interpret.tokens import NO_TOKEN, join
from tilewright.tileir.interpret.tracked import tracked_read, tracked_write
from tilewright.tileir.interpret.values import carrier, pointee_row, row_of


def pointed(scope: Scope, pointers: Any, mask: Any) -> Callable[[Frame], tuple[Any, Any]]:
    """Where an operation on a tile of pointers goes."""
    source, active = scope.slot(pointers), scope.maybe(mask)

    def locate(f: Frame) -> tuple[Any, Any]:
        return np.asarray(f[source]), None if active is None else np.asarray(f[active])

    return locate


def _load(op: Any, scope: Scope) -> Step:
    locate = pointed(scope, op.source, op.mask)
    padding, out = scope.maybe(op.paddingValue), scope.slot(op.result)
    row = row_of(op.result.type)

    def perform(f: Frame, addresses: Any, mask: Any) -> None:
        fill = None if padding is None else f[padding]
        f[out] = scalars(access.load(f[0], op, addresses, mask, row, fill))

    if scope.tracked:
        return tracked_read(op, scope, locate, carrier(row).itemsize, perform)
    return lambda f: perform(f, *locate(f))


def _store(op: Any, scope: Scope) -> Step:
    locate = pointed(scope, op.destination, op.mask)
    value, row = scope.slot(op.value), row_of(op.value.type)

    def prepare(f: Frame, addresses: Any, mask: Any) -> Callable[[], None]:
        run, values = f[0], f[value]
        return lambda: access.store(run, op, addresses, values, mask, row)

    if scope.tracked:
        return tracked_write(op, scope, locate, carrier(row).itemsize, prepare)

    def step(f: Frame) -> None:
        addresses, mask = locate(f)
        access.store(f[0], op, addresses, f[value], mask, row)

    return step


def _make_token(op: Any, scope: Scope) -> None:
    scope.constant(op.result, NO_TOKEN)


def _join_tokens(op: Any, scope: Scope) -> Step | None:
    if not scope.tracked:
        return None
    tokens, out = scope.slots(op.tokens), scope.slot(op.result)

    def step(f: Frame) -> None:
        f[out] = join([f[t] for t in tokens])

    return step


def _pass_token(op: Any, scope: Scope) -> None:
    """One grid at a time, and memory that is coherent: what is waited for has happened."""
    if scope.tracked and op.token is not None:
        scope.alias(op.result_token, op.token)
    else:
        scope.constant(op.result_token, NO_TOKEN)


def _alloca(op: Any, scope: Scope) -> Step:
    out, row = scope.slot(op.result), pointee_row(op.result.type)
    size = row.bytes_for(op.num_elem)

    def step(f: Frame) -> None:
        run = f[0]
        if not op.global_:
            f[out] = np.int64(run.memory.allocate(size, op.alignment, "alloca"))
            return
        f[out] = np.int64(run.shared[op])

    return step


TABLE: dict[type[TileOp], Compile] = {
    ops.LoadPtrTko: _load,
    ops.StorePtrTko: _store,
    ops.MakeToken: _make_token,
    ops.JoinTokens: _join_tokens,
    ops.GdcWaitTko: _pass_token,
    ops.GdcLaunchDependentsTko: _pass_token,
    ops.MemoryFenceAliasTko: _pass_token,
    ops.Alloca: _alloca,
}


def shared_allocations(entry: Any) -> list[ops.Alloca]:
    """The allocations that all blocks of a grid share."""
    return [op for op in entry.body.walk() if isinstance(op, ops.Alloca) and op.global_]
