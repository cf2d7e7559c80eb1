"""Making and reshaping tiles: constants, iota, broadcast, permute, cat, extract, pack..."""

from __future__ import annotations

from tilewright.ir.core import attr, operand, result, variadic
from tilewright.ir.ops.tile.base import (
    I1S,
    I32_0,
    INTS,
    NUMBERS4,
    NUMBERS_,
    POINTERS,
    TILES,
    Rule,
    TileOp,
    element_name,
    int_attr,
    same_element,
    same_rank,
    same_shape,
    same_type,
    tile_of,
    tile_type,
)
from tilewright.ir.tile_attrs import DenseAttr
from tilewright.ir.tile_types import NumberType, TileType

_INTO = "source : type(source) -> type(result)"
_BYTES = tile_of("i8")
_ONE_ELEMENT = Rule(
    "requires the same element type for all operands and results",
    same_element("source", "result").holds,
)


def _list(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))


class Constant(TileOp):
    """The elements of `value`; one element fills the tile."""

    name = "cuda_tile.constant"
    opcode = 0x10
    value: attr[DenseAttr] = attr(DenseAttr)
    result = result(NUMBERS_)
    assembly = "@dense @attributes"

    def check(self) -> str | None:
        if self.value.type == self.result.type:
            return None
        return "failed to verify that all of {value, result} have same type"


class Iota(TileOp):
    """0, 1, 2... along one dimension."""

    name = "cuda_tile.iota"
    opcode = 0x3A
    result = result(INTS)
    assembly = ": type(result)"

    def check(self) -> str | None:
        t = tile_type(self.result.type)
        if t.rank != 1:
            return "expects result type to be 1-d tile"
        element = t.element
        if isinstance(element, NumberType) and t.size > 1 << element.bits:
            return (
                f"the number of elements {t.size} exceeds the maximum value of element type "
                f"'{element}'"
            )
        return None


class Broadcast(TileOp):
    """Repeats the dimensions of extent 1."""

    name = "cuda_tile.broadcast"
    opcode = 0x0B
    source = operand(TILES)
    result = result(TILES)
    assembly = _INTO
    rules = (_ONE_ELEMENT, same_rank("source", "result"))

    def check(self) -> str | None:
        source, out = tile_type(self.source.type), tile_type(self.result.type)
        for have, want in zip(source.shape, out.shape, strict=True):
            if have not in (1, want):
                return (
                    "expects the shape of source tile to be compatible with that of the result "
                    f"tile, but got: {_list(source.shape)} and {_list(out.shape)}"
                )
        return None


class Reshape(TileOp):
    """The same elements in row-major order."""

    name = "cuda_tile.reshape"
    opcode = 0x5B
    source = operand(TILES)
    result = result(TILES)
    assembly = _INTO
    rules = (_ONE_ELEMENT,)

    def check(self) -> str | None:
        if tile_type(self.source.type).size != tile_type(self.result.type).size:
            return "expected source tile and result tile to have the same number of elements"
        return None


class Permute(TileOp):
    """result.shape[i] = source.shape[permutation[i]]."""

    name = "cuda_tile.permute"
    opcode = 0x53
    source = operand(TILES)
    permutation: attr[tuple[int, ...]] = attr(tuple)
    result = result(TILES)
    assembly = "source permutation : type(source) -> type(result)"
    rules = (same_element("source", "result"), same_rank("source", "result"))

    def check(self) -> str | None:
        source, out = tile_type(self.source.type), tile_type(self.result.type)
        order = self.permutation
        if source.rank < 2:
            return f"expects at least rank 2, but got: {source.rank}"
        if len(order) != source.rank:
            return (
                f"expect permutation size ({len(order)}) to equal the rank of the source "
                f"({source.rank})"
            )
        for i, at in enumerate(order):
            if not 0 <= at < source.rank:
                return f"permutation element at index {i} ({at}) is out of bound [0, {source.rank})"
        if len(set(order)) != len(order):
            return "expect permutation elements to be unique"
        for i, at in enumerate(order):
            if out.shape[i] != source.shape[at]:
                return (
                    f"result shape invalid at index {i}, expected: {source.shape[at]}, but got: "
                    f"{out.shape[i]}"
                )
        return None


class Cat(TileOp):
    """lhs and then rhs along `dim`."""

    name = "cuda_tile.cat"
    opcode = 0x0C
    lhs = operand(TILES)
    rhs = operand(TILES)
    dim = int_attr(64)
    result = result(TILES)
    assembly = "lhs , rhs 'dim' = dim : type(lhs) , type(rhs) -> type(result)"
    rules = (same_rank("lhs", "rhs", "result"), same_element("lhs", "rhs", "result"))

    def check(self) -> str | None:
        shapes = [tile_type(t).shape for t in (self.lhs.type, self.rhs.type, self.result.type)]
        lhs, rhs, out = shapes
        if not 0 <= self.dim < len(out):
            return f"expect dim to be [0, {len(out)}), but got: {self.dim}"
        for i in range(len(out)):
            if i == self.dim:
                continue
            for name, shape in (("lhs", lhs), ("rhs", rhs)):
                if shape[i] != out[i]:
                    return (
                        f"expect {name} and result shapes to match at non-concat position {i}, "
                        f"expected: {shape[i]} but got: {out[i]}"
                    )
        if lhs[self.dim] + rhs[self.dim] != out[self.dim]:
            return (
                f"invalid concat at position {self.dim}, expected: "
                f"{lhs[self.dim] + rhs[self.dim]} but got: {out[self.dim]}"
            )
        return None


def _subtile_fault(whole: TileType, part: TileType, indices: int, names: tuple[str, str]) -> str:
    """What keeps `part` from being one of the equal subtiles that `whole` splits into."""
    if indices != whole.rank:
        return f"expected {whole.rank} indices, but got {indices}"
    for i, (extent, piece) in enumerate(zip(whole.shape, part.shape, strict=True)):
        if extent % piece:
            return (
                f"{names[0]} dimension {i} size ({extent}) must be evenly divisible by "
                f"{names[1]} dimension {i} size ({piece})"
            )
    if whole.element != part.element:
        return f"{names[0]} and {names[1]} element type do not match"
    return ""


class Extract(TileOp):
    """The subtile at `indices`, which count subtiles, not elements."""

    name = "cuda_tile.extract"
    opcode = 0x26
    source = operand(TILES)
    indices = variadic(I32_0)
    result = result(TILES)
    assembly = "source [[ indices ]] : type(source) -> type(result)"
    rules = (same_rank("source", "result"),)

    def check(self) -> str | None:
        source, out = tile_type(self.source.type), tile_type(self.result.type)
        return _subtile_fault(source, out, len(self.indices), ("source", "result")) or None


class Insert(TileOp):
    """`destination` with the subtile at `indices` replaced by `source`."""

    name = "cuda_tile.insert"
    opcode = 0x76
    since = (13, 4)
    source = operand(TILES)
    destination = operand(TILES)
    indices = variadic(I32_0)
    result = result(TILES)
    assembly = "source , destination [[ indices ]] : type(source) , type(destination)"
    alike = (("destination", "result"),)
    rules = (same_rank("source", "destination"),)

    def check(self) -> str | None:
        part, whole = tile_type(self.source.type), tile_type(self.destination.type)
        return _subtile_fault(whole, part, len(self.indices), ("result", "source")) or None


class Select(TileOp):
    """val_if_true where cond, else val_if_false."""

    name = "cuda_tile.select"
    opcode = 0x5F
    cond = operand(I1S)
    val_if_true = operand(TILES)
    val_if_false = operand(TILES)
    result = result(TILES)
    assembly = "cond , val_if_true , val_if_false : type(cond) , type(val_if_true)"
    alike = (("val_if_true", "val_if_false", "result"),)
    rules = (same_shape("cond", "val_if_true", "val_if_false", "result"),)

    def check(self) -> str | None:
        if element_name(self.result.type) == "f4E2M1FN":
            return "cannot operate on sub-byte type F4E2M1FN"
        return None


class Offset(TileOp):
    """Addresses `offset` (signed) elements further on.  Units: elements of the pointee."""

    name = "cuda_tile.offset"
    opcode = 0x51
    ptr = operand(POINTERS)
    offset = operand(INTS)
    result = result(POINTERS)
    assembly = "ptr , offset : type(ptr) , type(offset) -> type(result)"
    rules = (same_type("result", "ptr"), same_shape("result", "ptr", "offset"))


def _pack_fault(source: TileType, out: TileType) -> str | None:
    if source.rank != 1 or out.rank != 1:
        return "expects source and result to be rank-1 tiles"
    a, b = source.element, out.element
    assert isinstance(a, NumberType), "a constraint admits only numbers"
    assert isinstance(b, NumberType), "a constraint admits only numbers"
    if a.written_bits == b.written_bits:
        return "expects source and result to have different element type widths"
    bits = [t.written_bits * tile.size for t, tile in ((a, source), (b, out))]
    if bits[0] != bits[1]:
        return (
            "expects source and result to have the same size in bytes, but got source tile size "
            f"{bits[0] // 8} bytes and result tile size {bits[1] // 8} bytes"
        )
    return None


class Pack(TileOp):
    """The bytes of a tile, least significant first."""

    name = "cuda_tile.pack"
    opcode = 0x6F
    since = (13, 3)
    source = operand(NUMBERS4)
    result = result(_BYTES)
    assembly = _INTO
    rules = (same_rank("source", "result"),)

    def check(self) -> str | None:
        return _pack_fault(tile_type(self.source.type), tile_type(self.result.type))


class Unpack(TileOp):
    """The elements that a tile of bytes encodes."""

    name = "cuda_tile.unpack"
    opcode = 0x70
    since = (13, 3)
    source = operand(_BYTES)
    result = result(NUMBERS4)
    assembly = _INTO
    rules = (same_rank("source", "result"),)

    def check(self) -> str | None:
        return _pack_fault(tile_type(self.source.type), tile_type(self.result.type))
