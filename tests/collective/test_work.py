"""Work lists: every k tile of every tile is multiplied once, and who waits for whom."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.collective.scheduler import RasterScheduler
from tilewright.collective.stream_k import StreamK, stream_blocks, streamed_tiles
from tilewright.collective.work import DataParallel, Piece, Share, SplitK
from tilewright.lang.values import Int32, static_number


def number(x: object) -> int:
    found = static_number(x)
    assert found is not None
    return int(found)


def numbers(work: Any, *turn: int) -> list[int]:
    """The numbers of a block, in the order of its loop."""
    return list(range(*(number(Int32(x)) for x in work.walk(*turn))))


def lists(
    kind: str, tiles: tuple[int, int], k_tiles: int, blocks: int, choice: int
) -> list[DataParallel | SplitK | StreamK]:
    """The work list of each block; `choice` is the number of parts, or of streamed waves."""
    raster = RasterScheduler(Int32(tiles[0]), Int32(tiles[1]), 3)
    k, count = Int32(k_tiles), Int32(blocks)
    if kind == "one_each":
        return [DataParallel(raster, k, Int32(b), None) for b in range(tiles[0] * tiles[1])]
    if kind == "one_each, split_k":
        pieces = range(tiles[0] * tiles[1] * choice)
        return [SplitK(raster, k, choice, Int32(b), None) for b in pieces]
    if kind == "split_k":
        return [SplitK(raster, k, choice, Int32(b), count) for b in range(blocks)]
    if kind == "stream_k":
        return [StreamK(raster, k, choice, Int32(b), count) for b in range(blocks)]
    return [DataParallel(raster, k, Int32(b), count) for b in range(blocks)]


KINDS = st.sampled_from(["data_parallel", "split_k", "stream_k"])
ONE_EACH = st.sampled_from(["one_each", "one_each, split_k"])
TILES = st.tuples(st.integers(1, 5), st.integers(1, 4))


@given(KINDS | ONE_EACH, TILES, st.integers(2, 9), st.integers(1, 12), st.integers(1, 2))
def test_every_k_tile_once(
    kind: str, tiles: tuple[int, int], k_tiles: int, blocks: int, choice: int
) -> None:
    seen: list[tuple[int, ...]] = []
    for work in lists(kind, tiles, k_tiles, blocks, choice):
        for i in numbers(work):
            piece = Piece(*map(number, work.at(Int32(i))))
            assert piece.k_count >= 1
            place = piece.m, piece.n, piece.batch
            assert place == tuple(map(number, work.raster.tile_at(Int32(piece.tile))))
            last = piece.k_first + piece.k_count
            seen += [(*place, k) for k in range(piece.k_first, last)]
    wanted = {
        (m, n, 0, k) for m in range(tiles[0]) for n in range(tiles[1]) for k in range(k_tiles)
    }
    assert len(seen) == len(wanted)
    assert set(seen) == wanted


@given(KINDS, TILES, st.integers(2, 9), st.integers(1, 12), st.integers(1, 2))
def test_two_consumers_know_what_the_other_one_multiplies(
    kind: str, tiles: tuple[int, int], k_tiles: int, blocks: int, choice: int
) -> None:
    for work in lists(kind, tiles, k_tiles, blocks, choice):
        everything = [number(work.at(Int32(i)).k_count) for i in numbers(work)]
        for turn in (0, 1):
            assert numbers(work, turn, 2) == numbers(work)[turn::2]
            if everything:
                assert number(Int32(work.skipped(turn))) == sum(everything[:turn])
            for at, i in enumerate(numbers(work)[:-1]):
                assert number(work.between(Int32(i))) == everything[at + 1]


@given(st.sampled_from(["split_k", "one_each, split_k", "stream_k"]), TILES, st.integers(2, 9),
       st.integers(1, 12), st.integers(1, 2))  # fmt: skip
def test_parts_of_a_tile_are_in_order_of_k(
    kind: str, tiles: tuple[int, int], k_tiles: int, blocks: int, choice: int
) -> None:
    parts: dict[int, list[tuple[Share, Piece]]] = {}
    for work in lists(kind, tiles, k_tiles, blocks, choice):
        for i in numbers(work):
            piece = work.at(Int32(i))
            if number(piece.k_count) < k_tiles:
                share = Share(*map(number, map(Int32, work.share(Int32(i), piece)[:4])))
                parts.setdefault(share.slot, []).append((share, Piece(*map(number, piece))))
    for slot, found in parts.items():
        found.sort()
        assert [share.part for share, _ in found] == list(range(len(found)))
        assert all(share.parts == len(found) for share, _ in found)
        assert len({share.first for share, _ in found}) == 1
        assert all(piece.tile == slot for _, piece in found)
        ends = [0]
        for _, piece in found:
            assert piece.k_first == ends[-1]
            ends.append(piece.k_first + piece.k_count)
        assert ends[-1] == k_tiles


@given(TILES, st.integers(1, 9), st.integers(1, 12), st.integers(1, 2))
def test_who_waits_waits_for_earlier_blocks_which_never_wait_before(
    tiles: tuple[int, int], k_tiles: int, blocks: int, waves: int
) -> None:
    """So that no order of blocks is a deadlock, if all are resident, or start in order."""
    owner: dict[int, int] = {}
    others: dict[int, list[int]] = {}
    places: list[int] = []
    for block, work in enumerate(lists("stream_k", tiles, k_tiles, blocks, waves)):
        for at, i in enumerate(numbers(work)):
            piece = work.at(Int32(i))
            if number(piece.k_count) == k_tiles:
                continue
            share = Share(*map(number, work.share(Int32(i), piece)[:4]))
            if share.part:
                assert at == 0, "a block delivers before anything else"
                others.setdefault(share.slot, []).append(block)
                places.append(share.first + share.part)
            else:
                owner[share.slot] = block
    assert set(owner) == set(others)
    assert all(max(others[slot]) < block for slot, block in owner.items())
    assert len(set(places)) == len(places)
    assert all(0 <= place < blocks - 1 for place in places)


@pytest.mark.parametrize(("tiles", "blocks", "waves"), [(300, 132, 1), (300, 132, 2), (20, 7, 2)])
def test_shares_differ_by_one_k_tile_at_most(tiles: int, blocks: int, waves: int) -> None:
    work = lists("stream_k", (tiles, 1), 13, blocks, waves)
    totals = [sum(number(w.at(Int32(i)).k_count) for i in numbers(w)) for w in work]
    assert max(totals) - min(totals) <= 1
    assert sum(totals) == tiles * 13
    assert streamed_tiles(tiles, blocks, waves) == tiles % blocks + (waves - 1) * blocks


def test_places_are_less_than_twice_the_output() -> None:
    for tiles in range(1, 300):
        blocks = stream_blocks(tiles, 64, 132, in_place=False)
        assert blocks - 1 < 2 * tiles
        assert streamed_tiles(tiles, blocks, 2) <= tiles


@pytest.mark.parametrize(("k_tiles", "parts"), [(7, 3), (64, 64), (9, 4), (5, 1)])
def test_parts_of_a_split_differ_by_one_k_tile_at_most(k_tiles: int, parts: int) -> None:
    work = lists("split_k", (1, 1), k_tiles, parts, parts)
    counts = [number(w.at(Int32(i)).k_count) for w in work for i in numbers(w)]
    assert sum(counts) == k_tiles
    assert max(counts) - min(counts) <= 1
    assert min(counts) >= 1
