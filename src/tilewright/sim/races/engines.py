"""Accesses of the engines: TMA, cp.async and the tensor cores, as records that complete later."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.arch.descriptor import decode
from tilewright.arch.swizzle_mode import swizzle_mode
from tilewright.ir.ops import bulk, mma
from tilewright.sim import tma
from tilewright.sim.races.clocks import NEVER, Rows, Team
from tilewright.sim.races.edges import MBarrierWatch
from tilewright.sim.races.records import NOBODY, THREAD, WHOLE_WARP, Record
from tilewright.sim.races.shadow import Shadow
from tilewright.sim.tensor_cores import operand_places
from tilewright.sim.values import Array, Val

UNIT = 16
ROWS_PER_WARP = 16
"""Of the 64 rows of A, each warp of the warpgroup multiplies 16."""


def one_row(team: Team, g: Any, lane: int) -> slice:
    at = g.cta.rank * team.stride + int(g.threads[lane])
    return slice(at, at + 1)


def shared_box(team: Team, g: Any, lane: int, op: Any, box: tma.Box, shadow: Shadow) -> Record:
    """The shared-memory side of a TMA copy issued by one thread."""
    lo, hi = int(box.rows.min()), int(box.rows.max()) + 1
    skip = shadow.owner.smem.start - shadow.origin
    if hi - lo == len(box.rows):
        offsets: Any = lo * UNIT + skip
        size = (hi - lo) * UNIT
    else:
        offsets, size = box.rows * UNIT + skip, UNIT
    row = one_row(team, g, lane)
    return Record(
        op, team, g.cta, "read", shadow, offsets, size, row, row, NEVER,
        asynchronous=True, lanewise=False, own=THREAD, engine="TMA",
    )  # fmt: skip


def run_of_bytes(
    team: Team, g: Any, lane: int, op: Any, kind: str, shadow: Shadow, address: int, size: int
) -> Record:
    """One side of a bulk copy that one thread issues."""
    row = one_row(team, g, lane)
    return Record(
        op, team, g.cta, kind, shadow, address - shadow.origin, size, row, row, NEVER,
        asynchronous=True, lanewise=False, own=THREAD, engine="bulk copy",
    )  # fmt: skip


def counted(record: Record, watch: MBarrierWatch) -> Record:
    """Others, and the thread itself, learn by the barrier that it is complete."""
    record.own = NOBODY
    record.rows = slice(watch.column, watch.column + 1)
    record.barrier, record.phase = watch, watch.barrier.phase
    return record


def load_of(record: Record, watch: MBarrierWatch) -> Record:
    """Turns the record of a box into that of a load, which others learn of by the barrier."""
    record.kind = "write"
    return counted(record, watch)


def global_box(
    team: Team, g: Any, lane: int, op: Any, box: tma.Box, shadow: Shadow, *, store: bool
) -> Record | None:
    """The global side of a TMA copy; None if the box lies outside of its tensor."""
    reduces = isinstance(op, bulk.TmaReduce)
    part = tma.inside(box.tensor, box.coords, store=store and not reduces)
    if part is None:
        return None
    at = np.array([part.address - shadow.origin], np.int64)
    for extent, stride in zip(part.extent[1:], box.tensor.strides, strict=True):
        at = (np.arange(extent)[:, None] * stride + at).reshape(-1)
    size = part.extent[0]
    step = int(np.bitwise_or.reduce(at)) | size
    unit = min(step & -step, UNIT)
    shadow.fit(unit)
    offsets = (at[:, None] + np.arange(0, size, unit)).reshape(-1)
    row = one_row(team, g, lane)
    kind = "atomic" if reduces else "write" if store else "read"
    return Record(
        op, team, g.cta, kind, shadow, offsets, unit, row, row, NEVER,
        asynchronous=True, lanewise=False, own=THREAD, engine="TMA", scope="gpu" * reduces,
    )  # fmt: skip


def cp_async_records(
    team: Team,
    g: Any,
    op: Any,
    rows: Rows,
    sides: list[tuple[str, Shadow, Val, Array | None]],
) -> list[Record]:
    """The accesses of cp.async: each lane's own, complete when the lane has waited for it."""
    made = []
    for kind, shadow, address, lanes in sides:
        actors = rows
        if lanes is not None:
            base = np.arange(rows.start, rows.stop) if type(rows) is slice else rows
            actors = base[lanes]
        count = actors.stop - actors.start if type(actors) is slice else len(actors)
        clock = np.full(count, NEVER, np.int64)
        record = Record(
            op, team, g.cta, kind, shadow, address - shadow.origin, op.bytes, actors, actors,
            clock, engine="cp.async",
        )  # fmt: skip
        made.append(record)
    return made


def cp_async_done(record: Record, rows: Array, now: int) -> None:
    actors = record.actors
    if type(actors) is slice:
        at = rows[(rows >= actors.start) & (rows < actors.stop)] - actors.start
    else:
        at = np.flatnonzero(np.isin(actors, rows))
    record.clock[at] = now


def signalled(record: Record, rows: Array, column: int, now: int) -> None:
    """Copies of some threads are complete; whoever knows the barrier's column knows."""
    clock = np.where(np.isin(record.columns(), rows), now, NEVER)
    record.signals = (*(record.signals or ()), (column, clock))


class Operands:
    """Where the shared-memory operands of wgmmas lie, by descriptor: computed once per block."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Array, Array | None] | None] = {}

    def records(
        self, team: Team, g: Any, warpgroup: int, entry: Any, shadow: Shadow
    ) -> list[tuple[Record, Any, Any]]:
        """(record, descriptor, the IR value it came from) of each operand in shared memory."""
        lo = g.cta.rank * team.stride + warpgroup * 128
        rows = slice(lo, lo + 128)
        atom, op = entry.atom, entry.op
        m, n, k = atom.shape_mnk
        wanted = [(entry.b, atom.b_major, n, atom.b_dtype, op.b, False)]
        if isinstance(op, mma.Wgmma):
            wanted.append((entry.a, atom.a_major, m, atom.a_dtype, op.a, True))
        made = []
        for bits, major, extent, dtype, value, is_a in wanted:
            found = self._places(g.cta, bits, (major, extent, k, dtype), is_a)
            if found is None:
                continue
            offsets, lanes = found
            record = Record(
                op, team, g.cta, "read", shadow, offsets, UNIT, rows, rows, NEVER,
                asynchronous=True, lanewise=False, quorum=True, own=WHOLE_WARP, lanes=lanes,
                engine="wgmma",
            )  # fmt: skip
            made.append((record, bits, value))
        return made

    def _places(
        self, cta: Any, bits: int, operand: Any, is_a: bool
    ) -> tuple[Array, Array | None] | None:
        key = (id(cta), bits, operand, is_a)
        if key not in self._known:
            major, extent, k, dtype = operand
            places = operand_places(bits, major, extent, k, dtype.storage_bits // 8)
            if int(places.min()) < 0 or int(places.max()) * UNIT + UNIT > cta.smem.data.size:
                self._known[key] = None  # reported when it is read
            else:
                lanes = _lanes_of_a(places, major, dtype.storage_bits // 8) if is_a else None
                offset = places.reshape(-1) * UNIT + cta.smem.start % UNIT
                self._known[key] = (offset, lanes)
        return self._known[key]


def _lanes_of_a(places: Array, major: str, size: int) -> Array:
    """Which warp of the warpgroup reads each unit of A: [rows, units of k], or transposed."""
    if major == "K":
        row = np.arange(places.shape[0])[:, None]
    else:
        row = np.arange(places.shape[1])[None, :] * (UNIT // size)
    lanes: Array = np.broadcast_to(row // ROWS_PER_WARP, places.shape).reshape(-1)
    return lanes


def pattern_problem(bits: int) -> str | None:
    """Why the swizzle of a descriptor is not that of its data, or None."""
    d = decode(bits)
    mask = (1 << swizzle_mode(d.swizzle).bits) - 1
    row = d.start_address >> 7 & mask
    if row == d.base_offset & mask:
        return None
    return (
        f"the operand at {d.start_address:#x} begins in row {row} of the {d.swizzle} swizzle "
        f"pattern, its descriptor says row {d.base_offset}: align the tile to "
        f"{swizzle_mode(d.swizzle).repeat_bytes} bytes"
    )
