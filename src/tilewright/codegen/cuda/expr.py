"""C++ expressions as text with just enough structure to place parentheses and to order writes.

`Level` is C++'s precedence.  Parentheses are the fewest that keep the meaning, plus those that a
careful writer adds anyway: round shifts and bitwise operators mixed with arithmetic, and round
`&&` inside `||`.
"""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tilewright.ir.core import Value
from tilewright.ir.types import Space
from tilewright.numeric.dtypes import DType
from tilewright.numeric.encode import encode


class Level(enum.IntEnum):
    """How tightly an expression's outermost operator binds."""

    CONDITIONAL = 3
    LOGICAL_OR = 4
    LOGICAL_AND = 5
    OR = 6
    XOR = 7
    AND = 8
    EQUAL = 9
    COMPARE = 10
    SHIFT = 11
    ADD = 12
    MUL = 13
    UNARY = 15
    PRIMARY = 16


@dataclass(frozen=True, slots=True)
class Access:
    """A piece of memory that is read or written.

    `root` is the allocation it lies in, None if unknown; `offset` its first element there, None
    if it is not a constant.
    """

    space: Space
    root: Value | None = None
    offset: int | None = None

    def conflicts(self, write: Access) -> bool:
        """Whether `write` may change what this access reads."""
        if self.space is not write.space:
            return False
        return self.root is write.root or self.root is None or write.root is None


NOTHING: frozenset[str] = frozenset()
NO_MEMORY: frozenset[Access] = frozenset()


@dataclass(frozen=True, slots=True)
class Expr:
    """A scalar expression.

    `plain` is a shorter spelling for places that convert it to the right type anyhow, such as an
    initialiser.  `reads` are the mutable variables and `memory` the accesses in the text.
    `binary` is the outermost operator and its sides, for compound assignment.
    """

    text: str
    level: Level = Level.PRIMARY
    reads: frozenset[str] = NOTHING
    memory: frozenset[Access] = NO_MEMORY
    plain: str = ""
    literal: bool = False
    binary: tuple[str, Expr, Expr] | None = field(default=None, compare=False)

    @property
    def short(self) -> str:
        return self.plain or self.text

    @property
    def trivial(self) -> bool:
        """A name or a number: as good as a variable."""
        return self.literal or (self.level is Level.PRIMARY and self.text.isidentifier())

    def at(self, level: int) -> str:
        """The text, in parentheses unless it binds at least as tightly as `level`."""
        return self.text if self.level >= level else f"({self.text})"


def merged(parts: Iterable[Expr]) -> tuple[frozenset[str], frozenset[Access]]:
    """What an expression made of `parts` reads."""
    reads, memory = NOTHING, NO_MEMORY
    for part in parts:
        if part.reads:
            reads = reads | part.reads
        if part.memory:
            memory = memory | part.memory
    return reads, memory


_LEVELS = {
    **dict.fromkeys(("*", "/", "%"), Level.MUL),
    **dict.fromkeys(("+", "-"), Level.ADD),
    **dict.fromkeys(("<<", ">>"), Level.SHIFT),
    **dict.fromkeys(("<", "<=", ">", ">="), Level.COMPARE),
    **dict.fromkeys(("==", "!="), Level.EQUAL),
    **{"&": Level.AND, "^": Level.XOR, "|": Level.OR},
    **{"&&": Level.LOGICAL_AND, "||": Level.LOGICAL_OR},
}
_CHAINS = ("&", "^", "|", "&&", "||")


def binary(op: str, a: Expr, b: Expr, regroup: bool = False) -> Expr:
    """`a op b`.  `regroup`: `a + (b + c)` may lose its parentheses (integers).

    >>> x, y = Expr("x"), Expr("y")
    >>> binary("*", binary("+", x, y), y).text, binary("-", x, binary("-", y, x)).text
    ('(x + y) * y', 'x - (y - x)')
    >>> binary("*", x, binary("*", binary("%", x, y), y), regroup=True).text
    'x * (x % y * y)'
    """
    level = _LEVELS[op]
    left, right = _sides(op, a, b, level, regroup)
    # A literal next to a typed operand needs no suffix: the usual conversions give it one.
    if a.literal and not b.literal and op not in ("<<", ">>"):
        left = a.short
    if b.literal and (not a.literal or op in ("<<", ">>")):
        right = b.short
    reads, memory = merged((a, b))
    return Expr(f"{left} {op} {right}", level, reads, memory, binary=(op, a, b))


def _sides(op: str, a: Expr, b: Expr, level: Level, regroup: bool) -> tuple[str, str]:
    def same(e: Expr) -> bool:
        return e.binary is not None and e.binary[0] == op

    if op in _CHAINS:
        # Beside its own kind and, for the logical ones, comparisons: everything else in brackets.
        inner = Level.COMPARE if level <= Level.LOGICAL_AND else Level.UNARY
        if level <= Level.LOGICAL_AND:
            inner = Level.EQUAL
        return (
            a.text if same(a) else a.at(inner),
            b.text if same(b) and regroup else b.at(inner),
        )
    if level is Level.SHIFT:
        return a.at(Level.UNARY), b.at(Level.UNARY)
    if level in (Level.COMPARE, Level.EQUAL):
        return a.at(Level.ADD), b.at(Level.ADD)
    if regroup and op in ("+", "*") and same(b) and (op == "+" or _only_factors(b)):
        return a.at(level), b.text
    return a.at(level), b.at(level + 1)


def _only_factors(product: Expr) -> bool:
    """Whether a product's text starts with a factor: `x % y * z` and `x / y * z` do not."""
    assert product.binary is not None, "the caller has looked: it is a product"
    first = product.binary[1]
    if first.binary is None or first.level is not Level.MUL:
        return True
    return first.binary[0] == "*" and _only_factors(first)


def unary(op: str, a: Expr) -> Expr:
    gap = " " if op == "-" and a.text.startswith("-") else ""
    return Expr(f"{op}{gap}{a.at(Level.UNARY)}", Level.UNARY, a.reads, a.memory)


def cast(ctype: str, a: Expr) -> Expr:
    """`(ctype)a`: `a` alone suffices where the context converts."""
    return Expr(f"({ctype}){a.at(Level.UNARY)}", Level.UNARY, a.reads, a.memory, plain=a.text)


def pointer_cast(ctype: str, a: Expr) -> Expr:
    """A cast from or to a pointer, which no context does by itself."""
    return Expr(f"({ctype}){a.at(Level.UNARY)}", Level.UNARY, a.reads, a.memory)


def call(function: str, *args: Expr) -> Expr:
    reads, memory = merged(args)
    return Expr(f"{function}({', '.join(a.text for a in args)})", Level.PRIMARY, reads, memory)


def conditional(condition: Expr, a: Expr, b: Expr) -> Expr:
    text = (
        f"{condition.at(Level.LOGICAL_OR)} ? {a.at(Level.LOGICAL_OR)} : {b.at(Level.CONDITIONAL)}"
    )
    reads, memory = merged((condition, a, b))
    return Expr(text, Level.CONDITIONAL, reads, memory)


def element(array: Expr, index: Expr) -> Expr:
    """`array[index]`."""
    reads, memory = merged((array, index))
    # NOTE: only a literal may lose its type here; a narrowing cast in an index has a meaning.
    inner = index.short if index.literal else index.text
    return Expr(f"{array.at(Level.PRIMARY)}[{inner}]", Level.PRIMARY, reads, memory)


def with_memory(e: Expr, memory: frozenset[Access]) -> Expr:
    return replace(e, memory=e.memory | memory)


def name(text: str, mutable: bool = False) -> Expr:
    return Expr(text, reads=frozenset((text,)) if mutable else NOTHING)


def number(value: int) -> Expr:
    """A small `int` literal, such as an index."""
    return Expr(str(value), Level.PRIMARY if value >= 0 else Level.UNARY, literal=True)


_SUFFIX = {"u32": "u", "i64": "ll", "u64": "ull"}


def literal(value: int | float | bool, dtype: DType) -> Expr:
    """The exact constant.

    >>> from tilewright.numeric.dtypes import BF16, F32, I32, U32
    >>> [literal(1, d).text for d in (I32, U32, F32, BF16)]
    ['1', '1u', '1.0f', '0x3f80']
    >>> literal(0.1, F32).text, literal(float("inf"), F32).text
    ('0.1f', '__int_as_float(0x7f800000)')
    """
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    if not dtype.is_integer:
        return Expr("true" if value else "false", literal=True)
    value = int(value)
    suffix = _SUFFIX.get(dtype.name, "")
    if value == dtype.min and value < 0 and dtype.bits >= 32:
        # The digits alone would be a positive number that does not fit.
        return Expr(f"({value + 1}{suffix} - 1)", literal=True)
    digits = hex(value) if value >= 1 << 16 and not dtype.is_signed else str(value)
    level = Level.UNARY if value < 0 else Level.PRIMARY
    fits = -(1 << 31) < value < 1 << 31
    return Expr(digits + suffix, level, plain=digits if fits else "", literal=True)


def _float_literal(value: float, dtype: DType) -> Expr:
    level = Level.UNARY if math.copysign(1.0, value) < 0 else Level.PRIMARY
    if dtype.bits < 32:
        return Expr(hex(int(encode([value], dtype)[0])), literal=True)
    if not math.isfinite(value) or dtype.name == "f64":
        if math.isfinite(value):
            return Expr(repr(value), level, literal=True)
        if dtype.name == "f64":
            bits = struct.unpack("<Q", struct.pack("<d", value))[0]
            return Expr(f"__longlong_as_double(0x{bits:x}ll)", literal=True)
    bits = int(encode([value], dtype)[0])
    rounded = struct.unpack("<f", struct.pack("<I", bits))[0]
    if not math.isfinite(rounded):
        return Expr(f"__int_as_float(0x{bits:x})", literal=True)
    digits = next(d for d in (f"{rounded:.{p}g}" for p in range(1, 10)) if _same(d, rounded))
    if not any(mark in digits for mark in ".en"):
        digits += ".0"
    return Expr(digits + "f", level, literal=True)


def _same(digits: str, value: float) -> bool:
    try:
        return bool(struct.pack("<f", float(digits)) == struct.pack("<f", value))
    except OverflowError:
        return False
