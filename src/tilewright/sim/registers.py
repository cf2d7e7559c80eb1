"""Register arrays: memory that each thread has for itself, indexed by constants.

One array per block and `mem.alloc_registers`: a row per thread, a column per element.  A pointer
of another element type is a view of the same rows.  Three facts are kept per element: whether
it was ever written, whether a wgmma in flight owns it, and whether it was written since the last
`wgmma.fence`; the last two as one bit mask per warpgroup.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.numeric.convert import storage_dtype
from tilewright.numeric.dtypes import DType
from tilewright.numeric.packing import from_bytes, to_bytes
from tilewright.sim.actor import Actor

Array = np.ndarray[Any, np.dtype[Any]]


class RegisterState:
    """What is known about the elements of one array, shared by all views of it."""

    __slots__ = ("any_busy", "busy", "busy_sources", "dirty", "known", "label", "tracks", "valid")

    def __init__(self, threads: int, count: int, label: str, *, tracks: bool) -> None:
        groups = -(-threads // 128)
        self.label = label
        self.valid = np.zeros((threads, count), np.bool_)
        self.known: dict[object, bytearray] = {}
        """Per run of threads: 1 for each element that all of them are known to have written."""
        self.tracks = tracks
        self.busy = [0] * groups
        self.busy_sources = [0] * groups
        self.any_busy = 0
        self.dirty = [0] * groups


class RegisterArray:
    """Elements of one type in the registers of every thread of a block."""

    __slots__ = ("_views", "bits", "count", "data", "dtype", "state", "unit")

    def __init__(self, data: Array, dtype: DType, state: RegisterState, unit: int) -> None:
        self.data = data
        self.dtype = dtype
        self.state = state
        self.count = data.shape[1]
        self.bits = dtype.storage_bits
        self.unit = unit
        """Bits of an element of the array that was allocated."""
        self._views: dict[DType, RegisterArray] = {}

    @classmethod
    def allocate(
        cls, threads: int, dtype: DType, count: int, label: str, *, tracks: bool
    ) -> RegisterArray:
        state = RegisterState(threads, count, label, tracks=tracks)
        data = np.zeros((threads, count), storage_dtype(dtype))
        return cls(data, dtype, state, dtype.storage_bits)

    def view(self, dtype: DType) -> RegisterArray:
        """The same registers as elements of another type of 8 bits or more."""
        found = self._views.get(dtype)
        if found is None:
            if min(dtype.bits, self.dtype.bits) < 8 and dtype.storage_bits != self.bits:
                raise ValueError(
                    f"register array {self.state.label or '?'} of {self.dtype} seen as {dtype}: "
                    "4-bit elements and bools are not packed in registers"
                )
            data = self.data.view(storage_dtype(dtype))
            found = RegisterArray(data, dtype, self.state, self.unit)
            self._views[dtype] = found
        return found

    def reset(self, g: Actor) -> None:
        """The threads of `g` allocate the array anew: its contents are undefined."""
        self.state.valid[g.rows] = False
        self.state.known.clear()

    def span(self, offset: int, count: int) -> tuple[int, int]:
        """The allocated elements under `count` elements of this view."""
        if self.bits == self.unit:
            return offset, offset + count
        return offset * self.bits // self.unit, -(-(offset + count) * self.bits // self.unit)

    # -- constant offsets -------------------------------------------------------------------

    def read(self, g: Actor, offset: int, count: int, op: Op) -> Array:
        """A copy of elements [offset, offset + count): [threads, count]."""
        if not 0 <= offset <= self.count - count:
            return self._outside(g, offset, count, op)
        self.before_read(g, offset, count, op)
        return self.data[g.rows, offset : offset + count].copy()

    def read_one(self, g: Actor, offset: int, op: Op) -> Array:
        """A copy of one element: [threads]."""
        if not 0 <= offset < self.count:
            return self._outside(g, offset, 1, op)[:, 0]
        self.before_read(g, offset, 1, op)
        return self.data[g.rows, offset].copy()

    def write(self, g: Actor, offset: int, count: int, value: Any, op: Op) -> None:
        """Stores [threads, count] (or what broadcasts to it)."""
        if not 0 <= offset <= self.count - count:
            self._outside(g, offset, count, op)
            return
        self.data[g.rows, offset : offset + count] = value
        self.after_write(g, offset, count, op)

    def write_one(self, g: Actor, offset: int, value: Any, op: Op) -> None:
        if not 0 <= offset < self.count:
            self._outside(g, offset, 1, op)
            return
        self.data[g.rows, offset] = value
        self.after_write(g, offset, 1, op)

    def read_columns(self, g: Actor, columns: Array, op: Op) -> Array:
        """A copy of the elements `columns`, in any order: [threads, columns]."""
        lo, hi = int(columns.min()), int(columns.max()) + 1
        if lo < 0 or hi > self.count:
            return self._outside(g, lo if lo < 0 else hi - 1, 1, op).repeat(len(columns), axis=1)
        known = self.state.known.get(g.key)
        if known is None or self.bits != self.unit or 0 in known[lo:hi] or self.state.any_busy:
            for column in columns.tolist():
                self.before_read(g, column, 1, op)
        return np.asarray(self.data[g.rows].take(columns, axis=1))

    def write_columns(self, g: Actor, columns: Array, value: Array, op: Op) -> None:
        """Stores [threads, columns] to the elements `columns`."""
        lo, hi = int(columns.min()), int(columns.max()) + 1
        if lo < 0 or hi > self.count:
            self._outside(g, lo if lo < 0 else hi - 1, 1, op)
            return
        if type(g.rows) is slice:
            self.data[g.rows][:, columns] = value
        else:
            self.data[g.threads[:, None], columns] = value
        for column in columns.tolist():
            self.after_write(g, column, 1, op)

    def before_read(self, g: Actor, offset: int, count: int, op: Op) -> None:
        state = self.state
        lo, hi = (offset, offset + count) if self.bits == self.unit else self.span(offset, count)
        known = state.known.get(g.key)
        if known is None or 0 in known[lo:hi]:
            self._check_valid(g, lo, hi, op)
        if state.any_busy:
            self._check_idle(g, lo, hi, "read", state.busy, op)

    def after_write(self, g: Actor, offset: int, count: int, op: Op) -> None:
        state = self.state
        lo, hi = (offset, offset + count) if self.bits == self.unit else self.span(offset, count)
        known = state.known.get(g.key)
        if known is None or 0 in known[lo:hi]:
            state.valid[g.rows, lo:hi] = True
            self._learn(g, lo, hi)
        if state.tracks:
            mask = ((1 << (hi - lo)) - 1) << lo
            for w in g.warpgroups:
                state.dirty[w] |= mask
            if state.any_busy:
                self._check_idle(g, lo, hi, "written", state.busy, op)
                self._check_idle(g, lo, hi, "written", state.busy_sources, op)

    def tolerate(self, g: Actor, offset: Any, size: int) -> None:
        """Lets elements that a predicated copy may skip be read all the same.

        Kernels load a fragment where it lies inside, compute with all of it, and store where it
        lies inside: what was skipped is computed with, and never stored.
        """
        if type(offset) is int:
            lo, hi = self.span(offset, size * 8 // self.bits)
            self.state.valid[g.rows, lo:hi] = True

    def _learn(self, g: Actor, lo: int, hi: int) -> None:
        if g.key is not None:
            known = self.state.known.get(g.key)
            if known is None:
                known = self.state.known[g.key] = bytearray(self.state.valid.shape[1])
            known[lo:hi] = b"\x01" * (hi - lo)

    def _check_valid(self, g: Actor, lo: int, hi: int, op: Op) -> None:
        ok = self.state.valid[g.rows, lo:hi]
        if ok.all():
            self._learn(g, lo, hi)
            return
        if not g.run.options.check_uninitialised:
            return
        lane, element = (int(i) for i in np.argwhere(~ok)[0])
        g.report(
            "uninitialised",
            f"element {lo + element} of register array {self.state.label or '(unnamed)'} is read "
            "before anything wrote it",
            op,
            lane,
            hint="a register tensor starts undefined: fill it first",
        )

    def _check_idle(self, g: Actor, lo: int, hi: int, what: str, busy: list[int], op: Op) -> None:
        mask = ((1 << (hi - lo)) - 1) << lo
        for w in g.warpgroups:
            if busy[w] & mask:
                g.report(
                    "in_flight",
                    f"register array {self.state.label or '(unnamed)'} is {what} while a wgmma "
                    f"in flight owns it (elements {lo}..{hi - 1}); wait for it with wgmma.wait",
                    op,
                    0,
                )
                return

    def _outside(self, g: Actor, offset: int, count: int, op: Op) -> Array:
        last = f"..{offset + count - 1}" if count > 1 else ""
        g.report(
            "register_index",
            f"index {offset}{last} of register array {self.state.label or '(unnamed)'}, "
            f"which has {self.count} elements",
            op,
            0,
        )
        return np.zeros((g.n, count), self.data.dtype)

    # -- offsets known only at run time -----------------------------------------------------

    def read_at(self, g: Actor, offsets: Array, count: int, op: Op) -> Array:
        """Elements at a different offset in each thread: [threads, count]."""
        columns = self._columns(g, offsets, count, op)
        if self.bits == self.unit and g.run.options.check_uninitialised:
            ok = self.state.valid[g.threads[:, None], columns]
            if not ok.all():
                lane = int(np.argwhere(~ok)[0][0])
                self._check_valid(g, int(columns[lane, 0]), int(columns[lane, -1]) + 1, op)
        return np.asarray(self.data[g.threads[:, None], columns])

    def write_at(self, g: Actor, offsets: Array, count: int, value: Any, op: Op) -> None:
        columns = self._columns(g, offsets, count, op)
        rows = g.threads[:, None]
        self.data[rows, columns] = value
        if self.bits == self.unit:
            self.state.valid[rows, columns] = True
        else:
            for lane, offset in zip(g.threads, offsets, strict=True):
                lo, hi = self.span(int(offset), count)
                self.state.valid[lane, lo:hi] = True

    def _columns(self, g: Actor, offsets: Array, count: int, op: Op) -> Array:
        bad = (offsets < 0) | (offsets > self.count - count)
        if bad.any():
            lane = int(np.argmax(bad))
            g.report(
                "register_index",
                f"index {int(offsets[lane])} of register array {self.state.label or '(unnamed)'}, "
                f"which has {self.count} elements",
                op,
                lane,
            )
            offsets = np.clip(offsets, 0, self.count - count)
        return np.asarray(offsets[:, None] + np.arange(count))

    # -- bytes, for copies between memories ---------------------------------------------------

    def read_bytes(self, g: Actor, offset: Any, size: int, op: Op) -> Array:
        """`size` bytes from element `offset` on: [threads, size] uint8."""
        count = max(size * 8 // self.bits, 1)
        values = (
            self.read(g, offset, count, op)
            if type(offset) is int
            else self.read_at(g, offset, count, op)
        )
        if self.bits >= 8:
            return np.ascontiguousarray(values).view(np.uint8)
        return to_bytes(values, self.dtype)

    def write_bytes(self, g: Actor, offset: Any, data: Array, op: Op) -> None:
        count = max(data.shape[1] * 8 // self.bits, 1)
        plain = self.bits >= 8 and self.dtype.kind != "bool"
        values = data.view(self.data.dtype) if plain else from_bytes(data, self.dtype, count)
        if type(offset) is int:
            self.write(g, offset, count, values, op)
        else:
            self.write_at(g, offset, count, values, op)
