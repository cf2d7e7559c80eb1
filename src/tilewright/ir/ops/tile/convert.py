"""Conversions between element types, and between integers and pointers."""

from __future__ import annotations

from tilewright.ir.core import operand, result
from tilewright.ir.ops.tile.base import (
    ALL_FLOAT_NAMES,
    ALL_FLOATS,
    I64S,
    IEEE,
    INTS,
    INTS4,
    NUMBERS4,
    POINTERS,
    TileOp,
    Version,
    element_name,
    enum_attr,
    flag,
    overflow,
    rounding,
    same_shape,
    signedness,
    tile_type,
)
from tilewright.ir.tile_attrs import ROUNDING
from tilewright.ir.tile_types import NumberType, spelled
from tilewright.ir.types import Type

_INTO = "source : type(source) -> type(result)"


def _bits(t: Type) -> int:
    element = tile_type(t).element
    assert isinstance(element, NumberType), "a constraint admits only numbers"
    return element.written_bits


class Bitcast(TileOp):
    """The same bits read as another type of the same width."""

    name = "cuda_tile.bitcast"
    opcode = 0x09
    source = operand(NUMBERS4)
    result = result(NUMBERS4)
    assembly = _INTO
    rules = (same_shape("source", "result"),)

    def check(self) -> str | None:
        source, out = self.source.type, self.result.type
        if _bits(source) != _bits(out):
            return (
                f"types must be equal width, cannot convert '{spelled(source)}' of width "
                f"{_bits(source)} to type '{spelled(out)}' of width {_bits(out)}"
            )
        return None


class ExtI(TileOp):
    name = "cuda_tile.exti"
    opcode = 0x25
    from_ = operand(INTS4)
    to = result(INTS)
    signedness = signedness()
    assembly = "from_ signedness : type(from_) -> type(to)"
    rules = (same_shape("from_", "to"),)

    def check(self) -> str | None:
        wider = _bits(self.to.type) > _bits(self.from_.type)
        return None if wider else "extending to smaller or identical integer"


class TruncI(TileOp):
    name = "cuda_tile.trunci"
    opcode = 0x6B
    from_ = operand(INTS4)
    to = result(INTS4)
    overflow = overflow()
    assembly = "from_ overflow : type(from_) -> type(to)"
    rules = (same_shape("from_", "to"),)

    def check(self) -> str | None:
        narrower = _bits(self.to.type) < _bits(self.from_.type)
        return None if narrower else "truncating to larger or identical integer"


LATE_ROUNDING: Version = (13, 4)
"""The first version in which a conversion of floats has other rounding modes."""
_NARROW = ("f8E4M3FN", "f8E5M2", "f4E2M1FN")
WIDENS = {
    "f64": ALL_FLOAT_NAMES,
    "f32": tuple(name for name in ALL_FLOAT_NAMES if name not in ("f64", "f8E8M0FNU")),
    "tf32": ("f16", "bf16", *_NARROW, "fnv8E5M3FNU"),
    "bf16": (*_NARROW, "fnv8E5M3FNU"),
    "f16": _NARROW,
}
"""To what, from what a conversion is widening: 13.4 then has every rounding mode."""


def late_modes(source: str, out: str) -> tuple[tuple[str, ...], str]:
    """The rounding modes of a conversion to another type in 13.4, and what kind it is.

    f8E8M0FNU has its own.
    """
    if out not in WIDENS:
        return ("nearest_even",), "conversion to low-precision type"
    if (source, out) == ("f64", "f32"):
        return IEEE, "conversion from f64 to f32"
    if (source, out) == ("f32", "tf32"):
        return ("nearest_even", "zero", "nearest_away"), "conversion from f32 to tf32"
    if source in WIDENS[out]:
        return (*IEEE, "nearest_away"), "widening conversion"
    return ("nearest_even", "zero"), "narrowing conversion to a standard type"


class FToF(TileOp):
    name = "cuda_tile.ftof"
    opcode = 0x2A
    from_ = operand(ALL_FLOATS)
    to = result(ALL_FLOATS)
    rounding_mode = rounding((*IEEE, "nearest_away"))
    assembly = "from_ rounding_mode : type(from_) -> type(to)"
    rules = (same_shape("from_", "to"),)

    def check(self) -> str | None:
        source, out = element_name(self.from_.type), element_name(self.to.type)
        if source == out:
            return "converting tiles must not be a no-op"
        if out == "f8E8M0FNU":
            if self.rounding_mode not in ("zero", "positive_inf"):
                return (
                    "invalid rounding mode specified for conversion to f8E8M0FNU. "
                    "Only 'zero' and 'positive_inf' are supported"
                )
        elif self.rounding_mode != "nearest_even":
            return "invalid rounding mode specified. Only 'nearest_even' is supported"
        return None

    def check_in(self, version: Version) -> str | None:
        source, out = element_name(self.from_.type), element_name(self.to.type)
        if version < LATE_ROUNDING or source == out or out == "f8E8M0FNU":
            return self.check()
        modes, kind = late_modes(source, out)
        if self.rounding_mode in modes:
            return None
        listed = ", ".join(f"'{mode}'" for mode in modes)
        only = "is" if len(modes) == 1 else "are"
        return f"invalid rounding mode specified for {kind}. Only {listed} {only} supported"


class FToI(TileOp):
    """Truncates; what does not fit is UB, unless `saturating` clamps it."""

    name = "cuda_tile.ftoi"
    opcode = 0x2B
    from_ = operand(ALL_FLOATS)
    to = result(INTS)
    signedness = signedness()
    rounding_mode = enum_attr(
        ROUNDING, "bracket", "nearest_int_to_zero", ("nearest_int_to_zero",), "rounding mode"
    )
    saturating = flag(since=(13, 4))
    assembly = "from_ signedness rounding_mode saturating : type(from_) -> type(to)"
    rules = (same_shape("from_", "to"),)

    def check(self) -> str | None:
        if self.rounding_mode != "nearest_int_to_zero":
            return "invalid rounding mode specified. Only 'nearest_int_to_zero' is supported"
        return None


class IToF(TileOp):
    name = "cuda_tile.itof"
    opcode = 0x3B
    from_ = operand(INTS)
    to = result(ALL_FLOATS)
    signedness = signedness()
    rounding_mode = rounding(IEEE)
    assembly = "from_ signedness rounding_mode : type(from_) -> type(to)"
    rules = (same_shape("from_", "to"),)

    def check(self) -> str | None:
        if element_name(self.to.type) == "f8E8M0FNU":
            return (
                "integer to f8E8M0FNU conversion is not supported, please first convert to "
                "another float type"
            )
        if self.rounding_mode != "nearest_even":
            return "invalid rounding mode specified. Only 'nearest_even' is supported"
        return None


class IntToPtr(TileOp):
    name = "cuda_tile.int_to_ptr"
    opcode = 0x33
    source = operand(I64S)
    result = result(POINTERS)
    assembly = _INTO
    rules = (same_shape("source", "result"),)


class PtrToInt(TileOp):
    name = "cuda_tile.ptr_to_int"
    opcode = 0x56
    source = operand(POINTERS)
    result = result(I64S)
    assembly = _INTO
    rules = (same_shape("source", "result"),)


class PtrToPtr(TileOp):
    """The same address of another element type."""

    name = "cuda_tile.ptr_to_ptr"
    opcode = 0x57
    source = operand(POINTERS)
    result = result(POINTERS)
    assembly = _INTO
    rules = (same_shape("source", "result"),)
