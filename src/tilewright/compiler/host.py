"""Runs the host side of a program: from argument values to what is launched.

A host function computes grid sizes and tensor maps from sizes, strides and addresses.  It is
evaluated here, on Python numbers, at each launch with new arguments; the arithmetic is the IR's
own (`ir.evaluate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import LaunchError
from tilewright.ir.core import Block, Func, Op, Value
from tilewright.ir.evaluate import Number, evaluate
from tilewright.ir.ops import control, host, memory
from tilewright.ir.types import PtrType, element_type
from tilewright.numeric.dtypes import DType


@dataclass(frozen=True, slots=True)
class TensorMapFields:
    """The fields of one TMA descriptor: dimensions innermost first, outer strides in bytes."""

    dtype: str
    base: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str
    l2_promotion: int
    oob_nan: bool
    label: str

    def at(self, base: int) -> TensorMapFields:
        """The same tensor at another address."""
        return TensorMapFields(
            self.dtype,
            base,
            self.dims,
            self.strides,
            self.box,
            self.swizzle,
            self.l2_promotion,
            self.oob_nan,
            self.label,
        )


Argument = Number | TensorMapFields
Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One kernel launch: what to run, how often, with which arguments."""

    kernel: str
    grid: Dim3
    block: Dim3
    cluster: Dim3
    smem_bytes: int
    args: tuple[Argument, ...]
    pdl: bool


def evaluate_host(func: Func, args: Sequence[Number]) -> list[LaunchRecord]:
    """The launches of a host function for one set of argument values, in order.

    Raises: LaunchError if the function does on the host what only a kernel can do.
    """
    machine = _Host()
    machine.values.update(zip(func.args, args, strict=True))
    machine.block(func.body)
    return machine.launches


class HostRun:
    """A host function that has run, and runs again where its arguments changed.

    `update` computes only the operations that depend on what changed; which these are is found
    once for each set of arguments that change together.
    """

    def __init__(self, func: Func, args: Sequence[Number]) -> None:
        self._machine = _Host()
        self._ops = tuple(op for op in func.body.ops if not op.terminator)
        self._names = func.args
        self._args = list(args)
        self._records: dict[int, list[LaunchRecord]] = {}
        self._dependents: dict[tuple[int, ...], tuple[tuple[int, bool], ...]] = {}
        self._machine.values.update(zip(func.args, args, strict=True))
        self._run([(i, False) for i in range(len(self._ops))])

    @property
    def records(self) -> list[LaunchRecord]:
        """The launches, in order."""
        return [record for _, found in sorted(self._records.items()) for record in found]

    def update(self, args: Sequence[Number]) -> list[LaunchRecord]:
        """The launches for other argument values."""
        old = self._args
        changed = tuple(i for i, value in enumerate(args) if value != old[i])
        for i in changed:
            self._machine.values[self._names[i]] = args[i]
        self._args = list(args)
        found = self._dependents.get(changed)
        if found is None:
            found = self._dependents[changed] = self._depending(changed)
        self._run(found)
        return self.records

    def _run(self, operations: Sequence[tuple[int, bool]]) -> None:
        machine = self._machine
        for i, moves in operations:
            op = self._ops[i]
            if moves:
                old, base = machine.values[op.results[0]], machine.values[op.operands[0]]
                assert isinstance(old, TensorMapFields), "it moves"
                machine.values[op.results[0]] = old.at(int(_number(base)))
                continue
            machine.launches = []
            machine.op(op)
            if machine.launches or i in self._records:
                self._records[i] = machine.launches

    def _depending(self, changed: tuple[int, ...]) -> tuple[tuple[int, bool], ...]:
        """The operations that must run again, in order; and whether only a tensor map moves."""
        stale = {self._names[i] for i in changed}
        found = []
        for i, op in enumerate(self._ops):
            reads = _reads(op)
            if stale.intersection(reads):
                is_map = isinstance(op, host.MakeTensorMap)
                found.append((i, is_map and not stale.intersection(reads[1:])))
                stale.update(op.results)
        return tuple(found)


def _reads(op: Op) -> list[Value]:
    """The values that an operation reads, those inside its regions too."""
    found = list(op.operands)
    for region in op.regions:
        for inner in region.ops:
            found.extend(_reads(inner))
    return found


class _Host:
    def __init__(self) -> None:
        self.values: dict[Value, Argument] = {}
        self.launches: list[LaunchRecord] = []

    def block(self, block: Block) -> list[Argument]:
        """Runs a block; gives the values that its terminator hands on."""
        for op in block.ops:
            if op.terminator:
                return [self.values[v] for v in op.operands]
            self.op(op)
        return []

    def op(self, op: Op) -> None:
        args = [self.values[v] for v in op.operands]
        if isinstance(op, host.Launch):
            self.launches.append(_launch(op, args))
        elif isinstance(op, host.MakeTensorMap):
            self.values[op.result] = _tensor_map(op, args)
        elif isinstance(op, memory.Offset):
            self.values[op.result] = _number(args[0]) + _bytes(op.base.type, args[1])
        elif isinstance(op, memory.CastPointer | memory.GlobalAddress):
            self.values[op.result] = args[0]
        elif isinstance(op, control.If):
            taken = op.then if args[0] else op.orelse
            self._bind(op.results, self.block(taken))
        elif isinstance(op, control.For):
            self._loop(op, args)
        elif isinstance(op, control.Assert):
            if not args[0]:
                raise LaunchError(f"assertion failed: {op.message}", loc=op.loc)
        else:
            self._arithmetic(op, [_number(a) for a in args])

    def _bind(self, names: Sequence[Value], values: Sequence[Argument]) -> None:
        self.values.update(zip(names, values, strict=True))

    def _loop(self, op: control.For, args: list[Argument]) -> None:
        start, stop, step = (int(_number(a)) for a in args[:3])
        carried = args[3:]
        for i in range(start, stop, step):
            self._bind(op.body.args, [i, *carried])
            carried = self.block(op.body)
        self._bind(op.results, carried)

    def _arithmetic(self, op: Op, args: list[Number]) -> None:
        result = evaluate(op, args)
        if result is None:
            raise LaunchError(
                f"{op.name} cannot run on the host", loc=op.loc, hint="move it into the kernel"
            )
        self.values[op.results[0]] = result


def _number(value: Argument) -> Number:
    assert not isinstance(value, TensorMapFields), "verified: a tensor map is no number"
    return value


def _bytes(pointer: object, elements: Argument) -> int:
    assert isinstance(pointer, PtrType), "verified: an offset is taken from a pointer"
    return int(_number(elements)) * pointer.dtype.storage_bits // 8


def _size(dtype: DType, elements: Argument) -> int:
    return int(_number(elements)) * dtype.storage_bits // 8


def _tensor_map(op: host.MakeTensorMap, args: list[Argument]) -> TensorMapFields:
    dtype = element_type(op.base.type)
    geometry = args[1:]
    return TensorMapFields(
        dtype=dtype.name,
        base=int(_number(args[0])),
        dims=tuple(int(_number(d)) for d in geometry[: op.rank]),
        strides=tuple(_size(dtype, s) for s in geometry[op.rank :]),
        box=op.box,
        swizzle=op.swizzle,
        l2_promotion=op.l2_promotion,
        oob_nan=op.oob_nan,
        label=op.label,
    )


def _launch(op: host.Launch, args: list[Argument]) -> LaunchRecord:
    sizes = [int(_number(a)) for a in args[:10]]
    return LaunchRecord(
        kernel=op.kernel,
        grid=(sizes[0], sizes[1], sizes[2]),
        block=(sizes[3], sizes[4], sizes[5]),
        cluster=(sizes[6], sizes[7], sizes[8]),
        smem_bytes=sizes[9],
        args=tuple(args[10:]),
        pdl=op.pdl,
    )
