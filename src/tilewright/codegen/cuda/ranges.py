"""Which integers are known not to be negative: then C++'s `/` and `%` are Python's.

The analysis is optimistic about carried values and takes back what does not hold (a greatest
fixpoint), so what remains is an invariant of every loop.  It assumes, as the generated C++ does,
that signed arithmetic does not overflow.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir.core import Block, Func, Op, Value
from tilewright.ir.ops import arith, control, memory, sync
from tilewright.ir.types import PtrType, ScalarType


class NonNegative:
    """Tells for each integer value of a kernel whether it is at least zero."""

    def __init__(self, func: Func) -> None:
        self._known: dict[Value, bool] = {}
        self._sources: dict[Value, tuple[Value, ...]] = {}
        """Where the values of carried variables and of results of branches come from."""
        for op in func.body.walk():
            self._collect(op)
        self._refuted: set[Value] = set()
        while refuted := {
            v
            for v, sources in self._sources.items()
            if v not in self._refuted and not all(self(s) for s in sources)
        }:
            self._refuted |= refuted
            self._known.clear()

    def _collect(self, op: Op) -> None:
        if isinstance(op, control.For):
            rising = _constant(op.step)
            if rising is None or rising > 0:
                self._sources[op.body.args[0]] = (op.start,)
            ends = op.body.ops[-1].operands
            self._join(op.body.args[1:], op.inits, ends)
            self._join(op.results, op.inits, ends)
        elif isinstance(op, control.While):
            self._join(op.before.args, op.inits, op.body.ops[-1].operands)
            handed = op.before.ops[-1].operands[1:]
            self._join(op.body.args, handed)
            self._join(op.results, handed)
        elif isinstance(op, control.If):
            self._join(op.results, op.then.ops[-1].operands, op.orelse.ops[-1].operands)

    def _join(self, into: list[Value] | tuple[Value, ...], *sides: tuple[Value, ...]) -> None:
        for v, *sources in zip(into, *sides, strict=True):
            self._sources[v] = tuple(sources)

    def __call__(self, value: Value) -> bool:
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._decide(value)
        return known

    def _decide(self, value: Value) -> bool:
        t = value.type
        if not isinstance(t, ScalarType) or t.dtype.is_float:
            return False
        if not t.dtype.is_signed:
            return True
        if value in self._sources:
            return value not in self._refuted
        op = value.owner
        if op is None or isinstance(op, Block):
            return False
        rule = _RULES.get(type(op))
        return rule is not None and rule(op, self)


Ask = Callable[[Value], bool]


def _constant(value: Value) -> int | None:
    op = value.owner
    return int(op.value) if isinstance(op, arith.Constant) else None


def _positive(value: Value) -> bool:
    number = _constant(value)
    return number is not None and number > 0


def _every(op: Op, ask: Ask) -> bool:
    return all(ask(v) for v in op.operands)


def _some(op: Op, ask: Ask) -> bool:
    return any(ask(v) for v in op.operands)


def _mod(op: Op, ask: Ask) -> bool:
    return _positive(op.operands[1]) or _every(op, ask)


def _first(op: Op, ask: Ask) -> bool:
    return ask(op.operands[0])


def _select(op: Op, ask: Ask) -> bool:
    return ask(op.operands[1]) and ask(op.operands[2])


def _cast(op: Op, ask: Ask) -> bool:
    source, to = op.operands[0].type, op.results[0].type
    if not isinstance(source, ScalarType) or not isinstance(to, ScalarType):
        return False
    fits = source.dtype.bits + (not source.dtype.is_signed) <= to.dtype.bits
    return not source.dtype.is_float and fits and ask(op.operands[0])


def _always(op: Op, ask: Ask) -> bool:  # noqa: ARG001
    return True


def _constant_rule(op: Op, ask: Ask) -> bool:  # noqa: ARG001
    return int(op.attrs["value"]) >= 0  # type: ignore[arg-type]


def _load(op: Op, ask: Ask) -> bool:  # noqa: ARG001
    t = op.operands[0].type
    return isinstance(t, PtrType) and not t.dtype.is_signed


_RULES: dict[type[Op], Callable[[Op, Ask], bool]] = {
    arith.Constant: _constant_rule,
    arith.Add: _every,
    arith.Mul: _every,
    arith.FloorDiv: _every,
    arith.Mod: _mod,
    arith.Min: _every,
    arith.Max: _some,
    arith.And: _some,
    arith.Or: _every,
    arith.Xor: _every,
    arith.Shl: _first,
    arith.Shr: _first,
    arith.Fma: _every,
    arith.Select: _select,
    arith.Cast: _cast,
    memory.Load: _load,
    sync.Special: _always,
    sync.WarpUniform: _first,
    sync.WarpShuffle: _first,
}
