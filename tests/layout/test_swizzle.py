"""Swizzles as bit permutations, composed layouts as functions."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.errors import LayoutError
from tilewright.layout import (
    ComposedLayout,
    Layout,
    Swizzle,
    make_composed_layout,
    make_swizzle,
    parse_layout,
)


@st.composite
def swizzles(draw: st.DrawFn) -> Swizzle:
    bits = draw(st.integers(0, 3))
    shift = draw(st.integers(bits, 5)) * draw(st.sampled_from([1, -1]))
    return Swizzle(bits, draw(st.integers(0, 4)), shift)


@settings(max_examples=100, deadline=None)
@given(swizzles())
def test_swizzle_laws(sw: Swizzle) -> None:
    image = [sw(x) for x in range(4096)]
    assert [sw(x) for x in image] == list(range(4096))  # law 1
    block = 1 << sw.base
    assert all(image[x + 1] == image[x] + 1 for x in range(0, 4095) if (x + 1) % block)  # law 2
    assert parse_layout(str(sw)) == sw
    assert eval(repr(sw)) == sw
    if sw.bits:
        assert make_swizzle(sw.source_mask, sw.target_mask) == sw
    assert (sw.num_bits, sw.num_base, sw.num_shift) == (sw.bits, sw.base, sw.shift)
    assert pickle.loads(pickle.dumps(sw)) == sw


def test_composed_layout_is_a_value() -> None:
    a = make_composed_layout(Swizzle(2, 0, 3), 8, Layout((8, 4), (8, 1)))
    assert a == ComposedLayout(Swizzle(2, 0, 3), 8, Layout((8, 4), (8, 1)))
    assert hash(a) == hash(pickle.loads(pickle.dumps(a)))
    assert eval(repr(a)) == a
    assert parse_layout(str(a)) == a
    assert (a.shape, a.stride, len(a), a.is_static) == ((8, 4), (8, 1), 2, True)
    assert a((1, 2)) == Swizzle(2, 0, 3)(8 + 10) == a(17)
    assert a[0].shape == 8
    for name in ("inner", "offset", "outer"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(a, name, 1)
    with pytest.raises(AttributeError, match="immutable"):
        a.inner.bits = 1
    with pytest.raises(LayoutError, match="expected a Swizzle or a layout as inner, got int"):
        ComposedLayout(3, 0, Layout(4))
    with pytest.raises(LayoutError, match="expected a layout as outer, got tuple"):
        ComposedLayout(Swizzle(0, 0, 0), 0, (4, 4))
