"""Conflicts as findings: both accesses, and the rule that would have ordered them."""

from __future__ import annotations

from typing import Any

from tilewright.ir.ops import bulk, copy, mma
from tilewright.sim.findings import AccessInfo, FindingLog
from tilewright.sim.memory import Window
from tilewright.sim.races.check import Conflict
from tilewright.sim.races.records import Record

ARRIVING = (bulk.BulkLoad, bulk.BulkLoadMulticast, bulk.BulkSend, bulk.StoreAsync)
STORES = (copy.TmaStore, bulk.BulkStore, bulk.BulkReduce, bulk.TmaReduce)
LOADS = (copy.TmaLoad, copy.TmaLoadMulticast)
WGMMA = (mma.Wgmma, mma.WgmmaRs)
PAST = {"read": "read", "write": "written", "atomic": "changed atomically"}


def thread_name(record: Record, column: int) -> str:
    """The thread behind a column of the record's cluster."""
    rank, thread = divmod(column, record.team.stride)
    return str(record.cta.cluster.ctas[rank].thread_name(thread))


def agent_name(record: Record, column: int) -> str:
    """Who accesses: a thread, or an engine for a thread or warpgroup."""
    who = thread_name(record, column)
    if isinstance(record.op, WGMMA):
        return f"wgmma of warpgroup {column % record.team.stride // 128} of {record.cta.name}"
    return f"{record.engine} of {who}" if record.engine else who


def access_info(record: Record, column: int) -> AccessInfo:
    return AccessInfo(
        agent=agent_name(record, column),
        kind=record.kind,
        proxy="async" if record.asynchronous else "generic",
        op=record.op.name,
        loc=record.op.loc,
    )


def place_name(record: Record, offset: int) -> str:
    """What lies at a byte offset of the record's window."""
    owner = record.shadow.owner
    if isinstance(owner, Window):
        return f"byte {record.shadow.origin + offset - owner.start} of {owner.name}"
    rank = f" of {owner.name}" if len(owner.cluster.ctas) > 1 else ""
    return f"{owner.place(offset)}{rank}"


def rule_of(conflict: Conflict) -> str:
    """What must stand between the two accesses."""
    first, second = conflict.first, conflict.second
    if conflict.fence:
        if first.signals or first.engine == "st.async":
            return (
                "cp.async and st.async write through the generic proxy: behind the wait for the "
                "mbarrier that counts them, fence.proxy.async comes before accesses of the async "
                "proxy (TMA, wgmma)"
            )
        if first.cta is not first.shadow.owner and not isinstance(first.shadow.owner, Window):
            return (
                "stores to another block are ordered before accesses of the async proxy only by a "
                "fence.proxy.async for all memory (not .shared::cta) that the writing thread "
                "executes after them, and then a barrier of the cluster"
            )
        if isinstance(first.shadow.owner, Window):
            return (
                "ordinary writes to global memory are ordered before accesses of the async proxy "
                "(TMA, bulk copies) only by a fence.proxy.async for all memory (not .shared::cta) "
                "that the writing thread executes after them, before the barrier or the flag that "
                "tells of them"
            )
        return (
            "generic writes are ordered before accesses of the async proxy (TMA, wgmma) only by a "
            "fence.proxy.async that the writing thread executes after its writes, and then a "
            "barrier"
        )
    if conflict.cached:
        return (
            "a wait for an mbarrier at which another block arrives is of the block's own scope: "
            "lines of global memory may stay in its L1 cache; fence_acq_rel_cluster() comes behind "
            "the wait, or the blocks meet at the cluster's barrier"
        )
    late, early = _rule_for(second), _rule_for(first)
    if first.kind == "write" or (first.asynchronous and second.kind == "write"):
        return early or late or _GENERIC
    return late or early or _GENERIC


_GENERIC = "accesses of different threads to one address need a barrier between them"


def _rule_for(record: Record) -> str:
    op = record.op
    if isinstance(op, LOADS):
        return (
            "what TMA loads may be touched only behind a wait for the phase of its mbarrier, and "
            "a stage may be loaded again only behind a wait for its readers' arrivals (empty)"
        )
    if isinstance(op, ARRIVING) and record.writes:
        return (
            "what arrives asynchronously may be touched only behind a wait for the phase of the "
            "mbarrier that counts its bytes, and be sent again only behind its readers' arrivals"
        )
    if isinstance(op, bulk.BulkSend):
        return (
            "the source of a copy to another block may be overwritten only when that block, which "
            "waits for the bytes, has said so"
        )
    if isinstance(op, STORES):
        if isinstance(record.shadow.owner, Window):
            return "what bulk stores write is in global memory behind cp.async.bulk.wait_group"
        return (
            "the source of a bulk store may be overwritten only behind a "
            "cp.async.bulk.wait_group.read that covers it, by the thread that issued it"
        )
    if isinstance(op, copy.CpAsync):
        return (
            "what cp.async copies may be touched only behind cp.async.wait_group of the thread "
            "that issued it, by others behind a barrier after that, or behind a wait for the "
            "mbarrier at which cp.async.mbarrier.arrive counts it"
        )
    if isinstance(op, WGMMA):
        return (
            "wgmma reads its operands until a wgmma.wait_group that covers it: wait in all four "
            "warps, and only then release the memory"
        )
    if record.kind == "atomic":
        return "an atomic orders nothing by itself, and a plain access to its address races with it"
    return ""


def report_conflict(log: FindingLog, conflict: Conflict, note: str = "") -> None:
    first, second = conflict.first, conflict.second
    infos = (
        access_info(first, _column(first, conflict.first_column)),
        access_info(second, _column(second, conflict.second_column)),
    )
    place = place_name(second, conflict.offset)
    missing = "no proxy fence" if conflict.fence else "nothing orders"
    between = "stands between" if conflict.fence else ""
    text = (
        f"{place} is {PAST[second.kind]} by {infos[1].agent}, and was {PAST[first.kind]} by "
        f"{infos[0].agent}: {missing} {between + ' ' if between else ''}the two"
    )
    details: dict[str, Any] = {"note": note} if note else {}
    log.add(
        "proxy_fence" if conflict.fence else "race",
        text,
        place=(first.op.loc or first.op, second.op.loc or second.op),
        loc=second.op.loc,
        agent=infos[1].agent,
        accesses=infos,
        rule=rule_of(conflict),
        **details,
    )


def _column(record: Record, column: int) -> int:
    """TMA loads are learnt of through their barrier's column; people know the issuing thread."""
    if column < record.team.threads:
        return column
    return int(record.columns()[0])
