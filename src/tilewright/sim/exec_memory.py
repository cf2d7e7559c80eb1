"""Pointers, allocation, loads and stores, register arrays, copies and atomics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.core import Op, Value
from tilewright.ir.ops import memory
from tilewright.ir.types import PtrType, ScalarType, Space, VecType
from tilewright.numeric.convert import storage_dtype
from tilewright.numeric.dtypes import dtype as row
from tilewright.sim.access import codec
from tilewright.sim.dsmem import access_to
from tilewright.sim.group import Group
from tilewright.sim.memory import CARRIER, RANK_SHIFT
from tilewright.sim.reductions import combiner
from tilewright.sim.registers import RegisterArray
from tilewright.sim.step import Context, Step, executes
from tilewright.sim.values import Array, Val, spread


def pointee(v: Value) -> PtrType:
    assert isinstance(v.type, PtrType), "the operation's declaration asks for a pointer"
    return v.type


# -- pointers ------------------------------------------------------------------------------------


@executes(memory.AllocShared)
def alloc_shared(op: memory.AllocShared, context: Context) -> Step:
    out, offset = context.slot(op.result), op.offset
    assert offset >= 0, "passes/shared_layout gives every allocation its offset"

    def step(g: Group) -> None:
        g.slots[out] = g.cta.smem.start + offset

    return step


@executes(memory.AllocRegisters)
def alloc_registers(op: memory.AllocRegisters, context: Context) -> Step:
    out, dtype, count = context.slot(op.result), row(op.dtype), op.count
    number = context.new_register_array()
    label, tracks = op.label or op.result.name, context.tracks_wgmma

    def step(g: Group) -> None:
        array = g.cta.registers[number]
        if array is None:
            array = RegisterArray.allocate(g.cta.size, dtype, count, label, tracks=tracks)
            g.cta.registers[number] = array
        else:
            array.reset(g)
        g.slots[out] = (array, 0)

    return step


@executes(memory.Offset)
def offset(op: memory.Offset, context: Context) -> Step:
    ib, ii, out = context.slot(op.base), context.slot(op.index), context.slot(op.result)
    t = pointee(op.base)
    bits = t.dtype.storage_bits
    if t.space is Space.RMEM:

        def registers(g: Group) -> None:
            s = g.slots
            array, at = s[ib]
            index = s[ii]
            s[out] = (array, at + (index if type(index) is int else _wide(index)))

        return registers
    if bits == 4:

        def packed(g: Group) -> None:
            s = g.slots
            index = _wide(s[ii])
            odd = np.atleast_1d(index) & 1
            if odd.any():
                g.report(
                    "misaligned",
                    f"element {int(np.atleast_1d(index)[np.argmax(odd)])} of {t} lies in the "
                    "upper half of a byte, which a pointer cannot name",
                    op,
                    int(np.argmax(odd)) % g.n,
                )
            s[out] = s[ib] + (index >> 1)

        return packed
    shift = (bits // 8).bit_length() - 1

    def step(g: Group) -> None:
        s = g.slots
        index = s[ii]
        if type(index) is int:
            s[out] = s[ib] + (index << shift)
        else:
            s[out] = s[ib] + (index.astype(np.int64) << shift)

    return step


def _wide(index: Val) -> Val:
    return index.astype(np.int64) if type(index) is np.ndarray else int(index)


@executes(memory.CastPointer)
def cast_pointer(op: memory.CastPointer, context: Context) -> Step:
    ib, out, dtype = context.slot(op.base), context.slot(op.result), row(op.dtype)
    old = pointee(op.base)
    if old.space is not Space.RMEM:

        def same(g: Group) -> None:
            g.slots[out] = g.slots[ib]

        return same
    before, after = old.dtype.storage_bits, dtype.storage_bits

    def step(g: Group) -> None:
        array, at = g.slots[ib]
        g.slots[out] = (array.view(dtype), at if before == after else at * before // after)

    return step


@executes(memory.MapShared)
def map_shared(op: memory.MapShared, context: Context) -> Step:
    ib, ir, out = context.slot(op.base), context.slot(op.rank), context.slot(op.result)

    def step(g: Group) -> None:
        rank = g.slots[ir]
        rank = rank.astype(np.int64) if type(rank) is np.ndarray else int(rank)
        g.slots[out] = g.slots[ib] % (1 << RANK_SHIFT) + (rank << RANK_SHIFT)

    return step


@executes(memory.SharedAddress, memory.GlobalAddress)
def address(op: Any, context: Context) -> Step:
    ib, out = context.slot(op.base), context.slot(op.result)
    dt = np.uint32 if isinstance(op, memory.SharedAddress) else np.int64

    def step(g: Group) -> None:
        a = g.slots[ib]
        g.slots[out] = a.astype(dt) if type(a) is np.ndarray else a

    return step


# -- loads and stores ------------------------------------------------------------------------------


@executes(memory.Load)
def load(op: memory.Load, context: Context) -> Step:
    ib, out, t = context.slot(op.base), context.slot(op.result), pointee(op.base)
    if t.space is Space.RMEM:
        return _load_registers(op, ib, out, op.count)
    size, decode, _ = codec(t.dtype, op.count)
    access = access_to(op, t.space, size)
    vector = op.count > 0

    def step(g: Group) -> None:
        s = g.slots
        a = s[ib]
        value = decode(access.read(g, a))
        s[out] = value if vector or type(a) is np.ndarray else value.item()

    return step


def _load_registers(op: memory.Load, ib: int, out: int, count: int) -> Step:
    def scalar(g: Group) -> None:
        array, at = g.slots[ib]
        g.slots[out] = (
            array.read_one(g, at, op) if type(at) is int else array.read_at(g, at, 1, op)[:, 0]
        )

    def vector(g: Group) -> None:
        array, at = g.slots[ib]
        read = array.read if type(at) is int else array.read_at
        g.slots[out] = read(g, at, count, op)

    return vector if count else scalar


@executes(memory.Store)
def store(op: memory.Store, context: Context) -> Step:
    ib, iv, t = context.slot(op.base), context.slot(op.value), pointee(op.base)
    value_type = op.value.type
    count = value_type.count if isinstance(value_type, VecType) else 0
    if t.space is Space.RMEM:
        return _store_registers(op, ib, iv, count)
    size, _, encode = codec(t.dtype, count)
    access = access_to(op, t.space, size)
    held = storage_dtype(t.dtype)

    def step(g: Group) -> None:
        v = g.slots[iv]
        if type(v) is not np.ndarray:
            v = np.array([v], held)
        access.write(g, g.slots[ib], encode(v))

    return step


def _store_registers(op: memory.Store, ib: int, iv: int, count: int) -> Step:
    def scalar(g: Group) -> None:
        array, at = g.slots[ib]
        v = g.slots[iv]
        if type(at) is int:
            array.write_one(g, at, v, op)
        else:
            array.write_at(g, at, 1, v[:, None] if type(v) is np.ndarray else v, op)

    def vector(g: Group) -> None:
        array, at = g.slots[ib]
        write = array.write if type(at) is int else array.write_at
        write(g, at, count, g.slots[iv], op)

    return vector if count else scalar


@executes(memory.Gather)
def gather(op: memory.Gather, context: Context) -> Step:
    ib, out = context.slot(op.base), context.slot(op.result)
    runs = _runs(op.indices)
    dt, count = storage_dtype(pointee(op.base).dtype), len(op.indices)
    first = op.indices[0]
    if len(runs) == 1:

        def together(g: Group) -> None:
            array, at = g.slots[ib]
            read = array.read if type(at) is int else array.read_at
            g.slots[out] = read(g, at + first, count, op)

        return together

    columns = np.array(op.indices)

    def step(g: Group) -> None:
        array, at = g.slots[ib]
        if type(at) is int:
            g.slots[out] = array.read_columns(g, columns + at, op)
            return
        made = np.empty((g.n, count), dt)
        for start, length, column in runs:
            made[:, column : column + length] = array.read_at(g, at + start, length, op)
        g.slots[out] = made

    return step


@executes(memory.Scatter)
def scatter(op: memory.Scatter, context: Context) -> Step:
    ib, iv = context.slot(op.base), context.slot(op.value)
    runs = _runs(op.indices)
    columns = np.array(op.indices)
    # The last of two values for one element stays: only runs say which is the last.
    scattered = len(runs) > 2 and len(set(op.indices)) == len(op.indices)

    def step(g: Group) -> None:
        array, at = g.slots[ib]
        v = g.slots[iv]
        if scattered and type(at) is int:
            array.write_columns(g, columns + at, v, op)
            return
        write = array.write if type(at) is int else array.write_at
        for start, length, column in runs:
            write(g, at + start, length, v[:, column : column + length], op)

    return step


def _runs(indices: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Maximal runs of consecutive indices: (first index, length, position in the vector)."""
    runs: list[tuple[int, int, int]] = []
    for column, i in enumerate(indices):
        if runs and runs[-1][0] + runs[-1][1] == i:
            start, length, at = runs[-1]
            runs[-1] = (start, length + 1, at)
        else:
            runs.append((i, 1, column))
    return runs


# -- copies ----------------------------------------------------------------------------------------


@executes(memory.Copy)
def copy(op: memory.Copy, context: Context) -> Step:
    src, dst, size = pointee(op.src), pointee(op.dst), op.bytes
    fetch, put = _reader(op, src, size), _writer(op, dst, size)
    i_src, i_dst = context.slot(op.src), context.slot(op.dst)
    i_predicate = context.slot(op.predicate[0]) if op.predicate else -1
    into_registers = dst.space is Space.RMEM

    def step(g: Group) -> None:
        s = g.slots
        lanes: Array | None = None
        part = g
        if i_predicate >= 0:
            if into_registers:
                array, at = s[i_dst]
                array.tolerate(g, at, size)
            mask = s[i_predicate]
            if type(mask) is np.ndarray and not mask.all():
                lanes = np.flatnonzero(mask)
                if not len(lanes):
                    return
                part = g.subset(lanes)
            elif type(mask) is not np.ndarray and not mask:
                return
        put(part, _pick(s[i_dst], lanes), fetch(part, _pick(s[i_src], lanes)))

    return step


def _pick(pointer: Val, lanes: Array | None) -> Val:
    if lanes is None:
        return pointer
    if type(pointer) is tuple:
        return (pointer[0], _pick(pointer[1], lanes))
    return pointer[lanes] if type(pointer) is np.ndarray else pointer


def _reader(op: Op, t: PtrType, size: int) -> Callable[[Group, Val], Array]:
    """Reads `size` bytes per lane as carriers, [1] if all lanes read the same."""
    if t.space is not Space.RMEM:
        return access_to(op, t.space, size).read
    carrier = CARRIER[size]

    def read(g: Group, pointer: Val) -> Array:
        array, at = pointer
        raw = array.read_bytes(g, at, size, op)
        return np.ascontiguousarray(raw).view(carrier).reshape(-1)

    return read


def _writer(op: Op, t: PtrType, size: int) -> Callable[[Group, Val, Array], None]:
    if t.space is not Space.RMEM:
        return access_to(op, t.space, size).write

    def write(g: Group, pointer: Val, data: Array) -> None:
        array, at = pointer
        raw = np.ascontiguousarray(np.broadcast_to(data, (g.n,))).view(np.uint8)
        array.write_bytes(g, at, raw.reshape(g.n, size), op)

    return write


# -- atomics ---------------------------------------------------------------------------------------


@executes(memory.Atomic)
def atomic(op: memory.Atomic, context: Context) -> Step:
    """Lanes with the same address take their turns in lane order."""
    ib, iv, out = context.slot(op.base), context.slot(op.value), context.slot(op.result)
    t, dtype = pointee(op.base), pointee(op.base).dtype
    size, decode, encode = codec(dtype, 0)
    access = access_to(op, t.space, size)
    combine = combiner(op.kind, dtype)
    value_type = ScalarType(dtype)

    def step(g: Group) -> None:
        s = g.slots
        a = s[ib] if type(s[ib]) is np.ndarray else np.full(g.n, s[ib], np.int64)
        v = spread(s[iv], value_type, g.n)
        watch = g.run.watch
        if watch is None:
            change(g, a, v)
            return
        watch.atomic(g, access.shared, a, size, op)
        with watch.silent():
            change(g, a, v)

    def change(g: Group, a: Array, v: Array) -> None:
        s = g.slots
        if len(np.unique(a)) == g.n:
            old = decode(access.read(g, a))
            access.write(g, a, encode(combine(old, v)))
            s[out] = old
            return
        olds = np.empty(g.n, storage_dtype(dtype))
        for i in range(g.n):
            lane = np.array([i])
            old = decode(access.read(g, a[i : i + 1], lane))
            access.write(g, a[i : i + 1], encode(combine(old, v[i : i + 1])), lane)
            olds[i] = old[0]
        s[out] = olds

    return step
