"""In turn: part after part adds its sums to one place, and the last one has them all.

The order is that of K, and a tile has one place, whatever the number of parts.  The parts wait in a
chain, which is short where they end one after another anyway.
"""

from __future__ import annotations

from typing import Any, cast

from tilewright.collective.reduction.workspace import Workspace
from tilewright.collective.work import Share
from tilewright.lang import cute
from tilewright.lang.values import Boolean


class InTurn:
    """The serial reduction of a split K; the counter of a tile says whose turn it is."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @cute.jit
    def collect(self, acc: Any, share: Share) -> Boolean:
        """Adds this part; whether `acc` now holds the sum of all parts (else that of some)."""
        work = self.workspace
        if share.part > 0:
            work.wait_for(share.slot, share.part)
            work.add(acc, share.slot)
        is_last = share.part == share.parts - 1
        if is_last:
            work.reset(share.slot)
        else:
            work.leave(acc, share.slot)
            work.announce(share.slot)
        return cast(Boolean, is_last)
