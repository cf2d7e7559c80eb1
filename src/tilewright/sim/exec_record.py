"""Recording clocks: the same bytes in the record buffer that a GPU writes.

They are no accesses of the kernel: neither counted nor checked for races.
"""

from __future__ import annotations

import numpy as np

from tilewright.ir.ops import record
from tilewright.sim.group import Group
from tilewright.sim.memory import RANK_SHIFT
from tilewright.sim.step import Context, Step, executes
from tilewright.sim.values import Array, Val

NOTHING = 0
"""The cursor of threads that record nothing."""


@executes(record.RecordStart)
def record_start(op: record.RecordStart, context: Context) -> Step:
    buffer, out = context.slot(op.buffer), context.slot(op.result)
    share = op.slots * record.ENTRY_BYTES

    def step(g: Group) -> None:
        x, y, z = g.cta.index
        block = x + g.run.grid[0] * (y + g.run.grid[1] * z)
        if block >= op.blocks:
            g.slots[out] = NOTHING
            return
        first = block * g.cta.size * share
        g.slots[out] = g.threads.astype(np.int64) * share + first + record.ENTRY_BYTES
        now = g.run.clock(g)
        for lane in first_lanes(g):
            entry = _entries(g, g.slots[buffer], first + int(g.threads[lane]) * share, 1)
            entry[0] = (now & 0xFFFFFFFF, now >> 32, 1 << 31, 0)

    return step


@executes(record.RecordSpan)
def record_span(op: record.RecordSpan, context: Context) -> Step:
    i_buffer, i_cursor = context.slot(op.buffer), context.slot(op.cursor)
    i_begin = context.slot(op.begin)
    i_barrier = context.slot(op.barrier[0]) if op.barrier else -1

    def step(g: Group) -> None:
        cursor, begin = g.slots[i_cursor], g.slots[i_begin]
        barrier = g.slots[i_barrier] if op.barrier else 0
        now = g.run.clock(g)
        for lane in first_lanes(g):
            at = _of(cursor, lane)
            if at == NOTHING:
                continue
            entries = _entries(g, g.slots[i_buffer], at - record.ENTRY_BYTES, op.slots)
            count = g.run.recorded.get(at, 0)
            g.run.recorded[at] = count + 1
            if count >= op.slots - 1:
                entries[0, 3] += 1
                continue
            start = _of(begin, lane)
            about = (_of(barrier, lane) & ((1 << RANK_SHIFT) - 1)) >> 3
            tag = op.site | record.VALID | about << 16
            entries[1 + count] = (start & 0xFFFFFFFF, start >> 32, now - start, tag)

    return step


def first_lanes(g: Group) -> list[int]:
    """Positions in the group of the first thread of each of its warps."""
    _, positions = np.unique(g.threads >> 5, return_index=True)
    return [int(p) for p in positions]


def _of(v: Val, lane: int) -> int:
    return int(v[lane]) if type(v) is np.ndarray else int(v)


def _entries(g: Group, buffer: Val, at: int, count: int) -> Array:
    """Rows of four words, `at` bytes into the buffer."""
    address = _of(buffer, 0) + at
    window = g.run.memory.window(address)
    assert window is not None, "the host maps a buffer for all threads that record"
    begin = address - window.start
    return window.data[begin : begin + count * record.ENTRY_BYTES].view(np.uint32).reshape(-1, 4)
