"""Barriers, fences, warp collectives, and the registers that say who and where a thread is."""

from __future__ import annotations

from typing import Any

from tilewright.ir.constraints import INTEGER, SCALAR, pointer, scalar
from tilewright.ir.core import Effect, Op, attr, operand, result
from tilewright.ir.types import BOOLEAN, ScalarType, Space, Type
from tilewright.numeric.dtypes import BOOL, I64, U32, U64, dtype

BARRIER = pointer(Space.SMEM, U64)


def _type_of_a(op: Any) -> Type:
    return op.operands[0].type  # type: ignore[no-any-return]


class SyncThreads(Op):
    """Waits for all threads of the block (`__syncthreads`, named barrier 0)."""

    name = "sync.threads"
    effect = Effect.SYNC


class SyncWarp(Op):
    """Waits for the lanes of the warp in `mask`, and orders their memory accesses."""

    name = "sync.warp"
    effect = Effect.SYNC
    mask = attr(int, 0xFFFFFFFF)


class BarrierSync(Op):
    """Waits at named barrier `id` until `count` threads (a multiple of 32) have arrived."""

    name = "sync.barrier"
    effect = Effect.SYNC
    aligned = True
    id = operand(scalar(U32))
    count = operand(scalar(U32))


class BarrierArrive(Op):
    """Arrives at named barrier `id` without waiting."""

    name = "sync.barrier_arrive"
    effect = Effect.SYNC
    aligned = True
    id = operand(scalar(U32))
    count = operand(scalar(U32))


class MBarrierInit(Op):
    """Initialises an mbarrier whose phase completes after `count` arrivals."""

    name = "mbarrier.init"
    effect = Effect.SYNC
    min_arch = 80
    barrier = operand(BARRIER)
    count = operand(scalar(U32))


class MBarrierArrive(Op):
    """One arrival (release, at the scope of the CTA)."""

    name = "mbarrier.arrive"
    effect = Effect.SYNC
    min_arch = 80
    barrier = operand(BARRIER)


class MBarrierArriveRemote(Op):
    """One arrival on the barrier at the same offset in CTA `rank` of the cluster.

    It releases at the scope of the own CTA: reads are done, but what the thread wrote is visible
    to the other CTA only if a `fence.acq_rel` of the cluster came before.
    """

    name = "mbarrier.arrive_remote"
    effect = Effect.SYNC
    min_arch = 90
    barrier = operand(BARRIER)
    rank = operand(scalar(U32))


class MBarrierArriveExpectTx(Op):
    """Adds `bytes` to the transactions that the phase waits for, then arrives once."""

    name = "mbarrier.arrive_expect_tx"
    effect = Effect.SYNC
    min_arch = 90
    barrier = operand(BARRIER)
    bytes = operand(scalar(U32))


class MBarrierExpectTx(Op):
    """Adds `bytes` to the transactions that the phase waits for."""

    name = "mbarrier.expect_tx"
    effect = Effect.SYNC
    min_arch = 90
    barrier = operand(BARRIER)
    bytes = operand(scalar(U32))


class MBarrierWait(Op):
    """Waits until the phase of parity `parity` has completed (acquire, at the scope of the CTA).

    A fresh barrier is in phase 0; waiting for parity 1 on it passes at once.  Behind arrivals of
    another CTA, global memory may still be read from old lines of the L1 cache, until a
    `fence.acq_rel` of the cluster; shared memory may not.
    """

    name = "mbarrier.wait"
    effect = Effect.SYNC
    min_arch = 90
    barrier = operand(BARRIER)
    parity = operand(scalar(U32))


class MBarrierTryWait(Op):
    """Whether the phase of parity `parity` has completed; may suspend the thread for a while."""

    name = "mbarrier.try_wait"
    effect = Effect.SYNC
    min_arch = 90
    barrier = operand(BARRIER)
    parity = operand(scalar(U32))
    result = result(lambda _: BOOLEAN)


class FenceMBarrierInit(Op):
    """Makes initialised mbarriers visible to the cluster and to the async proxy."""

    name = "fence.mbarrier_init"
    effect = Effect.SYNC
    min_arch = 90


class FenceProxyAsync(Op):
    """Orders this thread's generic accesses before later async-proxy ones (TMA, wgmma).

    `space`: 'shared' or 'all'.  Source: PTX ISA, `fence.proxy.async`.
    """

    name = "fence.proxy_async"
    effect = Effect.SYNC
    min_arch = 90
    space = attr(str, "shared", choices=("shared", "all"))


class FenceAcqRel(Op):
    """Orders this thread's memory accesses at `scope` (`__threadfence` and its kin)."""

    name = "fence.acq_rel"
    effect = Effect.SYNC
    scope = attr(str, "gpu", choices=("cta", "cluster", "gpu", "sys"))


class ClusterArrive(Op):
    """Arrives at the cluster's barrier; `relaxed` orders no memory."""

    name = "cluster.arrive"
    effect = Effect.SYNC
    min_arch = 90
    aligned = True
    relaxed = attr(bool, False)


class ClusterWait(Op):
    """Waits until all threads of the cluster have arrived."""

    name = "cluster.wait"
    effect = Effect.SYNC
    min_arch = 90
    aligned = True


class SetMaxRegister(Op):
    """Changes the registers that each thread of the warpgroup owns (`setmaxnreg`).

    `count` is a multiple of 8 in 24..256; all warps of the warpgroup execute it.
    """

    name = "sync.setmaxnreg"
    effect = Effect.SYNC
    min_arch = 90
    aligned = True
    count = attr(int)
    increase = attr(bool)

    def check(self) -> str | None:
        if 24 <= self.count <= 256 and self.count % 8 == 0:
            return None
        return f"count must be a multiple of 8 in 24..256, got {self.count}"


class ElectOne(Op):
    """True in one lane of the converged warp (`elect.sync`)."""

    name = "warp.elect"
    effect = Effect.SYNC
    min_arch = 90
    aligned = True
    result = result(lambda _: BOOLEAN)


class WarpShuffle(Op):
    """The value of another lane.

    `mode`: 'idx' lane `lane`; 'up' / 'down' own lane minus / plus `lane`; 'bfly' own lane xor
    `lane`; lanes out of range keep their own value (of 'bfly', those beyond the upper end of
    their segment of `width` lanes).  All 32 lanes take part.
    """

    name = "warp.shuffle"
    effect = Effect.SYNC
    aligned = True
    a = operand(SCALAR)
    lane = operand(scalar(U32))
    mode = attr(str, choices=("idx", "up", "down", "bfly"))
    width = attr(int, 32)
    result = result(_type_of_a)


class WarpVote(Op):
    """`any` / `all` of a predicate over the warp as bool, or `ballot` as u32."""

    name = "warp.vote"
    effect = Effect.SYNC
    aligned = True
    a = operand(scalar(BOOL))
    mode = attr(str, choices=("any", "all", "ballot"))
    result = result(lambda op: ScalarType(U32) if op.mode == "ballot" else BOOLEAN)


class WarpUniform(Op):
    """`a`, which is the same in all lanes, made provably so (lane 0's value)."""

    name = "warp.uniform"
    effect = Effect.SYNC
    aligned = True
    a = operand(INTEGER)
    result = result(_type_of_a)


class Special(Op):
    """A special register.

    'thread_idx', 'block_idx', 'block_dim', 'grid_dim', 'cluster_dim', 'block_in_cluster' have an
    `axis` (0, 1, 2 for x, y, z); 'cluster_rank' (of the CTA in its cluster), 'lane', 'smid' and
    'clock' (i64) do not.  All are i32 but the last.
    """

    name = "special"
    register = attr(
        str,
        choices=(
            *("thread_idx", "block_idx", "block_dim", "grid_dim", "cluster_dim"),
            *("block_in_cluster", "cluster_rank", "lane", "smid", "clock"),
        ),
    )
    axis = attr(int, 0)
    result = result(lambda op: ScalarType(I64 if op.register == "clock" else dtype("i32")))


class GridDependencyWait(Op):
    """Waits for the kernels that this one depends on (programmatic dependent launch)."""

    name = "grid.wait"
    effect = Effect.SYNC
    min_arch = 90


class GridDependencyLaunch(Op):
    """Allows kernels that depend on this one to start."""

    name = "grid.launch_dependents"
    effect = Effect.SYNC
    min_arch = 90
