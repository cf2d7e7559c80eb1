"""How an entry becomes a list of closures, and the state that they work on.

Every SSA value has a slot in a *frame*, a list; an operation is compiled once to a *step*, a
closure that reads and writes slots.  Slot 0 holds the `Run`.  A step returns None, or says where
control goes: `CONTINUE`, `BREAK` or `RETURN`.

Values in slots: NumPy arrays (or NumPy scalars, for tiles without dimensions) of the tile's shape
and of `values.dtype_of` its element; addresses for pointers; `views.TensorView` for views;
`tokens.Token` or None for tokens.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import LaunchError
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.ops.tile.base import TileOp
from tilewright.tileir.foreign import shown_name
from tilewright.tileir.interpret.borrow import borrowable
from tilewright.tileir.interpret.findings import FindingLog
from tilewright.tileir.interpret.memory import Memory
from tilewright.tileir.interpret.order import shuffled
from tilewright.tileir.interpret.tokens import Tracker

Frame = list[Any]
Step = Callable[[Frame], int | None]
Compile = Callable[[Any, "Scope"], Step | None]
Table = Mapping[type[TileOp], Compile]

CONTINUE, BREAK, RETURN = 1, 2, 3


def _nothing() -> None:
    """No other block is there to wait for."""


@dataclass(slots=True)
class Run:
    """What one launch shares: memory, the log, which block is running."""

    memory: Memory
    log: FindingLog
    grid: tuple[int, int, int]
    max_iterations: int
    echo: Callable[[str], None] | None = None
    block: tuple[int, int, int] | None = None
    printed: list[str] = field(default_factory=list)
    globals: dict[str, int] = field(default_factory=dict)
    shared: dict[Op, int] = field(default_factory=dict)
    """Addresses of the allocations that all blocks share."""
    tracker: Tracker | None = None
    pause: Callable[[], None] = _nothing
    """Lets the other blocks run."""
    patience: int = 0
    """Iterations of a loop that may wait for another block before it lets them."""
    gave_up: bool = False

    def report(self, kind: str, op: Op, message: str) -> None:
        self.log.add(kind, op, message, self.block)

    def say(self, text: str) -> None:
        """What `print_tko` prints."""
        self.printed.append(text)
        if self.echo is not None:
            self.echo(text)


@dataclass(frozen=True, slots=True)
class Loop:
    """Where `continue` and `break` of a loop put their values."""

    carried: tuple[int, ...]
    results: tuple[int, ...]


class Scope:
    """The slots of one entry, and what surrounds the operation that is being compiled."""

    def __init__(self, table: Table, tracked: bool = False, order: random.Random | None = None):
        self.table = table
        self.tracked = tracked
        """Memory operations keep account of tokens."""
        self.order = order
        """Operations of a block run in another order that their operands allow."""
        self.template: Frame = [None]
        self.loops: list[Loop] = []
        self.yields: list[tuple[int, ...]] = []
        self.borrowed: set[Op] = set()
        """Loads whose tiles may stay views of memory."""
        self._slots: dict[Value, int] = {}

    def slot(self, value: Value) -> int:
        """The slot of a value."""
        found = self._slots.get(value)
        if found is None:
            found = self._slots[value] = len(self.template)
            self.template.append(None)
        return found

    def slots(self, values: Sequence[Value]) -> tuple[int, ...]:
        return tuple(self.slot(v) for v in values)

    def maybe(self, value: Value | None) -> int | None:
        return None if value is None else self.slot(value)

    def constant(self, value: Value, content: Any) -> None:
        """A value that no step needs to compute."""
        self.template[self.slot(value)] = content

    def alias(self, value: Value, source: Value) -> None:
        """A value that is another one."""
        self._slots[value] = self.slot(source)

    def step(self, op: Op) -> Step | None:
        """The step of one operation; None if there is nothing left to do."""
        assert isinstance(op, TileOp), f"{op.name} is not of the tile vocabulary"
        found = self.table.get(type(op))
        if found is None:
            raise LaunchError(f"interpret: {shown_name(op)} is no Tile IR operation", loc=op.loc)
        return found(op, self)

    def body(self, block: Block, without: Container[Op] = ()) -> tuple[Step, ...]:
        """The steps of a block, save those of operations that are compiled already."""
        if not self.tracked:
            self.borrowed |= borrowable(block)
        ops = block.ops if self.order is None else shuffled(block, self.order)
        return tuple(s for op in ops if op not in without and (s := self.step(op)) is not None)


def run_steps(steps: Sequence[Step], frame: Frame) -> int | None:
    """Runs steps in order until one sends control elsewhere; where to."""
    for step in steps:
        code = step(frame)
        if code is not None:
            return code
    return None


def computed(make: Callable[[Any], Callable[..., Any]]) -> Compile:
    """Compiles an operation with one result that is a function of its operands.

    `make(op)` gives the function.
    """

    def compile_op(op: Op, scope: Scope) -> Step:
        fn, inputs, r = make(op), scope.slots(op.operands), scope.slot(op.results[0])
        if len(inputs) == 1:
            (a,) = inputs

            def unary(f: Frame) -> None:
                f[r] = fn(f[a])

            return unary
        if len(inputs) == 2:
            a, b = inputs

            def binary(f: Frame) -> None:
                f[r] = fn(f[a], f[b])

            return binary

        def general(f: Frame) -> None:
            f[r] = fn(*[f[i] for i in inputs])

        return general

    return compile_op


def watched(make: Callable[[Any], Callable[..., Any]]) -> Compile:
    """As `computed`; the function is told the `Run` first, to report what it finds."""

    def compile_op(op: Op, scope: Scope) -> Step:
        fn, inputs, r = make(op), scope.slots(op.operands), scope.slot(op.results[0])

        def step(f: Frame) -> None:
            f[r] = fn(f[0], *[f[i] for i in inputs])

        return step

    return compile_op
