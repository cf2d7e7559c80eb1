"""What a person types is read, or refused with what was expected."""

from __future__ import annotations

import pytest

from tilewright.errors import LayoutError
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import ComposedLayout, Swizzle
from tilewright.layout.text import read_layout, read_swizzle, read_tiler


def test_layouts() -> None:
    assert read_layout("((2,2),2):((1,4),2)") == Layout(((2, 2), 2), ((1, 4), 2))
    assert read_layout(" ( 4 , 8 ) ") == Layout((4, 8))
    assert read_layout("8") == Layout(8)
    swizzled = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1)))
    assert read_layout("Sw<3,4,3> o 0 o (8,64):(64,1)") == swizzled
    assert read_layout("Sw<3,4,3> o (8,64):(64,1)") == swizzled
    assert read_layout("Sw<1,0,1> o (2,2)") == ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2)))


def test_swizzles() -> None:
    assert read_swizzle("Sw<3,4,3>") == read_swizzle(" 3, 4, 3 ") == Swizzle(3, 4, 3)
    assert read_swizzle("2,0,-3") == Swizzle(2, 0, -3)


def test_tilers() -> None:
    assert read_tiler("4") == 4
    assert read_tiler("(4,_)") == (4, None)
    assert read_tiler("_") is None
    assert read_tiler("(2,4):(1,8)") == Layout((2, 4), (1, 8))
    assert read_tiler("<3:3,(2,4):(1,8)>") == (Layout(3, 3), Layout((2, 4), (1, 8)))
    assert read_tiler("<<2,4:1>,_>") == ((2, Layout(4, 1)), None)


@pytest.mark.parametrize("text", ["Sw<3,4,3>", "_", "(4,_)"])
def test_what_is_no_layout(text: str) -> None:
    with pytest.raises(LayoutError, match=r"A: expected a layout like \(4,8\):\(8,1\), got"):
        read_layout(text, "A")


def test_refusals() -> None:
    with pytest.raises(LayoutError, match="swizzle: expected three numbers B,M,S as in Sw<3,4,3>"):
        read_swizzle("3,4")
    with pytest.raises(LayoutError, match=r"\|shift\| >= bits"):
        read_swizzle("3,4,2")
    with pytest.raises(LayoutError, match="tiler: expected '>' at the end of '<4:1'"):
        read_tiler("<4:1")
    with pytest.raises(LayoutError, match="tiler: expected a layout, an int or a tuple; got 'Sw<"):
        read_tiler("Sw<1,0,1>")
    with pytest.raises(LayoutError, match="parse_layout: expected end of text before position"):
        read_layout("(4,8) 3")
