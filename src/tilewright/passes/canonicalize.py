"""Removes what is computed twice or not used at all.

Rules, cited where they are applied:

    CSE       a pure operation equal to one that dominates it is replaced by that one
    FIXED     a carried value that the body hands on unchanged is its initial value
    DEAD      what no effect depends on is removed: pure operations, loads, results of branches,
              and carried values that only feed themselves
"""

from __future__ import annotations

from collections.abc import Hashable

from tilewright.ir.core import Block, Effect, Func, Module, Op, Value, replace_uses
from tilewright.ir.merge import merge_equal
from tilewright.ir.ops.arith import Constant
from tilewright.ir.ops.control import For, If

Key = tuple[Hashable, ...]


def canonicalize(module: Module) -> None:
    """Applies the rules to every function."""
    for func in (*module.kernels.values(), *([module.host] if module.host else [])):
        _resolve_fixed(func)
        merge_equal(func.body, _key)  # rule CSE
        _remove_dead(func)


def _key(op: Op) -> Key:
    if isinstance(op, Constant):
        # repr tells -0.0 from 0.0 and keeps NaN equal to itself.
        return (op.name, repr(op.value), op.dtype)
    return (op.name, op.operands, tuple(op.attrs.values()))


def _resolve_fixed(func: Func) -> None:
    """Rule FIXED, innermost loops first, so that an outer value seen through one is fixed too."""
    mapping: dict[Value, Value] = {}

    def image(v: Value) -> Value:
        while v in mapping:
            v = mapping[v]
        return v

    for op in reversed(list(func.body.walk())):
        if not isinstance(op, For):
            continue
        handed_on = op.body.ops[-1].operands
        keep = []
        for i, init in enumerate(op.inits):
            arg = op.body.args[i + 1]
            if image(handed_on[i]) in (arg, init):
                mapping[arg] = mapping[op.results[i]] = init
            else:
                keep.append(i)
        if len(keep) < len(op.inits):
            _keep_carried(op, keep)
    replace_uses(func.body, mapping)


def _keep_carried(op: For, keep: list[int]) -> None:
    last = op.body.ops[-1]
    op.operands = (*op.operands[:3], *(op.operands[3 + i] for i in keep))
    op.body.args = [op.body.args[0], *(op.body.args[1 + i] for i in keep)]
    op.results = tuple(op.results[i] for i in keep)
    last.operands = tuple(last.operands[i] for i in keep)


def _remove_dead(func: Func) -> None:
    """Rule DEAD: mark what effects depend on, then sweep the rest."""
    marker = _Marker()
    marker.mark_block(func.body)
    _sweep(func.body, marker)


class _Marker:
    """Marks live values backwards from effects; a carried value is live if anything reads it."""

    def __init__(self) -> None:
        self.live: set[Value] = set()
        self.kept: set[Op] = set()
        self.sources: dict[Value, tuple[Value, ...]] = {}
        """What else is live when a value is: the yields behind a result, an init, an argument."""

    def mark_block(self, block: Block) -> None:
        self._connect(block)
        for op in block.walk():
            if op.effect in (Effect.WRITE, Effect.SYNC):
                self._keep(op)
        # Regions that hold a kept operation are themselves kept, with what decides them.
        self._keep_parents(block)

    def _connect(self, block: Block) -> None:
        for op in block.walk():
            if isinstance(op, For):
                handed_on = op.body.ops[-1].operands
                for i, init in enumerate(op.inits):
                    pair = (init, handed_on[i])
                    self.sources[op.body.args[i + 1]] = pair
                    self.sources[op.results[i]] = pair
            elif isinstance(op, If):
                for i, result in enumerate(op.results):
                    yields = (op.then.ops[-1].operands[i], op.orelse.ops[-1].operands[i])
                    self.sources[result] = yields

    def _keep(self, op: Op) -> None:
        self.kept.add(op)
        for v in op.operands:
            self._mark(v)

    def _mark(self, value: Value) -> None:
        todo = [value]
        while todo:
            v = todo.pop()
            if v in self.live:
                continue
            self.live.add(v)
            todo.extend(self.sources.get(v, ()))
            if isinstance(v.owner, Op):
                todo.extend(self._needs(v.owner))

    def _needs(self, op: Op) -> tuple[Value, ...]:
        """What an operation needs as soon as one of its results is live."""
        if isinstance(op, For):
            self.kept.add(op)
            return op.operands[:3]
        if isinstance(op, If):
            self.kept.add(op)
            return op.operands
        if op.regions:  # `while`: kept whole
            self.kept.add(op)
            inner = [v for region in op.regions for v in region.ops[-1].operands]
            return (*op.operands, *inner)
        return op.operands

    def _keep_parents(self, block: Block) -> bool:
        """Whether the block has a kept or live operation; keeps the operations around it."""
        alive = False
        for op in block.ops:
            inside = [self._keep_parents(inner) for inner in op.regions]
            if any(inside) or (op.regions and any(v in self.live for v in op.results)):
                for v in self._needs(op):
                    self._mark(v)
                alive = True
            alive |= op in self.kept or any(v in self.live for v in op.results)
        return alive


def _sweep(block: Block, marker: _Marker) -> None:
    live, kept = marker.live, marker.kept
    ops: list[Op] = []
    for op in block.ops:
        if not (op.terminator or op in kept or any(v in live for v in op.results)):
            continue
        ops.append(op)
        if isinstance(op, For):
            used = [
                i
                for i, result in enumerate(op.results)
                if result in live or op.body.args[i + 1] in live
            ]
            if len(used) < len(op.results):
                _keep_carried(op, used)
        elif isinstance(op, If) and op.results:
            used = [i for i, result in enumerate(op.results) if result in live]
            op.results = tuple(op.results[i] for i in used)
            for inner in op.regions:
                last = inner.ops[-1]
                last.operands = tuple(last.operands[i] for i in used)
        for inner in op.regions:
            _sweep(inner, marker)
    block.ops = ops
