"""Control flow: how structured operations become jumps, and how groups split and meet.

    if      branch -> then ... jump, else ..., join
    for     enter, head -> body ... back to head, join
    while   enter, before ... condition -> body ... back to before, join

A uniform condition is a jump.  Where threads disagree, the group splits (see `group`); the step
named *join* is where the parts wait for each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.ops import arith, control, memory, sync
from tilewright.ir.types import Type
from tilewright.sim.group import Group, Join
from tilewright.sim.step import Context, Step, executes
from tilewright.sim.values import spread

PARK = "park"
"""Signal: the group has reached its join."""
EXIT = "exit"
"""Signal: the threads are done."""
STOP = "stop"
"""Signal: the kernel is to stop."""


class Poll:
    """Signal: the group went once round a loop that may wait for others; it goes on at `pc`.

    `carried` are the slots of what the loop carries: if they did not change, and the loop writes
    nothing, the round was idle.
    """

    __slots__ = ("carried", "pc", "writes")

    def __init__(self, pc: int, carried: Sequence[int], writes: bool) -> None:
        self.pc = pc
        self.carried = carried
        self.writes = writes

    def idle(self, g: Group) -> bool:
        now = [g.slots[s] for s in self.carried]
        before, g.polled = g.polled, (self.pc, now)
        if self.writes or before is None or before[0] != self.pc:
            return False
        return all(
            a is b or bool(np.array_equal(a, b)) for a, b in zip(before[1], now, strict=True)
        )


class Flattener:
    """The program under construction."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.steps: list[Step] = []
        self.ops: list[Op | None] = []

    @property
    def here(self) -> int:
        return len(self.steps)

    def emit(self, step: Step, op: Op | None) -> int:
        self.steps.append(step)
        self.ops.append(op)
        return len(self.steps) - 1

    def reserve(self, op: Op | None) -> int:
        """A place for a step that is known only later."""
        return self.emit(_unreachable, op)


def _unreachable(g: Group) -> None:
    del g
    raise AssertionError("a reserved step was not filled in")


Recurse = Callable[[Block, Flattener], None]
FLATTEN: dict[type[Op], Callable[[Any, Flattener, Recurse], None]] = {}


def _flattens(kind: type[Op]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        FLATTEN[kind] = function
        return function

    return register


def live_in(blocks: Sequence[Block], context: Context) -> list[int]:
    """Slots of the values that `blocks` use and do not define."""
    inside: set[Value] = set()
    used: dict[Value, None] = {}

    def visit(block: Block) -> None:
        inside.update(block.args)
        for op in block.ops:
            for v in op.operands:
                used[v] = None
            for region in op.regions:
                visit(region)
            inside.update(op.results)

    for block in blocks:
        visit(block)
    return [context.slot(v) for v in used if v not in inside]


def _no_assignment(slots: list[Any]) -> None:
    del slots


def _assign(sources: Sequence[int], targets: Sequence[int]) -> Callable[[list[Any]], None]:
    """All targets at once take the values of their sources."""
    pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if s != t]
    if not pairs:
        return _no_assignment
    if len(pairs) == 1:
        ((s0, t0),) = pairs

        def one(slots: list[Any]) -> None:
            slots[t0] = slots[s0]

        return one
    read, write = zip(*pairs, strict=True)

    def many(slots: list[Any]) -> None:
        values = [slots[s] for s in read]
        for t, v in zip(write, values, strict=True):
            slots[t] = v

    return many


def _join_step(pc: int) -> Step:
    def step(g: Group) -> Any:
        return PARK if g.join is not None and g.join.pc == pc else None

    return step


Typed = list[tuple[int, Type]]


def _typed(values: Sequence[Value], context: Context) -> Typed:
    return [(context.slot(v), v.type) for v in values]


def _decide(condition: int, yes: int, no: int, part: Callable[[Group, Any], Any]) -> Step:
    """A step that goes to `yes` or `no`, or parts the group."""

    def step(g: Group) -> Any:
        mask = g.slots[condition]
        if type(mask) is not np.ndarray:
            return yes if mask else no
        if mask.all():
            return yes
        if not mask.any():
            return no
        return part(g, mask)

    return step


@_flattens(control.If)
def flatten_if(op: control.If, flat: Flattener, recurse: Recurse) -> None:
    context = flat.context
    targets = context.slots(op.results)
    branch = flat.reserve(op)
    starts, jumps = [], []
    for block in (op.then, op.orelse):
        starts.append(flat.here)
        recurse(_body(block), flat)
        jumps.append((flat.reserve(None), _assign(context.slots(block.ops[-1].operands), targets)))
    join = flat.reserve(None)
    flat.steps[join] = _join_step(join)
    for at, assign in jumps:
        flat.steps[at] = _jump(assign, join)
    live = (_live(op.then, context), _live(op.orelse, context))
    results = _typed(op.results, context)

    def part(g: Group, mask: Any) -> Any:
        return g.split(mask, Join(join, g, results), (starts[0], starts[1]), live)

    flat.steps[branch] = _decide(context.slot(op.condition), starts[0], starts[1], part)


def _live(block: Block, context: Context) -> list[int]:
    return live_in([block], context)


def _body(block: Block) -> Block:
    """The block without its terminator, which the caller turns into a jump."""
    body = Block()
    body.args, body.ops = block.args, block.ops[:-1]
    return body


def _jump(assign: Callable[[list[Any]], None], target: int) -> Step:
    def step(g: Group) -> int:
        assign(g.slots)
        return target

    return step


def _part_loop(
    g: Group, mask: Any, join: int, body: int, results: Typed, live: tuple[list[int], list[int]]
) -> Any:
    """Threads with `mask` go round again, the others leave.  All meet at one join."""
    meet = g.join
    if meet is None or meet.pc != join:
        meet = Join(join, g, results)
    return g.split(mask, meet, (body, join), live)


@_flattens(control.For)
def flatten_for(op: control.For, flat: Flattener, recurse: Recurse) -> None:
    context = flat.context
    iv, *carried = context.slots(tuple(op.body.args))
    stop, step = context.slot(op.stop), context.slot(op.step)
    enter = _assign(context.slots((op.start, *op.inits)), (iv, *carried))

    def begin(g: Group) -> None:
        enter(g.slots)

    flat.emit(begin, op)
    head = flat.reserve(None)
    body = flat.here
    recurse(_body(op.body), flat)
    back = flat.reserve(None)
    join = flat.reserve(None)
    flat.steps[join] = _join_step(join)
    carry = _assign(context.slots(op.body.ops[-1].operands), carried)
    flat.steps[back] = _next_iteration(carry, iv, step, head)
    results = _typed(op.results, context)
    live = ([iv, stop, step, *carried, *_live(op.body, context)], list(carried))
    constant = op.step.owner
    down = isinstance(constant, arith.Constant) and int(constant.value) < 0

    def choose(g: Group) -> Any:
        s = g.slots
        mask = s[iv] > s[stop] if down else s[iv] < s[stop]
        if type(mask) is bool:
            return None if mask else join
        if mask.all():
            return None
        if not mask.any():
            return join
        return _part_loop(g, mask, join, body, results, live)

    flat.steps[head] = choose


def _next_iteration(carry: Callable[[list[Any]], None], iv: int, step: int, head: int) -> Step:
    def again(g: Group) -> int:
        s = g.slots
        carry(s)
        s[iv] = s[iv] + s[step]
        return head

    return again


@_flattens(control.While)
def flatten_while(op: control.While, flat: Flattener, recurse: Recurse) -> None:
    context = flat.context
    before_args = context.slots(tuple(op.before.args))
    body_args = context.slots(tuple(op.body.args))
    enter = _assign(context.slots(op.inits), before_args)

    def begin(g: Group) -> None:
        enter(g.slots)

    flat.emit(begin, op)
    head = flat.here
    recurse(_body(op.before), flat)
    last = op.before.ops[-1]
    hand_on = flat.reserve(None)
    decide = flat.reserve(None)
    body = flat.here
    recurse(_body(op.body), flat)
    back = flat.reserve(None)
    join = flat.reserve(None)
    flat.steps[join] = _join_step(join)
    assign = _assign(context.slots(last.operands[1:]), body_args)
    condition = context.slot(last.operands[0])
    flat.steps[hand_on] = lambda g: assign(g.slots)
    results = _typed(op.results, context)
    free = live_in([op.before, op.body], context)
    live = ([*body_args, *free], list(body_args))

    def part(g: Group, mask: Any) -> Any:
        return _part_loop(g, mask, join, body, results, live)

    flat.steps[decide] = _decide(condition, body, join, part)
    carry = _assign(context.slots(op.body.ops[-1].operands), before_args)
    flat.steps[back] = _poll(op, carry, head, before_args) if _may_wait(op) else _jump(carry, head)


def _may_wait(op: control.While) -> bool:
    """Whether the loop looks at what other threads write: then it must let them run."""
    kinds = (memory.Load, memory.Atomic, sync.MBarrierTryWait)
    return any(isinstance(inner, kinds) for r in op.regions for inner in r.walk())


def _poll(
    op: control.While, carry: Callable[[list[Any]], None], head: int, carried: Sequence[int]
) -> Step:
    kinds = (memory.Store, memory.Atomic, memory.Copy)
    writes = any(isinstance(inner, kinds) for r in op.regions for inner in r.walk())
    signal = Poll(head, carried, writes)

    def step(g: Group) -> Poll:
        carry(g.slots)
        return signal

    return step


@_flattens(control.Return)
def flatten_return(op: control.Return, flat: Flattener, recurse: Recurse) -> None:
    del recurse
    flat.emit(_exit, op)


def _exit(g: Group) -> str:
    del g
    return EXIT


def _never(op: Op, flat: Flattener, recurse: Recurse) -> None:
    del flat, recurse
    raise AssertionError(f"{op.name} belongs to the operation whose region it ends")


FLATTEN[control.Yield] = FLATTEN[control.Condition] = _never


@executes(control.Assert)
def assertion(op: control.Assert, context: Context) -> Step:
    condition = context.slot(op.condition)

    def step(g: Group) -> str | None:
        mask = g.slots[condition]
        if mask is True or (type(mask) is np.ndarray and mask.all()):
            return None
        lane = int(np.argmin(mask)) if type(mask) is np.ndarray else 0
        g.report("assertion", op.message or "assertion failed", op, lane)
        return STOP

    return step


@executes(control.Printf)
def printf(op: control.Printf, context: Context) -> Step:
    slots = context.slots(op.values)
    types = [v.type for v in op.values]
    template = _python_format(op.format)

    def step(g: Group) -> None:
        columns = [spread(g.slots[s], t, g.n).tolist() for s, t in zip(slots, types, strict=True)]
        rows: Iterable[tuple[Any, ...]] = zip(*columns, strict=True) if columns else [()] * g.n
        for row in rows:
            g.run.printed.append(template % row)

    return step


def _python_format(text: str) -> str:
    """C's conversions as Python's `%`: the same but for length modifiers and `%p`."""
    text = re.sub(r"%([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|j|z|t|L)?u", r"%\1d", text)
    text = re.sub(r"%([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|j|z|t|L)([diouxXc])", r"%\1\2", text)
    return text.replace("%p", "0x%x")
