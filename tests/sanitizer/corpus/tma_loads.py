"""TMA loads: their barriers, their boxes, and what they overwrite."""

from __future__ import annotations

import numpy as np

from corpus.case import case, f32
from corpus.parts import barriers, shared
from corpus.tma_parts import (
    BYTES,
    COLUMNS,
    ROWS,
    load,
    load_and_write,
    stages,
    start_load,
)
from tilewright import cute, dsl
from tilewright.dsl import Constexpr, Float32, const_expr

arch = cute.arch


@case(
    "uninitialised",
    "race",
    mechanism="the box is read without a wait on its barrier",
    arrays=[f32(4, 32), f32(32)],
    block=32,
    host=load,
)
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


@case(
    "barrier",
    "uninitialised",
    "race",
    mechanism="expect_tx promises half of the bytes",
    arrays=[f32(4, 32), f32(32)],
    block=32,
    host=load,
)
@cute.kernel
def expects_too_few_bytes(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES if const_expr(ok) else BYTES // 2)
        start_load(tma, x, s, full)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[t] = s[0, t, 0]


@case(
    "deadlock",
    mechanism="expect_tx promises the bytes of a second operand that is not loaded",
    arrays=[f32(4, 32), f32(32)],
    block=32,
    host=load,
)
@cute.kernel
def expects_too_many_bytes(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, full = stages(1), barriers(1, 1)
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES if const_expr(ok) else 2 * BYTES)
        start_load(tma, x, s, full)
    arch.mbarrier_wait(full, 0)  # FAULT
    y[t] = s[0, t, 0]


@case(
    "barrier",
    "uninitialised",
    "race",
    mechanism="expect_tx counts only the rows inside the tensor",
    arrays=[f32(3, 32), f32(32)],
    block=32,
    host=load,
)
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


@case(
    "race",
    "barrier",
    "uninitialised",
    "stale_phase",
    mechanism="the bytes are not announced at all: the arrival alone completes the phase",
    arrays=[f32(4, 32), f32(32)],
    block=32,
    host=load,
)
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


@case(
    "race",
    "barrier",
    mechanism="every lane issues the copy: no lane was elected",
    arrays=[f32(4, 32), f32(32)],
    block=32,
    host=load,
)
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


@case(
    "race",
    mechanism="the next box lands in a stage that threads still read",
    arrays=[f32(8, 32), f32(2, 64)],
    block=64,
    host=load,
)
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


@case(
    "in_flight",
    "exit",
    mechanism="the block exits while a load is still on its way",
    arrays=[f32(4, 32), f32(32)],
    block=32,
    host=load,
)
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


@case(
    "proxy_fence",
    "race",
    "barrier",
    mechanism="the barrier's initialisation is not fenced for TMA",
    arrays=[f32(4, 32), f32(32)],
    block=32,
    host=load,
)
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


@case(
    "proxy_fence",
    "race",
    mechanism="ordinary writes, then a TMA load over them without a fence",
    arrays=[f32(4, 32), f32(32)],
    block=32,
    host=load,
)
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


@case(
    "proxy_fence",
    mechanism="a thread writes global memory that a TMA load reads, without a fence",
    arrays=[f32(4, 32), f32(4, 32)],
    block=32,
    host=load_and_write,
    check_global=True,
)
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


@case(
    "descriptor",
    mechanism="rows of 1020 bytes: the pitch is no multiple of 16 (A17)",
    arrays=[np.zeros((4, 255), np.float32), f32(32)],
    block=32,
    host=load,
)
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


@case(
    "misaligned",
    mechanism="the box's place in shared memory is 64 bytes off",
    arrays=[f32(4, 32), f32(32)],
    block=32,
    host=load,
)
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


@case(
    "out_of_bounds",
    mechanism="a load into a stage behind the last one",
    arrays=[f32(4, 32), f32(32)],
    block=32,
    host=load,
)
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
