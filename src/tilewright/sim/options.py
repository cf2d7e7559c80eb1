"""What a caller may choose about one simulation, and what launches use that chose nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SimOptions:
    """`seed` decides every order that the machine leaves open; the same seed, the same run.

    Seed 0 is the plain order.  Others are adversaries: see `schedule.Strategy`.
    """

    seed: int = 0
    raise_on_findings: bool = True
    """Raise `SimulationError` after the run if a finding is an error."""

    max_steps: int = 500_000_000
    """Instructions (of whole groups of threads) after which the run is given up as endless."""

    max_findings: int = 100
    """Different findings that are kept; repetitions of one at the same line are only counted."""

    check_uninitialised: bool = True
    """Report reads of shared-memory bytes and registers that nothing has written."""

    eager: float = 0.3
    """Chance that an asynchronous operation finishes at once; the others finish late."""

    spin_rounds: int = 2000
    """Rounds in which every thread only polls, after which the run is called a deadlock."""

    check_races: bool = False
    """Check every access for happens-before, and the rules of barriers, proxies and engines."""

    check_global: bool = False
    """With `check_races`: global memory too."""

    measure_costs: bool = False
    """Measure bank conflicts and global sectors of every instruction: `Report.costs`."""

    runs: int = 1
    """Seeds to try, from `seed` on, up to the first with findings; memory starts the same."""

    explore: int = 0
    """Runs of a systematic exploration instead, at most; for small kernels (see `explore`)."""

    schedule: tuple[int, ...] | None = None
    """The choices of one explored schedule, to run it again."""

    def describe(self) -> str:
        """How to get this very run again.

        >>> SimOptions(seed=7, check_races=True).describe()
        'SimOptions(seed=7, check_races=True)'
        """
        parts = [] if self.schedule is not None else [f"seed={self.seed}"]
        if self.schedule is not None:
            parts.append(f"schedule={self.schedule}")
        parts += [f"{name}=True" for name in ("check_races", "check_global") if getattr(self, name)]
        return f"SimOptions({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Scope:
    """Options for launches that name none, and where their reports go."""

    options: SimOptions
    reports: list[object]


_SCOPE: ContextVar[Scope | None] = ContextVar("tilewright_sim_scope", default=None)


def default_options() -> SimOptions:
    """The options of a launch that names none: those of the innermost scope."""
    scope = _SCOPE.get()
    return scope.options if scope is not None else SimOptions()


def note_report(report: object) -> None:
    """Hands a finished run's report to the innermost scope, if there is one."""
    scope = _SCOPE.get()
    if scope is not None:
        scope.reports.append(report)


@contextmanager
def using(scope: Scope) -> Iterator[None]:
    """Launches inside use `scope`."""
    token = _SCOPE.set(scope)
    try:
        yield
    finally:
        _SCOPE.reset(token)
