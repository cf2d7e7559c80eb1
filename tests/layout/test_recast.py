"""Recasts: the same bytes, counted in other elements."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import flat, layouts, values

from tilewright.errors import LayoutError
from tilewright.layout import (
    ComposedLayout,
    E,
    Layout,
    Swizzle,
    downcast,
    max_alignment,
    recast_layout,
    upcast,
)


@settings(max_examples=200, deadline=None)
@given(layouts(max_size=128), st.sampled_from([2, 4, 8]))
def test_upcast_counts_whole_elements(a: Layout, n: int) -> None:
    if max_alignment(a) % n:
        return
    try:
        r = upcast(a, n)
    except LayoutError:
        return
    assert {x // n for x in values(a)} == set(values(r))


@settings(max_examples=200, deadline=None)
@given(layouts(max_size=64), st.sampled_from([2, 4]))
def test_up_undoes_down(a: Layout, n: int) -> None:
    if 1 not in flat(a.stride):
        return
    assert values(upcast(downcast(a, n), n)) == values(a)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 3), st.integers(3, 5), st.sampled_from([3, 4, -3]), st.sampled_from([2, 8]))
def test_swizzle_upcast_is_the_same_permutation(b: int, m: int, s: int, n: int) -> None:
    sw = Swizzle(b, m, s)
    assert all(upcast(sw, n)(x) == sw(x * n) // n for x in range(512))
    assert downcast(upcast(sw, n), n) == sw


def test_mixed_ratio_goes_down_then_up() -> None:
    assert str(recast_layout(24, 16, Layout(48))) == "32:1"


def test_refusals() -> None:
    with pytest.raises(LayoutError, match=r"stride 3 of .* and 2 do not divide one another"):
        upcast(Layout((4, 4), (1, 3)), 2)
    with pytest.raises(LayoutError, match="does not fill elements of 4"):
        upcast(Layout((6, 4), (1, 8)), 4)
    with pytest.raises(LayoutError, match="coordinate strides"):
        recast_layout(32, 8, Layout((2, 3), (E(0), E(1))))
    with pytest.raises(LayoutError, match="moves blocks of 4 elements, fewer than the 8"):
        upcast(Swizzle(3, 2, 3), 8)
    with pytest.raises(LayoutError, match=r"offset 3 of .* is not a multiple of 2"):
        upcast(ComposedLayout(Swizzle(1, 1, 3), 3, Layout(64)), 2)
    with pytest.raises(LayoutError, match="expected a power of two, got 3"):
        upcast(Swizzle(1, 4, 3), 3)
    with pytest.raises(LayoutError, match="has no mode of stride 1"):
        downcast(Layout(4, 2), 2)
