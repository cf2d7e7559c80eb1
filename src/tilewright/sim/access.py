"""Accesses to byte memory by the lanes of a group: checked, counted, reported.

One `Access` per instruction and memory.  The fast path serves lanes that all lie in one window;
`_split` sorts out the rest, lane by lane: faulty lanes read zeros and write nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.types import Space
from tilewright.numeric.convert import bits_to_storage, storage_dtype
from tilewright.numeric.dtypes import DType
from tilewright.numeric.packing import pack, unpack
from tilewright.sim.group import Group
from tilewright.sim.memory import ALL_INIT, CARRIER, Window
from tilewright.sim.values import Array, Val

_low = np.minimum.reduce
_high = np.maximum.reduce
_or = np.bitwise_or.reduce
_and = np.bitwise_and.reduce


class Access:
    """Reads and writes of `size` bytes, as one carrier element per lane (see `memory.CARRIER`)."""

    def __init__(self, op: Op, space: Space, size: int) -> None:
        self.op = op
        self.size = size
        self.shared = space is Space.SMEM
        self.shift = size.bit_length() - 1
        self.carrier = CARRIER[size]

    def read(self, g: Group, address: Val, lanes: Array | None = None) -> Array:
        """Carriers at `address`: [1] if it is uniform, else one per lane.

        `lanes`: positions in the group of the lanes that `address` belongs to, if not all.
        """
        size = self.size
        run = g.run
        if type(address) is np.ndarray:
            count = len(address)
            low, high, bits = _low(address), _high(address), _or(address)
        else:
            count, low, high, bits = 1, address, address, address
        self._count_read(run.counters, g.n if count == 1 else count)
        window = self._find(g, low)
        if window is None or high + size > window.end or bits & (size - 1):
            return self._read_split(g, address, lanes)
        for watcher in run.watchers:
            watcher.access(g, window, "read", address, (low, high), size, self.op, lanes, None)
        first, rows = window.rows(size)
        where = (address - first) >> self.shift
        if window.init is not None and run.options.check_uninitialised:
            self._check_init(g, window, where, address, lanes)
        if count == 1:
            at = int(where[0]) if type(where) is np.ndarray else where
            return rows[at : at + 1].copy()
        return np.asarray(rows.take(where))

    def write(self, g: Group, address: Val, data: Array, lanes: Array | None = None) -> None:
        """Stores carriers: [1], or one per lane.  Of lanes with one address the last one wins."""
        size = self.size
        run = g.run
        if type(address) is np.ndarray:
            count = len(address)
            low, high, bits = _low(address), _high(address), _or(address)
        else:
            count, low, high, bits = 1, address, address, address
        self._count_write(run.counters, g.n if count == 1 else count)
        window = self._find(g, low)
        if window is None or high + size > window.end or bits & (size - 1):
            self._write_split(g, address, data if count > 1 else data[-1:], lanes)
            return
        for watcher in run.watchers:
            watcher.access(g, window, "write", address, (low, high), size, self.op, lanes, data)
        if count == 1:
            data = data[-1:]
        first, rows = window.rows(size)
        where = (address - first) >> self.shift
        rows[where] = data if count > 1 or type(where) is np.ndarray else data[0]
        if window.init is not None:
            window.init_rows(size)[where] = ALL_INIT[size]

    # -- where an address lies ----------------------------------------------------------------

    def _find(self, g: Group, address: int) -> Window | None:
        if self.shared:
            window = g.cta.smem
            return window if address >= window.start else None
        return g.run.memory.window(int(address))

    def _count_read(self, counters: Any, lanes: int) -> None:
        if self.shared:
            counters.shared_read += lanes * self.size
        else:
            counters.global_read += lanes * self.size

    def _count_write(self, counters: Any, lanes: int) -> None:
        if self.shared:
            counters.shared_written += lanes * self.size
        else:
            counters.global_written += lanes * self.size

    # -- the slow path ------------------------------------------------------------------------

    def _read_split(self, g: Group, address: Val, lanes: Array | None) -> Array:
        addresses = np.atleast_1d(np.asarray(address, np.int64))
        out = np.zeros(len(addresses), self.carrier)
        for window, index in self._valid(g, addresses, lanes, "read"):
            first, rows = window.rows(self.size)
            where = (addresses[index] - first) >> self.shift
            self._tell(g, window, "read", addresses, index, lanes, None)
            out[index] = rows[where]
            if window.init is not None and g.run.options.check_uninitialised:
                self._check_init(g, window, where, addresses[index], index)
        return out

    def _write_split(self, g: Group, address: Val, data: Array, lanes: Array | None) -> None:
        addresses = np.atleast_1d(np.asarray(address, np.int64))
        data = np.broadcast_to(data, addresses.shape)
        for window, index in self._valid(g, addresses, lanes, "written"):
            first, rows = window.rows(self.size)
            where = (addresses[index] - first) >> self.shift
            self._tell(g, window, "write", addresses, index, lanes, data)
            rows[where] = data[index]
            if window.init is not None:
                window.init_rows(self.size)[where] = ALL_INIT[self.size]

    def _tell(
        self,
        g: Group,
        window: Window,
        kind: str,
        addresses: Array,
        index: Array,
        lanes: Array | None,
        data: Array | None,
    ) -> None:
        """Tells the watchers of the lanes at `index`, without fault."""
        if not g.run.watchers:
            return
        some = addresses[index]
        where = index if lanes is None else lanes[index]
        if len(addresses) == 1 and g.n > 1 and lanes is None:
            where = np.arange(g.n)
            some = np.repeat(some, g.n)
        bounds = int(_low(some)), int(_high(some))
        written = None if data is None else data[index] if len(data) > 1 else data
        for watcher in g.run.watchers:
            watcher.access(g, window, kind, some, bounds, self.size, self.op, where, written)

    def _valid(
        self, g: Group, addresses: Array, lanes: Array | None, what: str
    ) -> list[tuple[Window, Array]]:
        """The lanes without fault, by window; reports the first of each kind of fault."""
        found: dict[int, tuple[Window, list[int]]] = {}
        for i, value in enumerate(addresses.tolist()):
            lane = i if lanes is None else int(lanes[i])
            window = self._find(g, value)
            if window is None or value + self.size > window.end:
                self._report_bounds(g, value, lane, what)
            elif value & (self.size - 1):
                g.report(
                    "misaligned",
                    f"{self.size} bytes are {what} at address {value:#x} ({self._where(g, value)}),"
                    f" which is {value % self.size} bytes behind a multiple of {self.size}",
                    self.op,
                    lane,
                )
            else:
                found.setdefault(id(window), (window, []))[1].append(i)
        return [(window, np.array(index)) for window, index in found.values()]

    def _report_bounds(self, g: Group, address: int, lane: int, what: str) -> None:
        place = "shared" if self.shared else "global"
        g.report(
            "out_of_bounds",
            f"{self.size} bytes of {place} memory are {what} at {address:#x}: "
            f"{self._where(g, address)}",
            self.op,
            lane,
        )

    def _where(self, g: Group, address: int) -> str:
        if not self.shared:
            window = g.run.memory.window(address)
            if window is not None and address + self.size > window.end:
                over = address + self.size - window.end
                return f"the last {over} bytes are behind the end of {window.name}"
            return g.run.memory.describe(address)
        window = g.cta.smem
        offset = address - window.start
        if 0 <= offset < window.data.size:
            return g.cta.place(offset)
        return f"byte {offset} of the block's {window.data.size} bytes of shared memory"

    def _check_init(
        self, g: Group, window: Window, where: Val, address: Val, lanes: Array | None
    ) -> None:
        full = ALL_INIT[self.size]
        rows = window.init_rows(self.size)
        if type(where) is not np.ndarray:
            seen: Any = rows[where]
            ok = bool((seen == full).all())
        else:
            seen = rows.take(where, axis=0)
            ok = int(_and(seen, axis=None)) == full
        if ok:
            return
        bad: Any = np.atleast_1d(seen != full)
        if bad.ndim == 2:
            bad = bad.any(axis=1)
        i = int(np.argmax(bad)) if type(where) is np.ndarray else 0
        at = int(address[i]) if type(address) is np.ndarray else int(address)
        g.report(
            "uninitialised",
            f"{self.size} bytes of shared memory at {self._where(g, at)} are read, "
            "and not all of them were written before",
            self.op,
            i if lanes is None else int(lanes[i]),
            hint="is a wait for the copy that fills it missing?",
        )


Codec = tuple[int, Callable[[Array], Val], Callable[[Array], Array]]


def codec(dtype: DType, count: int) -> Codec:
    """Bytes of an access to a scalar (`count` 0) or vector, and carriers to values and back.

    Decoding gives [n] for scalars and [n, count] for vectors, from n carriers.
    """
    held = storage_dtype(dtype)
    size = max(dtype.storage_bits * max(count, 1) // 8, 1)
    carrier = CARRIER[size]
    if dtype.bits == 4:
        return _packed_codec(dtype, count, size)
    if dtype.kind == "bool":
        shape = (-1, count) if count else (-1,)
        return (
            size,
            lambda raw: (raw.view(np.uint8) != 0).reshape(shape),
            lambda v: np.ascontiguousarray(v, np.bool_).view(carrier).reshape(-1),
        )
    if not count:
        return size, lambda raw: raw.view(held), lambda v: np.ascontiguousarray(v).view(carrier)
    return (
        size,
        lambda raw: raw.view(held).reshape(-1, count),
        lambda v: np.ascontiguousarray(v).view(carrier).reshape(-1),
    )


def _packed_codec(dtype: DType, count: int, size: int) -> Codec:
    carrier = CARRIER[size]
    if not count:  # one element: the low nibble of its byte
        return (
            1,
            lambda raw: bits_to_storage(raw & np.uint8(15), dtype),
            lambda v: pack(np.asarray(v)[:, None], dtype).reshape(-1),
        )
    return (
        size,
        lambda raw: unpack(raw.view(np.uint8).reshape(len(raw), size), dtype, count),
        lambda v: pack(np.asarray(v), dtype).view(carrier).reshape(-1),
    )
