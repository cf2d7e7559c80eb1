"""The explorer: one static HTML file, without server or network, that computes as the Python does.

`explorer/` holds its parts: page, style and scripts.  The atoms are written into it from the rows.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.registry import every_copy_atom
from tilewright.arch.mma.atom import MmaAtom, Operand
from tilewright.arch.mma.registry import every_mma_atom
from tilewright.arch.thread_value import is_broadcast
from tilewright.layout.modes import size
from tilewright.viz.atom_pictures import copy_cells, executor, operand_place, operand_title
from tilewright.viz.palette import FILLS, SHARED

SCRIPTS: tuple[str, ...] = (
    "notation.js",
    "algebra.js",
    "compose.js",
    "analysis.js",
    "derive.js",
    "draw.js",
    "atoms_tab.js",
    "layouts_tab.js",
    "vectors.js",
    "app.js",
)
"""In this order: each may use what those before it define."""


def explorer_html() -> str:
    """The whole page."""
    parts = resources.files("tilewright.viz") / "explorer"

    def read(name: str) -> str:
        return (parts / name).read_text(encoding="utf-8")

    data = json.dumps(_data(), separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    page = read("page.html")
    fills = {
        "/*STYLE*/": read("style.css"),
        "/*DATA*/null": data,
        "/*SCRIPT*/": "\n".join(read(name) for name in SCRIPTS),
    }
    for mark, text in fills.items():
        before, found, after = page.partition(mark)
        assert found, f"page.html lacks its mark {mark}"
        page = before + text + after
    return page


def write_explorer(path: str | Path) -> Path:
    """Write the page; its path."""
    target = Path(path)
    target.write_text(explorer_html(), encoding="utf-8")
    return target


class _Numbered:
    """Values by number, each kept once: atoms share most of theirs."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, value: Any) -> int:
        return self.numbers.setdefault(json.dumps(value, ensure_ascii=False), len(self.numbers))

    def values(self) -> list[Any]:
        return [json.loads(text) for text in self.numbers]


def _data() -> dict[str, Any]:
    layouts, sides = _Numbered(), _Numbered()
    atoms = [_mma(atom, layouts, sides) for atom in every_mma_atom()]
    atoms += [_copy(atom, layouts, sides) for atom in every_copy_atom()]
    return {
        "fills": FILLS,
        "shared": SHARED,
        "atoms": atoms,
        "layouts": layouts.values(),
        "sides": sides.values(),
    }


def _mma(atom: MmaAtom, layouts: _Numbered, sides: _Numbered) -> list[Any]:
    named: list[tuple[Operand, str, str]] = [("A", "m", "k"), ("B", "k", "n"), ("C", "m", "n")]
    numbers = []
    for which, row, col in named:
        rows, cols = atom.matrix_shape(which)
        by_rows = which == "B"
        place, layout = operand_place(atom, which), atom.layout(which)
        side = {
            "which": which,
            "title": operand_title(atom, which),
            "where": place,
            "whole": int(bool(place) and (size(layout[0]) == 1 or is_broadcast(layout))),
            "rows": cols if by_rows else rows,
            "cols": rows if by_rows else cols,
            "row_name": row,
            "col_name": col,
            "by_rows": int(by_rows),
            "unit": 1,
            "layout": layouts(str(layout)),
        }
        numbers.append(sides(side))
    instruction = atom.ptx or "not written by the code generator"
    since = f"sm_{atom.min_arch}" if atom.min_arch else "AMD"
    return [atom.name, 1, layouts(str(atom.thr_id)), numbers, executor(atom), instruction, since]


def _copy(atom: CopyAtom, layouts: _Numbered, sides: _Numbered) -> list[Any]:
    total, unit, row_units = copy_cells(atom)
    numbers = []
    for title, layout in (("source", atom.src_layout), ("destination", atom.dst_layout)):
        side = {
            "which": title,
            "title": f"{title}, {unit} bits a cell",
            "where": "",
            "whole": 0,
            "rows": -(-total // (unit * row_units)),
            "cols": row_units,
            "row_name": "row",
            "col_name": "",
            "by_rows": 1,
            "unit": unit,
            "layout": layouts(str(layout)),
        }
        numbers.append(sides(side))
    instruction = atom.ptx or "a load and a store, or not written by the code generator"
    since = f"sm_{atom.min_arch}"
    return [atom.name, 0, layouts(str(atom.thr_id)), numbers, executor(atom), instruction, since]
