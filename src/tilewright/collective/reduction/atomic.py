"""All add: every part adds its sums to one place by atomics, and the last one takes them out.

Fast and small, whatever the number of parts: one place for a tile.  The order of adding is that of
arrival, so that the last bits of the result may differ from run to run.  The place is left at 0.
"""

from __future__ import annotations

from typing import Any, cast

from tilewright.collective.reduction.workspace import WARPGROUP, Workspace, flat_view
from tilewright.collective.work import Share
from tilewright.lang import cute
from tilewright.lang.ranges import range_constexpr
from tilewright.lang.values import Boolean, Float32


class AllAdd:
    """The fast reduction of Stream-K and of a split K."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @cute.jit
    def collect(self, acc: Any, share: Share) -> Boolean:
        """Adds this part; whether `acc` now holds the sum of all parts."""
        work = self.workspace
        # Neighbouring threads have neighbouring elements: a warp adds to whole sectors of the L2.
        flat, own = flat_view(acc), work.row(share.slot).iterator + work.thread
        for i in range_constexpr(cute.size(acc)):
            cute.arch.atomic_add(own + i * WARPGROUP, flat[i])
        last = work.told(work.count(share.slot) == share.parts - 1)
        if last:
            work.reset(share.slot)
            for i in range_constexpr(cute.size(acc)):
                flat[i] = cute.arch.load(own + i * WARPGROUP)
                cute.arch.store(own + i * WARPGROUP, Float32(0.0))
        return cast(Boolean, last)
