"""The orders that the machine leaves open, and who chooses among them.

A `Strategy` is an adversary drawn from a seed.  A `Chooser` makes every choice from a list; that of
a systematic exploration is in `explore`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.sim.values import Array
from tilewright.sim.watch import Watcher

ORDERS = ("first", "last", "any")
ENGINES = ("mixed", "late", "soon", "newest")


@dataclass(frozen=True, slots=True)
class Strategy:
    """How a run orders what may happen in any order.

    `groups`: whose turn comes first of the groups that can run: in the order of their threads,
    against it, or anyone's.  `blocks`: the same for the blocks of the grid.  `apart`: warps (or
    warpgroups, where instructions need whole ones) run on their own from the start.  `engines`:
    copies finish now and then, as late as possible, at once, or the newest first.
    """

    groups: str = "first"
    blocks: str = "first"
    apart: bool = False
    engines: str = "mixed"

    def arrange(self, count: int, order: str, chance: random.Random) -> list[int]:
        """The order of `count` things."""
        numbers = list(range(count))
        if order == "last":
            numbers.reverse()
        elif order == "any":
            chance.shuffle(numbers)
        return numbers


def strategy(seed: int) -> Strategy:
    """The adversary of a seed; the first few seeds are the most different ones.

    >>> strategy(0) == Strategy(), strategy(2).engines
    (True, 'newest')
    """
    if seed == 0:
        return Strategy()
    fixed = {
        1: Strategy("last", "last", apart=False, engines="late"),
        2: Strategy("any", "any", apart=True, engines="newest"),
        3: Strategy("last", "first", apart=True, engines="soon"),
    }
    if seed in fixed:
        return fixed[seed]
    chance = random.Random(seed)
    return Strategy(
        groups=chance.choice(ORDERS),
        blocks=chance.choice(ORDERS),
        apart=chance.random() < 0.4,
        engines=chance.choice(ENGINES),
    )


class Chooser:
    """Makes the choices of a list, then takes the first option, which never interrupts.

    A run of an exploration tells it what the steps are that it chooses among; see `explore`.
    """

    watcher: Watcher | None = None

    def __init__(self, prefix: Sequence[int] = ()) -> None:
        self._prefix = prefix
        self.made: list[int] = []

    def choose(self, groups: Sequence[Any], pending: Sequence[Any], price: Sequence[int]) -> int:
        """The number of a group, or of an engine's operation behind those; -1 ends the run.

        `price` is what each costs: 1 if it interrupts threads that could have gone on.
        """
        del groups, pending
        at = len(self.made)
        chosen = self._prefix[at] if at < len(self._prefix) else 0
        chosen = min(chosen, len(price) - 1)
        self.made.append(chosen)
        return chosen

    def schedule(self) -> tuple[int, ...]:
        """The choices made, without the defaults at their end."""
        numbers = list(self.made)
        while numbers and numbers[-1] == 0:
            numbers.pop()
        return tuple(numbers)

    def begin_group(self, g: Any) -> None:
        """A group is about to make a step."""

    def begin_engine(self, pending: Any) -> None:
        """An engine is about to finish an operation."""

    def end_group(self, g: Any, threads: Array, *, polled: bool) -> None:
        """The group has made it."""

    def end_engine(self, cluster: Any) -> None:
        """The engine has."""

    def woken(self, g: Any) -> None:
        """What a blocked group waits for has happened."""
