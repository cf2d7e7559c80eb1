"""Inserts record operations around the events of a kernel: an opt-in pass, not in the pipeline.

Events are waits (mbarriers, named and cluster barriers, copies, wgmma), the issue of copies and of
matrix multiplies, and stores.  A *run* of issues or stores of one kind is one event: it begins at
the first of them and ends behind the last, with only arithmetic and loads in between (rule RUN).
A branch or loop around nothing but such stores is one of them (rule GUARD).

Nothing is put between the wgmmas of a group, where it would break the pipeline that ptxas needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.arch.mma.registry import mma_atom
from tilewright.errors import Loc, ResourceError
from tilewright.ir.clone import copy_func
from tilewright.ir.core import Block, Effect, Func, Op, Value
from tilewright.ir.ops import bulk, control, copy, memory, mma, record, sync
from tilewright.ir.types import PtrType, Space
from tilewright.ir.verify import verify_func
from tilewright.numeric.dtypes import U64

BUFFER = "records"
"""The name of the parameter that the pass adds."""

WAITS = (
    *(sync.MBarrierWait, sync.BarrierSync, sync.SyncThreads, sync.ClusterWait),
    *(copy.CpAsyncWait, copy.BulkWait, mma.WgmmaWait, sync.GridDependencyWait),
)
_ENGINE = (
    *(copy.TmaLoad, copy.TmaLoadMulticast, copy.TmaStore),
    *(bulk.BulkLoad, bulk.BulkLoadMulticast, bulk.BulkStore, bulk.BulkReduce, bulk.TmaReduce),
)
_STORES = (memory.Store, memory.Scatter, memory.Atomic, memory.Copy, copy.StMatrix)


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a kernel that records.  `kind`: wait, async, mma, shared, global, mark.

    `op` is the (first) operation, `count` how many of its kind one event covers.  A wait for groups
    says how many may stay `pending`.
    """

    number: int
    op: str
    kind: str
    count: int
    loc: Loc | None
    pending: int = 0


START, EXIT = "start", "exit"


def record_clocks(kernel: Func, blocks: int, slots: int) -> tuple[Func, tuple[Site, ...]]:
    """A copy of `kernel` that records, with the buffer as one more parameter, and its sites.

    Threads of the first `blocks` blocks record up to `slots - 1` events each; see `ir.ops.record`.
    Raises: ResourceError for a kernel with more sites than a tag can name.
    """
    made = copy_func(kernel)
    inserter = _Inserter(made, slots)
    body = made.body
    begin = inserter.clock(None)
    start = record.RecordStart((inserter.buffer,), {"blocks": blocks, "slots": slots})
    inserter.cursor = start.results[0]
    head = [start, begin, inserter.span(begin, START, "mark")]
    inserter.block(body)
    last = inserter.clock(None)
    exit_ = inserter.span(last, EXIT, "mark")
    body.ops = [*head, *body.ops[:-1], last, exit_, body.ops[-1]]
    verify_func(made)
    return made, tuple(inserter.sites)


class _Inserter:
    def __init__(self, func: Func, slots: int) -> None:
        self.func, self.slots = func, slots
        self.buffer = Value(PtrType(U64, Space.GMEM, 16), func.body, BUFFER)
        func.body.args.append(self.buffer)
        self.cursor = self.buffer
        self.sites: list[Site] = []

    def clock(self, loc: Loc | None) -> Op:
        return sync.Special((), {"register": "clock"}, loc=loc)

    def span(
        self,
        begin: Op,
        name: str,
        kind: str,
        count: int = 1,
        op: Op | None = None,
    ) -> Op:
        """The operation that records a new site, from `begin` until where it stands."""
        number = len(self.sites)
        if number >= record.MAX_SITES:
            raise ResourceError(
                f"record_clocks {self.func.name}: more than {record.MAX_SITES:,} places to record",
                hint="unroll less",
            )
        loc = op.loc if op is not None else None
        self.sites.append(Site(number, name, kind, count, loc, _pending(op)))
        barrier = _barrier_of(op) if op is not None else ()
        operands = (self.buffer, self.cursor, begin.results[0], *barrier)
        return record.RecordSpan(operands, {"site": number, "slots": self.slots}, loc=loc)

    def block(self, block: Block) -> None:
        ops, at = block.ops, 0
        made: list[Op] = []
        while at < len(ops):
            op = ops[at]
            end = _run_end(ops, at)
            if not end:
                for inner in op.regions:
                    self.block(inner)
                made.append(op)
                at += 1
                continue
            kind = kind_of(op) or "mma"
            run = ops[at:end]
            own = [o for part in run for o in _leaves(part) if kind_of(o) == kind]
            first = own[0]
            begin = self.clock(first.loc)
            made += [begin, *run]
            made.append(self.span(begin, first.name, kind, len(own), first))
            at = end
        block.ops = made


_MEMORY = {
    **dict.fromkeys((Space.SMEM, Space.DSMEM), "shared"),
    Space.GMEM: "global",
    Space.RMEM: "",
}


def kind_of(op: Op) -> str:
    """What an operation is recorded as; '' if it is not."""
    if isinstance(op, WAITS):
        return "wait"
    if isinstance(op, (*_ENGINE, copy.CpAsync)):
        return "async"
    if isinstance(op, mma.Wgmma | mma.WgmmaRs):
        return "mma"
    if isinstance(op, mma.Mma):
        return "mma" if mma_atom(op.atom).kind == "mma" else ""
    if isinstance(op, _STORES):
        into = op.dst if isinstance(op, memory.Copy | copy.StMatrix) else op.base
        assert isinstance(into.type, PtrType), "stores go through pointers"
        return _MEMORY[into.type.space]
    return _guarded(op) if isinstance(op, control.If | control.For) else ""


def _guarded(op: Op) -> str:
    """Rule GUARD: the one kind of stores (or of cp.async) that a branch or loop is around."""
    found = set()
    for inner in _leaves(op):
        if isinstance(inner, (*_STORES, copy.CpAsync)) and kind_of(inner):
            found.add(kind_of(inner))
        elif not _passes(inner):
            return ""
    return found.pop() if len(found) == 1 else ""


def _leaves(op: Op) -> Iterator[Op]:
    """The operation, or those inside of it."""
    if not op.regions:
        yield op
    for inner in op.regions:
        for o in inner.ops:
            yield from _leaves(o)


def _pending(op: Op | None) -> int:
    if isinstance(op, copy.CpAsyncWait | copy.BulkWait | mma.WgmmaWait):
        return op.pending
    return 0


def _barrier_of(op: Op) -> tuple[Value, ...]:
    if isinstance(op, sync.MBarrierWait):
        return (op.barrier,)
    if isinstance(op, copy.TmaLoad | copy.TmaLoadMulticast | bulk.BulkLoad):
        return (op.barrier,)
    return ()


def _run_end(ops: list[Op], at: int) -> int:
    """Behind the last operation of the event that begins at `at`; 0 if none does."""
    op = ops[at]
    if isinstance(op, mma.WgmmaFence):  # it belongs to the wgmmas behind it
        following = next((o for o in ops[at + 1 :] if not _passes(o)), None)
        if not isinstance(following, mma.Wgmma | mma.WgmmaRs):
            return 0
        kind = "mma"
    else:
        kind = kind_of(op)
    if not kind:
        return 0
    if kind == "wait" or isinstance(op, _ENGINE):
        return at + 1
    asynchronous = isinstance(op, mma.WgmmaFence | mma.Wgmma | mma.WgmmaRs)
    end = at + 1
    for n in range(at + 1, len(ops)):
        if kind_of(ops[n]) == kind and not isinstance(ops[n], _ENGINE):
            end = n + 1
        elif asynchronous and isinstance(ops[n], mma.WgmmaCommit):
            return n + 1
        elif not _passes(ops[n]):
            break
    return end


def _passes(op: Op) -> bool:
    """Rule RUN: arithmetic, loads, register arrays, and loops and branches of only those."""
    if isinstance(op, control.Return):
        return False
    if op.regions:
        return all(_passes(o) for inner in op.regions for o in inner.ops)
    if op.effect in (Effect.PURE, Effect.READ, Effect.CONTROL):
        return True
    return isinstance(op, memory.AllocRegisters | copy.LdMatrix) or (
        isinstance(op, _STORES) and kind_of(op) == ""
    )
