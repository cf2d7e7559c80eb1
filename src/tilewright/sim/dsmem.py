"""Distributed shared memory: accesses by threads to the shared memory of their cluster's CTAs.

An address carries the rank of its CTA in the top byte (see `memory.RANK_SHIFT`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.types import Space
from tilewright.sim.access import Access
from tilewright.sim.group import Group
from tilewright.sim.memory import RANK_SHIFT, Window
from tilewright.sim.state import Cta
from tilewright.sim.values import Array, Val


def access_to(op: Op, space: Space, size: int) -> Access:
    """How `op` reads or writes `size` bytes in a memory."""
    return PeerAccess(op, size) if space is Space.DSMEM else Access(op, space, size)


def cta_of(g: Group, address: int) -> Cta | None:
    """The CTA of the group's cluster that an address lies in; None if there is none."""
    rank = address >> RANK_SHIFT
    ctas = g.cta.cluster.ctas
    return ctas[rank] if 0 <= rank < len(ctas) else None


def by_rank(address: Val) -> Iterator[tuple[int, Array | None]]:
    """(rank, positions of the addresses in it) of some addresses; None: all of them."""
    if type(address) is not np.ndarray:
        yield int(address) >> RANK_SHIFT, None
        return
    ranks = address >> RANK_SHIFT
    found = np.unique(ranks).tolist()
    for rank in found:
        yield rank, None if len(found) == 1 else np.flatnonzero(ranks == rank)


def check_alive(g: Group, cta: Cta, op: Op, lane: int) -> None:
    """Reports an access to a CTA that is no more: its shared memory may be that of another."""
    if cta.live == 0:
        g.report(
            "exit",
            f"{op.name} reaches into the shared memory of {cta.name}, which has exited",
            op,
            lane,
            hint="end with a cluster barrier, so that a block stays as long as others access it",
        )


class PeerAccess(Access):
    """Reads and writes of `size` bytes in the shared memory of whichever CTA an address names."""

    def __init__(self, op: Op, size: int) -> None:
        super().__init__(op, Space.SMEM, size)

    def read(self, g: Group, address: Val, lanes: Array | None = None) -> Array:
        self._check_alive(g, address, lanes)
        return super().read(g, address, lanes)

    def write(self, g: Group, address: Val, data: Array, lanes: Array | None = None) -> None:
        self._check_alive(g, address, lanes)
        super().write(g, address, data, lanes)

    def _check_alive(self, g: Group, address: Val, lanes: Array | None) -> None:
        for rank, where in by_rank(address):
            cta = cta_of(g, rank << RANK_SHIFT)
            if cta is not None and cta.live == 0:
                i = 0 if where is None else int(where[0])
                check_alive(g, cta, self.op, i if lanes is None else int(lanes[i]))

    def _find(self, g: Group, address: int) -> Window | None:
        cta = cta_of(g, int(address))
        return cta.smem if cta is not None and address >= cta.smem.start else None

    def _where(self, g: Group, address: int) -> str:
        cta = cta_of(g, address)
        if cta is None:
            size = len(g.cta.cluster.ctas)
            return f"CTA {address >> RANK_SHIFT} of a cluster of {size}"
        offset = address - cta.smem.start
        if 0 <= offset < cta.smem.data.size:
            return f"{cta.place(offset)} of {cta.name}"
        return f"byte {offset} of the {cta.smem.data.size} bytes of shared memory of {cta.name}"
