"""Compile-time attributes of the tile vocabulary: enums, dense constants, predicates, hints.

Enums are tables of their names in the order of their numbers (what bytecode and the generic text
form store).  An attribute value of an enum is its name, a plain string.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.core import Attribute
from tilewright.ir.tile_types import DIALECT, TileIrType, spelled


@dataclass(frozen=True, slots=True)
class EnumTable:
    """`mnemonic` is the attribute's name in `#cuda_tile.mnemonic<value>`.

    `late` holds the values that are newer than the enum, with the version that has each.
    """

    mnemonic: str
    values: tuple[str, ...]
    late: tuple[tuple[str, tuple[int, int]], ...] = ()


ROUNDING = EnumTable(
    "rounding",
    (
        "nearest_even",
        "zero",
        "negative_inf",
        "positive_inf",
        "approx",
        "full",
        "nearest_int_to_zero",
        "nearest_away",
    ),
    late=(("nearest_away", (13, 4)),),
)
SIGNEDNESS = EnumTable("signedness", ("unsigned", "signed"))
OVERFLOW = EnumTable("overflow", ("none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap"))
PREDICATE = EnumTable(
    "comparison_predicate",
    (
        "equal",
        "not_equal",
        "less_than",
        "less_than_or_equal",
        "greater_than",
        "greater_than_or_equal",
    ),
)
ORDERING = EnumTable("comparison_ordering", ("unordered", "ordered"))
MEMORY_ORDER = EnumTable(
    "memory_ordering_semantics", ("weak", "relaxed", "acquire", "release", "acq_rel")
)
MEMORY_SCOPE = EnumTable("memory_scope", ("tl_blk", "device", "sys"))
ATOMIC_MODE = EnumTable(
    "atomic_rmw_mode",
    ("and", "or", "xor", "add", "addf", "max", "min", "umax", "umin", "xchg"),
)
VISIBILITY = EnumTable("symbol_visibility", ("public", "private"))

ENUMS = {
    table.mnemonic: table
    for table in (
        ROUNDING,
        SIGNEDNESS,
        OVERFLOW,
        PREDICATE,
        ORDERING,
        MEMORY_ORDER,
        MEMORY_SCOPE,
        ATOMIC_MODE,
        VISIBILITY,
    )
}


@dataclass(frozen=True, slots=True)
class DenseAttr(Attribute):
    """The elements of a constant: bit patterns in row-major order; one pattern is a splat."""

    type: TileIrType
    bits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TypedAttr(Attribute):
    """A number and its type: `0.0 : f32`, `7 : i32`.  `text` is the number as written."""

    text: str
    type: TileIrType

    def __str__(self) -> str:
        return f"{self.text} : {spelled(self.type)}"


@dataclass(frozen=True, slots=True)
class TypeAttr(Attribute):
    """A type as a value."""

    type: TileIrType

    def __str__(self) -> str:
        return spelled(self.type)


@dataclass(frozen=True, slots=True)
class DivBy(Attribute):
    """Divisible by `divisor`; with `every`, that of elements 0, every, 2 every... of a dim."""

    divisor: int
    every: int | None = None
    along: int | None = None

    def __str__(self) -> str:
        where = "" if self.every is None else f", every {self.every} along {self.along}"
        return f"div_by<{self.divisor}{where}>"


@dataclass(frozen=True, slots=True)
class SameElements(Attribute):
    """Elements are equal inside boxes of these extents."""

    extents: tuple[int, ...]

    def __str__(self) -> str:
        return f"same_elements<[{', '.join(map(str, self.extents))}]>"


@dataclass(frozen=True, slots=True)
class Bounded(Attribute):
    """Between two bounds, inclusive; None is no bound."""

    lower: int | None
    upper: int | None

    def __str__(self) -> str:
        shown = ["?" if b is None else str(b) for b in (self.lower, self.upper)]
        return f"bounded<{shown[0]}, {shown[1]}>"


PREDICATES = (DivBy, SameElements, Bounded)


@dataclass(frozen=True, slots=True)
class HintsAttr(Attribute):
    """Optimization hints by architecture: ((arch, ((key, value), ...)), ...)."""

    by_arch: tuple[tuple[str, tuple[tuple[str, int | bool | str], ...]], ...]


@dataclass(frozen=True, slots=True)
class SymbolAttr(Attribute):
    """A reference to a symbol."""

    name: str


@dataclass(frozen=True, slots=True)
class ArrayAttr(Attribute):
    """Numbers of one type: `array<i32: 1, 0>`."""

    type: str
    values: tuple[int | bool, ...]

    def __str__(self) -> str:
        shown = ", ".join(str(v).lower() for v in self.values)
        return f"array<{self.type}: {shown}>" if self.values else f"array<{self.type}>"


@dataclass(frozen=True, slots=True)
class RawAttr(Attribute):
    """An attribute that no rule looks into, kept as written."""

    text: str

    def __str__(self) -> str:
        return self.text


def predicate_name(predicate: Attribute) -> str:
    """The qualified mnemonic, as diagnostics name it."""
    return f"{DIALECT}.{str(predicate).partition('<')[0]}"
