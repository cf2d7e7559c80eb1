"""Distributed shared memory: who may reach into another block, when, and what announces it."""

from __future__ import annotations

import numpy as np

from corpus.case import case, f32, i32
from corpus.parts import shared
from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Float32, Int32, const_expr

arch = cute.arch
ZEROS = np.zeros(64, np.float32)
SENT = np.zeros(256, np.float32)


def cluster_sync():
    arch.cluster_arrive()
    arch.cluster_wait()


def peer(tensor):
    """The tensor of the other block of a pair."""
    rank = arch.block_idx_in_cluster() ^ 1
    return cute.make_tensor(arch.map_dsmem_ptr(tensor.iterator, rank), tensor.layout)


def remote(bar):
    """The mbarrier of the other block of a pair."""
    return arch.map_dsmem_ptr(bar, arch.block_idx_in_cluster() ^ 1)


@cute.jit
def counted(arrivals):
    """An mbarrier that both blocks may use."""
    bar = cute.arch.alloc_smem(dsl.Uint64, 1)
    if arch.thread_idx()[0] == 0:
        arch.mbarrier_init(bar, arrivals)
        arch.mbarrier_init_fence()
    cluster_sync()
    return bar


def four(tensor, t):
    return cute.local_tile(tensor, (4,), (t,))


@case(
    "race",
    "uninitialised",
    mechanism="a peer's shared memory is read behind a barrier of the own block",
    arrays=[f32(64), f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def peer_read_without_cluster_sync(x, y, ok: Constexpr):
    t, at = arch.thread_idx()[0], arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    s = shared(32)
    s[t] = x[at]  # FAULT
    if const_expr(ok):
        cluster_sync()
    else:
        arch.sync_threads()
    y[at] = peer(s)[t]  # FAULT
    cluster_sync()


@case(
    "race",
    "uninitialised",
    mechanism="a block waits for its own threads, not for the peer that stores into it",
    arrays=[f32(64), f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def peer_store_without_cluster_sync(x, y, ok: Constexpr):
    t, at = arch.thread_idx()[0], arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    s = shared(32)
    cluster_sync()
    peer(s)[t] = x[at]  # FAULT
    if const_expr(ok):
        cluster_sync()
    else:
        arch.sync_threads()
    y[at] = s[t]  # FAULT
    cluster_sync()


@case(
    "exit",
    mechanism="a store to a peer that may have ended",
    arrays=[f32(64), f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def peer_store_after_exit(x, y, ok: Constexpr):
    t, at = arch.thread_idx()[0], arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    s = shared(32)
    cluster_sync()
    if arch.block_idx_in_cluster() == 1:
        peer(s)[t] = x[at]  # FAULT
    if const_expr(ok):
        cluster_sync()
    y[at] = x[at]


@case(
    "exit",
    mechanism="a block ends while its peer still reads what it left there",
    arrays=[f32(64), f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def peer_read_after_exit(x, y, ok: Constexpr):
    t, at = arch.thread_idx()[0], arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    s = shared(32)
    s[t] = x[at]
    cluster_sync()
    y[at] = peer(s)[t]  # FAULT
    if const_expr(ok):
        cluster_sync()


@case(
    "race",
    "uninitialised",
    mechanism="the remote arrival comes before the stores that it announces",
    arrays=[f32(64), f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def arrival_before_the_store(x, y, ok: Constexpr):
    t, at = arch.thread_idx()[0], arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    s = shared(32)
    full = counted(32)
    if const_expr(not ok):
        arch.mbarrier_arrive(full, rank ^ 1)
    peer(s)[t] = x[at]  # FAULT
    if const_expr(ok):
        arch.fence_acq_rel_cluster()
        arch.mbarrier_arrive(full, rank ^ 1)
    arch.mbarrier_wait(full, 0)
    y[at] = s[t ^ 1]  # FAULT
    cluster_sync()


@case(
    "race",
    mechanism="a remote arrival announces stores to the peer without a fence of the cluster",
    arrays=[f32(64), f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def arrival_of_block_scope(x, y, ok: Constexpr):
    t, at = arch.thread_idx()[0], arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    s = shared(32)
    full = counted(32)
    peer(s)[t] = x[at]  # FAULT
    if const_expr(ok):
        arch.fence_acq_rel_cluster()
    arch.mbarrier_arrive(full, rank ^ 1)
    arch.mbarrier_wait(full, 0)
    y[at] = s[t ^ 1]  # FAULT
    cluster_sync()


@case(
    "race",
    mechanism="global memory of a peer is read behind an mbarrier, out of an L1 that has old lines",
    arrays=[f32(64), f32(64)],
    grid=2,
    block=32,
    cluster=2,
    check_global=True,
)
@cute.kernel
def global_memory_behind_an_mbarrier(x, y, ok: Constexpr):
    at = arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    full = counted(32)
    x[at] = Float32(1.0)  # FAULT
    arch.fence_acq_rel_cluster()
    arch.mbarrier_arrive(full, rank ^ 1)
    arch.mbarrier_wait(full, 0)
    if const_expr(ok):
        arch.fence_acq_rel_cluster()
    y[at] = x[at ^ 32]  # FAULT
    cluster_sync()


@case(
    "out_of_bounds",
    mechanism="the next block of the last one is beyond the cluster",
    arrays=[f32(64), f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def peer_beyond_the_cluster(x, y, ok: Constexpr):
    t, at = arch.thread_idx()[0], arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    s = shared(32)
    s[t] = x[at]
    cluster_sync()
    rank = arch.block_idx_in_cluster() + 1
    if const_expr(ok):
        rank = rank % 2
    there = cute.make_tensor(arch.map_dsmem_ptr(s.iterator, rank), s.layout)
    y[at] = there[t]  # FAULT
    cluster_sync()


@case(
    "race",
    mechanism="atomics whose scope is the block, on a counter of another block",
    arrays=[i32(2)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def block_scope_on_a_peer(y, ok: Constexpr):
    t, block = arch.thread_idx()[0], arch.block_idx()[0]
    hits = shared(1, Int32)
    if t == 0:
        hits[0] = Int32(0)
    cluster_sync()
    scope = "cluster" if const_expr(ok) else "cta"
    arch.atomic_add(peer(hits).iterator, Int32(1), scope=scope)  # FAULT
    arch.atomic_add(hits.iterator, Int32(1), scope=scope)  # FAULT
    cluster_sync()
    if t == 0:
        y[block] = hits[0]
    cluster_sync()


@case(
    "proxy_fence",
    mechanism="the fence of the own block's memory, for stores to another block's",
    arrays=[f32(64), f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def fence_of_the_wrong_memory(x, y, ok: Constexpr):
    t, at = arch.thread_idx()[0], arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    s = shared(32)
    cluster_sync()
    peer(s)[t] = x[at]  # FAULT
    arch.fence_proxy("async" if const_expr(ok) else "async.shared")
    cluster_sync()
    if t == 0:
        atom = cute.make_copy_atom(cpasync.CopyBulkS2GOp(), Float32)
        cute.copy(atom, s, cute.local_tile(y, (32,), (arch.block_idx()[0],)))  # FAULT
        arch.cp_async_bulk_commit_group()
        arch.cp_async_bulk_wait_group(0)
    cluster_sync()


@cute.jit
def store_async(x, s, full, t, at):
    """4 floats of each thread to the other block."""
    held = cute.make_rmem_tensor(4, Float32)
    cute.autovec_copy(four(x, at), held)
    atom = cute.make_copy_atom(cpasync.CopyDsmemStoreOp(), Float32, num_bits_per_copy=128)
    cute.copy(atom, held, four(peer(s), t), mbar_ptr=remote(full))


@case(
    "barrier",
    "race",
    "uninitialised",
    mechanism="st.async: the bytes of one thread are expected, not those of all",
    arrays=[f32(256), SENT],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def too_few_bytes_expected(x, y, ok: Constexpr):
    t, at = arch.thread_idx()[0], arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    s = shared(128)
    full = counted(1)
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, 16 * 32 if const_expr(ok) else 16)
    store_async(x, s, full, t, at)  # FAULT
    arch.mbarrier_wait(full, 0)
    cute.autovec_copy(four(s, t), four(y, at))
    cluster_sync()


@case(
    "race",
    "uninitialised",
    mechanism="st.async is followed by a cluster barrier, and nobody waits for its bytes",
    arrays=[f32(256), SENT],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def bytes_not_waited_for(x, y, ok: Constexpr):
    t, at = arch.thread_idx()[0], arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    s = shared(128)
    full = counted(1)
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, 16 * 32)
    store_async(x, s, full, t, at)  # FAULT
    cluster_sync()
    if const_expr(ok):
        arch.mbarrier_wait(full, 0)
    cute.autovec_copy(four(s, t), four(y, at))  # FAULT
    cluster_sync()
    if const_expr(not ok):
        arch.mbarrier_wait(full, 0)


@case(
    "barrier",
    mechanism="st.async counts on the sender's own barrier",
    arrays=[f32(256), SENT],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def counted_at_the_sender(x, y, ok: Constexpr):
    t, at = arch.thread_idx()[0], arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    s = shared(128)
    full = counted(1)
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, 16 * 32)
    held = cute.make_rmem_tensor(4, Float32)
    cute.autovec_copy(four(x, at), held)
    atom = cute.make_copy_atom(cpasync.CopyDsmemStoreOp(), Float32, num_bits_per_copy=128)
    own = arch.map_dsmem_ptr(full, arch.block_idx_in_cluster())
    bar = remote(full) if const_expr(ok) else own
    cute.copy(atom, held, four(peer(s), t), mbar_ptr=bar)  # FAULT
    arch.mbarrier_wait(full, 0)
    cute.autovec_copy(four(s, t), four(y, at))
    cluster_sync()


@cute.jit
def send(s, r, full):
    """All of a buffer to the other block."""
    if arch.thread_idx()[0] == 0:
        arch.mbarrier_arrive_and_expect_tx(full, 128)
        atom = cute.make_copy_atom(cpasync.CopyBulkS2SOp(), Float32)
        cute.copy(atom, s, peer(r), mbar_ptr=remote(full))


@case(
    "race",
    mechanism="the source of a copy to a peer is overwritten before the peer has it",
    arrays=[f32(64), ZEROS],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def sent_buffer_reused(x, y, ok: Constexpr):
    t, at = arch.thread_idx()[0], arch.block_idx()[0] * 32 + arch.thread_idx()[0]
    s, r = shared(32), shared(32, label="r")
    full = counted(1)
    s[t] = x[at]
    arch.fence_proxy("async.shared")
    arch.sync_threads()
    send(s, r, full)  # FAULT
    if const_expr(ok):
        arch.mbarrier_wait(full, 0)
        cluster_sync()  # the peer has what was sent
    s[t] = Float32(0)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[at] = r[t] + s[t]
    cluster_sync()


@case(
    "in_flight",
    "exit",
    mechanism="the sender ends while the engine still reads its shared memory",
    arrays=[f32(64), ZEROS],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def sender_exits_early(x, y, ok: Constexpr):
    t, rank = arch.thread_idx()[0], arch.block_idx_in_cluster()
    s, r = shared(32), shared(32, label="r")
    full = counted(1)
    s[t] = x[rank * 32 + t]
    arch.fence_proxy("async.shared")
    arch.sync_threads()
    if rank == 0:
        if t == 0:
            atom = cute.make_copy_atom(cpasync.CopyBulkS2SOp(), Float32)
            cute.copy(atom, s, peer(r), mbar_ptr=remote(full))  # FAULT
    else:
        if t == 0:
            arch.mbarrier_arrive_and_expect_tx(full, 128)
        arch.mbarrier_wait(full, 0)
        y[t] = r[t]
    if const_expr(ok):
        cluster_sync()
