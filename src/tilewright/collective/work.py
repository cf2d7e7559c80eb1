"""What a persistent block works on: pieces of work, one after another.

A piece is a tile and some of its k tiles.  Where several blocks share a tile, each has a part of
its sum, and a reduction (`collective/reduction`) brings the parts together.  A *work list* says
which pieces a block has:

    DataParallel   whole tiles, every `blocks`-th of them
    SplitK         the same, with each tile there once for each of the parts of K
    StreamK        whole tiles, and an even share of the k tiles of the rest  (stream_k.py)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright.collective.scheduler import RasterScheduler
from tilewright.lang.values import Boolean, Int32


class Piece(NamedTuple):
    """Tile row, tile column, batch; the tile's number; which k tiles."""

    m: Int32
    n: Int32
    batch: Int32
    tile: Int32
    k_first: Int32
    k_count: Int32


class Share(NamedTuple):
    """What a piece is of the sum of its tile.

    `slot` stands for the tile, `part` of `parts` is the piece, in order of K.  Where every part
    leaves its sums, part p has the place `first + p`.  `more`: whether the walk goes on.
    """

    slot: Int32
    first: Int32
    part: Int32
    parts: Int32 | int
    more: Boolean | bool = True


class DataParallel:
    """Whole tiles: block b has the numbers b, b + blocks, b + 2 blocks, ..

    `blocks` None: there is a block for each number, and it has no other one.
    """

    def __init__(self, raster: RasterScheduler, k_tiles: Int32, block: Any, blocks: Any) -> None:
        self.raster, self.k_tiles, self.block, self.blocks = raster, k_tiles, block, blocks

    @property
    def total(self) -> Any:
        """The pieces of all blocks."""
        return self.raster.num_tiles

    def walk(self, turn: Any = 0, turns: int = 1) -> tuple[Any, Any, Any]:
        """(start, stop, step) of the numbers of this block; of those every `turns`-th."""
        if self.blocks is None:
            return self.block, self.block + 1, 1
        if turns == 1:
            return self.block, self.total, self.blocks
        return self.block + turn * self.blocks, self.total, turns * self.blocks

    def skipped(self, turn: Any) -> Any:
        """How many k tiles the pieces before the first one of `turn` (0 or 1) have."""
        return turn * self.k_tiles

    def between(self, number: Any) -> Any:
        """How many k tiles the piece behind `number` has, which is another consumer's."""
        del number
        return self.k_tiles

    def at(self, number: Any) -> Piece:
        """Piece `number`."""
        place = self.raster.tile_at(number)
        return Piece(*place, number, Int32(0), self.k_tiles)


class SplitK(DataParallel):
    """Each tile is there `parts` times: the parts have k tiles that follow each other.

    Parts are the innermost index of the numbers, so that they run at the same time.
    """

    def __init__(
        self, raster: RasterScheduler, k_tiles: Int32, parts: int, block: Any, blocks: Any
    ) -> None:
        super().__init__(raster, k_tiles, block, blocks)
        self.parts = parts

    @property
    def total(self) -> Any:
        return self.raster.num_tiles * self.parts

    def skipped(self, turn: Any) -> Any:
        return turn * self._k_range(self.block % self.parts)[1]

    def between(self, number: Any) -> Any:
        return self._k_range((number + self.blocks) % self.parts)[1]

    def at(self, number: Any) -> Piece:
        tile = number // self.parts
        k_range = self._k_range(number - tile * self.parts)
        return Piece(*self.raster.tile_at(tile), tile, *k_range)

    def share(self, number: Any, piece: Piece, turns: int = 1) -> Share:
        """Which part of its tile's sum piece `number` is, of a walk by every `turns`-th."""
        first = piece.tile * self.parts
        more = self.blocks is not None and number + turns * self.blocks < self.total
        return Share(piece.tile, first, number - first, self.parts, more)

    def _k_range(self, part: Any) -> tuple[Any, Any]:
        """(first k tile, number of k tiles) of a part: they differ by one at most."""
        first = self.k_tiles * part // self.parts
        return first, self.k_tiles * (part + 1) // self.parts - first
