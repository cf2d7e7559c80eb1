"""cp.async: groups, waits, and who may see the bytes when."""

from __future__ import annotations

import numpy as np

from corpus.case import case, f32
from corpus.parts import shared
from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Float32, const_expr, range_constexpr

arch = cute.arch


def start(src, dst):
    """One cp.async of 4 or 16 bytes by this thread."""
    bits = 32 * cute.size(src)
    cute.copy(cute.make_copy_atom(cpasync.CopyG2SOp(), Float32, num_bits_per_copy=bits), src, dst)


def word(tensor, *at):
    """The one element at a coordinate, as a tensor."""
    return cute.make_tensor(
        tensor.iterator + tensor.layout(at if len(at) > 1 else at[0]), cute.make_layout(1)
    )


@case(
    "uninitialised",
    "race",
    mechanism="copied data are read without a wait",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def copy_without_wait(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    start(word(x, t), word(s, t))
    arch.cp_async_commit_group()
    if const_expr(ok):
        arch.cp_async_wait_group(0)
    arch.sync_threads()
    y[t] = s[t]  # FAULT


@case(
    "uninitialised",
    "race",
    mechanism="the wait allows one group too many in flight",
    arrays=[f32(2, 64), f32(64)],
)
@cute.kernel
def copy_wait_too_weak(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared((2, 64))
    for k in range_constexpr(2):
        start(word(x, k, t), word(s, k, t))
        arch.cp_async_commit_group()
    arch.cp_async_wait_group(0 if const_expr(ok) else 1)
    arch.sync_threads()
    y[t] = s[0, t] + s[1, t]  # FAULT


@case(
    "uninitialised",
    "race",
    mechanism="the copies were never committed to a group",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def copy_without_commit(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    start(word(x, t), word(s, t))
    if const_expr(ok):
        arch.cp_async_commit_group()
    arch.cp_async_wait_group(0)
    arch.sync_threads()
    y[t] = s[t]  # FAULT


@case(
    "race",
    mechanism="a thread waits for its own copies and reads those of another",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def copy_without_barrier(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    start(word(x, t), word(s, t))
    arch.cp_async_commit_group()
    arch.cp_async_wait_group(0)
    if const_expr(ok):
        arch.sync_threads()
    y[t] = s[63 - t]  # FAULT


@case(
    "race",
    "uninitialised",
    mechanism="the barrier comes before the wait",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def copy_barrier_before_wait(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    start(word(x, t), word(s, t))
    arch.cp_async_commit_group()
    if const_expr(not ok):
        arch.sync_threads()
    arch.cp_async_wait_group(0)
    if const_expr(ok):
        arch.sync_threads()
    y[t] = s[t ^ 32]  # FAULT


@case(
    "race",
    mechanism="the next tile is copied into the stage that slower warps read",
    arrays=[f32(4, 64), f32(4, 64)],
)
@cute.kernel
def copy_into_stage_in_use(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    start(word(x, 0, t), word(s, t))
    arch.cp_async_commit_group()
    for k in dsl.range(4):
        arch.cp_async_wait_group(0)
        arch.sync_threads()
        y[k, t] = s[63 - t]  # FAULT
        if const_expr(ok):
            arch.sync_threads()
        if k < 3:
            start(word(x, k + 1, t), word(s, t))  # FAULT
        arch.cp_async_commit_group()


@case(
    "race",
    mechanism="pipelining moved the copy before the read of the old value (A14)",
    arrays=[f32(8, 32), f32(32)],
    block=32,
)
@cute.kernel
def copy_before_read(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(32)
    s[t] = Float32(7.0)
    acc = Float32(0.0)
    for k in dsl.range(8):
        if const_expr(not ok):
            start(word(x, k, t), word(s, t))
            arch.cp_async_commit_group()
            acc += s[t]  # FAULT
        else:
            acc += s[t]
            start(word(x, k, t), word(s, t))
            arch.cp_async_commit_group()
        arch.cp_async_wait_group(0)
    y[t] = acc


@case(
    "race",
    mechanism="an ordinary store beside a copy in flight to the same word",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def store_over_copy(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    start(word(x, t), word(s, t))
    arch.cp_async_commit_group()
    if const_expr(ok):
        arch.cp_async_wait_group(0)
    s[t] = Float32(0.0)  # FAULT
    arch.cp_async_wait_group(0)
    arch.sync_threads()
    y[t] = s[t]


@case(
    "out_of_bounds",
    mechanism="a copy past the ragged end, without a predicate",
    arrays=[f32(60), f32(64)],
)
@cute.kernel
def copy_past_the_end(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    s[t] = Float32(0.0)
    arch.sync_threads()
    atom = cute.make_copy_atom(cpasync.CopyG2SOp(), Float32, num_bits_per_copy=32)
    if const_expr(ok):
        inside = cute.make_rmem_tensor(1, dsl.Boolean)
        inside[0] = t < 60
        cute.copy(atom, word(x, t), word(s, t), pred=inside)
    else:
        cute.copy(atom, word(x, t), word(s, t))  # FAULT
    arch.cp_async_commit_group()
    arch.cp_async_wait_group(0)
    arch.sync_threads()
    y[t] = s[t]


@case(
    "uninitialised",
    "race",
    mechanism="a loop that waits before its copies and never after the last",
    arrays=[f32(2, 64), f32(64)],
)
@cute.kernel
def copy_last_not_waited(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared((2, 64))
    for k in dsl.range(2):
        arch.cp_async_wait_group(0)
        start(word(x, k, t), word(s, k, t))
        arch.cp_async_commit_group()
    if const_expr(ok):
        arch.cp_async_wait_group(0)
    arch.sync_threads()
    y[t] = s[1, t]  # FAULT


@case(
    "misaligned",
    mechanism="16 bytes per copy from rows of an odd pitch",
    arrays=[np.zeros((8, 36), np.float32)[:, :33], f32(8)],
    block=8,
)
@cute.kernel
def copy_misaligned(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared((8, 4))
    pitch = 36 if const_expr(ok) else 33
    rows = cute.make_tensor(x.iterator, cute.make_layout((8, 4), stride=(pitch, 1)))
    at = rows.iterator + t * pitch
    src = cute.make_tensor(at.align(16), cute.make_layout(4))
    dst = cute.make_tensor(s.iterator + t * 4, cute.make_layout(4))
    start(src, dst)  # FAULT
    arch.cp_async_commit_group()
    arch.cp_async_wait_group(0)
    y[t] = s[t, 0]
