"""Conversions between element types, each rounded once.

Where the hardware has no direct instruction on every architecture, the value goes through f32
rounded to odd (truncated, with the last bit set if anything was lost): rounding that to a format
at least two bits shorter gives the same result as rounding the exact value.
"""

from __future__ import annotations

from tilewright.codegen.cuda.emitter import Emitter
from tilewright.codegen.cuda.expr import Expr, binary, call, cast, conditional, literal, number
from tilewright.codegen.cuda.prelude import asm, function
from tilewright.codegen.cuda.spelling import HALVES, PATTERNS, ctype
from tilewright.errors import DTypeError, Loc
from tilewright.numeric.dtypes import BOOL, F32, F64, I32, TF32, DType

# CUDA's names of its types in conversion intrinsics: __float2int_rz.
_WORD = {"f32": "float", "f64": "double", "i32": "int", "u32": "uint", "i64": "ll", "u64": "ull"}
_FP8 = ("e4m3", "e5m2")


def convert(
    em: Emitter,
    a: Expr,
    source: DType,
    to: DType,
    rounding: str = "rn",
    saturate: bool = False,
    loc: Loc | None = None,
) -> Expr:
    """`a`, of type `source`, as `to`.

    Raises: DTypeError for a rounding or a pair of types that generated code has no form for.
    """
    if source is to and not saturate:
        return a
    if to is BOOL:
        return _truth(a, source)
    if source is BOOL:
        if to.name in PATTERNS:
            return conditional(a, literal(1.0, to), literal(0.0, to))
        return cast(ctype(to), a)
    if to.is_integer:
        return _to_integer(em, a, source, to, rounding, saturate, loc)
    result = _to_float(em, a, source, to, rounding, saturate)
    if result is None:
        raise DTypeError(
            f"CUDA code generation: no conversion from {source.name} to {to.name} with rounding "
            f"{rounding!r}{' and saturation' if saturate else ''}",
            loc=loc,
            hint="rounding 'rn' exists for all but e8m0 ('rz', 'rp'); fp8 and e8m0 come from f32",
        )
    return result


def _truth(a: Expr, source: DType) -> Expr:
    if source.name in PATTERNS:
        return binary("!=", binary("&", a, literal((1 << (source.bits - 1)) - 1, I32)), number(0))
    return binary("!=", a, literal(0, source))


def _to_integer(
    em: Emitter, a: Expr, source: DType, to: DType, rounding: str, saturate: bool, loc: Loc | None
) -> Expr:
    if source.is_integer:
        if not saturate or (to.min <= source.min and source.max <= to.max):
            return cast(ctype(to), a)
        return call(_ptx(em, source, to, f"cvt.sat.{_ptx_type(to)}.{_ptx_type(source)}"), a)
    if rounding not in ("rn", "rz"):
        raise DTypeError(
            f"CUDA code generation: {source.name} to {to.name} truncates, there is no rounding "
            f"{rounding!r}",
            loc=loc,
        )
    if source.name in PATTERNS:
        a, source = convert(em, a, source, F32), F32
    if source is TF32:
        source = F32
    if to.bits >= 32:
        return call(f"__{_WORD[source.name]}2{_WORD[to.name]}_rz", a)
    return call(_ptx(em, source, to, f"cvt.rzi.{_ptx_type(to)}.{_ptx_type(source)}"), a)


def _to_float(
    em: Emitter, a: Expr, source: DType, to: DType, rounding: str, saturate: bool
) -> Expr | None:
    if source is TF32:
        source = F32
    if source.name in PATTERNS:
        a, source = _widen(em, a, source), F32
        if to is F32:
            return None if saturate else a
    if to in (F32, F64):
        # Integers never leave the range of these.
        return (
            _to_machine_float(a, source, to, rounding)
            if source.is_integer or not saturate
            else None
        )
    if to.name == "f16" and (source is F64 or source.is_integer) and rounding == "rn":
        if saturate:
            return None
        return call(_ptx(em, source, to, f"cvt.rn.f16.{_ptx_type(source)}"), a)
    if source is not F32:
        if source.is_integer and source.bits <= 16:
            a = cast("float", a)
        else:
            a = call(_round_to_odd(em, source), a)
    return _from_f32(em, a, to, rounding, saturate)


def _to_machine_float(a: Expr, source: DType, to: DType, rounding: str) -> Expr | None:
    if source is to:
        return a
    exact = source is F32 or (source.is_integer and source.bits <= to.mantissa_bits)
    if rounding == "rn" or exact:
        return cast(ctype(to), a)
    suffix = {"rz": "rz", "rp": "ru", "rm": "rd"}.get(rounding)
    return call(f"__{_WORD[source.name]}2{_WORD[to.name]}_{suffix}", a) if suffix else None


def _widen(em: Emitter, a: Expr, source: DType) -> Expr:
    """A pattern as f32: exact."""
    helper = f"f32_from_{source.name}"
    c = ctype(source)
    if source.name == "bf16":
        body = ["return __uint_as_float((u32)x << 16);"]
    elif source.name == "f16":
        body = [f"float y; {_convert_asm('cvt.f32.f16', '=f', 'h')}", "return y;"]
    elif source.name == "e8m0":
        body = [
            "if (x == 255) return __int_as_float(0x7fffffff);",
            "return __uint_as_float(x == 0 ? 0x400000u : (u32)x << 23);",
        ]
    else:
        halves = asm(
            "{\n.reg .b32 pair;\n.reg .b16 low, high;\n"
            f"cvt.rn.f16x2.{source.name}x2 pair, %1;\n"
            "mov.b32 {low, high}, pair;\ncvt.f32.f16 %0, low;\n}",
            '"=f"(y)',
            '"h"((u16)x)',
            memory=False,
            volatile=False,
        )
        body = [f"float y; {halves}", "return y;"]
    return call(em.prelude.use(helper, function(f"float {helper}({c} x)", *body)), a)


def _from_f32(em: Emitter, a: Expr, to: DType, rounding: str, saturate: bool) -> Expr | None:
    if to is TF32:
        return _to_tf32(em, a, rounding) if not saturate else None
    if to.name in HALVES:
        if rounding not in ("rn", "rz"):
            return None
        word = f"cvt.{rounding}{'.satfinite' if saturate else ''}.{to.name}.f32"
        suffix = ("" if rounding == "rn" else f"_{rounding}") + ("_sat" if saturate else "")
        helper = f"{to.name}_from_f32{suffix}"
        body = f"u16 y; {_convert_asm(word, '=h', 'f')}"
        return call(
            em.prelude.use(helper, function(f"u16 {helper}(float x)", body, "return y;")), a
        )
    if to.name in _FP8 and rounding == "rn":
        return call(_to_fp8(em, to, saturate), a)
    if to.name == "e8m0" and rounding in ("rz", "rp"):
        return call(_to_e8m0(em, rounding, saturate), a)
    return None


def _to_tf32(em: Emitter, a: Expr, rounding: str) -> Expr | None:
    helper = f"tf32_from_f32_{rounding}"
    if rounding == "rna":
        body = [
            f"u32 y; {_convert_asm('cvt.rna.tf32.f32', '=r', 'f')}",
            "return __uint_as_float(y);",
        ]
    elif rounding == "rz":
        body = ["return __uint_as_float(__float_as_uint(x) & ~0x1fffu);"]
    elif rounding == "rn":
        body = [
            "const u32 u = __float_as_uint(x);",
            "if (x != x) return x;",
            "return __uint_as_float((u + 0xfffu + (u >> 13 & 1u)) & ~0x1fffu);",
        ]
    else:
        return None
    return call(em.prelude.use(helper, function(f"float {helper}(float x)", *body)), a)


# Beyond the first bound a value no longer rounds to a finite one; the pattern that it then has.
_OVERFLOW = {"e4m3": ("fabsf(x) > 464.0f", "0x7f"), "e5m2": ("fabsf(x) >= 61440.0f", "0x7c")}


def _to_fp8(em: Emitter, to: DType, saturate: bool) -> str:
    helper = f"{to.name}_from_f32" + ("_sat" if saturate else "")
    body = []
    if not saturate:
        test, beyond = _OVERFLOW[to.name]
        body.append(f"if ({test}) return {beyond} | (__float_as_uint(x) >> 24 & 0x80u);")
    statement = asm(
        f"cvt.rn.satfinite.{to.name}x2.f32 %0, %1, %2;",
        '"=h"(y)',
        '"f"(0.0f), "f"(x)',
        memory=False,
        volatile=False,
    )
    body += [f"u16 y; {statement}", "return (u8)y;"]
    return em.prelude.use(helper, function(f"u8 {helper}(float x)", *body))


def _to_e8m0(em: Emitter, rounding: str, saturate: bool) -> str:
    """The exponent of |x|; below 2^-126 an f32 is subnormal, and 2^-127 is its top bit."""
    helper = f"e8m0_from_f32_{rounding}" + ("_sat" if saturate else "")
    infinite = "254" if saturate else "255"
    body = [
        "const u32 u = __float_as_uint(x) & 0x7fffffffu;",
        f"if (u >= 0x7f800000u) return u > 0x7f800000u ? 255 : {infinite};",
    ]
    if rounding == "rz":
        body.append("return u >> 23;")
    else:
        body.append("const u32 exact = u < 0x800000u ? 0x400000u : 0u;")
        body.append("const u32 code = (u >> 23) + ((u & 0x7fffffu) > exact);")
        body.append(f"return code > 254u ? {infinite} : code;")
    return em.prelude.use(helper, function(f"u8 {helper}(float x)", *body))


def _round_to_odd(em: Emitter, source: DType) -> str:
    helper = f"odd_from_{source.name}"
    c = ctype(source)
    return em.prelude.use(
        helper,
        function(
            f"float {helper}({c} x)",
            f"const float y = __{_WORD[source.name]}2float_rz(x);",
            f"return ({c})y == x ? y : __uint_as_float(__float_as_uint(y) | 1u);",
        ),
    )


def _ptx_type(t: DType) -> str:
    return {"i": "s"}.get(t.name[0], t.name[0]) + t.name[1:]


def _convert_asm(instruction: str, out: str, into: str) -> str:
    return asm(
        f"{instruction} %0, %1;", f'"{out}"(y)', f'"{into}"(x)', memory=False, volatile=False
    )


_REGISTER = {8: "r", 16: "h", 32: "r", 64: "l"}


def _ptx(em: Emitter, source: DType, to: DType, instruction: str) -> str:
    """A helper around one `cvt`; bytes travel in 32-bit registers."""
    helper = f"{to.name}_from_{source.name}" + ("_sat" if ".sat" in instruction else "")
    into = _REGISTER[source.bits] if source.is_integer else {"f32": "f", "f64": "d"}[source.name]
    held = "int" if to.bits == 8 else ctype(to)
    given = '"r"((int)x)' if source.bits == 8 else f'"{into}"(x)'
    statement = asm(
        f"{instruction} %0, %1;",
        f'"={_REGISTER[to.bits]}"(y)',
        given,
        memory=False,
        volatile=False,
    )
    text = function(
        f"{ctype(to)} {helper}({ctype(source)} x)", f"{held} y; {statement}", "return y;"
    )
    return em.prelude.use(helper, text)
