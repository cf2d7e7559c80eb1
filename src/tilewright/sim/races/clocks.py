"""Time, and what each thread knows of the others: vector clocks, shared while they are equal.

One counter, `Clock.now`, is everybody's clock: it grows at every release, so that what a thread
did before a release is at or below the released time, and what it does afterwards is above.

A *vector* has a column for every thread of a cluster, one for the grid in front of this one, and
one for every mbarrier that TMA counts bytes on.  Its rows say, per column:

    SEEN        everything that the thread did up to this time happened before
    VISIBLE     and what it wrote is visible: an arrival at another block's mbarrier orders reads,
                but no writes, as long as no fence of the cluster comes before it
    GLOBAL      and what it wrote to global memory is visible: behind a wait for an mbarrier, at
                which another block has arrived, not before a fence of the cluster
    FENCED      its `fence.proxy.async` at this time did, for shared memory
    FENCED_ALL  the same, for all memory
    INITS       its `fence.mbarrier_init` at this time did

A thread's own column is not kept in its vector: it always knows itself.  So threads that learnt the
same things hold the same `Knowledge` object, and a group is checked once, not once per thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.sim.values import Array

SEEN, VISIBLE, GLOBAL, FENCED, FENCED_ALL, INITS = range(6)
ROWS = 6
NEVER = 1 << 60
"""The clock of what has not been completed by anything that a thread waited for."""
WARP = 32
SPARE = 32
"""Columns added at a time for mbarriers."""

Rows = Any
"""Columns of a vector: a slice, or an array of indices."""
Far = Mapping[int, Array]
"""Vectors of other clusters, by the cluster's number."""
NOTHING: Far = {}


class Clock:
    """The time of one run."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 1

    def tick(self) -> int:
        """The time that a release hands out; everything later is above it."""
        now = self.now
        self.now = now + 1
        return now


class Knowledge:
    """What some threads know.  Immutable: compare by identity."""

    __slots__ = ("far", "vec")

    def __init__(self, vec: Array, far: Far = NOTHING) -> None:
        self.vec = vec
        self.far = far


class Board:
    """What was released at a place (a barrier, an address): the join of its releasers' vectors."""

    __slots__ = ("far", "vec")

    def __init__(self, columns: int) -> None:
        self.vec = np.zeros((ROWS, columns), np.int64)
        self.far: Far = NOTHING

    def copy(self) -> Board:
        made = Board(0)
        made.vec, made.far = self.vec.copy(), self.far
        return made

    def widen(self, columns: int) -> None:
        self.vec = widened(self.vec, columns)

    def add(self, vec: Array, far: Far = NOTHING) -> None:
        if vec.shape[1] > self.vec.shape[1]:
            self.widen(vec.shape[1])
        part = self.vec[:, : vec.shape[1]]
        np.maximum(part, vec, out=part)
        self.far = far_join(self.far, far)


def widened(vec: Array, columns: int) -> Array:
    missing = columns - vec.shape[1]
    return vec if missing <= 0 else np.pad(vec, ((0, 0), (0, missing)))


def far_join(a: Far, b: Far) -> Far:
    if a is b or not b:
        return a
    if not a:
        return b
    made = dict(a)
    for number, vec in b.items():
        old = made.get(number)
        if old is not None and old is not vec:
            columns = max(old.shape[1], vec.shape[1])
            vec = np.maximum(widened(old, columns), widened(vec, columns))
        made[number] = vec
    return made


def cached(far: Far) -> Far:
    """What a block learns of other clusters by its mbarrier: its L1 cache may have old lines."""
    made = {number: vec.copy() for number, vec in far.items()}
    for vec in made.values():
        vec[GLOBAL] = 0
    return made


def _far_raised(far: Far, row: int, to: int) -> Far:
    """The same as `_raised`, for all of them."""
    made = {number: _raised(vec, row, to) for number, vec in far.items()}
    return far if all(made[number] is vec for number, vec in far.items()) else made


def _raised(vec: Array, row: int, to: int) -> Array:
    """The vector with one row at least at another: itself, if it is already."""
    if (vec[row] >= vec[to]).all():
        return vec
    made = vec.copy()
    np.maximum(made[row], made[to], out=made[row])
    return made


class Team:
    """The threads of one cluster.  Column ``rank * stride + thread`` belongs to a thread."""

    def __init__(self, number: int, ctas: int, size: int, clock: Clock) -> None:
        self.number = number
        self.clock = clock
        self.stride = -(-size // WARP) * WARP
        self.threads = ctas * self.stride
        self.columns = self.threads + SPARE
        self._used = self.threads
        self.predecessor = self.new_column()
        """The column of the grid in front (see `predecessor`)."""
        self.ids = np.zeros(self.threads, np.int32)
        """Per thread, the number of its knowledge in `_known`."""
        self._known = {0: Knowledge(np.zeros((ROWS, self.columns), np.int64))}
        self._next = 1
        self.own = np.zeros((ROWS, self.threads), np.int64)
        """Times of each thread's latest fences (rows SEEN, VISIBLE, GLOBAL are not used)."""
        self.warp = np.zeros((ROWS, self.threads), np.int64)
        """What each thread has shown to the lanes of its warp, at the last `sync.warp`."""
        self.counts_generic = False
        """Whether barriers count writes of the generic proxy (st.async, cp.async)."""

    def rows(self, rank: int, rows: Rows) -> Rows:
        base = rank * self.stride
        if type(rows) is slice:
            return slice(rows.start + base, rows.stop + base)
        return rows + base

    def new_column(self) -> int:
        """A column for an mbarrier."""
        self._used += 1
        if self._used > self.columns:
            self.columns += SPARE
        return self._used - 1

    # -- knowledge --------------------------------------------------------------------------

    def known(self, number: int) -> Knowledge:
        return self._known[number]

    def numbers(self, rows: Rows) -> list[int]:
        """The different knowledges of some threads."""
        ids = self.ids[rows]
        first = int(ids[0])
        if len(ids) == 1 or (ids == first).all():
            return [first]
        return np.unique(ids).tolist()  # type: ignore[no-any-return]

    def of(self, rows: Rows) -> list[Knowledge]:
        return [self._known[i] for i in self.numbers(rows)]

    def acquire(self, rows: Rows, board: Board) -> None:
        """Threads learn what was released at `board`."""
        numbers = self.numbers(rows)
        ids = self.ids[rows]
        for number in numbers:
            old = self._known[number]
            new = self._joined(old, board)
            if new is old:
                continue
            made = self._number(new)
            if len(numbers) == 1:
                self.ids[rows] = made
            else:
                picked = np.flatnonzero(ids == number)
                at = picked + rows.start if type(rows) is slice else rows[picked]
                self.ids[at] = made

    def _joined(self, old: Knowledge, board: Board) -> Knowledge:
        a, b = old.vec, board.vec
        if a.shape[1] != b.shape[1]:
            columns = max(a.shape[1], b.shape[1])
            a, b = widened(a, columns), widened(b, columns)
        vec = np.maximum(a, b)
        far = far_join(old.far, board.far)
        if self.number in far:
            vec = np.maximum(vec, widened(far[self.number], vec.shape[1])[:, : vec.shape[1]])
            far = {k: v for k, v in far.items() if k != self.number}
        if far is old.far and np.array_equal(vec, old.vec):
            return old
        return Knowledge(vec, far)

    def _number(self, known: Knowledge) -> int:
        number = self._next
        self._next += 1
        self._known[number] = known
        if len(self._known) > 4 * self.threads + 64:
            live = set(np.unique(self.ids).tolist()) | {number}
            self._known = {i: k for i, k in self._known.items() if i in live}
        return number

    def release(self, rows: Rows, board: Board, *, weak: bool = False) -> int:
        """Threads make what they did, and what they know, visible at `board`.

        `weak`: at the scope of their block only, for somebody in another one, who cannot rely on
        what the block's threads have written.
        """
        if board.vec.shape[1] < self.columns:
            board.widen(self.columns)
        first = int(rows.start if type(rows) is slice else rows[0]) // self.stride * self.stride
        block = slice(first, first + self.stride)
        before = (board.vec[VISIBLE, block].copy(), board.vec[GLOBAL].copy()) if weak else None
        for known in self.of(rows):
            board.add(known.vec, cached(known.far) if weak else known.far)
        now = self.clock.tick()
        self._show_peers(rows, board.vec)
        board.vec[: GLOBAL + 1, rows] = now
        board.vec[FENCED:, rows] = self.own[FENCED:, rows]
        if before is not None:
            board.vec[VISIBLE, block], board.vec[GLOBAL] = before
        return now

    def release_inits(self, rows: Rows, board: Board) -> None:
        """A relaxed arrival: only barriers initialised before `fence.mbarrier_init` show."""
        if board.vec.shape[1] < self.columns:
            board.widen(self.columns)
        board.vec[INITS, rows] = self.own[INITS, rows]

    def _show_peers(self, rows: Rows, vec: Array) -> None:
        """What the other lanes of the releasing threads' warps showed them."""
        if type(rows) is slice:
            lo, hi = rows.start, rows.stop
            if lo % WARP == 0 and hi % WARP == 0:
                return
            warps: Rows = slice(lo // WARP * WARP, -(-hi // WARP) * WARP)
        else:
            warps = (np.unique(rows // WARP)[:, None] * WARP + np.arange(WARP)).reshape(-1)
        vec[:, warps] = np.maximum(vec[:, warps], self.warp[:, warps])

    def sync_warps(self, rows: Rows) -> None:
        """All lanes of some warps have met: each sees what the others did."""
        now = self.clock.tick()
        self.warp[: GLOBAL + 1, rows] = now
        self.warp[FENCED:, rows] = self.own[FENCED:, rows]
        if len(self.numbers(rows)) == 1:
            return
        at = np.arange(rows.start, rows.stop) if type(rows) is slice else rows
        for warp in np.unique(at // WARP).tolist():
            lanes = at[at // WARP == warp]
            if len(self.numbers(lanes)) > 1:
                board = Board(self.columns)
                for known in self.of(lanes):
                    board.add(known.vec, known.far)
                self.acquire(lanes, board)

    def look_again(self, rows: Rows) -> None:
        """A fence of the cluster or wider: what is visible, global memory shows as well."""
        for number in self.numbers(rows):
            old = self._known[number]
            vec = _raised(old.vec, GLOBAL, VISIBLE)
            self._learn(rows, number, vec, _far_raised(old.far, GLOBAL, VISIBLE))

    def fence(self, rows: Rows, *kinds: int) -> None:
        now = self.clock.tick()
        for kind in kinds:
            self.own[kind, rows] = now
        if FENCED_ALL in kinds:
            self._fence_far(rows)
        if self.counts_generic and FENCED in kinds:
            self._fence_counted(rows, [k for k in kinds if k in (FENCED, FENCED_ALL)])

    def _fence_far(self, rows: Rows) -> None:
        """What threads have learnt of other clusters' writes is fenced with their own.

        Source: PTX ISA, "Proxy-preserved base causality order": a proxy fence on the way counts.
        """
        for number in self.numbers(rows):
            old = self._known[number]
            self._learn(rows, number, old.vec, _far_raised(old.far, FENCED_ALL, GLOBAL))

    def _learn(self, rows: Rows, number: int, vec: Array, far: Far) -> None:
        """Those of some threads whose knowledge has that number learn more, if it is more."""
        old = self._known[number]
        if vec is not old.vec or far is not old.far:
            at = np.arange(rows.start, rows.stop) if type(rows) is slice else rows
            board = Board(0)
            board.vec, board.far = vec, far
            self.acquire(at[self.ids[at] == number], board)

    def _fence_counted(self, rows: Rows, kinds: list[int]) -> None:
        """Writes that a barrier counted have no thread to fence them: whoever waited for it does.

        Source: PTX ISA, "Proxy-preserved base causality order": a proxy fence on the way counts.
        """
        at = np.arange(rows.start, rows.stop) if type(rows) is slice else rows
        for number in self.numbers(rows):
            seen = self._known[number].vec[SEEN, self.threads :]
            board = Board(0)
            board.widen(self.threads + len(seen))
            for kind in kinds:
                board.vec[kind, self.threads :] = seen
            self.acquire(at[self.ids[at] == number], board)
