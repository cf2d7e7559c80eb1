"""Timing of several callables against each other, so that their ratios mean something.

A GPU's clock moves with its temperature and power, and a kernel that finds its inputs in the L2
looks faster than it is.  So the callables take turns inside one process, in the order
A, B, ..., B, A that cancels a steady drift, the first of them changing from round to round; the
L2 is swept before every call; and each call lies between its own two events, none of which is
waited for until the round is over.  What is compared is the ratio within a round.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tilewright.errors import LaunchError


class Clock(Protocol):
    """Where the time comes from: a GPU's events, or a test's own."""

    def sweep(self) -> None:
        """Replace what the L2 holds, by reading only (written lines would cost the next call)."""

    def mark(self) -> Any:
        """Queue an event behind the work queued so far."""

    def synchronize(self) -> None:
        """Wait until all queued work is done."""

    def elapsed_us(self, start: Any, stop: Any) -> float:
        """Microseconds between two events that have both happened."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of one callable, in microseconds; `rounds_us` is its mean in each round.

    >>> Timing((10.0, 12.0, 11.0, 30.0)).median_us
    11.5
    """

    rounds_us: tuple[float, ...]

    @property
    def median_us(self) -> float:
        return statistics.median(self.rounds_us)

    @property
    def best_us(self) -> float:
        return min(self.rounds_us)

    @property
    def spread(self) -> float:
        """Distance between the quartiles over the median: below it, differences are noise."""
        return spread(self.rounds_us)


@dataclass(frozen=True, slots=True)
class Ratio:
    """How much faster one callable is than another: the median of the ratios of the rounds."""

    median: float
    low: float
    high: float
    spread: float


def interleave(
    calls: Mapping[str, Callable[[], object]],
    clock: Clock,
    *,
    rounds: int = 20,
    warmup: int = 3,
) -> dict[str, Timing]:
    """The time of each callable; every round calls each one twice.

    Laws:   1 each callable is warmed up `warmup` times and timed `2 * rounds` times  2 nothing is
            waited for inside a round  3 the callable that begins differs from round to round
    Raises: LaunchError if there is nothing to time, or no round to time it in.
    """
    if not calls or rounds < 1:
        raise LaunchError(
            f"timing: {len(calls)} callables in {rounds} rounds, expected at least one of each"
        )
    for call in calls.values():
        for _ in range(warmup):
            call()
    clock.synchronize()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for index in range(rounds):
        marks: dict[str, list[tuple[Any, Any]]] = {name: [] for name in calls}
        for name in turn(tuple(calls), index):
            clock.sweep()
            start = clock.mark()
            calls[name]()
            marks[name].append((start, clock.mark()))
        clock.synchronize()
        for name, pairs in marks.items():
            times[name].append(statistics.fmean(clock.elapsed_us(*pair) for pair in pairs))
    return {name: Timing(tuple(found)) for name, found in times.items()}


def host_times(
    calls: Mapping[str, Callable[[], object]],
    synchronize: Callable[[], None],
    *,
    rounds: int,
    batch: int,
) -> dict[str, list[float]]:
    """Host microseconds of one call, in each round.

    Laws:   1 in a round each is called `batch` times behind each other, on an idle GPU  2 the first
            of them changes from round to round  3 nothing is collected meanwhile
    """
    found: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for call in calls.values():
        for _ in range(batch):
            call()
    gc.disable()
    for number in range(rounds):
        at = number % len(names)
        for name in names[at:] + names[:at]:
            call = calls[name]
            synchronize()
            start = time.perf_counter_ns()
            for _ in range(batch):
                call()
            found[name].append((time.perf_counter_ns() - start) / batch / 1000)
    gc.enable()
    synchronize()
    return found


def turn(names: Sequence[str], index: int) -> tuple[str, ...]:
    """The order of calls in round `index`: there and back again, from a new start each time.

    >>> turn("AB", 0), turn("AB", 1), turn("ABC", 4)
    (('A', 'B', 'B', 'A'), ('B', 'A', 'A', 'B'), ('B', 'C', 'A', 'A', 'C', 'B'))
    """
    first = index % len(names)
    order = (*names[first:], *names[:first])
    return (*order, *reversed(order))


def compare(ours: Timing, peer: Timing) -> Ratio:
    """Peer's time over ours, round by round: above 1, ours is the faster.

    >>> compare(Timing((10.0, 20.0, 10.0)), Timing((11.0, 22.0, 8.0))).median
    1.1
    """
    ratios = [b / a for a, b in zip(ours.rounds_us, peer.rounds_us, strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios), spread(ratios))


def spread(values: Sequence[float]) -> float:
    """Distance between the quartiles over the median; 0 for a single value.

    >>> spread([100.0, 101.0, 102.0, 103.0, 500.0])
    0.0196078431372549
    """
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0
