"""The orders that the machine leaves open, and who chooses among them.

A `Strategy` is an adversary drawn from a seed.  A `Chooser` makes every choice from a list, for
systematic exploration.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class Choice:
    """One point at which something was chosen: how many could be, and which was.

    `price` is what each costs: 1 if it interrupts threads that could have gone on.
    """

    price: tuple[int, ...]
    chosen: int


@dataclass(slots=True)
class Chooser:
    """Follows a list of choices, then takes the first option, which never interrupts."""

    prefix: Sequence[int] = ()
    made: list[Choice] = field(default_factory=list)

    def choose(self, price: Sequence[int]) -> int:
        at = len(self.made)
        chosen = self.prefix[at] if at < len(self.prefix) else 0
        chosen = min(chosen, len(price) - 1)
        self.made.append(Choice(tuple(price), chosen))
        return chosen

    def schedule(self) -> tuple[int, ...]:
        """The choices made, without the defaults at their end."""
        numbers = [c.chosen for c in self.made]
        while numbers and numbers[-1] == 0:
            numbers.pop()
        return tuple(numbers)


def following(made: Sequence[Choice], budget: int) -> tuple[int, ...] | None:
    """The choices of the next schedule, depth first, with at most `budget` interruptions.

    >>> following([Choice((0, 1), 0), Choice((0, 0), 1)], budget=0)
    >>> following([Choice((0, 1), 0), Choice((0, 0), 1)], budget=1)
    (1,)
    """
    spent = [0]
    for choice in made:
        spent.append(spent[-1] + choice.price[choice.chosen])
    for at in range(len(made) - 1, -1, -1):
        choice = made[at]
        for option in range(choice.chosen + 1, len(choice.price)):
            if spent[at] + choice.price[option] <= budget:
                return (*(c.chosen for c in made[:at]), option)
    return None
