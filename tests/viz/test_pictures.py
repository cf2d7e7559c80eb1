"""Pictures say what the layouts say: every cell is compared with the function that it shows."""

from __future__ import annotations

import pytest

from tilewright.errors import LayoutError
from tilewright.layout.layout import Layout, make_identity_layout
from tilewright.layout.swizzle import ComposedLayout, Swizzle
from tilewright.viz.pictures import (
    bank_figure,
    draw,
    draw_banks,
    draw_tv,
    layout_figure,
    swizzle_figure,
    tv_figure,
)


class Symbol:
    def __mul__(self, other: object) -> Symbol:
        return self

    __rmul__ = __add__ = __radd__ = __mul__


@pytest.mark.parametrize(
    "layout",
    [
        Layout(((2, 2), 2), ((1, 4), 2)),
        Layout((4, 8), (8, 1)),
        ComposedLayout(Swizzle(2, 0, 3), 0, Layout((8, 4), (4, 1))),
    ],
)
def test_layout_cells_are_offsets(layout: Layout) -> None:
    grid = layout_figure(layout).grids()[0]
    for i, row in enumerate(grid.cells):
        for j, cell in enumerate(row):
            assert cell.lines == (str(layout((i, j))),)


def test_rank_one_is_a_column() -> None:
    grid = layout_figure(Layout((2, 3), (3, 1))[0]).grids()[0]
    assert (grid.num_rows, grid.num_cols) == (2, 1)
    assert [row[0].text for row in grid.cells] == ["0", "3"]


def test_higher_ranks_are_slices() -> None:
    layout = Layout((4, 2, 3), (2, 1, 8))
    grids = layout_figure(layout).grids()
    assert [g.title for g in grids] == ["(_,_,0)", "(_,_,1)", "(_,_,2)"]
    assert grids[2].cells[3][1].text == str(layout((3, 1, 2)))
    many = layout_figure(Layout((2, 2, 3, 4)))
    assert len(many.grids()) == 8
    assert many.grids()[4].title == "(_,_,1,1)"
    assert many.captions == ("slices 8 to 11 are not shown",)


def test_coordinates_are_shown_as_such() -> None:
    grid = layout_figure(make_identity_layout((2, (1, 2)))).grids()[0]
    assert grid.cells[1][1].text == "(1,(0,1))"


def test_large_layouts_are_cut_and_say_so() -> None:
    grid = layout_figure(Layout((100, 1000))).grids()[0]
    assert (grid.num_rows, grid.num_cols) == (64, 64)
    assert grid.notes == ("rows 64 to 99 are not shown", "columns 64 to 999 are not shown")


def test_colours_of_a_swizzle_count_its_blocks() -> None:
    figure = layout_figure(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))))
    row = figure.grids()[0].cells[1]
    assert [row[8 * j].colour for j in range(8)] == [9, 8, 11, 10, 13, 12, 15, 14]
    assert figure.captions == ("colour: offset // 8, the blocks that the swizzle moves",)


@pytest.mark.parametrize("swizzle", [Swizzle(3, 4, 3), Swizzle(2, 0, 5), Swizzle(2, 1, -3)])
def test_swizzle_picture(swizzle: Swizzle) -> None:
    grid = swizzle_figure(swizzle).grids()[0]
    count = 1 << swizzle.bits
    assert (grid.num_rows, grid.num_cols) == (count, count)
    for i in range(count):
        for j in range(count):
            assert grid.cells[i][j].text == str(i ^ j)
    assert "identity" in swizzle_figure(Swizzle(0, 4, 3)).title


def test_tv_picture() -> None:
    layout = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    grid = tv_figure(layout, (16, 8)).grids()[0]
    for thread in range(32):
        for value in range(4):
            index = layout((thread, value))
            assert grid.cells[index % 16][index // 16].lines == (f"T{thread}", f"V{value}")


def test_tv_picture_of_gaps_and_sharing() -> None:
    grid = tv_figure(Layout((4, 1), (0, 0)), (1, 2)).grids()[0]
    assert [c.text for c in grid.cells[0]] == ["T0 V0+3", "-"]


def test_bank_picture() -> None:
    figure = bank_figure(Layout((8, 64), (64, 1)), 8, 16, 16)
    grid = figure.grids()[0]
    assert grid.title == "phase 0, lanes 0 to 7: 8-way"
    assert grid.row_labels == tuple(str(128 * i) for i in range(8))
    assert [c.text for c in grid.cells[3][:5]] == ["3!", "3!", "3!", "3!", ""]
    assert grid.cells[3][0].alarm
    free = bank_figure(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))), 8, 16, 16)
    assert free.captions[0] == "conflict-free: 1 phase of 1 cycle"
    assert not any(c.alarm for row in free.grids()[0].cells for c in row)
    broadcast = bank_figure(Layout(32, 0), None).grids()[0]
    assert broadcast.cells[0][0].text == "0+31"


def test_bank_picture_of_many_phases_is_cut() -> None:
    figure = bank_figure(Layout(96, 4), None, 16, 32)
    assert len(figure.grids()) == 8
    assert figure.captions[-1] == "phases 8 to 11 are not shown"
    assert bank_figure([0, None, 8], None).grids()[0].title == "phase 0, lanes 0, 2: 1-way"
    assert bank_figure([None, 8], None).grids()[0].title == "phase 0, lanes 1: 1-way"


def test_drawings() -> None:
    assert str(draw(Layout((2, 2)))).startswith("(2,2):(1,2)\n")
    assert "Sw<1,0,1>" in draw(Swizzle(1, 0, 1)).text
    assert "T1 V0" in draw_tv(Layout((2, 2), (1, 2)), (2, 2)).text
    assert "bank" in draw_banks(Layout(32), None).text


def test_refusals() -> None:
    with pytest.raises(LayoutError, match=r"cannot draw .*: it has sizes that are only known at"):
        layout_figure(Layout((Symbol(), 2), (1, 4)))
    with pytest.raises(LayoutError, match="an extent of 0 leaves no coordinate"):
        layout_figure(Layout((0, 2), (1, 0)))
    with pytest.raises(LayoutError, match=r"has two modes \(thread, value\), 4:1 has 1"):
        tv_figure(Layout(4), (2, 2))
    with pytest.raises(LayoutError, match=r"thread 0, value 1 of .* is at 4, outside a tile of 4"):
        tv_figure(Layout((2, 2), (2, 4)), (2, 2))
