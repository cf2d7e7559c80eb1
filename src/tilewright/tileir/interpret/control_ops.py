"""Structured control flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops.tile import control as ops
from tilewright.ir.ops.tile.base import TileOp
from tilewright.tileir.interpret.scope import (
    BREAK,
    CONTINUE,
    RETURN,
    Compile,
    Frame,
    Loop,
    Scope,
    Step,
    run_steps,
)
from tilewright.tileir.interpret.turns import spins
from tilewright.tileir.interpret.values import dtype_of, row_of, unsigned


def _moves(sources: Sequence[int], targets: Sequence[int], code: int | None) -> Step:
    """Copies slots, all reads before all writes; then sends control to `code`."""
    if len(sources) == 1:
        ((source,), (target,)) = sources, targets

        def move_one(f: Frame) -> int | None:
            f[target] = f[source]
            return code

        return move_one
    pairs = tuple(zip(targets, sources, strict=True))

    def move(f: Frame) -> int | None:
        values = [f[s] for _, s in pairs]
        for (target, _), value in zip(pairs, values, strict=True):
            f[target] = value
        return code

    return move


def _for(op: Any, scope: Scope) -> Step:
    low, high, step_by = scope.slots((op.lowerBound, op.upperBound, op.step))
    loop, inits, steps = _loop_body(op, scope, op.body.args[1:])
    counter = scope.slot(op.body.args[0])
    row = row_of(op.lowerBound.type)
    number = dtype_of(op.lowerBound.type).type
    wrapped = op.unsignedCmp
    read, mask = unsigned(row).type, (1 << row.bits) - 1

    def step(f: Frame) -> int | None:
        bounds = [int(f[s]) for s in (low, high, step_by)]
        if wrapped:
            bounds = [b & mask for b in bounds]
        for target, init in zip(loop.carried, [f[i] for i in inits], strict=True):
            f[target] = init
        if bounds[2] <= 0:
            f[0].report("loop_step", op, f"for: step is {bounds[2]}, expected at least 1")
        for i in range(*bounds) if bounds[2] > 0 else ():
            f[counter] = read(i).view(number) if wrapped else number(i)
            for inner in steps:
                code = inner(f)
                if code is not None:
                    if code == CONTINUE:
                        break
                    return code
        for target, source in zip(loop.results, loop.carried, strict=True):
            f[target] = f[source]
        return None

    return step


def _loop_body(
    op: Any, scope: Scope, carried: Sequence[Any]
) -> tuple[Loop, tuple[int, ...], tuple[Step, ...]]:
    loop = Loop(scope.slots(carried), scope.slots(op.results))
    inits = scope.slots(op.initValues)
    scope.loops.append(loop)
    steps = scope.body(op.body)
    scope.loops.pop()
    return loop, inits, steps


def _loop(op: Any, scope: Scope) -> Step:
    loop, inits, steps = _loop_body(op, scope, op.body.args)
    waits = spins(op)

    def step(f: Frame) -> int | None:
        for target, init in zip(loop.carried, [f[i] for i in inits], strict=True):
            f[target] = init
        run = f[0]
        for i in range(run.max_iterations):
            code = run_steps(steps, f)
            if code == BREAK:
                return None
            if code == RETURN:
                return code
            if waits and i >= run.patience:
                run.pause()
        run.report("livelock", op, f"loop: {run.max_iterations} iterations and no break")
        run.gave_up = True
        return RETURN

    return step


def _if(op: Any, scope: Scope) -> Step:
    condition = scope.slot(op.condition)
    scope.yields.append(scope.slots(op.results))
    branches = [scope.body(block) for block in (op.then_region, op.else_region)]
    scope.yields.pop()
    then, otherwise = branches

    def step(f: Frame) -> int | None:
        for inner in then if f[condition] else otherwise:
            code = inner(f)
            if code is not None:
                return code
        return None

    return step


def _yield(op: Op, scope: Scope) -> Step:
    return _moves(scope.slots(op.operands), scope.yields[-1], None)


def _continue(op: Op, scope: Scope) -> Step:
    return _moves(scope.slots(op.operands), scope.loops[-1].carried, CONTINUE)


def _break(op: Op, scope: Scope) -> Step:
    return _moves(scope.slots(op.operands), scope.loops[-1].results, BREAK)


def _return(op: Op, scope: Scope) -> Step:
    del op, scope
    return lambda _: RETURN


def _assert(op: Any, scope: Scope) -> Step:
    condition = scope.slot(op.condition)

    def step(f: Frame) -> None:
        held = np.asarray(f[condition])
        if not held.all():
            at = tuple(map(int, np.argwhere(~held)[0]))
            failed = int(held.size - np.count_nonzero(held))
            where = f" at element {at}, {failed} of {held.size} false" if held.ndim else ""
            f[0].report("assertion", op, f"{op.message!r} does not hold{where}")

    return step


TABLE: dict[type[TileOp], Compile] = {
    ops.For: _for,
    ops.Loop: _loop,
    ops.If: _if,
    ops.Yield: _yield,
    ops.Continue: _continue,
    ops.Break: _break,
    ops.Return: _return,
    ops.Assert: _assert,
}
