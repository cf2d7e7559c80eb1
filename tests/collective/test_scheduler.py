"""Every tile is walked once, batches included."""

from __future__ import annotations

import pytest

from tilewright.collective.scheduler import RasterScheduler
from tilewright.lang.values import Int32, static_number


def number(x: object) -> int:
    found = static_number(x)
    assert found is not None
    return int(found)


@pytest.mark.parametrize("along", ["M", "N"])
@pytest.mark.parametrize("group", [1, 3, 8])
@pytest.mark.parametrize(("tiles", "batches"), [((5, 4), 1), ((2, 3), 3)])
def test_every_tile_once(tiles: tuple[int, int], batches: int, group: int, along: str) -> None:
    scheduler = RasterScheduler(Int32(tiles[0]), Int32(tiles[1]), group, batches, along)
    count = number(scheduler.num_tiles)
    places = [tuple(map(number, scheduler.tile_at(Int32(i)))) for i in range(count)]
    wanted = {(m, n, b) for m in range(tiles[0]) for n in range(tiles[1]) for b in range(batches)}
    assert len(places) == len(wanted)
    assert set(places) == wanted


def test_a_group_is_walked_column_by_column() -> None:
    scheduler = RasterScheduler(Int32(3), Int32(2), 2)
    places = [tuple(map(number, scheduler.tile_at(Int32(i))))[:2] for i in range(6)]
    assert places == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


def test_along_n_a_group_is_walked_row_by_row() -> None:
    scheduler = RasterScheduler(Int32(2), Int32(3), 2, along="N")
    places = [tuple(map(number, scheduler.tile_at(Int32(i))))[:2] for i in range(6)]
    assert places == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]


def test_more_batches_than_a_grid_has_rows() -> None:
    """CASES A21: batches are folded into the tile number."""
    scheduler = RasterScheduler(Int32(1), Int32(1), 8, 100_000)
    assert number(scheduler.num_tiles) == 100_000
    assert number(scheduler.tile_at(Int32(65_536)).batch) == 65_536
