"""Reads types: Tile IR's own, with or without `!cuda_tile.`, and other dialects' as they stand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tilewright.ir.tile_types import (
    DIALECT,
    NUMBERS,
    PADDINGS,
    PTR_ATTRS,
    TOKEN,
    ForeignType,
    FunctionType,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileIrType,
    TileType,
    fault,
    spelled,
)
from tilewright.tileir.source import Cursor

_EXTENT = re.compile(r"\s*(\d{1,40}|\?)\s*x(?!\s*=)")
_BUILTIN = re.compile(
    r"(?:[su]?i\d+|[fb]f?\d\w*|tf32|index|none|tensor|vector|memref|complex|tuple)$"
)
_CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}


class TypeReader:
    """Reads types at a cursor.  `aliases` are the text's `!name = type` lines."""

    def __init__(self, cursor: Cursor, aliases: Mapping[str, TileIrType]) -> None:
        self.cursor = cursor
        self.aliases = aliases
        self.readers: dict[str, Callable[[int], TileIrType]] = {
            "tile": self._tile,
            "ptr": self._pointer,
            "tensor_view": self._tensor_view,
            "partition_view": self._partition_view,
            "strided_view": self._strided_view,
            "gather_scatter_view": self._gather_scatter_view,
            "token": lambda _: TOKEN,
        }

    def type(self) -> TileIrType:
        """One type, or `(types) -> types`."""
        token = self.cursor.peek()
        if token.kind == "type":
            return self._dialect_type()
        if token.text == "(":
            return self._function()
        if token.kind != "word":
            raise self.cursor.error("expected valid keyword")
        if token.text in NUMBERS:
            return NUMBERS[self.cursor.next().text]
        name = token.text.removeprefix(f"{DIALECT}.")
        if name in self.readers:
            self.cursor.next()
            return self._checked(self.readers[name](token.at), token.at)
        if _BUILTIN.match(token.text):
            return self._foreign()
        raise self.cursor.error(f"unknown type: {token.text}")

    def types(self) -> list[TileIrType]:
        """One or more types, with commas between."""
        found = [self.type()]
        while self.cursor.accept(","):
            found.append(self.type())
        return found

    def _checked(self, t: TileIrType, at: int) -> TileIrType:
        if problem := fault(t):
            raise self.cursor.error(problem, at)
        return t

    def _dialect_type(self) -> TileIrType:
        token = self.cursor.peek()
        name = token.text[1:]
        if name in self.aliases:
            self.cursor.next()
            return self.aliases[name]
        dialect, _, mnemonic = name.partition(".")
        if dialect == DIALECT:
            if mnemonic not in self.readers:
                raise self.cursor.error(f"unknown type: {name}")
            self.cursor.next()
            return self._checked(self.readers[mnemonic](token.at), token.at)
        if not mnemonic:
            raise self.cursor.error(f"undefined symbol alias id '{name}'")
        return self._foreign()

    def _foreign(self) -> TileIrType:
        start = self.cursor.next()
        if self.cursor.is_next("<") and self.cursor.peek().at == start.end:
            self.skip_brackets()
        return ForeignType(self.cursor.text[start.at : self.cursor.last_end])

    def skip_brackets(self) -> None:
        """Goes past a balanced `<...>`, `(...)`, `[...]` or `{...}`."""
        cursor = self.cursor
        closing = [_CLOSING[cursor.next().text]]
        while closing:
            token = cursor.next()
            if token.kind == "end":
                raise cursor.error(f"expected '{closing[-1]}'", token.at)
            if token.text in _CLOSING:
                closing.append(_CLOSING[token.text])
            elif token.text == closing[-1]:
                closing.pop()

    def _function(self) -> FunctionType:
        inputs = self.parenthesised()
        self.cursor.expect("->")
        outputs = self.parenthesised() if self.cursor.is_next("(") else (self.type(),)
        return FunctionType(inputs, outputs)

    def parenthesised(self) -> tuple[TileIrType, ...]:
        """`(types)`, perhaps none."""
        self.cursor.expect("(")
        found = [] if self.cursor.is_next(")") else self.types()
        self.cursor.expect(")")
        return tuple(found)

    def _extents(self) -> tuple[int | None, ...]:
        """`4x?x2x`: the extents before an element type."""
        cursor = self.cursor
        found: list[int | None] = []
        at = cursor.last_end
        while match := _EXTENT.match(cursor.text, at):
            found.append(None if match[1] == "?" else int(match[1]))
            at = match.end()
        if found:
            cursor.seek(at)
        return tuple(found)

    def _tile(self, at: int) -> TileIrType:
        self.cursor.expect("<")
        shape = self._extents()
        if None in shape:
            raise self.cursor.error("expected static shape", at)
        element = self.type()
        self.cursor.expect(">")
        return TileType(tuple(extent or 0 for extent in shape), element)

    def _pointer(self, at: int) -> TileIrType:
        del at
        self.cursor.expect("<")
        pointee = self.type()
        attr = self._ptr_attr() if self.cursor.accept(",") else ""
        self.cursor.expect(">")
        return PointerType(pointee, attr)

    def _ptr_attr(self) -> str:
        """`<none>`, or `#cuda_tile.ptr_attr<none>`."""
        cursor = self.cursor
        if cursor.peek().text == f"#{DIALECT}.ptr_attr":
            cursor.next()
        cursor.expect("<")
        name = cursor.peek().text
        if name not in PTR_ATTRS:
            raise cursor.error(f"expected ptr_attr to be one of: {', '.join(PTR_ATTRS)}")
        cursor.next()
        cursor.expect(">")
        return name

    def _tensor_view(self, at: int) -> TileIrType:
        del at
        cursor = self.cursor
        cursor.expect("<")
        shape = self._extents()
        element = self.type()
        strides: tuple[int | None, ...] = ()
        more = cursor.accept(",")
        if shape or (more and cursor.is_next("strides")):
            if not cursor.accept("strides"):
                raise cursor.error("expected 'strides'")
            cursor.expect("=")
            strides = self._strides()
            more = cursor.accept(",")
        attr = self._ptr_attr() if more else ""
        cursor.expect(">")
        return TensorViewType(element, shape, strides, attr)

    def _strides(self) -> tuple[int | None, ...]:
        cursor = self.cursor
        cursor.expect("[")
        found: list[int | None] = []
        while not cursor.is_next("]") or found:
            start = cursor.peek().at
            if cursor.accept("?"):
                found.append(None)
            else:
                value = cursor.integer("either 64-bit integer or question mark")
                if value <= 0:
                    raise cursor.error(f"expected strictly positive integer, got {value}", start)
                found.append(value)
            if not cursor.accept(","):
                break
        cursor.expect("]")
        return tuple(found)

    def integers(self) -> tuple[int, ...]:
        """`[1, 0]`."""
        cursor = self.cursor
        cursor.expect("[")
        found: list[int] = []
        while not cursor.is_next("]") or found:
            found.append(cursor.integer())
            if not cursor.accept(","):
                break
        cursor.expect("]")
        return tuple(found)

    def _box(self) -> tuple[int, ...]:
        """`tile=(4x2)`."""
        cursor = self.cursor
        cursor.expect("tile")
        cursor.expect("=")
        cursor.expect("(")
        extents = [extent or 0 for extent in self._extents()]
        if extents or cursor.peek().kind == "int":
            extents.append(cursor.integer())
        cursor.expect(")")
        return tuple(extents)

    def _padding(self) -> str:
        cursor = self.cursor
        if not cursor.accept("padding_value"):
            return ""
        cursor.expect("=")
        if cursor.peek().text not in PADDINGS:
            listed = ", ".join(PADDINGS)
            raise cursor.error(f"expected padding_value to be one of: {listed}")
        name = cursor.next().text
        cursor.expect(",")
        return name

    def _viewed(self) -> TensorViewType:
        at = self.cursor.peek().at
        t = self.type()
        if not isinstance(t, TensorViewType):
            raise self.cursor.error(f"expected 'tensor_view' type, but got '{spelled(t)}'", at)
        return t

    def _dim_map(self, rank: int) -> tuple[int, ...]:
        cursor = self.cursor
        if not cursor.accept(","):
            return tuple(range(rank))
        cursor.expect("dim_map")
        cursor.expect("=")
        return self.integers()

    def _partition_view(self, at: int) -> TileIrType:
        del at
        cursor = self.cursor
        cursor.expect("<")
        tile = self._box()
        cursor.expect(",")
        padding = self._padding()
        view = self._viewed()
        dim_map = self._dim_map(len(tile))
        cursor.expect(">")
        return PartitionViewType(tile, view, padding, dim_map)

    def _strided_view(self, at: int) -> TileIrType:
        del at
        cursor = self.cursor
        cursor.expect("<")
        tile = self._box()
        cursor.expect(",")
        cursor.expect("traversal_strides")
        cursor.expect("=")
        steps = self.integers()
        cursor.expect(",")
        padding = self._padding()
        view = self._viewed()
        dim_map = self._dim_map(len(tile))
        cursor.expect(">")
        return StridedViewType(tile, view, padding, steps, dim_map)

    def _gather_scatter_view(self, at: int) -> TileIrType:
        del at
        cursor = self.cursor
        cursor.expect("<")
        tile = self._box()
        cursor.expect(",")
        padding = self._padding()
        view = self._viewed()
        cursor.expect(",")
        cursor.expect("sparse_dim")
        cursor.expect("=")
        sparse_dim = cursor.integer()
        cursor.expect(">")
        return GatherScatterViewType(tile, view, padding, sparse_dim)
