"""Memory on the GPU that this process owns, without an array package."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.runtime import cuda_api
from tilewright.runtime.driver import check, ensure_context

PAGE = 4096
"""Addresses keep their remainder modulo this, and with it every alignment that matters."""


class DeviceBuffer:
    """`size` bytes on the current GPU; `address` is congruent to `like` modulo 4096.

    Raises: LaunchError where there is no GPU, or its memory is full.
    """

    __slots__ = ("_base", "address", "size")

    def __init__(self, size: int, like: int = 0) -> None:
        ensure_context()
        self.size = size
        self._base = int(check(cuda_api.driver.cuMemAlloc(size + 2 * PAGE), "cuMemAlloc"))
        self.address = self._base + (like - self._base) % PAGE

    def write(self, data: np.ndarray[Any, Any]) -> None:
        """Fills the buffer from contiguous bytes of its size."""
        assert data.nbytes == self.size, "a buffer is written whole"
        if self.size:
            call = cuda_api.driver.cuMemcpyHtoD(self.address, data.ctypes.data, self.size)
            check(call, "cuMemcpyHtoD")

    def read(self, into: np.ndarray[Any, Any]) -> None:
        """Copies the buffer into contiguous bytes of its size, after the work before it."""
        assert into.nbytes == self.size, "a buffer is read whole"
        if self.size:
            call = cuda_api.driver.cuMemcpyDtoH(into.ctypes.data, self.address, self.size)
            check(call, "cuMemcpyDtoH")

    def clear(self) -> None:
        """Sets all bytes to zero."""
        if self.size:
            check(cuda_api.driver.cuMemsetD8(self.address, 0, self.size), "cuMemsetD8")

    def free(self) -> None:
        """Gives the memory back, after the work that uses it; once."""
        check(cuda_api.driver.cuMemFree(self._base), "cuMemFree")


@contextlib.contextmanager
def device_buffers(sizes: list[tuple[int, int]]) -> Iterator[list[DeviceBuffer]]:
    """Buffers of (size, like), freed at the end."""
    with contextlib.ExitStack() as stack:
        made = []
        for size, like in sizes:
            buffer = DeviceBuffer(size, like)
            stack.callback(buffer.free)
            made.append(buffer)
        yield made
