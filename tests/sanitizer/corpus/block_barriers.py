"""Threads of one block that share memory: `__syncthreads` and named barriers."""

from __future__ import annotations

from corpus.case import case, f32, i32
from corpus.parts import shared
from tilewright import cute, dsl
from tilewright.dsl import Constexpr, Int32, const_expr

arch = cute.arch


@case("race", mechanism="a neighbour's word is read before the barrier", arrays=[f32(64), f32(64)])
@cute.kernel
def read_before_barrier(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    s[t] = x[t]
    if const_expr(ok):
        arch.sync_threads()
    y[t] = s[63 - t]  # FAULT


@case(
    "race",
    mechanism="a buffer is refilled while slower warps still read it",
    arrays=[f32(4, 64), f32(4, 64)],
)
@cute.kernel
def refill_while_read(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    for k in dsl.range(4):
        s[t] = x[k, t]  # FAULT
        arch.sync_threads()
        y[k, t] = s[63 - t]
        if const_expr(ok):
            arch.sync_threads()


@case(
    "race",
    mechanism="the first of two buffers is reused one iteration too early",
    arrays=[f32(4, 64), f32(4, 64)],
)
@cute.kernel
def double_buffer_of_one(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared((64, 2))
    buffers = 2 if const_expr(ok) else 1
    for k in dsl.range(4):
        s[t, k % buffers] = x[k, t]  # FAULT
        arch.sync_threads()
        y[k, t] = s[63 - t, k % buffers]


@case(
    "race", mechanism="a tree reduction that syncs only inside the warp", arrays=[f32(64), f32(1)]
)
@cute.kernel
def tree_with_warp_sync(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    s[t] = x[t]
    arch.sync_threads()
    for step in dsl.range_constexpr(6):
        half = 32 >> step
        if t < half:
            s[t] = s[t] + s[t + half]
        if const_expr(ok):
            arch.sync_threads()
        else:
            arch.sync_warp()
    if t == 40:
        y[0] = s[0]  # FAULT


@case("race", mechanism="two warps write different values to one word", arrays=[i32(64), i32(1)])
@cute.kernel
def two_writers(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(2, dsl.Int32)
    warp = t // 32
    if t % 32 == 0:
        s[warp if const_expr(ok) else 0] = x[t]  # FAULT
    arch.sync_threads()
    if t == 0:
        y[0] = s[0]


@case(
    "race",
    mechanism="lanes of one warp write different values to one word",
    arrays=[i32(32), i32(32)],
    block=32,
)
@cute.kernel
def colliding_lanes(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(32, dsl.Int32)
    s[t if const_expr(ok) else t // 2] = x[t]  # FAULT
    arch.sync_warp()
    y[t] = s[t // 2]


@case(
    "race",
    mechanism="a histogram with plain loads and stores instead of atomics",
    arrays=[i32(64), i32(4)],
)
@cute.kernel
def plain_histogram(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    bins = shared(4, dsl.Int32, "bins")
    if t < 4:
        bins[t] = Int32(0)
    arch.sync_threads()
    b = x[t] % 4
    if const_expr(ok):
        arch.atomic_add(bins.iterator + b, Int32(1))
    else:
        bins[b] = bins[b] + 1  # FAULT
    arch.sync_threads()
    if t < 4:
        y[t] = bins[t]


@case(
    "race",
    mechanism="one warp resets a counter with a store, the other counts with atomics",
    arrays=[i32(1)],
)
@cute.kernel
def store_beside_atomic(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    counter = shared(1, dsl.Int32, "counter")
    if t == 0:
        counter[0] = Int32(0)  # FAULT
    if const_expr(ok):
        arch.sync_threads()
    if t >= 32:
        arch.atomic_add(counter.iterator, Int32(1))  # FAULT
    arch.sync_threads()
    if t == 0:
        y[0] = counter[0]


# -- named barriers --------------------------------------------------------------------------------


@case(
    "barrier",
    "race",
    "uninitialised",
    "deadlock",
    mechanism="two sides of a barrier count differently",
    arrays=[f32(128), f32(128)],
    block=128,
)
@cute.kernel
def counts_disagree(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    if t < 64:
        s[t] = x[t]
        arch.barrier_arrive(barrier_id=1, number_of_threads=128)
    else:
        arch.barrier(barrier_id=1, number_of_threads=128 if const_expr(ok) else 64)  # FAULT
        y[t] = s[t - 64]  # FAULT


@case(
    "deadlock",
    mechanism="one side arrives at barrier 1, the other waits at barrier 2",
    arrays=[f32(128), f32(128)],
    block=128,
)
@cute.kernel
def wrong_barrier_number(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    if t < 64:
        s[t] = x[t]
        arch.barrier_arrive(barrier_id=1, number_of_threads=128)
    else:
        arch.barrier(barrier_id=1 if const_expr(ok) else 2, number_of_threads=128)  # FAULT
        y[t] = s[t - 64]


@case(
    "barrier",
    "race",
    mechanism="two pairs of warps share one barrier",
    arrays=[f32(128), f32(128)],
    block=128,
)
@cute.kernel
def one_barrier_for_two_pairs(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(128)
    pair = t // 64
    s[t] = x[t]
    arch.barrier(barrier_id=1 + pair if const_expr(ok) else 1, number_of_threads=64)  # FAULT
    y[t] = s[pair * 64 + 63 - t % 64]  # FAULT


@case(
    "race",
    mechanism="a barrier of the own half guards data of the other half",
    arrays=[f32(128), f32(128)],
    block=128,
)
@cute.kernel
def barrier_of_half(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(128)
    s[t] = x[t]
    if const_expr(ok):
        arch.barrier(barrier_id=1, number_of_threads=128)
    else:
        arch.barrier(barrier_id=1 + t // 64, number_of_threads=64)
    y[t] = s[127 - t]  # FAULT


@case(
    "race",
    mechanism="the reader arrives at the barrier and does not wait",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def arrive_without_wait(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    if t < 32:
        s[t] = x[t]
        arch.barrier(barrier_id=1, number_of_threads=64)
    else:
        if const_expr(ok):
            arch.barrier(barrier_id=1, number_of_threads=64)
        else:
            arch.barrier_arrive(barrier_id=1, number_of_threads=64)
        y[t] = s[t - 32]  # FAULT


@case("deadlock", mechanism="two warps pass two barriers in opposite order", arrays=[f32(64)])
@cute.kernel
def opposite_order(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    first = 1 if const_expr(ok) else 2
    if t < 32:
        arch.barrier(barrier_id=1, number_of_threads=64)  # FAULT
        arch.barrier(barrier_id=2, number_of_threads=64)
    else:
        arch.barrier(barrier_id=first, number_of_threads=64)  # FAULT
        arch.barrier(barrier_id=3 - first, number_of_threads=64)
    y[t] = dsl.Float32(1.0)


@case(
    "deadlock",
    mechanism="a warp returns before a barrier that counts it",
    arrays=[f32(128)],
    block=128,
)
@cute.kernel
def warp_leaves_early(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if t < (128 if const_expr(ok) else 96):
        arch.barrier(barrier_id=1, number_of_threads=128)  # FAULT
        y[t] = dsl.Float32(1.0)


@case(
    "deadlock",
    mechanism="`__syncthreads` in one role, while the other waits for that role",
    arrays=[f32(64)],
)
@cute.kernel
def sync_inside_a_role(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if t < 32:
        arch.barrier(barrier_id=1, number_of_threads=64)  # FAULT
    else:
        if const_expr(not ok):
            arch.sync_threads()  # FAULT
        arch.barrier(barrier_id=1, number_of_threads=64)
    y[t] = dsl.Float32(1.0)
