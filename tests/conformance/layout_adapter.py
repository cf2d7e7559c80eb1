"""How the conformance runner calls `tilewright.layout`: `ADAPTER` maps its op names to ours."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import tilewright.layout as tw
from tilewright.layout.coord import dice_tuple, slice_tuple
from tilewright.layout.int_tuple import tuple_max
from tilewright.layout.leaf import add, sub


def _beside(file: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name(file)))[name]
    return found


ATOMS = _beside("atoms_adapter.py", "ATOMS")
TILED = _beside("tiled_adapter.py", "TILED")
LAYOUTS = (tw.Layout, tw.ComposedLayout)


def _unmake(x: Any) -> Any:
    return (x.shape, x.stride) if isinstance(x, tw.Layout) else None


def _partition(result: tuple[Any, Any]) -> dict[str, Any]:
    return {"layout": result[0], "offset": result[1]}


def _local_tile(layout: Any, tiler: Any, coord: Any, proj: Any = None) -> dict[str, Any]:
    return _partition(tw.local_tile(layout, tiler, coord, proj))


def _compact(fn: Any) -> Any:
    return lambda shape, start=1: fn(shape, start)


ADAPTER: dict[str, Any] = {
    "name": "tilewright",
    "make": tw.Layout,
    "unmake": _unmake,
    "call": lambda layout, c: layout(c),
    "is_layout": lambda x: isinstance(x, LAYOUTS),
    "make_composed": tw.ComposedLayout,
    "make_swizzle_fn": tw.Swizzle,
    "make_basis": tw.ScaledBasis,
    "from_basis": lambda x: (x.value, x.path) if isinstance(x, tw.ScaledBasis) else None,
    "layout_eval": lambda layout, c: layout(c),
    "swizzle_eval": lambda sw, x: sw(x),
    "coalesce": lambda layout, profile=None: tw.coalesce(layout, profile),
    "max": tuple_max,
    "compact_col_major": _compact(tw.compact_col_major),
    "compact_row_major": _compact(tw.compact_row_major),
    "get_hier_coord": lambda layout, i: layout.get_hier_coord(i),
    "get_1d_coord": lambda layout, i: layout.get_1d_coord(i),
    "slice": lambda c, x: tw.slice_(c, x) if isinstance(x, LAYOUTS) else slice_tuple(c, x),
    "dice": lambda c, x: dice_tuple(c, x),
    "increment_coord": tw.increment,
    "tuple_add": add,
    "tuple_sub": sub,
    "group_modes": lambda x, begin, end: tw.group_modes(x, begin, end),
    "select": lambda x, modes: tw.select(x, modes),
    "recast_layout": lambda x, old_bits, new_bits: tw.recast_layout(new_bits, old_bits, x),
    "upcast": lambda x, n: tw.upcast(x, n),
    "downcast": lambda x, n: tw.downcast(x, n),
    "append_to_rank": lambda x, rank: tw.append(x, tw.Layout(1, 0), rank),
    "prepend_to_rank": lambda x, rank: tw.prepend(x, tw.Layout(1, 0), rank),
    "zip": tw.zip_layout,
    "local_tile": _local_tile,
    "local_partition": lambda *a: _partition(tw.local_partition(*a)),
    "inner_partition": lambda *a: _partition(tw.inner_partition(*a)),
    "outer_partition": lambda *a: _partition(tw.outer_partition(*a)),
    **ATOMS,
    **TILED,
}
