"""Is an access behind all those that it conflicts with?

First everybody is compared with everybody (one vector comparison for each earlier instruction that
touched the cells); only where that fails, threads are compared cell by cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.sim.races.clocks import (
    FENCED,
    FENCED_ALL,
    GLOBAL,
    NEVER,
    VISIBLE,
    WARP,
    Knowledge,
    Team,
)
from tilewright.sim.races.records import NOBODY, THREAD, WHOLE_WARP, Ledger, Record
from tilewright.sim.races.shadow import distinct
from tilewright.sim.values import Array


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses to one cell that nothing orders; `fence`: only their proxies are not.

    `cached`: they are in order, but for what the L1 cache of the second one may still hold.
    """

    first: Record
    first_column: int
    second: Record
    second_column: int
    offset: int
    fence: bool = False
    cached: bool = False


Report = Callable[[Conflict], None]


def touch(ledger: Ledger, record: Record, report: Report) -> None:
    """Checks an access against what its cells have seen, and notes it there."""
    shadow, team = record.shadow, record.team
    cells = shadow.cells(record.offsets, record.size)
    writer, readers = shadow.writer, shadow.readers
    writers = writer[cells]
    if not len(writers):
        return
    numbers = team.numbers(record.actors)
    known = [(n, team.known(n)) for n in numbers]
    ledger.sweep()
    for number in distinct(writers):
        if number:
            other = ledger.records[number]
            _against(other, record, known, (writer, number), report)
            if record.asynchronous and not other.asynchronous and not _atomics(other, record):
                _fenced(other, record, known, (writer, number), report)
    if record.kind == "read":
        for number in distinct(readers[cells]):
            for other in ledger.sets[number]:
                if other.kind == "atomic":
                    _against(other, record, known, (readers, number), report)
        ledger.add(record)
        shared = known[0][1] if len(known) == 1 else None
        held = readers[cells]
        before = distinct(held)
        if len(before) == 1:
            readers[cells] = ledger.extended(before[0], record, shared)
            return
        renamed = [ledger.extended(old, record, shared) for old in before]
        readers[cells] = np.array(renamed, np.int32)[np.searchsorted(before, held)]
        return
    for number in distinct(readers[cells]):
        for other in ledger.sets[number]:
            _against(other, record, known, (readers, number), report)
    kept = _earlier_atomics(ledger, record, known, writers, readers[cells])
    writer[cells] = ledger.add(record)
    readers[cells] = kept


def _earlier_atomics(
    ledger: Ledger,
    record: Record,
    known: list[tuple[int, Knowledge]],
    writers: Array,
    held: Array,
) -> Any:
    """The sets of atomics before an atomic: it does not order them, so they are not forgotten."""
    if record.kind != "atomic":
        return 0
    shared = known[0][1] if len(known) == 1 else None
    pairs, where = np.unique(np.stack([writers, held]), axis=1, return_inverse=True)
    sets = []
    for number, before in pairs.T.tolist():
        last = ledger.records.get(number)
        atomics = [r for r in (*ledger.sets[before], last) if r is not None and _atomics(r, record)]
        sets.append(ledger.together(atomics, record, shared))
    return np.array(sets, np.int32)[where.reshape(-1)]


def _against(
    other: Record,
    record: Record,
    known: list[tuple[int, Knowledge]],
    where: tuple[Array, int],
    report: Report,
) -> None:
    if _atomics(other, record):
        return
    for number, knowledge in known:
        if not other.known(record.team, knowledge):
            through_cache = record.kind == "read" and not record.asynchronous
            row = VISIBLE if other.order == GLOBAL and not through_cache else other.order
            found = _exact(other, record, number, knowledge, where, row)
            if found is not None:
                report(found)
                return


def _fenced(
    other: Record,
    record: Record,
    known: list[tuple[int, Knowledge]],
    where: tuple[Array, int],
    report: Report,
) -> None:
    """A generic write before an async access: the writer must fence, then be waited for.

    Of another cluster's write, the fence of who has learnt of it counts as well.
    """
    owner = record.shadow.owner
    counted = other.own == NOBODY and other.engine == "st.async"
    local = record.cta is owner and (other.cta is owner or counted)
    row = FENCED if local else FENCED_ALL
    for number, knowledge in known:
        if not other.fenced(record.team, knowledge, row):
            found = _exact(other, record, number, knowledge, where, row)
            if found is not None:
                report(found)
                return


def _atomics(a: Record, b: Record) -> bool:
    """Whether both are atomic, and to each other."""
    return a.kind == b.kind == "atomic" and _scopes_meet(a, b)


def _scopes_meet(a: Record, b: Record) -> bool:
    """Whether two atomics are atomic to each other."""
    return all(scope_covers(x.scope, x, y) for x, y in ((a, b), (b, a)))


def scope_covers(scope: str, a: Any, b: Any) -> bool:
    """Whether `scope`, seen from the CTA of `a`, includes that of `b`."""
    if scope == "cta":
        return a.cta is b.cta
    return scope != "cluster" or a.team is b.team


def _exact(
    other: Record,
    record: Record,
    number: int,
    knowledge: Knowledge,
    where: tuple[Array, int],
    row: int,
) -> Conflict | None:
    """The first entry of `record` that is not behind `other`, compared thread by thread."""
    team = record.team
    cells, lanes = record.entries()
    columns = record.columns()[lanes]
    numbers, wanted = where
    mine = (numbers[cells] == wanted) & (team.ids[columns] == number)
    picked = np.flatnonzero(mine)
    if not len(picked):
        return None
    cells, columns = cells[picked], columns[picked]
    vec = knowledge.vec if team is other.team else knowledge.far.get(other.team.number)
    their_cells, their_lanes = other.entries()
    whose = other.columns()
    ok = np.zeros(len(whose), np.bool_) if vec is None else other.lanes_known(vec, row)
    ok = np.broadcast_to(ok, (len(whose),))
    level = _levels(other, team, whose, row)
    left = ~ok[their_lanes]
    their_cells, their_lanes = their_cells[left], their_lanes[left]
    for wanted_level, key in ((NOBODY, None), (THREAD, 1), (WHOLE_WARP, WARP)):
        some = level[their_lanes] == wanted_level
        if not some.any():
            continue
        at, who = their_cells[some], whose[their_lanes[some]]
        keys = who // key if key else np.zeros(len(who), np.int64)
        ours = columns // key if key else np.full(len(columns), -2)
        first, last = other.shadow.marks()
        last[at] = keys
        first[at[::-1]] = keys[::-1]
        lo, hi = first[cells], last[cells]
        bad = np.flatnonzero((lo >= 0) & ((lo != ours) | (hi != ours)))
        first[at] = last[at] = -1
        if len(bad):
            i = int(bad[0])
            guilty = who[(at == cells[i]) & (keys != ours[i])]
            offset = int(cells[i]) << record.shadow.shift
            return Conflict(
                other,
                int(guilty[0]),
                record,
                int(columns[i]),
                offset,
                fence=row >= FENCED,
                cached=row == GLOBAL and vec is not None and _in_order(other, vec),
            )
    return None


def _in_order(other: Record, vec: Array) -> bool:
    """Whether all lanes of an access are visible to `vec`, where the L1 cache plays no part."""
    return bool(other.lanes_known(vec, VISIBLE).all())


def _levels(other: Record, team: Team, whose: Array, row: int) -> Array:
    """Per lane of `other`, for whom it is in order without any knowledge."""
    if team is not other.team:
        return np.full(len(whose), NOBODY)
    clock = np.broadcast_to(other.clock, (len(whose),))
    if row >= FENCED:
        level = np.where(team.own[row, whose] >= clock, THREAD, NOBODY)
    else:
        level = np.where(clock < NEVER, other.own, NOBODY)
    if other.own == THREAD:
        level = np.where(team.warp[row, whose] >= clock, WHOLE_WARP, level)
    return level
