"""Reads the sections of a bytecode file and its tables: strings, types, constants, debug."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tilewright.ir.core import Attribute
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
    NUMBERS,
    PADDINGS,
    PTR_ATTR_SINCE,
    PTR_ATTRS,
    TOKEN,
    FunctionType,
    GatherScatterViewType,
    NumberType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileIrType,
    TileType,
    ViewType,
    fault,
    product,
)
from tilewright.tileir.bytecode import encoding as e
from tilewright.tileir.bytecode.cursor import ByteCursor
from tilewright.tileir.extent import Extents

T = TypeVar("T")
_NUMBERS = {tag: NUMBERS[name] for name, tag in e.NUMBER_TAGS.items()}
_VIEWS: dict[int, type[ViewType]] = {
    e.PARTITION_VIEW: PartitionViewType,
    e.STRIDED_VIEW: StridedViewType,
    e.GATHER_SCATTER_VIEW: GatherScatterViewType,
}
_MAX_DEPTH = 100


class Sections:
    """The header and the sections of a file, each as a cursor over its payload."""

    def __init__(self, data: bytes, name: str) -> None:
        cursor = ByteCursor(data, name)
        if cursor.take(min(8, cursor.left), "the magic number") != e.MAGIC:
            raise cursor.error("not Tile IR bytecode: the magic number is missing", 0)
        self.version = (cursor.byte("the version"), cursor.byte("the version"))
        if self.version not in e.VERSIONS:
            listed = ", ".join(f"{major}.{minor}" for major, minor in e.VERSIONS)
            major, minor = self.version
            raise cursor.error(f"version {major}.{minor} is not known, expected {listed}", 8)
        cursor.take(2, "the version's tag")
        self.found: dict[int, ByteCursor] = {}
        self.order: list[tuple[int, int]] = []
        while self._section(cursor):
            pass
        if cursor.left:
            raise cursor.error(f"{cursor.left} bytes after the end of the bytecode")
        for number, what in ((e.STRING, "string"), (e.FUNC, "function")):
            if number not in self.found:
                raise cursor.error(f"the {what} section is missing")

    def _section(self, cursor: ByteCursor) -> bool:
        start = cursor.at
        head = cursor.byte("a section's number")
        number = head & 0x7F
        if number == e.END:
            return False
        if number > e.PRODUCER:
            raise cursor.error(f"section {number} is not known", start)
        if number in self.found:
            raise cursor.error(f"section {number} is there twice", start)
        length = cursor.varint("a section's length")
        if head & 0x80:
            alignment = cursor.varint("a section's alignment")
            if alignment not in (1, 2, 4, 8, 16):
                raise cursor.error(f"a section's alignment is {alignment}", start)
            cursor.align(alignment)
        else:
            alignment = 1
        self.found[number] = cursor.inner(length, f"section {number}")
        self.order.append((number, alignment))
        return True


class TableReader:
    """A table of the file: entries by index, each read once."""

    def __init__(self, cursor: ByteCursor | None, width: int, what: str) -> None:
        self.what = what
        self.starts: list[int] = []
        self.cursor = cursor
        if cursor is None:
            return
        count = cursor.count(f"the number of {what}s", width)
        base = cursor.at
        cursor.take(-base % width, "padding")
        for _ in range(count):
            start = cursor.at
            self.starts.append(int.from_bytes(cursor.take(width, "an offset"), "little"))
            if len(self.starts) > 1 and self.starts[-1] < self.starts[-2]:
                raise cursor.error(f"the offsets of the {what}s go backwards", start)
        if self.starts and self.starts[-1] > cursor.left:
            raise cursor.error(f"a {what} begins outside its section")

    def entry(self, index: int, at: ByteCursor) -> ByteCursor:
        """A cursor over an entry."""
        if not 0 <= index < len(self.starts) or self.cursor is None:
            raise at.error(f"there is no {self.what} {index}, of {len(self.starts)}")
        base, last = self.cursor.at, index + 1 == len(self.starts)
        end = self.cursor.end if last else base + self.starts[index + 1]
        return ByteCursor(self.cursor.data, self.cursor.name, base + self.starts[index], end)

    def entries(self) -> tuple[bytes, ...]:
        """Every entry's bytes."""
        if self.cursor is None:
            return ()
        cursors = [self.entry(i, self.cursor) for i in range(len(self.starts))]
        return tuple(c.take(c.left, f"a {self.what}") for c in cursors)


class TablesReader:
    """Everything that operations refer to by index."""

    def __init__(self, sections: Sections) -> None:
        found = sections.found
        self.version = sections.version
        self.strings = TableReader(found[e.STRING], 4, "string")
        self.types = TableReader(found.get(e.TYPE), 4, "type")
        self.constants = TableReader(found.get(e.CONSTANT), 8, "constant")
        self.known: dict[int, TileIrType] = {}
        self._texts: dict[int, str] = {}
        self._patterns: dict[tuple[int, int, int], tuple[int, ...] | None] = {}
        self._extents = Extents()
        self.debug = DebugReader(found.get(e.DEBUG), self)
        self.depth = 0

    def string(self, at: ByteCursor) -> str:
        """The string of the index at a cursor."""
        index = at.varint("a string's index")
        if index not in self._texts:
            entry = self.strings.entry(index, at)
            data = entry.take(entry.left, "a string")
            self._texts[index] = data.decode("utf-8", "surrogateescape")
        return self._texts[index]

    def nested(self, read: Callable[[], T], at: ByteCursor) -> T:
        """What `read` gives, one level deeper; types and debug attributes may be cyclic."""
        start = at.at
        if self.depth >= _MAX_DEPTH:
            raise at.error(f"nested deeper than {_MAX_DEPTH}, or defined by itself")
        self.depth += 1
        found = read()
        self.depth -= 1
        if problem := self._extents.fault(found):
            raise at.error(problem, start)
        return found

    def type(self, at: ByteCursor) -> TileIrType:
        """The type of the index at a cursor."""
        index = at.varint("a type's index")
        if index not in self.known:
            entry = self.types.entry(index, at)
            start = entry.at
            found = self.nested(lambda: self._type(entry), at)
            if problem := fault(found):
                raise entry.error(problem, start)
            self.known[index] = found
        return self.known[index]

    def types_of(self, at: ByteCursor, what: str) -> tuple[TileIrType, ...]:
        """A count and types."""
        return tuple(self.type(at) for _ in range(at.count(what)))

    def _type(self, entry: ByteCursor) -> TileIrType:
        start = entry.at
        tag = entry.varint("a type's tag")
        if tag in _NUMBERS:
            if _NUMBERS[tag].since > self.version:
                raise entry.error(f"type {_NUMBERS[tag]} is newer than the file", start)
            return _NUMBERS[tag]
        if tag == e.TOKEN:
            return TOKEN
        if tag == e.TILE:
            element = self.type(entry)
            return TileType(entry.integers(8, "a tile's shape"), element)
        if tag == e.FUNCTION:
            inputs = self.types_of(entry, "parameters")
            return FunctionType(inputs, self.types_of(entry, "results"))
        if tag in (e.POINTER, e.TENSOR_VIEW):
            return self._pointing(tag, entry)
        if tag in _VIEWS:
            return self._view(tag, entry)
        raise entry.error(f"type tag {tag} is not known", start)

    def _pointing(self, tag: int, entry: ByteCursor) -> TileIrType:
        flags = entry.varint("a type's flags") if self.version >= PTR_ATTR_SINCE else 0
        if flags & ~1:
            raise entry.error(f"a type's flags are {flags:#x}, expected 0 or 1")
        element = self.type(entry)
        if tag == e.POINTER:
            return PointerType(element, self._ptr_attr(entry, flags))
        extents = [entry.integers(8, f"a tensor's {w}") for w in ("shape", "strides")]
        shape, strides = (tuple(None if x == e.DYNAMIC else x for x in xs) for xs in extents)
        return TensorViewType(element, shape, strides, self._ptr_attr(entry, flags))

    def _ptr_attr(self, entry: ByteCursor, present: int) -> str:
        if not present:
            return ""
        start = entry.at
        value = entry.byte("a pointer attribute")
        if value >= len(PTR_ATTRS):
            raise entry.error(f"pointer attribute {value} is not known", start)
        return PTR_ATTRS[value]

    def _tensor(self, entry: ByteCursor) -> TensorViewType:
        start = entry.at
        found = self.type(entry)
        if not isinstance(found, TensorViewType):
            raise entry.error(f"a view of {found}, expected a tensor_view", start)
        return found

    def _padding(self, entry: ByteCursor, present: int) -> str:
        if not present:
            return ""
        value = entry.byte("a padding value")
        if value >= len(PADDINGS):
            raise entry.error(f"padding value {value} is not known")
        return PADDINGS[value]

    def _view(self, tag: int, entry: ByteCursor) -> TileIrType:
        if self.version < _VIEWS[tag].since:
            raise entry.error(f"type tag {tag} is newer than the file")
        unified = self.version >= (13, 3)
        present = entry.varint("a view's flags") if unified else 0
        tile = entry.integers(4, "a view's tile")
        steps = entry.integers(4, "a view's steps") if tag == e.STRIDED_VIEW else ()
        view = self._tensor(entry)
        if tag == e.GATHER_SCATTER_VIEW:
            sparse = entry.varint("a view's sparse dimension")
            return GatherScatterViewType(tile, view, self._padding(entry, present), sparse)
        dim_map = entry.integers(4, "a view's dim_map")
        if not unified:
            present = entry.byte("whether a view pads")
        padding = self._padding(entry, present)
        if tag == e.PARTITION_VIEW:
            return PartitionViewType(tile, view, padding, dim_map)
        return StridedViewType(tile, view, padding, steps, dim_map)

    def dense(self, at: ByteCursor, t: TileIrType) -> DenseAttr:
        """The constant of the index at a cursor, as elements of type `t`."""
        start = at.at
        index = at.varint("a constant's index")
        entry = self.constants.entry(index, at)
        data = entry.take(entry.varint("a constant's length"), "a constant")
        if not isinstance(t, TileType) or not isinstance(t.element, NumberType):
            raise at.error(f"a constant of type {t}, expected a tile of numbers", start)
        key = index, t.element.written_bits, product(t.shape)
        if key not in self._patterns:  # one constant may serve many operations
            self._patterns[key] = dense_bits(data, t.element, key[2])
        bits = self._patterns[key]
        if bits is None:
            raise at.error(f"a constant of {len(data)} bytes does not fill {t}", start)
        return DenseAttr(t, bits)


def dense_bits(data: bytes, t: NumberType, count: int) -> tuple[int, ...] | None:
    """The patterns in a constant's bytes (one, where they are all that one); None if misfit."""
    if t.name == "i1":
        if len(data) == (count + 7) // 8:
            found = tuple(data[i // 8] >> (i % 8) & 1 for i in range(count))
            return found[:1] if len(set(found)) == 1 else found
        return (data[0] & 1,) if len(data) == 1 else None
    width = (t.written_bits + 7) // 8
    if len(data) not in (width, width * count):
        return None
    step = range(0, len(data), width)
    mask, pad = (1 << t.written_bits) - 1, t.row.pad_bits
    patterns = tuple((int.from_bytes(data[i : i + width], "little") & mask) << pad for i in step)
    return patterns[:1] if len(set(patterns)) == 1 else patterns


class DebugReader:
    """The debug section: one location for each function and each of its operations, in order."""

    def __init__(self, cursor: ByteCursor | None, tables: TablesReader) -> None:
        self.tables = tables
        self.offsets: list[int] = []
        self.indices: list[int] = []
        self.table = TableReader(None, 4, "debug attribute")
        self.known: dict[int, Attribute] = {}
        if cursor is None:
            return
        count = cursor.count("the number of functions", 4)
        cursor.align(4)
        data = cursor.take(4 * count, "offsets")
        self.offsets = [int.from_bytes(data[i : i + 4], "little") for i in range(0, 4 * count, 4)]
        count = cursor.count("the number of locations", 8)
        cursor.align(8)
        data = cursor.take(8 * count, "locations")
        self.indices = [int.from_bytes(data[i : i + 8], "little") for i in range(0, 8 * count, 8)]
        self.table = TableReader(cursor, 4, "debug attribute")

    def location(self, function: int, number: int, at: ByteCursor) -> Attribute | None:
        """The location of operation `number` of a function (0: the function itself)."""
        if not 0 < function <= len(self.offsets):
            return None
        where = self.offsets[function - 1] + number
        index = self.indices[where] if where < len(self.indices) else 0
        if not index:
            return None
        return self._location(self._attribute(index, at), at, at.at)

    def _location(self, found: Attribute, at: ByteCursor, start: int) -> Attribute:
        if not isinstance(found, DILoc | CallSiteLoc):
            raise at.error(f"a {type(found).__name__}, expected a location", start)
        return found

    def _attribute(self, index: int, at: ByteCursor) -> Attribute:
        if index not in self.known:
            entry = self.table.entry(index - 1, at)
            self.known[index] = self.tables.nested(lambda: self._read(entry), at)
        return self.known[index]

    def _of(self, entry: ByteCursor, kind: type[T]) -> T:
        start = entry.at
        found = self._attribute(entry.varint("a debug attribute's index"), entry)
        if not isinstance(found, kind):
            raise entry.error(f"a {type(found).__name__}, expected a {kind.__name__}", start)
        return found

    def _place(self, entry: ByteCursor) -> Attribute:
        start = entry.at
        index = entry.varint("a debug attribute's index")
        if not index:
            return UnknownLoc()
        return self._location(self._attribute(index, entry), entry, start)

    def _scope(self, entry: ByteCursor) -> DISubprogram | DILexicalBlock:
        found = self._of(entry, Attribute)
        if not isinstance(found, DISubprogram | DILexicalBlock):
            raise entry.error(f"a {type(found).__name__}, expected a scope")
        return found

    def _read(self, entry: ByteCursor) -> Attribute:
        start, string = entry.at, self.tables.string
        tag = entry.varint("a debug attribute's tag")
        if tag == e.D_FILE:
            return DIFile(string(entry), string(entry))
        if tag == e.D_UNIT:
            return DICompileUnit(self._of(entry, DIFile))
        if tag == e.D_BLOCK:
            scope, file = self._scope(entry), self._of(entry, DIFile)
            return DILexicalBlock(scope, file, entry.varint("a line"), entry.varint("a column"))
        if tag == e.D_LOC:
            scope, file_name = self._scope(entry), string(entry)
            place = FileLoc(file_name, entry.varint("a line"), entry.varint("a column"))
            return DILoc(place, scope)
        if tag == e.D_SUBPROGRAM:
            file, line = self._of(entry, DIFile), entry.varint("a line")
            name, linkage = string(entry), string(entry)
            unit = self._of(entry, DICompileUnit)
            return DISubprogram(file, line, name, linkage, unit, entry.varint("a line"))
        if tag == e.D_CALL_SITE:
            return CallSiteLoc(self._place(entry), self._place(entry))
        raise entry.error(f"debug attribute tag {tag} is not known", start)
