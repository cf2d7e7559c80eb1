"""Removes what is computed twice or for nothing, before memory operations get their tokens.

CSE    a pure operation equal to one that dominates it is that one
DEAD   a pure operation or a load that nobody uses is dropped, and a branch with empty arms
"""

from __future__ import annotations

from collections.abc import Hashable

from tilewright.ir.core import Block, Effect, Op, Value, count_uses
from tilewright.ir.merge import merge_equal
from tilewright.ir.ops.tile.base import TileOp
from tilewright.ir.ops.tile.control import If, Yield
from tilewright.lang.tile.tokens import acquires

Key = tuple[Hashable, ...]


def simplify(body: Block) -> None:
    """Applies the rules to an entry's body."""
    merge_equal(body, _key)  # rule CSE
    while _sweep(body, count_uses(body)):
        pass


def _key(op: Op) -> Key:
    types = tuple(v.type for v in op.results)
    return (op.name, op.operands, tuple(op.attrs.items()), types)


def _removable(op: Op) -> bool:
    if isinstance(op, If):
        return all(len(r.ops) == 1 and isinstance(r.ops[0], Yield) for r in op.regions)
    if op.effect is Effect.READ:
        return not acquires(op)
    return op.effect is Effect.PURE and isinstance(op, TileOp)


def _sweep(block: Block, uses: dict[Value, int]) -> bool:
    """Rule DEAD, one pass from the end; whether anything was dropped."""
    kept: list[Op] = []
    changed = False
    for op in reversed(block.ops):
        if _removable(op) and not any(uses.get(v) for v in op.results):
            changed = True
            for v in op.operands:
                uses[v] -= 1
            continue
        for inner in op.regions:
            changed |= _sweep(inner, uses)
        kept.append(op)
    block.ops = kept[::-1]
    return changed
