"""Accesses as the detector remembers them, and the sets of reads that a cell has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.sim.memory import Window
from tilewright.sim.races.clocks import GLOBAL, NEVER, SEEN, VISIBLE, WARP, Knowledge, Rows, Team
from tilewright.sim.races.shadow import Shadow
from tilewright.sim.values import Array

LIMIT = 64
"""Reads that one cell remembers; of more, the oldest are forgotten."""
NOBODY, THREAD, WHOLE_WARP = 0, 1, 2
"""Whom a completed access is ordered for by itself: nobody, its thread, its warp."""


@dataclass(slots=True, eq=False)
class Record:
    """One instruction's access to one memory, by some threads or by an engine on their behalf.

    `actors` are the columns of the threads that issue it; `offsets` (bytes from the shadow's
    origin) belong to them one by one if `lanewise`, else each lane does them all.  Others have
    seen it completed when they know `rows` (with `quorum`: one lane of each warp of `rows`) at
    `clock`.
    """

    op: Op
    team: Team
    cta: Any
    kind: str
    shadow: Shadow
    offsets: Any
    size: int
    actors: Rows
    rows: Rows
    clock: Any
    asynchronous: bool = False
    lanewise: bool = True
    quorum: bool = False
    own: int = THREAD
    engine: str = ""
    barrier: Any = None
    """The mbarrier that counts the bytes of a TMA load."""
    phase: int = -1
    """The phase of `barrier` in which it was issued."""
    scope: str = ""
    lanes: Any = None
    """Which lane each of `offsets` belongs to, if that is neither one by one nor all."""
    data: Any = None
    """What a store of threads writes: one element for all, or one per lane."""
    signals: Any = None
    """Other ways to learn that it is complete: (column, clock of each lane), or None."""
    number: int = 0
    passed: Any = None
    """The knowledge that last proved to include it."""
    _entries: Any = field(default=None)

    @property
    def writes(self) -> bool:
        return self.kind != "read"

    def columns(self) -> Array:
        """The column of each lane."""
        actors = self.actors
        found = np.arange(actors.start, actors.stop) if type(actors) is slice else actors
        return found[::WARP] if self.quorum else found

    @property
    def order(self) -> int:
        """The row of vectors that says whether it happened before."""
        if self.kind == "read":
            return SEEN
        return GLOBAL if isinstance(self.shadow.owner, Window) else VISIBLE

    def lanes_known(self, vec: Array, row: int = -1) -> Array:
        """Per lane, whether `vec` includes the completed access (`row`: -1, its `order`)."""
        if row < 0:
            row = self.order
        if type(self.rows) is slice and self.rows.stop > vec.shape[1]:
            return np.zeros(1, np.bool_)  # a barrier's column, newer than `vec`
        seen = vec[row, self.rows]
        if self.quorum:
            seen = seen.reshape(-1, WARP).max(axis=1)
        done = np.asarray(seen >= self.clock)
        for column, clock in self.signals or ():
            if column < vec.shape[1]:
                done = done | (vec[row, column] >= clock)
        return done

    def known(self, team: Team, knowledge: Knowledge) -> bool:
        """Whether everybody with that knowledge is behind it."""
        if self.passed is knowledge:
            return True
        if type(self.clock) is int and self.clock == NEVER:
            return False
        vec = knowledge.vec if team is self.team else knowledge.far.get(self.team.number)
        if vec is None or not self.lanes_known(vec).all():
            return False
        self.passed = knowledge
        return True

    def fenced(self, team: Team, knowledge: Knowledge, row: int) -> bool:
        """Whether its threads fenced their proxies after it, as far as that knowledge goes.

        True of a cluster that is not known at all: that is a race already.
        """
        vec = knowledge.vec if team is self.team else knowledge.far.get(self.team.number)
        return vec is None or bool(self.lanes_known(vec, row).all())

    def changes_nothing(self) -> bool:
        """Whether a store of threads writes what is there already."""
        if self.data is None:
            return False
        owner = self.shadow.owner
        window: Window = owner if isinstance(owner, Window) else owner.smem
        first, rows = window.rows(self.size)
        at = (self.offsets + self.shadow.origin - first) // self.size
        there, data = np.broadcast_arrays(rows[at], self.data)
        return there.tobytes() == data.tobytes()

    def entries(self) -> tuple[Array, Array]:
        """(cells, lanes): who touched which cell.  Lanes ascend."""
        shift = self.shadow.shift
        if self._entries is None or self._entries[0] != shift:
            self._entries = (shift, *self._expand(shift))
        return self._entries[1], self._entries[2]

    def _expand(self, shift: int) -> tuple[Array, Array]:
        count = max(self.size >> shift, 1)
        offsets = np.atleast_1d(np.asarray(self.offsets, np.int64))
        cells = (offsets[:, None] >> shift) + np.arange(count)
        if self.lanes is not None:
            lanes = self.lanes
        elif self.lanewise and len(offsets) > 1:
            lanes = np.arange(len(offsets))
        else:
            n = len(self.columns())
            flat = np.tile(cells.reshape(-1), n)
            return flat, np.repeat(np.arange(n), cells.size)
        return cells.reshape(-1), np.repeat(lanes, count)


class Ledger:
    """Records by number, and interned sets of reads; what no cell refers to is forgotten."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.sets: dict[int, tuple[Record, ...]] = {0: ()}
        self.shadows: list[Shadow] = []
        self._next = 1
        self._next_set = 1
        self._sweep_at = 4096

    def add(self, record: Record) -> int:
        number = record.number = self._next
        self._next = number + 1
        self.records[number] = record
        return number

    def extended(self, old: int, record: Record, knowledge: Knowledge | None) -> int:
        """The number of the set `old` and `record`.

        Members that everybody behind `record` is behind as well are dropped: `knowledge` is what
        all threads of `record` know, if they know the same.
        """
        members = self.sets[old]
        if members and knowledge is not None:
            members = tuple(m for m in members if not m.known(record.team, knowledge))
        members = tuple(m for m in members if not _repeats(m, record))
        number = self._next_set
        self._next_set = number + 1
        self.sets[number] = (*members[1 - LIMIT :], record)
        return number

    def together(
        self, records: Sequence[Record], later: Record, knowledge: Knowledge | None
    ) -> int:
        """The number of the set of `records`, without those that all behind `later` are behind."""
        if knowledge is not None:
            records = [r for r in records if not r.known(later.team, knowledge)]
        if not records:
            return 0
        number = self._next_set
        self._next_set = number + 1
        self.sets[number] = tuple(records[-LIMIT:])
        return number

    def sweep(self) -> None:
        """Forgets what no cell refers to, now and then."""
        if len(self.records) + len(self.sets) < self._sweep_at:
            return
        live: set[int] = set()
        sets: set[int] = {0}
        for shadow in self.shadows:
            live.update(np.unique(shadow.writer).tolist())
            sets.update(np.unique(shadow.readers).tolist())
        self.records = {n: r for n, r in self.records.items() if n in live}
        self.sets = {n: s for n, s in self.sets.items() if n in sets}
        self._sweep_at = 4096 + 2 * (len(self.records) + len(self.sets))


def _repeats(old: Record, new: Record) -> bool:
    """The same lanes of one block read the same bytes: who is behind `new` is behind `old`."""
    return (
        old.op is new.op
        and old.team is new.team
        and not old.asynchronous
        and not new.asynchronous
        and type(old.offsets) is type(new.offsets)
        and bool(np.array_equal(old.offsets, new.offsets))
        and _same_rows(old.actors, new.actors)
    )


def _same_rows(a: Rows, b: Rows) -> bool:
    if type(a) is slice or type(b) is slice:
        return type(a) is type(b) and bool(a == b)
    return bool(np.array_equal(a, b))
