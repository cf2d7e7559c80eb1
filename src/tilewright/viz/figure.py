"""Figure: what a picture says, before it is text, SVG or LaTeX.

A figure is rows of grids; a grid is a table of cells with labelled rows and columns.  The builders
(`pictures`, `atom_pictures`) make figures; `text`, `svg` and `latex` print them; `Drawing` holds
one and speaks Jupyter's protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: one or two short lines; `colour` chooses the fill (None: none), `alarm` a
    frame (the lines then say so as well)."""

    lines: tuple[str, ...] = ()
    colour: int | None = None
    shared: bool = False
    alarm: bool = False

    @property
    def text(self) -> str:
        """The lines in one."""
        return " ".join(self.lines)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table under a title; `notes` are lines below it."""

    title: str
    cells: tuple[tuple[Cell, ...], ...]
    row_labels: tuple[str, ...]
    col_labels: tuple[str, ...]
    row_name: str = ""
    col_name: str = ""
    notes: tuple[str, ...] = ()

    @property
    def num_rows(self) -> int:
        """Rows of cells."""
        return len(self.cells)

    @property
    def num_cols(self) -> int:
        """Columns of cells."""
        return len(self.col_labels)


@dataclass(frozen=True, slots=True)
class Figure:
    """Grids in rows; None leaves a place empty.  `captions` are lines above."""

    title: str
    rows: tuple[tuple[Grid | None, ...], ...]
    captions: tuple[str, ...] = field(default=())

    def grids(self) -> list[Grid]:
        """All grids, left to right, top to bottom."""
        return [grid for row in self.rows for grid in row if grid is not None]


MAX_ROWS, MAX_COLS = 64, 64


def make_grid(
    title: str,
    num_rows: int,
    num_cols: int,
    cell: Callable[[int, int], Cell],
    *,
    row_name: str = "",
    col_name: str = "",
    row_labels: Sequence[str] = (),
    col_labels: Sequence[str] = (),
    max_rows: int = MAX_ROWS,
    max_cols: int = MAX_COLS,
    notes: tuple[str, ...] = (),
) -> Grid:
    """The grid of ``cell(row, column)``, cut at `max_rows` and `max_cols` with a note that says so.

    >>> grid = make_grid("t", 2, 99, lambda i, j: Cell((str(i + 2 * j),)), max_cols=3)
    >>> grid.cells[1][2].text, grid.notes
    ('5', ('columns 3 to 98 are not shown',))
    """
    rows, cols = min(num_rows, max_rows), min(num_cols, max_cols)
    cut = list(notes)
    if rows < num_rows:
        cut.append(f"rows {rows} to {num_rows - 1} are not shown")
    if cols < num_cols:
        cut.append(f"columns {cols} to {num_cols - 1} are not shown")
    return Grid(
        title,
        tuple(tuple(cell(i, j) for j in range(cols)) for i in range(rows)),
        tuple(row_labels[:rows]) or tuple(str(i) for i in range(rows)),
        tuple(col_labels[:cols]) or tuple(str(j) for j in range(cols)),
        row_name,
        col_name,
        tuple(cut),
    )
