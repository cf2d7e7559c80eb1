"""Barriers, mbarriers, fences, copy groups and dependent launch."""

from __future__ import annotations

from typing import Any

from tilewright.errors import ResourceError, TypeMismatchError
from tilewright.ir.core import Value
from tilewright.ir.ops import copy as copy_ops
from tilewright.ir.ops import memory, sync
from tilewright.lang import trace
from tilewright.lang.cute.arch_thread import as_u32
from tilewright.lang.cute.pointer import AddressSpace, Pointer, recast_ptr, static_int
from tilewright.lang.values import Boolean, Numeric, as_numeric, describe, from_ir


def sync_threads() -> None:
    """Waits for all threads of the block."""
    trace.emit(sync.SyncThreads)


def sync_warp(mask: int = 0xFFFFFFFF) -> None:
    """Waits for the lanes of the warp in `mask`."""
    trace.emit(sync.SyncWarp, mask=mask)


def _named(barrier_id: Any, number_of_threads: Any, what: str) -> tuple[Value, Value]:
    number = static_int(barrier_id)
    if number is not None and not 0 <= number < 16:
        raise ResourceError(
            f"{what}: barrier_id {number} is not one of the 16 named barriers 0..15",
            loc=trace.loc(),
        )
    threads = static_int(number_of_threads)
    if threads is not None and (threads % 32 or threads <= 0):
        raise ResourceError(
            f"{what}: number_of_threads {threads} is not a multiple of 32 (whole warps arrive)",
            loc=trace.loc(),
        )
    return as_u32(barrier_id), as_u32(number_of_threads)


def barrier(*, barrier_id: Any = None, number_of_threads: Any = None) -> None:
    """Waits at a named barrier until `number_of_threads` have arrived; without them, all threads.

    Raises: ResourceError for a barrier that does not exist or a count that is not whole warps.
    """
    if number_of_threads is None:
        if barrier_id is not None and static_int(barrier_id) != 0:
            raise TypeMismatchError(
                f"barrier: barrier_id={describe(barrier_id)} needs number_of_threads as well",
                loc=trace.loc(),
            )
        sync_threads()
        return
    ids = _named(0 if barrier_id is None else barrier_id, number_of_threads, "barrier")
    trace.emit(sync.BarrierSync, *ids)


def barrier_arrive(*, barrier_id: Any, number_of_threads: Any) -> None:
    """Arrives at a named barrier without waiting."""
    trace.emit(sync.BarrierArrive, *_named(barrier_id, number_of_threads, "barrier_arrive"))


# Clusters.


def cluster_arrive(*, aligned: Any = None) -> None:
    """Arrives at the cluster's barrier, releasing earlier writes."""
    del aligned
    trace.emit(sync.ClusterArrive, relaxed=False)


def cluster_arrive_relaxed(*, aligned: Any = None) -> None:
    """Arrives at the cluster's barrier without ordering memory."""
    del aligned
    trace.emit(sync.ClusterArrive, relaxed=True)


def cluster_wait() -> None:
    """Waits until all threads of the cluster have arrived."""
    trace.emit(sync.ClusterWait)


# mbarriers.


def barrier_value(
    mbar_ptr: Any, what: str = "mbarrier", where: AddressSpace = AddressSpace.smem
) -> Value:
    """The IR pointer of an mbarrier, of the own block or (`where`) one in the cluster.

    Raises: TypeMismatchError unless it points to 64-bit integers in shared memory.
    """
    if not isinstance(mbar_ptr, Pointer):
        raise TypeMismatchError(
            f"{what}: expected a pointer to an mbarrier, got {describe(mbar_ptr)}",
            loc=trace.loc(),
            hint="pass storage.mbar.data_ptr() + stage",
        )
    fits = mbar_ptr.element.bits == 64 and mbar_ptr.element.is_integer
    if mbar_ptr.memspace is not where or not fits:
        remote = where is AddressSpace.dsmem
        raise TypeMismatchError(
            f"{what}: an mbarrier is an Int64 in {'another block' * remote}"
            f"{'' if remote else 'shared memory'}, got {mbar_ptr}",
            loc=trace.loc(),
            hint="cute.arch.map_dsmem_ptr(mbar, rank): the block that receives counts the bytes"
            if remote
            else "",
        )
    value = mbar_ptr.value()
    if mbar_ptr.element.name == "u64":
        return value
    return trace.value(memory.CastPointer, value, dtype="u64", align=mbar_ptr.alignment)


def mbarrier_init(mbar_ptr: Pointer, cnt: Any) -> None:
    """Makes an mbarrier whose phases complete after `cnt` arrivals (by one thread)."""
    trace.emit(sync.MBarrierInit, barrier_value(mbar_ptr, "mbarrier_init"), as_u32(cnt))


def mbarrier_init_fence() -> None:
    """Makes initialised mbarriers visible to the cluster and to TMA."""
    trace.emit(sync.FenceMBarrierInit)


def mbarrier_arrive(mbar_ptr: Pointer, peer_cta_rank_in_cluster: Any = None) -> None:
    """One arrival, on the own barrier or on that of another block of the cluster.

    An arrival at another block tells that this thread has read; before one that announces what it
    wrote, call `fence_acq_rel_cluster`.
    """
    bar = barrier_value(mbar_ptr, "mbarrier_arrive")
    if peer_cta_rank_in_cluster is None:
        trace.emit(sync.MBarrierArrive, bar)
    else:
        trace.emit(sync.MBarrierArriveRemote, bar, as_u32(peer_cta_rank_in_cluster))


def mbarrier_expect_tx(mbar_ptr: Pointer, bytes: Any) -> None:
    """Adds `bytes` to what the phase waits for."""
    bar = barrier_value(mbar_ptr, "mbarrier_expect_tx")
    trace.emit(sync.MBarrierExpectTx, bar, as_u32(bytes))


def mbarrier_arrive_and_expect_tx(mbar_ptr: Pointer, bytes: Any) -> None:
    """Adds `bytes` to what the phase waits for, then arrives once."""
    bar = barrier_value(mbar_ptr, "mbarrier_arrive_and_expect_tx")
    trace.emit(sync.MBarrierArriveExpectTx, bar, as_u32(bytes))


def mbarrier_wait(mbar_ptr: Pointer, phase: Any) -> None:
    """Waits until the phase of parity `phase` has completed."""
    trace.emit(sync.MBarrierWait, barrier_value(mbar_ptr, "mbarrier_wait"), as_u32(phase))


def mbarrier_try_wait(mbar_ptr: Pointer, phase: Any) -> Any:
    """Whether the phase of parity `phase` has completed (may wait for a while)."""
    bar = barrier_value(mbar_ptr, "mbarrier_try_wait")
    return from_ir(trace.emit(sync.MBarrierTryWait, bar, as_u32(phase)).results[0])


def map_dsmem_ptr(smem_ptr: Pointer, peer_cta_rank_in_cluster: Any) -> Pointer:
    """The same place in the shared memory of another block of the cluster (`mapa`).

    Loads, stores, copies and atomics work on it and on tensors made with it.  The other block must
    have started (cluster barrier before the first access) and not ended (one behind the last).

    Raises: TypeMismatchError for anything but a pointer to shared memory.
    """
    if not isinstance(smem_ptr, Pointer) or smem_ptr.memspace is not AddressSpace.smem:
        raise TypeMismatchError(
            f"map_dsmem_ptr: expected a pointer to shared memory, got {describe(smem_ptr)}",
            loc=trace.loc(),
            hint="pass tensor.iterator",
        )
    rank = as_u32(peer_cta_rank_in_cluster)
    return smem_ptr.rebased(trace.value(memory.MapShared, smem_ptr.base, rank))


mapa = map_dsmem_ptr


# Fences.


def fence_proxy(kind: Any, *, space: Any = None, use_intrinsic: Any = None) -> None:
    """Orders this thread's ordinary accesses before later ones of the async proxy.

    `kind`: 'async.shared' (shared memory) or 'async' (all memory).
    """
    del space, use_intrinsic
    name = str(getattr(kind, "value", kind)).replace("_", ".")
    if name not in ("async.shared", "async"):
        raise TypeMismatchError(
            f"fence_proxy: expected 'async.shared' or 'async', got {describe(kind)}",
            loc=trace.loc(),
        )
    trace.emit(sync.FenceProxyAsync, space="shared" if name == "async.shared" else "all")


def fence_view_async_shared() -> None:
    """Lets TMA and wgmma see what this thread wrote to shared memory."""
    trace.emit(sync.FenceProxyAsync, space="shared")


def fence_acq_rel_cta() -> None:
    """Orders this thread's accesses for its block."""
    trace.emit(sync.FenceAcqRel, scope="cta")


def fence_acq_rel_cluster() -> None:
    """Orders this thread's accesses for its cluster."""
    trace.emit(sync.FenceAcqRel, scope="cluster")


def fence_acq_rel_gpu() -> None:
    """Orders this thread's accesses for the GPU."""
    trace.emit(sync.FenceAcqRel, scope="gpu")


def fence_acq_rel_sys() -> None:
    """Orders this thread's accesses for the system."""
    trace.emit(sync.FenceAcqRel, scope="sys")


# Copy groups.


def _pending(n: Any, what: str) -> int:
    number = static_int(n)
    if number is None or number < 0:
        raise TypeMismatchError(
            f"{what}: expected a compile-time number of groups >= 0, got {describe(n)}",
            loc=trace.loc(),
        )
    return number


def cp_async_commit_group() -> None:
    """Makes a group of the cp.async issued since the last commit."""
    trace.emit(copy_ops.CpAsyncCommit)


def cp_async_wait_group(n: Any) -> None:
    """Waits until at most `n` of the newest cp.async groups are in flight."""
    trace.emit(copy_ops.CpAsyncWait, pending=_pending(n, "cp_async_wait_group"))


def cp_async_mbarrier_arrive_noinc(mbar_ptr: Pointer) -> None:
    """One arrival as soon as the cp.async that this thread has issued so far are complete.

    The barrier's count includes it: initialise it with the number of threads that copy.  What
    waits may read at once; for wgmma, a proxy fence comes behind the wait.
    """
    bar = barrier_value(mbar_ptr, "cp_async_mbarrier_arrive_noinc")
    trace.emit(copy_ops.CpAsyncArrive, bar)


def cp_async_bulk_commit_group() -> None:
    """Makes a group of the TMA stores issued since the last commit."""
    trace.emit(copy_ops.BulkCommit)


def cp_async_bulk_wait_group(group: Any, *, read: bool | None = None) -> None:
    """Waits until at most `group` bulk groups are in flight; `read`: their sources are read."""
    pending = _pending(group, "cp_async_bulk_wait_group")
    trace.emit(copy_ops.BulkWait, pending=pending, read=bool(read))


# Dependent launch.


def griddepcontrol_wait() -> None:
    """Waits for the kernels that this one depends on."""
    trace.emit(sync.GridDependencyWait)


def griddepcontrol_launch_dependents() -> None:
    """Allows dependent kernels to start."""
    trace.emit(sync.GridDependencyLaunch)


# Memory, one element.


def load(ptr: Pointer, dtype: Any = None) -> Any:
    """The element at `ptr`, read as a `dtype` if one is given."""
    at = ptr if dtype is None else recast_ptr(ptr, dtype=dtype)
    return from_ir(trace.value(memory.Load, at.value()))


def store(ptr: Pointer, value: Any) -> None:
    """Writes one element."""
    kind: Any = ptr.dtype
    trace.emit(memory.Store, ptr.value(), kind(as_numeric(value)).ir_value())


def _atomic(kind: str, ptr: Any, val: Any, sem: str | None, scope: str | None) -> Any:
    p = getattr(ptr, "iterator", ptr)
    if not isinstance(p, Pointer) or p.memspace is AddressSpace.rmem:
        raise TypeMismatchError(
            f"atomic_{kind}: expected a pointer into global or shared memory, got {describe(ptr)}",
            loc=trace.loc(),
        )
    of: Any = p.dtype
    return from_ir(
        trace.value(
            memory.Atomic,
            p.value(),
            of(as_numeric(val)).ir_value(),
            kind=kind,
            semantics=sem or "relaxed",
            scope=scope or "gpu",
        )
    )


def atomic_add(ptr: Any, val: Any, *, sem: str | None = None, scope: str | None = None) -> Any:
    """Adds `val` to the element at `ptr`; gives what was there."""
    return _atomic("add", ptr, val, sem, scope)


def atomic_max(ptr: Any, val: Any, *, sem: str | None = None, scope: str | None = None) -> Any:
    """Raises the element to at least `val`; gives what was there."""
    return _atomic("max", ptr, val, sem, scope)


def atomic_min(ptr: Any, val: Any, *, sem: str | None = None, scope: str | None = None) -> Any:
    """Lowers the element to at most `val`; gives what was there."""
    return _atomic("min", ptr, val, sem, scope)


def atomic_and(ptr: Any, val: Any, *, sem: str | None = None, scope: str | None = None) -> Any:
    """Bitwise and; gives what was there."""
    return _atomic("and", ptr, val, sem, scope)


def atomic_or(ptr: Any, val: Any, *, sem: str | None = None, scope: str | None = None) -> Any:
    """Bitwise or; gives what was there."""
    return _atomic("or", ptr, val, sem, scope)


def atomic_xor(ptr: Any, val: Any, *, sem: str | None = None, scope: str | None = None) -> Any:
    """Bitwise exclusive or; gives what was there."""
    return _atomic("xor", ptr, val, sem, scope)


def atomic_exch(ptr: Any, val: Any, *, sem: str | None = None, scope: str | None = None) -> Any:
    """Puts `val` in place; gives what was there."""
    return _atomic("exch", ptr, val, sem, scope)


def condition_value(x: Any) -> Value:
    """The IR value of a condition."""
    return Boolean(x if isinstance(x, Numeric) else as_numeric(x)).ir_value()
