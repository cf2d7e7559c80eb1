"""Branches at run time: the `if` statement, and the expressions that evaluate only one operand.

Both arms are traced, each into its own block, from the same state; then every cell that the arms
left with different values becomes a result of the IR `if`.
"""

from __future__ import annotations

from typing import Any

from tilewright.errors import Loc
from tilewright.ir.builder import constant_value
from tilewright.ir.core import Block, Effect, Value
from tilewright.ir.ops import arith, control
from tilewright.lang import trace as tracer
from tilewright.lang.carried import (
    UNDEF,
    Key,
    LeafPair,
    Mismatch,
    Places,
    State,
    from_ir_value,
    generalised,
    leaf_kind,
    pair_leaves,
    same_leaf,
    substitute,
    to_ir,
)
from tilewright.lang.operations import select as select_numbers
from tilewright.lang.operations import truth
from tilewright.lang.regions import (
    Site,
    check_length,
    close_block,
    compare,
    hint,
    is_undefined,
    open_block,
    results_of,
    snapshot,
)
from tilewright.lang.scalar import as_numeric, is_number, numeric_of
from tilewright.lang.trace import Trace
from tilewright.numeric.dtypes import BOOL

RESULT = "the value"
"""The cell of a conditional expression's own value."""
_ARMS = ("after the first branch", "after the other")


class StaticBranch:
    """A branch whose condition is known at compile time: one arm is traced, the other never."""

    __slots__ = ("taken",)
    static = True

    def __init__(self, taken: bool) -> None:
        self.taken = taken

    def then(self) -> bool:
        return self.taken

    def orelse(self) -> bool:
        return not self.taken

    def begin(self, names: tuple[Any, ...], _loaded: tuple[Any, ...]) -> tuple[Any, ...]:
        return names

    def end(self, names: tuple[Any, ...]) -> tuple[Any, ...]:
        return names

    def results(self, names: tuple[Any, ...]) -> tuple[Any, ...]:
        return names


class Branch:
    """A branch on a run-time Boolean."""

    static = False

    def __init__(self, trace: Trace, condition: Value, site: Site, loc: Loc | None) -> None:
        self.trace = trace
        self.condition = condition
        self.site = site
        self.loc = loc
        self.arms = (Block(), Block())
        self.places = Places(())
        self.before: State = {}
        self.after: list[State] = []

    def then(self) -> bool:
        open_block(self.trace, self.arms[0])
        return True

    def orelse(self) -> bool:
        open_block(self.trace, self.arms[1])
        return True

    def begin(self, names: tuple[Any, ...], loaded: tuple[Any, ...]) -> tuple[Any, ...]:
        """Remembers the state before the first arm."""
        self.places = Places((*names, *loaded))
        self.before = snapshot(self.site, names, self.places)
        return names

    def end(self, names: tuple[Any, ...], extra: State | None = None) -> tuple[Any, ...]:
        """Records what an arm left, and puts back the state before the branch."""
        close_block(self.trace, self.arms[len(self.after)], self.loc)
        self.after.append(snapshot(self.site, names, self.places) | (extra or {}))
        self.places.restore()
        return results_of(self.site, self.before)

    def results(self, _names: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        """The state after the branch; appends the IR `if`."""
        return results_of(self.site, self.merge())

    def merge(self) -> State:
        if len(self.after) == 1:
            self.after.append(self.before)
        merged, plan = self._plan()
        values = self._append(plan)
        new = {(key, pair.path): value for (key, pair), value in zip(plan, values, strict=True)}
        for key in {key for key, _ in plan}:
            merged[key] = substitute(key, merged[key], new)
        self.places.write(merged)
        return merged

    def _plan(self) -> tuple[State, list[tuple[Key, LeafPair]]]:
        """The cells after the branch, and the leaves of them that differ between the arms."""
        first, second = self.after
        merged: State = {}
        plan: list[tuple[Key, LeafPair]] = []
        put_back = self.site.names[self.site.carried :]
        for key in first | second:
            a, b = first.get(key, UNDEF), second.get(key, UNDEF)
            if key in put_back:
                merged[key] = self.before.get(key, UNDEF)
            elif a is b:
                merged[key] = a
            elif is_undefined(a) or is_undefined(b):
                check_length(key, self.places, self.loc, _ARMS[is_undefined(a)])
                merged[key] = UNDEF
            else:
                merged[key], pairs = self._compare(key, a, b)
                plan += [(key, pair) for pair in pairs if not pair.agree()]
        return merged, plan

    def _compare(self, key: Key, a: Any, b: Any) -> tuple[Any, list[LeafPair]]:
        try:
            return a, pair_leaves(a, b)
        except Mismatch:
            builder = self.trace.builder
            with builder.inside(self.arms[0]):
                a = generalised(a)
            with builder.inside(self.arms[1]):
                b = generalised(b)
        return a, compare(key, a, b, self.places, self.site, self.loc, _ARMS)

    def _append(self, plan: list[tuple[Key, LeafPair]]) -> list[Any]:
        pairs = [pair for _, pair in plan]
        kinds = [leaf_kind(pair.a, pair.b) for pair in pairs]
        builder = self.trace.builder
        for arm, label in zip(self.arms, ("a", "b"), strict=True):
            with builder.inside(arm):
                values = [
                    to_ir(getattr(pair, label), kind)
                    for pair, kind in zip(pairs, kinds, strict=True)
                ]
                builder.emit(control.Yield, *values, loc=self.loc)
        op = builder.emit(control.If, self.condition, regions=self.arms, loc=self.loc)
        for result, (key, pair) in zip(op.results, plan, strict=True):
            result.name = "" if key == RESULT else hint((key, pair.path))
        return [from_ir_value(v, kind) for v, kind in zip(op.results, kinds, strict=True)]


def is_speculatable(block: Block) -> bool:
    """Whether the operations of a block may be run although their value is not needed."""
    return all(
        op.effect is Effect.PURE
        and not op.regions
        and not (isinstance(op, arith.FloorDiv | arith.Mod) and not constant_value(op.operands[1]))
        for op in block.ops
    )


class Choice(Branch):
    """A conditional expression, `and` or `or`, on a run-time condition."""

    def join(self, first: Any, second: Any, word: str) -> Any:
        """The value of ``first and second`` or ``first or second``, with `second` just traced."""
        if word == "and":
            self.end((), {RESULT: second})
            self.orelse()
            self.end((), {RESULT: first})
            return self.finish(second, first)
        self.end((), {RESULT: second})
        return self.finish(first, second)

    def finish(self, first: Any, second: Any) -> Any:
        """The value: that of the first arm where the condition holds, else that of the second."""
        simple = self.after[0].keys() <= {RESULT} | self.before.keys() and self._unchanged()
        if simple and is_number(first) and is_number(second):
            if all(is_speculatable(arm) for arm in self.arms):
                for arm in self.arms:
                    self.trace.builder.block.ops.extend(arm.ops)
                return _select(self.condition, first, second)
        elif first is second and not any(arm.ops for arm in self.arms):
            return first
        return self.merge()[RESULT]

    def _unchanged(self) -> bool:
        return all(
            state.get(key, UNDEF) is item
            for state in self.after
            for key, item in self.before.items()
        ) and all(len(state) == len(self.before) + 1 for state in self.after)


def _select(condition: Value, first: Any, second: Any) -> Any:
    c = numeric_of(BOOL)._of(condition)
    if same_leaf(first, second):
        return first
    a, b = as_numeric(first), as_numeric(second)
    if type(a)._row is BOOL and type(b)._row is BOOL:
        # `c and x`, `c or x`, and choices between truth values need no select.
        if b.raw is False:
            return c if a.raw is True else _logical(arith.And, c, a)
        if a.raw is True:
            return _logical(arith.Or, c, b)
        if b.raw is condition:
            return _logical(arith.And, c, a)
        if a.raw is condition:
            return _logical(arith.Or, c, b)
    return select_numbers(c, first, second)


def _logical(op: type[arith.And | arith.Or], a: Any, b: Any) -> Any:
    if b.raw is True or b.raw is False:
        return a if (op is arith.And) == b.raw else b
    return numeric_of(BOOL)._of(tracer.value(op, truth(a).ir_value(), truth(b).ir_value()))
