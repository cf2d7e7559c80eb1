"""Figures as text: a table of the kind of CuTe's `print_layout`."""

from __future__ import annotations

from tilewright.viz.figure import Figure, Grid


def figure_text(figure: Figure) -> str:
    """All grids below each other.

    >>> from tilewright.layout.layout import Layout
    >>> from tilewright.viz.pictures import layout_figure
    >>> print(figure_text(layout_figure(Layout((2, 3), (3, 1)))))
    (2,3):(3,1)
           0   1   2
         +---+---+---+
       0 | 0 | 1 | 2 |
         +---+---+---+
       1 | 3 | 4 | 5 |
         +---+---+---+
    """
    grids = figure.grids()
    lines = [figure.title, *figure.captions]
    for grid in grids:
        if len(grids) > 1 and grid.title:
            lines.append(grid.title)
        lines.append(grid_text(grid))
    return "\n".join(lines)


def grid_text(grid: Grid) -> str:
    """One grid."""
    texts = [[c.text for c in row] for row in grid.cells]
    width = max([len(t) for row in texts for t in row] + [len(t) for t in grid.col_labels] + [1])
    margin = max([len(t) for t in grid.row_labels] + [4])
    gap = " " * margin
    rule = f"{gap} +" + "+".join("-" * (width + 2) for _ in grid.col_labels) + "+"
    head = f"{gap}  " + " ".join(t.rjust(width).center(width + 2) for t in grid.col_labels)
    lines = [_axes(grid, gap), head.rstrip(), rule]
    for label, row in zip(grid.row_labels, texts, strict=True):
        body = "|".join(f" {t.rjust(width)} " for t in row)
        lines += [f"{label.rjust(margin)} |{body}|", rule]
    lines += [f"{gap} {note}" for note in grid.notes]
    return "\n".join(line for line in lines if line)


def _axes(grid: Grid, gap: str) -> str:
    if not (grid.row_name or grid.col_name):
        return ""
    return f"{gap}  rows {grid.row_name}, columns {grid.col_name}"
