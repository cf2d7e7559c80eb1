"""How wide the direct epilogue stores, and in which order a thread's elements go."""

from __future__ import annotations

import pytest

from tilewright.collective.epilogue.direct import neighbours_first
from tilewright.lang import cute


@pytest.mark.parametrize(
    ("shape", "stride", "order"),
    [
        ((2, 4), (1, 8), None),  # neighbours come first already
        ((2, 4), (8, 1), "((4,2),):((2,1),)"),
        ((1, (2, 3), 4), (0, (16, 32), 1), "((4,1,2,3),):((6,1,1,2),)"),
        ((2, 4), (8, 16), None),  # no neighbours
        ((1, 4), (7, 1), None),
    ],
)
def test_neighbours_first(shape: object, stride: object, order: str | None) -> None:
    found = neighbours_first(cute.make_layout(shape, stride=stride))
    assert (None if found is None else str(found)) == order
