"""Arithmetic on scalars and vectors: elementwise, wrapping for integers, IEEE for floats.

Both operands of a binary operation have the same type.  A vector operation is the scalar one
applied to each element.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.constraints import FLOATS, INTEGER, INTEGERS, SCALAR, VALUE, VECTOR
from tilewright.ir.core import Op, attr, operand, result, variadic
from tilewright.ir.types import BOOLEAN, ScalarType, Type, VecType, element_type, like
from tilewright.numeric.dtypes import BOOL, dtype


def _type_of_a(op: Any) -> Type:
    return op.operands[0].type  # type: ignore[no-any-return]


class Constant(Op):
    """`value`, a Python number, as a scalar of `dtype`."""

    name = "arith.constant"
    value: attr[int | float | bool] = attr(object)  # type: ignore[arg-type]
    dtype = attr(str)
    result = result(lambda op: ScalarType(dtype(op.dtype)))


class _Binary(Op):
    __slots__ = ()

    def check(self) -> str | None:
        a, b = self.operands[0].type, self.operands[1].type
        return None if a == b else f"operands must have one type, got {a} and {b}"


class Add(_Binary):
    name = "arith.add"
    a = operand(VALUE)
    b = operand(VALUE)
    result = result(_type_of_a)


class Sub(_Binary):
    name = "arith.sub"
    a = operand(VALUE)
    b = operand(VALUE)
    result = result(_type_of_a)


class Mul(_Binary):
    name = "arith.mul"
    a = operand(VALUE)
    b = operand(VALUE)
    result = result(_type_of_a)


class Div(_Binary):
    """`a / b` for floats."""

    name = "arith.div"
    a = operand(FLOATS)
    b = operand(FLOATS)
    result = result(_type_of_a)


class FloorDiv(_Binary):
    """`floor(a / b)` for integers: Python's `//`, also for negative operands."""

    name = "arith.floordiv"
    a = operand(INTEGERS)
    b = operand(INTEGERS)
    result = result(_type_of_a)


class Mod(_Binary):
    """`a - b * floor(a / b)` for integers: Python's `%`, so the sign is that of `b`."""

    name = "arith.mod"
    a = operand(INTEGERS)
    b = operand(INTEGERS)
    result = result(_type_of_a)


class Min(_Binary):
    """The smaller; for floats a NaN operand yields the other one (PTX `min`)."""

    name = "arith.min"
    a = operand(VALUE)
    b = operand(VALUE)
    result = result(_type_of_a)


class Max(_Binary):
    """The larger; for floats a NaN operand yields the other one (PTX `max`)."""

    name = "arith.max"
    a = operand(VALUE)
    b = operand(VALUE)
    result = result(_type_of_a)


class And(_Binary):
    """Bitwise and; logical for bool."""

    name = "arith.and"
    a = operand(INTEGERS)
    b = operand(INTEGERS)
    result = result(_type_of_a)


class Or(_Binary):
    name = "arith.or"
    a = operand(INTEGERS)
    b = operand(INTEGERS)
    result = result(_type_of_a)


class Xor(_Binary):
    name = "arith.xor"
    a = operand(INTEGERS)
    b = operand(INTEGERS)
    result = result(_type_of_a)


class Shl(_Binary):
    name = "arith.shl"
    a = operand(INTEGERS)
    b = operand(INTEGERS)
    result = result(_type_of_a)


class Shr(_Binary):
    """Shift right: keeps the sign of signed types, fills with zeros for unsigned ones."""

    name = "arith.shr"
    a = operand(INTEGERS)
    b = operand(INTEGERS)
    result = result(_type_of_a)


class Fma(Op):
    """`a * b + c` with one rounding for floats (IEEE fusedMultiplyAdd); wrapping for integers."""

    name = "arith.fma"
    a = operand(VALUE)
    b = operand(VALUE)
    c = operand(VALUE)
    result = result(_type_of_a)

    def check(self) -> str | None:
        types = {v.type for v in self.operands}
        return None if len(types) == 1 else "the three operands must have one type"


class Neg(Op):
    name = "arith.neg"
    a = operand(VALUE)
    result = result(_type_of_a)


class Cmp(_Binary):
    """Comparison, giving bool; ordered for floats (a NaN operand: false, except `ne`: true)."""

    name = "arith.cmp"
    a = operand(VALUE)
    b = operand(VALUE)
    predicate = attr(str, choices=("eq", "ne", "lt", "le", "gt", "ge"))
    result = result(lambda op: like(op.operands[0].type, BOOL))


class Select(Op):
    """`a` where `condition` holds, else `b`; both are evaluated."""

    name = "arith.select"
    condition = operand(VALUE)
    a = operand(VALUE)
    b = operand(VALUE)
    result = result(lambda op: op.operands[1].type)

    def check(self) -> str | None:
        if self.a.type != self.b.type:
            return f"both choices must have one type, got {self.a.type} and {self.b.type}"
        if self.condition.type not in (BOOLEAN, like(self.a.type, BOOL)):
            return f"condition must be bool, got {self.condition.type}"
        return None


class Cast(Op):
    """Numeric conversion to `dtype`.

    Float to float rounds by `rounding` ('rn' nearest even, 'rz', 'rp', 'rm', 'rna' nearest
    away), `saturate` clamps to the largest finite value; float to integer truncates and clamps
    (PTX `cvt.rzi`), NaN gives 0; integer to integer wraps; anything to bool tests for non-zero.
    """

    name = "arith.cast"
    a = operand(VALUE)
    dtype = attr(str)
    rounding = attr(str, "rn", choices=("rn", "rz", "rp", "rm", "rna"))
    saturate = attr(bool, False)
    result = result(lambda op: like(op.operands[0].type, dtype(op.dtype)))


class Bitcast(Op):
    """The same bits as another element type of the same width (scalars)."""

    name = "arith.bitcast"
    a = operand(SCALAR)
    dtype = attr(str)
    result = result(lambda op: ScalarType(dtype(op.dtype)))

    def check(self) -> str | None:
        old, new = element_type(self.a.type), dtype(self.dtype)
        if old.storage_bits != new.storage_bits:
            return f"{old.name} has {old.storage_bits} bits, {new.name} has {new.storage_bits}"
        return None


class Math(Op):
    """An elementary function of a float.

    `fast` allows the hardware approximation (`ex2.approx` and the like) for f32; without it the
    result is that of the CUDA math library, or correctly rounded where that is.
    """

    name = "arith.math"
    a = operand(FLOATS)
    function = attr(
        str,
        choices=(
            *("exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "rcp", "sin", "cos"),
            *("tanh", "erf", "floor", "ceil", "abs"),
        ),
    )
    fast = attr(bool, False)
    result = result(_type_of_a)


class Popc(Op):
    """Number of one bits, as u32."""

    name = "arith.popc"
    a = operand(INTEGER)
    result = result(lambda _: ScalarType(dtype("u32")))


class Splat(Op):
    """A vector whose `count` elements all are `a`."""

    name = "vec.splat"
    a = operand(SCALAR)
    count = attr(int)
    result = result(lambda op: VecType(op.a.type.dtype, op.count))


class Extract(Op):
    """Element `index` of a vector."""

    name = "vec.extract"
    vector = operand(VECTOR)
    index = attr(int)
    result = result(lambda op: ScalarType(op.vector.type.dtype))

    def check(self) -> str | None:
        count = self.vector.type.count  # type: ignore[union-attr]
        return None if 0 <= self.index < count else f"index {self.index} is outside 0..{count - 1}"


class Pack(Op):
    """A vector made of scalars of one type."""

    name = "vec.pack"
    elements = variadic(SCALAR)
    result = result(lambda op: VecType(op.operands[0].type.dtype, len(op.operands)))

    def check(self) -> str | None:
        return None if len({v.type for v in self.operands}) == 1 else "elements must have one type"


class Shuffle(Op):
    """A vector made of the elements `indices` of another: slices, permutations, broadcasts."""

    name = "vec.shuffle"
    vector = operand(VECTOR)
    indices = attr(tuple)
    result = result(lambda op: VecType(op.vector.type.dtype, len(op.indices)))


class Reduce(Op):
    """The elements of a vector combined from the first to the last: add, mul, min or max."""

    name = "vec.reduce"
    vector = operand(VECTOR)
    kind = attr(str, choices=("add", "mul", "min", "max"))
    result = result(lambda op: ScalarType(op.vector.type.dtype))
