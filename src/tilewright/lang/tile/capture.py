"""From a kernel and a signature to a Tile IR module."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import Loc
from tilewright.ir.core import Block, Value
from tilewright.ir.ops.tile.base import TileOp, Version
from tilewright.ir.ops.tile.module import Entry, Module
from tilewright.ir.tile_attrs import Bounded, DivBy, HintsAttr, TypeAttr
from tilewright.ir.tile_debug import DICompileUnit, DIFile, DILoc, DISubprogram, FileLoc
from tilewright.ir.tile_types import FunctionType, PointerType, TileIrType, TileType
from tilewright.lang.tile.arrays import assume, make_array
from tilewright.lang.tile.carried import assembled
from tilewright.lang.tile.dtypes import DType, int32, int64
from tilewright.lang.tile.errors import TileError, TileTypeError
from tilewright.lang.tile.frames import PYTHON_FRAMES
from tilewright.lang.tile.functions import info_of
from tilewright.lang.tile.kernel import Parameter, kernel
from tilewright.lang.tile.signature import (
    ArrayConstraint,
    ConstantConstraint,
    DataclassConstraint,
    KernelSignature,
    ListConstraint,
    ScalarConstraint,
    TupleConstraint,
)
from tilewright.lang.tile.simplify import simplify
from tilewright.lang.tile.state import Trace, new_block, tracing
from tilewright.lang.tile.statements import Evaluator
from tilewright.lang.tile.support import check_support
from tilewright.lang.tile.tokens import order_memory
from tilewright.lang.tile.values import Array, ArrayList, Tile, scalar_type

DEFAULT_VERSION: Version = (13, 3)


def parameter_types(c: Any) -> list[TileIrType]:
    """The entry parameters that a constraint stands for."""
    if isinstance(c, ArrayConstraint):
        pointer = TileType((), PointerType(c.dtype.element))
        return [pointer, *([scalar_type(c.index_dtype)] * (2 * c.ndim))]
    if isinstance(c, ListConstraint):
        return [TileType((), PointerType(int64.element)), scalar_type(int32)]
    if isinstance(c, ScalarConstraint):
        return [scalar_type(c.dtype)]
    if isinstance(c, TupleConstraint):
        return [t for item in c.items for t in parameter_types(item)]
    if isinstance(c, DataclassConstraint):
        return [t for item in c.fields for t in parameter_types(item)]
    return []


def _power_of_two(n: int) -> int:
    return min(n & -n, 1 << 30)


def _promised(v: Value, divisor: int, lower: int | None) -> Value:
    promises: list[DivBy | Bounded] = []
    if lower is not None:
        promises.append(Bounded(lower, None))
    if _power_of_two(divisor) > 1:
        promises.append(DivBy(_power_of_two(divisor)))
    return assume(v, *promises)


@dataclass
class _Arrays:
    """The parameters that are arrays: each has an alias group of its own."""

    count: int = 0
    names: list[str] = field(default_factory=list)

    def aliases(self, c: ArrayConstraint) -> frozenset[str]:
        self.count += 1
        own = f"array {self.count}"
        return frozenset({own, *(f"group {g}" for g in c.alias_groups)})


def _array(c: ArrayConstraint, leaves: Sequence[Value], aliases: frozenset[str]) -> Array:
    base = _promised(leaves[0], c.base_addr_divisible_by, None)
    shape: list[int | Tile] = []
    strides: list[int | Tile] = []
    for i in range(c.ndim):
        extent, stride = c.shape_constant[i], c.stride_constant[i]
        if extent is None or extent == 0:
            v = _promised(leaves[1 + i], c.shape_divisible_by[i], 0)
            shape.append(Tile(v, c.index_dtype, ()))
        else:
            shape.append(extent)
        if stride is None or stride <= 0:
            lower = c.stride_lower_bound_incl[i]
            v = _promised(leaves[1 + c.ndim + i], c.stride_divisible_by[i], lower)
            strides.append(Tile(v, c.index_dtype, ()))
        else:
            strides.append(stride)
    return make_array(base, c.dtype, shape, strides, c.index_dtype, aliases)


@dataclass(frozen=True)
class _Element:
    """How an element of a list becomes an array."""

    constraint: ArrayConstraint
    aliases: frozenset[str]

    @property
    def ndim(self) -> int:
        return self.constraint.ndim

    @property
    def dtype(self) -> DType:
        return self.constraint.dtype

    @property
    def index_dtype(self) -> DType:
        return self.constraint.index_dtype

    def build(self, base: Value, extents: Sequence[Tile]) -> Array:
        return _array(self.constraint, [base, *(e.ir for e in extents)], self.aliases)


def _argument(c: Any, leaves: Iterator[Value], arrays: _Arrays) -> Any:
    """A parameter as tile code sees it."""
    if isinstance(c, ConstantConstraint):
        return c.value
    if isinstance(c, ScalarConstraint):
        return Tile(next(leaves), c.dtype, ())
    if isinstance(c, ArrayConstraint):
        return _array(c, [next(leaves) for _ in range(1 + 2 * c.ndim)], arrays.aliases(c))
    if isinstance(c, ListConstraint):
        base, length = next(leaves), next(leaves)
        element = _Element(c.element, arrays.aliases(c.element))
        return ArrayList(base, Tile(length, int32, ()), element)
    if isinstance(c, TupleConstraint):
        return tuple(_argument(item, leaves, arrays) for item in c.items)
    assert isinstance(c, DataclassConstraint), f"{c!r} is a constraint"
    return assembled(c.cls, [_argument(item, leaves, arrays) for item in c.fields])


def _entry_hints(k: kernel, target: str | None, version: Version) -> HintsAttr | None:
    """The entry's hints: of one target, or (from 13.3 on) of any."""
    pairs: list[tuple[str, int | bool | str]] = []
    names = (
        ("num_ctas", "num_cta_in_cga"),
        ("occupancy", "occupancy"),
        ("num_worker_warps", "num_worker_warps_per_cta"),
    )
    for ours, theirs in names:
        found = k.hints.value(ours, target or "")
        if found is not None:
            pairs.append((theirs, found))
    if not pairs:
        return None
    where = "default" if version >= (13, 3) or target is None else target
    return HintsAttr(((where, tuple(pairs)),))


def capture(
    k: kernel,
    signatures: Sequence[KernelSignature],
    *,
    version: Version = DEFAULT_VERSION,
    target: str | None = None,
) -> Block:
    """The module with one entry per signature, its memory operations in order.

    Raises: TileError for a program that has no meaning, at the user's line.
    """
    entries = [_entry(k, s, version, target) for s in signatures]
    module = Module((), {"sym_name": "kernels", "producer": None}, (Block(),), None, ())
    module.body.ops += entries
    top = Block()
    top.ops.append(module)
    return top


def _entry(k: kernel, signature: KernelSignature, version: Version, target: str | None) -> Entry:
    if len(signature.parameters) != len(k.parameters):
        raise TileTypeError(
            f"{k.__name__} takes {len(k.parameters)} arguments, got {len(signature.parameters)}"
        )
    for parameter, constraint in zip(k.parameters, signature.parameters, strict=True):
        _check_constants(parameter, constraint, f"{k.__name__}: {parameter.name}")
    types = [t for c in signature.parameters for t in parameter_types(c)]
    body = new_block(types)
    trace = Trace(body, version)
    with tracing(trace):
        _evaluate(k, signature, trace)
    simplify(body)
    check_support(body, target, version)
    order_memory(body, trace.aliases)
    info = info_of(k.function)
    loc = Loc(info.file, info.line, 0, 0, info.name)
    name = signature.symbol or k.__name__
    entry = Entry(
        (),
        {
            "sym_name": name,
            "function_type": TypeAttr(FunctionType(tuple(types), ())),
            "optimization_hints": _entry_hints(k, target, version),
        },
        (body,),
        loc,
        (),
    )
    _locate(entry, name)
    return entry


def _check_constants(parameter: Parameter, constraint: Any, what: str) -> None:
    """Raises: TileTypeError where the annotation says Constant and the signature does not."""
    if isinstance(constraint, TupleConstraint):
        parts = parameter.inside(len(constraint.items))
        if len(parts) != len(constraint.items):
            count = len(constraint.items)
            raise TileTypeError(f"{what}: a tuple of {count}, annotated as one of {len(parts)}")
        for i, (part, item) in enumerate(zip(parts, constraint.items, strict=True)):
            _check_constants(part, item, f"{what}[{i}]")
    elif parameter.constant and not _is_constant(constraint):
        raise TileTypeError(f"{what} is a Constant, got {constraint!r}")


def _is_constant(c: Any) -> bool:
    if isinstance(c, TupleConstraint):
        return all(map(_is_constant, c.items))
    if isinstance(c, DataclassConstraint):
        return all(map(_is_constant, c.fields))
    return isinstance(c, ConstantConstraint)


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Room for MAX_DEPTH calls, which are evaluated recursively."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, PYTHON_FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _evaluate(k: kernel, signature: KernelSignature, trace: Trace) -> None:
    evaluator = Evaluator(trace)
    info = info_of(k.function)
    frame = evaluator.frame_for(info, k.function, None)
    evaluator.frame = dataclasses.replace(frame, kernel=True)
    evaluator.node = info.node
    try:
        leaves, arrays = iter(trace.body.args), _Arrays()
        for parameter, constraint in zip(k.parameters, signature.parameters, strict=True):
            evaluator.here.locals[parameter.name] = _argument(constraint, leaves, arrays)
        with _deep_recursion():
            evaluator.run_kernel(info.body)
    except TileError as error:
        if error.loc is None:
            error.loc = evaluator.place()
        raise


def _locate(entry: Entry, linkage: str) -> None:
    """Debug information: every operation's line, so that profilers point at Python."""
    assert entry.loc is not None, "an entry has a place"
    file = _di_file(entry.loc.file)
    scope = DISubprogram(
        file, entry.loc.line, entry.loc.function, linkage, DICompileUnit(file), entry.loc.line
    )
    known: dict[tuple[str, int, int], DILoc] = {}

    def place(loc: Loc) -> DILoc:
        key = (loc.file, loc.line, loc.col)
        if key not in known:
            known[key] = DILoc(FileLoc(loc.file, loc.line, loc.col + 1), scope)
        return known[key]

    entry.location = place(entry.loc)
    for op in entry.body.walk():
        if op.loc is not None and isinstance(op, TileOp):
            outermost = list(op.loc.chain())[-1]
            op.location = place(outermost)


def _di_file(path: str) -> DIFile:
    return DIFile(os.path.basename(path), os.path.dirname(path))
