"""Every tile is walked once, batches and parts of K included."""

from __future__ import annotations

import pytest

from tilewright.collective.scheduler import RasterScheduler
from tilewright.lang.values import Int32, static_number


def number(x: object) -> int:
    found = static_number(x)
    assert found is not None
    return int(found)


@pytest.mark.parametrize("group", [1, 3, 8])
@pytest.mark.parametrize(("tiles", "batches", "parts"), [((5, 4), 1, 1), ((2, 3), 3, 2)])
def test_every_tile_once(tiles: tuple[int, int], batches: int, parts: int, group: int) -> None:
    scheduler = RasterScheduler(Int32(tiles[0]), Int32(tiles[1]), group, batches, parts)
    count = number(scheduler.num_tiles)
    places = [tuple(map(number, scheduler.tile_at(Int32(i)))) for i in range(count)]
    wanted = {
        (m, n, b, p)
        for m in range(tiles[0])
        for n in range(tiles[1])
        for b in range(batches)
        for p in range(parts)
    }
    assert len(places) == len(wanted)
    assert set(places) == wanted


def test_a_group_is_walked_column_by_column() -> None:
    scheduler = RasterScheduler(Int32(3), Int32(2), 2)
    places = [tuple(map(number, scheduler.tile_at(Int32(i))))[:2] for i in range(6)]
    assert places == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


def test_more_batches_than_a_grid_has_rows() -> None:
    """CASES A21: batches are folded into the tile number."""
    scheduler = RasterScheduler(Int32(1), Int32(1), 8, 100_000)
    assert number(scheduler.num_tiles) == 100_000
    assert number(scheduler.tile_at(Int32(65_536)).batch) == 65_536


@pytest.mark.parametrize(("k_tiles", "parts"), [(7, 3), (64, 64), (9, 4), (5, 1)])
def test_parts_of_k_follow_each_other(k_tiles: int, parts: int) -> None:
    scheduler = RasterScheduler(Int32(1), Int32(1), 8, 1, parts)
    tiles = [scheduler.tile_at(Int32(i)) for i in range(parts)]
    ranges = [tuple(map(number, scheduler.k_range(t, Int32(k_tiles)))) for t in tiles]
    assert [first for first, _ in ranges] == [sum(n for _, n in ranges[:i]) for i in range(parts)]
    counts = [count for _, count in ranges]
    assert sum(counts) == k_tiles
    assert max(counts) - min(counts) <= 1
    assert min(counts) >= 1
