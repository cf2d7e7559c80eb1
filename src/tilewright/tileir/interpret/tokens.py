"""Tokens, and what they order: accesses of one block that no token orders are seen, and may run
in another order.

Token order is the only order within a block: neither the place in the program nor the flow of data
gives one (Tile IR specification, "Memory Model").  A token knows the accesses that come before it,
one bit each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.tileir.interpret.findings import FindingLog, shown
from tilewright.tileir.interpret.memory import Array

_LATER = 0.5
"""How probable it is that a store waits, in an adversarial order."""


@dataclass(frozen=True, slots=True)
class Token:
    """`history` has bit i set if access i of the block comes before."""

    history: int = 0


NO_TOKEN = Token()


def join(tokens: Sequence[Token]) -> Token:
    history = 0
    for token in tokens:
        history |= token.history
    return Token(history)


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes that an operation touched: ascending, disjoint segments."""

    op: Op
    strong: bool
    starts: Array
    ends: Array

    def overlaps(self, other: Access) -> bool:
        if not self.starts.size or not other.starts.size:
            return False
        if self.starts[0] >= other.ends[-1] or other.starts[0] >= self.ends[-1]:
            return False
        at = np.searchsorted(other.ends, self.starts, side="right")
        inside = at < other.ends.size
        return bool((other.starts[at[inside]] < self.ends[inside]).any())


def segments(addresses: Any, size: int) -> tuple[Array, Array]:
    """The bytes of elements of `size` bytes, as ascending segments.

    >>> segments(np.array([8, 0, 4, 16]), 4)
    (array([ 0, 16]), array([12, 20]))
    """
    unique = np.unique(np.asarray(addresses))
    if not unique.size:
        return unique, unique
    breaks = np.flatnonzero(np.diff(unique) > size)
    return (
        unique[np.concatenate(([0], breaks + 1))],
        unique[np.concatenate((breaks, [unique.size - 1]))] + size,
    )


class Tracker:
    """The accesses of the block that runs now, and its stores that have not happened yet.

    With `rng`, stores wait as long as a legal order lets them, or not.
    """

    def __init__(self, log: FindingLog, rng: random.Random | None) -> None:
        self._log = log
        self._rng = rng
        self._accesses: list[Access] = []
        self._writes = 0
        self._block: tuple[int, int, int] | None = None
        self._waiting: dict[int, tuple[int, Callable[[], None]]] = {}

    def begin(self, block: tuple[int, int, int]) -> None:
        """Another block runs; there is no token order between blocks."""
        self._block = block
        self._accesses = []
        self._writes = 0

    def finish(self) -> None:
        """The block ends: all of its stores happen."""
        while self._waiting:
            self._perform_one()

    def settle(self, history: int) -> None:
        """Lets everything happen that comes before an access with this history."""
        for number in sorted(self._waiting):
            if history >> number & 1:
                self._waiting.pop(number)[1]()
        if self._waiting and self._rng is not None and self._rng.random() < 0.25:
            self._perform_one()

    def note(
        self, op: Op, history: int, addresses: Any, size: int, *, writes: bool, strong: bool
    ) -> int:
        """The number of an access, once it has been held against those that came before."""
        access = Access(op, strong, *segments(addresses, size))
        number = len(self._accesses)
        rivals = ((1 << number) - 1 if writes else self._writes) & ~history
        while rivals:
            lowest = rivals & -rivals
            rivals ^= lowest
            other = self._accesses[lowest.bit_length() - 1]
            if not (strong and other.strong) and access.overlaps(other):
                self._report(op, other.op, writes)
        self._accesses.append(access)
        if writes:
            self._writes |= 1 << number
        return number

    def submit(self, number: int, history: int, write: Callable[[], None]) -> None:
        """A store, which happens now or later."""
        if self._rng is not None and self._rng.random() < _LATER:
            self._waiting[number] = (history, write)
        else:
            write()

    def _perform_one(self) -> None:
        """One waiting store that no other waiting one comes before."""
        ready = [
            number
            for number, (history, _) in self._waiting.items()
            if not any(history >> other & 1 for other in self._waiting)
        ]
        number = ready[0] if self._rng is None else self._rng.choice(ready)
        self._waiting.pop(number)[1]()

    def _report(self, op: Op, other: Op, writes: bool) -> None:
        kind = "writes" if writes else "reads"
        name = shown(other)
        what = f"an earlier {name}" if op is not other else "an earlier execution of the same"
        self._log.add(
            "unordered",
            op,
            f"{shown(op)} {kind} bytes that {what} accesses too, and no token orders them",
            self._block,
            other,
        )
