"""Clusters whose blocks share what they load.

The blocks of a cluster work on tiles side by side.  Those of one row of tiles need the same A, and
those of one column the same B: each block loads a part of it, and TMA writes the part to all of
them.  So a stage of one block is filled by several, and may be filled again when the consumers of
all blocks that its own producer writes to have read theirs.

TMA is slow on rows that are no multiples of 32 bytes: it is there that sharing pays (an H200).
"""

from __future__ import annotations

from typing import Any, cast

from tilewright.collective.work import DataParallel, Piece
from tilewright.lang.values import Boolean, Int32, Uint16


class Multicast:
    """A block's place in a cluster of `shape` (along M, along N) blocks.  Ranks count along M."""

    def __init__(self, shape: tuple[int, int], rank: Any) -> None:
        self.shape = shape
        self.m, self.n = rank % shape[0], rank // shape[0]

    def mask_a(self) -> Uint16 | None:
        """The blocks of this row of tiles, a bit each; None where there is no other one."""
        along_m, along_n = self.shape
        if along_n == 1:
            return None
        row = sum(1 << along_m * n for n in range(along_n))
        return cast(Uint16, (Int32(row) << self.m).to(Uint16))

    def mask_b(self) -> Uint16 | None:
        """The blocks of this column of tiles."""
        along_m, _ = self.shape
        if along_m == 1:
            return None
        return cast(Uint16, (Int32((1 << along_m) - 1) << self.n * along_m).to(Uint16))

    def is_peer(self, rank: Any) -> Boolean:
        """Whether block `rank` shares a row or a column with this one, which is its own peer."""
        along_m, along_n = self.shape
        together = (rank % along_m == self.m) | (rank // along_m == self.n)
        return cast(Boolean, (rank < along_m * along_n) & together)


def peers(shape: tuple[int, int]) -> int:
    """How many blocks share a row or a column with a block, itself among them.

    >>> peers((1, 1)), peers((2, 1)), peers((2, 2))
    (1, 2, 3)
    """
    return shape[0] + shape[1] - 1


class SideBySide(DataParallel):
    """Whole tiles, for the blocks of a cluster side by side.  `raster` walks the clusters."""

    def __init__(
        self, raster: Any, k_tiles: Any, multicast: Multicast, block: Any, blocks: Any
    ) -> None:
        size = multicast.shape[0] * multicast.shape[1]
        clusters = None if blocks is None else blocks // size
        super().__init__(raster, k_tiles, block // size, clusters)
        self.multicast = multicast

    def at(self, number: Any) -> Piece:
        piece, here = super().at(number), self.multicast
        m, n = piece.m * here.shape[0] + here.m, piece.n * here.shape[1] + here.n
        return piece._replace(m=m, n=n)
