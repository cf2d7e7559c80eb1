"""Another order of a block's operations that their operands allow.

Token-ordered operations are ordered by tokens alone.  Tokens are values, so every order in which
operands are ready is a legal one.
"""

from __future__ import annotations

import random

from tilewright.ir.core import Block, Effect, Op, Value
from tilewright.ir.ops.tile import control
from tilewright.tileir.interpret.borrow import uses


def shuffled(block: Block, rng: random.Random) -> list[Op]:
    """The operations of `block` in an order drawn from those that are legal.

    An operation that may leave the block keeps its place among all others; one that has an effect
    but takes no token keeps its place among its like.
    """
    before = _predecessors(block)
    waiting = {op: set(found) for op, found in before.items()}
    after: dict[Op, list[Op]] = {op: [] for op in block.ops}
    for op, found in before.items():
        for earlier in found:
            after[earlier].append(op)
    ready = [op for op in block.ops if not waiting[op]]
    out: list[Op] = []
    while ready:
        op = ready.pop(rng.randrange(len(ready)))
        out.append(op)
        for later in after[op]:
            waiting[later].discard(op)
            if not waiting[later]:
                ready.append(later)
    return out


def _predecessors(block: Block) -> dict[Op, set[Op]]:
    """What must run before each operation."""
    maker: dict[Value, Op] = {v: op for op in block.ops for v in op.results}
    before: dict[Op, set[Op]] = {}
    seen: list[Op] = []
    barrier: Op | None = None
    last_effect: Op | None = None
    for op in block.ops:
        needs = {maker[v] for v in uses(op) if v in maker}
        if barrier is not None:
            needs.add(barrier)
        if op.terminator or _leaves(op):
            needs.update(seen)
            barrier = op
        if isinstance(op, control.Assert):
            if last_effect is not None:
                needs.add(last_effect)
            last_effect = op
        before[op] = needs
        seen.append(op)
    return before


def _leaves(op: Op) -> bool:
    """Whether an operation may end the block that it stands in."""
    if op.effect is not Effect.CONTROL or op.terminator:
        return False
    return any(
        isinstance(inner, control.Return)
        or (isinstance(op, control.If) and isinstance(inner, control.Break | control.Continue))
        for region in op.regions
        for inner in region.walk()
    )
