"""Global memory of an interpreted launch: the caller's buffers at virtual addresses.

Addresses are made up, so that a run is the same everywhere: buffers lie apart, with unmapped bytes
between them, and keep the alignment that they have on the machine.
"""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from tilewright.errors import LaunchError
from tilewright.ir.addresses import FIRST_ADDRESS, GUARD, PAGE, describe_address

Array = np.ndarray[Any, np.dtype[Any]]


class Buffer:
    """The bytes [start, end) of memory, which `data` holds."""

    __slots__ = ("_typed", "data", "end", "name", "start", "writable")

    def __init__(self, name: str, start: int, data: Array) -> None:
        self.name = name
        self.start = start
        self.end = start + data.size
        self.data = data
        self.writable = bool(data.flags.writeable)
        self._typed: dict[np.dtype[Any], tuple[int, Array]] = {}

    def typed(self, dtype: np.dtype[Any]) -> tuple[int, Array]:
        """All aligned elements of a type: the address of the first, and one array of them."""
        found = self._typed.get(dtype)
        if found is None:
            skip = -self.start % dtype.itemsize
            usable = max(self.data.size - skip, 0) // dtype.itemsize * dtype.itemsize
            view = self.data[skip : skip + usable].view(dtype)
            found = self._typed[dtype] = (self.start + skip, view)
        return found


class Memory:
    """What a launch can reach.

    >>> memory = Memory()
    >>> x = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> address = memory.map_array(x, "x")
    >>> memory.map_array(x[1:, ::-1], "row") - address    # the same bytes, seen from x[1, 2]
    20
    >>> memory.describe(address + 24)
    '0 bytes behind the end of x (24 bytes)'
    """

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._starts: list[int] = []
        self._next = FIRST_ADDRESS
        self._real: list[tuple[int, int, int]] = []

    def map(self, data: Array, name: str, address: int = 0) -> int:
        """Maps a one-dimensional view of bytes; the virtual address of `data[0]`.

        Stores write through to `data`, unless it is read-only.  The virtual address is congruent
        to `address` modulo 4096.
        Raises: LaunchError if `data` is not a contiguous array of bytes.
        """
        if data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous:
            raise LaunchError(
                f"map {name}: got {data.dtype} with {data.ndim} dimensions, expected a "
                "contiguous one-dimensional array of uint8"
            )
        start = -(-self._next // PAGE) * PAGE + address % PAGE
        self._next = start + data.size + GUARD
        self._buffers.append(Buffer(name, start, data))
        self._starts.append(start)
        return start

    def map_array(self, array: Array, name: str) -> int:
        """Maps the bytes that an array spans; the address of its element at index 0.

        An array inside one that is mapped already gets addresses inside that.
        """
        if not array.size:
            return self.map(np.zeros(0, np.uint8), name)
        origin = int(array.__array_interface__["data"][0])
        spans = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
        low = origin + int(sum(s for s in spans if s < 0))
        high = origin + int(sum(s for s in spans if s > 0)) + array.itemsize
        for start, end, address in self._real:
            if start <= low and high <= end:
                return address + origin - start
        corner = (slice(-1, None) if s < 0 else slice(0, 1) for s in array.strides)
        lowest = array[(*corner, ...)]  # the dots keep a view, even of no dimensions
        first = lowest.reshape(-1).view(np.uint8)
        data = np.lib.stride_tricks.as_strided(first, (high - low,), (1,))
        address = self.map(data, name, low)
        self._real.append((low, high, address))
        return address + origin - low

    def map_aligned(self, data: Array, name: str, alignment: int) -> int:
        """As `map`, at a multiple of `alignment`, a power of two."""
        if alignment > PAGE:
            self._next = -(-self._next // alignment) * alignment
        return self.map(data, name)

    def allocate(self, size: int, alignment: int, name: str) -> int:
        """Fresh memory, whose bytes are all ones: NaN, to floats."""
        return self.map_aligned(np.full(size, 0xFF, np.uint8), name, alignment)

    def mark(self) -> int:
        """Where `release` can come back to."""
        return len(self._buffers)

    def release(self, mark: int) -> None:
        """Unmaps what was mapped since `mark`."""
        if mark == len(self._buffers):
            return
        self._next = self._buffers[mark].start
        del self._buffers[mark:], self._starts[mark:]

    def find(self, address: int) -> Buffer | None:
        """The buffer that holds the byte at `address`, or None."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        buffer = self._buffers[at]
        return buffer if address < buffer.end else None

    def locate(self, addresses: Array, size: int) -> Array:
        """Which buffer holds each element of `size` bytes, as an index for `buffer`; or -1."""
        starts = np.array(self._starts, np.int64)
        ends = np.array([b.end for b in self._buffers], np.int64)
        at = np.searchsorted(starts, addresses, side="right") - 1
        # Where `at` is -1 this looks at the last buffer; the outer `where` does not.
        inside = (at >= 0) & (addresses <= ends[at] - size) if starts.size else at >= 0
        return np.where(inside, at, -1)

    def buffer(self, index: int) -> Buffer:
        return self._buffers[index]

    def describe(self, address: int) -> str:
        """Where an address lies in relation to the nearest buffer."""
        return describe_address(address, ((x.name, x.start, x.data.size) for x in self._buffers))
