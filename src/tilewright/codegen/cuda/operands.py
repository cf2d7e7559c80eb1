"""What an IR value can be while text is being written: a scalar, a vector, or a place in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.codegen.cuda.expr import (
    NO_MEMORY,
    NOTHING,
    Access,
    Expr,
    Level,
    binary,
    element,
    name,
    number,
    with_memory,
)
from tilewright.ir.types import PtrType, Space, Type, VecType
from tilewright.numeric.dtypes import DType


@dataclass(frozen=True, slots=True)
class Vec:
    """A vector that is not stored anywhere yet: how to write its element `i`.

    `symbolic`: the index may be a loop variable, not only a number.  `pair` writes elements `i`
    and `i + 1` (`i` even) as one packed word.  `pointwise`: element `i` depends on the elements
    `i` of its inputs only.  `place`: where its elements lie, if they lie somewhere; `array`: the
    variable that it is, if it is one.  `free`: writing an element again costs nothing.
    """

    dtype: DType
    count: int
    element: Callable[[Expr], Expr]
    symbolic: bool = True
    pair: Callable[[Expr], Expr] | None = None
    reads: frozenset[str] = NOTHING
    memory: frozenset[Access] = NO_MEMORY
    pointwise: bool = True
    array: str = ""
    place: Place | None = None
    free: bool = False

    @property
    def trivial(self) -> bool:
        return self.free


@dataclass(frozen=True, slots=True)
class Place:
    """An address: `index` elements of `type` after the pointer `base`.

    `const`: it derives from a parameter that the kernel only reads.
    """

    base: Expr
    index: Expr | None
    type: PtrType
    const: bool = False

    @property
    def trivial(self) -> bool:
        return self.base.trivial and (self.index is None or self.index.literal)

    @property
    def reads(self) -> frozenset[str]:
        return self.base.reads if self.index is None else self.base.reads | self.index.reads

    @property
    def memory(self) -> frozenset[Access]:
        return self.base.memory if self.index is None else self.base.memory | self.index.memory

    def pointer(self) -> Expr:
        """The address itself."""
        if self.index is None:
            return self.base
        return binary("+", self.base, self.index, regroup=True)

    def at(self, offset: Expr | None = None) -> Expr:
        """The element there, or `offset` elements further."""
        if offset is None or offset.text == "0":
            return self.value()
        if self.index is None:
            return element(self.base, offset)
        if offset.literal and not self.index.literal:
            # (p + i)[3]: the compiler shares p + i and folds 3 into the instruction.
            return element(self.pointer(), offset)
        return element(self.base, plus(self.index, offset))

    def value(self) -> Expr:
        if self.index is None:
            if self.base.level < Level.PRIMARY:
                text = f"*{self.base.at(Level.UNARY)}"
                return Expr(text, Level.UNARY, self.base.reads, self.base.memory)
            return element(self.base, number(0))
        return element(self.base, self.index)

    def plus(self, offset: Expr) -> Expr:
        """The address `offset` elements further."""
        if offset.text == "0":
            return self.pointer()
        if self.index is None:
            return binary("+", self.base, offset, regroup=True)
        return binary("+", self.base, plus(self.index, offset), regroup=True)


Operand = Expr | Vec | Place


def plus(a: Expr, b: Expr) -> Expr:
    """`a + b` for indices, added now if both are numbers."""
    if a.literal and b.literal:
        return number(int(a.short.rstrip("ul")) + int(b.short.rstrip("ul")))
    if b.text == "0":
        return a
    if a.literal:
        return b if a.text == "0" else plus(b, a)
    if b.literal and a.binary is not None and a.binary[0] == "+" and a.binary[2].literal:
        return plus(a.binary[1], plus(a.binary[2], b))
    return binary("+", a, b, regroup=True)


def times(a: Expr, factor: int) -> Expr:
    if a.literal:
        return number(int(a.text) * factor)
    return a if factor == 1 else binary("*", a, number(factor))


def array_vec(text: str, dtype: DType, count: int, mutable: bool = False) -> Vec:
    """The vector held by the array variable `text`."""
    return memory_vec(
        Place(name(text, mutable), None, PtrType(dtype, Space.RMEM, 16)), dtype, count, None, text
    )


def memory_vec(
    place: Place, dtype: DType, count: int, access: Access | None, array: str = ""
) -> Vec:
    """The `count` elements at `place`; `access` says what memory that reads, if it is memory."""
    memory = place.memory | ({access} if access is not None else NO_MEMORY)

    def at(index: Expr) -> Expr:
        return with_memory(place.at(index), memory)

    def pair(index: Expr) -> Expr:
        pointer = place.plus(index)
        word = {16: "u32", 8: "u16"}[dtype.storage_bits]
        text = f"*(const {word}*){pointer.at(Level.UNARY)}"
        return Expr(text, Level.UNARY, place.reads | index.reads, memory)

    packs = dtype.storage_bits in (8, 16) and place.type.align % (dtype.storage_bits // 4) == 0
    return Vec(
        dtype,
        count,
        at,
        pair=pair if packs else None,
        reads=place.reads,
        memory=memory,
        array=array,
        place=place,
        free=True,
    )


@dataclass(frozen=True, slots=True)
class Variable:
    """A C++ variable that is assigned to.

    `holds` is the value that is in it where the block that assigns to it begins: a carried
    argument; None if it holds nothing yet.
    """

    name: str
    type: Type
    holds: object = None

    def operand(self) -> Operand:
        """Reading the variable."""
        if isinstance(self.type, VecType):
            return array_vec(self.name, self.type.dtype, self.type.count, mutable=True)
        e = name(self.name, mutable=True)
        return Place(e, None, self.type) if isinstance(self.type, PtrType) else e
