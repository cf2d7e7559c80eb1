"""Composition: exact on the whole domain of B, or refused with both layouts and the mode named."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from layout_strategies import extent, layouts, value, values

from tilewright.errors import LayoutError
from tilewright.layout import (
    ComposedLayout,
    E,
    Layout,
    Swizzle,
    compatible,
    composition,
    make_identity_layout,
    size,
)


@settings(max_examples=400, deadline=None)
@given(layouts(), layouts(max_size=128))
def test_exact_or_refused(a: Layout, b: Layout) -> None:
    try:
        r = composition(a, b)
    except LayoutError:
        return
    assert compatible(b.shape, r.shape)
    assert values(r) == [value(a, value(b, i)) for i in range(extent(b))]


@settings(max_examples=200, deadline=None)
@given(layouts())
def test_identity_on_either_side(a: Layout) -> None:
    assert values(composition(a, Layout(a.shape))) == values(a)
    assert values(composition(Layout(4096), a)) == values(a)


@settings(max_examples=200, deadline=None)
@given(layouts(max_size=64))
def test_identity_tensor_composes_to_the_layout(a: Layout) -> None:
    assert values(composition(a, make_identity_layout(a.shape))) == values(a)


def test_by_mode_tiler() -> None:
    a = Layout((9, (4, 8)), (59, (13, 1)))
    assert str(composition(a, (Layout(3, 3), Layout((2, 4), (1, 8))))) == "(3,(2,4)):(177,(13,2))"
    assert str(composition(a, (3, 8))) == "(3,(4,2)):(59,(13,1))"
    assert str(composition(a, (3,))) == "(3,):(59,)"
    assert composition(a, None) is a
    assert str(composition(a, (None, 4))) == "(9,4):(59,13)"


def test_basis_strides_pick_modes() -> None:
    assert str(composition(Layout((8, 6), (6, 1)), Layout((2, 3), (2 * E(1), E(0))))) == (
        "(2,3):(2,6)"
    )
    a = Layout((4, (2, 3)), (6, (3, 1)))
    assert str(composition(a, Layout((2, 4), (E(1, 1), E(0))))) == "(2,4):(1,6)"


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ((8, 1), (4, E(0)), None),
        (((4, 6, 8), (2, 3, 5)), (6, 3), "6:3 of B does not walk mode 0 of A evenly"),
        (((4, 8), (2, 1)), (33, 5), "33:5 of B does not walk mode 0 of A evenly"),
        (((6, 4), (4, 1)), ((2, 4), (5, 1)), "carry across mode 0 of A (size 6): A(B(3)) = 1"),
        (((4, 4), (1, 8)), ((2, 2), (2, 2)), "modes of B carry across mode 0 of A"),
        (((4, 4), (1, 8)), ((2, 2), (E(0), 1)), "mixes offsets"),
        ((((4, 4), 4), ((1, 8), 32)), ((2, 2), (E(0), E(0, 1))), "contain one another"),
    ],
)
def test_refusals_name_what_failed(a: object, b: object, text: str | None) -> None:
    left, right = Layout(*a), Layout(*b)  # type: ignore[misc]
    if text is None:
        assert str(composition(left, right)) == "4:1"
        return
    with pytest.raises(LayoutError) as caught:
        composition(left, right)
    assert text in str(caught.value)
    assert f"A = {left}" in str(caught.value)
    assert f"B = {right}" in str(caught.value)


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        # Two digits step at once.
        (((2, 8, 6), (1, 12, 2)), (6, 3), "(2,3):(13,36)"),
        # 9 % 5 != 0, but the copies of the first two steps fit below 9.
        (((9, 8), (1, 16)), (8, 5), "(2,4):(5,17)"),
        (((9, 1 << 40), (1, 16)), (8, 5), "(2,4):(5,17)"),
        # The same through an axis of coordinates.
        (((4, (2, 8, 6)), (100, (1, 12, 2))), (6, 3 * E(1)), "(2,3):(13,36)"),
        # Opposite directions that never meet.
        (((8, 8), (1, 16)), ((2, 2), (3, -1)), "(2,2):(3,-1)"),
        # Two overflows that cancel: 2*1 - 2 and 6 - 2*... leave equal steps.
        (((2, 2, 4), (1, 3, 5)), ((2, 2), (1, 3)), "(2,2):(1,4)"),
        # Size 1 and stride 0 on either side.
        (((4, 1, 8), (0, 7, 1)), ((4, 8), (1, 4)), "(4,8):(0,1)"),
        (((4, 1), (1, 42)), ((1, 12), (5, 1)), "(1,(4,3)):(0,(1,42))"),
        (((), ()), ((2, 3), (1, 2)), "(2,3):(0,0)"),
    ],
)
def test_layouts_whose_sizes_do_not_divide(a: object, b: object, want: str) -> None:
    left, right = Layout(*a), Layout(*b)  # type: ignore[misc]
    r = composition(left, right)
    assert str(r) == want
    if right.is_static and "@" not in str(right):
        assert all(r(i) == left(right(i)) for i in range(size(right)))


def test_the_decision_does_not_depend_on_the_size() -> None:
    """What enumeration decides for small sizes, the steps decide for any."""
    small, large = Layout((2, 8, 6), (1, 12, 2)), Layout((2, 8 << 20, 6), (1, 12, 2))
    assert str(composition(small, Layout(6, 3))) == str(composition(large, Layout(6, 3)))
    assert str(composition(large, Layout((2, 1 << 20), (3, 6)))) == "(2,1048576):(13,36)"
    with pytest.raises(LayoutError, match="no carry between the modes can be excluded"):
        composition(Layout((1 << 20, 8), (1, 1 << 21)), Layout((1 << 20, 2), (1, 1)))


def test_wrong_operands_are_named() -> None:
    with pytest.raises(LayoutError, match="expected a layout on the left, got int"):
        composition(4, Layout(4))
    with pytest.raises(LayoutError, match="tiler of 2 modes for a layout of 1"):
        composition(Layout((20,), (2,)), (5, 4))
    with pytest.raises(LayoutError, match="expected an int or a run-time integer, got float"):
        composition(Layout(8), 2.0)


def test_negative_strides_are_exact() -> None:
    a = Layout((1, (2, 4)), (0, (-1, 512)))
    r = composition(a, Layout(4, -1))
    assert str(r) == "(2,2):(1,-512)"
    assert [r(i) for i in range(4)] == [a(-i) for i in range(4)]
    with pytest.raises(LayoutError, match="carry"):
        composition(Layout((4, 4), (1, 8)), Layout((3, 3), (4, -1)))


def test_swizzle_on_the_left_is_a_composed_layout() -> None:
    sw, a = Swizzle(2, 3, 3), Layout((8, 32), (32, 1))
    r = composition(sw, a)
    assert isinstance(r, ComposedLayout)
    assert [r(i) for i in range(256)] == [sw(a(i)) for i in range(256)]
    tile = composition(r, Layout((4, 4), (1, 64)))
    assert [tile(i) for i in range(16)] == [sw(a(Layout((4, 4), (1, 64))(i))) for i in range(16)]


@pytest.mark.parametrize("a", [Layout((8, 8), (8, 1)), Layout((8, 4, 2), (1, 16, 8))])
@pytest.mark.parametrize("sw", [Swizzle(2, 0, -3), Swizzle(2, 0, 3)])
def test_swizzle_on_the_right_moves_through(a: Layout, sw: Swizzle) -> None:
    r = composition(a, sw)
    assert [r(i) for i in range(size(a))] == [a(sw(i)) for i in range(size(a))]


def test_swizzle_on_the_right_is_refused_where_bits_do_not_move_as_bits() -> None:
    with pytest.raises(LayoutError, match="does not move the bits of Sw<2,0,3> as bits"):
        composition(Layout((6, 8), (8, 1)), Swizzle(2, 0, 3))
    with pytest.raises(LayoutError, match="are not runs of equally many bits"):
        composition(Layout((2, 2, 16), (1, 4, 8)), Swizzle(2, 0, 3))


def test_swizzles_merge() -> None:
    a, b = Swizzle(1, 0, 3), Swizzle(1, 1, 3)
    merged = composition(a, b)
    assert merged == Swizzle(2, 0, 3)
    assert composition(a, a) == Swizzle(0, 0, 3)
    with pytest.raises(LayoutError, match="is not one swizzle"):
        composition(Swizzle(1, 0, 1), Swizzle(1, 1, 1))


def test_layout_before_composed_layout() -> None:
    a, b = Layout((8, 8), (8, 1)), ComposedLayout(Swizzle(2, 0, -3), 0, Layout((8, 8), (8, 1)))
    r = composition(a, b)
    assert [r(i) for i in range(64)] == [a(b(i)) for i in range(64)]
    shifted = ComposedLayout(Swizzle(2, 0, -3), 8, Layout((4, 8), (8, 1)))
    r = composition(a, shifted)
    assert [r(i) for i in range(32)] == [a(shifted(i)) for i in range(32)]
    inner = ComposedLayout(Layout((4, 4), (4, 1)), 4, Layout((4, 2), (1, 4)))
    r = composition(Layout(16, 3), inner)
    assert [r(i) for i in range(8)] == [3 * inner(i) for i in range(8)]
