"""Lanes of a warp: `__syncwarp`, and `.aligned` instructions in divergent code."""

from __future__ import annotations

from corpus.case import case, f32, i32
from corpus.parts import shared
from tilewright import cute, dsl
from tilewright.cute.nvgpu import warp
from tilewright.dsl import Boolean, Constexpr, Float16, Float32, Int32, const_expr

arch = cute.arch


@case(
    "race",
    mechanism="lanes exchange through shared memory without `__syncwarp`",
    arrays=[f32(32), f32(32)],
    block=32,
)
@cute.kernel
def exchange_without_syncwarp(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(32)
    s[t] = x[t]
    if const_expr(ok):
        arch.sync_warp()
    y[t] = s[31 - t]  # FAULT


@case(
    "race",
    mechanism="`__syncwarp` with a mask that leaves out half of the lanes",
    arrays=[f32(32), f32(32)],
    block=32,
)
@cute.kernel
def syncwarp_of_half(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(32)
    if t < 16:
        s[t] = x[t]
        if const_expr(not ok):
            arch.sync_warp(0xFFFF)
    if const_expr(ok):
        arch.sync_warp()
    if t >= 16:
        y[t] = s[t - 16]  # FAULT


@case(
    "race",
    mechanism="divergent lanes write what the other half reads after the branch",
    arrays=[f32(32), f32(32)],
    block=32,
)
@cute.kernel
def branch_is_no_barrier(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(32)
    if t % 2 == 0:
        s[t] = x[t]
    else:
        s[t] = -x[t]
    if const_expr(ok):
        arch.sync_warp()
    y[t] = s[t ^ 1]  # FAULT


@case(
    "aligned_divergence",
    mechanism="a shuffle of the whole warp inside a branch of some lanes",
    arrays=[f32(32), f32(32)],
    block=32,
)
@cute.kernel
def shuffle_in_branch(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    v = x[t]
    if const_expr(ok):
        v = arch.shuffle_sync_bfly(v, 1)
    elif t < 20:
        v = arch.shuffle_sync_bfly(v, 1)  # FAULT
    y[t] = v


@case(
    "aligned_divergence",
    mechanism="`__syncthreads` inside a branch of some lanes",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def syncthreads_in_branch(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    s[t] = x[t]
    if const_expr(ok):
        arch.sync_threads()
    elif t < 48:
        arch.sync_threads()  # FAULT
    y[t] = s[t]


@case(
    "aligned_divergence",
    mechanism="a vote after a return of some lanes",
    arrays=[i32(32), i32(32)],
    block=32,
)
@cute.kernel
def vote_after_exit(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    n = 32 if const_expr(ok) else 30
    if t < n:
        seen = arch.vote_ballot_sync(x[t] > 3)  # FAULT
        y[t] = Int32(seen)


@case(
    "aligned_divergence",
    mechanism="`ldmatrix` by the lanes whose rows exist",
    arrays=[f32(32)],
    block=32,
)
@cute.kernel
def ldmatrix_in_branch(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared((8, 8), Float16)
    for i in dsl.range_constexpr(2):
        s[t // 4, t % 4 * 2 + i] = Float16(1.0)
    arch.sync_warp()
    atom = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 1), Float16)
    r = cute.make_rmem_tensor(2, Float16)
    r.fill(0.0)
    row = s[t % 8, None]
    if const_expr(ok):
        cute.copy(atom, row, r)
    elif t < 8:
        cute.copy(atom, row, r)  # FAULT
    y[t] = r[0].to(Float32)


@case(
    "aligned_divergence",
    mechanism="`elect.sync` inside a branch of some lanes",
    arrays=[i32(32)],
    block=32,
)
@cute.kernel
def elect_in_branch(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    chosen = Boolean(False)
    if const_expr(ok):
        chosen = arch.elect_one_sync()
    elif t >= 8:
        chosen = arch.elect_one_sync()  # FAULT
    if chosen:
        y[t] = Int32(1)


@case(
    "aligned_divergence",
    mechanism="`setmaxnreg` by one warp of the warpgroup",
    arrays=[f32(256)],
    block=256,
)
@cute.kernel
def setmaxnreg_by_one_warp(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if t < (128 if const_expr(ok) else 32):
        arch.setmaxregister_decrease(40)  # FAULT
    y[t] = Float32(1.0)


@case(
    "registers",
    mechanism="`setmaxnreg.dec` to more registers than the warpgroup has",
    arrays=[f32(512)],
    block=512,
)
@cute.kernel
def setmaxnreg_wrong_way(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if t < 128:
        arch.setmaxregister_decrease(40 if const_expr(ok) else 160)  # FAULT
    y[t] = Float32(1.0)


@case(
    "deadlock",
    mechanism="`setmaxnreg.inc` for which no other warpgroup gives registers back",
    arrays=[f32(384)],
    block=384,
)
@cute.kernel
def setmaxnreg_over_budget(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if t < 128:
        arch.setmaxregister_decrease(40 if const_expr(ok) else 152)
    else:
        arch.setmaxregister_increase(232)  # FAULT
    y[t] = Float32(1.0)
