"""What `explain` claims about a layout is true."""

from __future__ import annotations

import pytest

from tilewright.errors import LayoutError
from tilewright.layout.layout import Layout, make_identity_layout
from tilewright.layout.swizzle import ComposedLayout, Swizzle
from tilewright.viz.explain import explain, layout_facts


class Symbol:
    def __mul__(self, other: object) -> Symbol:
        return self

    __rmul__ = __add__ = __radd__ = __mul__


@pytest.mark.parametrize(
    "layout",
    [
        Layout((4, (2, 3)), (6, (3, 1))),
        Layout((4, 2), (1, 1)),
        Layout(4, 2),
        Layout((4, 2), (1, 0)),
        ComposedLayout(Swizzle(2, 1, 3), 0, Layout((8, 8), (8, 1))),
        ComposedLayout(Swizzle(2, 0, 2), 5, Layout((2, 2), (1, 4))),
    ],
)
def test_facts(layout: Layout) -> None:
    facts = layout_facts(layout)
    offsets = [layout(i) for i in range(facts.size)]
    assert facts.is_injective == (len(set(offsets)) == len(offsets))
    assert facts.is_contiguous == (sorted(offsets) == list(range(facts.size)))
    assert int(facts.cosize) == max(offsets) + 1
    image = set(offsets)
    blocks = {o // facts.run for o in image}
    assert {b * facts.run + i for b in blocks for i in range(facts.run)} == image


def test_words() -> None:
    text = explain(Layout(((2, 2), 2), ((1, 4), 2)))
    assert "mode 0 ((2,2):(1,4)): size 4; 2 steps of 1, then 2 steps of 4" in text
    assert "contiguous  yes: the offsets are 0 to 7, each once" in text
    text = explain(Layout((4, 2), (2, 0)))
    assert "injective   no: several coordinates share an offset" in text
    assert "contiguous  no" in text
    assert "only single elements can be moved" in text


def test_large_layouts_are_not_tried() -> None:
    facts = layout_facts(Layout((1 << 20, 4), (2, 3)))
    assert facts.is_injective is None
    assert facts.is_contiguous is None
    assert layout_facts(Layout((1 << 20, 1 << 20))).is_contiguous is True
    assert "not decided: too large to try" in explain(Layout((1 << 20, 4), (2, 3)))
    big = ComposedLayout(Swizzle(3, 3, 3), 0, Layout(1 << 20))
    assert layout_facts(big).is_contiguous is None


def test_coordinates() -> None:
    facts = layout_facts(make_identity_layout((4, 8)))
    assert facts.cosize == "32"
    assert facts.is_injective is True
    assert facts.is_contiguous is False
    assert facts.run == 1


def test_run_time_sizes() -> None:
    with pytest.raises(LayoutError, match=r"cannot explain .*: it has sizes that are only known"):
        explain(Layout((Symbol(), 2), (1, 4)))
