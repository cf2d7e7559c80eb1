"""Common subexpressions: a pure operation equal to one that dominates it is that one."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tilewright.ir.core import Block, Effect, Op, Value, replace_uses


def merge_equal(
    block: Block, key: Callable[[Op], Hashable], known: dict[Hashable, Op] | None = None
) -> None:
    """Replaces operations in place; those without effect and regions, of equal `key`, are equal.

    `known` holds the operations of the enclosing blocks.
    """
    here = dict(known or {})
    mapping: dict[Value, Value] = {}
    kept: list[Op] = []
    for op in block.ops:
        if mapping and any(v in mapping for v in op.operands):
            op.operands = tuple(mapping.get(v, v) for v in op.operands)
        if op.effect is Effect.PURE and not op.regions:
            twin = here.setdefault(key(op), op)
            if twin is not op:
                mapping.update(zip(op.results, twin.results, strict=True))
                continue
        kept.append(op)
        for inner in op.regions:
            replace_uses(inner, mapping)
            merge_equal(inner, key, here)
    block.ops = kept
