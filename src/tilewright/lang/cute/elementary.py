"""Elementary functions of numbers and TensorSSAs, public as `cute.math`.

`fastmath` allows the hardware's approximation (``ex2.approx`` and the like) for Float32; without
it the result is that of the CUDA math library.
"""

from __future__ import annotations

import builtins
from typing import Any

from tilewright.errors import DTypeError
from tilewright.ir.ops import arith
from tilewright.lang import trace
from tilewright.lang.cute.tensor_ssa import TensorSSA, elementwise
from tilewright.lang.values import Float32, as_numeric, common_type, from_ir


def _apply(function: str, x: Any, fastmath: bool) -> Any:
    kind = x.dtype if isinstance(x, TensorSSA) else type(as_numeric(x))
    if not kind.is_float:
        raise DTypeError(
            f"{function}: expected a float, got {kind.__name__}",
            loc=trace.loc(),
            hint="convert first: x.to(Float32)",
        )
    return elementwise(
        lambda v: trace.value(arith.Math, v, function=function, fast=builtins.bool(fastmath)), x
    )


def exp(a: Any, fastmath: bool = False) -> Any:
    """e to the power `a`."""
    return _apply("exp", a, fastmath)


def exp2(a: Any, fastmath: bool = False) -> Any:
    """2 to the power `a`."""
    return _apply("exp2", a, fastmath)


def log(a: Any, fastmath: bool = False) -> Any:
    """Natural logarithm."""
    return _apply("log", a, fastmath)


def log2(a: Any, fastmath: bool = False) -> Any:
    """Logarithm to base 2."""
    return _apply("log2", a, fastmath)


def log10(a: Any, fastmath: bool = False) -> Any:
    """Logarithm to base 10."""
    return _apply("log10", a, fastmath)


def sqrt(a: Any, fastmath: bool = False) -> Any:
    """Square root."""
    return _apply("sqrt", a, fastmath)


def rsqrt(a: Any, fastmath: bool = False) -> Any:
    """``1 / sqrt(a)``."""
    return _apply("rsqrt", a, fastmath)


def sin(a: Any, fastmath: bool = False) -> Any:
    return _apply("sin", a, fastmath)


def cos(a: Any, fastmath: bool = False) -> Any:
    return _apply("cos", a, fastmath)


def tanh(a: Any, fastmath: bool = False) -> Any:
    return _apply("tanh", a, fastmath)


def erf(a: Any, fastmath: bool = False) -> Any:
    """The error function; with `fastmath` to an absolute error of 2^-22."""
    return _apply("erf", a, fastmath)


def floor(a: Any) -> Any:
    """The largest whole number <= `a`."""
    return _apply("floor", a, False)


def ceil(a: Any) -> Any:
    """The smallest whole number >= `a`."""
    return _apply("ceil", a, False)


def absf(a: Any) -> Any:
    """The absolute value, of floats and integers."""
    return builtins.abs(a)


def rcp_approx(a: Any) -> Any:
    """``1 / a``, approximately (``rcp.approx``)."""
    return _apply("rcp", a, True)


def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` with one rounding."""
    kind = common_type(common_type(a, b)(0), c)
    return from_ir(trace.value(arith.Fma, *(kind(x).ir_value() for x in (a, b, c))))


def _pick(op: Any, first: Any, rest: tuple[Any, ...]) -> Any:
    for other in rest:
        if isinstance(first, TensorSSA):
            first = first._binary(op, other)
        elif isinstance(other, TensorSSA):
            first = other._binary(op, first)
        else:
            kind = common_type(first, other)
            first = from_ir(trace.value(op, kind(first).ir_value(), kind(other).ir_value()))
    return first


def maximum(a: Any, *others: Any) -> Any:
    """The largest, in the operands' common type."""
    return _pick(arith.Max, a, others)


def minimum(a: Any, *others: Any) -> Any:
    """The smallest, in the operands' common type."""
    return _pick(arith.Min, a, others)


def fmax(a: Any, b: Any, c: Any = None) -> Any:
    """The larger (or largest of three), as Float32."""
    return _pick(arith.Max, Float32(a), (Float32(b), *(() if c is None else (Float32(c),))))


def fmin(a: Any, b: Any) -> Any:
    """The smaller, as Float32."""
    return _pick(arith.Min, Float32(a), (Float32(b),))


Pair = tuple[Any, Any]


def fma_packed_f32x2(a: Pair, b: Pair, c: Pair) -> Pair:
    """Two `fma` of Float32 pairs."""
    return fma(a[0], b[0], c[0]), fma(a[1], b[1], c[1])


def mul_packed_f32x2(a: Pair, b: Pair) -> Pair:
    """Two products of Float32 pairs."""
    return a[0] * b[0], a[1] * b[1]


def add_packed_f32x2(a: Pair, b: Pair) -> Pair:
    """Two sums of Float32 pairs."""
    return a[0] + b[0], a[1] + b[1]


def sub_packed_f32x2(a: Pair, b: Pair) -> Pair:
    """Two differences of Float32 pairs."""
    return a[0] - b[0], a[1] - b[1]
