"""Text, SVG and LaTeX show every label of a figure, and nothing that breaks their own syntax."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from chromium import browse, needs_chromium

from tilewright.errors import LayoutError
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import ComposedLayout, Swizzle
from tilewright.viz.atom_pictures import draw_atom
from tilewright.viz.drawing import Drawing
from tilewright.viz.figure import Cell, Figure, make_grid
from tilewright.viz.layout_command import find_atom
from tilewright.viz.palette import FILLS
from tilewright.viz.pictures import draw, draw_banks

SVG = "{http://www.w3.org/2000/svg}"
DRAWINGS = {
    "layout": draw(Layout(((2, 2), 2), ((1, 4), 2))),
    "swizzled": draw(ComposedLayout(Swizzle(2, 1, 3), 0, Layout((8, 8), (8, 1)))),
    "swizzle": draw(Swizzle(3, 4, 3)),
    "banks": draw_banks(Layout((8, 64), (64, 1)), 8, 16, 16),
    "mma": draw_atom(find_atom("SM80_16x8x16_F32BF16BF16F32_TN")),
    "wgmma": draw_atom(find_atom("SM90_64x16x16_F32F16F16_RS_KN")),
    "copy": draw_atom(find_atom("SM75_U16x4_LDSM_T")),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_svg_is_well_formed_and_complete(name: str) -> None:
    drawing = DRAWINGS[name]
    root = ET.fromstring(drawing.svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    texts = [t.text for t in root.iter(f"{SVG}text")]
    for grid in drawing.figure.grids():
        for row in grid.cells:
            for cell in row:
                assert set(cell.lines) <= set(texts)
        assert set(grid.col_labels) <= set(texts)
        assert set(grid.row_labels) <= set(texts)
    for rect in list(root.iter(f"{SVG}rect"))[1:]:
        x, y = float(rect.attrib["x"]), float(rect.attrib["y"])
        assert 0 <= x <= width - float(rect.attrib["width"])
        assert 0 <= y <= height - float(rect.attrib["height"])
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.attrib["x"]) <= width
        assert 0 <= float(text.attrib["y"]) <= height


def test_cells_with_the_same_number_have_the_same_fill() -> None:
    root = ET.fromstring(draw(Layout((8, 2))).svg)
    fills = [r.attrib["fill"] for r in list(root.iter(f"{SVG}rect"))[1:]]
    assert fills == [FILLS[(i + 8 * j) % 8] for i in range(8) for j in range(2)]


def test_markup_is_escaped() -> None:
    svg = draw(ComposedLayout(Swizzle(1, 0, 2), 0, Layout(8))).svg
    assert "Sw&lt;1,0,2&gt;" in svg
    tex = Drawing(Figure("50% of a_b^{c}\\ <~#$&>", ((None,),))).latex
    assert "50\\% of a\\_b\\textasciicircum{}\\{c\\}\\textbackslash{} \\textless{}" in tex
    assert "\\textasciitilde{}\\#\\$\\&\\textgreater{}" in tex


def test_an_empty_place_stays_empty() -> None:
    grid = make_grid("g", 1, 1, lambda _i, _j: Cell(("x",)))
    figure = Figure("title", ((None, grid), (grid, grid)))
    assert Drawing(figure).svg.count(">x</text>") == 3
    assert Drawing(figure).latex.count("{x};") == 3


@pytest.mark.parametrize("name", DRAWINGS)
def test_latex_is_balanced_and_complete(name: str) -> None:
    drawing = DRAWINGS[name]
    tex = drawing.latex
    plain = re.sub(r"\\[{}]", "", tex)
    assert plain.count("{") == plain.count("}")
    assert tex.startswith("\\documentclass[tikz,border=4pt]{standalone}")
    cells = [c for g in drawing.figure.grids() for row in g.cells for c in row]
    assert tex.count("\\node[align=center]") == sum(1 for c in cells if c.lines)
    alarms = sum(c.alarm for c in cells)
    assert tex.count("\\path[draw") == len(cells) + alarms


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(tmp_path: Path) -> None:
    source = DRAWINGS["banks"].save(tmp_path / "banks.tex")
    done = subprocess.run(
        ["pdflatex", "-interaction=batchmode", source.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (tmp_path / "banks.log").read_text()[-2000:]


def test_text_table() -> None:
    assert DRAWINGS["layout"].text == (
        "((2,2),2):((1,4),2)\n"
        "       0   1\n"
        "     +---+---+\n"
        "   0 | 0 | 2 |\n"
        "     +---+---+\n"
        "   1 | 1 | 3 |\n"
        "     +---+---+\n"
        "   2 | 4 | 6 |\n"
        "     +---+---+\n"
        "   3 | 5 | 7 |\n"
        "     +---+---+"
    )
    banks = DRAWINGS["banks"].text
    assert "rows byte, columns bank" in banks
    assert " 7! |" in banks


def test_jupyter_protocol() -> None:
    drawing = DRAWINGS["layout"]
    assert drawing._repr_svg_() == drawing.svg
    assert drawing.svg in drawing._repr_html_()


def test_save(tmp_path: Path) -> None:
    drawing = DRAWINGS["layout"]
    for suffix, text in ((".svg", drawing.svg), (".tex", drawing.latex), (".txt", drawing.text)):
        assert drawing.save(tmp_path / f"a{suffix}").read_text() == text
    with pytest.raises(LayoutError, match=r"'a.png' ends in .png, expected .svg, .tex, .txt"):
        drawing.save(tmp_path / "a.png")
    with pytest.raises(LayoutError, match="'a' ends in no suffix"):
        drawing.save(tmp_path / "a")


@needs_chromium
def test_a_browser_shows_the_svg(tmp_path: Path) -> None:
    file = DRAWINGS["mma"].save(tmp_path / "mma.svg")
    shot = tmp_path / "mma.png"
    flags = (f"--screenshot={shot}", "--window-size=760,1220", "--hide-scrollbars")
    browse(file.as_uri(), tmp_path / "profile", *flags)
    assert shot.stat().st_size > 20_000
