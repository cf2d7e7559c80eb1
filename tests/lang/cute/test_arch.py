"""cute.arch: each word makes its operation, in its form; wrong numbers are refused."""

import pytest
from traced import kernel

from tilewright.errors import ResourceError, TypeMismatchError
from tilewright.ir.ops import control, copy, memory, sync
from tilewright.lang.cute import arch
from tilewright.lang.cute.pointer import Pointer
from tilewright.lang.values import BFloat16, Boolean, Float32, Int32, Int64, Uint32, Uint64


def names(k) -> list[str]:
    return [op.name for op in k.ops if op.name != "arith.constant"]


def test_indices() -> None:
    with kernel() as k:
        for word in (arch.thread_idx, arch.block_idx, arch.block_dim, arch.grid_dim):
            assert [type(x) for x in word()] == [Int32] * 3
        assert [op.register for op in k.all(sync.Special)[:3]] == ["thread_idx"] * 3
        assert [op.axis for op in k.all(sync.Special)[:3]] == [0, 1, 2]
        assert type(arch.lane_idx()) is Int32
        assert type(arch.clock()) is Int64
        assert type(arch.block_idx_in_cluster()) is Int32
        assert len(arch.cluster_idx()) == len(arch.block_in_cluster_idx()) == 3
        assert type(arch.make_warp_uniform(arch.warp_idx())) is Int32
        assert arch.make_warp_uniform(3).raw == 3
        k.verify()


def test_synchronisation() -> None:
    with kernel() as k:
        arch.sync_threads()
        arch.sync_warp()
        arch.barrier()
        arch.barrier(barrier_id=1, number_of_threads=128)
        arch.barrier(barrier_id=k.number("b"), number_of_threads=64)
        arch.barrier_arrive(barrier_id=2, number_of_threads=256)
        arch.cluster_arrive()
        arch.cluster_arrive_relaxed()
        arch.cluster_wait()
        arch.fence_proxy("async.shared", space="cta")
        arch.fence_proxy("async")
        arch.fence_view_async_shared()
        arch.fence_acq_rel_gpu()
        arch.griddepcontrol_wait()
        arch.griddepcontrol_launch_dependents()
        assert names(k) == [
            *("sync.threads", "sync.warp", "sync.threads", "sync.barrier", "arith.cast"),
            *("sync.barrier", "sync.barrier_arrive", "cluster.arrive", "cluster.arrive"),
            *("cluster.wait", "fence.proxy_async", "fence.proxy_async", "fence.proxy_async"),
            *("fence.acq_rel", "grid.wait", "grid.launch_dependents"),
        ]
        assert [op.space for op in k.all(sync.FenceProxyAsync)] == ["shared", "all", "shared"]
        assert [op.relaxed for op in k.all(sync.ClusterArrive)] == [False, True]
        k.verify()


def test_mbarriers() -> None:
    with kernel() as k:
        bars = arch.alloc_smem(Int64, 4)
        arch.mbarrier_init(bars, 1)
        arch.mbarrier_init_fence()
        arch.mbarrier_arrive(bars + 1)
        arch.mbarrier_arrive(bars + 1, 2)
        arch.mbarrier_expect_tx(bars, 512)
        arch.mbarrier_arrive_and_expect_tx(bars + k.number("s"), 512)
        arch.mbarrier_wait(bars, k.number("phase"))
        assert type(arch.mbarrier_try_wait(bars, 0)) is Boolean
        # Uint64 barriers need no cast.
        casts = len(k.all(memory.CastPointer))
        arch.mbarrier_arrive(arch.alloc_smem(Uint64, 1))
        assert len(k.all(memory.CastPointer)) == casts
        k.verify()
        with pytest.raises(
            TypeMismatchError, match=r"mbarrier_wait: an mbarrier is an Int64 in sh"
        ):
            arch.mbarrier_wait(arch.alloc_smem(Int32, 1), 0)
        with pytest.raises(TypeMismatchError, match=r"expected a pointer to an mbarrier, got int"):
            arch.mbarrier_arrive(0)


def test_groups() -> None:
    with kernel() as k:
        arch.cp_async_commit_group()
        arch.cp_async_wait_group(1)
        arch.cp_async_bulk_commit_group()
        arch.cp_async_bulk_wait_group(0, read=True)
        arch.cp_async_bulk_wait_group(2)
        assert [op.read for op in k.all(copy.BulkWait)] == [True, False]
        k.verify()
        with pytest.raises(TypeMismatchError, match=r"expected a compile-time number of groups"):
            arch.cp_async_wait_group(k.number("n"))


def test_elect_one_opens_a_branch() -> None:
    with kernel() as k:
        with arch.elect_one():
            arch.sync_warp()
        (branch,) = k.all(control.If)
        assert isinstance(branch.condition.owner, sync.ElectOne)
        assert [op.name for op in branch.then.ops] == ["sync.warp", "yield"]
        assert type(arch.elect_one_sync()) is Boolean
        k.verify()
        with pytest.raises(TypeMismatchError, match=r"elect_one\(\) opens a block"):
            bool(arch.elect_one())


def test_warp_collectives() -> None:
    with kernel() as k:
        x, h, p = k.number("x", "f32"), k.number("h", "bf16"), Boolean(k.number("p", "bool"))
        assert type(arch.shuffle_sync(x, 3)) is Float32
        assert type(arch.shuffle_sync_bfly(h, 1)) is BFloat16
        assert type(arch.shuffle_sync_up(x, 1)) is Float32
        assert type(arch.shuffle_sync_down(x, 1, mask_and_clamp=(16 << 8) | 31)) is Float32
        shuffles = k.all(sync.WarpShuffle)
        assert [op.mode for op in shuffles] == ["idx", "bfly", "up", "down"]
        assert [op.width for op in shuffles] == [32, 32, 32, 16]
        assert type(arch.vote_any_sync(p)) is Boolean
        assert type(arch.vote_all_sync(p)) is Boolean
        assert type(arch.vote_ballot_sync(p)) is Uint32
        assert type(arch.vote_uni_sync(p)) is Boolean
        before = len(k.all(sync.WarpShuffle))
        assert type(arch.warp_reduction_sum(x)) is Float32
        assert type(arch.warp_reduction_max(x, threads_in_group=4)) is Float32
        assert len(k.all(sync.WarpShuffle)) - before == 5 + 2
        assert type(arch.popc(k.number("m", "u32"))) is Uint32
        k.verify()
        with pytest.raises(TypeMismatchError, match=r"only the full mask is supported"):
            arch.shuffle_sync(x, 0, mask=1)
        with pytest.raises(TypeMismatchError, match=r"warp_reduction: groups have 1, 2, 4, 8, 16"):
            arch.warp_reduction_sum(x, threads_in_group=3)


def test_registers_and_atomics() -> None:
    with kernel() as k:
        arch.setmaxregister_increase(232)
        arch.setmaxregister_decrease(40)
        arch.warpgroup_reg_alloc(240)
        arch.warpgroup_reg_dealloc(24)
        assert [op.count for op in k.all(sync.SetMaxRegister)] == [232, 40, 240, 24]
        t = k.gmem("f32", (16,))
        assert type(arch.atomic_add(t.iterator, 1.0)) is Float32
        arch.atomic_max(t, 2, sem="acq_rel", scope="sys")
        kinds = [(op.kind, op.semantics, op.scope) for op in k.all(memory.Atomic)]
        assert kinds == [("add", "relaxed", "gpu"), ("max", "acq_rel", "sys")]
        arch.store(t.iterator + 2, arch.load(t.iterator))
        k.verify()


def test_numbers_out_of_range_are_refused() -> None:
    with kernel() as k:
        with pytest.raises(ResourceError, match=r"barrier_id 16 is not one of the 16 named barr"):
            arch.barrier(barrier_id=16, number_of_threads=128)
        with pytest.raises(ResourceError, match=r"number_of_threads 100 is not a multiple of 32"):
            arch.barrier_arrive(barrier_id=1, number_of_threads=100)
        with pytest.raises(TypeMismatchError, match=r"barrier: barrier_id=int 3 needs number_of"):
            arch.barrier(barrier_id=3)
        with pytest.raises(
            ResourceError, match=r"setmaxregister_increase: expected a compile-time"
        ):
            arch.setmaxregister_increase(100)
        with pytest.raises(
            TypeMismatchError, match=r"fence_proxy: expected 'async.shared' or 'asy"
        ):
            arch.fence_proxy("alias")
        with pytest.raises(TypeMismatchError, match=r"atomic_add: expected a pointer into global"):
            arch.atomic_add(3, 1)
        assert isinstance(arch.alloc_smem(Float32, 8, 16), Pointer)
        assert k.all(memory.AllocShared)[0].align == 16
