"""Divides keep every offset; padding only where one stride walks the mode; partitions by offset."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import extent, layouts, values

from tilewright.errors import LayoutError
from tilewright.layout import (
    ComposedLayout,
    Layout,
    Swizzle,
    ceil_div,
    composition,
    cosize,
    domain_distribute,
    evenly_divides,
    flat_divide,
    inner_partition,
    local_partition,
    local_tile,
    logical_divide,
    make_identity_layout,
    outer_partition,
    size,
    tiled_divide,
    zipped_divide,
)


@settings(max_examples=300, deadline=None)
@given(layouts(), layouts(max_size=32))
def test_divide_keeps_the_multiset_of_offsets(a: Layout, tile: Layout) -> None:
    try:
        r = logical_divide(a, tile)
    except LayoutError:
        return
    assert values(r[0]) == values(composition(a, tile))
    covers = size(r) == size(a) and cosize(tile) <= size(a)
    if covers and len(set(values(tile))) == size(tile):
        assert sorted(values(r)) == sorted(values(a))


@settings(max_examples=200, deadline=None)
@given(layouts(), st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=3))
def test_four_spellings_are_one_function(a: Layout, tile: list[int]) -> None:
    tiler = tuple(tile[: len(a)])
    try:
        zipped = zipped_divide(a, tiler)
    except LayoutError:
        return
    for other in (tiled_divide(a, tiler), flat_divide(a, tiler)):
        assert values(other) == values(zipped)
    assert sorted(values(logical_divide(a, tiler))) == sorted(values(zipped))
    assert len(tiled_divide(a, tiler)) == 1 + len(zipped[1])


def test_padding_is_counted_up_in_the_divided_mode() -> None:
    assert str(zipped_divide(Layout((100, 64), (64, 1)), (32, 64))) == (
        "((32,64),(4,1)):((64,1),(2048,64))"
    )
    assert size(zipped_divide(Layout(48), 32)) == 64


def test_padding_inside_a_mode_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"divide: \(6,4\):\(4,0\) cannot be cut into tiles 4:1"):
        logical_divide(Layout((6, 4), (4, 0)), 4)


def test_tiles_that_would_lose_elements_are_refused() -> None:
    with pytest.raises(LayoutError, match="cannot fill 8:1: stride 3 is not a multiple of 2"):
        logical_divide(Layout(8), Layout((2, 2), (1, 3)))


def test_tilers_that_do_not_fit() -> None:
    with pytest.raises(LayoutError, match=r"tiler \(2,2,2\) has 3 modes, the layout only 2"):
        zipped_divide(Layout((4, 4)), (2, 2, 2))
    with pytest.raises(LayoutError, match="None needs a scalar mode, or a pair"):
        zipped_divide(Layout(((2, 2, 2), 4)), (None, 4))


def test_none_in_a_tiler() -> None:
    a = Layout((16, 8), (8, 1))
    assert str(zipped_divide(a, (4, None))) == "((4,8),(4,1)):((8,1),(32,0))"
    assert str(zipped_divide(Layout((9, (4, 8)), (59, (13, 1))), (3, None))) == (
        "((3,4),(3,8)):((59,13),(177,1))"
    )
    assert logical_divide(a, None) is a
    assert str(zipped_divide(a, ())) == "((),(16,8)):((),(8,1))"


def test_nested_tiler_keeps_its_nesting() -> None:
    a = Layout(((8, 4), 16))
    assert str(zipped_divide(a, ((2, 2), 4))) == ("(((2,2),4),((4,2),4)):(((1,8),32),((2,16),128))")


@pytest.mark.parametrize("coord", [(0, 0), (1, None), (None, 2), 5, (2,)])
def test_local_tile_addresses(coord: object) -> None:
    a = Layout((128, 64), (64, 1))
    tile, offset = local_tile(a, (32, 16), coord)
    m = coord[0] if isinstance(coord, tuple) else coord % 4  # type: ignore[operator]
    n = (coord[1] if len(coord) > 1 else None) if isinstance(coord, tuple) else coord // 4  # type: ignore[operator]
    open_modes = tuple(c for c in (m, n) if c is None)
    for i in (0, 7, 31):
        for j in (0, 15):
            at = offset + tile((i, j, *(1 for _ in open_modes)))
            full = a((i + 32 * (1 if m is None else m), j + 16 * (1 if n is None else n)))
            assert at == full


def test_local_tile_with_projection() -> None:
    a = Layout((256, 64), (64, 1))
    tile, offset = local_tile(a, (128, 64, 32), (1, 3, None), proj=(1, None, 1))
    assert (str(tile), offset) == ("(128,32,2):(64,1,32)", 8192)
    with pytest.raises(LayoutError, match="has 3 modes, expected at most 2"):
        local_tile(a, (128, 32), (0, 0, 0))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 31), st.sampled_from([Layout((8, 4), (1, 8)), Layout((8, 4), (4, 1))]))
def test_local_partition_addresses(index: int, threads: Layout) -> None:
    a = Layout((128, 64), (64, 1))
    part, offset = local_partition(a, threads, index)
    t = threads.get_flat_coord(index)
    for i, j in ((0, 0), (3, 5), (15, 15)):
        assert offset + part((i, j)) == a((t[0] + 8 * i, t[1] + 4 * j))


def test_partitions_together_cover_everything() -> None:
    a = Layout((16, 8), (8, 1))
    seen = []
    for index in range(8):
        part, offset = local_partition(a, Layout((4, 2)), index)
        seen += [offset + x for x in values(part)]
    assert sorted(seen) == sorted(values(a))


def test_partitions_of_a_swizzled_layout_take_the_offset_in() -> None:
    a = ComposedLayout(Swizzle(3, 0, 3), 0, Layout((8, 8), (8, 1)))
    tile, offset = inner_partition(a, (4, 4), (1, 1))
    assert offset == 0
    assert [tile((i, j)) for i in range(4) for j in range(4)] == [
        a((4 + i, 4 + j)) for i in range(4) for j in range(4)
    ]
    part, offset = outer_partition(a, (4, 4), (1, 3))
    assert offset == 0
    assert [part((i, j)) for i in range(2) for j in range(2)] == [
        a((1 + 4 * i, 3 + 4 * j)) for i in range(2) for j in range(2)
    ]


def test_identity_tiles_give_global_coordinates() -> None:
    tile, offset = local_tile(make_identity_layout((256, 64)), (128, 32), (1, None))
    assert str(tile) == "(128,32,2):(1@0,1@1,32@1)"
    assert offset == (128, 0) or offset == (128,)


def test_extent_of_every_divide_is_that_of_the_source() -> None:
    for tile in (1, 2, 3, 4, 6, 12):
        a = Layout((12, 5), (5, 1))
        assert extent(logical_divide(a, (tile,))) == 60


def test_ceil_div_and_evenly_divides() -> None:
    assert ceil_div((8, 16), Layout(((4, 8),), ((1, 4),))) == 4
    assert evenly_divides((32, 64), (Layout(8, 2), 32))
    assert not evenly_divides((32, 64), (Layout(8, 3), 32))
    with pytest.raises(LayoutError, match="pieces of size 0"):
        ceil_div(7, 0)
    with pytest.raises(LayoutError, match=r"\(2,4,2\) has more modes than \(4,8\)"):
        ceil_div((4, 8), (2, 4, 2))


def test_domain_distribute() -> None:
    assert str(domain_distribute(((64, 3), (8, 8)), 128)) == "(64,2):(1,192)"
