"""Stream-K: the k tiles of the last wave are dealt out evenly, the other tiles stay whole.

    streamed   the first S tiles: S k_tiles products in a row, cut into equal shares, one for each
               block; a share ends where the next one begins, also in the middle of a tile
    whole      all others, as in a data-parallel grid, which they fill exactly

S are the tiles of the last wave, which is not full, and of one wave more where `waves` is 2: then
shares are longer than a tile, and a tile has three parts at most.  A block has its share first.  A
tile's end is the first piece of its block's share, so that it is delivered before that block waits
for anybody; its beginning is the last piece of another share, whose block waits for the rest.

Shares are dealt in reverse order of the blocks: a block waits only for blocks before it, which
started before it.  Source: Osama et al., "Stream-K", PPoPP 2023.
"""

from __future__ import annotations

from typing import Any

from tilewright.collective.scheduler import RasterScheduler
from tilewright.collective.work import Piece, Share
from tilewright.lang import words


def streamed_tiles(tiles: Any, blocks: Any, waves: int) -> Any:
    """How many tiles are streamed.

    >>> streamed_tiles(300, 132, 1), streamed_tiles(300, 132, 2), streamed_tiles(20, 132, 2)
    (36, 168, 20)
    """
    return words.min(tiles, tiles % blocks + (waves - 1) * blocks)


def stream_blocks(tiles: Any, k_tiles: Any, most: int, in_place: bool) -> Any:
    """How many blocks share the work: `most`, or fewer where there is not enough of it.

    Where every part leaves its sums, two blocks for each tile: their places are then less than
    twice the output.  Sums that are added in place have one place for each tile.

    >>> stream_blocks(300, 64, 132, False), stream_blocks(4, 64, 132, False)
    (132, 8)
    >>> stream_blocks(4, 64, 132, True), stream_blocks(4, 2, 132, True)
    (132, 8)
    """
    # Tiles beyond `most` change nothing, and their product might not fit 32 bits.
    return words.min(most, words.min(tiles, most) * (k_tiles if in_place else 2))


class StreamK:
    """The work list of one of `blocks` blocks: the pieces of its share, then whole tiles."""

    def __init__(
        self, raster: RasterScheduler, k_tiles: Any, waves: int, block: Any, blocks: Any
    ) -> None:
        self.raster, self.k_tiles, self.block, self.blocks = raster, k_tiles, block, blocks
        self.unit = blocks - 1 - block
        tiles = raster.num_tiles
        self.streamed = streamed_tiles(tiles, blocks, waves)
        total = self.streamed * k_tiles
        # The first `more` shares have one k tile more than `each`.
        self.each = total // blocks
        self.more = total - self.each * blocks
        self.first = self.unit * self.each + words.min(self.unit, self.more)
        self.end = self.first + self.each + (self.unit < self.more).to(type(self.unit))
        self.first_tile = self.first // k_tiles
        # A share without k tiles has no piece: its end is its beginning.
        self.pieces = (self.end + k_tiles - 1) // k_tiles - self.first_tile
        self.pieces = words.choose(self.end > self.first, self.pieces, 0)
        self.count = self.pieces + (tiles - self.streamed) // blocks

    def walk(self, turn: Any = 0, turns: int = 1) -> tuple[Any, Any, Any]:
        """(start, stop, step) of the numbers of this block; of those every `turns`-th."""
        return turn, self.count, turns

    def skipped(self, turn: Any) -> Any:
        """How many k tiles the pieces before the first one of `turn` (0 or 1) have."""
        return turn * self._k_range(0, self._tile(0))[1]

    def between(self, number: Any) -> Any:
        """How many k tiles the piece behind `number` has, which is another consumer's."""
        return self._k_range(number + 1, self._tile(number + 1))[1]

    def at(self, number: Any) -> Piece:
        """Piece `number`."""
        tile = self._tile(number)
        return Piece(*self.raster.tile_at(tile), tile, *self._k_range(number, tile))

    def share(self, number: Any, piece: Piece, turns: int = 1) -> Share:
        """Which part of its tile's sum a piece is; of a streamed tile."""
        del number, turns
        begin = piece.tile * self.k_tiles
        owner, last = self._unit_of(begin), self._unit_of(begin + self.k_tiles - 1)
        # Part 0 leaves nothing behind, so that the places of all parts are those of units from 1.
        return Share(piece.tile, owner - 1, self.unit - owner, last - owner + 1)

    def _tile(self, number: Any) -> Any:
        whole = self.streamed + self.block + (number - self.pieces) * self.blocks
        return words.choose(number < self.pieces, self.first_tile + number, whole)

    def _k_range(self, number: Any, tile: Any) -> tuple[Any, Any]:
        """(first k tile, number of k tiles) of piece `number`, which is of `tile`."""
        begin = tile * self.k_tiles
        streamed = number < self.pieces
        first = words.choose(streamed, words.max(self.first - begin, 0), 0)
        end = words.choose(streamed, words.min(self.end - begin, self.k_tiles), self.k_tiles)
        return first, end - first

    def _unit_of(self, product: Any) -> Any:
        """The unit whose share has product number `product`."""
        long = self.more * (self.each + 1)
        beyond = (product - long) // words.max(self.each, 1)
        return words.choose(product < long, product // (self.each + 1), self.more + beyond)
