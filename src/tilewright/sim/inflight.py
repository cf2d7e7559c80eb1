"""What is in flight: issued by threads, and not finished by the engines that do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.arch.mma.atom import MmaAtom
from tilewright.ir.core import Op
from tilewright.sim.registers import RegisterArray, RegisterState
from tilewright.sim.values import Array, Val, take

Move = Callable[[Any, Val, Val, Val], None]
"""Copies for the threads of a group: source and destination addresses, predicate."""


@dataclass(slots=True)
class CpAsyncBatch:
    """One cp.async instruction of some threads; `tags` are the groups that it belongs to."""

    threads: Array
    tags: Array
    src: Val
    dst: Val
    predicate: Val
    move: Move
    serial: int = 0
    """Among the cp.async of its block, in the order of their issue."""
    moved: bool = False
    """It has completed; some threads may still wait for its group."""
    event: Any = None
    """What the race detector calls it."""

    def part(self, mask: Array) -> CpAsyncBatch:
        index = np.flatnonzero(mask)
        src, dst, predicate = (take(v, index) for v in (self.src, self.dst, self.predicate))
        return replace(
            self,
            threads=self.threads[index],
            tags=self.tags[index],
            src=src,
            dst=dst,
            predicate=predicate,
        )


@dataclass(slots=True)
class BulkStore:
    """One TMA store: has its source been read, have its bytes been written?"""

    op: Op
    read: bool = False
    done: bool = False
    event: Any = None
    """What the race detector calls it."""


@dataclass(slots=True)
class BulkGroup:
    """The bulk stores that one thread commits together."""

    stores: list[BulkStore] = field(default_factory=list)
    waited: bool = False

    def complete(self, read: bool) -> bool:
        return all(s.read if read else s.done for s in self.stores)


@dataclass(slots=True)
class Wgmma:
    """One wgmma of one warpgroup: `a` is a descriptor or a register pointer."""

    op: Op
    atom: MmaAtom
    d: RegisterArray
    d_at: int
    a: Any
    b: int
    accumulate: bool
    events: tuple[Any, ...] = ()
    """What the race detector calls its reads."""

    def spans(self) -> list[tuple[RegisterState, int, bool]]:
        """Elements that it owns: (array, bit mask, is the accumulator)."""
        lo, hi = self.d.span(self.d_at, self.atom.num_values("C"))
        owned = [(self.d.state, ((1 << (hi - lo)) - 1) << lo, True)]
        if type(self.a) is tuple:
            array, at = self.a
            lo, hi = array.span(at, self.atom.num_values("A"))
            owned.append((array.state, ((1 << (hi - lo)) - 1) << lo, False))
        return owned


@dataclass(slots=True)
class WgmmaPipe:
    """The wgmmas of one warpgroup that have not retired."""

    open: list[Wgmma] = field(default_factory=list)
    groups: list[list[Wgmma]] = field(default_factory=list)
    fenced: bool = False
