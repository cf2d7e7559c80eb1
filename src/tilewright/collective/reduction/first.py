"""The first one adds up: all other parts leave their sums, and part 0 waits for them.

It adds them in the order of K.  Part 0 stays in its registers, so that a tile of two parts is
written and read once.
"""

from __future__ import annotations

from typing import Any, cast

from tilewright.collective.reduction.workspace import Workspace
from tilewright.collective.work import Share
from tilewright.lang import cute
from tilewright.lang.ranges import range_
from tilewright.lang.values import Boolean


class FirstAdds:
    """The deterministic reduction of Stream-K: parts other than 0 never wait."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @cute.jit
    def collect(self, acc: Any, share: Share) -> Boolean:
        """Adds this part; whether `acc` now holds the sum of all parts."""
        work = self.workspace
        is_first = share.part == 0
        if is_first:
            work.wait_for(share.slot, share.parts - 1)
            for p in range_(1, share.parts, unroll=1):
                work.add(acc, share.first + p)
            work.reset(share.slot)
        else:
            work.leave(acc, share.first + share.part)
            work.announce(share.slot)
        return cast(Boolean, is_first)
