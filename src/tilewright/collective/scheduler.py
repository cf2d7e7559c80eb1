"""Where the output tile of a number lies.

Tile numbers are walked in groups: `group` rows of tiles, column by column, then the next rows (or
`group` columns, row by row, where the order goes along N).  A wave of blocks then touches few rows
of A and few columns of B, which stay in L2.  Batches follow one after another, so that any number
of them fits one grid.  Which block takes which numbers is said in `work.py` and `stream_k.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from tilewright.lang import words
from tilewright.lang.values import Int32


class Tile(NamedTuple):
    """A place in the output: tile row, tile column, batch."""

    m: Int32
    n: Int32
    batch: Int32


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

    `tiles_m` and `tiles_n` count the tiles along M and N.  Along "M", `group` is the number of tile
    rows that are walked together, column by column; along "N", that of tile columns, row by row.
    """

    def __init__(
        self,
        tiles_m: Int32,
        tiles_n: Int32,
        group: int,
        batches: Int32 | int = 1,
        along: str = "M",
    ) -> None:
        self.tiles_m = tiles_m
        self.tiles_n = tiles_n
        self.group = group
        self.batches = batches
        self.along = along

    @property
    def num_tiles(self) -> Int32:
        return cast(Int32, self.tiles_m * self.tiles_n * self.batches)

    def tile_at(self, number: Int32) -> Tile:
        """The place of tile `number`."""
        fast, slow = self.tiles_m, self.tiles_n
        if self.along == "N":
            fast, slow = slow, fast
        batch = Int32(0)
        if not (isinstance(self.batches, int) and self.batches == 1):
            per_batch = self.tiles_m * self.tiles_n
            batch = number // per_batch
            number = number - batch * per_batch
        per_group = self.group * slow
        group = number // per_group
        inside = number - group * per_group
        first_row = group * self.group
        rows = words.min(fast - first_row, self.group)
        column = inside // rows
        place = Tile(first_row + (inside - column * rows), column, batch)
        return place if self.along == "M" else Tile(place.n, place.m, batch)
