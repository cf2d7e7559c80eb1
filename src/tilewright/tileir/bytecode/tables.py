"""The tables that a bytecode file refers to by index, while they are being filled."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import Loc, VerifyError
from tilewright.ir.core import Attribute
from tilewright.ir.ops.tile.base import Version
from tilewright.ir.ops.tile.versions import type_needs
from tilewright.ir.tile_attrs import DenseAttr
from tilewright.ir.tile_debug import (
    CallSiteLoc,
    DICompileUnit,
    DIFile,
    DILexicalBlock,
    DILoc,
    DISubprogram,
    FileLoc,
    UnknownLoc,
)
from tilewright.ir.tile_types import (
    PADDINGS,
    PTR_ATTR_SINCE,
    PTR_ATTRS,
    FunctionType,
    GatherScatterViewType,
    NumberType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
    TokenType,
    ViewType,
    product,
    spelled,
)
from tilewright.ir.types import Type
from tilewright.tileir.bytecode import encoding as e


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file was laid out: its sections with their alignments, and its tables' entries."""

    sections: tuple[tuple[int, int], ...]
    strings: tuple[bytes, ...] = ()
    types: tuple[bytes, ...] = ()
    constants: tuple[bytes, ...] = ()
    debug: tuple[bytes, ...] = ()


DEFAULT_LAYOUT = Layout(
    (
        (e.GLOBAL, 1),
        (e.FUNC, 8),
        (e.CONSTANT, 8),
        (e.DEBUG, 8),
        (e.TYPE, 4),
        (e.PRODUCER, 1),
        (e.STRING, 4),
    )
)
"""The order in which NVIDIA's own writer puts the sections."""


class Table:
    """Distinct encodings: those given, then others in the order of their first use."""

    def __init__(self, given: tuple[bytes, ...] = (), first: int = 0) -> None:
        self.items: dict[bytes, int] = {}
        self.first = first
        for data in given:
            self.index(data)

    def index(self, data: bytes) -> int:
        """The index of an encoding, which is added if it is new."""
        return self.items.setdefault(data, len(self.items) + self.first)

    def encoded(self, width: int) -> bytes:
        """Count, padding, offsets of `width` bytes, and the encodings."""
        out = bytearray(e.varint(len(self.items)))
        out += e.padded(out, width)
        at = 0
        for item in self.items:
            out += at.to_bytes(width, "little")
            at += len(item)
        return bytes(out) + b"".join(self.items)


class Tables:
    """Strings, types, constants and debug attributes of one file."""

    def __init__(self, version: Version, layout: Layout = DEFAULT_LAYOUT) -> None:
        self.version = version
        self.loc: Loc | None = None
        """Where the operation that is being written stands in its text."""
        self.strings = Table(layout.strings)
        self.types = Table(layout.types)
        self.constants = Table(layout.constants)
        self.debug = Table(layout.debug, first=1)

    def needs(self, since: Version, what: str) -> None:
        """Refuses what the file's version cannot say."""
        if self.version < since:
            raise VerifyError(
                f"{what} requires bytecode version {since[0]}.{since[1]}+, targeting "
                f"{self.version[0]}.{self.version[1]}",
                loc=self.loc,
            )

    def string(self, text: str) -> bytes:
        """A string's index."""
        return e.varint(self.strings.index(text.encode("utf-8", "surrogateescape")))

    def type(self, t: Type) -> bytes:
        """A type's index."""
        return e.varint(self.types.index(self._type(t)))

    def types_of(self, types: list[Type] | tuple[Type, ...]) -> bytes:
        """A count and indices."""
        return e.varint(len(types)) + b"".join(map(self.type, types))

    def _type(self, t: Type) -> bytes:
        for since, what in type_needs(t):
            self.needs(since, what)
        if isinstance(t, NumberType):
            return e.varint(e.NUMBER_TAGS[t.name])
        if isinstance(t, TokenType):
            return e.varint(e.TOKEN)
        if isinstance(t, PointerType):
            flags, attr = self._ptr_attr(t.ptr_attr)
            return e.varint(e.POINTER) + flags + self.type(t.pointee) + attr
        if isinstance(t, TileType):
            return e.varint(e.TILE) + self.type(t.element) + e.integers(t.shape, 8)
        if isinstance(t, TensorViewType):
            extents = [
                e.integers([e.DYNAMIC if x is None else x for x in xs], 8)
                for xs in (t.shape, t.strides)
            ]
            flags, attr = self._ptr_attr(t.ptr_attr)
            element = self.type(t.element)
            return e.varint(e.TENSOR_VIEW) + flags + element + b"".join(extents) + attr
        if isinstance(t, FunctionType):
            return e.varint(e.FUNCTION) + self.types_of(t.inputs) + self.types_of(t.outputs)
        if isinstance(t, ViewType):
            return self._view(t)
        raise VerifyError(f"type {spelled(t)} cannot be written as bytecode")

    def _ptr_attr(self, name: str) -> tuple[bytes, bytes]:
        """What stands before and after the other fields."""
        if self.version < PTR_ATTR_SINCE:
            return b"", b""
        return e.varint(bool(name)), bytes([PTR_ATTRS.index(name)]) if name else b""

    def _view(self, t: ViewType) -> bytes:
        present = e.varint(int(bool(t.padding)))
        padding = bytes([PADDINGS.index(t.padding)]) if t.padding else b""
        tile, view = e.integers(t.tile, 4), self.type(t.view)
        if isinstance(t, PartitionViewType):
            dim_map = e.integers(t.dim_map, 4)
            if self.version >= (13, 3):
                return e.varint(e.PARTITION_VIEW) + present + tile + view + dim_map + padding
            return e.varint(e.PARTITION_VIEW) + tile + view + dim_map + present + padding
        if isinstance(t, StridedViewType):
            steps, dim_map = e.integers(t.steps, 4), e.integers(t.dim_map, 4)
            return e.varint(e.STRIDED_VIEW) + present + tile + steps + view + dim_map + padding
        assert isinstance(t, GatherScatterViewType), "there are three kinds of views"
        sparse = e.varint(t.sparse_dim)
        return e.varint(e.GATHER_SCATTER_VIEW) + present + tile + view + sparse + padding

    def constant(self, value: DenseAttr) -> bytes:
        """The index of a constant's elements."""
        t = value.type
        assert isinstance(t, TileType), "a dense constant is a tile"
        assert isinstance(t.element, NumberType), "a dense constant holds numbers"
        data = dense_bytes(value.bits, t.element, product(t.shape))
        return e.varint(self.constants.index(e.varint(len(data)) + data))

    # --- debug information ----------------------------------------------------------------------

    def location(self, location: Attribute | None) -> int:
        """The index of a location; 0 where there is none to keep."""
        if location is None or isinstance(location, UnknownLoc):
            return 0
        if isinstance(location, DILoc):
            return self._debug(location)
        if isinstance(location, CallSiteLoc):
            callee, caller = self.location(location.callee), self.location(location.caller)
            data = e.varint(e.D_CALL_SITE) + e.varint(callee) + e.varint(caller)
            return self.debug.index(data)
        if isinstance(location, FileLoc):
            return 0
        name = type(location).__name__
        raise VerifyError(f"unsupported location, got {name}, expected DILocAttr or CallSiteLoc")

    def _debug(self, value: Attribute) -> int:
        n = e.varint
        if isinstance(value, DIFile):
            data = n(e.D_FILE) + self.string(value.name) + self.string(value.directory)
        elif isinstance(value, DICompileUnit):
            data = n(e.D_UNIT) + n(self._debug(value.file))
        elif isinstance(value, DISubprogram):
            file, unit = n(self._debug(value.file)), n(self._debug(value.unit))
            names = self.string(value.name) + self.string(value.linkage)
            data = n(e.D_SUBPROGRAM) + file + n(value.line) + names + unit + n(value.scope_line)
        elif isinstance(value, DILexicalBlock):
            scope, file = n(self._debug(value.scope)), n(self._debug(value.file))
            data = n(e.D_BLOCK) + scope + file + n(value.line) + n(value.column)
        else:
            assert isinstance(value, DILoc), f"{value!r} is no debug information"
            place = value.loc
            if not isinstance(place, FileLoc):
                raise VerifyError("a di_loc needs a file, line and column to be written")
            scope = n(self._debug(value.scope))
            where = self.string(place.file) + n(place.line) + n(place.column)
            data = n(e.D_LOC) + scope + where
        return self.debug.index(data)


def dense_bytes(bits: tuple[int, ...], t: NumberType, count: int) -> bytes:
    """The elements in memory order; i1 is packed eight to a byte, one element fills a tile."""
    if t.name != "i1":
        pad = t.row.pad_bits
        width = (t.written_bits + 7) // 8
        return b"".join((v >> pad).to_bytes(width, "little") for v in bits)
    if len(bits) == 1:
        return b"\xff" if bits[0] and count > 1 else bytes(bits)
    packed = bytearray((count + 7) // 8)
    for i, bit in enumerate(bits):
        packed[i // 8] |= bit << (i % 8)
    return bytes(packed)
