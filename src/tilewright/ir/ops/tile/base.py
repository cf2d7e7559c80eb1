"""How a Tile IR operation is declared: its fields, text, opcode and rules, once.

    class AddF(TileOp):
        name = "cuda_tile.addf"
        opcode = 0x02
        lhs = operand(FLOATS)
        rhs = operand(FLOATS)
        result = result(FLOATS)
        rounding_mode = rounding(IEEE)
        flush_to_zero = flag()
        assembly = "lhs , rhs rounding_mode flush_to_zero : type(result)"
        alike = (("lhs", "rhs", "result"),)

`assembly` is read by the parser and the printer (`tileir/assembly.py` documents its language),
`alike` names fields of one type, so that one of them in the text is enough, `rules` are checked
after the fields' own constraints and `check` last.  Diagnostics name operations, fields and
constraints in Tile IR's terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from tilewright.ir.core import Attribute, Block, Constraint, Op, Value, attr
from tilewright.ir.tile_attrs import (
    OVERFLOW,
    ROUNDING,
    SIGNEDNESS,
    EnumTable,
    HintsAttr,
)
from tilewright.ir.tile_types import (
    NumberType,
    PointerType,
    TensorViewType,
    TileIrType,
    TileType,
    TokenType,
    ViewType,
)
from tilewright.ir.types import Type

Version = tuple[int, int]
A = TypeVar("A")


class Argument(Value):
    """An argument of a region, with the debug location that the text gave it."""

    __slots__ = ("location",)

    def __init__(self, type: Type, owner: Block, location: Attribute | None = None) -> None:
        super().__init__(type, owner)
        self.location = location


class TileOp(Op):
    """Base of the tile vocabulary.

    `location` is the debug location as the text gave it, `extra` holds attributes that the
    operation does not declare.
    """

    __slots__ = ("extra", "location")

    opcode: ClassVar[int] = -1
    since: ClassVar[Version] = (13, 1)
    assembly: ClassVar[str] = ""
    alike: ClassVar[tuple[tuple[str, ...], ...]] = ()
    rules: ClassVar[tuple[Rule, ...]] = ()
    testing: ClassVar[bool] = False
    """Only NVIDIA's own tests use it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.location: Attribute | None = None
        self.extra: dict[str, Attribute | str] = {}
        super().__init__(*args, **kwargs)

    @property
    def mnemonic(self) -> str:
        return self.name.partition(".")[2]

    def types_of(self, label: str) -> Sequence[Type]:
        """The types of an operand group or result field, whether it holds one value or many."""
        found = getattr(self, label)
        if found is None:
            return ()
        return [v.type for v in found] if isinstance(found, tuple) else [found.type]

    def check_in(self, version: Version) -> str | None:
        """What `check` says, where a version of the dialect does not say otherwise."""
        del version
        return self.check()

    def check_regions(self) -> str | None:
        """A rule about the regions' contents, checked after those contents."""
        return None


class enum_attr(attr[str]):
    """An enum; `style` says how it is written (see `tileir/assembly.py`).

    keyword   `signed`                 bare      a missing or other word is an error
    bracket   `rounding<zero>`         omitted where it is the default
    scope     `device`                 may be absent
    """

    def __init__(
        self,
        table: EnumTable,
        style: str = "keyword",
        default: str | None = None,
        allowed: tuple[str, ...] = (),
        title: str = "",
        since: Version = (13, 1),
    ) -> None:
        super().__init__(str, default, table.values)
        self.since = since
        self.table = table
        self.style = style
        self.allowed = allowed or table.values
        self.title = title


class flag(attr[bool]):
    """A unit attribute: the word is there or not.  `word` where it is not the field's name."""

    def __init__(self, word: str = "", since: Version = (13, 1)) -> None:
        super().__init__(bool, False)
        self.word = word
        self.since = since


class maybe(attr[A]):
    """An attribute that may be absent: None then."""

    def __init__(self, kind: type[Any], since: Version = (13, 1)) -> None:
        super().__init__(kind)
        self.since = since


class hints_attr(attr[HintsAttr | None]):
    """Optimization hints by architecture, or None."""

    def __init__(self) -> None:
        super().__init__(HintsAttr, None)


class dicts_attr(maybe[tuple[dict[str, Any], ...] | None]):
    """A dictionary for each argument (or result) of a function; absent where all are empty."""

    def __init__(self) -> None:
        super().__init__(tuple)


class int_attr(attr[int]):
    """An integer of `bits`, at least `least`."""

    def __init__(self, bits: int, least: int | None = None) -> None:
        super().__init__(int)
        self.bits = bits
        self.least = least

    def fault(self, value: int) -> str:
        """What a value breaks, in ODS's words; empty if nothing."""
        if self.least is not None and value < self.least:
            most = (
                "whose value is non-negative"
                if self.bits == 32
                else f"whose minimum value is {self.least}"
            )
            return f"{self.bits}-bit signless integer attribute {most}"
        return ""


IEEE = ("nearest_even", "zero", "negative_inf", "positive_inf")


def rounding(
    allowed: tuple[str, ...], default: str = "nearest_even", since: Version = (13, 1)
) -> enum_attr:
    return enum_attr(ROUNDING, "bracket", default, allowed, "rounding mode", since)


def overflow(since: Version = (13, 1)) -> enum_attr:
    return enum_attr(OVERFLOW, "bracket", "none", title="overflow", since=since)


def signedness() -> enum_attr:
    return enum_attr(SIGNEDNESS, "keyword", allowed=("signed", "unsigned"), title="signedness")


# --- constraints on types -----------------------------------------------------------------------


def _elements(*names: str) -> str:
    return " or ".join(names)


def tile_of(*names: str, rank: int | None = None, title: str = "") -> Constraint:
    """Tiles (scalars, if `rank` is 0) of the named element types."""
    kind = title or ("0D tile" if rank == 0 else "tile")
    listed = (name for name in names if name != "fnv8E5M3FNU")  # 13.3's texts lack the type

    def accepts(t: Type) -> bool:
        return (
            isinstance(t, TileType)
            and isinstance(t.element, NumberType)
            and t.element.name in names
            and (rank is None or t.rank == rank)
        )

    return Constraint(f"{kind} of {_elements(*listed)} values", accepts)


INT_NAMES = ("i1", "i8", "i16", "i32", "i64")
FLOAT_NAMES = ("f16", "bf16", "f32", "f64")
NARROW_FLOAT_NAMES = ("tf32", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN", "fnv8E5M3FNU")
ALL_FLOAT_NAMES = FLOAT_NAMES + NARROW_FLOAT_NAMES

INTS = tile_of(*INT_NAMES)
INTS4 = tile_of(*INT_NAMES, "i4")
I1S = tile_of("i1")
I8S = tile_of("i8")
I64S = tile_of("i64")
FLOATS = tile_of(*FLOAT_NAMES)
ALL_FLOATS = tile_of(*ALL_FLOAT_NAMES)
NUMBERS_ = tile_of(*INT_NAMES, *ALL_FLOAT_NAMES)
NUMBERS4 = tile_of(*INT_NAMES, *ALL_FLOAT_NAMES, "i4")
INT0 = tile_of(*INT_NAMES, rank=0)
I1_0 = tile_of("i1", rank=0)
I32_0 = tile_of("i32", rank=0)


def _is_pointer_tile(t: Type, rank: int | None = None) -> bool:
    return (
        isinstance(t, TileType)
        and isinstance(t.element, PointerType)
        and (rank is None or t.rank == rank)
    )


POINTERS = Constraint("tile of Pointer type values", _is_pointer_tile)
POINTER0 = Constraint("0D tile of Pointer type values", lambda t: _is_pointer_tile(t, 0))
TILES = Constraint("tile of any element type", lambda t: isinstance(t, TileType))
TOKENS = Constraint("cuda tile token type", lambda t: isinstance(t, TokenType))
TENSOR_VIEWS = Constraint("tensor_view instance", lambda t: isinstance(t, TensorViewType))
VIEWS = Constraint("TileView instance", lambda t: isinstance(t, ViewType))
ANYTHING = Constraint("any type", lambda _: True)
TILE_IR = Constraint(
    "tile, view or token type",
    lambda t: isinstance(t, TileType | ViewType | TensorViewType | TokenType),
)


# --- rules over several fields ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """A named test on an operation; `text` is what a diagnostic says failed."""

    text: str
    holds: Callable[[Any], bool]


def _same(labels: tuple[str, ...], text: str, key: Callable[[Any], object]) -> Rule:
    names = ", ".join(label.rstrip("_") for label in labels)

    def holds(op: TileOp) -> bool:
        found = {key(t) for label in labels for t in op.types_of(label)}
        return len(found) <= 1

    return Rule(f"failed to verify that all of {{{names}}} have {text}", holds)


def same_type(*labels: str) -> Rule:
    return _same(labels, "same type", lambda t: t)


def same_shape(*labels: str) -> Rule:
    return _same(labels, "same shape", lambda t: t.shape)


def same_rank(*labels: str) -> Rule:
    return _same(labels, "same rank", lambda t: t.rank)


def same_element(*labels: str) -> Rule:
    return _same(labels, "the same element type", lambda t: t.element)


def pointee_rule(pointers: str, values: str) -> Rule:
    """`pointers` is the tile of pointers to the elements of `values`."""

    def holds(op: TileOp) -> bool:
        p, v = op.types_of(pointers)[0], op.types_of(values)[0]
        return (
            isinstance(p, TileType)
            and isinstance(v, TileType)
            and isinstance(p.element, PointerType)
            and p.shape == v.shape
            and p.element.pointee == v.element
        )

    text = f"failed to verify that `{pointers}` type is expected a pointer type of `{values}` type"
    return Rule(text, holds)


def tile_type(t: object) -> TileType:
    """`t`, which a constraint has already found to be a tile."""
    assert isinstance(t, TileType), f"a constraint admits only tiles, got {t}"
    return t


def element_name(t: object) -> str:
    """The element type's name, as rules compare it."""
    return str(t.element) if isinstance(t, TileType) else str(t)


def only_f32(op: TileOp, element: str) -> str | None:
    """The modifiers that only f32 has: flush_to_zero, and the approximate rounding modes."""
    if op.attrs.get("flush_to_zero") and element != "f32":
        return _only_f32("flush_to_zero", element)
    mode = op.attrs.get("rounding_mode")
    declared = op.ATTRS.get("rounding_mode")
    if isinstance(declared, enum_attr):
        if mode not in declared.allowed:
            shown = ", ".join(declared.allowed)
            return f"invalid rounding mode specified, expect one of [{shown}]"
        if mode == "approx" and element != "f32":
            return _only_f32("approx", element)
        if mode == "full" and declared.default != "full" and element != "f32":
            return _only_f32("full", element)
    return None


def _only_f32(modifier: str, element: str) -> str:
    return f"{modifier} modifier only supported for f32 data type, but got: '{element}'"


def is_view(t: TileIrType | Type) -> str:
    """What kind of view a type is, as rules on carried values name it; empty if it is none."""
    if isinstance(t, TensorViewType):
        return "tensor_view"
    return "tile view" if isinstance(t, ViewType) else ""
