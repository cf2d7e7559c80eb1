"""Reads bytecode, hostile or not, into the operations that it encodes; `verify` checks them."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Attribute, Block, Value, attr, optional, variadic
from tilewright.ir.ops.tile.base import (
    TileOp,
    Version,
    enum_attr,
    flag,
    hints_attr,
    int_attr,
)
from tilewright.ir.ops.tile.memory import PrintTko
from tilewright.ir.ops.tile.module import Entry, Global, Module
from tilewright.ir.ops.tile.registry import BY_OPCODE
from tilewright.ir.ops.tile.versions import since_of
from tilewright.ir.tile_attrs import (
    VISIBILITY,
    Bounded,
    DenseAttr,
    DivBy,
    HintsAttr,
    SameElements,
    TypeAttr,
    TypedAttr,
)
from tilewright.ir.tile_types import TOKEN, FunctionType, NumberType, TileIrType, TileType
from tilewright.tileir.bytecode import encoding as e
from tilewright.tileir.bytecode.cursor import ByteCursor
from tilewright.tileir.bytecode.sections import Sections, TablesReader
from tilewright.tileir.bytecode.tables import Layout
from tilewright.tileir.bytecode.writer import counts_results, flag_fields
from tilewright.tileir.literals import number_text

MAX_DEPTH = 64
"""How deep regions may nest."""


def read_bytecode(data: bytes, name: str = "<bytecode>") -> Block:
    """One module, named `kernels`: bytecode does not keep its name.

    Raises: VerifyError with the byte offset at the first fault.
    """
    return _Reader(Sections(data, name)).read()


def read_bytecode_file(data: bytes, name: str = "<bytecode>") -> tuple[Block, Version, Layout]:
    """The module, the file's version and its layout: what writes the same bytes again.

    Raises: VerifyError with the byte offset at the first fault.
    """
    reader = _Reader(Sections(data, name))
    block, tables = reader.read(), reader.tables
    layout = Layout(
        tuple(reader.sections.order),
        tables.strings.entries(),
        tables.types.entries(),
        tables.constants.entries(),
        tables.debug.table.entries(),
    )
    return block, reader.version, layout


class _Reader:
    def __init__(self, sections: Sections) -> None:
        self.sections = sections
        self.version: Version = sections.version
        self.tables = TablesReader(sections)
        self.values: list[Value] = []
        self.function = 0
        self.number = 0
        self.depth = 0

    def read(self) -> Block:
        """The module; a recursion that the caller's own depth cuts short is a refusal too."""
        try:
            return self._file()
        except RecursionError:
            raise self.sections.found[e.FUNC].error("nested too deeply") from None

    def _file(self) -> Block:
        found = self.sections.found
        body = Block()
        if e.GLOBAL in found:
            cursor = found[e.GLOBAL]
            for _ in range(cursor.count("the number of globals")):
                body.ops.append(self._global(cursor))
            self._finish(cursor)
        cursor = found[e.FUNC]
        for _ in range(cursor.count("the number of functions")):
            body.ops.append(self._entry(cursor))
        self._finish(cursor)
        producer = self.tables.string(found[e.PRODUCER]) if e.PRODUCER in found else None
        attrs = {"sym_name": "kernels", "producer": producer}
        top = Block()
        top.ops.append(Module((), attrs, [body]))
        return top

    def _finish(self, cursor: ByteCursor) -> None:
        if cursor.left:
            raise cursor.error(f"{cursor.left} bytes are left over")

    # --- globals and functions ------------------------------------------------------------------

    def _global(self, cursor: ByteCursor) -> Global:
        name, t = self.tables.string(cursor), self.tables.type(cursor)
        attrs: dict[str, Any] = {"sym_name": name, "value": self.tables.dense(cursor, t)}
        attrs["alignment"] = cursor.varint("an alignment")
        if self.version >= since_of(Global, Global.ATTRS["constant"]):
            visibility = cursor.byte("a visibility")
            if visibility >= len(VISIBILITY.values):
                raise cursor.error(f"visibility {visibility} is not known")
            attrs["symbol_visibility"] = VISIBILITY.values[visibility]
            attrs["constant"] = bool(cursor.byte("whether a global is constant"))
        return Global((), attrs)

    def _entry(self, cursor: ByteCursor) -> Entry:
        name, start = self.tables.string(cursor), cursor.at
        signature = self.tables.type(cursor)
        if not isinstance(signature, FunctionType):
            raise cursor.error(f"a function of type {signature}", start)
        for number, t in enumerate(signature.inputs):
            if not isinstance(t, TileType) or t.rank:
                problem = f"parameter {number} of an entry is {t}, expected a scalar tile"
                raise cursor.error(problem, start)
        flags = cursor.byte("a function's flags")
        if flags & ~(e.F_PRIVATE | e.F_KERNEL | e.F_HINTS) or not flags & e.F_KERNEL:
            raise cursor.error(f"a function's flags are {flags:#x}, expected those of a kernel")
        self.function, self.number = cursor.varint("a location's index"), 0
        hints = None
        if flags & e.F_HINTS:
            if cursor.varint("an attribute's tag") != e.A_HINTS:
                raise cursor.error("a function's hints are not optimization hints")
            hints = self._hints(cursor)
        body = cursor.inner(cursor.varint("a function's length"), "a function")
        block = Block(signature.inputs)
        self.values = list(block.args)
        location = self.tables.debug.location(self.function, 0, cursor)
        while body.left:
            block.ops.append(self._op(body))
        attrs = {
            "sym_name": name,
            "function_type": TypeAttr(signature),
            "optimization_hints": hints,
        }
        op = Entry((), attrs, [block])
        op.location = location
        return op

    # --- operations -----------------------------------------------------------------------------

    def _op(self, cursor: ByteCursor) -> TileOp:
        start = cursor.at
        opcode = cursor.varint("an opcode")
        kind = BY_OPCODE.get(opcode)
        if kind is None or issubclass(kind, Entry | Global | Module):
            raise cursor.error(f"opcode {opcode:#x} is not known", start)
        if kind.since > self.version:
            raise cursor.error(f"operation {kind.name} is newer than the file", start)
        self.number += 1
        location = self.tables.debug.location(self.function, self.number, cursor)
        results = self._results(kind, cursor, start)
        flags = self._flags(kind, cursor)
        attrs: dict[str, Any] = {}
        for label, declared in kind.ATTRS.items():
            value = self._attribute(kind, label, declared, cursor, flags, results)
            if value is not None:
                attrs[label] = value
        operands, segments = self._operands(kind, cursor, flags)
        regions = self._regions(kind, cursor)
        numbered = len(results)
        if kind is PrintTko and self.version < PrintTko.token_since:
            results = (TOKEN,)
        op = kind(operands, attrs, regions, None, results, segments)
        op.location = location
        self.values += op.results[:numbered]
        return op

    def _results(
        self, kind: type[TileOp], cursor: ByteCursor, start: int
    ) -> tuple[TileIrType, ...]:
        fixed = len(kind.RESULTS)
        if not counts_results(kind):
            return tuple(self.tables.type(cursor) for _ in range(fixed))
        found = self.tables.types_of(cursor, "results")
        wanted = 0 if kind is PrintTko and self.version < PrintTko.token_since else fixed
        if len(found) != wanted and kind.MORE_RESULTS is None:
            raise cursor.error(f"{kind.name} has {wanted} results, got {len(found)}", start)
        return found

    def _flags(self, kind: type[TileOp], cursor: ByteCursor) -> set[str]:
        fields = flag_fields(kind)
        known = [label if since <= self.version else "" for label, since in fields]
        if not any(known):
            return set()
        bits = cursor.varint("an operation's flags")
        found = {label for i, label in enumerate(known) if bits >> i & 1}
        if bits >> len(known) or "" in found:
            raise cursor.error(f"the flags of {kind.name} are {bits:#x}")
        return found

    def _operands(
        self, kind: type[TileOp], cursor: ByteCursor, flags: set[str]
    ) -> tuple[list[Value], list[int]]:
        groups = kind.GROUPS
        found: list[Value] = []
        segments: list[int] = []
        total = -1
        if not kind.segmented and any(isinstance(g, variadic) for g in groups):
            total = cursor.count("the number of operands")
        for group in groups:
            count = 1
            if isinstance(group, optional):
                count = int(group.label in flags)
            elif isinstance(group, variadic):
                fixed = len(groups) - 1
                count = total - fixed if total >= 0 else cursor.count("the number of operands")
                if count < 0:
                    raise cursor.error(f"{kind.name} has {fixed} operands or more, got {total}")
            segments.append(count)
            found += [self._use(cursor) for _ in range(count)]
        return found, segments

    def _use(self, cursor: ByteCursor) -> Value:
        start = cursor.at
        index = cursor.varint("an operand's index")
        if index >= len(self.values):
            raise cursor.error(f"there is no value {index}, of {len(self.values)}", start)
        return self.values[index]

    def _regions(self, kind: type[TileOp], cursor: ByteCursor) -> list[Block]:
        if not kind.REGIONS:
            return []
        count = cursor.count("the number of regions")
        if count != len(kind.REGIONS):
            raise cursor.error(f"{kind.name} has {len(kind.REGIONS)} regions, got {count}")
        return [self._region(cursor) for _ in range(count)]

    def _region(self, cursor: ByteCursor) -> Block:
        blocks = cursor.count("the number of blocks")
        if blocks == 0:
            return Block()
        if blocks > 1:
            raise cursor.error(f"a region has {blocks} blocks, expected 1")
        if self.depth >= MAX_DEPTH:
            raise cursor.error(f"regions nest deeper than {MAX_DEPTH}")
        self.depth += 1
        outside = len(self.values)
        block = Block(self.tables.types_of(cursor, "arguments"))
        self.values += block.args
        for _ in range(cursor.count("the number of operations")):
            block.ops.append(self._op(cursor))
        del self.values[outside:]
        self.depth -= 1
        return block

    # --- attributes -----------------------------------------------------------------------------

    def _attribute(
        self,
        kind: type[TileOp],
        label: str,
        declared: attr[Any],
        cursor: ByteCursor,
        flags: set[str],
        results: tuple[TileIrType, ...],
    ) -> Any:
        if isinstance(declared, flag):
            return label in flags
        if since_of(kind, declared) > self.version:
            return None
        if isinstance(declared, enum_attr):
            if "scope" in declared.style and label not in flags:
                return None
            return self._enum(declared, cursor)
        if isinstance(declared, hints_attr):
            return self._hints(cursor) if label in flags else None
        if isinstance(declared, int_attr):
            return self._integer(declared.bits, cursor)
        if label == "inbounds":
            flagged = cursor.integers(1, "inbounds")
            return tuple(map(bool, flagged)) if any(flagged) else None
        if declared.kind is DenseAttr:
            return self.tables.dense(cursor, results[0])
        if declared.kind is str:
            return self.tables.string(cursor)
        if declared.kind is bool:
            return bool(cursor.byte("a boolean"))
        if declared.kind is Attribute:
            return self._predicate(cursor)
        if label == "permutation":
            return cursor.integers(4, "a permutation")
        return tuple(self._number(cursor) for _ in range(cursor.count("identities")))

    def _enum(self, declared: enum_attr, cursor: ByteCursor) -> str:
        start = cursor.at
        value = cursor.varint("an enum")
        if value >= len(declared.table.values):
            raise cursor.error(f"{declared.table.mnemonic} {value} is not known", start)
        name = declared.table.values[value]
        if dict(declared.table.late).get(name, self.version) > self.version:
            raise cursor.error(f"{declared.table.mnemonic} {name} is newer than the file", start)
        return name

    def _integer(self, bits: int, cursor: ByteCursor) -> int:
        value = cursor.varint("an integer") & ((1 << bits) - 1)
        return value - (1 << bits) if value >> (bits - 1) else value

    def _number(self, cursor: ByteCursor) -> TypedAttr:
        start = cursor.at
        tag = cursor.varint("an attribute's tag")
        t = self.tables.type(cursor)
        if tag not in (e.A_INTEGER, e.A_FLOAT) or not isinstance(t, NumberType):
            raise cursor.error("expected a number as identity", start)
        if tag == e.A_INTEGER:
            bits = cursor.varint("an integer")
        elif t.written_bits <= 8:
            bits = cursor.byte("a float")
        else:
            bits = cursor.signed("a float") & ((1 << t.written_bits) - 1)
        if bits >> t.written_bits or t.is_float != (tag == e.A_FLOAT):
            raise cursor.error(f"the identity does not fit {t}", start)
        return TypedAttr(number_text(bits << t.row.pad_bits, t), t)

    def _hints(self, cursor: ByteCursor) -> HintsAttr:
        found: list[tuple[str, tuple[tuple[str, int | bool | str], ...]]] = []
        for _ in range(cursor.count("hints")):
            start = cursor.at
            arch = self.tables.string(cursor)
            if cursor.varint("an attribute's tag") != e.A_DICTIONARY:
                raise cursor.error("the hints of an architecture are not a dictionary")
            pairs = [
                (self.tables.string(cursor), self._hint(cursor))
                for _ in range(cursor.count("hints"))
            ]
            if len(dict(pairs)) < len(pairs) or any(arch == other for other, _ in found):
                raise cursor.error(f"a hint of {arch} is given twice", start)
            found.append((arch, tuple(pairs)))
        return HintsAttr(tuple(found))

    def _hint(self, cursor: ByteCursor) -> int | bool | str:
        start = cursor.at
        tag = cursor.varint("an attribute's tag")
        if tag == e.A_BOOL:
            return bool(cursor.byte("a boolean"))
        if tag == e.A_STRING:
            return self.tables.string(cursor)
        t = self.tables.type(cursor) if tag == e.A_INTEGER else None
        if not isinstance(t, NumberType) or t.is_float:
            raise cursor.error(f"attribute tag {tag} is no hint's value", start)
        return self._integer(t.bits, cursor)

    def _predicate(self, cursor: ByteCursor) -> Attribute:
        start = cursor.at
        tag = cursor.varint("an attribute's tag")
        if tag == e.A_SAME_ELEMENTS:
            return SameElements(cursor.integers(8, "extents"))
        if tag == e.A_DIV_BY:
            divisor, flags = cursor.varint("a divisor"), cursor.byte("flags")
            every = cursor.signed("every") if flags & 1 else None
            return DivBy(divisor, every, cursor.signed("along") if flags & 2 else None)
        if tag == e.A_BOUNDED:
            flags = cursor.byte("flags")
            lower = cursor.signed("a bound") if flags & 1 else None
            return Bounded(lower, cursor.signed("a bound") if flags & 2 else None)
        raise cursor.error(f"attribute tag {tag} is no predicate", start)
