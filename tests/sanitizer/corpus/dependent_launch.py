"""Programmatic dependent launch: global memory is touched only behind `griddepcontrol.wait`."""

from __future__ import annotations

import numpy as np

from corpus.async_copies import start, word
from corpus.bulk_copies import first, out
from corpus.case import case, f32, i32
from corpus.parts import barriers, shared
from corpus.tma_parts import BYTES, COLUMNS, ROWS, stages, start_load
from tilewright import cute
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Float32, Int32, const_expr

arch = cute.arch


@cute.jit
def dependent(kernel: Constexpr, arrays, ok: Constexpr, shape: Constexpr):
    """A host function whose kernel may start before the grid in front of it has ended."""
    kernel(*arrays, ok).launch(
        grid=shape.grid, block=shape.block, cluster=(shape.cluster, 1, 1), use_pdl=True
    )


@cute.jit
def dependent_load(kernel: Constexpr, arrays, ok: Constexpr, shape: Constexpr):
    """`kernel(tma, x, y, ok)`: `tma` loads tiles of 4x32 floats of x."""
    tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    op = cpasync.CopyBulkTensorTileG2SOp()
    tma, x = cpasync.make_tiled_tma_atom(op, arrays[0], tile, (ROWS, COLUMNS))
    kernel(tma, x, arrays[1], ok).launch(grid=shape.grid, block=shape.block, use_pdl=True)


@case(
    "grid_wait",
    mechanism="a dependent launch that never waits for the grid in front",
    arrays=[f32(64), f32(64)],
    host=dependent,
)
@cute.kernel
def no_grid_wait(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if const_expr(ok):
        arch.griddepcontrol_wait()
    y[t] = x[t] + Float32(1.0)  # FAULT


@case(
    "grid_wait",
    mechanism="the first load is above the wait for the grid in front",
    arrays=[f32(64), f32(64)],
    host=dependent,
)
@cute.kernel
def load_before_grid_wait(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if const_expr(ok):
        arch.griddepcontrol_wait()
    value = x[t]  # FAULT
    if const_expr(not ok):
        arch.griddepcontrol_wait()
    y[t] = value + Float32(1.0)


@case(
    "grid_wait",
    mechanism="the output is cleared while the grid in front may still read it",
    arrays=[f32(64), f32(64)],
    host=dependent,
)
@cute.kernel
def write_before_grid_wait(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if const_expr(ok):
        arch.griddepcontrol_wait()
    y[t] = Float32(0.0)  # FAULT
    arch.griddepcontrol_wait()
    y[t] = y[t] + x[t]


@case(
    "grid_wait",
    mechanism="one thread waits for the grid in front, and the others not for it",
    arrays=[f32(64), f32(64)],
    host=dependent,
)
@cute.kernel
def grid_wait_of_one_thread(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if t == 0:
        arch.griddepcontrol_wait()
    if const_expr(ok):
        arch.sync_threads()
    y[t] = x[t] + Float32(1.0)  # FAULT


@case(
    "grid_wait",
    mechanism="one warp waits for the grid in front, and the other one is past the barrier",
    arrays=[f32(64), f32(64)],
    host=dependent,
)
@cute.kernel
def grid_wait_behind_the_barrier(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if const_expr(not ok):
        arch.sync_threads()
    if t < 32:
        arch.griddepcontrol_wait()
    if const_expr(ok):
        arch.sync_threads()
    y[t] = x[t] + Float32(1.0)  # FAULT


@case(
    "grid_wait",
    mechanism="the consumers wait for the grid in front, the producer does not",
    arrays=[f32(ROWS, COLUMNS), f32(32)],
    block=64,
    host=dependent_load,
)
@cute.kernel
def grid_wait_of_the_consumers(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    if t < 32:
        if const_expr(ok):
            arch.griddepcontrol_wait()
        if t == 0:
            arch.mbarrier_arrive_and_expect_tx(full, BYTES)
            start_load(tma, x, s, full)  # FAULT
    else:
        if const_expr(not ok):
            arch.griddepcontrol_wait()
        arch.mbarrier_wait(full, 0)  # the producer's wait comes before its arrival
        y[t - 32] = s[1, t - 32, 0]


@case(
    "grid_wait",
    mechanism="TMA is told to load before the grid in front has ended",
    arrays=[f32(ROWS, COLUMNS), f32(32)],
    block=32,
    host=dependent_load,
)
@cute.kernel
def tma_load_before_grid_wait(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    cpasync.prefetch_descriptor(tma)  # the descriptor is nobody's output
    s, full = stages(1), barriers(1, 1)
    if const_expr(ok):
        arch.griddepcontrol_wait()
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES)
        start_load(tma, x, s, full)  # FAULT
    if const_expr(not ok):
        arch.griddepcontrol_wait()
    arch.mbarrier_wait(full, 0)
    y[t] = s[0, t, 0]


@case(
    "grid_wait",
    mechanism="cp.async starts before the wait for the grid in front, and is waited for behind it",
    arrays=[f32(64), f32(64)],
    host=dependent,
)
@cute.kernel
def cp_async_before_grid_wait(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    if const_expr(ok):
        arch.griddepcontrol_wait()
    start(word(x, t), word(s, t))  # FAULT
    arch.cp_async_commit_group()
    if const_expr(not ok):
        arch.griddepcontrol_wait()
    arch.cp_async_wait_group(0)
    y[t] = s[t]


@case(
    "grid_wait",
    mechanism="a bulk store by a thread that does not know that the grid in front has ended",
    arrays=[f32(64)],
    host=dependent,
)
@cute.kernel
def bulk_store_without_grid_wait(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    s[t] = Float32(1.0)
    arch.fence_proxy("async.shared")
    if const_expr(not ok):
        arch.sync_threads()
    if t >= 32:
        arch.griddepcontrol_wait()
    if const_expr(ok):
        arch.sync_threads()
    if t == 0:
        out(cpasync.CopyBulkS2GOp(), s, first(y, 64))  # FAULT
        arch.cp_async_bulk_wait_group(0)


@case(
    "grid_wait",
    mechanism="a counter is raised before the grid in front, which may have it, has ended",
    arrays=[i32(1), f32(64)],
    host=dependent,
)
@cute.kernel
def atomic_before_grid_wait(count, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if const_expr(ok):
        arch.griddepcontrol_wait()
    if t == 0:
        arch.atomic_add(count.iterator, Int32(1))  # FAULT
    arch.griddepcontrol_wait()
    y[t] = Float32(1.0)


@case(
    "grid_wait",
    mechanism="a relaxed arrival of the cluster hands the peer's grid wait to nobody",
    arrays=[f32(64), f32(64)],
    grid=2,
    block=32,
    cluster=2,
    host=dependent,
)
@cute.kernel
def grid_wait_behind_relaxed_arrival(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    if rank == 0:
        arch.griddepcontrol_wait()
    if const_expr(ok):
        arch.cluster_arrive()
    else:
        arch.cluster_arrive_relaxed()
    arch.cluster_wait()
    y[rank * 32 + t] = x[rank * 32 + t]  # FAULT


@case(
    "grid_wait",
    mechanism="only the first block waits for the grid in front",
    arrays=[f32(64), f32(64), np.zeros(1, np.int32)],
    grid=2,
    block=32,
    host=dependent,
)
@cute.kernel
def grid_wait_of_the_first_block(x, y, count, ok: Constexpr):
    t, block = arch.thread_idx()[0], arch.block_idx()[0]
    if block == 0 or const_expr(ok):
        arch.griddepcontrol_wait()
    if t == 0:
        arch.atomic_add(count.iterator, Int32(1))  # FAULT
    y[block * 32 + t] = x[block * 32 + t]  # FAULT
