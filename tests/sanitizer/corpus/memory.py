"""Bounds, alignment, uninitialised data, and blocks that share global memory."""

from __future__ import annotations

import numpy as np

from corpus.case import case, f32, i32
from corpus.parts import shared
from tilewright import cute, dsl
from tilewright.dsl import Constexpr, Float32, Int32, const_expr, range_constexpr

arch = cute.arch


# -- bounds ----------------------------------------------------------------------------------------


@case(
    "out_of_bounds",
    mechanism="the last block reads past the ragged end",
    arrays=[f32(100), f32(128)],
    grid=2,
)
@cute.kernel
def ragged_read(x, y, ok: Constexpr):
    i = arch.block_idx()[0] * 64 + arch.thread_idx()[0]
    v = Float32(0.0)
    if const_expr(ok):
        if i < x.shape[0]:
            v = x[i]
    else:
        v = x[i]  # FAULT
    y[i] = v


@case("out_of_bounds", mechanism="a predicate with <= where < is meant", arrays=[f32(100)], grid=2)
@cute.kernel
def predicate_off_by_one(y, ok: Constexpr):
    i = arch.block_idx()[0] * 64 + arch.thread_idx()[0]
    n = y.shape[0]
    if i < (n if const_expr(ok) else n + 1):
        y[i] = Float32(1.0)  # FAULT


@case(
    "out_of_bounds",
    mechanism="a halo that reads before the first element",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def halo_before_start(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    left = t - 1
    if const_expr(ok):
        left = cute.where(left < 0, Int32(0), left)
    y[t] = x[left] + x[t]  # FAULT


@case(
    "overflow",
    "out_of_bounds",
    mechanism="an index beyond an allocation, into its neighbour",
    arrays=[f32(64), f32(64)],
)
@cute.kernel
def shared_neighbour(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    a, b = shared(64, label="a"), shared(64, label="b")
    b[t] = Float32(0.0)
    arch.sync_threads()
    a[t if const_expr(ok) else t + 1] = x[t]  # FAULT
    arch.sync_threads()
    y[t] = a[63 - t] + b[t]


@case(
    "out_of_bounds",
    "overflow",
    mechanism="a padded pitch on a buffer without padding",
    arrays=[f32(8, 32), f32(8, 32)],
    block=32,
)
@cute.kernel
def padding_not_allocated(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    room = shared(8 * 33 if const_expr(ok) else 8 * 32)
    s = cute.make_tensor(room.iterator, cute.make_layout((8, 32), stride=(33, 1)))
    for r in range_constexpr(8):
        s[r, t] = x[r, t]  # FAULT
    arch.sync_warp()
    y[t // 4, t % 4] = s[t // 4, t % 4]


@case(
    "register_index",
    mechanism="a run-time index beyond a register array",
    arrays=[f32(4), f32(8)],
    block=8,
)
@cute.kernel
def register_index_too_large(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    r = cute.make_rmem_tensor(4, Float32)
    for i in range_constexpr(4):
        r[i] = x[i]
    y[t] = r[t % 4 if const_expr(ok) else t]  # FAULT


# -- alignment and initialisation ----------------------------------------------------------------


@case(
    "misaligned",
    mechanism="a vector load at an element that is not a multiple of the vector",
    arrays=[f32(72), f32(8)],
    block=8,
)
@cute.kernel
def vector_load_misaligned(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    at = t * (4 if const_expr(ok) else 5)
    r = cute.make_rmem_tensor(4, Float32)
    quad = cute.make_tensor((x.iterator + at).align(16), cute.make_layout(4))
    cute.autovec_copy(quad, r)  # FAULT
    y[t] = r[0]


@case(
    "misaligned",
    mechanism="a shared vector store at an odd row pitch",
    arrays=[f32(8), f32(8)],
    block=8,
)
@cute.kernel
def shared_pitch_breaks_vectors(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    pitch = 36 if const_expr(ok) else 33
    s = shared(8 * 36)
    r = cute.make_rmem_tensor(4, Float32)
    r.fill(1.0)
    row = cute.make_tensor((s.iterator + t * pitch).align(16), cute.make_layout(4))
    cute.autovec_copy(r, row)  # FAULT
    y[t] = row[0] + x[t]


@case(
    "uninitialised", mechanism="half of a shared buffer is never written", arrays=[f32(64), f32(64)]
)
@cute.kernel
def shared_half_written(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    s = shared(64)
    if t < (64 if const_expr(ok) else 32):
        s[t] = x[t]
    arch.sync_threads()
    y[t] = s[t]  # FAULT


@case(
    "uninitialised",
    mechanism="a sum starts from a register that nothing wrote",
    arrays=[f32(4, 32), f32(32)],
    block=32,
)
@cute.kernel
def register_never_written(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    acc = cute.make_rmem_tensor(1, Float32)
    if const_expr(ok):
        acc.fill(0.0)
    for k in dsl.range(4):
        acc[0] = acc[0] + x[k, t]  # FAULT
    y[t] = acc[0]


@case(
    "uninitialised",
    mechanism="predicated loads leave registers of the edge undefined",
    arrays=[f32(60), f32(64)],
)
@cute.kernel
def predicated_register_undefined(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    r = cute.make_rmem_tensor(1, Float32)
    if const_expr(ok):
        r.fill(0.0)
    if t < x.shape[0]:
        r[0] = x[t]
    y[t] = r[0] * Float32(2.0)  # FAULT


# -- blocks that share global memory -------------------------------------------------------------


@case(
    "race",
    mechanism="two blocks add to one global word with plain loads and stores",
    arrays=[f32(1)],
    grid=2,
    block=1,
    check_global=True,
)
@cute.kernel
def global_plain_sum(y, ok: Constexpr):
    if const_expr(ok):
        arch.atomic_add(y.iterator, Float32(1.0))
    else:
        y[0] = y[0] + Float32(1.0)  # FAULT


@case(
    "race",
    mechanism="overlapping tiles: two blocks write one row",
    arrays=[f32(5, 32)],
    grid=2,
    block=32,
    check_global=True,
)
@cute.kernel
def overlapping_tiles(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    first = arch.block_idx()[0] * 2
    for r in dsl.range_constexpr(2 if const_expr(ok) else 3):
        y[first + r, t] = Float32(r)  # FAULT


@case(
    "race",
    mechanism="a flag is raised by a relaxed atomic: the data before it are not released",
    arrays=[f32(32), i32(1), f32(32)],
    grid=2,
    block=32,
    check_global=True,
)
@cute.kernel
def flag_without_release(data, flag, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if arch.block_idx()[0] == 0:
        data[t] = Float32(7.0)  # FAULT
        arch.sync_threads()
        if t == 0:
            if const_expr(ok):
                arch.fence_acq_rel_gpu()
            arch.atomic_exch(flag.iterator, Int32(1))
    else:
        seen = arch.atomic_add(flag.iterator, Int32(0), sem="acquire", scope="gpu")
        while seen == 0:
            seen = arch.atomic_add(flag.iterator, Int32(0), sem="acquire", scope="gpu")
        y[t] = data[t]  # FAULT


@case(
    "race",
    mechanism="the fence's scope is the block, the reader is in another one",
    arrays=[f32(32), i32(1), f32(32)],
    grid=2,
    block=32,
    check_global=True,
)
@cute.kernel
def fence_scope_too_small(data, flag, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    if arch.block_idx()[0] == 0:
        data[t] = Float32(7.0)  # FAULT
        arch.sync_threads()
        if t == 0:
            if const_expr(ok):
                arch.fence_acq_rel_gpu()
            else:
                arch.fence_acq_rel_cta()
            arch.atomic_exch(flag.iterator, Int32(1))
    else:
        seen = arch.atomic_add(flag.iterator, Int32(0), sem="acquire", scope="gpu")
        while seen == 0:
            seen = arch.atomic_add(flag.iterator, Int32(0), sem="acquire", scope="gpu")
        y[t] = data[t]  # FAULT


@case(
    "race",
    mechanism="atomics whose scope is one block, on a word that two blocks share",
    arrays=[i32(1)],
    grid=2,
    block=1,
    check_global=True,
)
@cute.kernel
def atomic_scope_too_small(y, ok: Constexpr):
    scope = "gpu" if const_expr(ok) else "cta"
    arch.atomic_add(y.iterator, Int32(1), scope=scope)  # FAULT


@case(
    "race",
    mechanism="a plain load polls a word that another block writes atomically",
    arrays=[i32(2)],
    grid=2,
    block=1,
    check_global=True,
)
@cute.kernel
def plain_load_beside_atomic(y, ok: Constexpr):
    if arch.block_idx()[0] == 0:
        arch.atomic_add(y.iterator, Int32(1))  # FAULT
    elif const_expr(ok):
        y[1] = arch.atomic_add(y.iterator, Int32(0))
    else:
        y[1] = y[0]  # FAULT


@case(
    "race",
    mechanism="threads of one block exchange through global memory without a barrier",
    arrays=[f32(64), f32(64)],
    check_global=True,
)
@cute.kernel
def global_exchange_in_block(x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    x[t] = Float32(t)  # FAULT
    if const_expr(ok):
        arch.sync_threads()
    y[t] = x[63 - t]  # FAULT


@case(
    "race",
    mechanism="a kernel that works in place reads what another block has overwritten",
    arrays=[np.arange(65, dtype=np.float32), f32(64)],
    grid=2,
    block=32,
    check_global=True,
)
@cute.kernel
def in_place_stencil(x, y, ok: Constexpr):
    i = arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    v = x[i] + x[i + 1]  # FAULT
    if const_expr(ok):
        y[i] = v
    else:
        x[i] = v  # FAULT
