"""What orders: barriers of all kinds, and the rules that they are used by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops import sync
from tilewright.sim.races.clocks import (
    FENCED,
    FENCED_ALL,
    GLOBAL,
    INITS,
    NEVER,
    SEEN,
    Board,
    Rows,
    Team,
)
from tilewright.sim.races.records import Record
from tilewright.sim.values import Array

FRESH = -2
"""The phase that a thread last saw complete, if it never waited."""
ReportText = Callable[..., None]


def rows_of(team: Team, g: Any, where: Array | None = None) -> Rows:
    """Columns of the threads of a group (of those at the positions `where`)."""
    if where is None:
        return team.rows(g.cta.rank, g.rows)
    threads = g.threads[where]
    if len(threads) == 1:
        at = g.cta.rank * team.stride + int(threads[0])
        return slice(at, at + 1)
    return threads + g.cta.rank * team.stride


class MBarrierWatch:
    """What an mbarrier orders, and how threads have used it."""

    def __init__(self, team: Team, cta: Any, barrier: Any, op: Op, row: int) -> None:
        self.team = team
        self.cta = cta
        self.barrier = barrier
        self.init_op = op
        self.init_row = row
        self.init_clock = team.clock.now
        self.init_fence = NEVER
        self.board = Board(team.columns)
        self.done = Board(team.columns)
        """What was released up to the last completed phase."""
        self._column = -1
        self.seen = np.full(team.threads, FRESH, np.int64)
        """Per thread, the last phase it saw complete."""
        self._seen_at = np.zeros(team.threads, np.int64)
        self._waits = np.empty(team.threads, object)
        self._old = np.zeros(team.threads, np.bool_)
        """The last wait was satisfied by a phase that it could not have been meant for."""
        self._arrived = np.zeros(team.threads, np.int64)
        self.partner: MBarrierWatch | None = None
        """The barrier that threads wait for before they arrive here: empty for full, full for
        empty."""
        self._usable_for: set[tuple[bool, int]] = set()
        self._tried: set[tuple[Op, int, int]] = set()

    @property
    def column(self) -> int:
        if self._column < 0:
            self._column = self.team.new_column()
        return self._column

    def completed(self) -> None:
        """A phase completed: called by the barrier itself."""
        self.done = self.board.copy()

    def bytes_arrived(self) -> int:
        """TMA wrote what it counts here; the time."""
        column = self.column
        if column >= self.board.vec.shape[1]:
            self.board.widen(self.team.columns)
        now = self.team.clock.tick()
        self.board.vec[: GLOBAL + 1, column] = now
        return now

    def may_fail(self, rows: Rows, op: Op, parity: int) -> bool:
        """Whether a first try to wait may find the phase incomplete: nothing orders the try
        behind it.  Once for each instruction, thread and phase."""
        key = (op, int(_numbers(rows)[0]), self.barrier.phase)
        if key in self._tried:
            return False
        self._tried.add(key)
        seen = self.done.vec[SEEN]
        return not self.barrier.passed(parity) or any(
            (k.vec[SEEN][: len(seen)] < seen).any() for k in self.team.of(rows)
        )

    def arrived(self, rows: Rows, partner: MBarrierWatch | None) -> None:
        """Threads arrive, or issue copies that are counted here."""
        self._arrived[rows] = self.team.clock.now
        if partner is not None and partner is not self:
            self.partner = partner

    def waited(self, rows: Rows, op: Op) -> tuple[int, int] | None:
        """Threads went on because the last phase was complete.

        Gives (column, phase) if one of them had used that phase before: it waited for it, arrived
        at the partner, which hands the data or the space back, and now takes it once more.
        """
        phase = self.barrier.phase - 1
        again = self.seen[rows] == phase
        if self.partner is None:
            again = np.zeros(len(again), np.bool_)
        elif again.any():
            again &= self.partner._arrived[rows] > self._seen_at[rows]
        self._old[rows] = again | (phase < 0)
        self.seen[rows] = phase
        self._seen_at[rows] = self.team.clock.now
        self._waits[rows] = op
        self.team.acquire(rows, self.done)
        return (int(_numbers(rows)[int(np.argmax(again))]), phase) if again.any() else None

    def unseen(self, row: int) -> int | None:
        """The last completed phase, if the thread never saw it; phases before the first count."""
        phase = self.barrier.phase - 1
        return phase if phase >= 0 and int(self.seen[row]) < phase else None

    def misled(self, column: int, phase: int) -> tuple[Op, int] | None:
        """The wait that let a thread through to data of `phase`, if an old phase satisfied it."""
        if column >= len(self.seen) or self._waits[column] is None:
            return None
        seen = int(self.seen[column])
        return (self._waits[column], seen) if seen < phase and self._old[column] else None

    def visible(self, rows: Rows, *, to_engine: bool) -> bool:
        """Whether threads may know that the barrier is initialised; `to_engine`: and its fence."""
        if type(rows) is slice and rows.stop - rows.start == 1 and rows.start == self.init_row:
            return not to_engine or self.init_fence < NEVER
        numbers = self.team.numbers(rows)
        left = [n for n in numbers if (to_engine, n) not in self._usable_for]
        for number in left:
            vec = self.team.known(number).vec
            fenced = self.init_fence
            known = bool(vec[SEEN, self.init_row] >= (fenced if to_engine else self.init_clock))
            if not known and vec[INITS, self.init_row] < fenced:
                return self._own_or_peer(rows, number, to_engine)
            self._usable_for.add((to_engine, number))
        return True

    def _own_or_peer(self, rows: Rows, number: int, to_engine: bool) -> bool:
        """The initialising thread itself, and lanes of its warp behind a `sync.warp`."""
        at = np.arange(rows.start, rows.stop) if type(rows) is slice else rows
        at = at[self.team.ids[at] == number]
        want = self.init_fence if to_engine else self.init_clock
        peers = bool(self.team.warp[SEEN, self.init_row] >= want)
        same = (at >> 5 == self.init_row >> 5) if peers else (at == self.init_row)
        return bool(same.all()) and (not to_engine or self.init_fence < NEVER)


class NamedWatch:
    """A named barrier: what its current generation has released, and who arrived before."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.board = Board(team.columns)
        self.arrivals: list[tuple[Rows, int]] = []
        self._previous: list[tuple[Rows, int]] = []

    def opened(self) -> None:
        """The barrier opened: called by itself."""
        self._previous, self.arrivals = self.arrivals, []
        self.board = Board(self.team.columns)

    def arrive(self, rows: Rows) -> str | None:
        """Threads arrive; what rule that breaks, or None."""
        problem = None
        if any(_overlap(rows, before) for before, _ in self.arrivals):
            problem = "a thread arrives twice before the barrier has opened"
        elif not self._behind_previous(rows):
            problem = (
                "the barrier is used again by threads that need not know that it has opened: "
                "their arrivals may count for its last use"
            )
        self.arrivals.append((rows, self.team.release(rows, self.board)))
        return problem

    def _behind_previous(self, rows: Rows) -> bool:
        for known in self.team.of(rows):
            for before, clock in self._previous:
                seen = known.vec[SEEN, before]
                if (seen >= clock).all():
                    continue
                at = _numbers(before)[seen < clock]
                mine = _numbers(rows)
                if len(mine) > 1 or len(at) > 1 or at[0] != mine[0]:
                    return False
        return True


def _numbers(rows: Rows) -> Array:
    return np.arange(rows.start, rows.stop) if type(rows) is slice else rows


def _overlap(a: Rows, b: Rows) -> bool:
    if type(a) is slice and type(b) is slice:
        return bool(a.start < b.stop and b.start < a.stop)
    return bool(np.isin(_numbers(a), _numbers(b)).any())


class ClusterWatch:
    """The cluster's barrier: one board per generation."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self._boards: dict[int, Board] = {}

    def arrive(self, rows: Rows, generation: int, *, relaxed: bool) -> None:
        board = self._boards.get(generation)
        if board is None:
            board = self._boards[generation] = Board(self.team.columns)
            self._boards.pop(generation - 3, None)
        if relaxed:
            self.team.release_inits(rows, board)
        else:
            self.team.release(rows, board)

    def wait(self, rows: Rows, generation: int) -> None:
        self.team.acquire(rows, self._boards[generation])


class Exits:
    """Who reaches into another block's shared memory, and whether that block stays for it."""

    def __init__(self, team: Team, ranks: int) -> None:
        self.team = team
        self._reached: list[dict[Any, tuple[Record | int, Rows, Op, str]]]
        self._reached = [{} for _ in range(ranks)]
        """By CTA: the last access of each instruction by each thread; who saw it saw the others."""
        self._knew = [Board(team.columns) for _ in range(ranks)]

    def reach(self, rank: int, rows: Rows, what: Record | int, op: Op, agent: str) -> None:
        """A copy into CTA `rank`, or the time of an access or a remote arrival there."""
        place = what.barrier.column if isinstance(what, Record) else 0
        numbers = _numbers(rows)
        key = (op, place, int(numbers[0]), len(numbers))
        self._reached[rank][key] = (what, rows, op, agent)

    def leave(self, rank: int, rows: Rows) -> None:
        """Threads of CTA `rank` exit."""
        for known in self.team.of(rows):
            self._knew[rank].add(known.vec)

    def unseen(self, cta: Any) -> list[tuple[Op, str, bool]]:
        """What a CTA, all of whose threads have exited, did not wait for.

        (operation, thread, whether it is one of the CTA's own).
        """
        vec = self._knew[cta.rank].vec
        found: dict[Op, tuple[Op, str, bool]] = {}
        for what, rows, op, agent in self._reached[cta.rank].values():
            if isinstance(what, Record):
                seen, own = bool(what.lanes_known(vec).all()), what.cta is cta
            else:
                seen, own = bool((vec[SEEN, rows] >= what).all()), False
            if not seen:
                found.setdefault(op, (op, agent, own))
        return list(found.values())


def fence_kinds(op: Op) -> tuple[int, ...]:
    """The rows of vectors that a fence instruction moves."""
    if isinstance(op, sync.FenceProxyAsync):
        return (FENCED, INITS) if op.space == "shared" else (FENCED, FENCED_ALL, INITS)
    return (INITS,) if isinstance(op, sync.FenceMBarrierInit) else ()
