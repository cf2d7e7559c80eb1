"""Copies of functions, for passes that must leave the original as it is."""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.core import Block, Func, Value


def copy_func(func: Func) -> Func:
    """A function equal to `func` that shares no operation, block or value with it.

    Laws:   1 prints alike     2 changing the copy leaves `func` as it was

    >>> from tilewright.ir.ops.control import Return
    >>> f = Func("nothing", Block()); f.body.ops.append(Return())
    >>> g = copy_func(f); g.body.ops.clear()
    >>> len(f.body.ops)
    1
    """
    return replace(func, body=_copy_block(func.body, {}))


def _copy_block(block: Block, known: dict[Value, Value]) -> Block:
    made = Block([v.type for v in block.args], [v.name for v in block.args])
    known.update(zip(block.args, made.args, strict=True))
    for op in block.ops:
        regions = [_copy_block(inner, known) for inner in op.regions]
        twin = type(op)(
            [known[v] for v in op.operands],
            op.attrs,
            regions,
            op.loc,
            [v.type for v in op.results],
            op.segments,
        )
        for old, new in zip(op.results, twin.results, strict=True):
            new.name = old.name
            known[old] = new
        made.ops.append(twin)
    return made
