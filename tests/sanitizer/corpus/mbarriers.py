"""mbarriers: counts, parities, rings, and their own life."""

from __future__ import annotations

from corpus.case import case, f32
from corpus.parts import barriers, shared
from tilewright import cute, dsl
from tilewright.dsl import Constexpr, Float32, Int32, Uint64, const_expr, range_constexpr
from tilewright.utils import SmemAllocator

arch = cute.arch


@case("deadlock", mechanism="two arrivals are expected and one comes", arrays=[f32(64)])
@cute.kernel
def one_arrival_short(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    done = barriers(1, 1 if const_expr(ok) else 2)
    if t == 0:
        arch.mbarrier_arrive(done)
    arch.mbarrier_wait(done, 0)  # FAULT
    y[t] = Float32(1.0)


@case(
    "race",
    "barrier",
    "stale_phase",
    mechanism="the count leaves out one of two writers",
    arrays=[f32(96), f32(32)],
    block=96,
)
@cute.kernel
def one_writer_not_counted(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    full = barriers(1, 2 if const_expr(ok) else 1)
    if t < 64:
        s[t] = x[t]
        arch.sync_warp()
        if t % 32 == 0:
            arch.mbarrier_arrive(full)  # FAULT
    else:
        arch.mbarrier_wait(full, 0)  # FAULT
        y[t - 64] = s[t - 64] + s[t - 32]  # FAULT


@case(
    "barrier",
    "race",
    mechanism="all lanes arrive where one elected lane was counted",
    arrays=[f32(64)],
)
@cute.kernel
def every_lane_arrives(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    done = barriers(1, 1)
    if t < (1 if const_expr(ok) else 32):
        arch.mbarrier_arrive(done)  # FAULT
    if t >= 32:
        arch.mbarrier_wait(done, 0)
    y[t] = Float32(1.0)


@case(
    "stale_phase",
    "race",
    "barrier",
    "deadlock",
    mechanism="the first wait asks for the phase before the first",
    arrays=[f32(64), f32(32)],
)
@cute.kernel
def first_wait_parity_one(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(32)
    full = barriers(1, 32)
    if t < 32:
        s[t] = x[t]
        arch.mbarrier_arrive(full)
    else:
        arch.mbarrier_wait(full, 0 if const_expr(ok) else 1)  # FAULT
        y[t - 32] = s[t - 32]  # FAULT


@case(
    "stale_phase",
    "race",
    "barrier",
    "deadlock",
    mechanism="the parity follows the loop, not the barrier (A15)",
    arrays=[f32(4, 32), f32(4, 32)],
)
@cute.kernel
def parity_of_the_loop(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared((4, 32))
    full = barriers(4, 32)
    if t < 32:
        for k in range_constexpr(4):
            s[k, t] = x[k, t]
            arch.mbarrier_arrive(full + k)
    else:
        for k in range_constexpr(4):
            arch.mbarrier_wait(full + k, 0 if const_expr(ok) else k & 1)  # FAULT
            y[k, t - 32] = s[k, t - 32]  # FAULT


@cute.jit
def ring(x, y, tiles, stages, *, consumer_flips, producer_waits, restarts=False, early=False):
    """Warp 0 fills a ring of `stages`, warp 1 empties it; the parameters weaken one rule each."""
    t = arch.thread_idx()[0]
    s = shared((stages, 32))
    full, empty = barriers(stages, 32), barriers(stages, 32, "empty")
    if t < 32:
        fill(x, s, full, empty, t, tiles, stages, producer_waits)
    else:
        drain(y, s, full, empty, t - 32, tiles, stages, consumer_flips, restarts, early)


@cute.jit
def fill(x, s, full, empty, t, tiles, stages, waits):
    for k in dsl.range(tiles):
        stage, turn = k % stages, k // stages
        if const_expr(waits):
            arch.mbarrier_wait(empty + stage, turn & 1 ^ 1)
        s[stage, t] = x[k, t]
        arch.mbarrier_arrive(full + stage)


@cute.jit
def drain(y, s, full, empty, t, tiles, stages, flips, restarts, early):
    for k in dsl.range(tiles):
        n = k % 3 if const_expr(restarts) else k
        stage, turn = n % stages, n // stages
        parity = turn & 1 if const_expr(flips) else Int32(0)
        arch.mbarrier_wait(full + stage, parity)
        if const_expr(early):
            arch.mbarrier_arrive(empty + stage)
        y[k, t] = s[stage, t]
        if const_expr(not early):
            arch.mbarrier_arrive(empty + stage)


@case(
    "stale_phase",
    "race",
    "deadlock",
    "barrier",
    mechanism="the consumer's phase does not flip on wrap",
    arrays=[f32(6, 32), f32(6, 32)],
)
@cute.kernel
def phase_not_flipped(x, y, ok: Constexpr):
    ring(x, y, 6, 2, consumer_flips=ok, producer_waits=True)  # FAULT


@case(
    "deadlock",
    "race",
    "barrier",
    mechanism="the producer laps the ring without waiting for empty",
    arrays=[f32(6, 32), f32(6, 32)],
)
@cute.kernel
def ring_lapped(x, y, ok: Constexpr):
    ring(x, y, 6, 2, consumer_flips=True, producer_waits=ok)  # FAULT


@case(
    "stale_phase",
    "race",
    "deadlock",
    "barrier",
    mechanism="the consumer restarts its ring index with each output tile",
    arrays=[f32(6, 32), f32(6, 32)],
)
@cute.kernel
def ring_restarted_between_tiles(x, y, ok: Constexpr):
    ring(x, y, 6, 2, consumer_flips=True, producer_waits=True, restarts=not ok)  # FAULT


@case(
    "race",
    mechanism="the consumer releases the stage and then reads it",
    arrays=[f32(6, 32), f32(6, 32)],
)
@cute.kernel
def released_before_read(x, y, ok: Constexpr):
    ring(x, y, 6, 2, consumer_flips=True, producer_waits=True, early=not ok)  # FAULT


@case("deadlock", mechanism="both roles wait for the other one first", arrays=[f32(64)])
@cute.kernel
def circular_wait(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    full, empty = barriers(1, 32), barriers(1, 32, "empty")
    if t < 32:
        arch.mbarrier_wait(empty, 1 if const_expr(ok) else 0)  # FAULT
        arch.mbarrier_arrive(full)
    else:
        arch.mbarrier_wait(full, 0)  # FAULT
        arch.mbarrier_arrive(empty)
    y[t] = Float32(1.0)


@case(
    "deadlock",
    mechanism="the producer makes one tile less than the consumer takes",
    arrays=[f32(64)],
)
@cute.kernel
def one_tile_short(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    full = barriers(4, 32)
    if t < 32:
        for k in dsl.range(4 if const_expr(ok) else 3):
            arch.mbarrier_arrive(full + k)
    else:
        for k in dsl.range(4):
            arch.mbarrier_wait(full + k, 0)  # FAULT
    y[t] = Float32(1.0)


@case("barrier", mechanism="a wait on the barrier behind the last one", arrays=[f32(64)])
@cute.kernel
def barrier_index_off_by_one(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    full = barriers(2, 64)
    SmemAllocator().allocate_array(Uint64, 2, label="spare")
    arch.mbarrier_arrive(full + (1 if const_expr(ok) else 2))  # FAULT
    y[t] = Float32(1.0)


@case(
    "barrier",
    "race",
    "deadlock",
    mechanism="a barrier is initialised again while others wait at it",
    arrays=[f32(64)],
)
@cute.kernel
def initialised_twice(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    full = barriers(1, 64)
    arch.mbarrier_arrive(full)
    if t == (64 if const_expr(ok) else 63):
        arch.mbarrier_init(full, 64)  # FAULT
    arch.mbarrier_wait(full, 0)  # FAULT
    y[t] = Float32(1.0)


@case(
    "race",
    "barrier",
    mechanism="another warp uses the barrier before its initialisation is seen",
    arrays=[f32(64)],
)
@cute.kernel
def init_without_sync(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    full = SmemAllocator().allocate_array(Uint64, 1, label="full")
    if t == 0:
        arch.mbarrier_init(full, 1)  # FAULT
        arch.mbarrier_init_fence()
    if const_expr(ok):
        arch.sync_threads()
    if t == 32:
        arch.mbarrier_arrive(full)  # FAULT
    y[t] = Float32(1.0)


@case("barrier", "race", mechanism="an ordinary store over a live mbarrier", arrays=[f32(64)])
@cute.kernel
def store_over_barrier(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    full = barriers(1, 64)
    spare = SmemAllocator().allocate_array(Uint64, 1, label="spare")
    if t == 0:
        arch.store(spare if const_expr(ok) else full, Uint64(0))  # FAULT
    arch.mbarrier_arrive(full)
    arch.mbarrier_wait(full, 0)
    y[t] = Float32(1.0)


@case(
    "race",
    mechanism="lane 0 arrives for its warp before the other lanes have written",
    arrays=[f32(32), f32(64)],
)
@cute.kernel
def arrive_for_unsynced_lanes(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(32)
    full = barriers(1, 1)
    if t < 32:
        s[t] = x[t]  # FAULT
        if const_expr(ok):
            arch.sync_warp()
        if t == 0:
            arch.mbarrier_arrive(full)
    else:
        arch.mbarrier_wait(full, 0)
        y[t] = s[63 - t]  # FAULT


@case("race", mechanism="a polling loop that gives up and goes on", arrays=[f32(32), f32(64)])
@cute.kernel
def try_wait_ignored(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(32)
    full = barriers(1, 32)
    if t < 32:
        s[t] = x[t]
        arch.mbarrier_arrive(full)
    else:
        there = arch.mbarrier_try_wait(full, 0)
        if const_expr(ok):
            while not there:
                there = arch.mbarrier_try_wait(full, 0)
        y[t] = s[t - 32]  # FAULT


@case(
    "livelock",
    mechanism="a loop whose counter steps over the value that ends it",
    arrays=[f32(64)],
    max_steps=5_000,
)
@cute.kernel
def counts_for_ever(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    n = t
    while n != 100:  # FAULT
        n = (n + (1 if const_expr(ok) else 2)) % 200  # FAULT
    y[t] = Float32(n)


@case(
    "livelock",
    "deadlock",
    mechanism="threads poll a flag that is only set behind the loop",
    arrays=[f32(64)],
    max_steps=5_000,
)
@cute.kernel
def flag_set_too_late(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    flag = shared(1, Int32, "flag")
    if t == 0:
        flag[0] = Int32(0)
    arch.sync_threads()
    if t == (0 if const_expr(ok) else 64):
        arch.atomic_exch(flag.iterator, Int32(1), sem="release", scope="cta")
    seen = arch.atomic_or(flag.iterator, Int32(0), sem="acquire", scope="cta")
    while seen == 0:  # FAULT
        seen = arch.atomic_or(flag.iterator, Int32(0), sem="acquire", scope="cta")  # FAULT
    y[t] = Float32(1.0)
