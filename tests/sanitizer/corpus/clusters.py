"""Clusters: the cluster barrier, remote arrivals, multicast, and the exit of a block."""

from __future__ import annotations

from corpus.case import case, f32
from corpus.parts import barriers, shared
from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Float32, const_expr

arch = cute.arch
ROWS, COLUMNS = 4, 32
BYTES = ROWS * COLUMNS * 4


def cluster_sync():
    arch.cluster_arrive()
    arch.cluster_wait()


@cute.jit
def multicast(kernel: Constexpr, arrays, ok: Constexpr, shape: Constexpr):
    """`kernel(tma, x, y, ok)`: each block loads half of a tile into both blocks of its cluster."""
    tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    op = cpasync.CopyBulkTensorTileG2SMulticastOp()
    tma, x = cpasync.make_tiled_tma_atom(op, arrays[0], tile, (ROWS, COLUMNS), 2)
    kernel(tma, x, arrays[1], ok).launch(grid=2, block=shape.block, cluster=(2, 1, 1))


def stages(count):
    layout = cute.make_layout((ROWS, COLUMNS, count), stride=(COLUMNS, 1, ROWS * COLUMNS))
    return shared(layout, align=128)


@cute.jit
def start_load(tma, x, s, full, tile=0, mask=3):
    """This block's half of a box, into stage 0 of the blocks in `mask`."""
    tiles = cute.group_modes(cute.local_tile(x, (ROWS, COLUMNS), (None, 0)), 0, 2)
    rank = arch.block_idx_in_cluster()
    sX, gX = cpasync.tma_partition(tma, rank, cute.make_layout(2), cute.group_modes(s, 0, 2), tiles)
    cute.copy(tma, gX[None, tile], sX[None, 0], tma_bar_ptr=full, mcast_mask=mask)


@case(
    "barrier",
    "race",
    "deadlock",
    "exit",
    mechanism="a remote arrival before the peer has initialised its barrier",
    arrays=[f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def no_cluster_sync_at_start(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    full = arch.alloc_smem(dsl.Uint64, 1)
    if t == 0:
        arch.mbarrier_init(full, 1)  # FAULT
        arch.mbarrier_init_fence()
    if const_expr(ok):
        cluster_sync()
    else:
        arch.sync_threads()
    if t == 0:
        arch.mbarrier_arrive(full, rank ^ 1)  # FAULT
    arch.mbarrier_wait(full, 0)  # FAULT
    cluster_sync()
    y[rank * 32 + t] = Float32(1.0)


@case(
    "exit",
    "barrier",
    "race",
    mechanism="a block exits while its peer may still arrive at its barrier",
    arrays=[f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def no_cluster_sync_at_exit(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    done = barriers(1, 1)
    cluster_sync()
    if rank == 1 and t == 0:
        arch.mbarrier_arrive(done, 0)  # FAULT
    if const_expr(ok):
        cluster_sync()
    y[rank * 32 + t] = Float32(1.0)


@case(
    "barrier",
    mechanism="a block waits at the cluster barrier and has not arrived",
    arrays=[f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def cluster_wait_without_arrive(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    if const_expr(ok):
        arch.cluster_arrive()
    arch.cluster_wait()  # FAULT
    y[rank * 32 + t] = Float32(1.0)


@case(
    "barrier",
    "deadlock",
    mechanism="two arrivals at the cluster barrier for one wait",
    arrays=[f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def cluster_arrive_twice(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    arch.cluster_arrive()
    if const_expr(not ok):
        arch.cluster_arrive()  # FAULT
    arch.cluster_wait()
    y[rank * 32 + t] = Float32(1.0)


@case(
    "deadlock",
    mechanism="one block of the cluster skips the cluster barrier and waits for the other",
    arrays=[f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def one_block_skips_cluster_barrier(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    done = barriers(1, 1)
    cluster_sync()
    if const_expr(ok):
        cluster_sync()  # (both)
    elif rank == 0:
        cluster_sync()  # FAULT
    if t == 0:
        arch.mbarrier_arrive(done, rank ^ 1)
    arch.mbarrier_wait(done, 0)  # FAULT
    cluster_sync()  # FAULT
    y[rank * 32 + t] = Float32(1.0)


@case(
    "out_of_bounds",
    mechanism="an arrival at a rank beyond the cluster",
    arrays=[f32(64)],
    grid=2,
    block=32,
    cluster=2,
)
@cute.kernel
def rank_beyond_cluster(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    done = barriers(1, 1)
    cluster_sync()
    if t == 0:
        arch.mbarrier_arrive(done, (rank + 1) % 2 if const_expr(ok) else rank + 1)  # FAULT
    cluster_sync()
    y[rank * 32 + t] = Float32(1.0)


@case(
    "race",
    mechanism="cluster_arrive_relaxed where earlier writes must be seen",
    arrays=[f32(64)],
    grid=2,
    block=32,
    cluster=2,
    check_global=True,
)
@cute.kernel
def relaxed_cluster_arrive(y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    if rank == 0:
        y[t] = Float32(1.0)  # FAULT
    if const_expr(ok):
        arch.cluster_arrive()
    else:
        arch.cluster_arrive_relaxed()
    arch.cluster_wait()
    if rank == 1:
        y[32 + t] = y[t]  # FAULT


# -- multicast -------------------------------------------------------------------------------------


@case(
    "race",
    "barrier",
    mechanism="a multicast into a peer that still reads the stage",
    arrays=[f32(8, 32), f32(4, 32)],
    block=32,
    host=multicast,
)
@cute.kernel
def multicast_into_busy_peer(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    s, full = stages(1), barriers(1, 1)
    cluster_sync()
    for k in dsl.range(2):
        if t == 0:
            arch.mbarrier_arrive_and_expect_tx(full, BYTES)
            start_load(tma, x, s, full, k)  # FAULT
        arch.mbarrier_wait(full, k)
        y[k * 2 + rank, t] = s[3, t, 0]  # FAULT
        if const_expr(ok):
            cluster_sync()
        else:
            arch.sync_threads()
    cluster_sync()


@case(
    "race",
    "barrier",
    "uninitialised",
    "exit",
    "in_flight",
    mechanism="expect_tx counts the own half of a multicast, not both",
    arrays=[f32(8, 32), f32(4, 32)],
    block=32,
    host=multicast,
)
@cute.kernel
def multicast_half_expected(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    s, full = stages(1), barriers(1, 1)
    cluster_sync()
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES if const_expr(ok) else BYTES // 2)
        start_load(tma, x, s, full)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[rank, t] = s[0, t, 0]
    cluster_sync()


@case(
    "deadlock",
    mechanism="the multicast mask leaves out the peer, which waits for its bytes",
    arrays=[f32(8, 32), f32(4, 32)],
    block=32,
    host=multicast,
)
@cute.kernel
def multicast_mask_too_small(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    s, full = stages(1), barriers(1, 1)
    cluster_sync()
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES)
        start_load(tma, x, s, full, 0, 3 if const_expr(ok) else 1)
    arch.mbarrier_wait(full, 0)  # FAULT
    y[rank, t] = s[0, t, 0]
    cluster_sync()  # FAULT


@case(
    "descriptor",
    mechanism="the multicast mask names blocks that the cluster does not have",
    arrays=[f32(8, 32), f32(4, 32)],
    block=32,
    host=multicast,
)
@cute.kernel
def multicast_mask_too_large(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    s, full = stages(1), barriers(1, 1)
    cluster_sync()
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES)
        start_load(tma, x, s, full, 0, 3 if const_expr(ok) else 7)  # FAULT
    arch.mbarrier_wait(full, 0)
    y[rank, t] = s[0, t, 0]
    cluster_sync()


@case(
    "exit",
    "race",
    "barrier",
    "in_flight",
    mechanism="a block exits while the peer's multicast may still write into it",
    arrays=[f32(8, 32), f32(4, 32)],
    block=32,
    host=multicast,
)
@cute.kernel
def exit_under_multicast(tma, x, y, ok: Constexpr):
    t = arch.thread_idx()[0]
    rank = arch.block_idx_in_cluster()
    s, full = stages(1), barriers(1, 1)
    cluster_sync()
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(full, BYTES)
        start_load(tma, x, s, full)  # FAULT
    waits = 2 if const_expr(ok) else 1
    if rank < waits:
        arch.mbarrier_wait(full, 0)
    if const_expr(ok):
        cluster_sync()
    y[rank, t] = Float32(1.0)
