"""In which order the direct epilogue stores a thread's elements."""

from __future__ import annotations

import pytest

from tilewright.collective.epilogue.direct import store_order
from tilewright.lang import cute
from tilewright.layout.basis import E

# What a thread has of 128 rows by 32 columns of a wgmma: pairs of columns, rows 8 and 64 apart.
WGMMA = ((2, 2, 4), 2)
PLACES = ((E(1), 8 * E(0), 8 * E(1)), 64 * E(0))


@pytest.mark.parametrize(
    ("shape", "stride", "places", "order"),
    [
        ((2, 4), (1, 8), (E(0), E(1)), None),  # neighbours come first already
        ((2, 4), (8, 1), (E(0), E(1)), "((4,2),):((2,1),)"),
        ((1, (2, 3), 4), (0, (16, 32), 1), (0, (E(0), 2 * E(0)), E(1)), "((4,2,3),):((6,1,2),)"),
        ((2, 4), (8, 16), (E(0), E(1)), None),  # no neighbours, rows come first already
        ((2, 4), (8, 16), (E(1), E(0)), "((4,2),):((2,1),)"),
        ((1, 4), (7, 1), (0, E(1)), None),
        # D has N contiguous: a pair of a row, the four rows, then the next columns.
        (WGMMA, ((1, 512, 8), 4096), PLACES, "((2,2,2,4),):((1,2,16,4),)"),
        # D has M contiguous, but no thread has neighbours: the four rows of a column.
        (WGMMA, ((512, 8, 4096), 64), PLACES, "((2,2,2,4),):((2,16,1,4),)"),
    ],
)
def test_store_order(shape: object, stride: object, places: object, order: str | None) -> None:
    layouts = (cute.make_layout(shape, stride=s) for s in (stride, places))
    found = store_order(*layouts)
    assert (None if found is None else str(found)) == order
