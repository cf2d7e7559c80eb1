"""What the emitters ask about a kernel before they write it: uses, order, loop nesting, memory.

Everything is computed in one walk; operations are numbered in the order of the text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from tilewright.codegen.cuda.expr import Access
from tilewright.ir.core import Block, Effect, Func, Op, Value
from tilewright.ir.ops import arith, bulk, control, copy, memory, mma, record, sync
from tilewright.ir.types import BOOLEAN, PtrType, ScalarType, Space

_DESTINATION: dict[type[Op], str] = {
    memory.Store: "base",
    memory.Scatter: "base",
    memory.Copy: "dst",
    memory.Atomic: "base",
    copy.LdMatrix: "dst",
    copy.StMatrix: "dst",
    copy.CpAsync: "dst",
    copy.TmaLoad: "dst",
    copy.TmaLoadMulticast: "dst",
    bulk.BulkLoad: "dst",
    bulk.BulkLoadMulticast: "dst",
    bulk.BulkStore: "dst",
    bulk.BulkReduce: "dst",
    bulk.BulkSend: "dst",
    bulk.StoreAsync: "dst",
    mma.Mma: "d",
    mma.Wgmma: "d",
    mma.WgmmaRs: "d",
    record.RecordStart: "buffer",
    record.RecordSpan: "buffer",
}
_NO_WRITE = (
    *(memory.AllocShared, memory.AllocRegisters, control.Assert, control.Printf),
    *(sync.ElectOne, sync.WarpShuffle, sync.WarpVote, sync.WarpUniform, sync.SetMaxRegister),
    *(copy.TmaStore, copy.PrefetchDescriptor, copy.BulkCommit, copy.CpAsyncCommit),
    bulk.TmaReduce,
)
_COLLECTIVE = (sync.ElectOne, sync.WarpVote)
_OTHERS = (Access(Space.GMEM), Access(Space.SMEM))
_ALL = (*_OTHERS, Access(Space.RMEM))


def root_of(pointer: Value) -> tuple[Value | None, int | None]:
    """The register array that a pointer lies in, and the byte offset there if it is constant."""
    offset: int | None = 0
    at = pointer
    while isinstance(op := at.owner, memory.Offset | memory.CastPointer):
        if isinstance(op, memory.Offset):
            index = op.index.owner
            base = op.base.type
            assert isinstance(base, PtrType), "constraint POINTER"
            if offset is not None and isinstance(index, arith.Constant):
                offset += int(index.value) * base.dtype.storage_bits // 8
            else:
                offset = None
        at = op.base
    return (at, offset) if isinstance(at.owner, memory.AllocRegisters) else (None, None)


def access_of(pointer: Value) -> Access:
    """The memory at `pointer`.  Only register arrays are told apart: others may overlap."""
    t = pointer.type
    assert isinstance(t, PtrType), "an access goes through a pointer"
    if t.space is Space.DSMEM:
        return Access(Space.SMEM)  # it may be that of the CTA itself
    if t.space is not Space.RMEM:
        return Access(t.space)
    return Access(t.space, *root_of(pointer))


class Analysis:
    """Facts about one kernel, as it was when this was made."""

    def __init__(self, func: Func) -> None:
        self.uses: dict[Value, int] = {}
        self.index: dict[Op, int] = {}
        self.end: dict[Op, int] = {}
        """The index of the last operation inside (of itself, if it has no regions)."""
        self.last_use: dict[Value, int] = {}
        self._depth: dict[Value, int] = {}
        self._use_depth: dict[Value, int] = {}
        self._op_depth: dict[Op, int] = {}
        self._writes: dict[Op, tuple[Access, ...]] = {}
        self.next: dict[Op, Op] = {}
        """The operation after each one in its block, constants left out."""
        self.choices: set[Op] = set()
        """Branches that are conditional expressions."""
        self.guards: dict[Op, str] = {}
        """Branches that are `condition && x` or `condition || x`: which of the two."""
        self._walk(func.body, 0)
        for op in reversed(self.index):
            if isinstance(op, control.If):
                self._classify(op)
        self.constant_params = _only_read(func)

    def _walk(self, block: Block, depth: int) -> None:
        for arg in block.args:
            self._depth[arg] = depth
        for op in block.ops:
            number = self.index[op] = len(self.index)
            self._op_depth[op] = depth
            for v in op.operands:
                self.uses[v] = self.uses.get(v, 0) + 1
                self.last_use[v] = number
                self._use_depth[v] = max(depth, self._use_depth.get(v, 0))
            inner = depth + isinstance(op, control.For | control.While)
            for region in op.regions:
                self._walk(region, inner)
            self.end[op] = len(self.index) - 1
            for v in op.results:
                self._depth[v] = depth
        work = [op for op in block.ops if not isinstance(op, arith.Constant)]
        self.next.update(itertools.pairwise(work))

    def _classify(self, op: control.If) -> None:
        """Finds the branches that read better as expressions."""
        arms = (op.then.ops[-1].operands, op.orelse.ops[-1].operands)
        if not all(isinstance(r.type, ScalarType | PtrType) for r in op.results):
            return
        if len(op.results) == 1 and op.results[0].type == BOOLEAN:
            for symbol, kept, block in (("&&", 1, op.then), ("||", 0, op.orelse)):
                value, other = arms[kept][0], (op.orelse, op.then)[1 - kept]
                settled = value is op.condition or _is_constant(value, symbol == "||")
                if settled and self._inlines(other, 0, False) and self._inlines(block, 6, True):
                    self.guards[op] = symbol
                    if value is op.condition:
                        self.uses[value] -= 1  # it will be written once
                    return
        small = self._inlines(op.then, 4, False) and self._inlines(op.orelse, 4, False)
        if 1 <= len(op.results) <= 2 and small:
            self.choices.add(op)

    def _inlines(self, block: Block, most: int, collective: bool) -> bool:
        """Whether a block is one expression of at most `most` operations.

        With `collective` the last may be a warp's vote or election.
        """
        work = [o for o in block.ops[:-1] if not isinstance(o, arith.Constant)]
        if work and collective and (isinstance(work[-1], _COLLECTIVE) or work[-1] in self.guards):
            work.pop()
        if len(work) > most:
            return False
        for o in work:
            pure = o.effect is Effect.PURE or (isinstance(o, memory.Load) and not o.count)
            if o.regions:
                pure = (o in self.choices or o in self.guards) and not synchronises(o)
            if not pure:
                return False
            if not all(isinstance(r.type, ScalarType | PtrType) for r in o.results):
                return False
            if any(self.uses.get(r, 0) != 1 for r in o.results):
                return False
        return True

    def consumed_at_once(self, op: Op) -> bool:
        """Whether the result's only use is the statement that comes right after `op`."""
        user = self.next.get(op)
        if user in self.guards or user in self.choices:
            return False  # they may themselves be put off
        return (
            isinstance(user, control.If | control.Yield | memory.Store)
            and self.uses.get(op.results[0], 0) == 1
            and self.last_use[op.results[0]] == self.index[user]
        )

    def used_in_deeper_loop(self, value: Value) -> bool:
        """Whether a use may run more often than the definition."""
        return self._use_depth.get(value, 0) > self._depth[value]

    def dies_at(self, value: Value, op: Op) -> bool:
        """Whether `op`, in the same loop as the definition, is the only use of `value`."""
        same_loop = self._depth.get(value) == self._op_depth[op]
        return self.uses[value] == 1 and self.last_use[value] == self.index[op] and same_loop

    def writes(self, op: Op) -> tuple[Access, ...]:
        """What `op`, regions included, may change, or let other threads' writes be seen of."""
        known = self._writes.get(op)
        if known is None:
            known = self._writes[op] = tuple(dict.fromkeys(_written(op)))
        return known


def synchronises(op: Op) -> bool:
    """Whether anything inside the regions of `op` has to happen where it is written."""
    return any(o.effect is Effect.SYNC for region in op.regions for o in region.walk())


def _is_constant(value: Value, wanted: bool) -> bool:
    op = value.owner
    return isinstance(op, arith.Constant) and op.value is wanted


def _written(op: Op) -> Iterable[Access]:
    for region in op.regions:
        for inner in region.walk():
            if not inner.regions:
                yield from _written(inner)
    if isinstance(op, mma.WgmmaWait | mma.WgmmaFence | mma.WgmmaCommit):
        yield from _ALL
    elif type(op) in _DESTINATION:
        yield access_of(getattr(op, _DESTINATION[type(op)]))
        if isinstance(op, memory.Atomic) and op.semantics != "relaxed":
            yield from _OTHERS
    elif op.effect in (Effect.SYNC, Effect.WRITE) and not isinstance(op, _NO_WRITE):
        yield from _OTHERS


def _only_read(func: Func) -> frozenset[Value]:
    """Pointer parameters through which nothing is written and that are not passed on."""
    escaped: set[Value] = set()
    ops = [op for op in func.body.walk() if not isinstance(op, arith.Constant)]

    def trace(value: Value) -> None:
        while isinstance(op := value.owner, memory.Offset | memory.CastPointer):
            value = op.base
        if isinstance(op, arith.Select):
            trace(op.a)
            trace(op.b)
        escaped.add(value)

    for op in ops:
        if type(op) in _DESTINATION:
            trace(getattr(op, _DESTINATION[type(op)]))
        elif op.effect is Effect.CONTROL or isinstance(op, arith.Select):
            for v in op.operands:
                if isinstance(v.type, PtrType):
                    trace(v)
    return frozenset(a for a in func.args if isinstance(a.type, PtrType) and a not in escaped)
