"""Integer and float arithmetic, comparisons and elementary functions: elementwise over tiles.

Integers wrap unless an `overflow` promise says that they do not.  Float arithmetic on f16 and
bf16 rounds once; elementary functions on them are computed in f32 and rounded.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import operand, result
from tilewright.ir.ops.tile.base import (
    FLOATS,
    I1S,
    IEEE,
    INTS,
    Rule,
    TileOp,
    element_name,
    enum_attr,
    flag,
    only_f32,
    overflow,
    rounding,
    same_shape,
    signedness,
    tile_type,
)
from tilewright.ir.tile_attrs import ORDERING, PREDICATE


class _IntUnary(TileOp):
    source = operand(INTS)
    result = result(INTS)
    assembly = "source : type(result)"
    alike = (("source", "result"),)


class _IntBinary(TileOp):
    lhs = operand(INTS)
    rhs = operand(INTS)
    result = result(INTS)
    assembly = "lhs , rhs : type(result)"
    alike = (("lhs", "rhs", "result"),)


class _IntOverflow(_IntBinary):
    overflow = overflow()
    assembly = "lhs , rhs overflow : type(result)"


class _IntSigned(_IntBinary):
    signedness = signedness()
    assembly = "lhs , rhs signedness : type(result)"


class AbsI(_IntUnary):
    """|source|, read as signed."""

    name = "cuda_tile.absi"
    opcode = 0x01


class AddI(_IntOverflow):
    name = "cuda_tile.addi"
    opcode = 0x03


class SubI(_IntOverflow):
    name = "cuda_tile.subi"
    opcode = 0x68


class MulI(_IntOverflow):
    name = "cuda_tile.muli"
    opcode = 0x4E


class MulhiI(TileOp):
    """The high half of the unsigned product of twice the width."""

    name = "cuda_tile.mulhii"
    opcode = 0x4D
    x = operand(INTS)
    y = operand(INTS)
    result = result(INTS)
    assembly = "x , y : type(result)"
    alike = (("x", "y", "result"),)


class DivI(_IntSigned):
    """Quotient, rounded towards zero unless `rounding` says otherwise.  Division by 0 is UB."""

    name = "cuda_tile.divi"
    opcode = 0x15
    rounding = rounding(("zero", "negative_inf", "positive_inf"), "zero")
    assembly = "lhs , rhs signedness rounding : type(result)"

    def check(self) -> str | None:
        mode = self.rounding
        if mode not in ("zero", "negative_inf", "positive_inf"):
            return (
                "invalid rounding mode specified, expect one of [zero, negative_inf, positive_inf]"
            )
        if mode == "negative_inf" and self.signedness == "unsigned":
            return "rounding mode 'negative_inf' is not allowed with 'unsigned' flag"
        return None


class RemI(_IntSigned):
    """Remainder of the truncated quotient: the sign is that of `lhs`."""

    name = "cuda_tile.remi"
    opcode = 0x5A


class NegI(_IntUnary):
    name = "cuda_tile.negi"
    opcode = 0x50
    overflow = overflow((13, 2))
    assembly = "source overflow : type(result)"

    def check(self) -> str | None:
        if self.overflow == "no_unsigned_wrap":
            return f"'{self.overflow}' overflow flag is not supported"
        return None


class MaxI(_IntSigned):
    name = "cuda_tile.maxi"
    opcode = 0x46


class MinI(_IntSigned):
    name = "cuda_tile.mini"
    opcode = 0x48


class ShLI(_IntOverflow):
    """Shift left; the amount is read as unsigned."""

    name = "cuda_tile.shli"
    opcode = 0x60


class ShRI(_IntSigned):
    """Shift right, arithmetic if signed; the amount is read as unsigned."""

    name = "cuda_tile.shri"
    opcode = 0x61


class AndI(_IntBinary):
    name = "cuda_tile.andi"
    opcode = 0x04


class OrI(_IntBinary):
    name = "cuda_tile.ori"
    opcode = 0x52


class XOrI(_IntBinary):
    name = "cuda_tile.xori"
    opcode = 0x6C


def _bool_of_operands(op: Any) -> bool:
    out, lhs = tile_type(op.result.type), tile_type(op.lhs.type)
    return out.shape == lhs.shape


_COMPARISON = Rule(
    "failed to verify that Result type has i1 element type and same shape as operands",
    _bool_of_operands,
)


class CmpI(TileOp):
    name = "cuda_tile.cmpi"
    opcode = 0x0F
    comparison_predicate = enum_attr(PREDICATE, "listed")
    signedness = signedness()
    lhs = operand(INTS)
    rhs = operand(INTS)
    result = result(I1S)
    assembly = "comparison_predicate lhs , rhs , signedness : type(lhs) -> type(result)"
    alike = (("lhs", "rhs"),)
    rules = (_COMPARISON,)


class CmpF(TileOp):
    """Ordered comparisons are false where an operand is NaN, unordered ones true."""

    name = "cuda_tile.cmpf"
    opcode = 0x0E
    comparison_predicate = enum_attr(PREDICATE, "listed")
    comparison_ordering = enum_attr(ORDERING, "listed", allowed=("ordered", "unordered"))
    lhs = operand(FLOATS)
    rhs = operand(FLOATS)
    result = result(I1S)
    assembly = "comparison_predicate comparison_ordering lhs , rhs : type(lhs) -> type(result)"
    alike = (("lhs", "rhs"),)
    rules = (_COMPARISON,)


class _FloatUnary(TileOp):
    source = operand(FLOATS)
    result = result(FLOATS)
    assembly = "source : type(result)"
    alike = (("source", "result"),)

    def check(self) -> str | None:
        return only_f32(self, element_name(self.source.type))


class _FloatBinary(TileOp):
    lhs = operand(FLOATS)
    rhs = operand(FLOATS)
    result = result(FLOATS)
    assembly = "lhs , rhs : type(result)"
    alike = (("lhs", "rhs", "result"),)

    def check(self) -> str | None:
        return only_f32(self, element_name(self.lhs.type))


class _FloatRounded(_FloatBinary):
    rounding_mode = rounding(IEEE)
    flush_to_zero = flag()
    assembly = "lhs , rhs rounding_mode flush_to_zero : type(result)"


class AddF(_FloatRounded):
    name = "cuda_tile.addf"
    opcode = 0x02


class SubF(_FloatRounded):
    name = "cuda_tile.subf"
    opcode = 0x67


class MulF(_FloatRounded):
    name = "cuda_tile.mulf"
    opcode = 0x4C


class DivF(_FloatRounded):
    name = "cuda_tile.divf"
    opcode = 0x14
    rounding_mode = rounding((*IEEE, "approx", "full"))


class RemF(_FloatBinary):
    """Remainder of the truncated quotient, as C's fmod."""

    name = "cuda_tile.remf"
    opcode = 0x59


class _FloatExtremum(_FloatBinary):
    propagate_nan = flag()
    flush_to_zero = flag()
    assembly = "lhs , rhs flush_to_zero propagate_nan : type(result)"


class MaxF(_FloatExtremum):
    """A NaN operand is ignored, unless `propagate_nan`.  +0 is greater than -0."""

    name = "cuda_tile.maxf"
    opcode = 0x45


class MinF(_FloatExtremum):
    name = "cuda_tile.minf"
    opcode = 0x47


class Fma(TileOp):
    """lhs * rhs + acc, rounded once."""

    name = "cuda_tile.fma"
    opcode = 0x28
    rounding_mode = rounding(IEEE)
    flush_to_zero = flag()
    lhs = operand(FLOATS)
    rhs = operand(FLOATS)
    acc = operand(FLOATS)
    result = result(FLOATS)
    assembly = "lhs , rhs , acc rounding_mode flush_to_zero : type(result)"
    alike = (("lhs", "rhs", "acc", "result"),)

    def check(self) -> str | None:
        return only_f32(self, element_name(self.lhs.type))


class AbsF(_FloatUnary):
    name = "cuda_tile.absf"
    opcode = 0x00


class NegF(_FloatUnary):
    name = "cuda_tile.negf"
    opcode = 0x4F


class Ceil(_FloatUnary):
    name = "cuda_tile.ceil"
    opcode = 0x0D


class Floor(_FloatUnary):
    name = "cuda_tile.floor"
    opcode = 0x27


class Sqrt(_FloatUnary):
    name = "cuda_tile.sqrt"
    opcode = 0x64
    rounding_mode = rounding((*IEEE, "approx"))
    flush_to_zero = flag()
    assembly = "source rounding_mode flush_to_zero : type(result)"


class Rsqrt(_FloatUnary):
    name = "cuda_tile.rsqrt"
    opcode = 0x5D
    flush_to_zero = flag()
    assembly = "source flush_to_zero : type(result)"


class Exp(_FloatUnary):
    name = "cuda_tile.exp"
    opcode = 0x17
    rounding_mode = rounding(("approx", "full"), "full", (13, 3))
    assembly = "source rounding_mode : type(result)"


class Exp2(_FloatUnary):
    name = "cuda_tile.exp2"
    opcode = 0x18
    flush_to_zero = flag()
    assembly = "source flush_to_zero : type(result)"


class Log(_FloatUnary):
    name = "cuda_tile.log"
    opcode = 0x3F


class Log2(_FloatUnary):
    name = "cuda_tile.log2"
    opcode = 0x40


class Sin(_FloatUnary):
    name = "cuda_tile.sin"
    opcode = 0x62


class Cos(_FloatUnary):
    name = "cuda_tile.cos"
    opcode = 0x12


class Tan(_FloatUnary):
    name = "cuda_tile.tan"
    opcode = 0x69


class SinH(_FloatUnary):
    name = "cuda_tile.sinh"
    opcode = 0x63


class CosH(_FloatUnary):
    name = "cuda_tile.cosh"
    opcode = 0x13


class TanH(_FloatUnary):
    name = "cuda_tile.tanh"
    opcode = 0x6A
    rounding_mode = rounding(("approx", "full"), "full", (13, 2))
    assembly = "source rounding_mode : type(result)"


class Atan2(TileOp):
    name = "cuda_tile.atan2"
    opcode = 0x6E
    since = (13, 2)
    x = operand(FLOATS)
    y = operand(FLOATS)
    result = result(FLOATS)
    assembly = "x , y : type(result)"
    alike = (("x", "y", "result"),)


class FPowF(TileOp):
    """source ** exponent.  Tile IR 13.4 prints it `fpowf`; both names are read."""

    name = "cuda_tile.pow"
    opcode = 0x54
    source = operand(FLOATS)
    exponent = operand(FLOATS)
    result = result(FLOATS)
    assembly = "source , exponent : type(result)"
    alike = (("source", "exponent", "result"),)


class FPowI(TileOp):
    """source ** exponent, the exponent a signed integer."""

    name = "cuda_tile.fpowi"
    opcode = 0x79
    since = (13, 4)
    source = operand(FLOATS)
    exponent = operand(INTS)
    result = result(FLOATS)
    assembly = "source , exponent : type(source) , type(exponent)"
    alike = (("source", "result"),)
    rules = (same_shape("source", "exponent"),)
