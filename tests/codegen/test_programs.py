"""Random structured programs: what the text computes is what the IR computes.

Loops, branches and whiles carry values that are swapped, reused and dropped; loads and stores
stand between them.  g++ compiles the text, a dozen lines of Python interpret the IR.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kernels import Kernel, gmem, scalar

from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.ir.core import Block, Func, Op, Value
from tilewright.ir.evaluate import evaluate
from tilewright.ir.ops import arith, control, memory

HOST = """
#define __global__
#define __device__
#define __forceinline__ inline
static int min(int a, int b) { return a < b ? a : b; }
static int max(int a, int b) { return a > b ? a : b; }
"""
CELLS = 16
KINDS = (arith.Add, arith.Sub, arith.Mul, arith.Xor, arith.Min, arith.Max)


class Interpreter:
    """Runs a kernel of one thread on Python integers."""

    def __init__(self, func: Func, cells: list[int], n: int) -> None:
        self.cells = cells
        self.values: dict[Value, int] = {func.args[0]: 0, func.args[1]: n}
        self.block(func.body)

    def block(self, block: Block, args: Sequence[int] = ()) -> list[int]:
        self.values.update(zip(block.args, args, strict=False))
        for op in block.ops[:-1]:
            self.op(op)
        return [self.values[v] for v in block.ops[-1].operands]

    def op(self, op: Op) -> None:
        get = self.values.__getitem__
        if isinstance(op, memory.Offset):
            results = [get(op.base) + get(op.index)]
        elif isinstance(op, memory.Load):
            results = [self.cells[get(op.base)]]
        elif isinstance(op, memory.Store):
            self.cells[get(op.base)] = get(op.value)
            results = []
        elif isinstance(op, control.If):
            results = self.block(op.then if get(op.condition) else op.orelse)
        elif isinstance(op, control.For):
            results = [get(v) for v in op.inits]
            for i in range(get(op.start), get(op.stop), get(op.step)):
                results = self.block(op.body, [i, *results])
        elif isinstance(op, control.While):
            results = [get(v) for v in op.inits]
            while True:
                go_on, *results = self.block(op.before, results)
                if not go_on:
                    break
                results = self.block(op.body, results)
        else:
            value = evaluate(op, [get(v) for v in op.operands])
            assert value is not None, op
            results = [int(value)]
        self.values.update(zip(op.results, results, strict=True))


class Writer:
    """Draws a program: keeps a pool of visible i32 values, and adds statements."""

    def __init__(self, draw: st.DrawFn, name: str) -> None:
        self.draw = draw
        self.k = Kernel(name, out=gmem("i32"), n=scalar("i32"))
        self.pool: list[Value] = [self.k.n]

    def pick(self) -> Value:
        if self.draw(st.integers(0, 4)) == 0:
            return self.k.i32(self.draw(st.integers(-3, 9)))
        # The newest values most often: they are what gets overwritten.
        return self.pool[-1 - min(self.draw(st.integers(0, 6)), len(self.pool) - 1)]

    def cell(self) -> Value:
        index = self.k.v(arith.And, self.pick(), self.k.i32(CELLS - 1))
        return self.k.at(self.k.out, index)

    def condition(self) -> Value:
        predicate = self.draw(st.sampled_from(["lt", "eq", "ge", "ne"]))
        return self.k.cmp(self.pick(), predicate, self.pick())

    def statements(self, depth: int) -> None:
        for _ in range(self.draw(st.integers(1, 4))):
            choice = self.draw(st.integers(0, 9))
            if depth and choice >= 5:
                (self.loop, self.loop, self.branch, self.branch, self.whilst)[choice - 5](depth)
            elif choice == 0:
                self.k.store(self.cell(), self.pick())
            elif choice == 1:
                self.pool.append(self.k.load(self.cell()))
            else:
                kind = self.draw(st.sampled_from(KINDS))
                small = self.k.v(arith.And, self.pick(), self.k.i32(1023))
                self.pool.append(self.k.v(kind, small, self.pick()))

    def inside(self, depth: int, more: Sequence[Value], count: int) -> list[Value]:
        """The statements of a nested block, and `count` values for it to end with."""
        kept = list(self.pool)
        self.pool = [*kept, *more]
        self.statements(depth - 1)
        values = [self.pick() for _ in range(count)]
        self.pool = kept
        return values

    def loop(self, depth: int) -> None:
        inits = [self.pick() for _ in range(self.draw(st.integers(0, 3)))]
        stop = self.k.v(arith.And, self.pick(), self.k.i32(3))
        with self.k.loop(self.k.i32(0), stop, inits=inits) as loop:
            loop.end(*self.inside(depth, [loop.iv, *loop.args], len(inits)))
        self.pool = [*self.pool, *loop.results]

    def branch(self, depth: int) -> None:
        count = self.draw(st.integers(0, 3))
        arm = self.draw(st.integers(0, 2))

        def trivial() -> list[Value]:
            return [self.pick() for _ in range(count)]

        def full() -> list[Value]:
            return self.inside(depth, [], count)

        results = self.k.branch(self.condition(), full if arm else trivial, trivial)
        self.pool = [*self.pool, *results]

    def whilst(self, depth: int) -> None:
        k = self.k
        inits = [k.i32(0), *(self.pick() for _ in range(self.draw(st.integers(0, 2))))]

        def before(count: Value, *carried: Value) -> tuple[Value, list[Value]]:
            go_on = k.cmp(count, "lt", k.i32(3))
            if self.draw(st.booleans()):
                return go_on, [count, *carried]
            return go_on, [count, *self.inside(1, carried, len(carried))]

        def body(count: Value, *carried: Value) -> list[Value]:
            values = self.inside(depth, [count, *carried], len(carried))
            return [k.add(count, k.i32(1)), *values]

        results = k.whilst(inits, [""] * len(inits), before, body)
        self.pool = [*self.pool, *results]

    def finish(self) -> Func:
        for n, value in enumerate(self.pool[-CELLS // 2 :]):
            self.k.store(self.k.at(self.k.out, n), value)
        return self.k.done()


@st.composite
def programs(draw: st.DrawFn) -> list[Func]:
    made = []
    for n in range(12):
        writer = Writer(draw, f"program_{n}")
        writer.statements(3)
        made.append(writer.finish())
    return made


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would compile for minutes
)
@given(programs())
def test_programs_compute_what_the_ir_computes(tmp_path: Path, made: list[Func]) -> None:
    texts = [emit_cuda(func, line_info=False) for func in made]
    bodies = [f"namespace n{n} {{\n#undef DEV\n{text}}}\n" for n, text in enumerate(texts)]
    source = tmp_path / "programs.cpp"
    source.write_text(HOST + "\n".join(bodies))
    library = tmp_path / f"{abs(hash(tuple(texts)))}.so"
    command = ["g++", "-fwrapv", "-w", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)
    compiled = ctypes.CDLL(str(library))
    for func, text in zip(made, texts, strict=True):
        for n in (0, 3, -5):
            cells = np.arange(CELLS, dtype=np.int32) * 7 - 20
            wanted = [int(c) for c in cells]
            Interpreter(func, wanted, n)
            pointer = ctypes.c_void_p(cells.ctypes.data)
            getattr(compiled, func.name)(pointer, ctypes.c_int(n))
            assert cells.tolist() == wanted, f"n = {n}\n{text}"
