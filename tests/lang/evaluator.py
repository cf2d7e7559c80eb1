"""Runs captured scalar code: a small interpreter of arithmetic and control flow.

`run(fn, 1, 2.0)` traces `fn` with run-time arguments (Int32, Float32, Boolean by the Python type),
interprets the IR on the numbers, and gives what `fn` returned, as Python numbers, along with what
it observed through `observe`.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.ir.core import Block, Func, Module, Op, Value
from tilewright.ir.evaluate import evaluate, wrap
from tilewright.ir.ops import arith, control
from tilewright.ir.types import ScalarType
from tilewright.lang import trace
from tilewright.lang.carried import map_leaves
from tilewright.lang.control import captured
from tilewright.lang.launch import run_body
from tilewright.lang.trace import Trace
from tilewright.lang.values import as_numeric, from_ir


class AssertionFailed(Exception):
    pass


class Machine:
    """Values of SSA names, and the log of what was observed."""

    def __init__(self) -> None:
        self.values: dict[Value, Any] = {}
        self.log: list[Any] = []
        self.steps = 0

    def get(self, values: Any) -> list[Any]:
        return [self.values[v] for v in values]

    def put(self, values: Any, numbers: Any) -> None:
        self.values.update(zip(values, numbers, strict=True))

    def block(self, block: Block, inputs: Any = ()) -> list[Any]:
        """Runs a block; what its terminator hands on."""
        self.put(block.args, inputs)
        for op in block.ops:
            self.steps += 1
            assert self.steps < 200_000, "the captured loop does not end"
            if op.terminator:
                return self.get(op.operands)
            self.op(op)
        return []

    def op(self, op: Op) -> None:
        args = self.get(op.operands)
        if isinstance(op, control.If):
            self.put(op.results, self.block(op.then if args[0] else op.orelse))
        elif isinstance(op, control.For):
            start, stop, step, *state = args
            for i in range(start, stop, step):
                state = self.block(op.body, [i, *state])
            self.put(op.results, state)
        elif isinstance(op, control.While):
            state = args
            while True:
                go_on, *handed = self.block(op.before, state)
                if not go_on:
                    break
                state = self.block(op.body, handed)
            self.put(op.results, handed)
        elif isinstance(op, control.Assert):
            if not args[0]:
                raise AssertionFailed(op.message)
        elif isinstance(op, control.Printf):
            self.log += args
        else:
            self.put(op.results, [self.scalar(op, args)])

    def scalar(self, op: Op, args: list[Any]) -> Any:
        if isinstance(op, arith.Math):
            return float(getattr(math, {"abs": "fabs"}.get(op.function, op.function))(args[0]))
        if isinstance(op, arith.Cast) and not args_are_ints(args):
            target = op.results[0].type.dtype
            return wrap(int(args[0]) if target.is_integer else args[0], target)
        result = evaluate(op, args)
        if result is None and isinstance(op, arith.Cast):
            return float(args[0])
        assert result is not None, f"{op} has no value for {args}"
        return result


def args_are_ints(args: list[Any]) -> bool:
    return all(isinstance(a, int) for a in args)


def observe(*numbers: Any) -> None:
    """An effect: appends the numbers to the log when it is reached."""
    trace.emit(control.Printf, *(as_numeric(n).ir_value() for n in numbers), format="%d")


class Captured:
    """A traced function of scalars, ready to be run on numbers."""

    def __init__(self, fn: Any, *examples: Any, static: tuple[Any, ...] = ()) -> None:
        types = [as_numeric(x).dtype for x in examples]
        self.block = Block([ScalarType(t.dtype) for t in types], [""] * len(types))
        self.func = Func("test", self.block)
        self.trace = Trace(self.func, Module())
        with trace.tracing(self.trace):
            arguments = [from_ir(v) for v in self.block.args]
            self.result = run_body(captured(fn), [*static, *arguments], {})
        assert self.trace.depth == 1
        assert not self.trace.operands
        check_dominance(self.block)

    def __call__(self, *numbers: Any) -> Any:
        self.machine = Machine()
        self.machine.block(self.block, [getattr(n, "raw", n) for n in numbers])

        def number(_path: Any, leaf: Any) -> Any:
            raw = getattr(leaf, "raw", leaf)
            return self.machine.values[raw] if isinstance(raw, Value) else raw

        return map_leaves(self.result, number)

    @property
    def log(self) -> list[Any]:
        return self.machine.log

    def ops(self, kind: type[Op]) -> list[Op]:
        return [op for op in self.block.walk() if isinstance(op, kind)]


def run(fn: Any, *numbers: Any, static: tuple[Any, ...] = ()) -> Any:
    """Captures `fn` with run-time arguments and runs it on the numbers."""
    return Captured(fn, *numbers, static=static)(*numbers)


def check_dominance(block: Block, known: frozenset[Value] = frozenset()) -> None:
    """Every operand is defined before its use, and every region operation is well formed."""
    seen = set(known) | set(block.args)
    for op in block.ops:
        for v in op.operands:
            assert v in seen, f"{op} uses {v} before or outside of its definition"
        for region in op.regions:
            check_dominance(region, frozenset(seen))
        problem = op.check()
        assert problem is None, f"{op.name}: {problem}"
        seen.update(op.results)
