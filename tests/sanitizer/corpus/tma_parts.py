"""What the TMA kernels of the corpus share: host functions, and one load or store."""

from __future__ import annotations

from corpus.parts import shared
from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr

arch = cute.arch
ROWS, COLUMNS = 4, 32
BYTES = ROWS * COLUMNS * 4


def box(x):
    """The coordinates of tile 0 (or of every tile) as TMA takes them."""
    return cute.group_modes(cute.local_tile(x, (ROWS, COLUMNS), (None, 0)), 0, 2)


@cute.jit
def load(kernel: Constexpr, arrays, ok: Constexpr, shape: Constexpr):
    """`kernel(tma, x, y, ok)`: `tma` loads tiles of 4x32 floats of x."""
    tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    op = cpasync.CopyBulkTensorTileG2SOp()
    tma, x = cpasync.make_tiled_tma_atom(op, arrays[0], tile, (ROWS, COLUMNS))
    kernel(tma, x, arrays[1], ok).launch(grid=shape.grid, block=shape.block)


@cute.jit
def store(kernel: Constexpr, arrays, ok: Constexpr, shape: Constexpr):
    """`kernel(tma, y, x, ok)`: `tma` stores tiles of 4x32 floats to y."""
    tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    op = cpasync.CopyBulkTensorTileS2GOp()
    tma, y = cpasync.make_tiled_tma_atom(op, arrays[1], tile, (ROWS, COLUMNS))
    kernel(tma, y, arrays[0], ok).launch(grid=shape.grid, block=shape.block)


@cute.jit
def start_load(tma, x, s, full, tile=0, stage=0):
    """One box of x into a stage, by the calling thread."""
    sX, gX = cpasync.tma_partition(tma, 0, cute.make_layout(1), cute.group_modes(s, 0, 2), box(x))
    cute.copy(tma, gX[None, tile], sX[None, stage], tma_bar_ptr=full)


@cute.jit
def start_store(tma, y, s, tile=0, stage=0):
    """One box of a stage to y, by the calling thread."""
    sY, gY = cpasync.tma_partition(tma, 0, cute.make_layout(1), cute.group_modes(s, 0, 2), box(y))
    cute.copy(tma, sY[None, stage], gY[None, tile])


def stages(count):
    layout = cute.make_layout((ROWS, COLUMNS, count), stride=(COLUMNS, 1, ROWS * COLUMNS))
    return shared(layout, align=128)


@cute.jit
def stage_tile(x, s, t):
    for row in dsl.range_constexpr(ROWS):
        s[row, t, 0] = x[row, t]


@cute.jit
def store_and_wait(tma, y, s):
    start_store(tma, y, s)
    arch.cp_async_bulk_commit_group()
    arch.cp_async_bulk_wait_group(0)


@cute.jit
def publish(x, s, t):
    """The tile in shared memory, fenced, and seen by all."""
    stage_tile(x, s, t)
    arch.fence_proxy("async.shared")
    arch.sync_threads()


@cute.jit
def store_and_read(kernel: Constexpr, arrays, ok: Constexpr, shape: Constexpr):
    """`kernel(tma, y as coordinates, y, x, ok)`."""
    tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    op = cpasync.CopyBulkTensorTileS2GOp()
    tma, y = cpasync.make_tiled_tma_atom(op, arrays[1], tile, (ROWS, COLUMNS))
    kernel(tma, y, arrays[1], arrays[0], ok).launch(grid=shape.grid, block=shape.block)


@cute.jit
def load_and_write(kernel: Constexpr, arrays, ok: Constexpr, shape: Constexpr):
    """`kernel(tma, x as coordinates, x, y, ok)`."""
    tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    op = cpasync.CopyBulkTensorTileG2SOp()
    tma, x = cpasync.make_tiled_tma_atom(op, arrays[0], tile, (ROWS, COLUMNS))
    kernel(tma, x, arrays[0], arrays[1], ok).launch(grid=shape.grid, block=shape.block)
