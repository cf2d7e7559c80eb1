"""Operations of other dialects: kept, printed back, never looked into."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Effect, Op
from tilewright.ir.ops.tile.base import TileOp


def shown_name(op: Op) -> str:
    """The name that diagnostics give an operation."""
    return op.operation if isinstance(op, ForeignOp) else op.name


class ForeignOp(TileOp):
    """An operation in generic form whose name nobody declares."""

    __slots__ = ("operation",)

    effect = Effect.WRITE

    def __init__(self, *args: Any, operation: str, **kwargs: Any) -> None:
        self.operation = operation
        super().__init__(*args, **kwargs)
