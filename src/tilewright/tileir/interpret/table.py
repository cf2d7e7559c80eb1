"""Every operation of Tile IR and the function that compiles it."""

from __future__ import annotations

from tilewright.ir.ops.tile.base import TileOp
from tilewright.tileir.interpret import (
    atomic_ops,
    combine_ops,
    control_ops,
    convert_ops,
    float_ops,
    int_ops,
    misc_ops,
    mma_ops,
    module_ops,
    pointer_ops,
    shape_ops,
    view_ops,
)
from tilewright.tileir.interpret.scope import Compile

FAMILIES = (
    atomic_ops,
    combine_ops,
    control_ops,
    convert_ops,
    float_ops,
    int_ops,
    misc_ops,
    mma_ops,
    module_ops,
    pointer_ops,
    shape_ops,
    view_ops,
)

TABLE: dict[type[TileOp], Compile] = {
    kind: compile_op for family in FAMILIES for kind, compile_op in family.TABLE.items()
}
