"""Kernels around distributed shared memory, bulk copies and reductions, and cp.async arrivals.

`test_bulk` runs them on the simulated machine, `tests/gpu/test_bulk_on_gpu.py` on a GPU.
"""

from __future__ import annotations

from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Float32, Int32, const_expr, range_constexpr
from tilewright.utils import SmemAllocator

arch = cute.arch
THREADS = 128
CLUSTER = 4
TILE = 512


def cluster_sync():
    arch.cluster_arrive()
    arch.cluster_wait()


def peer(tensor, rank):
    """The tensor at the same place in another block of the cluster."""
    return cute.make_tensor(arch.map_dsmem_ptr(tensor.iterator, rank), tensor.layout)


def vector(tensor, thread, width=4):
    """The `width` elements of a thread."""
    return cute.local_tile(tensor, (width,), (thread,))


@cute.jit
def one_barrier(arrivals: Constexpr):
    """An mbarrier that every thread of the cluster may use."""
    bar = SmemAllocator().allocate_array(dsl.Int64, 1, label="bar")
    if arch.thread_idx()[0] == 0:
        arch.mbarrier_init(bar, arrivals)
        arch.mbarrier_init_fence()
    return bar


# -- a sum over a cluster ----------------------------------------------------------------------


@cute.kernel
def cluster_sum(x: cute.Tensor, y: cute.Tensor):
    """``y[block]`` is the sum of what the cluster's blocks read: THREADS elements each.

    Warps shuffle, the block adds its warps' sums in shared memory, and every block adds those of
    all blocks, which it reads where they lie.
    """
    t, block = arch.thread_idx()[0], arch.block_idx()[0]
    smem = SmemAllocator()
    warps = smem.allocate_tensor(Float32, cute.make_layout(THREADS // 32), label="warps")
    total = smem.allocate_tensor(Float32, cute.make_layout(1), label="total")
    mine = arch.warp_reduction_sum(x[block * THREADS + t])
    if t % 32 == 0:
        warps[t // 32] = mine
    arch.sync_threads()
    if t == 0:
        total[0] = warps[0] + warps[1] + warps[2] + warps[3]
    cluster_sync()  # the totals of all blocks are there
    if t == 0:
        sum = Float32(0)
        for rank in range_constexpr(CLUSTER):
            sum = sum + peer(total, rank)[0]
        y[block] = sum
    cluster_sync()  # nobody ends while others read its total


@cute.jit
def cluster_sum_host(x: cute.Tensor, y: cute.Tensor):
    blocks = cute.size(x) // THREADS
    cluster_sum(x, y).launch(grid=blocks, block=THREADS, cluster=(CLUSTER, 1, 1))


# -- loads, stores and atomics of a peer -------------------------------------------------------


@cute.kernel
def exchange(x: cute.Tensor, stored: cute.Tensor, loaded: cute.Tensor, count: cute.Tensor):
    """Each block gives its part of x to the other of its pair, and reads that of the other."""
    t, block = arch.thread_idx()[0], arch.block_idx()[0]
    rank = arch.block_idx_in_cluster()
    smem = SmemAllocator()
    own = smem.allocate_tensor(Float32, cute.make_layout(4 * THREADS), 16, label="own")
    got = smem.allocate_tensor(Float32, cute.make_layout(4 * THREADS), 16, label="got")
    hits = smem.allocate_tensor(Int32, cute.make_layout(1), 16, label="hits")
    if t == 0:
        hits[0] = Int32(0)
    cluster_sync()  # the other block has started, and its counter is 0
    part = block * THREADS + t
    cute.autovec_copy(vector(x, part), vector(own, t))
    cute.autovec_copy(vector(own, t), vector(peer(got, rank ^ 1), t))
    arch.atomic_add(peer(hits, rank ^ 1).iterator, Int32(1), scope="cluster")
    cluster_sync()
    cute.autovec_copy(vector(got, t), vector(stored, part))
    cute.autovec_copy(vector(peer(own, rank ^ 1), t), vector(loaded, part))
    if t == 0:
        count[block] = hits[0]
    cluster_sync()


@cute.jit
def exchange_host(x: cute.Tensor, stored: cute.Tensor, loaded: cute.Tensor, count: cute.Tensor):
    blocks = cute.size(x) // (4 * THREADS)
    exchange(x, stored, loaded, count).launch(grid=blocks, block=THREADS, cluster=(2, 1, 1))


@cute.kernel
def handshake(x: cute.Tensor, y: cute.Tensor, rounds: Constexpr):
    """Each block hands vectors to the other of its pair, one buffer, by full and empty barriers."""
    t, block = arch.thread_idx()[0], arch.block_idx()[0]
    other = arch.block_idx_in_cluster() ^ 1
    smem = SmemAllocator()
    inbox = smem.allocate_tensor(Float32, cute.make_layout(4 * THREADS), 16, label="inbox")
    full, empty = one_barrier(THREADS), one_barrier(THREADS)
    cluster_sync()
    for k in dsl.range(rounds):
        part = (k * arch.grid_dim()[0] + block) * THREADS + t
        arch.mbarrier_wait(empty, (k & 1) ^ 1)  # the other one has read
        cute.autovec_copy(vector(x, part), vector(peer(inbox, other), t))
        arch.fence_acq_rel_cluster()  # the arrival itself releases to the own block only
        arch.mbarrier_arrive(full, other)
        arch.mbarrier_wait(full, k & 1)
        for i in range_constexpr(4):
            y[4 * (part - t) + i * THREADS + t] = inbox[i * THREADS + t]
        arch.mbarrier_arrive(empty, other)
    cluster_sync()


@cute.jit
def handshake_host(x: cute.Tensor, y: cute.Tensor, rounds: Constexpr):
    blocks = cute.size(x) // (4 * THREADS * rounds)
    handshake(x, y, rounds).launch(grid=blocks, block=THREADS, cluster=(2, 1, 1))


@cute.kernel
def multicast(x: cute.Tensor, y: cute.Tensor):
    """Every block of a cluster gets all of the cluster's part of x, and loads a quarter of it."""
    t, block = arch.thread_idx()[0], arch.block_idx()[0]
    rank = arch.block_idx_in_cluster()
    s = SmemAllocator().allocate_tensor(Float32, cute.make_layout(CLUSTER * TILE), 16, label="s")
    bar = one_barrier(1)
    cluster_sync()
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(bar, 4 * CLUSTER * TILE)
        atom = cute.make_copy_atom(cpasync.CopyBulkG2SMulticastOp(), Float32)
        quarter = cute.local_tile(x, (TILE,), (block,))
        cute.copy(atom, quarter, cute.local_tile(s, (TILE,), (rank,)), mbar_ptr=bar, mcast_mask=15)
    arch.mbarrier_wait(bar, 0)
    for i in range_constexpr(CLUSTER * TILE // THREADS):
        y[block, i * THREADS + t] = s[i * THREADS + t]
    cluster_sync()


@cute.jit
def multicast_host(x: cute.Tensor, y: cute.Tensor):
    multicast(x, y).launch(grid=cute.size(x) // TILE, block=THREADS, cluster=(CLUSTER, 1, 1))


# -- what arrives asynchronously at a peer -------------------------------------------------------


@cute.kernel
def send(x: cute.Tensor, y: cute.Tensor, by_bulk: Constexpr):
    """Each block sends its part of x to the next of its cluster: st.async, or one bulk copy."""
    t, block = arch.thread_idx()[0], arch.block_idx()[0]
    to = (arch.block_idx_in_cluster() + 1) % CLUSTER
    smem = SmemAllocator()
    own = smem.allocate_tensor(Float32, cute.make_layout(4 * THREADS), 16, label="own")
    got = smem.allocate_tensor(Float32, cute.make_layout(4 * THREADS), 16, label="got")
    bar = one_barrier(1)
    cluster_sync()
    if t == 0:
        arch.mbarrier_arrive_and_expect_tx(bar, 16 * THREADS)
    part = block * THREADS + t
    there, counter = peer(got, to), arch.map_dsmem_ptr(bar, to)
    if const_expr(by_bulk):
        cute.autovec_copy(vector(x, part), vector(own, t))
        arch.fence_proxy("async.shared")
        arch.sync_threads()
        if t == 0:
            atom = cute.make_copy_atom(cpasync.CopyBulkS2SOp(), Float32)
            cute.copy(atom, own, there, mbar_ptr=counter)
    else:
        held = cute.make_rmem_tensor(4, Float32)
        cute.autovec_copy(vector(x, part), held)
        atom = cute.make_copy_atom(cpasync.CopyDsmemStoreOp(), Float32, num_bits_per_copy=128)
        cute.copy(atom, held, vector(there, t), mbar_ptr=counter)
    arch.mbarrier_wait(bar, 0)
    cute.autovec_copy(vector(got, t), vector(y, part))
    cluster_sync()


@cute.jit
def send_host(x: cute.Tensor, y: cute.Tensor, by_bulk: Constexpr):
    blocks = cute.size(x) // (4 * THREADS)
    send(x, y, by_bulk).launch(grid=blocks, block=THREADS, cluster=(CLUSTER, 1, 1))


# -- bulk copies and reductions ------------------------------------------------------------------


def rows_of(tensor, shape, pitch):
    return cute.make_tensor(tensor.iterator, cute.make_layout(shape, stride=(pitch, 1)))


@cute.kernel
def bulk_round_trip(x: cute.Tensor, y: cute.Tensor):
    """y = 2 x, a tile of TILE elements per block: in and out by bulk copies."""
    t, block = arch.thread_idx()[0], arch.block_idx()[0]
    s = SmemAllocator().allocate_tensor(Float32, cute.make_layout(TILE), 16, label="s")
    bar = one_barrier(1)
    arch.sync_threads()
    if t == 0:
        load = cute.make_copy_atom(cpasync.CopyBulkG2SOp(), Float32)
        arch.mbarrier_arrive_and_expect_tx(bar, 4 * TILE)
        cute.copy(load, cute.local_tile(x, (TILE,), (block,)), s, mbar_ptr=bar)
    arch.mbarrier_wait(bar, 0)
    for i in range_constexpr(TILE // THREADS):
        s[t + i * THREADS] = s[t + i * THREADS] * 2.0
    arch.fence_proxy("async.shared")
    arch.sync_threads()
    if t == 0:
        store = cute.make_copy_atom(cpasync.CopyBulkS2GOp(), Float32)
        cute.copy(store, s, cute.local_tile(y, (TILE,), (block,)))
        arch.cp_async_bulk_commit_group()
        arch.cp_async_bulk_wait_group(0)


@cute.jit
def bulk_round_trip_host(x: cute.Tensor, y: cute.Tensor):
    bulk_round_trip(x, y).launch(grid=cute.size(x) // TILE, block=THREADS)


@cute.kernel
def bulk_rows(y: cute.Tensor, shape: Constexpr, pitches: Constexpr, bits: Constexpr):
    """``y[i, j] = 100 i + j``, both sides with rows of a pitch of their own."""
    t = arch.thread_idx()[0]
    layout = cute.make_layout(shape, stride=(pitches[0], 1))
    s = SmemAllocator().allocate_tensor(Float32, layout, 16, label="s")
    if t < shape[0]:
        for j in range_constexpr(shape[1]):
            s[t, j] = Float32(100 * t + j)
    arch.fence_proxy("async.shared")
    arch.sync_threads()
    if t == 0:
        atom = cute.make_copy_atom(cpasync.CopyBulkS2GOp(), Float32, num_bits_per_copy=bits)
        cute.copy(atom, s, rows_of(y, shape, pitches[1]))
        arch.cp_async_bulk_commit_group()
        arch.cp_async_bulk_wait_group(0)


@cute.jit
def bulk_rows_host(y: cute.Tensor, shape: Constexpr, pitches: Constexpr, bits: Constexpr):
    bulk_rows(y, shape, pitches, bits).launch(grid=1, block=32)


@cute.kernel
def bulk_reduce(x: cute.Tensor, y: cute.Tensor, kind: Constexpr):
    """Every block reduces its row of x (blocks, TILE) into y (TILE)."""
    t, block = arch.thread_idx()[0], arch.block_idx()[0]
    s = SmemAllocator().allocate_tensor(x.element_type, cute.make_layout(TILE), 16, label="s")
    for i in range_constexpr(TILE // THREADS):
        s[t + i * THREADS] = x[block, t + i * THREADS]
    arch.fence_proxy("async.shared")
    arch.sync_threads()
    if t == 0:
        atom = cute.make_copy_atom(cpasync.CopyReduceBulkS2GOp(kind), x.element_type)
        cute.copy(atom, s, y)
        arch.cp_async_bulk_commit_group()
        arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def bulk_reduce_host(x: cute.Tensor, y: cute.Tensor, kind: Constexpr):
    whole = cute.local_tile(y, (TILE,), (0,))
    bulk_reduce(x, whole, kind).launch(grid=x.shape[0], block=THREADS)


ROWS, COLUMNS = 16, 32


@cute.kernel
def tensor_reduce(tma, coords: cute.Tensor, x: cute.Tensor):
    """Every block reduces its tile of x (blocks, ROWS, COLUMNS) into one tile of the tensor."""
    t, block = arch.thread_idx()[0], arch.block_idx()[0]
    layout = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    s = SmemAllocator().allocate_tensor(x.element_type, layout, 128, label="s")
    for i in range_constexpr(ROWS * COLUMNS // THREADS):
        at = t + i * THREADS
        s[at // COLUMNS, at % COLUMNS] = x[block, at // COLUMNS, at % COLUMNS]
    arch.fence_proxy("async.shared")
    arch.sync_threads()
    if t == 0:
        tiles = cute.group_modes(cute.local_tile(coords, (ROWS, COLUMNS), (0, 0)), 0, 2)
        ours = cute.group_modes(s, 0, 2)
        source, target = cpasync.tma_partition(tma, 0, cute.make_layout(1), ours, tiles)
        cute.copy(tma, source, target)
        arch.cp_async_bulk_commit_group()
        arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def tensor_reduce_host(x: cute.Tensor, y: cute.Tensor, kind: Constexpr):
    tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    op = cpasync.CopyReduceBulkTensorTileS2GOp(kind)
    tma, coords = cpasync.make_tiled_tma_atom(op, y, tile, (ROWS, COLUMNS))
    tensor_reduce(tma, coords, x).launch(grid=x.shape[0], block=THREADS)


# -- cp.async that arrives at an mbarrier --------------------------------------------------------


@cute.kernel
def copy_pipeline(x: cute.Tensor, y: cute.Tensor, tiles: Constexpr, stages: Constexpr):
    """y = x + 1: the first THREADS threads copy with cp.async, as many others compute."""
    t = arch.thread_idx()[0]
    smem = SmemAllocator()
    layout = cute.make_layout((4 * THREADS, stages), stride=(1, 4 * THREADS))
    ring = smem.allocate_tensor(Float32, layout, 16, label="ring")
    full = smem.allocate_array(dsl.Int64, stages, label="full")
    empty = smem.allocate_array(dsl.Int64, stages, label="empty")
    if t == 0:
        for i in range_constexpr(stages):
            arch.mbarrier_init(full + i, THREADS)
            arch.mbarrier_init(empty + i, THREADS)
    arch.sync_threads()
    if t < THREADS:
        atom = cute.make_copy_atom(cpasync.CopyG2SOp(), Float32, num_bits_per_copy=128)
        for k in dsl.range(tiles):
            stage, turn = k % stages, k // stages
            arch.mbarrier_wait(empty + stage, (turn & 1) ^ 1)
            slot = vector(ring[None, stage], t)
            cute.copy(atom, vector(x, k * THREADS + t), slot)
            arch.cp_async_mbarrier_arrive_noinc(full + stage)
    else:
        u = t - THREADS
        for k in dsl.range(tiles):
            stage, turn = k % stages, k // stages
            arch.mbarrier_wait(full + stage, turn & 1)
            # Elements that another thread has copied.
            for i in range_constexpr(4):
                y[k * 4 * THREADS + i * THREADS + u] = ring[i * THREADS + u, stage] + 1.0
            arch.mbarrier_arrive(empty + stage)


@cute.jit
def copy_pipeline_host(x: cute.Tensor, y: cute.Tensor, tiles: Constexpr, stages: Constexpr):
    copy_pipeline(x, y, tiles, stages).launch(grid=1, block=2 * THREADS)
