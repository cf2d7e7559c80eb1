"""Products: the block first, copies disjoint, in the tiler's order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from layout_strategies import injective_layouts, layouts, values

from tilewright.errors import LayoutError
from tilewright.layout import (
    ComposedLayout,
    Layout,
    Swizzle,
    blocked_product,
    compatible,
    flat_product,
    logical_product,
    raked_product,
    size,
    tile_to_shape,
    tiled_product,
    zipped_product,
)


@settings(max_examples=300, deadline=None)
@given(injective_layouts(max_size=48), layouts(max_size=24))
def test_product_laws(block: Layout, tiler: Layout) -> None:
    try:
        r = logical_product(block, tiler)
    except LayoutError:
        return
    assert r[0] == block  # law 1
    assert compatible(tiler.shape, r[1].shape)  # law 2
    if len(set(values(tiler))) == size(tiler):  # law 3
        assert len(set(values(r))) == size(r)
    for spelled in (zipped_product, tiled_product, flat_product):
        assert values(spelled(block, tiler)) == values(r)


@settings(max_examples=200, deadline=None)
@given(injective_layouts(max_size=48), injective_layouts(max_size=12))
def test_blocked_and_raked_are_the_same_set(block: Layout, tiler: Layout) -> None:
    try:
        blocked, raked = blocked_product(block, tiler), raked_product(block, tiler)
    except LayoutError:
        return
    assert sorted(values(blocked)) == sorted(values(raked))
    assert sorted(values(blocked)) == sorted(values(logical_product(block, tiler)))


def test_by_mode_product() -> None:
    block = Layout((2, 5), (5, 1))
    assert str(logical_product(block, (Layout(3, 5), Layout(4, 6)))) == (
        "((2,3),(5,4)):((5,10),(1,30))"
    )
    assert logical_product(block, None) is block


def test_overlapping_copies_are_refused() -> None:
    with pytest.raises(LayoutError, match=r"product: copies of \(4,2\):\(6,1\) cannot be placed"):
        raked_product(Layout((4, 2), (6, 1)), Layout((2, 2)))
    with pytest.raises(LayoutError, match="is not injective"):
        logical_product(Layout((4, 4), (1, 2)), 3)
    with pytest.raises(LayoutError, match="expected a layout as tiler, got tuple"):
        blocked_product(Layout((2, 2)), (2, 2))  # type: ignore[arg-type]


def test_tile_to_shape_covers_and_orders() -> None:
    atom = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    r = tile_to_shape(atom, (128, 64, 4), (0, 1, 2))
    assert str(r) == "Sw<3,3,3> o 0 o ((8,16),(64,1),(1,4)):((64,512),(1,0),(0,8192))"
    assert sorted(r(i) for i in range(size(r))) == list(range(128 * 64 * 4))
    with pytest.raises(LayoutError, match="has 2 modes, target 8 only 1"):
        tile_to_shape(Layout((2, 2)), 8)
