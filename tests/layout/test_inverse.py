"""Complement, inverses, kernel: judged by their laws over every coordinate."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import extent, injective_layouts, layouts, values

from tilewright.errors import LayoutError
from tilewright.layout import (
    ComposedLayout,
    E,
    Layout,
    Swizzle,
    complement,
    cosize,
    left_inverse,
    make_layout,
    max_alignment,
    max_common_layout,
    max_common_vector,
    nullspace,
    right_inverse,
    size,
    upcast,
)


@settings(max_examples=300, deadline=None)
@given(injective_layouts(max_size=64), st.integers(1, 300))
def test_complement_laws(a: Layout, bound: int) -> None:
    r = complement(a, bound)
    free, image = values(r), set(values(a))
    assert all(x < y for x, y in pairwise(free))  # law 1
    assert not image & set(free[1:])  # law 2
    assert cosize(make_layout(a, r)) >= bound  # law 3
    end = _end(a)
    assert cosize(r) <= -(-bound // end) * end  # law 4


@settings(max_examples=200, deadline=None)
@given(injective_layouts(max_size=64), st.integers(1, 4))
def test_complement_hits_every_offset_once(a: Layout, times: int) -> None:
    """Where the strides nest and the pattern fills the bound, block + complement is a bijection."""
    bound = _end(a) * times
    sums = [x + y for x in values(a) for y in values(complement(a, bound))]
    assert sorted(sums) == list(range(bound))


def _end(a: Layout) -> int:
    pairs = zip(_flat(a.shape), _flat(a.stride), strict=True)
    return max((s * d for s, d in pairs if s > 1), default=1)


def _flat(t: object) -> list[int]:
    return [y for x in t for y in _flat(x)] if isinstance(t, tuple) else [t]  # type: ignore[list-item]


def test_complement_refusals() -> None:
    with pytest.raises(LayoutError, match=r"\(4,4\):\(1,2\) is not injective: stride 2 .* below 4"):
        complement(Layout((4, 4), (1, 2)), 32)
    with pytest.raises(LayoutError, match="a cotarget is only defined for integer strides"):
        complement(Layout((2, 3), (E(0), E(1))), (4, 6))
    with pytest.raises(LayoutError, match="has a negative stride: stride -1"):
        complement(Layout((4,), (-1,)), 8)


def test_complement_of_a_composed_layout_looks_at_the_outer() -> None:
    r = complement(ComposedLayout(Swizzle(1, 0, 3), 0, Layout(4, 2)), 16)
    assert str(r) == "(2,2):(1,8)"


@settings(max_examples=300, deadline=None)
@given(layouts())
def test_right_inverse_law(a: Layout) -> None:
    r = right_inverse(a)
    assert all(a(r(i)) == i for i in range(extent(r)))


@settings(max_examples=300, deadline=None)
@given(layouts(max_size=128))
def test_left_inverse_law(a: Layout) -> None:
    try:
        r = left_inverse(a)
    except LayoutError:
        return
    image = values(a)
    assert all(a(r(x)) == x for x in image)
    if len(set(image)) == len(image):
        assert [r(x) for x in image] == list(range(len(image)))


@settings(max_examples=200, deadline=None)
@given(injective_layouts())
def test_left_inverse_never_refuses_nested_strides(a: Layout) -> None:
    r = left_inverse(a)
    assert [r(x) for x in values(a)] == list(range(extent(a)))


def test_inverses_of_swizzled_layouts() -> None:
    for a in (Layout((8, 64), (64, 1)), Layout((64, 8), (1, 64)), Layout((8, 8), (8, 1))):
        sw = ComposedLayout(Swizzle(3, 0, 3), 0, a)
        for inverse in (right_inverse(sw), left_inverse(sw)):
            assert all(sw(inverse(i)) == i for i in range(size(a)))
    both = ComposedLayout(Layout((4, 4), (4, 1)), 0, Layout((4, 4), (4, 1)))
    assert all(both(right_inverse(both)(i)) == i for i in range(16))


def test_inverses_of_coordinate_layouts() -> None:
    a = Layout(((4, 8), (2, 2)), ((2 * E(1), E(0)), (E(1), 8 * E(0))))
    r = right_inverse(a)
    assert str(r) == "((8,2),(2,4)):((4,64),(32,1))"
    assert all(a(r((m, n))) == (m, n) for m in range(16) for n in range(8))


def test_inverse_refusals() -> None:
    with pytest.raises(LayoutError, match="right_inverse: expected a layout, got int"):
        right_inverse(1)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match=r"left_inverse: stride 3 of .* is not a multiple of"):
        left_inverse(Layout((2, 2), (2, 3)))
    with pytest.raises(LayoutError, match="reaches digit 2 of stride 4, whose extent is 2"):
        left_inverse(Layout((6, 2, 3), (1, 4, 16)))
    with pytest.raises(LayoutError, match="mixes positive and negative"):
        left_inverse(Layout((2, 2), (-1, 4)))
    with pytest.raises(LayoutError, match="has offset 3, expected 0"):
        right_inverse(ComposedLayout(Swizzle(1, 0, 3), 3, Layout(16)))
    with pytest.raises(LayoutError, match="name axis"):
        right_inverse(Layout((2, 3), (E(0), E(0, 1))))


def test_negative_stride_has_a_left_inverse() -> None:
    a = Layout((2, 2), (-4, -1))
    assert all(left_inverse(a)(a(i)) == i for i in range(4))


@settings(max_examples=200, deadline=None)
@given(layouts())
def test_nullspace_law(a: Layout) -> None:
    r = nullspace(a)
    assert all(x == 0 for x in (a(r(i)) for i in range(extent(r))))
    zeros = 1
    for s, d in zip(_flat(a.shape), _flat(a.stride), strict=True):
        zeros *= s if d == 0 else 1
    assert extent(r) == zeros


@settings(max_examples=200, deadline=None)
@given(layouts(), layouts())
def test_max_common_layout_law(a: Layout, b: Layout) -> None:
    r = max_common_layout(a, b)
    assert all(a(r(i)) == b(r(i)) == i for i in range(extent(r)))
    assert max_common_vector(a, b) == extent(r)


def test_max_common_vector_of_swizzled_layouts() -> None:
    smem = Layout((8, 64), (64, 1))
    fragment = Layout((8, 64), (64, 1))
    for base, offset, want in ((3, 0, 8), (4, 0, 16), (3, 4, 4), (3, 64, 8)):
        swizzled = ComposedLayout(Swizzle(3, base, 3), offset, smem)
        assert max_common_vector(swizzled, fragment) == want
        assert max_common_vector(fragment, swizzled) == want
        run = max_common_layout(swizzled, fragment)
        moved = [swizzled(run(i)) for i in range(want)]
        assert moved == list(range(moved[0], moved[0] + want))
    assert max_common_vector(ComposedLayout(Layout(512), 0, smem), fragment) == 1


@settings(max_examples=200, deadline=None)
@given(layouts())
def test_max_alignment_law(a: Layout) -> None:
    n = max_alignment(a)
    image = set(values(a))
    assert all({x - x % n + k for k in range(n)} <= image for x in image)


def test_max_alignment_of_swizzles_and_offsets() -> None:
    a = Layout((8, 64), (64, 1))
    assert max_alignment(ComposedLayout(Swizzle(3, 3, 3), 0, a)) == 8
    assert max_alignment(ComposedLayout(Swizzle(3, 3, 3), 4, a)) == 4
    assert str(upcast(a, max_alignment(a))) == "(1,1):(1,1)"
