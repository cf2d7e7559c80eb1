"""Figures as LaTeX: a standalone TikZ document, one `tikzpicture` per figure."""

from __future__ import annotations

from tilewright.viz.figure import Cell, Figure, Grid
from tilewright.viz.palette import ALARM, FILLS, SHARED

_UNIT = 0.9  # centimetres of a cell of up to four characters


def figure_latex(figure: Figure) -> str:
    """A document that pdflatex compiles on its own (packages: standalone, tikz)."""
    colours = [f"\\definecolor{{tw{i}}}{{HTML}}{{{c[1:]}}}" for i, c in enumerate(FILLS)]
    colours += [
        f"\\definecolor{{twshared}}{{HTML}}{{{SHARED[1:]}}}",
        f"\\definecolor{{twalarm}}{{HTML}}{{{ALARM[1:]}}}",
    ]
    head = ["\\documentclass[tikz,border=4pt]{standalone}", *colours, "\\begin{document}"]
    return "\n".join([*head, *_picture(figure), "\\end{document}"]) + "\n"


def _picture(figure: Figure) -> list[str]:
    widths = _column_widths(figure)
    lines = ["\\begin{tikzpicture}[x=1cm,y=-1cm,every node/.style={font=\\ttfamily\\scriptsize}]"]
    y = 0.0
    for text in (figure.title, *figure.captions):
        lines.append(_node(0, y, text, "anchor=west"))
        y += 0.45
    for row in figure.rows:
        x, tallest = 1.2, 0.0
        bottom = max((g.num_rows * _cell_height(g) for g in row if g), default=0.0)
        for j, grid in enumerate(row):
            if grid is not None:
                lines += _grid(grid, x, y + 1.2)
                tallest = max(tallest, 1.2 + bottom + 0.4 * (1 + len(grid.notes)))
            x += widths[j] + 1.4
        y += tallest + 0.3
    return [*lines, "\\end{tikzpicture}"]


def _column_widths(figure: Figure) -> list[float]:
    count = max((len(row) for row in figure.rows), default=0)
    widths = [0.0] * count
    for row in figure.rows:
        for j, grid in enumerate(row):
            if grid is not None:
                widths[j] = max(widths[j], grid.num_cols * _cell_width(grid))
    return widths


def _cell_width(grid: Grid) -> float:
    longest = max([len(t) for row in grid.cells for c in row for t in c.lines] + [2])
    return max(_UNIT * longest / 4, 0.6)


def _cell_height(grid: Grid) -> float:
    return 0.34 * max([len(c.lines) for row in grid.cells for c in row] + [1]) + 0.2


def _grid(grid: Grid, x: float, y: float) -> list[str]:
    w, h = _cell_width(grid), _cell_height(grid)
    lines = [_node(x, y - 0.9, grid.title, "anchor=west")]
    lines += [
        _node(x + (j + 0.5) * w, y - 0.2, label, "text=gray")
        for j, label in enumerate(grid.col_labels)
    ]
    if grid.col_name:
        lines.append(_node(x + grid.num_cols * w / 2, y - 0.55, grid.col_name, "text=gray"))
    if grid.row_name:
        lines.append(_node(x - 0.1, y - 0.2, grid.row_name, "anchor=east,text=gray"))
    alarms = []
    for i, row in enumerate(grid.cells):
        top = y + i * h
        lines.append(_node(x - 0.1, top + h / 2, grid.row_labels[i], "anchor=east,text=gray"))
        for j, cell in enumerate(row):
            left = x + j * w
            lines.append(_box(left, top, w, h, f"draw,{_fill(cell)}"))
            if cell.lines:
                body = "\\\\".join(_escape(t) for t in cell.lines)
                at = f"({left + w / 2:.2f},{top + h / 2:.2f})"
                lines.append(f"\\node[align=center] at {at} {{{body}}};")
            if cell.alarm:
                alarms.append(_box(left, top, w, h, "draw=twalarm,line width=1.2pt"))
    below = y + grid.num_rows * h + 0.3
    notes = [
        _node(x, below + 0.4 * i, n, "anchor=west,text=gray") for i, n in enumerate(grid.notes)
    ]
    return lines + alarms + notes


def _fill(cell: Cell) -> str:
    if cell.shared:
        return "fill=twshared"
    return "fill=white" if cell.colour is None else f"fill=tw{cell.colour % len(FILLS)}"


def _box(x: float, y: float, w: float, h: float, style: str) -> str:
    return f"\\path[{style}] ({x:.2f},{y:.2f}) rectangle ({x + w:.2f},{y + h:.2f});"


def _node(x: float, y: float, text: str, style: str) -> str:
    return f"\\node[{style}] at ({x:.2f},{y:.2f}) {{{_escape(text)}}};"


_SPECIAL = {c: f"\\{c}" for c in "#$%&_{}"} | {
    "\\": "\\textbackslash{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
}


def _escape(text: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in text)
