"""Every operation has its meaning."""

from __future__ import annotations

from tilewright.ir.ops.tile.registry import BY_OPCODE
from tilewright.tileir.interpret.table import FAMILIES, TABLE


def test_every_operation_is_interpreted() -> None:
    assert len(BY_OPCODE) == 105
    assert not set(BY_OPCODE.values()) - set(TABLE)


def test_no_operation_belongs_to_two_families() -> None:
    assert len(TABLE) == sum(len(family.TABLE) for family in FAMILIES)
