"""Copies that could be wider: accesses that follow one another at adjacent addresses.

Rule THREAD.  Consecutive accesses of one line by the same threads, each `size` bytes behind the
one before, could be one access of 4, 8 or 16 bytes wherever that is aligned in every thread.
Rule WARP.  So could consecutive accesses in which neighbours access neighbours, and which together
are contiguous, if the elements were dealt to the threads anew.
A barrier ends the runs of the threads that come to it: what is behind it may not be there before.
Source: CUDA C++ Programming Guide, "Device Memory Accesses" (words of up to 16 bytes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops import copy, memory
from tilewright.sim.group import Group
from tilewright.sim.values import Array

WIDEST = 16
_COPIES = (memory.Load, memory.Store, memory.Copy, copy.CpAsync)


@dataclass(slots=True)
class Run:
    """Accesses so far, each adjacent to the one before.  `warps`: requests of each access."""

    op: Op
    kind: str
    first: Array
    last: Array
    size: int
    warps: int
    length: int = 1
    step: int = 0
    """Bytes from one access to the next; 0 while there is only one."""

    def extends(self, addresses: Array) -> bool:
        """Whether the next access belongs to the run; it is then a part of it."""
        if len(addresses) != len(self.last):
            return False
        apart = addresses - self.last
        step = int(apart[0])
        if step != (self.step or step) or not bool((apart == step).all()):
            return False
        if step != self.size and not (step == self.size * len(addresses) and self._is_dense()):
            return False
        self.last, self.step, self.length = addresses, step, self.length + 1
        return True

    def _is_dense(self) -> bool:
        """Whether neighbours access neighbours."""
        return len(self.last) > 1 and bool((np.diff(self.last) == self.size).all())

    def wider(self) -> tuple[int, int] | None:
        """(width in bytes, accesses that are left), for the widest that merges any."""
        if self.length == 1:
            return None
        starts = self.first if self.step == self.size else self.first[:1]
        width = WIDEST
        while width > self.size:
            ahead = np.unique(-starts % width)  # bytes up to the first address that is aligned
            alone, off = divmod(int(ahead[0]), self.step)
            wide, rest = divmod(self.length - alone, width // self.size)
            if len(ahead) == 1 and not off and wide > 0:
                return width, alone + wide + rest
            width //= 2
        return None


class Runs:
    """The runs of one launch that are going on."""

    def __init__(self) -> None:
        self._going: dict[tuple[Any, ...], Run] = {}

    def access(
        self, g: Group, shared: bool, kind: str, addresses: Array, size: int, op: Op, threads: Array
    ) -> Run | None:
        """The run that this access ends, if it does."""
        if size >= WIDEST or not isinstance(op, _COPIES):
            return None
        actor = (g.cta.index, len(threads), int(threads[0]), int(threads[-1]))
        key = (*actor, op.loc, op.name, kind, shared, size)
        run = self._going.get(key)
        if run is not None and run.extends(addresses):
            return None
        warps = len(np.unique(threads >> 5))
        self._going[key] = Run(op, kind, addresses, addresses, size, warps)
        return run

    def end(self, g: Group | None = None) -> Iterator[Run]:
        """The runs of a group's threads end; without one, all."""
        for key in list(self._going):
            if g is None or (
                key[0] == g.cta.index and g.threads[0] <= key[2] and key[3] <= g.threads[-1]
            ):
                yield self._going.pop(key)
