"""Byte memories: global buffers at virtual addresses, and a block's shared memory.

Both are *windows*: a run of bytes that begins at an address.  Accesses of 1, 2, 4, 8 or 16 bytes
at aligned addresses move through a view of the window whose elements have that size, so that one
NumPy call serves all lanes.
"""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from tilewright.errors import LaunchError
from tilewright.ir.addresses import FIRST_ADDRESS, GUARD, PAGE, describe_address

Array = np.ndarray[Any, np.dtype[Any]]

SHARED_BASE = 1024
"""Where dynamic shared memory begins in the shared window (Hopper keeps the first KiB)."""
RANK_SHIFT = 24
"""A CTA's shared window carries its rank in the cluster in the top byte (measured on an H200)."""

# A 16-byte access moves as complex128: NumPy has no wider integer, and copies it bit for bit.
CARRIER: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype(np.complex128),
}
_INIT_UNIT = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.uint64}
ALL_INIT: dict[int, int] = {
    size: int.from_bytes(b"\x01" * min(size, 8), "little") for size in CARRIER
}


class Window:
    """The bytes [start, end).  `init`, if there is one, has a 1 for each byte ever written."""

    __slots__ = ("_init_rows", "_rows", "data", "end", "init", "name", "start")

    def __init__(self, name: str, start: int, data: Array, *, track: bool = False) -> None:
        self.name = name
        self.start = start
        self.end = start + data.size
        self.data = data
        self.init: Array | None = np.zeros(data.size, np.uint8) if track else None
        self._rows: dict[int, tuple[int, Array]] = {}
        self._init_rows: dict[int, Array] = {}

    def rows(self, size: int) -> tuple[int, Array]:
        """The aligned rows of `size` bytes: the first one's address, and one carrier per row."""
        found = self._rows.get(size)
        if found is None:
            skip = -self.start % size
            usable = max(self.data.size - skip, 0) // size * size
            view = self.data[skip : skip + usable].view(CARRIER[size])
            found = self._rows[size] = (self.start + skip, view)
        return found

    def init_rows(self, size: int) -> Array:
        """The init bytes of `rows(size)`: [rows] integers, [rows, 2] for 16 bytes."""
        found = self._init_rows.get(size)
        if found is None:
            assert self.init is not None, "this window does not track initialisation"
            skip = -self.start % size
            usable = max(self.data.size - skip, 0) // size * size
            found = self.init[skip : skip + usable].view(_INIT_UNIT[size])
            if size == 16:
                found = found.reshape(-1, 2)
            self._init_rows[size] = found
        return found


class GlobalMemory:
    """The device memory that a launch sees: buffers of the caller, at made-up addresses.

    >>> memory = GlobalMemory()
    >>> a = memory.map(np.zeros(100, np.uint8), "a", real_address=0x1230)
    >>> a % 4096 == 0x230, memory.window(a + 99).name, memory.window(a + 100)
    (True, 'a', None)
    """

    def __init__(self) -> None:
        self._windows: list[Window] = []
        self._starts: list[int] = []
        self._next = FIRST_ADDRESS

    def map(self, data: Array, name: str, real_address: int) -> int:
        """Maps a writable one-dimensional view of bytes; the address of `data[0]`.

        Stores of the kernel write through to `data`.  The address is congruent to
        `real_address` modulo 4096, so that alignment is what it is on the machine.
        """
        if data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous:
            raise LaunchError(
                f"map {name}: got {data.dtype} with {data.ndim} dimensions, expected a "
                "contiguous one-dimensional array of uint8"
            )
        start = -(-self._next // PAGE) * PAGE + real_address % PAGE
        self._next = start + data.size + GUARD
        self._windows.append(Window(name, start, data))
        self._starts.append(start)
        return start

    def unmap(self, address: int) -> None:
        """Forgets the buffer that `map` has put at `address`."""
        at = self._starts.index(address)
        del self._windows[at], self._starts[at]

    @property
    def windows(self) -> tuple[Window, ...]:
        """All buffers, by address."""
        return tuple(self._windows)

    def window(self, address: int) -> Window | None:
        """The buffer that holds the byte at `address`, or None."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        window = self._windows[at]
        return window if address < window.end else None

    def contents(self) -> list[Array]:
        """Copies of all buffers, for `restore`."""
        return [w.data.copy() for w in self._windows]

    def restore(self, contents: list[Array]) -> None:
        for w, held in zip(self._windows, contents, strict=True):
            w.data[...] = held

    def describe(self, address: int) -> str:
        """Where an address lies in relation to the nearest buffer.

        >>> memory = GlobalMemory()
        >>> memory.describe(memory.map(np.zeros(64, np.uint8), "x", 0) + 70)
        '6 bytes behind the end of x (64 bytes)'
        """
        return describe_address(address, ((x.name, x.start, x.data.size) for x in self._windows))


def shared_window(size: int, rank: int) -> Window:
    """The dynamic shared memory of CTA `rank` of its cluster."""
    return Window(
        "shared memory", (rank << RANK_SHIFT) + SHARED_BASE, np.zeros(size, np.uint8), track=True
    )
