"""Which accumulators a `wgmma.wait` brings home: the ones that later reads must stay behind.

A forward walk keeps the groups of wgmmas that may be in flight, oldest first, as sets of register
arrays.  At a wait the groups beyond the newest `pending` retire; an array that also belongs to a
group still in flight stays untouched, as in the main loop of a GEMM.  Loops are walked until the
state no longer grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from tilewright.codegen.cuda.analysis import root_of
from tilewright.ir.core import Block, Func, Op, Value
from tilewright.ir.ops import control, mma

_NONE: frozenset[Value] = frozenset()
_DEEPEST = 8
"""Older groups than this are merged into one: it bounds the walk of loops that never wait."""


@dataclass(frozen=True, slots=True)
class _State:
    groups: tuple[frozenset[Value], ...] = ()
    open: frozenset[Value] = _NONE

    def join(self, other: _State) -> _State:
        pairs = zip_longest(reversed(self.groups), reversed(other.groups), fillvalue=_NONE)
        groups = tuple(a | b for a, b in pairs)[::-1]
        return _State(groups, self.open | other.open)

    def committed(self) -> _State:
        groups = (*self.groups, self.open)
        if len(groups) > _DEEPEST:
            groups = (groups[0] | groups[1], *groups[2:])
        return _State(groups, _NONE)


def retired_by_wait(func: Func) -> dict[Op, tuple[Value, ...]]:
    """For each `wgmma.wait`, the register arrays (allocations) that are complete after it."""
    found: dict[Op, tuple[Value, ...]] = {}
    if any(isinstance(op, mma.WgmmaWait) for op in func.body.walk()):
        _walk(func.body, _State(), found)
    return found


def _walk(block: Block, state: _State, found: dict[Op, tuple[Value, ...]]) -> _State:
    for op in block.ops:
        if isinstance(op, mma.Wgmma | mma.WgmmaRs):
            root, _ = root_of(op.d)
            if root is not None:
                state = _State(state.groups, state.open | {root})
        elif isinstance(op, mma.WgmmaCommit):
            state = state.committed()
        elif isinstance(op, mma.WgmmaWait):
            state = _wait(op, state, found)
        elif isinstance(op, control.If):
            state = _walk(op.then, state, found).join(_walk(op.orelse, state, found))
        elif isinstance(op, control.For | control.While):
            state = _loop(op, state, found)
    return state


def _loop(
    op: control.For | control.While, state: _State, found: dict[Op, tuple[Value, ...]]
) -> _State:
    def once(entry: _State) -> tuple[_State, _State]:
        """The state where the loop may be left, and after the body."""
        leave = _walk(op.before, entry, found) if isinstance(op, control.While) else entry
        return leave, _walk(op.body, leave, found)

    while True:
        # The last turn, from the final state, is the one whose findings remain.
        leave, after = once(state)
        grown = state.join(after)
        if grown == state:
            return leave
        state = grown


def _wait(op: mma.WgmmaWait, state: _State, found: dict[Op, tuple[Value, ...]]) -> _State:
    split = max(len(state.groups) - op.pending, 0)
    retired = _NONE.union(*state.groups[:split])
    flying = state.open.union(*state.groups[split:])
    found[op] = tuple(sorted(retired - flying, key=_order))
    return _State(state.groups[split:], state.open)


def _order(value: Value) -> str:
    op = value.owner
    label = str(op.attrs.get("label", "")) if isinstance(op, Op) else ""
    return f"{label} {value.name}"
