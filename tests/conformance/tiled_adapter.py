"""How the conformance runner asks for tiled copies and MMAs: `TILED`, merged into `ADAPTER`.

Each answer is a dict of the fields that the vectors know: thread-value layouts, tile sizes, and
what each of some threads gets of a tile twice as large along M or N (along K for A).
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from tilewright.arch.copy.registry import copy_atom
from tilewright.lang.cute import tv
from tilewright.layout.layout import Layout, make_identity_layout
from tilewright.layout.leaf import add
from tilewright.layout.modes import size
from tilewright.layout.text import read_layout, read_tiler

_ATOMS = runpy.run_path(str(Path(__file__).with_name("atoms_adapter.py")))
_BITS = {"float": 32, "half_t": 16}
LISTED = 64
"""The vectors list the first 64 coordinates of a thread."""


def _layout(text: str) -> Layout:
    found = read_layout(text)
    assert isinstance(found, Layout), text
    return found


def _permutation(text: str) -> tuple[Any, ...]:
    """`(32,(8,2,2):(1,16,8),16)`, with `*` where a mode stays as it is."""
    parts, depth, word = [], 0, ""
    for letter in text[1:-1] + ",":
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append(None if word == "*" else read_tiler(word))
            word = ""
        else:
            word += letter
    return tuple(parts)


def _mma(name: str, atom_layout: str, permutation: str) -> tv.MmaTiling:
    row = _ATOMS["our_mma"](name)
    return tv.MmaTiling(
        row.shape_mnk,
        row.thr_id,
        row.layout_a,
        row.layout_b,
        row.layout_c,
        _layout(atom_layout),
        _permutation(permutation),
    )


class _ByThread(dict[str, Any]):
    """Thread number -> the coordinates of its values, made when the runner asks."""

    def __init__(self, part: Any) -> None:
        super().__init__()
        self.part = part

    def __contains__(self, thread: object) -> bool:
        return True

    def __missing__(self, thread: str) -> list[tuple[int, int]]:
        layout, offset = self.part(int(thread))
        places = (add(offset, layout(i)) for i in range(min(size(layout), LISTED)))
        found = [tuple((*(p if isinstance(p, tuple) else ()), 0, 0)[:2]) for p in places]
        return [(int(m), int(n)) for m, n in found]


def _partition(which: str, part: Any) -> dict[str, Any]:
    layout, _ = part(0)
    return {
        f"partition_{which}_shape": layout.shape,
        f"partition_{which}_coords": _ByThread(part),
    }


def tiled_mma(name: str, atom_layout: str, permutation: str) -> dict[str, Any]:
    tiling = _mma(name, atom_layout, permutation)
    m, n, k = tiling.tile_mnk()
    found: dict[str, Any] = {
        "num_threads": tiling.num_threads,
        "tile_mnk": (m, n, k),
        "thr_layout_vmnk": tiling.thr_layout_vmnk,
    }
    for which, shape in {"A": (m, 2 * k), "B": (2 * n, k), "C": (2 * m, n)}.items():
        whole = make_identity_layout(shape)
        found[f"layout{which}_TV"] = tiling.tv(which)
        found |= _partition(which, lambda t, w=which, x=whole: tiling.partition(x, w, t))
    return found


def _copy(kind: str, op: str, *rest: str) -> dict[str, Any]:
    name, element = op.split(",")
    row = copy_atom(_ATOMS["our_copy_name"](name))
    sides = [
        tv.in_values(x, _BITS[element]) for x in (row.ref_layout, row.src_layout, row.dst_layout)
    ]
    if kind == "":
        tiler, layout = tv.make_layout_tv(_layout(rest[0]), _layout(rest[1]))
        tiling = tv.CopyTiling(tiler, layout, *sides)
    elif kind == "C_atom":
        tiling = tv.CopyTiling(*tv.c_atom_tiling(sides[1], _mma(*rest)), *sides)
    else:
        mma = _mma(*rest)
        i, j = mma.axes(kind)
        tile = mma.tile_mnk()
        tiling = tv.CopyTiling((tile[i], tile[j]), mma.tv(kind), *sides)
    m, n = tv.tile_size(tiling.tiler)
    whole = make_identity_layout((2 * m, n))
    found: dict[str, Any] = {
        "num_threads": tiling.num_threads,
        "layout_TV": tiling.layout_tv,
        "layoutS_TV": tiling.tv(tiling.src),
        "layoutD_TV": tiling.tv(tiling.dst),
    }
    for which, side in (("S", tiling.src), ("D", tiling.dst)):
        found |= _partition(which, lambda t, s=side: tiling.partition(whole, s, t))
    return found


TILED: dict[str, Any] = {
    "tiled_mma": tiled_mma,
    **{
        "tiled_copy" + (f"_{kind}" if kind else ""): (lambda *args, k=kind: _copy(k, *args))
        for kind in ("", "A", "B", "C", "C_atom")
    },
}
