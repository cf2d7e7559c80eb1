"""Whether a loaded tile may stay a view of memory instead of a copy.

It may, if all of its uses come before anything that can write: in the same block of operations,
with no write between the load and the last use.  Tiles that are views of it (of its elements in
another shape or order) count as uses of it.
"""

from __future__ import annotations

from tilewright.ir.core import Block, Effect, Op, Value
from tilewright.ir.ops.tile import control, convert, module, shape

_MAY_SHARE = (
    shape.Broadcast,
    shape.Reshape,
    shape.Permute,
    shape.Extract,
    shape.Insert,
    shape.Select,
    shape.Pack,
    control.Reduce,
    convert.Bitcast,
    convert.IntToPtr,
    convert.PtrToInt,
    convert.PtrToPtr,
    module.Assume,
)
"""Operations whose result may share its memory with an operand."""


def borrowable(block: Block) -> set[Op]:
    """The loads of a block (not of blocks inside it) whose tiles may stay views of memory."""
    position = {op: i for i, op in enumerate(block.ops)}
    forever = len(block.ops)
    last_use: dict[Value, int] = {}
    for op in reversed(block.ops):
        end = position[op]
        if op.terminator or (op.regions and not isinstance(op, control.Reduce)):
            end = forever
        elif isinstance(op, _MAY_SHARE):
            end = max([end, *(last_use.get(r, end) for r in op.results)])
        for value in uses(op):
            last_use[value] = max(last_use.get(value, -1), end)
    writes = [position[op] for op in block.ops if _may_write(op)]
    found: set[Op] = set()
    for op in block.ops:
        if op.effect is Effect.READ:
            start = position[op]
            end = last_use.get(op.results[0], start)
            if end < forever and not any(start < w <= end for w in writes):
                found.add(op)
    return found


def uses(op: Op) -> list[Value]:
    """The operands of an operation and of all inside it."""
    values = list(op.operands)
    for region in op.regions:
        for inner in region.walk():
            values += inner.operands
    return values


def _may_write(op: Op) -> bool:
    if op.regions:
        return any(_may_write(inner) for region in op.regions for inner in region.ops)
    return op.effect is Effect.WRITE
