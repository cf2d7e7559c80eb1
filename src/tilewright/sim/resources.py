"""What a kernel takes of an SM: registers per thread, by estimate, and shared memory.

The estimate is the peak of live values: 32-bit registers of every value between its definition and
its last use, and of register arrays between their first and their last use.  Whatever a loop uses
and did not define is live in all of it.  Constants, parameters, predicates, constant offsets of
addresses, and values that are elements of an array cost nothing.  ptxas moves, recomputes and
spills, so that its figure differs: where a cubin is at hand, believe that one.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from tilewright.errors import Loc
from tilewright.ir.core import Block, Func, Op, Value, count_uses
from tilewright.ir.ops import arith, control, memory
from tilewright.ir.types import PtrType, ScalarType, Space, Type, VecType
from tilewright.numeric.dtypes import dtype

REGISTER_BITS = 32


@dataclass(frozen=True, slots=True)
class Resources:
    """`registers`: per thread, by estimate, at `peak`.  `shared_bytes`: per block; `buffers` of it,
    by their labels, the largest first."""

    registers: int
    peak: Loc | None
    shared_bytes: int
    buffers: tuple[tuple[str, int], ...]


def resources_of(func: Func) -> Resources:
    """What one block and its threads need.

    >>> from tilewright.ir.builder import Builder
    >>> body = Block(); build = Builder(body)
    >>> _ = build.emit(memory.AllocShared, dtype="f32", count=64, label="tile")
    >>> _ = build.emit(control.Return)
    >>> resources_of(Func("k", body, smem_bytes=256)).buffers
    (('tile', 256),)
    """
    registers, peak = _peak(func.body)
    sizes: dict[str, int] = {}
    for op in func.body.walk():
        if isinstance(op, memory.AllocShared):
            label = op.label or "shared buffer"
            sizes[label] = sizes.get(label, 0) + dtype(op.dtype).bytes_for(op.count)
    buffers = tuple(sorted(sizes.items(), key=lambda item: -item[1]))
    return Resources(registers, peak, func.smem_bytes, buffers)


@dataclass(slots=True)
class _Lives:
    """Positions in the order of the program, and the values that live between them."""

    ops: list[Op | None]
    begin: dict[Value, int]
    end: dict[Value, int]
    loops: dict[Value, tuple[tuple[int, int], ...]]
    """The loops that a value is defined in, outermost first, as (first, last) position."""


def _peak(body: Block) -> tuple[int, Loc | None]:
    lives = _Lives([], {}, {}, {})
    spans = _loop_spans(body)
    _visit(body, lives, (), spans)
    in_place = _in_place(body)
    change = [0] * (len(lives.ops) + 1)
    for value, last in lives.end.items():
        change[lives.begin[value]] += _registers(value, in_place)
        change[last] -= _registers(value, in_place)
    live = best = where = 0
    for position, delta in enumerate(change):
        live += delta
        if live > best:
            best, where = live, position
    after = (op for op in lives.ops[where:] if op is not None and op.loc)
    first = next(after, None)
    return best, first.loc if first is not None else None


def _loop_spans(body: Block) -> dict[int, tuple[int, int]]:
    """The positions of every loop, by the identity of its operation."""
    spans: dict[int, tuple[int, int]] = {}
    count = 0

    def visit(block: Block) -> None:
        nonlocal count
        for op in block.ops:
            first = count
            count += 1
            for region in op.regions:
                visit(region)
            if op.regions:
                count += 1
            if isinstance(op, control.For | control.While):
                spans[id(op)] = (first, count - 1)

    visit(body)
    return spans


def _visit(
    block: Block,
    lives: _Lives,
    loops: tuple[tuple[int, int], ...],
    spans: dict[int, tuple[int, int]],
) -> None:
    for op in block.ops:
        here = len(lives.ops)
        lives.ops.append(op)
        for operand in op.operands:
            used = _held(operand)
            if used in lives.loops:
                _use(used, here, lives, loops)
        span = spans.get(id(op))
        inner = (*loops, span) if span is not None else loops
        for region in op.regions:
            for v in region.args:
                _define(v, here, lives, inner)
                if span is not None:
                    lives.end[v] = span[1]
            _visit(region, lives, inner, spans)
        if op.regions:
            lives.ops.append(None)
        for v in op.results:
            _define(v, len(lives.ops) - 1, lives, loops)


def _define(v: Value, here: int, lives: _Lives, loops: tuple[tuple[int, int], ...]) -> None:
    lives.loops[v] = loops
    if isinstance(v.owner, memory.AllocRegisters):
        return  # it lives from its first use on
    lives.begin[v] = here


def _use(v: Value, here: int, lives: _Lives, loops: tuple[tuple[int, int], ...]) -> None:
    """A use in a loop that does not define the value is a use in all of the loop."""
    outer = lives.loops.get(v, ())
    around = [loop for loop in loops if loop not in outer]
    first, last = around[0] if around else (here, here)
    lives.begin.setdefault(v, first)
    lives.end[v] = max(lives.end.get(v, last), last)


def _held(v: Value) -> Value | None:
    """The value that has to be in a register for `v` to be used, if there is one."""
    owner = v.owner
    if isinstance(owner, memory.CastPointer):
        return _held(owner.base)
    if isinstance(owner, memory.Offset) and (
        isinstance(owner.index.owner, arith.Constant) or _is_array(v.type)
    ):
        return _held(owner.base)
    return None if isinstance(owner, arith.Constant) else v


def _in_place(body: Block) -> set[Value]:
    """Values that need no registers of their own: elements of arrays, and what becomes some."""
    found = set()
    users = count_uses(body)
    for op in body.walk():
        if isinstance(op, memory.Gather | memory.Load) and _is_array(op.base.type):
            found.add(op.result)
        elif isinstance(op, memory.Scatter | memory.Store) and _is_array(op.base.type):
            found |= {op.value} if users.get(op.value) == 1 else set()
    return found


def _is_array(t: Type) -> bool:
    return isinstance(t, PtrType) and t.space is Space.RMEM


def _registers(v: Value, in_place: Set[Value]) -> int:
    t, owner = v.type, v.owner
    if isinstance(owner, memory.AllocRegisters):
        return _words(owner.count * dtype(owner.dtype).storage_bits)
    if v in in_place:
        return 0
    if isinstance(t, PtrType):
        return {Space.GMEM: 2, Space.DSMEM: 2, Space.SMEM: 1}.get(t.space, 0)
    if not isinstance(t, ScalarType | VecType) or t.dtype.name == "bool":
        return 0
    return _words(t.dtype.storage_bits * (t.count if isinstance(t, VecType) else 1))


def _words(bits: int) -> int:
    return -(-bits // REGISTER_BITS)
