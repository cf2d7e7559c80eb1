"""Bulk copies and reductions without a descriptor, and cp.async that arrives at an mbarrier."""

from __future__ import annotations

import numpy as np

from corpus.case import case, f32
from corpus.parts import barriers, shared
from corpus.tensor_cores import A, B, D, K, M, N, by_hand, fragments, multiply, operands, write
from tilewright import cute
from tilewright.cute.nvgpu import cpasync, warpgroup
from tilewright.dsl import BFloat16, Constexpr, Float32, const_expr, range_constexpr

arch = cute.arch
SUM = np.zeros(64, np.float32)


def out(op, s, y):
    """One bulk copy or reduction of s into y, by the calling thread."""
    cute.copy(cute.make_copy_atom(op, Float32), s, y)
    arch.cp_async_bulk_commit_group()


def load(x, s, full):
    """One bulk copy of x into s, by the calling thread."""
    cute.copy(cute.make_copy_atom(cpasync.CopyBulkG2SOp(), Float32), x, s, mbar_ptr=full)


def first(x, count):
    """The first elements of a vector."""
    return cute.local_tile(x, (count,), (0,))


@case(
    "proxy_fence",
    mechanism="ordinary writes are reduced by the bulk engine behind a barrier alone",
    arrays=[f32(64), SUM],
)
@cute.kernel
def reduce_without_fence(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    s[t] = x[t]  # FAULT
    if const_expr(ok):
        arch.fence_proxy("async.shared")
    arch.sync_threads()
    if t == 0:
        out(cpasync.CopyReduceBulkS2GOp(), s, first(y, 64))  # FAULT
        arch.cp_async_bulk_wait_group(0)


@case(
    "race",
    mechanism="the source of a bulk store is refilled before the engine has read it",
    arrays=[f32(64), SUM],
)
@cute.kernel
def bulk_source_reused(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    for _ in range_constexpr(2):
        s[t] = x[t]  # FAULT
        arch.fence_proxy("async.shared")
        arch.sync_threads()
        if t == 0:
            out(cpasync.CopyBulkS2GOp(), s, first(y, 64))  # FAULT
            if const_expr(ok):
                arch.cp_async_bulk_wait_group(0, read=True)
        arch.sync_threads()
    if t == 0:
        arch.cp_async_bulk_wait_group(0)


@case(
    "deadlock",
    mechanism="a bulk load of floats: expect_tx counts 8 bytes for each",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def bulk_load_too_many_bytes(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    full = barriers(1, 1)
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, 64 * (4 if const_expr(ok) else 8))
        load(first(x, 64), s, full)
    arch.mbarrier_wait(full, 0)  # FAULT
    y[t] = s[t]


@case(
    "misaligned",
    mechanism="a bulk copy of a ragged end: 200 bytes are no multiple of 16",
    arrays=[f32(50), f32(64)],
)
@cute.kernel
def bulk_copy_of_a_ragged_end(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    full = barriers(1, 1)
    count = cute.size(x)
    if const_expr(ok):
        count = count // 4 * 4
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, 4 * (cute.size(x) // 4 * 4))
        some = cute.make_layout(count)
        source, target = cute.make_tensor(x.iterator, some), cute.make_tensor(s.iterator, some)
        load(source, target, full)  # FAULT
    if const_expr(ok):
        arch.mbarrier_wait(full, 0)
        if t < count:
            y[t] = s[t]


@case(
    "overflow",
    mechanism="a bulk load of a whole vector into a buffer for half of it",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def bulk_load_beyond_the_buffer(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64 if const_expr(ok) else 32)
    rest = shared(32, label="rest")
    full = barriers(1, 1)
    whole = cute.make_tensor(s.iterator, cute.make_layout(64))
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, 256)
        load(first(x, 64), whole, full)  # FAULT
    arch.mbarrier_wait(full, 0)
    if t < 32:
        rest[t] = s[t]
        y[t] = rest[t]


@case(
    "race",
    mechanism="`.read` waits for the source of a reduction, and the sum is read",
    arrays=[f32(64), SUM],
    check_global=True,
)
@cute.kernel
def reduced_value_read_early(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s, seen = shared(64), shared(1, label="seen")
    s[t] = x[t]
    arch.fence_proxy("async.shared")
    arch.sync_threads()
    if t == 0:
        out(cpasync.CopyReduceBulkS2GOp(), s, first(y, 64))  # FAULT
        arch.cp_async_bulk_wait_group(0, read=not ok)
        seen[0] = y[1]  # FAULT


@case(
    "in_flight",
    mechanism="a bulk reduction is never committed to a group",
    arrays=[f32(64), SUM],
)
@cute.kernel
def reduction_without_commit(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    s[t] = x[t]
    arch.fence_proxy("async.shared")
    arch.sync_threads()
    if t == 0:
        atom = cute.make_copy_atom(cpasync.CopyReduceBulkS2GOp(), Float32)
        cute.copy(atom, s, first(y, 64))  # FAULT
        if const_expr(ok):
            arch.cp_async_bulk_commit_group()
        arch.cp_async_bulk_wait_group(0, read=True)


# -- cp.async that arrives at an mbarrier --------------------------------------------------------


def start(src, dst):
    """One cp.async of this thread, of one float."""
    cute.copy(cute.make_copy_atom(cpasync.CopyG2SOp(), Float32, num_bits_per_copy=32), src, dst)


def some(tensor, i):
    """One element, as a tensor."""
    return cute.local_tile(tensor, (1,), (i,))


@case(
    "barrier",
    "race",
    "uninitialised",
    mechanism="every thread's cp.async arrives, and one arrival per warp was counted",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def noinc_count_of_warps(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    full = barriers(1, 64 if const_expr(ok) else 2)
    start(some(x, t), some(s, t))
    arch.cp_async_mbarrier_arrive_noinc(full)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[t] = s[63 - t]


@case(
    "deadlock",
    mechanism="`.noinc` does not announce its arrival: the count has one too many",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def noinc_count_too_high(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    full = barriers(1, 64 if const_expr(ok) else 65)
    start(some(x, t), some(s, t))
    arch.cp_async_mbarrier_arrive_noinc(full)
    arch.mbarrier_wait(full, 0)  # FAULT
    y[t] = s[63 - t]


@case(
    "race",
    "uninitialised",
    mechanism="the arrival is asked for before the copy that it should follow",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def noinc_before_the_copy(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    full = barriers(1, 64)
    if const_expr(not ok):
        arch.cp_async_mbarrier_arrive_noinc(full)
    start(some(x, t), some(s, t))  # FAULT
    if const_expr(ok):
        arch.cp_async_mbarrier_arrive_noinc(full)
    arch.mbarrier_wait(full, 0)
    y[t] = s[63 - t]  # FAULT


@case(
    "race",
    "uninitialised",
    mechanism="an ordinary arrival behind cp.async does not wait for the copy",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def plain_arrival_behind_the_copy(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    full = barriers(1, 64)
    start(some(x, t), some(s, t))  # FAULT
    if const_expr(ok):
        arch.cp_async_mbarrier_arrive_noinc(full)
    else:
        arch.mbarrier_arrive(full)
    arch.mbarrier_wait(full, 0)
    y[t] = s[63 - t]  # FAULT


@case(
    "race",
    "uninitialised",
    mechanism="a barrier of all threads stands for the wait for cp.async's arrivals",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def block_barrier_for_arrivals(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    full = barriers(1, 64)
    start(some(x, t), some(s, t))  # FAULT
    arch.cp_async_mbarrier_arrive_noinc(full)
    if const_expr(ok):
        arch.mbarrier_wait(full, 0)
    else:
        arch.sync_threads()
    y[t] = s[63 - t]  # FAULT
    if const_expr(not ok):
        arch.mbarrier_wait(full, 0)


@case(
    "race",
    mechanism="cp.async refills a stage whose readers have not arrived at empty",
    arrays=[f32(4, 32), f32(4, 32)],
)
@cute.kernel
def copies_lap_the_ring(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared((2, 32))
    full, empty = barriers(2, 32), barriers(2, 32, label="empty")
    if t < 32:
        for k in range_constexpr(4):
            if const_expr(ok):
                arch.mbarrier_wait(empty + k % 2, (k // 2 & 1) ^ 1)
            start(some(x[k, None], t), some(s[k % 2, None], t))  # FAULT
            arch.cp_async_mbarrier_arrive_noinc(full + k % 2)
    else:
        for k in range_constexpr(4):
            arch.mbarrier_wait(full + k % 2, k // 2 & 1)
            y[k, t - 32] = s[k % 2, 63 - t]  # FAULT
            arch.mbarrier_arrive(empty + k % 2)


@case(
    "proxy_fence",
    mechanism="wgmma reads what cp.async has copied, without a fence behind the wait",
    arrays=[A, B, D],
    block=128,
    host=by_hand,
)
@cute.kernel
def wgmma_reads_cp_async(a, b, d, ok: Constexpr):
    t = arch.thread_idx()[0]
    sA, sB = operands()
    full = barriers(1, 128)
    for i in range_constexpr(M * K // 8 // 128):
        at = i * 128 + t
        copy_row(a, sA, at)  # FAULT
    if t < N * K // 8:
        copy_row(b, sB, t)
    arch.cp_async_mbarrier_arrive_noinc(full)
    arch.mbarrier_wait(full, 0)
    if const_expr(ok):
        arch.fence_proxy("async.shared")
    mma, rA, rB, acc = fragments(sA, sB)
    multiply(mma, acc, rA, rB)  # FAULT
    warpgroup.wait_group(0)
    write(mma, acc, d)


def copy_row(x, s, at):
    """8 elements of tile 0: number `at`, row after row."""
    row, column = at // (K // 8), at % (K // 8)
    source = cute.local_tile(x, (1, 8), (row, column))
    target = cute.local_tile(s[None, None, 0], (1, 8), (row, column))
    op = cpasync.CopyG2SOp()
    atom = cute.make_copy_atom(op, BFloat16, num_bits_per_copy=128)
    cute.copy(atom, source[0, None], target[0, None])
