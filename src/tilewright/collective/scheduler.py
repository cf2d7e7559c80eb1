"""Which output tile a persistent block works on next.

Tile numbers are walked in groups: `group` rows of tiles, column by column, then the next rows.
A wave of blocks then touches few rows of A and few columns of B, which stay in L2.
"""

from __future__ import annotations

from typing import cast

from tilewright.lang import words
from tilewright.lang.values import Int32


class RasterScheduler:
    """Maps a tile number to its place (tile row, tile column).

    `tiles_m` and `tiles_n` count the tiles along M and N; `group` is the number of tile rows that
    are walked together.
    """

    def __init__(self, tiles_m: Int32, tiles_n: Int32, group: int) -> None:
        self.tiles_m = tiles_m
        self.tiles_n = tiles_n
        self.group = group

    @property
    def num_tiles(self) -> Int32:
        return cast(Int32, self.tiles_m * self.tiles_n)

    def tile_at(self, number: Int32) -> tuple[Int32, Int32]:
        """(tile row, tile column) of tile `number`."""
        per_group = self.group * self.tiles_n
        group = number // per_group
        inside = number - group * per_group
        first_row = group * self.group
        rows = words.min(self.tiles_m - first_row, self.group)
        column = inside // rows
        return first_row + (inside - column * rows), column
