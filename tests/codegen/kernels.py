"""Builds small kernels by hand: what the tests of code generation feed it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tilewright.errors import Loc
from tilewright.ir.builder import Builder
from tilewright.ir.core import AttrValue, Block, Func, Op, Value
from tilewright.ir.ops import arith, control, memory, sync
from tilewright.ir.types import PtrType, ScalarType, Space, TensorMapType, Type
from tilewright.numeric.dtypes import BOOL, I32, U32, DType, dtype


def gmem(name: str, align: int = 16) -> PtrType:
    return PtrType(dtype(name), Space.GMEM, align)


def scalar(name: str) -> ScalarType:
    return ScalarType(dtype(name))


class Kernel:
    """A kernel under construction: shorthands for the operations that tests use most."""

    def __init__(self, name: str, **params: Type) -> None:
        self.body = Block(list(params.values()), list(params))
        self.ir = Builder(self.body)
        self.func = Func(name, self.body)
        self.loc: Loc | None = None
        self.args = dict(zip(params, self.body.args, strict=True))

    def __getattr__(self, name: str) -> Value:
        return self.args[name]

    def i32(self, value: int) -> Value:
        return self.ir.constant(value, I32)

    def u32(self, value: int) -> Value:
        return self.ir.constant(value, U32)

    def bool(self, value: bool) -> Value:
        return self.ir.constant(value, BOOL)

    def const(self, value: float, name: str) -> Value:
        return self.ir.constant(value, dtype(name))

    def v(self, operation: type[Op], *operands: Value, name: str = "", **attrs: AttrValue) -> Value:
        if "kind" in attrs:
            return self.do(operation, *operands, name=name, **attrs).results[0]
        return self.ir.value(operation, *operands, name=name, loc=self.loc, **attrs)

    def do(self, operation: type[Op], *operands: Value, name: str = "", **attrs: AttrValue) -> Op:
        op = self.ir.append(operation(operands, attrs, loc=self.loc))
        for v in op.results:
            v.name = name
        return op

    def add(self, a: Value, b: Value, name: str = "") -> Value:
        return self.v(arith.Add, a, b, name=name)

    def sub(self, a: Value, b: Value, name: str = "") -> Value:
        return self.v(arith.Sub, a, b, name=name)

    def mul(self, a: Value, b: Value, name: str = "") -> Value:
        return self.v(arith.Mul, a, b, name=name)

    def div(self, a: Value, b: Value, name: str = "") -> Value:
        return self.v(arith.FloorDiv, a, b, name=name)

    def mod(self, a: Value, b: Value, name: str = "") -> Value:
        return self.v(arith.Mod, a, b, name=name)

    def cmp(self, a: Value, predicate: str, b: Value, name: str = "") -> Value:
        return self.v(arith.Cmp, a, b, predicate=predicate, name=name)

    def cast(self, a: Value, to: str, name: str = "") -> Value:
        return self.v(arith.Cast, a, dtype=to, name=name)

    def special(self, register: str, axis: int = 0, name: str = "") -> Value:
        return self.v(sync.Special, register=register, axis=axis, name=name)

    def at(self, base: Value, index: Value | int, divisor: int = 1, name: str = "") -> Value:
        if isinstance(index, int):
            index = self.i32(index)
        return self.v(memory.Offset, base, index, divisor=divisor, name=name)

    def load(self, pointer: Value, count: int = 0, name: str = "") -> Value:
        return self.v(memory.Load, pointer, count=count, name=name)

    def store(self, pointer: Value, value: Value) -> None:
        self.do(memory.Store, pointer, value)

    def registers(self, name: str, count: int, label: str = "") -> Value:
        return self.do(memory.AllocRegisters, dtype=name, count=count, label=label).results[0]

    def shared(self, name: str, count: int, offset: int, label: str, align: int = 1024) -> Value:
        return self.do(
            memory.AllocShared, dtype=name, count=count, offset=offset, label=label, align=align
        ).results[0]

    @contextmanager
    def loop(
        self,
        start: Value,
        stop: Value,
        step: Value | None = None,
        inits: Sequence[Value] = (),
        names: Sequence[str] = (),
        iv: str = "i",
        unroll: int = -1,
    ) -> Iterator[Loop]:
        """A `for`: call `loop.end(...)` with the next values, or leave it if there are none."""
        step = step if step is not None else self.ir.constant(1, element(start))
        block = Block(
            [start.type, *(v.type for v in inits)], [iv, *(names or [v.name for v in inits])]
        )
        loop = Loop(block.args[0], block.args[1:])
        with self.ir.inside(block):
            yield loop
            self.do(control.Yield, *loop.next)
        op = control.For([start, stop, step, *inits], {"unroll": unroll}, [block])
        self.ir.append(op)
        loop.results = op.results

    def branch(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value] | None],
        orelse: Callable[[], Sequence[Value] | None] = lambda: None,
    ) -> tuple[Value, ...]:
        blocks = []
        for arm in (then, orelse):
            block = Block()
            with self.ir.inside(block):
                values = arm() or ()
                self.do(control.Yield, *values)
            blocks.append(block)
        op = control.If([condition], {}, blocks)
        self.ir.append(op)
        return op.results

    def whilst(
        self,
        inits: Sequence[Value],
        names: Sequence[str],
        before: Callable[..., tuple[Value, Sequence[Value]]],
        body: Callable[..., Sequence[Value]],
    ) -> tuple[Value, ...]:
        """A `while`: `before` gives (go on?, values handed on), `body` the next carried values."""
        types = [v.type for v in inits]
        first, second = Block(types, names), Block(types, names)
        with self.ir.inside(first):
            go_on, handed = before(*first.args)
            self.do(control.Condition, go_on, *handed)
        with self.ir.inside(second):
            self.do(control.Yield, *body(*second.args))
        op = control.While(list(inits), {}, [first, second])
        self.ir.append(op)
        return op.results

    def done(self) -> Func:
        self.do(control.Return)
        return self.func


class Loop:
    def __init__(self, iv: Value, args: Sequence[Value]) -> None:
        self.iv = iv
        self.args = tuple(args)
        self.next: tuple[Value, ...] = ()
        self.results: tuple[Value, ...] = ()

    def end(self, *values: Value) -> None:
        self.next = values


def element(value: Value) -> DType:
    assert isinstance(value.type, ScalarType)
    return value.type.dtype


TENSOR_MAP = TensorMapType()
