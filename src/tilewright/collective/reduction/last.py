"""The last one adds up: every part leaves its sums, and whoever finds all others there adds them.

The order of adding is that of K, so that the result does not depend on who was last.  Nobody waits
for anybody.
"""

from __future__ import annotations

from typing import Any, cast

from tilewright.collective.reduction.workspace import Workspace, flat_view
from tilewright.collective.work import Share
from tilewright.lang import cute
from tilewright.lang.ranges import range_, range_constexpr
from tilewright.lang.values import Boolean, Float32

IN_FLIGHT = 128
"""Sums that a thread has on their way to it."""


class LastAdds:
    """The parallel reduction of a split K."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @cute.jit
    def collect(self, acc: Any, share: Share) -> Boolean:
        """Adds this part; whether `acc` now holds the sum of all parts (else it is spoiled)."""
        work = self.workspace
        work.leave(acc, share.first + share.part)
        last = work.told(work.count(share.slot) == share.parts - 1)
        if last:
            work.reset(share.slot)
            flat, values = flat_view(acc), cute.size(acc)
            for i in range_constexpr(values):
                flat[i] = Float32(0.0)
            # Few accumulators leave room for the loads of several parts at a time.
            for p in range_(share.parts, unroll=max(1, IN_FLIGHT // values)):
                work.add(acc, share.first + p)
        return cast(Boolean, last)
