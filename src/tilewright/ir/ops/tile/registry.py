"""Every operation of the tile vocabulary, by mnemonic and by opcode."""

from __future__ import annotations

from tilewright.ir.core import OPS
from tilewright.ir.ops.tile import (
    arith,
    control,
    convert,
    memory,
    mma,
    module,
    shape,
    views,
)
from tilewright.ir.ops.tile.base import TileOp

FAMILIES = (arith, control, convert, memory, mma, module, shape, views)
"""Importing a family declares its operations."""

ALSO = {"fpowf": "pow"}
"""Mnemonics that another version of Tile IR uses."""

BY_MNEMONIC: dict[str, type[TileOp]] = {
    kind.name.partition(".")[2]: kind
    for kind in OPS.values()
    if issubclass(kind, TileOp) and kind.name
}
BY_OPCODE: dict[int, type[TileOp]] = {
    kind.opcode: kind for kind in BY_MNEMONIC.values() if kind.opcode >= 0
}


def operation(mnemonic: str) -> type[TileOp] | None:
    """The declaration of an operation by its name without the dialect, or None.

    >>> operation("fpowf") is operation("pow"), len(BY_OPCODE)
    (True, 105)
    """
    return BY_MNEMONIC.get(ALSO.get(mnemonic, mnemonic))
