"""Copies in flight that a thread waits for by groups: cp.async, and bulk (TMA) stores.

cp.async data arrive as late as the kernel allows: when a thread waits for the group.  So a
kernel that forgets the wait reads what was there before.
"""

from __future__ import annotations

import numpy as np

from tilewright.ir.core import Op
from tilewright.sim.group import Group
from tilewright.sim.inflight import BulkGroup, BulkStore, CpAsyncBatch
from tilewright.sim.state import Cta, Wait


def finish_copies(g: Group, pending: int) -> None:
    """Completes all but the newest `pending` committed groups of the threads of `g`, in order."""
    cta = g.cta
    waiting = np.zeros(cta.size, np.bool_)
    waiting[g.rows] = True
    left: list[CpAsyncBatch] = []
    for batch in cta.copies:
        due = waiting[batch.threads] & (batch.tags < cta.copy_groups[batch.threads] - pending)
        if not due.any():
            left.append(batch)
            continue
        if due.all():
            _finish(cta, batch)
        else:
            _finish(cta, batch.part(due))
            left.append(batch.part(~due))
    cta.copies = left


def finish_all_copies(cta: Cta) -> None:
    """The hardware completes every copy, waited for or not."""
    batches, cta.copies = cta.copies, []
    for batch in batches:
        _finish(cta, batch, waited=False)


def _finish(cta: Cta, batch: CpAsyncBatch, *, waited: bool = True) -> None:
    actors = Group(cta, batch.threads, 0, [], None)
    watch = cta.run.watch
    if watch is None:
        batch.move(actors, batch.src, batch.dst, batch.predicate)
        return
    with watch.silent():
        batch.move(actors, batch.src, batch.dst, batch.predicate)
    if waited:
        watch.cp_async_done(batch.event, batch.threads)


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
