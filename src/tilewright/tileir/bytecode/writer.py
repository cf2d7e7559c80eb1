"""Writes verified Tile IR as bytecode; what an older version cannot say is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import VerifyError
from tilewright.ir.core import Attribute, Block, Op, Value, optional, variadic
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
from tilewright.ir.ops.tile.versions import operation_needs, since_of
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
from tilewright.ir.tile_types import NUMBERS, NumberType, TileType, spelled
from tilewright.tileir.bytecode import encoding as e
from tilewright.tileir.bytecode.tables import DEFAULT_LAYOUT, Layout, Tables
from tilewright.tileir.foreign import ForeignOp
from tilewright.tileir.literals import pattern
from tilewright.tileir.verify import bytecode_fault


def write_bytecode(
    block: Block, version: Version = e.DEFAULT_VERSION, layout: Layout | None = None
) -> bytes:
    """The bytecode of the one module in a text (or of the entries and globals at its top).

    With the `layout` that `read_bytecode_file` found, sections and tables keep their order: what
    was only read is written byte for byte as it was.

    Raises: VerifyError for what bytecode, or this version of it, cannot hold.
    """
    if version not in e.VERSIONS:
        listed = ", ".join(f"{major}.{minor}" for major, minor in e.VERSIONS)
        raise VerifyError(f"bytecode version {version} is unknown, expected one of {listed}")
    if (fault := bytecode_fault(block)) is not None:
        raise VerifyError(fault.message, loc=fault.loc)
    modules = [op for op in block.ops if isinstance(op, Module)]
    if len(modules) > 1 or (modules and len(block.ops) > 1):
        raise VerifyError(f"a bytecode file holds one module, got {len(block.ops)}")
    producer = modules[0].producer if modules else None
    ops = modules[0].body.ops if modules else block.ops
    for op in ops:
        if not isinstance(op, Entry | Global):
            raise VerifyError(f"'{op.name}' op cannot stand in a bytecode module", loc=op.loc)
    writer = _Writer(version, layout or DEFAULT_LAYOUT)
    for op in modules:
        writer.needs(op)
    return writer.file(ops, producer)


_FLAGS: dict[str, list[tuple[str, Version]]] = {}


def flag_fields(kind: type[TileOp]) -> list[tuple[str, Version]]:
    """What the bits of an operation's flags stand for, with the version that has each.

    Optional attributes first, then optional operands, then unit attributes.
    """
    if kind.name not in _FLAGS:
        _FLAGS[kind.name] = _flag_fields(kind)
    return _FLAGS[kind.name]


def _flag_fields(kind: type[TileOp]) -> list[tuple[str, Version]]:
    since = kind.since
    found: list[tuple[str, Version]] = []
    for label, declared in kind.ATTRS.items():
        absent = isinstance(declared, enum_attr) and "scope" in declared.style
        if absent or isinstance(declared, hints_attr):
            found.append((label, since))
    late = PrintTko.token_since if kind is PrintTko else since
    found += [(g.label, late) for g in kind.GROUPS if isinstance(g, optional)]
    for label, declared in kind.ATTRS.items():
        if isinstance(declared, flag):
            found.append((label, since_of(kind, declared)))
    return found


def counts_results(kind: type[TileOp]) -> bool:
    """Whether the number of results is written: where it, or that of operands, may vary."""
    return kind.MORE_RESULTS is not None or any(isinstance(g, variadic) for g in kind.GROUPS)


class _Writer:
    def __init__(self, version: Version, layout: Layout) -> None:
        self.version = version
        self.layout = layout
        self.tables = Tables(version, layout)
        self.indices: dict[Value, int] = {}
        self.places: list[list[int]] = []

    def needs(self, op: TileOp) -> None:
        """Refuses an operation that the file's version cannot say, and its types from now on."""
        self.tables.loc = op.loc
        for since, what in operation_needs(op):
            self.tables.needs(since, what)

    def file(self, ops: Sequence[Op], producer: str | None) -> bytes:
        globals_ = [op for op in ops if isinstance(op, Global)]
        entries = [op for op in ops if isinstance(op, Entry)]
        functions = b"".join([e.varint(len(entries)), *map(self._entry, entries)])
        names = b"".join(map(self._global, globals_))
        sections = {e.FUNC: functions}
        if globals_:
            sections[e.GLOBAL] = e.varint(len(globals_)) + names
        if producer is not None:
            sections[e.PRODUCER] = self.tables.string(producer)
        sections[e.CONSTANT] = self.tables.constants.encoded(8)
        sections[e.DEBUG] = self._debug()
        sections[e.TYPE] = self.tables.types.encoded(4)
        sections[e.STRING] = self.tables.strings.encoded(4)
        out = bytearray(e.MAGIC + bytes(self.version) + b"\0\0")
        for number, alignment in (*self.layout.sections, *DEFAULT_LAYOUT.sections):
            if number in sections:
                self._section(out, number, alignment, sections.pop(number))
        out.append(e.END)
        return bytes(out)

    def _section(self, out: bytearray, number: int, alignment: int, payload: bytes) -> None:
        out.append(number | (0x80 if alignment > 1 else 0))
        out += e.varint(len(payload))
        if alignment > 1:
            out += e.varint(alignment)
            out += e.padded(out, alignment)
        out += payload

    def _debug(self) -> bytes:
        out = bytearray(e.varint(len(self.places)))
        out += e.padded(out, 4)
        at = 0
        for places in self.places:
            out += at.to_bytes(4, "little")
            at += len(places)
        out += e.varint(at)
        out += e.padded(out, 8)
        for places in self.places:
            for place in places:
                out += place.to_bytes(8, "little")
        if not self.tables.debug.items:
            self.tables.debug.index(b"\0")  # readers refuse a table without entries
        table = bytearray(self.tables.debug.encoded(4))
        count = e.varint(len(self.tables.debug.items))
        body = table[len(count) + len(e.padded(count, 4)) :]
        out += count
        out += e.padded(out, 4)
        return bytes(out + body)

    # --- functions and globals ------------------------------------------------------------------

    def _global(self, op: Global) -> bytes:
        self.needs(op)
        value = op.value
        assert isinstance(value, DenseAttr), "the attribute is declared dense"
        out = self.tables.string(op.sym_name) + self.tables.type(value.type)
        out += self.tables.constant(value) + e.varint(op.alignment)
        if self.version < since_of(Global, Global.ATTRS["constant"]):
            return out
        return out + bytes([VISIBILITY.values.index(op.symbol_visibility), op.constant])

    def _entry(self, op: Entry) -> bytes:
        self.needs(op)
        signature = op.function_type
        assert isinstance(signature, TypeAttr), "the attribute is declared a type"
        for number, argument in enumerate(op.body.args):
            if not isinstance(argument.type, TileType) or argument.type.rank:
                raise VerifyError(
                    f"unsupported type in bytecode for entry argument #{number}: "
                    f"'{spelled(argument.type)}'; expected a scalar tile",
                    loc=op.loc,
                )
        hints = op.optimization_hints
        if hints is not None and not hints.by_arch:
            hints = None
        flags = e.F_KERNEL | (e.F_HINTS if hints is not None else 0)
        self.places.append([self.tables.location(op.location)])
        out = self.tables.string(op.sym_name) + self.tables.type(signature.type)
        out += bytes([flags]) + e.varint(len(self.places))
        if hints is not None:
            out += e.varint(e.A_HINTS) + self._hints(hints)
        self.indices = {value: i for i, value in enumerate(op.body.args)}
        body = b"".join(map(self._op, op.body.ops))
        return out + e.varint(len(body)) + body

    # --- operations -----------------------------------------------------------------------------

    def _op(self, op: Op) -> bytes:
        assert isinstance(op, TileOp), f"{op.name} is not of the tile vocabulary"
        assert not isinstance(op, ForeignOp), "bytecode_fault refuses other dialects"
        kind = type(op)
        self.needs(op)
        self.places[-1].append(self.tables.location(op.location))
        results = [v.type for v in op.results]
        if isinstance(op, PrintTko) and self.version < PrintTko.token_since:
            results = []
        out = e.varint(kind.opcode)
        out += (
            self.tables.types_of(results)
            if counts_results(kind)
            else b"".join(map(self.tables.type, results))
        )
        out += self._flags(op)
        for label in kind.ATTRS:
            out += self._attribute(op, label)
        out += self._operands(op)
        if kind.REGIONS:
            out += e.varint(len(op.regions))
            base = len(self.indices)
            for block in op.regions:
                out += self._region(block, base)
        for value in op.results[: len(results)]:
            self.indices[value] = len(self.indices)
        return out

    def _region(self, block: Block, base: int) -> bytes:
        if not block.ops and not block.args:
            return e.varint(0)
        for i, value in enumerate(block.args):
            self.indices[value] = base + i
        out = e.varint(1) + self.tables.types_of([v.type for v in block.args])
        out += e.varint(len(block.ops)) + b"".join(map(self._op, block.ops))
        for value in (*block.args, *(v for op in block.ops for v in op.results)):
            self.indices.pop(value, None)
        return out

    def _flags(self, op: TileOp) -> bytes:
        bits, present = 0, False
        for bit, (label, since) in enumerate(flag_fields(type(op))):
            value = getattr(op, label)
            given = value is not None and value is not False
            if since <= self.version:
                present = True
                bits |= given << bit
        return e.varint(bits) if present else b""

    def _operands(self, op: TileOp) -> bytes:
        kind = type(op)
        out = b""
        if op.segments is None:
            if any(isinstance(g, variadic) for g in kind.GROUPS):
                out += e.varint(len(op.operands))
            return out + b"".join(map(self._use, op.operands))
        for i, group in enumerate(kind.GROUPS):
            values = op.group(i)
            if isinstance(group, variadic):
                out += e.varint(len(values))
            out += b"".join(map(self._use, values))
        return out

    def _use(self, value: Value) -> bytes:
        if value not in self.indices:
            raise VerifyError(f"a {spelled(value.type)} is used where it is not known")
        return e.varint(self.indices[value])

    # --- attributes -----------------------------------------------------------------------------

    def _attribute(self, op: TileOp, label: str) -> bytes:
        declared, value = op.ATTRS[label], op.attrs[label]
        if isinstance(declared, flag):
            return b""
        if since_of(type(op), declared) > self.version:
            return b""
        if isinstance(declared, enum_attr):
            return b"" if value is None else bytes([declared.table.values.index(str(value))])
        if isinstance(declared, hints_attr):
            return self._hints(value) if isinstance(value, HintsAttr) else b""
        if isinstance(declared, int_attr):
            assert isinstance(value, int), "the attribute is declared an int"
            return e.varint(value & ((1 << declared.bits) - 1))
        if label == "inbounds":
            flags = value if isinstance(value, tuple) else (False,) * len(op.types_of("index"))
            return e.integers([int(v) for v in flags], 1)
        return self._value(value)

    def _value(self, value: Any) -> bytes:
        if isinstance(value, bool):
            return bytes([value])
        if isinstance(value, str):
            return self.tables.string(value)
        if isinstance(value, DenseAttr):
            return self.tables.constant(value)
        if isinstance(value, DivBy | SameElements | Bounded):
            return _predicate(value)
        assert isinstance(value, tuple), f"{value!r} is no attribute of an operation"
        if all(isinstance(v, int) for v in value):
            return e.integers(value, 4)
        return e.varint(len(value)) + b"".join(map(self._number, value))

    def _number(self, value: TypedAttr) -> bytes:
        t = value.type
        assert isinstance(t, NumberType), "identities are numbers"
        bits = pattern(value.text, t)
        if t.is_float:
            return (
                e.varint(e.A_FLOAT)
                + self.tables.type(t)
                + e.bit_pattern(bits >> t.row.pad_bits, t.written_bits)
            )
        return e.varint(e.A_INTEGER) + self.tables.type(t) + e.varint(bits)

    def _hints(self, hints: HintsAttr) -> bytes:
        out = e.varint(len(hints.by_arch))
        for arch, pairs in hints.by_arch:
            out += self.tables.string(arch) + e.varint(e.A_DICTIONARY) + e.varint(len(pairs))
            for key, value in pairs:
                out += self.tables.string(key) + self._hint(value)
        return out

    def _hint(self, value: int | bool | str) -> bytes:
        if isinstance(value, bool):
            return e.varint(e.A_BOOL) + bytes([value])
        if isinstance(value, str):
            return e.varint(e.A_STRING) + self.tables.string(value)
        i32 = self.tables.type(NUMBERS["i32"])
        return e.varint(e.A_INTEGER) + i32 + e.varint(value & 0xFFFFFFFF)


def _predicate(value: Attribute) -> bytes:
    if isinstance(value, DivBy):
        flags = (value.every is not None) | ((value.along is not None) << 1)
        out = e.varint(e.A_DIV_BY) + e.varint(value.divisor) + bytes([flags])
        return out + b"".join(
            e.signed_varint(v) for v in (value.every, value.along) if v is not None
        )
    if isinstance(value, SameElements):
        return e.varint(e.A_SAME_ELEMENTS) + e.integers(value.extents, 8)
    assert isinstance(value, Bounded), "there are three predicates"
    bounds = (value.lower, value.upper)
    flags = (bounds[0] is not None) | ((bounds[1] is not None) << 1)
    out = e.varint(e.A_BOUNDED) + bytes([flags])
    return out + b"".join(e.signed_varint(v) for v in bounds if v is not None)
