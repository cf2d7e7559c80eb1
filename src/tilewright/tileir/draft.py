"""An operation while its text is read: what is known of its operands, types and attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilewright.ir.core import Block, Constraint
from tilewright.ir.ops.tile.base import I1_0, I32_0, TOKENS, TileOp
from tilewright.ir.tile_types import NUMBERS, TOKEN, TileIrType, TileType

BUILDABLE: dict[Constraint, TileIrType] = {
    TOKENS: TOKEN,
    I1_0: TileType((), NUMBERS["i1"]),
    I32_0: TileType((), NUMBERS["i32"]),
}
"""Constraints that only one type meets, which the text may leave out."""


@dataclass(frozen=True, slots=True)
class Use:
    """A value's name where it is used."""

    name: str
    at: int


@dataclass
class Draft:
    """`bound` is how many results the text names."""

    kind: type[TileOp]
    at: int
    bound: int
    operands: dict[str, list[Use]] = field(default_factory=dict)
    types: dict[str, list[TileIrType]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    regions: list[Block] = field(default_factory=list)

    def types_for(self, label: str, count: int, constraint: Constraint) -> list[TileIrType] | None:
        """The types of `count` values of a field, from the text, a like field, or none other."""
        if label in self.types:
            return self.types[label]
        for labels in self.kind.alike:
            if label in labels:
                known = next((self.types[other] for other in labels if self.types.get(other)), None)
                if known is not None:
                    return known[:1] * count
        if constraint in BUILDABLE:
            return [BUILDABLE[constraint]] * count
        return None
