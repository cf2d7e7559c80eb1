"""wgmma's pipe: instructions wait in groups, and read their operands when a group drains.

A warpgroup's accumulators are worth nothing between issue and the wait that covers them, and the
shared memory that a wgmma reads must stay as it is until then.  Products are exact in float32
(float64 for integers) and summed in float32: the hardware's truncation of aligned products and
the 13-bit accumulation of fp8 are not modelled.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.arch.descriptor import SmemDescriptor, decode, operand_offsets
from tilewright.arch.mma.atom import Major
from tilewright.arch.swizzle_mode import swizzle_mode
from tilewright.arch.thread_value import tv_table
from tilewright.ir.core import Op
from tilewright.layout.layout import Layout
from tilewright.numeric.convert import storage_dtype
from tilewright.numeric.dtypes import BF16, F64, TF32, DType
from tilewright.sim.group import Group
from tilewright.sim.inflight import Wgmma, WgmmaPipe
from tilewright.sim.memory import SHARED_BASE
from tilewright.sim.registers import RegisterState
from tilewright.sim.values import Array

UNIT = 16
REPEAT = 1024
WARPGROUP = 128


def widened(values: Array, dtype: DType) -> Array:
    """Operand elements as numbers whose products are exact: float32, or float64 for wide types."""
    if dtype is BF16:
        return (values.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype is TF32:  # the unit ignores the low 13 bits
        return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return values.astype(np.float64 if dtype is F64 or dtype.is_integer else np.float32)


@lru_cache(maxsize=256)
def table(layout: Layout) -> Array:
    """[threads, values] -> coordinate."""
    return np.array(tv_table(layout), np.int64)


@lru_cache(maxsize=256)
def inverse(layout: Layout) -> Array:
    """coordinate -> thread * values + value."""
    flat = table(layout).reshape(-1)
    found = np.empty(len(flat), np.int64)
    found[flat] = np.arange(len(flat))
    return found


@lru_cache(maxsize=256)
def row_major(layout: Layout, rows: int) -> Array:
    """[threads, values] -> position in the row-major matrix of `rows` rows."""
    coords = table(layout)
    cols = int(coords.max()) // rows + 1
    return np.asarray(coords % rows * cols + coords // rows)


@lru_cache(maxsize=1024)
def _units(
    fields: tuple[Any, int, int, int], start: int, major: Major, rows: int, k: int, size: int
) -> Array:
    """16-byte units of an operand, as byte offsets from the multiple of 1024 before its start.

    [rows, units of K] for K-major operands, [k, units of rows] for MN-major ones.
    """
    mode, leading, stride, base_offset = fields
    flat = operand_offsets(mode, leading, stride, major, rows, k, size)
    offsets = start + np.array(flat, np.int64).reshape(k, rows)
    offsets = offsets.T[:, :: UNIT // size] if major == "K" else offsets[:, :: UNIT // size]
    mask = (1 << swizzle_mode(mode).bits) - 1
    row = offsets - (base_offset << 7)
    return np.ascontiguousarray(offsets ^ ((row >> 7 & mask) << 4))


def operand_places(bits: int, major: Major, rows: int, k: int, size: int) -> Array:
    """Which 16-byte units of shared memory a descriptor names: [rows, units], see `_units`."""
    d: SmemDescriptor = decode(bits)
    within = d.start_address % REPEAT
    fields = (d.swizzle, d.leading_bytes, d.stride_bytes, d.base_offset)
    units = _units(fields, within, major, rows, k, size)
    return np.asarray((units + (d.start_address - within - SHARED_BASE)) >> 4)


def shared_operand(
    g: Group, op: Op, bits: int, major: Major, rows: int, k: int, dtype: DType
) -> Array:
    """The [rows, k] matrix that a descriptor names, widened."""
    window = g.cta.smem
    places = operand_places(bits, major, rows, k, dtype.storage_bits // 8)
    low, high = int(places.min()), int(places.max())
    if low < 0 or high * UNIT + UNIT > window.data.size:
        g.report(
            "out_of_bounds",
            f"matrix descriptor {bits:#x} ({decode(bits)}) reads bytes "
            f"{low * UNIT}..{high * UNIT + 15} of the block's {window.data.size} bytes of shared "
            "memory",
            op,
            0,
        )
        places = np.clip(places, 0, max(window.data.size // UNIT - 1, 0))
    if g.run.options.check_uninitialised:
        seen = window.init_rows(UNIT).take(places.reshape(-1), axis=0)
        if int(np.bitwise_and.reduce(seen, axis=None)) != 0x0101010101010101:
            bad = places.reshape(-1)[int(np.argmax((seen != 0x0101010101010101).any(axis=1)))]
            g.report(
                "uninitialised",
                f"wgmma reads shared memory at {g.cta.place(int(bad) * UNIT)} that nothing has "
                "written",
                op,
                0,
                hint="is a wait for the copy that fills it missing?",
            )
    data = window.rows(UNIT)[1].take(places).view(storage_dtype(dtype))
    values = widened(data.reshape(len(places), -1), dtype)
    return values if major == "K" else values.T


def mark_busy(pipe: WgmmaPipe, warpgroup: int, states: set[RegisterState]) -> None:
    """Recomputes which elements of `states` the pipe owns."""
    for state in states:
        state.busy[warpgroup] = state.busy_sources[warpgroup] = 0
    for group in (*pipe.groups, pipe.open):
        for entry in group:
            for state, mask, accumulator in entry.spans():
                if state in states:
                    masks = state.busy if accumulator else state.busy_sources
                    masks[warpgroup] |= mask
    for state in states:
        state.any_busy = int(any(state.busy) or any(state.busy_sources))


def drain(g: Group, warpgroup: int, pipe: WgmmaPipe, keep: int, memo: dict[Any, Array]) -> None:
    """Executes the oldest groups until `keep` are left.  `memo` shares operands between calls."""
    count = max(len(pipe.groups) - keep, 0)
    done, pipe.groups = pipe.groups[:count], pipe.groups[count:]
    entries = [entry for group in done for entry in group]
    if not entries:
        return
    mark_busy(pipe, warpgroup, {s for entry in entries for s, _, _ in entry.spans()})
    if g.run.watch is not None:
        g.run.watch.wgmma_done(entries)
    sums: dict[tuple[int, int], tuple[Wgmma, Array, bool]] = {}
    for entry in entries:
        key = (id(entry.d.data), entry.d_at)
        product = _product(g, warpgroup, entry, memo)
        before = sums.get(key)
        if before is not None and entry.accumulate:
            sums[key] = (entry, before[1] + product, before[2])
        else:
            sums[key] = (entry, product, entry.accumulate)
    for entry, total, accumulate in sums.values():
        _retire(warpgroup, entry, total, accumulate)


def _product(g: Group, warpgroup: int, entry: Wgmma, memo: dict[Any, Array]) -> Array:
    atom, op = entry.atom, entry.op
    m, n, k = atom.shape_mnk
    b = memo.get(("B", entry.b, atom))
    if b is None:
        b = shared_operand(g, op, entry.b, atom.b_major, n, k, atom.b_dtype)
        memo["B", entry.b, atom] = b
    if type(entry.a) is tuple:
        array, at = entry.a
        rows = slice(warpgroup * WARPGROUP, warpgroup * WARPGROUP + WARPGROUP)
        held = array.data[rows, at : at + atom.num_values("A")]
        flat = np.ascontiguousarray(held).reshape(-1)[inverse(atom.layout_a)]
        a = widened(flat, atom.a_dtype).reshape(k, m).T
    else:
        a = shared_operand(g, op, entry.a, atom.a_major, m, k, atom.a_dtype)
    g.run.counters.flops += 2 * m * n * k
    return np.asarray(np.matmul(a, b.T))


def _retire(warpgroup: int, entry: Wgmma, total: Array, accumulate: bool) -> None:
    """Adds a [64, N] matrix to the accumulators of a warpgroup."""
    atom, array = entry.atom, entry.d
    count = atom.num_values("C")
    rows = slice(warpgroup * WARPGROUP, warpgroup * WARPGROUP + WARPGROUP)
    held = array.data[rows, entry.d_at : entry.d_at + count]
    new = total.reshape(-1).take(row_major(atom.layout_c, atom.shape_mnk[0]))
    if atom.d_dtype.is_integer:
        wide = new.astype(np.int64)
        held[...] = (wide + held if accumulate else wide).astype(np.int32)
    elif accumulate:
        held[...] = (held.astype(np.float32) + new).astype(held.dtype)
    else:
        held[...] = new.astype(held.dtype)
    lo, hi = array.span(entry.d_at, count)
    array.state.valid[rows, lo:hi] = True
