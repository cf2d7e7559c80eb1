"""Arithmetic: operators, conversions of scalars and vectors elementwise.

Signed `+ - *` are written as plain C++ on `int` and `i64`.  The IR says that they wrap; C++ calls
an overflow undefined.  Index arithmetic does not overflow, and the compiler makes good use of
knowing that; a kernel that counts on wrapping (hashes) uses unsigned types, which wrap.
Shifts by the width or more are as undefined as in C++.

Floats of 16 and 8 bits are held as patterns; their arithmetic is that of f32, rounded once more,
which for `+ - * /` and a significand of at most 11 bits is the correctly rounded result.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen.cuda.convert import convert
from tilewright.codegen.cuda.emit_math import math_call
from tilewright.codegen.cuda.emitter import Emitter, emits
from tilewright.codegen.cuda.expr import (
    Expr,
    Level,
    binary,
    call,
    cast,
    conditional,
    literal,
    number,
    unary,
)
from tilewright.codegen.cuda.operands import Vec
from tilewright.codegen.cuda.prelude import asm, function
from tilewright.codegen.cuda.spelling import HALVES, PATTERNS, ctype
from tilewright.errors import DTypeError
from tilewright.ir.core import Op, Value
from tilewright.ir.ops import arith
from tilewright.ir.types import VecType, element_type
from tilewright.numeric.dtypes import BOOL, F32, U32, DType, dtype

Scalar = Callable[..., Expr]


def elementwise(em: Emitter, op: Op, scalar: Scalar, pair: Scalar | None = None) -> None:
    """Defines the result of `op` as `scalar` of its operands, element by element for vectors."""
    result = op.results[0]
    operands = [em.operand(v) for v in op.operands]
    if not isinstance(result.type, VecType):
        em.define(result, scalar(*operands))
        return
    kept = [
        a if isinstance(a, Vec) else em.simple(a, element_type(v.type))  # type: ignore[arg-type]
        for a, v in zip(operands, op.operands, strict=True)
    ]
    vectors = [a if isinstance(a, Vec) else repeated(a) for a in kept]

    def element(i: Expr) -> Expr:
        return scalar(*(v.element(i) for v in vectors))

    def both(i: Expr) -> Expr:
        assert pair is not None, "only called where there is one"
        return pair(element_of(i, 0), element_of(i, 1))

    def element_of(i: Expr, step: int) -> Expr:
        index = number(int(i.text) + step) if i.literal else binary("+", i, number(step))
        return vectors[0].element(index if step else i)

    define_vec(em, result, element, vectors, both if pair else None)


def repeated(e: Expr) -> Vec:
    """The vector, of any length, whose elements all are `e`."""

    def element(_: Expr) -> Expr:
        return e

    return Vec(F32, 0, element, reads=e.reads, memory=e.memory, free=True)


def define_vec(
    em: Emitter,
    result: Value,
    element: Scalar,
    inputs: list[Vec],
    pair: Scalar | None = None,
    symbolic: bool = True,
    pointwise: bool = True,
    free: bool = False,
) -> None:
    """Defines a vector that is computed from others; `free` if that is only a matter of index."""
    assert isinstance(result.type, VecType), "a vector result"
    reads = frozenset[str]().union(*(v.reads for v in inputs))
    memory = frozenset[object]().union(*(v.memory for v in inputs))
    em.define(
        result,
        Vec(
            result.type.dtype,
            result.type.count,
            element,
            symbolic and all(v.symbolic for v in inputs),
            pair,
            reads,
            memory,  # type: ignore[arg-type]
            pointwise and all(v.pointwise for v in inputs),
            free=free and all(v.free for v in inputs),
        ),
    )


def narrow(e: Expr, t: DType) -> Expr:
    """`e`, computed as `int`, brought back to a type narrower than that."""
    return cast(ctype(t), e) if t.is_integer and t.bits < 32 else e


def through_f32(em: Emitter, t: DType, scalar: Scalar) -> Scalar:
    """`scalar` of f32 for types without arithmetic of their own."""
    if t.name not in PATTERNS:
        return scalar

    def wide(*args: Expr) -> Expr:
        return convert(em, scalar(*(convert(em, a, t, F32) for a in args)), F32, t)

    return wide


@emits(arith.Constant)
def constant(em: Emitter, op: arith.Constant) -> None:
    ctype(dtype(op.dtype), op.loc)
    em.set(op.result, literal(op.value, dtype(op.dtype)))


_OPERATOR: dict[type[Op], str] = {
    arith.Add: "+",
    arith.Sub: "-",
    arith.Mul: "*",
    arith.Div: "/",
    arith.And: "&",
    arith.Or: "|",
    arith.Xor: "^",
    arith.Shl: "<<",
    arith.Shr: ">>",
}
_LOGICAL = {"&": "&&", "|": "||", "^": "!="}


@emits(*_OPERATOR)
def operator(em: Emitter, op: Op) -> None:
    t = element_type(op.operands[0].type)
    symbol = _OPERATOR[type(op)]
    if t is BOOL:
        symbol = _LOGICAL.get(symbol, symbol)

    def scalar(a: Expr, b: Expr) -> Expr:
        if symbol == "+" and t.is_integer and b.literal and b.text.startswith("-"):
            return binary("-", a, Expr(b.text[1:], plain=b.short[1:], literal=True))
        return narrow(binary(symbol, a, b, regroup=t.is_integer or t is BOOL), t)

    elementwise(em, op, through_f32(em, t, scalar))


@emits(arith.FloorDiv, arith.Mod)
def floor_division(em: Emitter, op: arith.FloorDiv | arith.Mod) -> None:
    """Python's `//` and `%`: shifts for powers of two, plain C++ where nothing is negative."""
    t = element_type(op.a.type)
    divide = isinstance(op, arith.FloorDiv)
    same_as_c = not t.is_signed or all(em.non_negative(v) for v in op.operands)

    def scalar(a: Expr, b: Expr) -> Expr:
        divisor = int(b.text.rstrip("ul"), 0) if b.literal and b.text[-1] != ")" else 0
        if t.is_signed and divisor > 0 and divisor & (divisor - 1) == 0:
            if divide:
                return binary(">>", a, number(divisor.bit_length() - 1))
            return binary("&", a, literal(divisor - 1, t))
        if same_as_c:
            return narrow(binary("/" if divide else "%", a, b), t)
        helper = em.prelude.use("floor_div" if divide else "floor_mod")
        return call(f"{helper}<{ctype(t)}>", a, b)

    elementwise(em, op, scalar)


@emits(arith.Min, arith.Max)
def extremum(em: Emitter, op: Op) -> None:
    t = element_type(op.operands[0].type)
    low = isinstance(op, arith.Min)
    word = "min" if low else "max"
    if t.is_float:
        word = f"f{word}" if t.name == "f64" else f"f{word}f"
    if t is BOOL:
        elementwise(em, op, lambda a, b: binary("&&" if low else "||", a, b))
        return
    elementwise(em, op, through_f32(em, t, lambda a, b: narrow(call(word, a, b), t)))


@emits(arith.Fma)
def fma(em: Emitter, op: arith.Fma) -> None:
    t = element_type(op.a.type)
    if t.name in ("f32", "tf32"):
        elementwise(em, op, lambda a, b, c: call("fmaf", a, b, c))
    elif t.name == "f64":
        elementwise(em, op, lambda a, b, c: call("fma", a, b, c))
    elif t.name in HALVES:
        helper = f"fma_{t.name}"
        body = asm(
            f"fma.rn.{t.name} %0, %1, %2, %3;",
            '"=h"(d)',
            '"h"(a), "h"(b), "h"(c)',
            memory=False,
            volatile=False,
        )
        em.prelude.use(
            helper, function(f"u16 {helper}(u16 a, u16 b, u16 c)", f"u16 d; {body}", "return d;")
        )
        elementwise(em, op, lambda a, b, c: call(helper, a, b, c))
    elif t.is_integer:
        elementwise(em, op, lambda a, b, c: narrow(binary("+", binary("*", a, b), c), t))
    else:
        raise DTypeError(f"arith.fma: {t.name} has no fused multiply-add", loc=op.loc)


@emits(arith.Neg)
def negate(em: Emitter, op: arith.Neg) -> None:
    t = element_type(op.a.type)
    if t.name in PATTERNS and t.is_signed:
        sign = literal(1 << (t.bits - 1), U32)
        elementwise(em, op, lambda a: cast(ctype(t), binary("^", a, sign)))
        return
    elementwise(em, op, lambda a: narrow(unary("-", a), t))


_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@emits(arith.Cmp)
def compare(em: Emitter, op: arith.Cmp) -> None:
    t = element_type(op.a.type)
    symbol = _COMPARE[op.predicate]

    def scalar(a: Expr, b: Expr) -> Expr:
        if t.name in PATTERNS:
            a, b = convert(em, a, t, F32), convert(em, b, t, F32)
        return binary(symbol, a, b)

    elementwise(em, op, scalar)


@emits(arith.Select)
def select(em: Emitter, op: arith.Select) -> None:
    t = element_type(op.result.type)
    elementwise(em, op, lambda c, a, b: choose(c, a, b, t))


def choose(c: Expr, a: Expr, b: Expr, t: DType) -> Expr:
    """`c ? a : b`, of type `t`; for bool in terms of `&&` and `||` where one side is known."""
    if t is BOOL and a.literal and b.literal:
        return a if a.text == b.text else c if a.text == "true" else logical_not(c)
    if t is BOOL and b.text == "false":
        return binary("&&", c, a, regroup=True)
    if t is BOOL and a.text == "true":
        return binary("||", c, b, regroup=True)
    return narrow(conditional(c, a, b), t)


def logical_not(e: Expr) -> Expr:
    """`!e`, as the opposite comparison where there is one (not for floats, which have NaN)."""
    if e.binary is not None and e.binary[0] in ("==", "!="):
        op, a, b = e.binary
        return binary("!=" if op == "==" else "==", a, b)
    if e.text.startswith("!") and e.level is Level.UNARY:
        return Expr(e.text[1:], Level.PRIMARY, e.reads, e.memory)
    return unary("!", e)


@emits(arith.Cast)
def cast_op(em: Emitter, op: arith.Cast) -> None:
    source, to = element_type(op.a.type), dtype(op.dtype)
    ctype(to, op.loc)

    def scalar(a: Expr) -> Expr:
        return convert(em, a, source, to, op.rounding, op.saturate, op.loc)

    packs = to.name in HALVES and source.name in ("f32", "tf32") and op.rounding in ("rn", "rz")
    if not packs or op.saturate:
        elementwise(em, op, scalar)
        return
    helper = f"pack_{to.name}" + ("" if op.rounding == "rn" else f"_{op.rounding}")
    text = function(
        f"u32 {helper}(float lo, float hi)",
        "u32 d; "
        + asm(
            f"cvt.{op.rounding}.{to.name}x2.f32 %0, %1, %2;",
            '"=r"(d)',
            '"f"(hi), "f"(lo)',
            memory=False,
            volatile=False,
        ),
        "return d;",
    )

    def pair(lo: Expr, hi: Expr) -> Expr:
        return call(em.prelude.use(helper, text), lo, hi)

    elementwise(em, op, scalar, pair)


_BITS = {
    ("f32", "i32"): "__float_as_int",
    ("f32", "u32"): "__float_as_uint",
    ("i32", "f32"): "__int_as_float",
    ("u32", "f32"): "__uint_as_float",
    ("f64", "i64"): "__double_as_longlong",
    ("i64", "f64"): "__longlong_as_double",
}


@emits(arith.Bitcast)
def bitcast(em: Emitter, op: arith.Bitcast) -> None:
    source, to = element_type(op.a.type), dtype(op.dtype)
    left = "f32" if source.name == "tf32" else source.name
    right = "f32" if to.name == "tf32" else to.name

    def scalar(a: Expr) -> Expr:
        if BOOL in (source, to):
            return convert(em, a, source, to)
        if (left, right) in _BITS:
            return call(_BITS[left, right], a)
        if left == right:
            return a
        if left == "f64":
            return cast(ctype(to), call("__double_as_longlong", a))
        if right == "f64":
            return call("__longlong_as_double", cast("i64", a))
        return cast(ctype(to), a)

    elementwise(em, op, scalar)


@emits(arith.Math)
def elementary(em: Emitter, op: arith.Math) -> None:
    t = element_type(op.a.type)
    inner = F32 if t.name in PATTERNS else t

    def scalar(a: Expr) -> Expr:
        return math_call(em, op.function, op.fast, inner, a)

    elementwise(em, op, through_f32(em, t, scalar))


@emits(arith.Popc)
def popcount(em: Emitter, op: arith.Popc) -> None:
    t = element_type(op.a.type)

    def scalar(a: Expr) -> Expr:
        if t.bits == 64:
            return cast("u32", call("__popcll", a))
        unsigned = {8: "u8", 16: "u16"}.get(t.bits)
        return cast("u32", call("__popc", cast(unsigned, a) if unsigned else a))

    elementwise(em, op, scalar)
