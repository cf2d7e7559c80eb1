"""How many stages a ring of shared memory has: counted, or as many as fit.

    stages = (capacity - carveout) / (A tile + B tile, and its barriers)

Source: CUTLASS, `compute_stage_count_or_override`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StageCount:
    """This many."""

    stages: int


@dataclass(frozen=True, slots=True)
class StageCountAutoCarveout:
    """As many as fit beside `bytes` of shared memory that something else needs."""

    bytes: int


@dataclass(frozen=True, slots=True)
class StageCountAuto:
    """As many as fit when nothing else needs shared memory."""


class _HasStorage(Protocol):
    @property
    def shared_storage_bytes(self) -> int: ...


def StageCountAutoCarveoutEpi(epilogue: _HasStorage) -> StageCountAutoCarveout:
    """As many as fit beside an epilogue."""
    return StageCountAutoCarveout(epilogue.shared_storage_bytes)


Stages = int | StageCount | StageCountAuto | StageCountAutoCarveout
