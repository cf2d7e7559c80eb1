"""Reads operations: Tile IR's own forms, from their declarations, and MLIR's generic form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir.core import Block, Value, attr, operand
from tilewright.ir.core import optional as optional_operand
from tilewright.ir.ops.tile import control, module
from tilewright.ir.ops.tile.base import TileOp, enum_attr, flag, hints_attr, int_attr
from tilewright.ir.ops.tile.registry import operation
from tilewright.ir.tile_types import DIALECT, TileIrType
from tilewright.tileir.assembly import Directive, Element, Field, Group, Literal, elements_of
from tilewright.tileir.directives import DIRECTIVES, symbol
from tilewright.tileir.draft import Draft, Use
from tilewright.tileir.generic import GenericReader
from tilewright.tileir.read_enums import read_enum
from tilewright.tileir.source import Source
from tilewright.tileir.values import Parameter

IMPLICIT: dict[type[TileOp], type[TileOp]] = {
    module.Entry: control.Return,
    module.TestingFunc: control.Return,
    control.For: control.Continue,
    control.Loop: control.Continue,
    control.If: control.Yield,
    control.Reduce: control.Yield,
    control.Scan: control.Yield,
}
"""The terminator that a region may leave out."""

MAX_DEPTH = 64
"""How deep regions may nest."""


def parse(text: str, name: str = "<text>") -> Block:
    """The operations at the top of a Tile IR text (its modules), not yet verified.

    Raises: VerifyError with line, column and caret at the first fault.

    >>> block = parse("cuda_tile.module @m { entry @k() { } }")
    >>> [op.name for op in block.walk()]
    ['cuda_tile.module', 'cuda_tile.entry', 'cuda_tile.return']
    """
    reader = OpReader(Source(text, name))
    try:
        return reader.file()
    except RecursionError:
        raise reader.cursor.error("nested too deeply") from None


class OpReader(GenericReader):
    """Reads operations, one after the other."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.depth = 0

    def file(self) -> Block:
        """Everything up to the end of the text."""
        block = Block()
        cursor = self.cursor
        while cursor.peek().kind != "end":
            token = cursor.peek()
            if token.kind in ("attr", "type") and cursor.peek_after().text == "=":
                self.definition()
                continue
            block.ops.append(self.op())
        self.close_scope()
        return block

    # --- regions --------------------------------------------------------------------------------

    def region(self, parameters: Sequence[Parameter], owner: type[TileOp]) -> Block:
        """`{ operations }`; a terminator that may be left out is put in."""
        if self.depth >= MAX_DEPTH:
            raise self.fault(f"regions nest deeper than {MAX_DEPTH}")
        self.depth += 1
        block = Block()
        context, self.cursor.context = self.cursor.context, ""
        with self.region_scope():
            self.declare(block, parameters, self.cursor.peek().at)
            self.cursor.expect("{")
            self.operations(block, owner)
            self.cursor.expect("}")
        self.cursor.context = context
        self.depth -= 1
        return block

    def operations(self, block: Block, owner: type[TileOp] | None) -> None:
        """Operations up to `}` or a further block's label, into `block`."""
        cursor = self.cursor
        while not cursor.is_next("}") and cursor.peek().kind not in ("end", "label"):
            block.ops.append(self.op())
        terminator = IMPLICIT.get(owner) if owner else None
        empty = not block.args and not block.ops and owner in (control.Reduce, control.Scan)
        if terminator is None or empty or (block.ops and block.ops[-1].terminator):
            return
        implied = terminator()
        implied.loc = self.source.loc(cursor.peek().at)
        block.ops.append(implied)

    # --- operations -----------------------------------------------------------------------------

    def op(self) -> TileOp:
        """One operation, its results defined."""
        cursor = self.cursor
        start = cursor.peek().at
        names = self._results()
        bound = sum(count for _, count, _ in names)
        generic = cursor.peek().kind == "string"
        op = self.generic(start) if generic else self._custom(start, bound)
        op.location = self.optional_location()
        self._bind(op, names, start)
        return op

    def _results(self) -> list[tuple[str, int, int]]:
        cursor = self.cursor
        names: list[tuple[str, int, int]] = []
        while cursor.peek().kind == "value":
            token = cursor.next()
            count = 1
            if cursor.accept(":"):
                count = cursor.integer("integer number of results")
                if count < 1:
                    raise self.fault("expected named operation to have at least 1 result")
            names.append((token.text, count, token.at))
            if not cursor.accept(","):
                cursor.expect("=")
                break
        return names

    def _bind(self, op: TileOp, names: list[tuple[str, int, int]], start: int) -> None:
        bound = sum(count for _, count, _ in names)
        if names and bound != len(op.results):
            raise self.source.error(
                start,
                f"operation defines {len(op.results)} results but was provided {bound} to bind",
            )
        at = 0
        for name, count, place in names:
            self.define(name, op.results[at : at + count], place)
            at += count

    def _custom(self, start: int, bound: int) -> TileOp:
        cursor = self.cursor
        token = cursor.peek()
        mnemonic = token.text.removeprefix(f"{DIALECT}.")
        kind = operation(mnemonic) if token.kind == "word" else None
        if kind is None:
            if token.kind == "word":
                raise self.fault(f"custom op '{token.text}' is unknown")
            raise self.fault("expected operation name in quotes, or an operation of cuda_tile")
        cursor.next()
        outer, cursor.context = cursor.context, f"custom op '{kind.name}' "
        draft = Draft(kind, start, bound)
        self._elements(draft, elements_of(kind))
        op = self.build(draft)
        cursor.context = outer
        return op

    def _elements(self, draft: Draft, elements: Sequence[Element]) -> None:
        for element in elements:
            if isinstance(element, Literal):
                if element.text == ":" and self.cursor.is_next("{"):
                    draft.extra.update(self.dictionary())
                self.cursor.expect(element.text)
            elif isinstance(element, Group):
                if self._group_follows(draft, element):
                    self._elements(draft, element.elements)
            elif isinstance(element, Directive):
                DIRECTIVES[element.name](self, draft, element.argument)
            elif isinstance(element, Field):
                self._field(draft, element.label)
            elif element.many:
                self._types(draft, element.label)
            else:
                draft.types[element.label] = [self.types.type()]

    def _types(self, draft: Draft, label: str) -> None:
        at = self.cursor.peek().at
        found = self.types.types()
        count = len(draft.operands.get(label, ()))
        if len(found) != count:
            raise self.fault(
                f"number of operands and types do not match: got {count} operands and "
                f"{len(found)} types",
                at,
            )
        draft.types[label] = found

    def _group_follows(self, draft: Draft, group: Group) -> bool:
        first = group.elements[0]
        if isinstance(first, Field):
            return self.cursor.peek().kind == "value"
        second = group.elements[1]
        if isinstance(second, Field):
            assert isinstance(first, Literal), "a group begins with a word or an operand"
            after = self.cursor.peek_after()
            return self.cursor.is_next(first.text) and after.kind == "value"
        return bool(draft.operands.get(group.anchor))

    def _field(self, draft: Draft, label: str) -> None:
        for group in draft.kind.GROUPS:
            if group.label != label:
                continue
            single = isinstance(group, operand | optional_operand)
            draft.operands[label] = [self.use()] if single else self.uses()
            return
        found = self._attribute(draft, label, draft.kind.ATTRS[label])
        if found is not None:
            draft.attrs[label] = found

    def _attribute(self, draft: Draft, label: str, declared: attr[Any]) -> Any:
        cursor = self.cursor
        if isinstance(declared, enum_attr):
            weak = draft.attrs.get("memory_ordering_semantics") == "weak"
            return read_enum(cursor, label, declared, weak)
        if isinstance(declared, flag):
            return cursor.accept(declared.word or label)
        if isinstance(declared, hints_attr):
            if not cursor.accept("optimization_hints"):
                return None
            cursor.expect("=")
            return self.hints()
        if isinstance(declared, int_attr):
            return cursor.integer()
        if declared.kind is tuple:
            return self.types.integers()
        if declared.kind is str and cursor.peek().kind == "symbol":
            return symbol(self)
        return cursor.string()

    # --- from draft to operation ----------------------------------------------------------------

    def build(self, draft: Draft) -> TileOp:
        """The operation that a draft describes, its operands looked up."""
        kind = draft.kind
        values: list[Value] = []
        segments: list[int] = []
        for group in kind.GROUPS:
            uses = draft.operands.get(group.label, [])
            types = draft.types_for(group.label, len(uses), group.constraint)
            values += self._operands(group.label, uses, types)
            segments.append(len(uses))
        op = kind(
            values,
            draft.attrs,
            draft.regions or [Block() for _ in kind.REGIONS],
            self.source.loc(draft.at),
            self._result_types(draft),
            segments,
        )
        while len(op.regions) < len(kind.REGIONS):
            op.regions = (*op.regions, Block())
        op.extra = draft.extra
        return op

    def _operands(
        self, label: str, uses: Sequence[Use], types: Sequence[TileIrType] | None
    ) -> list[Value]:
        if types is None:
            if not uses:
                return []
            raise self.fault(f"the type of '{label.rstrip('_')}' does not follow from the text")
        if len(types) != len(uses):
            raise self.fault(f"{len(uses)} operands present, but expected {len(types)}")
        return [self.resolve(use, t) for use, t in zip(uses, types, strict=True)]

    def _result_types(self, draft: Draft) -> list[TileIrType]:
        kind = draft.kind
        found: list[TileIrType] = []
        for out in kind.RESULTS:
            assert out.constraint is not None, "the tile vocabulary's results have given types"
            types = draft.types_for(out.label, 1, out.constraint)
            if types is None:
                raise self.fault(f"the type of '{out.label}' does not follow from the text")
            found += types
        if kind.MORE_RESULTS is not None:
            found += draft.types.get(kind.MORE_RESULTS.label, [])
        return found
