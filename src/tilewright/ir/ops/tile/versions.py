"""The first version of Tile IR that can say what a module says.

Whatever is newer than 13.1 says so where it is declared: operations, attributes and flags by
`since` in `ir/ops/tile`, types by `since` in `ir/tile_types`.  Who refuses or reports a version
(the bytecode writer, the tile language, `tilewright tile show`) asks here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.ir.core import Block, attr
from tilewright.ir.ops.tile.base import TileOp, Version, enum_attr, flag, maybe
from tilewright.ir.ops.tile.memory import PrintTko
from tilewright.ir.tile_attrs import DenseAttr, TypeAttr, TypedAttr
from tilewright.ir.tile_types import (
    PTR_ATTR_SINCE,
    FunctionType,
    NumberType,
    PointerType,
    TensorViewType,
    TileIrType,
    TileType,
    ViewType,
)
from tilewright.ir.types import Type

VERSIONS: tuple[Version, ...] = ((13, 1), (13, 2), (13, 3), (13, 4))
FIRST = VERSIONS[0]

Need = tuple[Version, str]
"""A version, and what needs it."""

_LATE: dict[type[TileOp], list[tuple[str, attr[Any], Version]]] = {}


def since_of(kind: type[TileOp], declared: attr[Any]) -> Version:
    """The first version that has an attribute of an operation."""
    if isinstance(declared, flag | enum_attr | maybe):
        return max(declared.since, kind.since)
    return kind.since


def _late(kind: type[TileOp]) -> list[tuple[str, attr[Any], Version]]:
    """The attributes that are newer than their operation."""
    if kind not in _LATE:
        dated = ((label, a, since_of(kind, a)) for label, a in kind.ATTRS.items())
        _LATE[kind] = [row for row in dated if row[2] > kind.since]
    return _LATE[kind]


def operation_needs(op: TileOp) -> Iterator[Need]:
    """What an operation itself needs; its types and its regions are asked apart."""
    kind = type(op)
    if kind.since > FIRST:
        yield kind.since, f"operation '{op.name}'"
    for label, declared, since in _late(kind):
        value = op.attrs[label]
        if isinstance(declared, flag):
            if value:
                yield since, f"'{label.rstrip('_')}' of '{op.name}'"
        elif value != declared.default and (not isinstance(value, tuple) or any(value)):
            yield since, f"attribute '{label}'"
    if isinstance(op, PrintTko) and op.token is not None:
        yield PrintTko.token_since, f"'token' of '{op.name}'"
    for used in op.operands:
        if isinstance(used.owner, PrintTko):
            yield PrintTko.token_since, f"the token of '{PrintTko.name}'"
    if kind.check_in is not TileOp.check_in:
        found = next((v for v in VERSIONS if op.check_in(v) is None), FIRST)
        if found > FIRST:
            yield found, f"'{op.name}' with such types and attributes"


def type_needs(t: Type | TileIrType) -> Iterator[Need]:
    """What a type itself needs; the types inside of it are asked apart."""
    if isinstance(t, NumberType):
        yield t.since, f"type '{t}'"
    elif isinstance(t, PointerType | TensorViewType) and t.ptr_attr:
        yield PTR_ATTR_SINCE, "parameter 'ptrAttr'"
    elif isinstance(t, ViewType):
        yield t.since, f"type '{str(t).partition('<')[0]}'"


def _inside(t: Type | TileIrType) -> tuple[TileIrType, ...]:
    if isinstance(t, TileType | TensorViewType):
        return (t.element,)
    if isinstance(t, PointerType):
        return (t.pointee,)
    if isinstance(t, ViewType):
        return (t.view,)
    return (*t.inputs, *t.outputs) if isinstance(t, FunctionType) else ()


def needed_version(block: Block) -> Version:
    """The first version of Tile IR that has everything in a block: what `write_bytecode` needs.

    >>> from tilewright.tileir.reader import parse
    >>> needed_version(parse("entry @k(%a: tile<f32>) { %b = atan2 %a, %a : tile<f32> }"))
    (13, 2)
    """
    newest = FIRST
    types: set[Type | TileIrType] = {v.type for v in block.args}
    for op in block.walk():
        types.update(v.type for v in (*op.operands, *op.results))
        types.update(v.type for region in op.regions for v in region.args)
        for value in op.attrs.values():
            held = value if isinstance(value, tuple) else (value,)
            types.update(a.type for a in held if isinstance(a, DenseAttr | TypeAttr | TypedAttr))
        if isinstance(op, TileOp):
            newest = max([newest, *(since for since, _ in operation_needs(op))])
    waiting, seen = list(types), set(types)
    while waiting:
        t = waiting.pop()
        newest = max([newest, *(since for since, _ in type_needs(t))])
        new = set(_inside(t)) - seen
        seen |= new
        waiting += new
    return newest
