"""Comparison of tiles in one type: the operations, without promotion."""

from __future__ import annotations

from tilewright.ir.ops.tile.arith import CmpF, CmpI
from tilewright.ir.tile_types import NUMBERS, TileType
from tilewright.lang.tile.dtypes import bool_
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.state import value
from tilewright.lang.tile.values import Tile, strict

PREDICATES = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less_than",
    "le": "less_than_or_equal",
    "gt": "greater_than",
    "ge": "greater_than_or_equal",
}


def compared(name: str, x: Tile, y: Tile) -> Tile:
    """`x name y` for tiles of one type: false where an operand is NaN, but `ne` is true there."""
    out = TileType(x.shape_, NUMBERS["i1"])
    predicate = PREDICATES[name]
    if x.dtype_.is_float:
        if x.dtype_.tile_ir not in _COMPARED:
            raise TileTypeError(f"{x.dtype_} cannot be compared", hint="convert with ct.astype")
        ordering = "unordered" if name == "ne" else "ordered"
        made = value(
            CmpF,
            (x.ir, y.ir),
            out,
            comparison_predicate=predicate,
            comparison_ordering=ordering,
        )
    else:
        made = value(
            CmpI,
            (x.ir, y.ir),
            out,
            comparison_predicate=predicate,
            signedness=x.dtype_.signedness,
        )
    return Tile(made, bool_, x.shape_)


_COMPARED = ("f16", "bf16", "f32", "f64")


def unequal_to_zero(x: Tile) -> Tile:
    """`x != 0` elementwise: the truth of numbers."""
    return compared("ne", x, strict(0, x.dtype_, x.shape_))
