"""What a caller may choose about one simulation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SimOptions:
    """`seed` decides the order in which the asynchronous agents finish; all else is fixed."""

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
