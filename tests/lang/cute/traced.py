"""Hand-opened traces, and a small evaluator of the address arithmetic that they hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tilewright.arch.target import target
from tilewright.ir.core import Block, Func, Module, Op, Value
from tilewright.ir.evaluate import evaluate
from tilewright.ir.ops import arith, control, memory, sync
from tilewright.ir.types import PtrType, ScalarType, Space, TensorMapType, Type
from tilewright.ir.verify import verify_func
from tilewright.lang.cute.facts import assume
from tilewright.lang.cute.pointer import Pointer
from tilewright.lang.cute.tensor import Tensor
from tilewright.lang.trace import Trace, tracing
from tilewright.lang.values import from_ir
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import dtype

SHARED_BASE = 1024


@dataclass
class Kernel:
    """A function being traced: `ops` are those of its body, `add` its arguments."""

    func: Func
    trace: Trace

    def argument(self, kind: Type, name: str = "x") -> Value:
        made = Value(kind, self.func.body, name)
        self.func.body.args.append(made)
        return made

    def number(self, name: str, row: str = "i32", divby: int | None = None) -> Any:
        """A run-time number; integers known to be multiples of `divby`."""
        return assume(from_ir(self.argument(ScalarType(dtype(row)), name)), divby)

    def gmem(self, row: str, layout: Any, align: int = 16) -> Tensor:
        """A tensor in global memory."""
        base = self.argument(PtrType(dtype(row), Space.GMEM, align), "g")
        return Tensor(Pointer(base), layout if isinstance(layout, Layout) else Layout(layout))

    def tensormap(self) -> Value:
        return self.argument(TensorMapType(), "tma")

    @property
    def ops(self) -> list[Op]:
        return list(self.func.body.walk())

    def all(self, kind: type[Op]) -> list[Any]:
        """The operations of one kind, in order."""
        return [op for op in self.ops if isinstance(op, kind)]

    def verify(self) -> None:
        """Closes the function and verifies it."""
        self.func.body.ops.append(control.Return())
        verify_func(self.func)


@contextmanager
def kernel(on: str | None = "sm_90a", kind: str = "kernel") -> Iterator[Kernel]:
    """A trace of a kernel (or of the host) for a target."""
    func = Func("k", Block(), kind=kind)
    trace = Trace(func, Module(), target(on) if on else None)
    with tracing(trace):
        yield Kernel(func, trace)


def addresses(k: Kernel, inputs: dict[str, int]) -> dict[Value, int]:
    """The value of every pointer (in bytes) and integer of straight-line code.

    `inputs` gives special registers ("thread_idx", with axis 0) and arguments by name; shared
    buffers lie one after the other from 1024, register arrays at 0.
    """
    known: dict[Value, Any] = {}
    at = SHARED_BASE
    for arg in k.func.args:
        known[arg] = inputs.get(arg.name, 0)
    for op in k.func.body.ops:
        args = [known.get(v) for v in op.operands]
        if isinstance(op, memory.AllocShared):
            at = -(-at // op.align) * op.align
            known[op.result] = at
            at += dtype(op.dtype).bytes_for(op.count)
        elif isinstance(op, memory.AllocRegisters):
            known[op.result] = 0
        elif isinstance(op, memory.Offset):
            bits = op.base.type.dtype.storage_bits
            known[op.result] = args[0] + args[1] * bits // 8
            assert args[1] % op.divisor == 0, f"{op} promises too much"
            assert known[op.result] % op.result.type.align == 0 or op.base.type.space is Space.RMEM
        elif isinstance(op, memory.CastPointer | memory.SharedAddress | memory.GlobalAddress):
            known[op.result] = args[0]
        elif isinstance(op, sync.Special):
            known[op.result] = inputs.get(op.register, 0) if op.axis == 0 else 0
        elif isinstance(op, sync.WarpUniform):
            known[op.result] = args[0]
        elif op.results and (isinstance(op, arith.Constant) or None not in args):
            known[op.results[0]] = evaluate(op, args)
    return known
