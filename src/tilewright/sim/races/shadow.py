"""Shadow memory: for every cell of a window, who wrote it last and who read it since.

A cell is as small as the smallest access that the window has seen: 16 bytes to begin with (TMA,
wgmma, ldmatrix, vector accesses), and split on the first smaller access.  So cells are exact, and
cheap where accesses are wide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.sim.values import Array

UNIT_SHIFT = 4
"""A cell of 16 bytes."""


class Shadow:
    """The cells of one window.  `writer` and `readers` are numbers of the ledger's; 0: nobody."""

    __slots__ = ("_first", "_last", "origin", "owner", "readers", "shift", "size", "writer")

    def __init__(self, origin: int, size: int, owner: Any, shift: int = UNIT_SHIFT) -> None:
        self.origin = origin
        """The address of cell 0, a multiple of 16."""
        self.size = size
        self.owner = owner
        """The CTA whose shared memory it is, or the window of a global buffer."""
        self.shift = shift
        cells = -(-size // (1 << shift))
        self.writer: Array = np.zeros(cells, np.int32)
        self.readers: Array = np.zeros(cells, np.int32)
        self._first: Array | None = None
        self._last: Array | None = None

    def fit(self, size: int) -> None:
        """Splits the cells until an aligned access of `size` bytes covers whole ones."""
        if size >> self.shift:
            return
        shift = size.bit_length() - 1
        times = 1 << (self.shift - shift)
        self.writer = np.repeat(self.writer, times)
        self.readers = np.repeat(self.readers, times)
        self._first = self._last = None
        self.shift = shift

    def cells(self, offsets: Any, size: int) -> Any:
        """The cells of accesses of `size` bytes: a slice if they are one run, else an array."""
        self.fit(size)
        shift = self.shift
        if type(offsets) is not np.ndarray:
            lo = offsets >> shift
            return slice(lo, lo + (size >> shift))
        where = offsets >> shift
        count = size >> shift
        if count == 1:
            return where
        return (where[:, None] + np.arange(count)).reshape(-1)

    def marks(self) -> tuple[Array, Array]:
        """Two scratch arrays, one entry per cell, all -1: to be left so."""
        if self._first is None or self._last is None:
            self._first = np.full(len(self.writer), -1, np.int64)
            self._last = self._first.copy()
        return self._first, self._last


def distinct(numbers: Array) -> list[int]:
    """The different ones of some numbers."""
    first = int(numbers[0])
    if len(numbers) == 1 or (numbers == first).all():
        return [first]
    return np.unique(numbers).tolist()  # type: ignore[no-any-return]
