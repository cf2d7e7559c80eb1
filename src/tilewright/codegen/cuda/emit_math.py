"""Elementary functions: the CUDA math library, or one hardware instruction where `fast`."""

from __future__ import annotations

import functools

from tilewright.codegen.cuda.emitter import Emitter
from tilewright.codegen.cuda.expr import Expr, call, literal
from tilewright.codegen.cuda.prelude import asm, function
from tilewright.numeric.dtypes import F32, DType

_LIBRARY = {
    **{f: f for f in ("exp", "exp2", "log", "log2", "log10", "rsqrt", "sin", "cos", "tanh")},
    **{"erf": "erf", "floor": "floor", "ceil": "ceil", "abs": "fabs", "sqrt": "sqrt"},
}
# Correctly rounded whatever flags the compiler is given.
_ROUNDED = {"sqrt": "__fsqrt_rn", "rcp": "__frcp_rn"}
_APPROXIMATE = {
    "exp2": "ex2.approx.ftz.f32",
    "log2": "lg2.approx.ftz.f32",
    "sqrt": "sqrt.approx.ftz.f32",
    "rsqrt": "rsqrt.approx.ftz.f32",
    "rcp": "rcp.approx.ftz.f32",
    "sin": "sin.approx.ftz.f32",
    "cos": "cos.approx.ftz.f32",
    "tanh": "tanh.approx.f32",
}
# f(x) = scale * exp2(x * inner) or scale * log2(x).
_SCALED = {
    "exp": ("exp2", 1.4426950408889634, 1.0),
    "log": ("log2", 1.0, 0.6931471805599453),
    "log10": ("log2", 1.0, 0.3010299956639812),
}


# log2(erfc(t)) = t (c1 + t (c2 + ...)): the polynomial whose error, times erfc(t), is least on
# [0, 4.2].  Beyond, it falls as fast as it should, so that erf is 1 there.
_LOG2_ERFC = (
    *(-1.6279085875, -0.91841638088, -0.14848160744, 0.028253680095),
    *(-7.7462894843e-4, -1.4894419583e-3, 4.4550772873e-4, -4.5358603529e-5),
)


def math_call(em: Emitter, name: str, fast: bool, t: DType, a: Expr) -> Expr:
    """`name(a)` for f32 or f64."""
    if fast and t.name != "f64":
        if name in _SCALED:
            return call(_scaled(em, name), a)
        if name in _APPROXIMATE:
            return call(_approximate(em, name), a)
        if name == "erf":
            return call(_erf(em), a)
    if t.name == "f64":
        if name == "rcp":
            return call("__drcp_rn", a)
        return call("__dsqrt_rn" if name == "sqrt" else _LIBRARY[name], a)
    return call(_ROUNDED.get(name) or f"{_LIBRARY[name]}f", a)


def _approximate(em: Emitter, name: str) -> str:
    body = asm(f"{_APPROXIMATE[name]} %0, %1;", '"=f"(y)', '"f"(x)', memory=False, volatile=False)
    helper = f"fast_{name}"
    return em.prelude.use(
        helper, function(f"float {helper}(float x)", f"float y; {body}", "return y;")
    )


def _scaled(em: Emitter, name: str) -> str:
    base, inner, outer = _SCALED[name]
    core = _approximate(em, base)
    argument = "x" if inner == 1.0 else f"x * {literal(inner, F32).text}"
    value = f"{core}({argument})"
    if outer != 1.0:
        value = f"{literal(outer, F32).text} * {value}"
    helper = f"fast_{name}"
    return em.prelude.use(helper, function(f"float {helper}(float x)", f"return {value};"))


def _erf(em: Emitter) -> str:
    """erf(x) = +-(1 - exp2(log2(erfc(|x|)))), to an absolute error of 2^-22; about 12 instructions.

    A NaN stays one.
    """
    one = f"copysignf(1.0f - {_approximate(em, 'exp2')}(p * t), x)"
    body = ("const float t = fabsf(x);", *_polynomial(), f"return {one};")
    return em.prelude.use("fast_erf", function("float fast_erf(float x)", *body))


@functools.cache
def _polynomial() -> tuple[str, ...]:
    """log2(erfc(t)) / t in `p`, by Horner's rule."""
    *rest, top = (literal(c, F32).text for c in _LOG2_ERFC)
    return f"float p = {top};", *(f"p = fmaf(p, t, {c});" for c in reversed(rest))
