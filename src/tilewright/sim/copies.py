"""Copies in flight that a thread waits for by groups: cp.async, and bulk (TMA) stores.

cp.async data arrive as late as the kernel allows: when a thread waits for the group.  So a
kernel that forgets the wait reads what was there before.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from tilewright.ir.core import Op
from tilewright.sim.group import Group
from tilewright.sim.inflight import BulkGroup, BulkStore, CpAsyncBatch
from tilewright.sim.state import Cta, Wait
from tilewright.sim.values import Array

INTO_SHARED = ("a TMA load", "a bulk copy", "an asynchronous store")
"""What engines call their writes to shared memory."""


def finish_copies(g: Group, pending: int) -> None:
    """Completes all but the newest `pending` committed groups of the threads of `g`, in order."""
    cta = g.cta
    waiting = np.zeros(cta.size, np.bool_)
    waiting[g.rows] = True
    left: list[CpAsyncBatch] = []
    for batch in cta.copies:
        due = waiting[batch.threads] & (batch.tags < cta.copy_groups[batch.threads] - pending)
        done, rest = _parted(batch, due)
        left += rest
        for part in done:
            _move(cta, part)
            if cta.run.watch is not None:
                cta.run.watch.cp_async_done(part.event, part.threads)
    cta.copies = left


def finish_issued(cta: Cta, threads: Array, before: int) -> None:
    """Completes the copies of some threads that were issued as the first `before` of the block.

    Threads may wait for their groups as well, and are let through then.
    """
    keeps = cta.run.program.waits_for_copies
    mine = np.zeros(cta.size, np.bool_)
    mine[threads] = True
    left: list[CpAsyncBatch] = []
    for batch in cta.copies:
        due = mine[batch.threads] & (not batch.moved and batch.serial < before)
        done, rest = _parted(batch, due)
        left += rest
        for part in done:
            _move(cta, part)
            if keeps:
                left.append(part)
    cta.copies = left


def finish_all_copies(cta: Cta) -> None:
    """The hardware completes every copy, waited for or not."""
    batches, cta.copies = cta.copies, []
    for batch in batches:
        _move(cta, batch)


def _parted(batch: CpAsyncBatch, due: Array) -> tuple[list[CpAsyncBatch], list[CpAsyncBatch]]:
    """What of a batch is due, and what is not."""
    if due.all():
        return [batch], []
    if not due.any():
        return [], [batch]
    return [batch.part(due)], [batch.part(~due)]


def _move(cta: Cta, batch: CpAsyncBatch) -> None:
    """The copy happens, if it has not yet."""
    if batch.moved:
        return
    batch.moved = True
    actors = Group(cta, batch.threads, 0, [], None)
    watch = cta.run.watch
    with watch.silent() if watch is not None else nullcontext():
        batch.move(actors, batch.src, batch.dst, batch.predicate)


class BulkWait(Wait):
    """All but the newest `pending` groups of each thread."""

    def __init__(self, op: Op, g: Group, pending: int, read: bool) -> None:
        super().__init__(op)
        self.read = read
        self.groups: list[BulkGroup] = []
        for t in g.threads.tolist():
            closed = g.cta.bulk.get(t, [])[:-1]
            self.groups += closed[: len(closed) - pending] if pending else closed

    def ready(self) -> bool:
        return all(group.complete(self.read) for group in self.groups)

    def finish(self, g: Group, *, timed_out: bool) -> None:
        del timed_out
        for group in self.groups:
            group.waited = True
        if g.run.watch is not None:
            events = [store.event for group in self.groups for store in group.stores]
            g.run.watch.bulk_waited(events, read=self.read)
            if self.read:
                return  # a later full wait is about these groups too
        for t in g.threads.tolist():
            mine = g.cta.bulk.get(t)
            if mine:
                g.cta.bulk[t] = [b for b in mine if not (b.waited and b.complete(False))]

    def describe(self) -> str:
        late = sum(not group.complete(self.read) for group in self.groups)
        return f"{late} groups of bulk stores"


def open_bulk_group(cta: Cta, thread: int) -> BulkGroup:
    return cta.bulk.setdefault(thread, [BulkGroup()])[-1]


def commit_bulk_group(cta: Cta, thread: int) -> None:
    cta.bulk.setdefault(thread, [BulkGroup()]).append(BulkGroup())


def unread_store(cta: Cta, thread: int) -> BulkStore | None:
    """A bulk store whose source the thread never waited for."""
    for group in cta.bulk.get(thread, []):
        if group.stores and not group.waited:
            return group.stores[0]
    return None
