"""Prints attributes and locations; debug information becomes aliases in front of the text."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tilewright.ir.core import Attribute
from tilewright.ir.tile_attrs import (
    PREDICATES,
    ArrayAttr,
    DenseAttr,
    HintsAttr,
    RawAttr,
    SymbolAttr,
    TypeAttr,
    TypedAttr,
)
from tilewright.ir.tile_debug import (
    CallSiteLoc,
    DICompileUnit,
    DIFile,
    DILexicalBlock,
    DILoc,
    DISubprogram,
    FileLoc,
    FusedLoc,
    NameLoc,
    UnknownLoc,
)
from tilewright.ir.tile_types import DIALECT, ForeignType, TileType, spelled
from tilewright.tileir.literals import dense_text
from tilewright.tileir.read_attrs import EnumValue
from tilewright.tileir.source import escape, key_text, symbol_text


def attribute_text(value: Any) -> str:
    """An attribute in MLIR's notation."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, ArrayAttr):
        return str(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(map(attribute_text, value)) + "]"
    if isinstance(value, dict):
        return dictionary_text(value)
    if isinstance(value, EnumValue):
        return f"#{DIALECT}.{value.mnemonic}<{value.value}>"
    if isinstance(value, HintsAttr):
        shown = [f"{key_text(arch)} = {_pairs_text(pairs)}" for arch, pairs in value.by_arch]
        return f"#{DIALECT}.optimization_hints<{', '.join(shown)}>"
    if isinstance(value, PREDICATES):
        return f"#{DIALECT}.{value}"
    if isinstance(value, TypedAttr) and isinstance(value.type, ForeignType):
        return value.text
    if isinstance(value, DenseAttr):
        return f"dense<{dense_text(value)}> : {spelled(value.type)}"
    if isinstance(value, SymbolAttr):
        return symbol_text(value.name)
    assert isinstance(value, TypedAttr | TypeAttr | RawAttr), f"{value!r} has no notation"
    return str(value)


def dense_operand_text(value: DenseAttr) -> str:
    """A constant's elements: `<f32: [1.0, 2.0]>`."""
    t = value.type
    assert isinstance(t, TileType), "a dense constant is a tile"
    return f"<{t.element}: {dense_text(value)}>"


def _pairs_text(pairs: tuple[tuple[str, int | bool | str], ...]) -> str:
    return "{" + ", ".join(f"{key_text(k)} = {attribute_text(v)}" for k, v in pairs) + "}"


def hints_text(value: Any) -> str:
    """Optimization hints as operations print them: `<sm_90 = {occupancy = 2}>`."""
    return attribute_text(value).partition("optimization_hints")[2]


def dictionary_text(items: dict[str, Any]) -> str:
    """`{name = attribute, flag}`."""
    shown = [
        key_text(k) if v is True else f"{key_text(k)} = {attribute_text(v)}"
        for k, v in items.items()
    ]
    return "{" + ", ".join(shown) + "}"


_DI = f"#{DIALECT}.di_"


class LocationPrinter:
    """Prints locations; `lines` are the aliases that they use, in the order of their needs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[Attribute, str] = {}
        self._counts: Counter[str] = Counter()

    def location(self, location: Attribute) -> str:
        """`loc(...)`."""
        return f"loc({self._place(location)})"

    def _place(self, location: Attribute) -> str:
        if isinstance(location, FileLoc):
            return f"{escape(location.file)}:{location.line}:{location.column}"
        if isinstance(location, NameLoc):
            known = not isinstance(location.child, UnknownLoc)
            child = f"({self._place(location.child)})" if known else ""
            return escape(location.name) + child
        if isinstance(location, CallSiteLoc):
            return f"callsite({self._inner(location.callee)} at {self._inner(location.caller)})"
        if isinstance(location, FusedLoc):
            why = location.metadata
            shown = "" if why is None else f"<{attribute_text(why)}>"
            return f"fused{shown}[" + ", ".join(map(self._place, location.parts)) + "]"
        return self._alias(location) if isinstance(location, DILoc) else "unknown"

    def _inner(self, location: Attribute) -> str:
        """A part of a call site; call sites in it, which others may share, by name."""
        return self._alias(location) if isinstance(location, CallSiteLoc) else self._place(location)

    def _alias(self, value: Attribute) -> str:
        if value not in self._names:
            stem, body = self._definition(value)
            name = f"#{stem}{self._counts[stem]}"
            self._counts[stem] += 1
            self._names[value] = name
            self.lines.append(f"{name} = {body}")
        return self._names[value]

    def _definition(self, value: Attribute) -> tuple[str, str]:
        if isinstance(value, CallSiteLoc):
            return "call", self.location(value)
        if isinstance(value, DIFile):
            return "file", f"{_DI}file<{escape(value.name)} in {escape(value.directory)}>"
        if isinstance(value, DICompileUnit):
            return "unit", f"{_DI}compile_unit<file = {self._alias(value.file)}>"
        if isinstance(value, DISubprogram):
            return "subprogram", (
                f"{_DI}subprogram<file = {self._alias(value.file)}, line = {value.line}, "
                f"name = {escape(value.name)}, linkageName = {escape(value.linkage)}, "
                f"compileUnit = {self._alias(value.unit)}, scopeLine = {value.scope_line}>"
            )
        if isinstance(value, DILexicalBlock):
            return "block", (
                f"{_DI}lexical_block<scope = {self._alias(value.scope)}, "
                f"file = {self._alias(value.file)}, line = {value.line}, column = {value.column}>"
            )
        assert isinstance(value, DILoc), f"{value!r} is no debug information"
        inner = self.location(value.loc)
        return "loc", f"{_DI}loc<{inner} in {self._alias(value.scope)}>"


def types_text(types: Any) -> str:
    """Types in generic form, in parentheses."""
    return "(" + ", ".join(map(spelled, types)) + ")"
