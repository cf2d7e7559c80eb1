"""Figures as SVG, written by hand: rectangles and text, no script, no font but the reader's own."""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

from tilewright.viz.figure import Cell, Figure, Grid
from tilewright.viz.palette import ALARM, BLANK, INK, MUTED, RULE, SHARED, fill

_FONT = 11.0
_ADVANCE = 0.6  # width of a monospaced character in ems
_LINE = 13.0
_PAD = 12.0
_TITLE = 20.0


@dataclass(frozen=True, slots=True)
class _Measure:
    """The box of a grid in pixels: cell size, and the margins around the cells."""

    cell_w: float
    cell_h: float
    left: float
    top: float
    width: float
    height: float


def figure_svg(figure: Figure) -> str:
    """A complete SVG document."""
    boxes = [[None if g is None else _measure(g) for g in row] for row in figure.rows]
    count = max((len(row) for row in boxes), default=0)
    columns = [[row[j] for row in boxes if j < len(row)] for j in range(count)]
    lefts = [max((m.left for m in column if m), default=0.0) for column in columns]
    rights = [max((m.width - m.left for m in column if m), default=0.0) for column in columns]
    texts = [figure.title, *figure.captions]
    width = sum(lefts) + sum(rights) + _PAD * (count + 1)
    width = max(width, max(len(t) for t in texts) * 13 * _ADVANCE + 2 * _PAD)
    parts = [_text(_PAD, _PAD + 12, figure.title, size=13, anchor="start", weight="bold")]
    for i, caption in enumerate(figure.captions):
        y = _PAD + 16 + _LINE * (i + 1)
        parts.append(_text(_PAD, y, caption, anchor="start", colour=MUTED))
    y = 2 * _PAD + _TITLE + _LINE * len(figure.captions)
    for row, sizes in zip(figure.rows, boxes, strict=True):
        x = _PAD
        top = max((m.top for m in sizes if m), default=0.0)
        for j, (grid, m) in enumerate(zip(row, sizes, strict=True)):
            if grid is not None and m is not None:
                parts += _grid(grid, m, x + lefts[j] - m.left, y + top - m.top)
            x += lefts[j] + rights[j] + _PAD
        y += top + max((m.height - m.top for m in sizes if m), default=0.0) + _PAD
    return _document(width, y, figure.title, parts)


def _document(width: float, height: float, title: str, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f"font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\">"
    )
    background = f'<rect width="100%" height="100%" fill="{BLANK}"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", background, *parts, "</svg>"]) + "\n"


def _measure(grid: Grid) -> _Measure:
    cells = [c for row in grid.cells for c in row]
    longest = max(
        [len(t) for c in cells for t in c.lines] + [len(t) for t in grid.col_labels] + [1]
    )
    lines = max([len(c.lines) for c in cells] + [1])
    cell_w = max(longest * _FONT * _ADVANCE + 8, 24.0)
    cell_h = max(lines * _LINE + 6, 22.0)
    label = max([len(t) for t in grid.row_labels] + [len(grid.row_name)])
    left = label * _FONT * _ADVANCE + 10
    top = _LINE + 8 + (_LINE if grid.col_name else 0) + (_LINE if grid.title else 0)
    texts = [len(grid.title) * 12 * _ADVANCE, *(len(n) * _FONT * _ADVANCE for n in grid.notes)]
    width = left + max([cell_w * grid.num_cols + 2, *texts])
    height = top + cell_h * grid.num_rows + 4 + _LINE * len(grid.notes)
    return _Measure(cell_w, cell_h, left, top, width, height)


def _grid(grid: Grid, m: _Measure, x: float, y: float) -> list[str]:
    x0, y0 = x + m.left, y + m.top
    parts = [_text(x0, y + 12, grid.title, size=12, anchor="start", weight="bold")]
    if grid.col_name:
        middle = x0 + m.cell_w * grid.num_cols / 2
        parts.append(_text(middle, y0 - _LINE - 6, grid.col_name, colour=MUTED))
    if grid.row_name:
        parts.append(_text(x0 - 6, y0 - 5, grid.row_name, anchor="end", colour=MUTED))
    for j, label in enumerate(grid.col_labels):
        parts.append(_text(x0 + (j + 0.5) * m.cell_w, y0 - 5, label, colour=MUTED))
    alarmed = []
    for i, row in enumerate(grid.cells):
        middle = y0 + (i + 0.5) * m.cell_h
        parts.append(_text(x0 - 6, middle + 4, grid.row_labels[i], anchor="end", colour=MUTED))
        for j, cell in enumerate(row):
            box = _cell(cell, x0 + j * m.cell_w, y0 + i * m.cell_h, m)
            parts += box
            if cell.alarm:
                alarmed.append((x0 + j * m.cell_w, y0 + i * m.cell_h))
    for left, top in alarmed:
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{m.cell_w:.1f}" height="{m.cell_h:.1f}" '
            f'fill="none" stroke="{ALARM}" stroke-width="2.5"/>'
        )
    below = y0 + m.cell_h * grid.num_rows + _LINE + 2
    for i, note in enumerate(grid.notes):
        parts.append(_text(x0, below + _LINE * i, note, anchor="start", colour=MUTED))
    return parts


def _cell(cell: Cell, x: float, y: float, m: _Measure) -> list[str]:
    colour = SHARED if cell.shared else fill(cell.colour)
    parts = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{m.cell_w:.1f}" height="{m.cell_h:.1f}" '
        f'fill="{colour}" stroke="{RULE}" stroke-width="0.8"/>'
    ]
    first = y + m.cell_h / 2 + 4 - _LINE * (len(cell.lines) - 1) / 2
    for k, line in enumerate(cell.lines):
        parts.append(_text(x + m.cell_w / 2, first + _LINE * k, line))
    return parts


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: float = _FONT,
    anchor: str = "middle",
    colour: str = INK,
    weight: str = "",
) -> str:
    if not text:
        return ""
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" '
        f'fill="{colour}"{bold}>{escape(text)}</text>'
    )
