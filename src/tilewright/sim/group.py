"""Groups: threads of one block that share a program counter, how they part and meet again.

A branch whose condition differs between threads splits a group in two.  Both halves remember the
*join*: the instruction behind the branch, where the first to arrive parks until the others are
there, and all go on as one group with the parent's values.  A parked group may go on alone (the
scheduler lets it when nothing else can run); it then takes its share of the parent's values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.types import Type
from tilewright.sim.state import Cta, Run
from tilewright.sim.values import Array, Rows, Val, merge, narrow, take

SAME = -1
"""The program counter of a group that is to execute the current instruction again."""


class Join:
    """Where the parts of a group meet again.  `missing` counts threads that have yet to arrive."""

    __slots__ = ("missing", "outer", "parked", "pc", "results", "slots", "threads")

    def __init__(self, pc: int, parent: Group, results: Sequence[tuple[int, Type]]) -> None:
        self.pc = pc
        self.slots = parent.slots
        self.threads = parent.threads
        self.outer = parent.join
        self.results = results
        """What the parts bring along: the results of the branch or loop."""
        self.parked: list[Group] = []
        self.missing = parent.n

    def arrive(self, g: Group) -> Group | None:
        """`g` is here: the merged group if it was the last, else None (it parks)."""
        self.parked.append(g)
        self.missing -= g.n
        return None if self.missing else self.release()

    def release(self) -> Group:
        """The threads that are parked here go on as one group."""
        parts, self.parked = self.parked, []
        threads = np.sort(np.concatenate([g.threads for g in parts]))
        n = len(threads)
        first = parts[0]
        if n == len(self.threads):
            slots = self.slots
        else:
            where = _positions(threads, self.threads)
            slots = [take(v, where) for v in self.slots]
        merged = Group(first.cta, threads, self.pc + 1, slots, self.outer)
        places = [_positions(g.threads, threads) for g in parts]
        for slot, t in self.results:
            held = [(g.slots[slot], p) for g, p in zip(parts, places, strict=True)]
            slots[slot] = merge(held, t, n)
        return merged


class Group:
    """Threads of one block at one instruction.  See `values` for what the slots hold."""

    __slots__ = (
        *(
            "_full",
            "cta",
            "gave_up",
            "join",
            "key",
            "n",
            "pc",
            "polled",
            "rows",
            "run",
            "slots",
            "threads",
        ),
        *("wait", "warpgroups", "warps"),
    )

    def __init__(
        self, cta: Cta, threads: Array, pc: int, slots: list[Val], join: Join | None
    ) -> None:
        self.cta = cta
        self.run: Run = cta.run
        self.threads = threads
        self.n = n = len(threads)
        self.pc = pc
        self.slots = slots
        self.join = join
        self.wait: Any = None
        self.gave_up: Any = None
        """The timed wait that the group last gave up."""
        self.polled: tuple[int, list[Val]] | None = None
        """The loop in which the group last polled, and what the loop carried then."""
        lo, hi = int(threads[0]), int(threads[-1]) + 1
        consecutive = hi - lo == n
        self.rows: Rows = slice(lo, hi) if consecutive else threads
        self.key: object = (lo, hi) if consecutive else None
        if consecutive:
            self.warpgroups: Sequence[int] = range(lo >> 7, (hi + 127) >> 7)
            self.warps = ((hi + 31) >> 5) - (lo >> 5)
        else:
            self.warpgroups = np.unique(threads >> 7).tolist()
            self.warps = len(np.unique(threads >> 5))
        self._full: bool | None = None

    @property
    def full(self) -> bool:
        """Whether every warp that has a thread in the group is in it with all its threads."""
        if self._full is None:
            size = self.cta.size
            lengths = np.bincount(self.threads >> 5)
            whole = np.minimum(32, size - 32 * np.arange(len(lengths)))
            self._full = bool(((lengths == 0) | (lengths == whole)).all())
        return self._full

    def split(
        self,
        mask: Array,
        join: Join,
        pcs: tuple[int, int],
        live: tuple[Sequence[int], Sequence[int]],
    ) -> list[Group]:
        """Two groups: the threads where `mask` holds go on at `pcs[0]`, the others at `pcs[1]`.

        `live` are the slots that each side may read before the join.
        """
        parts = []
        for side, pc, slots in zip((mask, ~mask), pcs, live, strict=True):
            index = np.flatnonzero(side)
            lo, hi = int(index[0]), int(index[-1]) + 1
            where: Rows = slice(lo, hi) if hi - lo == len(index) else index
            held = self.run.program.template.copy()
            for slot in slots:
                held[slot] = narrow(take(self.slots[slot], where))
            parts.append(Group(self.cta, self.threads[where], pc, held, join))
        return parts

    def split_by(self, keys: Array) -> list[Group]:
        """One group for each value of `keys`; each executes this instruction again, for itself.

        They meet at the next join, if the group has one.
        """
        parts = []
        for key in dict.fromkeys(keys.tolist()):
            index = np.flatnonzero(keys == key)
            lo, hi = int(index[0]), int(index[-1]) + 1
            where: Rows = slice(lo, hi) if hi - lo == len(index) else index
            held = [narrow(take(v, where)) for v in self.slots]
            parts.append(Group(self.cta, self.threads[where], SAME, held, self.join))
        return parts

    def subset(self, lanes: Array) -> Group:
        """Some of its threads, as the actors of one predicated access."""
        return Group(self.cta, self.threads[lanes], self.pc, self.slots, None)

    def report(self, kind: str, message: str, op: Op, lane: int, **details: Any) -> None:
        """Notes a finding about the thread at position `lane` of the group."""
        self.run.log.add(
            kind,
            message,
            place=op,
            loc=op.loc,
            agent=self.cta.thread_name(int(self.threads[lane])),
            **details,
        )

    def name(self) -> str:
        """For people: the block and its threads, in warps where they are whole."""
        return f"{self.cta.name}, {thread_ranges(self.threads, self.cta.size)}"


def _positions(threads: Array, among: Array) -> Rows:
    """Where `threads` stand in the sorted array `among`."""
    lo = int(np.searchsorted(among, threads[0]))
    hi = int(np.searchsorted(among, threads[-1])) + 1
    return slice(lo, hi) if hi - lo == len(threads) else np.searchsorted(among, threads)


def thread_ranges(threads: Array, size: int) -> str:
    """Warps where whole, single threads otherwise.

    >>> thread_ranges(np.arange(32, 128), 256), thread_ranges(np.array([0, 5]), 256)
    ('warps 1-3', 'threads 0, 5')
    """
    numbers = threads.tolist()
    counts: dict[int, int] = {}
    for t in numbers:
        counts[t >> 5] = counts.get(t >> 5, 0) + 1
    whole = all(c == min(32, size - 32 * w) for w, c in counts.items())
    unit, items = ("warp", sorted(counts)) if whole else ("thread", numbers)
    runs: list[list[int]] = []
    for i in items:
        if runs and runs[-1][1] == i - 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs[:8])
    text += ", ..." if len(runs) > 8 else ""
    return f"{unit}{'s' if len(items) > 1 else ''} {text}"
