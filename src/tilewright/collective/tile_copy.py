"""An operand's tiles on their way into shared memory, where TMA cannot take them.

What divides the operand's addresses decides how wide a copy is:

    16, 8, 4 bytes   cp.async: past the registers, complete when its thread has waited for it
    2 bytes          element by element into registers, two elements per store to shared memory

What lies outside of the operand arrives as zeros.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.lang import cute
from tilewright.lang.cute import nvgpu
from tilewright.lang.ranges import range_, range_constexpr

cpasync = nvgpu.cpasync

ASYNC_BYTES = (16, 8, 4)
"""The widths of cp.async, best first."""
BATCH = 16
"""Copies of a thread that are unrolled; pairs of elements that are on their way to it at a time."""


class TileCopy:
    """One thread's share of the tiles along a row of tiles of an operand.

    `mX` (X, K) is one matrix, `sX` (BX, BK, STAGE) its ring; `tile` is the tile's number along X,
    `contiguous` the mode in which elements are neighbours.  `nbytes` is how much is copied at a
    time: it must divide every row's address, and the extent of the contiguous mode.  A thread has
    up to `batch` copies unrolled.  `g` are the chunks in global memory, `s` those in shared memory,
    `crd` the coordinate of each.
    """

    def __init__(
        self,
        mX: Any,
        sX: Any,
        tile: Any,
        tile_shape: tuple[int, int],
        contiguous: int,
        nbytes: int,
        thread: Any,
        threads: int,
        batch: int = BATCH,
    ) -> None:
        self.is_async = nbytes in ASYNC_BYTES
        element, shape = mX.element_type, mX.shape
        self.atom = copy_atom(element, nbytes)
        rows, values = thread_layouts(tile_shape, contiguous, nbytes, threads)
        copy = cute.make_tiled_copy_tv(self.atom, rows, values).get_slice(thread)
        gX = cute.local_tile(mX, tile_shape, (tile, None))  # (BX, BK, k)
        cX = cute.local_tile(cute.make_identity_tensor(shape), tile_shape, (tile, None))
        self.shape, self.element, self.contiguous = shape, element, contiguous
        self.g = copy.partition_S(gX)  # (CPY, CPY_X, CPY_K, k)
        self.s = copy.partition_D(sX)  # (CPY, CPY_X, CPY_K, STAGE)
        self.crd = copy.partition_S(cX)
        self.beside = cute.size(self.s, mode=[1 + contiguous])
        self.count = cute.size(self.s, mode=[2 - contiguous])
        self.batch = max(b for b in range(1, batch + 1) if self.count % b == 0)

    @cute.jit
    def start(self, k_tile: Any, stage: Any) -> None:
        """Copies k tile `k_tile` into `stage`, asynchronously where the width allows."""
        if self.count == self.batch:
            self.move(k_tile, stage, 0)
        else:
            # A loop at run time: unrolled, its addresses would take all registers.
            for turn in range_(self.count // self.batch, unroll=1):
                self.move(k_tile, stage, turn * self.batch)

    @cute.jit
    def move(self, k_tile: Any, stage: Any, first: Any) -> None:
        """The chunks of a batch, from `first` on."""
        places = []
        for x in range_constexpr(self.batch):
            for y in range_constexpr(self.beside):
                places.append((first + x, y) if self.contiguous == 1 else (y, first + x))
        g = self.g[None, None, None, k_tile]  # (CPY, CPY_X, CPY_K)
        crd = self.crd[None, None, None, k_tile]
        s = self.s[None, None, None, stage]
        if self.is_async:
            inside = [cute.elem_less(crd[(0, *at)], self.shape) for at in places]
            for at, predicate in zip(places, inside, strict=True):
                cute.copy(self.atom, g[(None, *at)], s[(None, *at)], pred=predicate)
        else:
            self.move_pairs(g, crd, s, places)

    @cute.jit
    def move_pairs(self, g: Any, crd: Any, s: Any, places: Any) -> None:
        """Loads all pairs of elements, then stores them."""
        held = cute.make_rmem_tensor((2, len(places)), self.element)
        held.fill(0.0)
        for x in range_constexpr(len(places)):
            for half in range_constexpr(2):
                at = (half, *places[x])
                if cute.elem_less(crd[at], self.shape):
                    held[half, x] = g[at]
        for x in range_constexpr(len(places)):
            cute.autovec_copy(held[None, x], s[(None, *places[x])])


def copy_atom(element: Any, nbytes: int) -> Any:
    """The instruction that copies `nbytes`: past the first-level cache where it is 16."""
    if nbytes not in ASYNC_BYTES:
        return cute.make_copy_atom(nvgpu.CopyUniversalOp(), element)
    modes = cpasync.LoadCacheMode
    op = cpasync.CopyG2SOp(cache_mode=modes.GLOBAL if nbytes == 16 else modes.ALWAYS)
    return cute.make_copy_atom(op, element, num_bits_per_copy=8 * nbytes)


def thread_layouts(
    tile_shape: tuple[int, int], contiguous: int, nbytes: int, threads: int
) -> tuple[Any, Any]:
    """(threads, values) over (X, K): neighbours in the contiguous mode go to neighbouring threads.

    The threads must fit the tile: see `fits`.

    >>> print(*thread_layouts((128, 64), 1, 16, 128))
    (16,8):(8,1) (1,8):(0,1)
    """
    count = max(nbytes // 2, 2)
    along, other = threads_of(tile_shape, contiguous, count, threads)
    if contiguous == 1:
        return cute.make_layout((other, along), stride=(along, 1)), cute.make_layout((1, count))
    return cute.make_layout((along, other)), cute.make_layout((count, 1))


def threads_of(
    tile_shape: tuple[int, int], contiguous: int, count: int, threads: int
) -> tuple[int, int]:
    """Threads along the contiguous mode, for copies of `count` elements, and along the other."""
    along = math.gcd(tile_shape[contiguous] // count, threads)
    return along, threads // along


def fits(tile_shape: tuple[int, int], threads: int) -> bool:
    """Whether so many threads can share every copy of a tile, in either mode and any width.

    >>> fits((128, 64), 128), fits((32, 32), 256)
    (True, False)
    """
    others = (threads_of(tile_shape, mode, 8, threads)[1] for mode in (0, 1))
    return all(tile_shape[1 - mode] % other == 0 for mode, other in enumerate(others))
