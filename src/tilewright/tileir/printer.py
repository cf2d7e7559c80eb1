"""Prints Tile IR: its own form, from the declarations, or MLIR's generic form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.ir.core import Attribute, Block, Op, Value
from tilewright.ir.ops.tile.base import Argument, TileOp, dicts_attr, enum_attr, flag, hints_attr
from tilewright.ir.ops.tile.module import Entry, Module, TestingFunc
from tilewright.ir.tile_attrs import (
    ATOMIC_MODE,
    MEMORY_ORDER,
    MEMORY_SCOPE,
    ArrayAttr,
    EnumTable,
    TypedAttr,
)
from tilewright.ir.tile_types import NUMBERS, spelled
from tilewright.tileir.assembly import Directive, Element, Field, Group, Literal, elements_of
from tilewright.tileir.foreign import ForeignOp, shown_name
from tilewright.tileir.print_attrs import (
    LocationPrinter,
    dictionary_text,
    hints_text,
    types_text,
)
from tilewright.tileir.print_directives import PRINTERS, TextPrinter
from tilewright.tileir.read_attrs import EnumValue
from tilewright.tileir.source import escape

_UNSAFE = re.compile(r"[^\w$.-]")


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """`generic` prints MLIR's generic form, `prefix` the dialect before every operation."""

    generic: bool = False
    locations: bool = False
    prefix: bool = False


DEFAULT = PrintOptions()


def print_text(block: Block, options: PrintOptions = DEFAULT) -> str:
    """The operations at the top of a text, as text.

    >>> from tilewright.tileir.reader import parse
    >>> text = "cuda_tile.module @m { entry @k(%a: tile<f32>) { %b = addf %a, %a : tile<f32> } }"
    >>> print(print_text(parse(text)), end="")
    cuda_tile.module @m {
      entry @k(%a: tile<f32>) {
        %b = addf %a, %a : tile<f32>
        return
      }
    }
    """
    printer = Printer(options)
    for op in block.ops:
        printer.op(op, 0)
    return "".join(f"{line}\n" for line in (*printer.locations.lines, *printer.lines))


class Printer(TextPrinter):
    """Prints operations line by line."""

    def __init__(self, options: PrintOptions) -> None:
        self.options = options
        self.locations = LocationPrinter()
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.scopes: list[set[str]] = [set()]
        self.numbers: list[int] = [0]
        self.depth = 0

    # --- values ---------------------------------------------------------------------------------

    def define(self, value: Value) -> str:
        """A fresh name: the value's own, with a number where it is taken."""
        taken = self.scopes[-1]
        hint = _UNSAFE.sub("_", value.name)
        name = hint
        if hint and not hint[0].isdigit():
            number = 0
            while name in taken:
                number += 1
                name = f"{hint}_{number}"
        else:
            name = str(self.numbers[-1])
            self.numbers[-1] += 1
        taken.add(name)
        self.names[value] = f"%{name}"
        return self.names[value]

    def value(self, value: Value) -> str:
        """A value's name where it is used."""
        return self.names.get(value, "%<undefined>")

    def isolate(self) -> None:
        """Begins names afresh: nothing from outside is visible inside."""
        self.scopes.append(set())
        self.numbers.append(0)

    def rejoin(self) -> None:
        """Ends what `isolate` began."""
        self.scopes.pop()
        self.numbers.pop()

    # --- operations -----------------------------------------------------------------------------

    def op(self, op: Op, depth: int) -> None:
        """One operation, over as many lines as its regions need."""
        assert isinstance(op, TileOp), f"{op.name} is not of the tile vocabulary"
        outer, self.depth = self.depth, depth
        at = len(self.lines)
        self.lines.append("")
        if self.options.generic or isinstance(op, ForeignOp):
            body = self._generic(op)
        else:
            name = op.name if self.options.prefix or not depth else op.mnemonic
            body = name + self._elements(op, elements_of(type(op)), " ")
        results = ""
        if op.results:
            results = ", ".join(self.define(v) for v in op.results) + " = "
        pad = "  " * depth
        where = self._location(op.location)
        if "\0" not in body:
            self.lines[at] = f"{pad}{results}{body}{where}"
        else:  # the regions' lines came after the first, which ends in their brace
            head, _, tail = body.partition("\0")
            self.lines[at] = f"{pad}{results}{head}"
            self.lines.append(f"{pad}{tail}{where}")
        self.depth = outer

    def placed(self, value: Value) -> str:
        """` loc(...)` of an argument, if it has a place and places are shown."""
        return self._location(value.location) if isinstance(value, Argument) else ""

    def _location(self, location: Attribute | None) -> str:
        if not self.options.locations or location is None:
            return ""
        return " " + self.locations.location(location)

    def region(self, block: Block, implied: type[TileOp] | None = None) -> None:
        """The operations of a block, one level further in; an implied terminator is left out."""
        for op in block.ops:
            ending = op is block.ops[-1] and implied is not None and type(op) is implied
            if ending and not op.operands and not self._said(op):
                continue
            self.op(op, self.depth + 1)

    def _said(self, op: Op) -> bool:
        return isinstance(op, TileOp) and bool(op.extra or self._location(op.location))

    def _elements(self, op: TileOp, elements: Sequence[Element], text: str) -> str:
        out = ""
        for element in elements:
            piece = self._element(op, element)
            if not piece:
                continue
            tight = piece[0] in ",[]" or out.endswith("[") or (piece[0] == "]")
            if isinstance(element, Group):
                tight = piece.startswith(",")
            out += piece if tight else f"{text}{piece}"
        return out

    def _element(self, op: TileOp, element: Element) -> str:
        if isinstance(element, Literal):
            if element.text == ":" and op.extra and "@attributes" not in op.assembly:
                return f"{dictionary_text(op.extra)} :"
            return element.text
        if isinstance(element, Group):
            present = op.types_of(element.anchor)
            return self._elements(op, element.elements, " ").lstrip(" ") if present else ""
        if isinstance(element, Directive):
            return PRINTERS[element.name](self, op, element.argument)
        if isinstance(element, Field):
            return self._field(op, element.label)
        return ", ".join(map(str, op.types_of(element.label)))

    def _field(self, op: TileOp, label: str) -> str:
        if any(group.label == label for group in op.GROUPS):
            found = getattr(op, label)
            values = found if isinstance(found, tuple) else (found,)
            return ", ".join(self.value(v) for v in values)
        declared, value = op.ATTRS[label], op.attrs[label]
        if isinstance(declared, enum_attr):
            if declared.style == "bracket":
                shown = f"{declared.table.mnemonic}<{value}>"
                return "" if value == declared.default else shown
            return "" if value is None else str(value)
        if isinstance(declared, flag):
            return (declared.word or label.rstrip("_")) if value else ""
        if isinstance(declared, hints_attr):
            return "" if value is None else f"optimization_hints = {hints_text(value)}"
        if isinstance(value, tuple):
            return "[" + ", ".join(map(str, value)) + "]"
        return escape(value) if isinstance(value, str) else str(value)

    # --- generic form ---------------------------------------------------------------------------

    def _generic(self, op: TileOp) -> str:
        operands = ", ".join(self.value(v) for v in op.operands)
        attrs = _generic_attributes(op)
        head = f'"{shown_name(op)}"({operands})'
        if attrs:
            head += f" <{dictionary_text(attrs)}>"
        inputs = types_text(v.type for v in op.operands)
        outputs = types_text(v.type for v in op.results)
        extra = f" {dictionary_text(op.extra)}" if op.extra else ""
        ending = f"{extra} : {inputs} -> {outputs}"
        if not op.regions:
            return head + ending
        isolated = isinstance(op, Module | Entry | TestingFunc)
        if isolated:
            self.isolate()
        for i, block in enumerate(op.regions):
            if i:
                self.lines.append("  " * self.depth + "}, {")
            if block.args:
                arguments = ", ".join(
                    f"{self.define(v)}: {spelled(v.type)}{self.placed(v)}" for v in block.args
                )
                self.lines.append("  " * self.depth + f"^bb0({arguments}):")
            self.region(block)
        if isolated:
            self.rejoin()
        return f"{head} ({{\0}}){ending}"


_NUMBERED = (MEMORY_ORDER, MEMORY_SCOPE, ATOMIC_MODE)
"""The enums that generic form stores as numbers."""


def _enum_value(table: EnumTable, name: str) -> Any:
    if table in _NUMBERED:
        return TypedAttr(str(table.values.index(name)), NUMBERS["i32"])
    return EnumValue(table.mnemonic, name)


def _generic_attributes(op: TileOp) -> dict[str, Any]:
    """The declared attributes as generic form stores them."""
    found: dict[str, Any] = {}
    for label, declared in op.ATTRS.items():
        value: Any = op.attrs[label]
        if value is None or (isinstance(declared, flag) and not value):
            continue
        if isinstance(declared, enum_attr):
            value = _enum_value(declared.table, value)
        elif isinstance(declared, dicts_attr):
            pass
        elif isinstance(value, tuple) and all(isinstance(v, int) for v in value):
            value = ArrayAttr("i1" if label == "inbounds" else "i32", value)
        elif isinstance(value, int) and not isinstance(value, bool):
            bits = getattr(declared, "bits", 64)
            value = TypedAttr(str(value), NUMBERS[f"i{bits}"])
        found[label.rstrip("_")] = value
    if op.segmented and op.segments is not None:
        found["operandSegmentSizes"] = ArrayAttr("i32", op.segments)
    return found
