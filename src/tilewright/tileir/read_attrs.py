"""Reads attributes: MLIR's own, Tile IR's, their aliases, and locations with debug information."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tilewright.errors import DTypeError
from tilewright.ir.core import Attribute
from tilewright.ir.tile_attrs import (
    ENUMS,
    Bounded,
    DivBy,
    HintsAttr,
    RawAttr,
    SameElements,
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
from tilewright.ir.tile_types import DIALECT, ForeignType, NumberType, TileIrType, TileType
from tilewright.tileir.extent import Extents
from tilewright.tileir.literals import number_text, pattern
from tilewright.tileir.read_literals import dense, elements
from tilewright.tileir.read_types import TypeReader
from tilewright.tileir.source import MAX_DIGITS, Cursor, Source, symbol_name

_ALIAS = re.compile(r"^[ \t]*(#[A-Za-z_\d][\w$.-]*|![A-Za-z_][\w$-]*)[ \t]*=", re.MULTILINE)
Field = tuple[str, Callable[[], Any]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EnumValue(Attribute):
    """`#cuda_tile.rounding<zero>`."""

    mnemonic: str
    value: str


class AttrReader:
    """Reads attributes at a cursor; aliases are read where they are defined, once each."""

    def __init__(self, source: Source) -> None:
        self.cursor = Cursor(source)
        self.type_aliases: dict[str, TileIrType] = {}
        self.types = TypeReader(self.cursor, self.type_aliases)
        self.places: dict[str, int] = {}
        for match in _ALIAS.finditer(source.text):
            self.places.setdefault(match[1], match.end())
        self.known: dict[str, Any] = {}
        self.open: list[str] = []
        self._extents = Extents()

    # --- aliases --------------------------------------------------------------------------------

    def alias(self, name: str, at: int) -> Any:
        """The attribute that `#name = ...` defines."""
        if name in self.known:
            return self.known[name]
        if name not in self.places:
            raise self.cursor.error(f"undefined symbol alias id '{name[1:]}'", at)
        if name in self.open:
            raise self.cursor.error(f"alias {name} is defined by itself", at)
        back = self.cursor.at if self.cursor.peek().kind == "end" else self.cursor.peek().at
        self.open.append(name)
        self.cursor.seek(self.places[name])
        self.known[name] = self._sized(self.attribute(), name, at)
        self.open.pop()
        self.cursor.seek(back)
        return self.known[name]

    def definition(self) -> None:
        """Goes past `#name = attribute` or `!name = type`."""
        token = self.cursor.next()
        self.cursor.expect("=")
        if token.kind == "type":
            t = self.types.type()
            self.type_aliases[token.text[1:]] = self._sized(t, token.text, token.at)
        elif token.text in self.known:  # used before it was defined
            self.attribute()
        else:
            self.known[token.text] = self._sized(self.attribute(), token.text, token.at)

    def _sized(self, value: T, name: str, at: int) -> T:
        if problem := self._extents.fault(value):
            raise self.cursor.error(f"alias {name}: {problem}", at)
        return value

    # --- attributes -----------------------------------------------------------------------------

    def attribute(self) -> Any:
        """One attribute as a Python value (see `ir/tile_attrs.py`)."""
        cursor = self.cursor
        token = cursor.peek()
        if token.kind == "attr":
            return self.named()
        if token.kind == "string":
            text = cursor.string()
            if cursor.accept(":"):
                self.types.type()
            return text
        if token.kind in ("int", "float") or token.text == "-":
            return self.number()
        if token.text == "[":
            return self.array()
        if token.text == "{":
            return self.dictionary()
        if token.kind == "symbol":
            return SymbolAttr(symbol_name(cursor.next().text))
        if token.kind == "word":
            return self._word()
        return TypeAttr(self.types.type())

    def _word(self) -> Any:
        cursor = self.cursor
        token = cursor.peek()
        if token.text in ("true", "false"):
            return cursor.next().text == "true"
        if token.text == "unit":
            cursor.next()
            return True
        if token.text == "loc":
            return self.location()
        if token.text == "array":
            return self._dense_array()
        if token.text == "dense":
            return self._dense_elements()
        if token.text in ("dense_resource", "sparse", "affine_map", "affine_set"):
            cursor.next()
            self.types.skip_brackets()
            if cursor.accept(":"):
                self.types.type()
            return RawAttr(cursor.text[token.at : cursor.last_end])
        return TypeAttr(self.types.type())

    def _dense_elements(self) -> Attribute:
        """`dense<[1, 2]> : !cuda_tile.tile<2xi32>`: its type says how its elements read."""
        cursor = self.cursor
        start = cursor.next()
        body = cursor.peek().end
        self.types.skip_brackets()
        cursor.expect(":")
        at = cursor.peek().at
        t = self.types.type()
        if not isinstance(t, TileType) or not isinstance(t.element, NumberType):
            return RawAttr(cursor.text[start.at : cursor.last_end])
        back = cursor.last_end
        cursor.seek(body)
        found = dense(cursor, elements(cursor, t.element), t, at)
        cursor.expect(">")
        cursor.seek(back)
        return found

    def number(self) -> TypedAttr:
        """`-1 : i32`, `0.0 : f32`; the type may be left out."""
        cursor = self.cursor
        sign = "-" if cursor.accept("-") else ""
        token = cursor.peek()
        if token.kind not in ("int", "float"):
            raise cursor.error("expected integer or floating point literal")
        if token.kind == "int" and len(token.text) > MAX_DIGITS:
            raise cursor.error(f"integer value has more than {MAX_DIGITS} digits")
        cursor.next()
        t: TileIrType = ForeignType("i64" if token.kind == "int" else "f64")
        if cursor.accept(":"):
            t = self.types.type()
        if isinstance(t, NumberType):
            try:
                bits = pattern(sign + token.text, t)
            except DTypeError as problem:
                raise cursor.error(problem.message, token.at) from None
            return TypedAttr(number_text(bits, t), t)
        return TypedAttr(sign + token.text, t)

    def array(self) -> tuple[Any, ...]:
        """`[a, b]`."""
        self.cursor.expect("[")
        found: list[Any] = []
        while not self.cursor.is_next("]") or found:
            found.append(self.attribute())
            if not self.cursor.accept(","):
                break
        self.cursor.expect("]")
        return tuple(found)

    def _dense_array(self) -> tuple[int | bool, ...]:
        cursor = self.cursor
        cursor.next()
        cursor.expect("<")
        self.types.type()
        found: list[int | bool] = []
        if cursor.accept(":"):
            while not cursor.is_next(">") or not found:
                if cursor.peek().text in ("true", "false"):
                    found.append(cursor.next().text == "true")
                else:
                    found.append(cursor.integer())
                if not cursor.accept(","):
                    break
        cursor.expect(">")
        return tuple(found)

    def dictionary(self) -> dict[str, Any]:
        """`{name = attribute, flag}`."""
        cursor = self.cursor
        cursor.expect("{")
        found: dict[str, Any] = {}
        while not cursor.is_next("}") or found:
            token = cursor.peek()
            if token.kind not in ("word", "string"):
                raise cursor.error("expected attribute name")
            name = cursor.string() if token.kind == "string" else cursor.next().text
            if name in found:
                raise cursor.error(f"duplicate key '{name}' in dictionary attribute", token.at)
            found[name] = self.attribute() if cursor.accept("=") else True
            if not cursor.accept(","):
                break
        cursor.expect("}")
        return found

    def named(self) -> Any:
        """`#alias`, `#cuda_tile.name<...>`, or another dialect's attribute."""
        cursor = self.cursor
        token = cursor.next()
        name = token.text[1:]
        dialect, _, mnemonic = name.partition(".")
        if not mnemonic or token.text in self.places:
            return self.alias(token.text, token.at)
        if dialect != DIALECT:
            if cursor.is_next("<"):
                self.types.skip_brackets()
            return RawAttr(cursor.text[token.at : cursor.last_end])
        return self.tile_attribute(mnemonic, token.at)

    def tile_attribute(self, mnemonic: str, at: int) -> Any:
        """The rest of `#cuda_tile.mnemonic<...>`."""
        if mnemonic in ENUMS:
            self.cursor.expect("<")
            token = self.cursor.peek()
            if token.text not in ENUMS[mnemonic].values:
                listed = ", ".join(ENUMS[mnemonic].values)
                raise self.cursor.error(f"expected {mnemonic} to be one of: {listed}")
            self.cursor.next()
            self.cursor.expect(">")
            return EnumValue(mnemonic, token.text)
        if mnemonic == "optimization_hints":
            return self.hints()
        reader = {
            "div_by": self._div_by,
            "same_elements": self._same_elements,
            "bounded": self._bounded,
            "di_file": self.di_file,
            "di_compile_unit": self.di_compile_unit,
            "di_subprogram": self.di_subprogram,
            "di_lexical_block": self.di_lexical_block,
            "di_loc": self.di_loc,
        }.get(mnemonic)
        if reader is None:
            raise self.cursor.error(f"unknown attribute {DIALECT}.{mnemonic}", at)
        return reader()

    # --- predicates and hints -------------------------------------------------------------------

    def _div_by(self) -> DivBy:
        cursor = self.cursor
        cursor.expect("<")
        divisor = cursor.integer()
        every = along = None
        if cursor.accept(","):
            cursor.expect("every")
            every = cursor.integer()
            cursor.expect("along")
            along = cursor.integer()
        cursor.expect(">")
        return DivBy(divisor, every, along)

    def _same_elements(self) -> SameElements:
        self.cursor.expect("<")
        extents = self.types.integers()
        self.cursor.expect(">")
        return SameElements(extents)

    def _bounded(self) -> Bounded:
        cursor = self.cursor
        cursor.expect("<")
        bounds = []
        for ending in (",", ">"):
            at = cursor.peek().at
            bounds.append(None if cursor.accept("?") else cursor.integer())
            bound = bounds[-1]
            if bound is not None and not -(1 << 63) <= bound < 1 << 63:
                raise cursor.error("integer value does not fit 64 bits", at)
            cursor.expect(ending)
        return Bounded(bounds[0], bounds[1])

    def hints(self) -> HintsAttr:
        """`<sm_90 = {occupancy = 2}, ...>`."""
        cursor = self.cursor
        cursor.expect("<")
        found: list[tuple[str, tuple[tuple[str, int | bool | str], ...]]] = []
        while not cursor.is_next(">") or found:
            token = cursor.peek()
            if token.kind not in ("word", "string"):
                raise cursor.error("expected valid keyword or string")
            arch = cursor.string() if token.kind == "string" else cursor.next().text
            cursor.expect("=")
            found.append((arch, tuple((k, _hint(v)) for k, v in self.dictionary().items())))
            if not cursor.accept(","):
                break
        cursor.expect(">")
        return HintsAttr(tuple(found))

    # --- locations and debug information --------------------------------------------------------

    def location(self) -> Attribute:
        """`loc(...)`."""
        self.cursor.expect("loc")
        self.cursor.expect("(")
        found = self._place()
        self.cursor.expect(")")
        return found

    def _place(self) -> Attribute:
        cursor = self.cursor
        token = cursor.peek()
        if cursor.accept("unknown"):
            return UnknownLoc()
        if token.kind == "attr":
            return self._location_of(self.named(), token.at)
        if token.kind == "string":
            name = cursor.string()
            if cursor.accept(":"):
                line = cursor.integer()
                cursor.expect(":")
                return FileLoc(name, line, cursor.integer())
            child: Attribute = UnknownLoc()
            if cursor.accept("("):
                child = self._place()
                cursor.expect(")")
            return NameLoc(name, child)
        if cursor.accept("callsite"):
            cursor.expect("(")
            callee = self._place()
            cursor.expect("at")
            caller = self._place()
            cursor.expect(")")
            return CallSiteLoc(callee, caller)
        if cursor.accept("fused"):
            return self._fused()
        if cursor.is_next("loc"):
            return self.location()
        raise cursor.error("expected location instance")

    def _fused(self) -> FusedLoc:
        cursor = self.cursor
        metadata = None
        if cursor.accept("<"):
            metadata = self.attribute()
            cursor.expect(">")
        cursor.expect("[")
        parts = [self._place()]
        while cursor.accept(","):
            parts.append(self._place())
        cursor.expect("]")
        return FusedLoc(tuple(parts), metadata)

    def _location_of(self, found: Any, at: int) -> Attribute:
        if not isinstance(found, UnknownLoc | FileLoc | NameLoc | CallSiteLoc | FusedLoc | DILoc):
            raise self.cursor.error("expected location instance", at)
        return found

    def _elided(self, read: Callable[[], Any], kind: type, mnemonic: str) -> Any:
        """An attribute that may stand without its `#cuda_tile.mnemonic`."""
        if self.cursor.is_next("<"):
            return read()
        at = self.cursor.peek().at
        found = self.attribute()
        if not isinstance(found, kind):
            raise self.cursor.error(f"expected a {DIALECT}.{mnemonic}", at)
        return found

    def _struct(self, fields: list[Field]) -> list[Any]:
        cursor = self.cursor
        cursor.expect("<")
        readers, found = dict(fields), dict[str, Any]()
        while not cursor.is_next(">") or found:
            token = cursor.take("word", "valid keyword")
            if token.text not in readers or token.text in found:
                raise cursor.error(f"duplicate or unknown struct parameter: {token.text}", token.at)
            cursor.expect("=")
            found[token.text] = readers[token.text]()
            if not cursor.accept(","):
                break
        for name in readers:
            if name not in found:
                raise cursor.error(f"struct is missing required parameter: {name}")
        cursor.expect(">")
        return [found[name] for name in readers]

    def di_file(self) -> DIFile:
        self.cursor.expect("<")
        name = self.cursor.string()
        self.cursor.expect("in")
        directory = self.cursor.string()
        self.cursor.expect(">")
        return DIFile(name, directory)

    def _file(self) -> DIFile:
        found: DIFile = self._elided(self.di_file, DIFile, "di_file")
        return found

    def di_compile_unit(self) -> DICompileUnit:
        return DICompileUnit(*self._struct([("file", self._file)]))

    def _unit(self) -> Any:
        return self._elided(self.di_compile_unit, DICompileUnit, "di_compile_unit")

    def di_subprogram(self) -> DISubprogram:
        number, text = self.cursor.integer, self.cursor.string
        return DISubprogram(
            *self._struct(
                [
                    ("file", self._file),
                    ("line", number),
                    ("name", text),
                    ("linkageName", text),
                    ("compileUnit", self._unit),
                    ("scopeLine", number),
                ]
            )
        )

    def _scope(self) -> Any:
        at = self.cursor.peek().at
        found = self.attribute()
        if not isinstance(found, DISubprogram | DILexicalBlock):
            raise self.cursor.error("expected a debug info scope", at)
        return found

    def di_lexical_block(self) -> DILexicalBlock:
        number = self.cursor.integer
        return DILexicalBlock(
            *self._struct(
                [
                    ("scope", self._scope),
                    ("file", self._file),
                    ("line", number),
                    ("column", number),
                ]
            )
        )

    def di_loc(self) -> DILoc:
        self.cursor.expect("<")
        place = self._place()
        self.cursor.expect("in")
        scope = self._scope()
        self.cursor.expect(">")
        return DILoc(place, scope)


def _hint(value: Any) -> int | bool | str:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, TypedAttr):
        try:
            return int(value.text, 0)
        except ValueError:
            return value.text
    return str(value)
