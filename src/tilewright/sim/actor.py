"""What memories and watchers need to know of a group of threads that acts on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tilewright.ir.core import Op
from tilewright.sim.values import Array, Rows


class Actor(Protocol):
    """Threads of one block that execute one instruction together (a `Group`)."""

    @property
    def run(self) -> Any: ...
    @property
    def n(self) -> int: ...
    @property
    def threads(self) -> Array:
        """Their numbers in the block, ascending."""

    @property
    def rows(self) -> Rows:
        """The same as an index: a slice if they are consecutive."""

    @property
    def key(self) -> object:
        """Tells runs of consecutive threads apart; None for others."""

    @property
    def warpgroups(self) -> Sequence[int]: ...
    def report(self, kind: str, message: str, op: Op, lane: int, **details: Any) -> None:
        """Notes a finding about the thread at position `lane`."""

    def name(self) -> str:
        """For people."""
