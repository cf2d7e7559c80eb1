"""Shared memory is found on addresses alone: against NumPy, and against counting every byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilewright.library.overlap import overlaps, overlaps_itself
from tilewright.runtime.arrays import ArrayView, as_array


def places(view: ArrayView) -> list[int]:
    """The address of each element."""
    index = np.indices(view.shape).reshape(view.rank, -1)
    offsets = np.zeros(index.shape[1], np.int64)
    for along, stride in zip(index, view.strides, strict=True):
        offsets += along * stride
    return [view.pointer + int(x) * view.element_bits // 8 for x in offsets]


@st.composite
def views(draw: Any) -> ArrayView:
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    strides = tuple(draw(st.integers(-6, 9)) for _ in shape)
    # Far from address 0, so that no stride reaches below it.
    return ArrayView(4096 + 2 * draw(st.integers(0, 40)), shape, strides, "f16", 16)


@given(views(), views())
def test_overlaps_is_sharing_a_byte(x: ArrayView, y: ArrayView) -> None:
    assert overlaps(x, y) == bool(set(places(x)) & set(places(y)))
    assert overlaps(x, y) == overlaps(y, x)


@given(views())
def test_what_does_not_overlap_itself_has_a_place_for_each_element(view: ArrayView) -> None:
    found = places(view)
    if not overlaps_itself(view):
        assert len(set(found)) == len(found)


def test_layouts_that_people_use_do_not_overlap_themselves() -> None:
    whole = np.zeros((3, 6, 8), np.float32)
    for view in (whole, whole[:, ::2, 1:5], whole.swapaxes(0, 2), whole[::-1], whole[:0], whole[1]):
        assert not overlaps_itself(as_array(view))
    assert overlaps_itself(as_array(np.broadcast_to(whole[0, 0, 0], (2, 2))))


def test_other_devices_and_other_memory() -> None:
    x = as_array(np.zeros((4, 4), np.float16))
    assert overlaps(x, x)
    assert not overlaps(x, replace(x, device="cuda:0"))
    assert not overlaps(x, replace(x, pointer=x.pointer + 32))
    assert overlaps(x, replace(x, pointer=x.pointer + 30))
    # An address that nothing is at: nothing is read.
    far = ArrayView(1 << 46, (1 << 20, 1 << 20), (1 << 21, 1), "f16", 16, "cuda:0")
    right = replace(far, pointer=far.pointer + (1 << 21))
    assert not overlaps(far, right)
    assert overlaps(far, replace(right, shape=(1 << 20, (1 << 20) + 1)))
