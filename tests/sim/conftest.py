"""Hand-built kernels for the simulator: there is no frontend below this room."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.errors import Loc
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Func, Op, Value
from tilewright.ir.ops import arith, control, memory, sync
from tilewright.ir.types import PtrType, ScalarType, Space, TensorMapType, Type
from tilewright.numeric.dtypes import BOOL, I32, U32, DType
from tilewright.sim.machine import GlobalMemory, Launch, Report, SimOptions, TensorMap, simulate


class Kit:
    """A kernel under construction, and the buffers to run it on."""

    def __init__(self, *types: Type, names: Sequence[str] = ()) -> None:
        self.body = Block(list(types), list(names) or [f"arg{i}" for i in range(len(types))])
        self.args = self.body.args
        self.b = Builder(self.body)
        self.memory = GlobalMemory()
        self.smem = 0
        self.max_threads = 0

    # -- types ----------------------------------------------------------------------------------

    @staticmethod
    def gmem(dtype: DType, align: int = 16) -> PtrType:
        return PtrType(dtype, Space.GMEM, align)

    @staticmethod
    def scalar(dtype: DType) -> ScalarType:
        return ScalarType(dtype)

    @staticmethod
    def tensormap() -> TensorMapType:
        return TensorMapType()

    # -- building -------------------------------------------------------------------------------

    def loc(self) -> Loc:
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        assert frame is not None
        return Loc(frame.f_code.co_filename, frame.f_lineno)

    def v(self, op: type[Op], *operands: Any, **attrs: Any) -> Value:
        """The result of an operation; Python ints become i32 constants."""
        values = [self.lift(x) for x in operands]
        if "kind" in attrs:  # the builder's own word
            return self.b.append(op(values, attrs, (), self.loc())).results[0]
        return self.b.value(op, *values, loc=self.loc(), **attrs)

    def do(self, op: type[Op], *operands: Any, **attrs: Any) -> Op:
        return self.b.emit(op, *map(self.lift, operands), loc=self.loc(), **attrs)

    def lift(self, x: Any) -> Value:
        if isinstance(x, Value):
            return x
        return self.c(x, BOOL) if isinstance(x, bool) else self.c(x, I32)

    def c(self, x: Any, dtype: DType) -> Value:
        return self.b.constant(x, dtype)

    def u32(self, x: int) -> Value:
        return self.c(x, U32)

    def tid(self, axis: int = 0) -> Value:
        return self.v(sync.Special, register="thread_idx", axis=axis)

    def bid(self, axis: int = 0) -> Value:
        return self.v(sync.Special, register="block_idx", axis=axis)

    def special(self, register: str, axis: int = 0) -> Value:
        return self.v(sync.Special, register=register, axis=axis)

    def add(self, a: Any, b: Any) -> Value:
        return self.v(arith.Add, a, b)

    def sub(self, a: Any, b: Any) -> Value:
        return self.v(arith.Sub, a, b)

    def mul(self, a: Any, b: Any) -> Value:
        return self.v(arith.Mul, a, b)

    def div(self, a: Any, b: Any) -> Value:
        return self.v(arith.FloorDiv, a, b)

    def mod(self, a: Any, b: Any) -> Value:
        return self.v(arith.Mod, a, b)

    def cmp(self, predicate: str, a: Any, b: Any) -> Value:
        return self.v(arith.Cmp, a, b, predicate=predicate)

    def cast(self, a: Any, dtype: DType, **attrs: Any) -> Value:
        return self.v(arith.Cast, a, dtype=dtype.name, **attrs)

    def at(self, base: Value, index: Any, divisor: int = 1) -> Value:
        return self.v(memory.Offset, base, index, divisor=divisor)

    def load(self, base: Value, index: Any = 0, count: int = 0, divisor: int = 1) -> Value:
        return self.v(memory.Load, self.at(base, index, divisor), count=count)

    def store(self, base: Value, index: Any, value: Any, divisor: int = 1) -> None:
        self.do(memory.Store, self.at(base, index, divisor), value)

    def shared(self, dtype: DType, count: int, align: int = 16, label: str = "") -> Value:
        self.smem = -(-self.smem // align) * align
        offset, self.smem = self.smem, self.smem + dtype.bytes_for(count)
        return self.v(
            memory.AllocShared,
            dtype=dtype.name,
            count=count,
            align=align,
            label=label,
            offset=offset,
        )

    def registers(self, dtype: DType, count: int, label: str = "") -> Value:
        return self.v(memory.AllocRegisters, dtype=dtype.name, count=count, label=label)

    def if_(
        self,
        condition: Value,
        then: Callable[[], Any],
        orelse: Callable[[], Any] = lambda: (),
    ) -> tuple[Value, ...]:
        blocks = []
        for side in (then, orelse):
            with self.b.inside(Block()) as block:
                self._yield(side())
            blocks.append(block)
        return self.do(control.If, condition, regions=blocks).results

    def for_(
        self,
        start: Any,
        stop: Any,
        step: Any,
        body: Callable[..., Any],
        inits: Sequence[Value] = (),
    ) -> tuple[Value, ...]:
        bounds = [self.lift(x) for x in (start, stop, step)]
        block = Block([bounds[0].type, *(v.type for v in inits)])
        with self.b.inside(block):
            self._yield(body(*block.args))
        return self.do(control.For, *bounds, *inits, regions=[block]).results

    def while_(
        self,
        before: Callable[..., tuple[Value, Sequence[Value]]],
        body: Callable[..., Any],
        inits: Sequence[Value] = (),
    ) -> tuple[Value, ...]:
        first, second = (Block([v.type for v in inits]) for _ in range(2))
        with self.b.inside(first):
            go_on, values = before(*first.args)
            self.do(control.Condition, go_on, *values)
        with self.b.inside(second):
            self._yield(body(*second.args))
        return self.do(control.While, *inits, regions=[first, second]).results

    def _yield(self, values: Any) -> None:
        values = values if isinstance(values, tuple) else (values,)
        self.do(control.Yield, *(v for v in values if isinstance(v, Value)))

    # -- running --------------------------------------------------------------------------------

    def map(self, array: np.ndarray[Any, Any], name: str = "") -> int:
        flat = array.reshape(-1)
        assert np.shares_memory(flat, array), "the buffer must be contiguous"
        return self.memory.map(flat.view(np.uint8), name or "buffer", 0)

    def func(self) -> Func:
        if not self.body.ops or not isinstance(self.body.ops[-1], control.Return):
            self.do(control.Return)
        return Func("kernel", self.body, smem_bytes=self.smem, max_threads=self.max_threads)

    def run(
        self,
        *args: Any,
        grid: int | tuple[int, ...] = 1,
        block: int | tuple[int, ...] = 32,
        cluster: tuple[int, int, int] = (1, 1, 1),
        options: SimOptions | None = None,
        quiet: bool = False,
        **kwargs: Any,
    ) -> Report:
        """Arrays are mapped and passed by address.  `quiet`: findings do not raise."""
        given = [
            self.map(a, v.name) if isinstance(a, np.ndarray) else a
            for a, v in zip(args, self.args, strict=True)
        ]
        launch = Launch(
            self.func(), _dim3(grid), _dim3(block), cluster, args=tuple(given), **kwargs
        )
        options = options or SimOptions(raise_on_findings=not quiet)
        return simulate(launch, self.memory, options)


def _dim3(x: int | tuple[int, ...]) -> tuple[int, int, int]:
    given = (x,) if isinstance(x, int) else x
    return (*given, 1, 1)[:3]  # type: ignore[return-value]


def kinds(report: Report) -> list[str]:
    return [f.kind for f in report.findings]


@pytest.fixture
def kit() -> type[Kit]:
    return Kit


@pytest.fixture
def tensor_map() -> type[TensorMap]:
    return TensorMap
