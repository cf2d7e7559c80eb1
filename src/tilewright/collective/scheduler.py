"""Which output tile a persistent block works on next.

Tile numbers are walked in groups: `group` rows of tiles, column by column, then the next rows.
A wave of blocks then touches few rows of A and few columns of B, which stay in L2.  Batches follow
one after another, so that any number of them fits one grid; the parts of a split K are innermost,
so that they run at the same time.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from tilewright.lang import words
from tilewright.lang.values import Int32


class Tile(NamedTuple):
    """A piece of work: tile row, tile column, batch, and which part of K."""

    m: Int32
    n: Int32
    batch: Int32
    part: Int32


def batch_count(d: Any) -> Int32 | int:
    """The batches of an output (M,N,L): a plain 1 where its batch stride is 0, so it is one matrix.

    >>> from tilewright.lang import cute
    >>> batch_count(cute.make_layout((4, 4, 1), stride=(4, 1, 0)))
    1
    """
    stride = d.stride[2]
    return 1 if type(stride) is int and stride == 0 else cast(Int32, d.shape[2])


class RasterScheduler:
    """Maps a tile number to its place.

    `tiles_m` and `tiles_n` count the tiles along M and N; `group` is the number of tile rows that
    are walked together; each tile is there once for each of the `parts` of K.
    """

    def __init__(
        self,
        tiles_m: Int32,
        tiles_n: Int32,
        group: int,
        batches: Int32 | int = 1,
        parts: int = 1,
    ) -> None:
        self.tiles_m = tiles_m
        self.tiles_n = tiles_n
        self.group = group
        self.batches = batches
        self.parts = parts

    @property
    def num_tiles(self) -> Int32:
        return cast(Int32, self.tiles_m * self.tiles_n * self.batches * self.parts)

    def tile_at(self, number: Int32) -> Tile:
        """The place of tile `number`."""
        part = Int32(0)
        if self.parts > 1:
            part = number % self.parts
            number = number // self.parts
        batch = Int32(0)
        if not (isinstance(self.batches, int) and self.batches == 1):
            per_batch = self.tiles_m * self.tiles_n
            batch = number // per_batch
            number = number - batch * per_batch
        per_group = self.group * self.tiles_n
        group = number // per_group
        inside = number - group * per_group
        first_row = group * self.group
        rows = words.min(self.tiles_m - first_row, self.group)
        column = inside // rows
        return Tile(first_row + (inside - column * rows), column, batch, part)

    def k_range(self, tile: Tile, k_tiles: Int32) -> tuple[Int32, Int32]:
        """(first k tile, number of k tiles) of a piece of work: parts differ by one at most."""
        if self.parts == 1:
            return Int32(0), k_tiles
        first = k_tiles * tile.part // self.parts
        return first, k_tiles * (tile.part + 1) // self.parts - first
