"""TMA: loads and their barriers, stores and their groups, boxes, and the async proxy."""

from __future__ import annotations

import numpy as np

from corpus.case import case, f32
from corpus.parts import barriers, shared
from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Float32, const_expr

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


# -- loads -----------------------------------------------------------------------------------------


@case("uninitialised", "race", mechanism="the box is read without a wait on its barrier",
      arrays=[f32(4, 32), f32(32)], block=32, host=load)  # fmt: skip
@cute.kernel
def load_without_wait(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES)
        start_load(tma, x, s, full)
    if const_expr(ok):
        arch.mbarrier_wait(full, 0)
    y[t] = s[0, t, 0]  # FAULT
    arch.mbarrier_wait(full, 0)


@case("barrier", "uninitialised", "race", mechanism="expect_tx promises half of the bytes",
      arrays=[f32(4, 32), f32(32)], block=32, host=load)  # fmt: skip
@cute.kernel
def expects_too_few_bytes(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES if const_expr(ok) else BYTES // 2)
        start_load(tma, x, s, full)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[t] = s[0, t, 0]


@case("deadlock", mechanism="expect_tx promises the bytes of a second operand that is not loaded",
      arrays=[f32(4, 32), f32(32)], block=32, host=load)  # fmt: skip
@cute.kernel
def expects_too_many_bytes(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES if const_expr(ok) else 2 * BYTES)
        start_load(tma, x, s, full)
    arch.mbarrier_wait(full, 0)  # FAULT
    y[t] = s[0, t, 0]


@case("barrier", "uninitialised", "race", mechanism="expect_tx counts only the rows inside the tensor",
      arrays=[f32(3, 32), f32(32)], block=32, host=load)  # fmt: skip
@cute.kernel
def expects_only_what_is_inside(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    rows = ROWS if const_expr(ok) else 3
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, rows * COLUMNS * 4)
        start_load(tma, x, s, full)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[t] = s[0, t, 0]


@case("barrier", "uninitialised", "race", "stale_phase", mechanism="the bytes are not announced at all: the arrival alone completes the phase",
      arrays=[f32(4, 32), f32(32)], block=32, host=load)  # fmt: skip
@cute.kernel
def arrives_without_expect(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    if t == 0:
        if const_expr(ok):
            arch.mbarrier_arrive_and_expect_tx(full, BYTES)
        else:
            arch.mbarrier_arrive(full)
        start_load(tma, x, s, full)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[t] = s[0, t, 0]  # FAULT


@case("barrier", "race", mechanism="every lane issues the copy: no lane was elected",
      arrays=[f32(4, 32), f32(32)], block=32, host=load)  # fmt: skip
@cute.kernel
def load_by_every_lane(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES)
    if t < (1 if const_expr(ok) else 2):
        start_load(tma, x, s, full)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[t] = s[0, t, 0]


@case("race", mechanism="the next box lands in a stage that threads still read",
      arrays=[f32(8, 32), f32(2, 64)], block=64, host=load)  # fmt: skip
@cute.kernel
def load_into_stage_in_use(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    for k in dsl.range(2):
        if t == 0:
            arch.mbarrier_arrive_and_expect_tx(full, BYTES)
            start_load(tma, x, s, full, k)  # FAULT
        arch.mbarrier_wait(full, k)
        y[k, t] = s[t // 32, t % 32, 0]  # FAULT
        if const_expr(ok):
            arch.sync_threads()


@case("in_flight", "exit", mechanism="the block exits while a load is still on its way",
      arrays=[f32(4, 32), f32(32)], block=32, host=load)  # fmt: skip
@cute.kernel
def exit_before_load_lands(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES)
        start_load(tma, x, s, full)  # FAULT
    if const_expr(ok):
        arch.mbarrier_wait(full, 0)
    y[t] = Float32(1.0)


@case("race", "barrier", "proxy_fence", mechanism="the barrier's initialisation is not fenced for TMA",
      arrays=[f32(4, 32), f32(32)], block=32, host=load)  # fmt: skip
@cute.kernel
def init_without_fence(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = stages(1)
    full = arch.alloc_smem(dsl.Uint64, 1)
    if t == 0:
        arch.mbarrier_init(full, 1)  # FAULT
        if const_expr(ok):
            arch.mbarrier_init_fence()
    arch.sync_threads()
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES)
        start_load(tma, x, s, full)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[t] = s[0, t, 0]


@case("proxy_fence", "race", mechanism="ordinary writes, then a TMA load over them without a fence",
      arrays=[f32(4, 32), f32(32)], block=32, host=load)  # fmt: skip
@cute.kernel
def load_over_generic_writes(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    s[0, t, 0] = Float32(0.0)  # FAULT
    if const_expr(ok):
        arch.fence_proxy("async.shared")
    arch.sync_threads()
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES)
        start_load(tma, x, s, full)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[t] = s[0, t, 0]


# -- stores ----------------------------------------------------------------------------------------


@case("race", mechanism="the source of a store is overwritten one group too early (A13)",
      arrays=[f32(16, 32), f32(16, 32)], block=32, host=store)  # fmt: skip
@cute.kernel
def store_source_reused(tma, y, x, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = stages(2)
    for k in dsl.range(4):
        if t == 0:
            if const_expr(ok):
                arch.cp_async_bulk_wait_group(1, read=True)
            else:
                arch.cp_async_bulk_wait_group(2, read=True)
        arch.sync_threads()
        for row in dsl.range_constexpr(ROWS):
            s[row, t, k % 2] = x[k * ROWS + row, t]  # FAULT
        arch.fence_proxy("async.shared")
        arch.sync_threads()
        if t == 0:
            start_store(tma, y, s, k, k % 2)  # FAULT
            arch.cp_async_bulk_commit_group()
    if t == 0:
        arch.cp_async_bulk_wait_group(0)


@cute.jit
def stage_tile(x, s, t):
    for row in dsl.range_constexpr(ROWS):
        s[row, t, 0] = x[row, t]


@cute.jit
def store_and_wait(tma, y, s):
    start_store(tma, y, s)
    arch.cp_async_bulk_commit_group()
    arch.cp_async_bulk_wait_group(0)


@case("proxy_fence", mechanism="ordinary writes are stored by TMA behind a barrier alone",
      arrays=[f32(4, 32), f32(4, 32)], block=32, host=store)  # fmt: skip
@cute.kernel
def store_without_fence(tma, y, x, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = stages(1)
    stage_tile(x, s, t)
    if const_expr(ok):
        arch.fence_proxy("async.shared")
    arch.sync_threads()
    if t == 0:
        store_and_wait(tma, y, s)  # FAULT


@case("proxy_fence", mechanism="the fence is in a loop that runs zero times",
      arrays=[f32(4, 32), f32(4, 32)], block=32, host=store)  # fmt: skip
@cute.kernel
def fence_in_loop_of_zero_trips(tma, y, x, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = stages(1)
    stage_tile(x, s, t)
    extra = x.shape[0] // 4 if const_expr(ok) else x.shape[0] // 8
    for _ in dsl.range(extra):
        arch.fence_proxy("async.shared")
    arch.sync_threads()
    if t == 0:
        store_and_wait(tma, y, s)  # FAULT


@case("proxy_fence", mechanism="the fence comes before the writes",
      arrays=[f32(4, 32), f32(4, 32)], block=32, host=store)  # fmt: skip
@cute.kernel
def fence_before_writes(tma, y, x, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = stages(1)
    if const_expr(not ok):
        arch.fence_proxy("async.shared")
    stage_tile(x, s, t)
    if const_expr(ok):
        arch.fence_proxy("async.shared")
    arch.sync_threads()
    if t == 0:
        store_and_wait(tma, y, s)  # FAULT


@case("proxy_fence", mechanism="one warp of two fences its writes",
      arrays=[f32(4, 32), f32(4, 32)], block=64, host=store)  # fmt: skip
@cute.kernel
def fence_by_one_warp(tma, y, x, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = stages(1)
    for i in dsl.range_constexpr(2):
        row = t // 32 * 2 + i
        s[row, t % 32, 0] = x[row, t % 32]
    if t < (64 if const_expr(ok) else 32):
        arch.fence_proxy("async.shared")
    arch.sync_threads()
    if t == 0:
        store_and_wait(tma, y, s)  # FAULT


@case("race", mechanism="the writers fence, and nobody waits for the other warp",
      arrays=[f32(4, 32), f32(4, 32)], block=64, host=store)  # fmt: skip
@cute.kernel
def fence_without_barrier(tma, y, x, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = stages(1)
    for i in dsl.range_constexpr(2):
        row = t // 32 * 2 + i
        s[row, t % 32, 0] = x[row, t % 32]
    arch.fence_proxy("async.shared")
    if const_expr(ok):
        arch.sync_threads()
    if t == 0:
        store_and_wait(tma, y, s)  # FAULT


@cute.jit
def publish(x, s, t):
    """The tile in shared memory, fenced, and seen by all."""
    stage_tile(x, s, t)
    arch.fence_proxy("async.shared")
    arch.sync_threads()


@case("in_flight", mechanism="the store is never committed to a group",
      arrays=[f32(4, 32), f32(4, 32)], block=32, host=store)  # fmt: skip
@cute.kernel
def store_without_commit(tma, y, x, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = stages(1)
    publish(x, s, t)
    if t == 0:
        start_store(tma, y, s)  # FAULT
        if const_expr(ok):
            arch.cp_async_bulk_commit_group()
        arch.cp_async_bulk_wait_group(0)


@case("in_flight", mechanism="the thread exits with a store under way",
      arrays=[f32(4, 32), f32(4, 32)], block=32, host=store)  # fmt: skip
@cute.kernel
def exit_before_store_read(tma, y, x, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = stages(1)
    publish(x, s, t)
    if t == 0:
        start_store(tma, y, s)  # FAULT
        arch.cp_async_bulk_commit_group()
        if const_expr(ok):
            arch.cp_async_bulk_wait_group(0, read=True)


@case("in_flight", "race", mechanism="another thread waits for the group than the one that stored",
      arrays=[f32(4, 32), f32(4, 32)], block=64, host=store)  # fmt: skip
@cute.kernel
def group_of_another_thread(tma, y, x, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = stages(1)
    publish(x, s, t % 32)
    waiter = 0 if const_expr(ok) else 32
    if t == 0:
        start_store(tma, y, s)  # FAULT
        arch.cp_async_bulk_commit_group()
    if t == waiter:
        arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def store_and_read(kernel: Constexpr, arrays, ok: Constexpr, shape: Constexpr):
    """`kernel(tma, y as coordinates, y, x, ok)`."""
    tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    op = cpasync.CopyBulkTensorTileS2GOp()
    tma, y = cpasync.make_tiled_tma_atom(op, arrays[1], tile, (ROWS, COLUMNS))
    kernel(tma, y, arrays[1], arrays[0], ok).launch(grid=shape.grid, block=shape.block)


@case("race", "proxy_fence", mechanism="`.read` waits for the source, and the destination is read",
      arrays=[f32(4, 32), f32(4, 32)], block=32, host=store_and_read, check_global=True)  # fmt: skip
@cute.kernel
def destination_read_too_early(tma, y, gY, x, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = stages(1)
    publish(x, s, t)
    if t == 0:
        start_store(tma, y, s)  # FAULT
        arch.cp_async_bulk_commit_group()
        if const_expr(ok):
            arch.cp_async_bulk_wait_group(0)
        else:
            arch.cp_async_bulk_wait_group(0, read=True)
        s[0, 0, 0] = gY[0, 0] + Float32(1.0)  # FAULT


@cute.jit
def load_and_write(kernel: Constexpr, arrays, ok: Constexpr, shape: Constexpr):
    """`kernel(tma, x as coordinates, x, y, ok)`."""
    tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    op = cpasync.CopyBulkTensorTileG2SOp()
    tma, x = cpasync.make_tiled_tma_atom(op, arrays[0], tile, (ROWS, COLUMNS))
    kernel(tma, x, arrays[0], arrays[1], ok).launch(grid=shape.grid, block=shape.block)


@case("proxy_fence", mechanism="a thread writes global memory that a TMA load reads, without a fence",
      arrays=[f32(4, 32), f32(4, 32)], block=32, host=load_and_write, check_global=True)  # fmt: skip
@cute.kernel
def load_of_fresh_global(tma, xc, gX, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    if t == 0:
        gX[0, 0] = Float32(5.0)  # FAULT
        if const_expr(ok):
            arch.fence_proxy("async")
        arch.mbarrier_arrive_and_expect_tx(full, BYTES)
        start_load(tma, xc, s, full)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[0, t] = s[0, t, 0]


# -- boxes -----------------------------------------------------------------------------------------


@case("overrun", "out_of_bounds", mechanism="a stored box runs over into the neighbouring columns (A17)",
      arrays=[f32(4, 32), np.zeros((4, 64), np.float32)[:, :30]], block=32,
      host=store_and_read)  # fmt: skip
@cute.kernel
def store_overruns_slice(tma, y, gY, x, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = stages(1)
    publish(x, s, t)
    if const_expr(ok):
        for row in dsl.range_constexpr(ROWS):
            if t < 30:
                gY[row, t] = s[row, t, 0]
    elif t == 0:
        store_and_wait(tma, y, s)  # FAULT


@case("descriptor", mechanism="rows of 1020 bytes: the pitch is no multiple of 16 (A17)",
      arrays=[np.zeros((4, 255), np.float32), f32(32)], block=32, host=load)  # fmt: skip
@cute.kernel
def pitch_of_1020_bytes(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    if t == 0:
        if const_expr(ok):
            arch.mbarrier_arrive(full)
        else:
            arch.mbarrier_arrive_and_expect_tx(full, BYTES)
            start_load(tma, x, s, full)  # FAULT
    if const_expr(ok):
        arch.mbarrier_wait(full, 0)
    y[t] = Float32(1.0)


@case("misaligned", mechanism="the box's place in shared memory is 64 bytes off",
      arrays=[f32(4, 32), f32(32)], block=32, host=load)  # fmt: skip
@cute.kernel
def box_off_by_64_bytes(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    room, full = shared(ROWS * COLUMNS + 32, align=128), barriers(1, 1)
    off = 32 if const_expr(ok) else 16
    at = (room.iterator + dsl.Int32(off) * (t * 0 + 1)).align(128)
    s = cute.make_tensor(at, cute.make_layout((ROWS, COLUMNS, 1), stride=(COLUMNS, 1, 128)))
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES)
        start_load(tma, x, s, full)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[t] = s[0, t, 0]


@case("out_of_bounds", mechanism="a load into a stage behind the last one",
      arrays=[f32(4, 32), f32(32)], block=32, host=load)  # fmt: skip
@cute.kernel
def load_behind_last_stage(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    full, s = barriers(1, 1), stages(2)
    stage = t * 0 + (1 if const_expr(ok) else 2)
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES)
        start_load(tma, x, s, full, 0, stage)  # FAULT
        if const_expr(ok):
            arch.mbarrier_wait(full, 0)
    y[t] = Float32(1.0)
