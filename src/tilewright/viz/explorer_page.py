"""The explorer: one static HTML file, without server or network, that computes as the Python does.

`explorer/` holds its parts: page, style and scripts.  The atoms are written into it from the rows.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.registry import ALL_COPY_ATOMS
from tilewright.arch.mma.atom import MmaAtom, Operand
from tilewright.arch.mma.registry import ALL_MMA_ATOMS
from tilewright.layout.layout import Layout
from tilewright.viz.atom_pictures import copy_cells, operand_place
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


class _Interned:
    """Layouts by number: atoms share most of theirs."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def __call__(self, layout: Layout) -> int:
        return self.texts.setdefault(str(layout), len(self.texts))


def _data() -> dict[str, Any]:
    number = _Interned()
    atoms = [_mma(atom, number) for atom in ALL_MMA_ATOMS]
    atoms += [_copy(atom, number) for atom in ALL_COPY_ATOMS]
    return {"fills": FILLS, "shared": SHARED, "atoms": atoms, "layouts": list(number.texts)}


def _mma(atom: MmaAtom, number: _Interned) -> dict[str, Any]:
    m, n, k = atom.shape_mnk
    titles: list[tuple[Operand, str, str, str]] = [
        ("A", f"A: {m}x{k} {atom.a_dtype}", "m", "k"),
        ("B", f"B: {k}x{n} {atom.b_dtype}", "k", "n"),
        ("C", f"C, D: {m}x{n} {atom.d_dtype}", "m", "n"),
    ]
    sides = []
    for which, title, row, col in titles:
        rows, cols = atom.matrix_shape(which)
        by_rows = which == "B"
        sides.append(
            {
                "which": which,
                "title": title,
                "where": operand_place(atom, which),
                "rows": cols if by_rows else rows,
                "cols": rows if by_rows else cols,
                "row_name": row,
                "col_name": col,
                "by_rows": int(by_rows),
                "unit": 1,
                "layout": number(atom.layout(which)),
            }
        )
    return {
        "name": atom.name,
        "mma": 1,
        "thr_id": number(atom.thr_id),
        "sides": sides,
        "facts": [["instruction", atom.ptx], ["from", f"sm_{atom.min_arch}"]],
    }


def _copy(atom: CopyAtom, number: _Interned) -> dict[str, Any]:
    total, unit, row_units = copy_cells(atom)
    sides = [
        {
            "which": title,
            "title": title,
            "where": "",
            "rows": -(-total // (unit * row_units)),
            "cols": row_units,
            "row_name": "row",
            "col_name": "",
            "by_rows": 1,
            "unit": unit,
            "layout": number(layout),
        }
        for title, layout in (("source", atom.src_layout), ("destination", atom.dst_layout))
    ]
    facts = [["instruction", atom.ptx or "a load and a store"], ["from", f"sm_{atom.min_arch}"]]
    facts.append(["cell", f"{unit} bits"])
    return {
        "name": atom.name,
        "mma": 0,
        "thr_id": number(atom.thr_id),
        "sides": sides,
        "facts": facts,
    }
