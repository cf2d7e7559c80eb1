"""Which `mem.alloc_shared` a pointer, an address or a descriptor was computed from.

Followed statically through offsets, casts, arithmetic, loops and branches; only a value that comes
from exactly one allocation has an answer.
"""

from __future__ import annotations

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.ops import arith, control, memory
from tilewright.ir.types import PtrType, Space
from tilewright.numeric.dtypes import dtype

_BASE_ONLY = (memory.Offset, memory.CastPointer, memory.MapShared, memory.SharedAddress)


class Provenance:
    """Allocations behind the values of one kernel."""

    def __init__(self, body: Block) -> None:
        self._known: dict[Value, frozenset[Op]] = {}
        self._sources: dict[Value, list[Value]] = {}
        for op in body.walk():
            if isinstance(op, control.For):
                _carry(self._sources, op.body.args[1:], op.inits, op.body.ops[-1].operands)
                _carry(self._sources, op.results, op.body.args[1:])
            elif isinstance(op, control.While):
                handed = op.before.ops[-1].operands[1:]
                _carry(self._sources, op.before.args, op.inits, op.body.ops[-1].operands)
                _carry(self._sources, op.body.args, handed)
                _carry(self._sources, op.results, handed)
            elif isinstance(op, control.If):
                sides = [b.ops[-1].operands for b in (op.then, op.orelse)]
                _carry(self._sources, op.results, *sides)

    def allocation(self, value: Value) -> memory.AllocShared | None:
        """The only allocation that `value` comes from, or None."""
        found = self._allocations(value)
        if len(found) != 1:
            return None
        (op,) = found
        assert isinstance(op, memory.AllocShared), "only allocations are collected"
        return op

    def bounds(self, value: Value) -> tuple[int, int, str] | None:
        """(first byte, byte behind the last, name) of the allocation, as shared-memory offsets."""
        op = self.allocation(value)
        if op is None:
            return None
        size = dtype(op.dtype).bytes_for(op.count)
        return op.offset, op.offset + size, op.label or op.results[0].name or "shared buffer"

    def _allocations(self, value: Value) -> frozenset[Op]:
        known = self._known.get(value)
        if known is None:
            found: set[Op] = set()
            seen, todo = {value}, [value]
            while todo:
                at = todo.pop()
                if isinstance(at.owner, memory.AllocShared):
                    found.add(at.owner)
                for source in self._inputs(at):
                    if source not in seen:
                        seen.add(source)
                        todo.append(source)
            known = self._known[value] = frozenset(found)
        return known

    def _inputs(self, value: Value) -> list[Value]:
        if value in self._sources:
            return self._sources[value]
        op = value.owner
        if not isinstance(op, Op):
            return []
        if isinstance(op, _BASE_ONLY):
            return [op.operands[0]]
        t = value.type
        pointer = isinstance(t, PtrType) and t.space in (Space.SMEM, Space.DSMEM)
        if isinstance(op, arith.Select):
            return list(op.operands[1:])
        return list(op.operands) if pointer or op.name.startswith("arith.") else []


def _carry(sources: dict[Value, list[Value]], targets: object, *origins: object) -> None:
    for column in zip(targets, *origins, strict=True):  # type: ignore[call-overload]
        sources.setdefault(column[0], []).extend(column[1:])
