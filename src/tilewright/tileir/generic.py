"""MLIR's generic form: `"cuda_tile.addf"(%a, %b) <{...}> ({...}) {...} : (types) -> types`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir.core import Block, Value, attr, operand, optional
from tilewright.ir.ops.tile.base import (
    TileOp,
    dicts_attr,
    enum_attr,
    flag,
    hints_attr,
    int_attr,
    maybe,
)
from tilewright.ir.ops.tile.registry import operation
from tilewright.ir.tile_attrs import HintsAttr, SymbolAttr, TypedAttr
from tilewright.ir.tile_types import DIALECT, TileIrType
from tilewright.tileir.foreign import ForeignOp
from tilewright.tileir.read_attrs import EnumValue
from tilewright.tileir.values import ValueReader

_SEGMENTS = "operandSegmentSizes"


class GenericReader(ValueReader):
    """Reads the generic form of any operation."""

    def operations(self, block: Block, owner: type[TileOp] | None) -> None:
        """Operations up to `}` or a further block's label, into `block`."""
        raise NotImplementedError("OpReader reads operations")

    def generic(self, start: int) -> TileOp:
        """One operation in generic form."""
        cursor = self.cursor
        at = cursor.peek().at
        name = cursor.string()
        prefix, _, mnemonic = name.partition(".")
        kind = operation(mnemonic) if prefix == DIALECT else None
        if kind is None and prefix == DIALECT:
            raise self.fault(f"'{name}' is not an operation of {DIALECT}", at)
        cursor.expect("(")
        uses = self.uses()
        cursor.expect(")")
        given: dict[str, Any] = {}
        if cursor.accept("<"):
            given.update(self.dictionary())
            cursor.expect(">")
        regions = self._regions(kind) if cursor.is_next("(") else []
        if cursor.is_next("{"):
            given.update(self.dictionary())
        cursor.expect(":")
        inputs = self.types.parenthesised()
        cursor.expect("->")
        outputs = self.types.parenthesised() if cursor.is_next("(") else (self.types.type(),)
        if len(inputs) != len(uses):
            raise self.fault(f"expected {len(uses)} operand types but had {len(inputs)}", start)
        values = [self.resolve(use, t) for use, t in zip(uses, inputs, strict=True)]
        if kind is None:
            op: TileOp = ForeignOp(
                values, {}, regions, self.source.loc(start), outputs, operation=name
            )
            op.extra = given
            return op
        return self._declared(kind, start, values, given, regions, outputs)

    def _declared(
        self,
        kind: type[TileOp],
        start: int,
        values: Sequence[Value],
        given: dict[str, Any],
        regions: Sequence[Block],
        outputs: Sequence[TileIrType],
    ) -> TileOp:
        segments = self._segments(kind, start, len(values), given.pop(_SEGMENTS, None))
        if len(regions) != len(kind.REGIONS):
            raise self.source.error(
                start, f"'{kind.name}' op requires {len(kind.REGIONS)} regions, got {len(regions)}"
            )
        fixed = len(kind.RESULTS)
        if len(outputs) < fixed or (len(outputs) > fixed and kind.MORE_RESULTS is None):
            raise self.source.error(
                start, f"'{kind.name}' op expected {fixed} results, got {len(outputs)}"
            )
        attrs: dict[str, Any] = {}
        for label, declared in kind.ATTRS.items():
            value = given.pop(label.rstrip("_"), None)
            if value is not None:
                attrs[label] = self._coerced(kind, label, declared, value, start)
            elif declared.default is None and not _may_lack(declared):
                raise self.source.error(
                    start, f"'{kind.name}' op requires attribute '{label.rstrip('_')}'"
                )
        op = kind(values, attrs, regions, self.source.loc(start), outputs, segments)
        op.extra = given
        return op

    def _segments(self, kind: type[TileOp], start: int, count: int, sizes: Any) -> tuple[int, ...]:
        groups = kind.GROUPS
        flexible = [g for g in groups if not isinstance(g, operand)]
        if sizes is None and len(flexible) <= 1:
            rest = count - (len(groups) - len(flexible))
            sizes = tuple(1 if isinstance(g, operand) else rest for g in groups)
            if rest < 0 or (rest and not flexible):
                wanted = len(groups) - len(flexible)
                raise self.source.error(
                    start, f"'{kind.name}' op expected {wanted} operands, but found {count}"
                )
        if sizes is None:
            raise self.source.error(start, f"'{kind.name}' op requires attribute '{_SEGMENTS}'")
        fits = len(sizes) == len(groups) and sum(sizes) == count
        fits = fits and all(
            size >= 0
            and (size == 1 or not isinstance(group, operand))
            and (size <= 1 or not isinstance(group, optional))
            for group, size in zip(groups, sizes, strict=True)
        )
        if not fits:
            raise self.source.error(
                start, f"'{kind.name}' op {_SEGMENTS} {list(sizes)} do not fit {count} operands"
            )
        return tuple(sizes)

    def _coerced(
        self, kind: type[TileOp], label: str, declared: attr[Any], value: Any, start: int
    ) -> Any:
        """A generic attribute's value as the declaration has it."""
        found = value
        if isinstance(declared, enum_attr):
            found = _enum(declared, value)
        elif isinstance(declared, int_attr):
            found = int(value.text, 0) if isinstance(value, TypedAttr) else None
        elif isinstance(declared, hints_attr):
            found = value if isinstance(value, HintsAttr) else None
        elif isinstance(declared, flag):
            found = value if isinstance(value, bool) else None
        elif declared.kind is str and isinstance(value, SymbolAttr):
            found = value.name
        elif isinstance(declared, dicts_attr):
            return self._dicts(kind, label, value, start)
        elif not isinstance(value, declared.kind):
            found = None
        if found is None:
            raise self.source.error(
                start,
                f"'{kind.name}' op attribute '{label.rstrip('_')}' failed to satisfy its "
                f"constraint: {declared.kind.__name__}",
            )
        return found

    def _dicts(
        self, kind: type[TileOp], label: str, value: Any, start: int
    ) -> tuple[dict[str, Any], ...]:
        if not isinstance(value, tuple) or not all(isinstance(one, dict) for one in value):
            raise self.source.error(
                start,
                f"'{kind.name}' op attribute '{label}' failed to satisfy constraint: Array of "
                "dictionary attributes",
            )
        return value

    # --- regions --------------------------------------------------------------------------------

    def _regions(self, owner: type[TileOp] | None) -> list[Block]:
        cursor = self.cursor
        cursor.expect("(")
        found = [self._region(owner)]
        while cursor.accept(","):
            found.append(self._region(owner))
        cursor.expect(")")
        return found

    def _region(self, owner: type[TileOp] | None) -> Block:
        cursor = self.cursor
        block = Block()
        with self.region_scope():
            cursor.expect("{")
            if cursor.peek().kind == "label":
                self._label(block)
            self.operations(block, None)
            if cursor.peek().kind == "label":
                name = owner.name if owner else "region"
                raise self.fault(f"'{name}' expects a region with 1 block")
            cursor.expect("}")
        return block

    def _label(self, block: Block) -> None:
        at = self.cursor.next().at
        if self.cursor.is_next("("):
            self.declare(block, self.parameters(), at)
        self.cursor.expect(":")


def _may_lack(declared: attr[Any]) -> bool:
    if isinstance(declared, enum_attr):
        return "scope" in declared.style
    return isinstance(declared, hints_attr | maybe)


def _enum(declared: enum_attr, value: Any) -> str | None:
    table = declared.table
    if isinstance(value, EnumValue):
        return value.value if value.value in table.values else None
    if isinstance(value, TypedAttr):
        number = int(value.text, 0) if value.text.lstrip("-").isdigit() else -1
        return table.values[number] if 0 <= number < len(table.values) else None
    return value if isinstance(value, str) and value in table.values else None
