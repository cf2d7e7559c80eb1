"""TMA stores: their groups, the async proxy's fence, and what they overrun."""

from __future__ import annotations

import numpy as np

from corpus.case import case, f32
from corpus.tma_parts import (
    ROWS,
    publish,
    stage_tile,
    stages,
    start_store,
    store,
    store_and_read,
    store_and_wait,
)
from tilewright import cute, dsl
from tilewright.dsl import Constexpr, Float32, const_expr

arch = cute.arch


@case(
    "race",
    mechanism="the source of a store is overwritten one group too early (A13)",
    arrays=[f32(16, 32), f32(16, 32)],
    block=32,
    host=store,
)
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


@case(
    "proxy_fence",
    mechanism="ordinary writes are stored by TMA behind a barrier alone",
    arrays=[f32(4, 32), f32(4, 32)],
    block=32,
    host=store,
)
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


@case(
    "proxy_fence",
    mechanism="the fence is in a loop that runs zero times",
    arrays=[f32(4, 32), f32(4, 32)],
    block=32,
    host=store,
)
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


@case(
    "proxy_fence",
    mechanism="the fence comes before the writes",
    arrays=[f32(4, 32), f32(4, 32)],
    block=32,
    host=store,
)
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


@case(
    "proxy_fence",
    mechanism="one warp of two fences its writes",
    arrays=[f32(4, 32), f32(4, 32)],
    block=64,
    host=store,
)
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


@case(
    "race",
    mechanism="the writers fence, and nobody waits for the other warp",
    arrays=[f32(4, 32), f32(4, 32)],
    block=64,
    host=store,
)
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


@case(
    "in_flight",
    mechanism="the store is never committed to a group",
    arrays=[f32(4, 32), f32(4, 32)],
    block=32,
    host=store,
)
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


@case(
    "in_flight",
    mechanism="the thread exits with a store under way",
    arrays=[f32(4, 32), f32(4, 32)],
    block=32,
    host=store,
)
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


@case(
    "in_flight",
    "race",
    mechanism="another thread waits for the group than the one that stored",
    arrays=[f32(4, 32), f32(4, 32)],
    block=64,
    host=store,
)
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


@case(
    "race",
    "proxy_fence",
    mechanism="`.read` waits for the source, and the destination is read",
    arrays=[f32(4, 32), f32(4, 32)],
    block=32,
    host=store_and_read,
    check_global=True,
)
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


@case(
    "overrun",
    "out_of_bounds",
    mechanism="a stored box runs over into the neighbouring columns (A17)",
    arrays=[f32(4, 32), np.zeros((4, 64), np.float32)[:, :30]],
    block=32,
    host=store_and_read,
)
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
