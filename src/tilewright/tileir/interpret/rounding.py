"""Floating point beyond NumPy's own: directed rounding, fused multiply-add, flushed subnormals.

For f16, bf16 and f32 the exact result is first rounded *to odd* in float64: an inexact result
takes the neighbour whose last bit is 1.  What 53 bits hold to odd rounds again, to at most 24 bits
and in any mode, as the exact result would (Boldo and Melquiond, "When double rounding is odd",
2005).  For f64 there is nothing wider, so what NumPy does not round is computed with fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tilewright.numeric.convert import convert
from tilewright.numeric.dtypes import F32, F64, DType
from tilewright.numeric.encode import Rounding
from tilewright.tileir.interpret.memory import Array

MODES: dict[str, Rounding] = {
    "nearest_even": "rn",
    "zero": "rz",
    "negative_inf": "rm",
    "positive_inf": "rp",
}
_SPLITTER = float(2**27 + 1)
_LARGEST = float(np.finfo(np.float64).max)


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounded sum of floats and what it misses, exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounded product and what it misses, exactly if nothing over- or underflows (Dekker)."""
    p = a * b
    ah = a * _SPLITTER
    ah = ah - (ah - a)
    bh = b * _SPLITTER
    bh = bh - (bh - b)
    al, bl = a - ah, b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def to_odd(value: Any, missing: Any) -> Any:
    """`value + missing` rounded to odd, given its rounding to nearest and the sign of the rest."""
    inexact = np.isfinite(value) & (missing != 0)
    even = (np.asarray(value).view(np.uint64) & np.uint64(1)) == 0
    toward = np.where(missing > 0, np.inf, -np.inf)
    return np.where(inexact & even, np.nextafter(value, toward), value)


def _add(a: Any, b: Any) -> Any:
    return to_odd(*two_sum(a, b))


def _mul(a: Any, b: Any) -> Any:
    return a * b  # at most 48 bits: exact


def _fma(a: Any, b: Any, c: Any) -> Any:
    return to_odd(*two_sum(a * b, c))


_ODD: dict[str, Callable[..., Any]] = {
    "add": _add,
    "sub": lambda a, b: _add(a, -b),
    "mul": _mul,
    "fma": _fma,
    # A quotient or root of 24-bit numbers that is no 25-bit number is further from all of them than
    # float64 rounds it, so it needs no odd bit.
    "div": np.divide,
    "sqrt": np.sqrt,
}


def rounded(what: str, row: DType, mode: str) -> Callable[..., Array]:
    """add, sub, mul, div, sqrt or fma of elements of `row`, rounded once in `mode`.

    >>> from tilewright.numeric.dtypes import F32
    >>> third = rounded("div", F32, "positive_inf")(np.float32([1]), np.float32([3]))
    >>> bool(third > np.float32(1) / np.float32(3))
    False
    >>> bool(rounded("div", F32, "zero")(np.float32([1]), np.float32([3])) < third)
    True
    """
    rounding = MODES[mode]
    if row is F64:
        return _exactly(what, rounding)
    odd = _ODD[what]

    def fn(*xs: Any) -> Array:
        wide = odd(*(np.asarray(x).astype(np.float64) for x in xs))
        out = convert(np.asarray(wide), F64, row, rounding)
        # An exact zero sum of opposite numbers is -0 when rounding down (IEEE 754, 6.3).
        if rounding == "rm" and what in ("add", "sub", "fma"):
            out = np.where((wide == 0) & ~_keeps_zero(what, xs), np.negative(abs(out)), out)
        return out

    return fn


def _keeps_zero(what: str, xs: tuple[Any, ...]) -> Any:
    """Where a zero sum has terms of one sign, which is its own."""
    a = np.multiply(xs[0].astype(np.float64), xs[1]) if what == "fma" else xs[0]
    b = -xs[1] if what == "sub" else xs[-1]
    return (np.signbit(a) == np.signbit(b)) & ~np.signbit(a)


_BELOW_F32 = np.uint64((1 << 29) - 1)
_TIE_OF_F32 = np.uint64(1 << 28)


def fma_f32(a: Any, b: Any, c: Any) -> Any:
    """a * b + c of f32, rounded once to nearest.

    The product is exact in float64.  A sum rounded there rounds again to the right f32, unless it
    looks like a tie or its f32 is subnormal; only then the exact way is taken.
    """
    wide = np.asarray(a.astype(np.float64) * b + c)
    doubtful = (wide.view(np.uint64) & _BELOW_F32) == _TIE_OF_F32
    doubtful |= np.abs(wide) < 2.0**-125
    if doubtful.any():
        return rounded("fma", F32, "nearest_even")(a, b, c)
    return wide.astype(np.float32)


def fma_f64(a: Any, b: Any, c: Any) -> Any:
    """a * b + c of f64, rounded once to nearest (Boldo and Melquiond, 2008, Fma_emul).

    Terms so large or small that their errors are no floats are computed with fractions.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    p, missing = two_product(a, b)
    th, tl = two_sum(c, missing)
    vh, vl = two_sum(p, th)
    out = np.asarray(vh + to_odd(*two_sum(tl, vl)))
    plain = np.ones(out.shape, np.bool_)
    for x in (a, b, c, p):
        size = np.abs(x)
        plain &= (size > 2.0**-400) & (size < 2.0**400)
    if plain.all():
        return out
    return np.where(plain, out, rounded("fma", F64, "nearest_even")(a, b, c))


# --- f64, one element at a time -----------------------------------------------------------------


def _root(x: Fraction) -> Fraction:
    """sqrt(x), or a fraction on the same side of every float64 and midpoint as it."""
    scale = 1 << 200
    whole = x.numerator * x.denominator * scale * scale
    root = math.isqrt(whole)
    exact = root * root == whole
    return Fraction(2 * root + (not exact), 2 * x.denominator * scale)


_FRACTIONS: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b,
    "sqrt": _root,
}
_NEAREST: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fma": lambda a, b, c: a * b + c,
    "div": np.divide,
    "sqrt": np.sqrt,
}


def _exactly(what: str, rounding: Rounding) -> Callable[..., Array]:
    exact, nearest = _FRACTIONS[what], _NEAREST[what]

    def fn(*xs: Any) -> Array:
        arrays = np.broadcast_arrays(*xs)
        out = np.array(nearest(*arrays), np.float64, copy=True, ndmin=1)
        flat = [np.ravel(a).tolist() for a in arrays]
        for i, values in enumerate(zip(*flat, strict=True)):
            if all(map(math.isfinite, values)) and _defined(what, values):
                value = exact(*map(Fraction, values))
                if value:
                    out.flat[i] = fraction_to_float(value, rounding)
                elif rounding == "rm" and _opposite(what, values):
                    out.flat[i] = -0.0
        return out.reshape(arrays[0].shape)

    return fn


def _opposite(what: str, values: tuple[float, ...]) -> bool:
    """Whether a zero result is the sum of terms of opposite signs."""
    if what not in ("add", "sub", "fma"):
        return False
    a = math.copysign(1, values[0])
    if what == "fma":
        a *= math.copysign(1, values[1])
    b = math.copysign(1, values[-1]) * (-1 if what == "sub" else 1)
    return a != b


def _defined(what: str, values: tuple[float, ...]) -> bool:
    if what == "div":
        return values[1] != 0
    return what != "sqrt" or values[0] >= 0


def fraction_to_float(value: Fraction, rounding: Rounding) -> float:
    """A nonzero fraction rounded to float64.

    >>> fraction_to_float(Fraction(1, 3), "rp") - fraction_to_float(Fraction(1, 3), "rm")
    5.551115123125783e-17
    """
    sign = -1 if value < 0 else 1
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    place = max(exponent, -1022) - 52
    steps, rest = divmod(magnitude / Fraction(2) ** place, 1)
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and steps % 2 == 1),
        "rz": False,
        "rp": bool(rest) and sign > 0,
        "rm": bool(rest) and sign < 0,
    }[rounding]
    steps += up
    if steps * Fraction(2) ** place > Fraction(_LARGEST):
        outward = {"rn": True, "rz": False, "rp": sign > 0, "rm": sign < 0}[rounding]
        return sign * (math.inf if outward else _LARGEST)
    return sign * math.ldexp(int(steps), place)


# --- flush to zero ------------------------------------------------------------------------------

_SMALLEST_NORMAL = np.float32(2.0**-126)


def flush(x: Any) -> Any:
    """f32 subnormals become zeros of their sign."""
    return np.where(np.abs(x) < _SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)


def flushing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` of f32 with its operands and its result flushed."""
    return lambda *xs: flush(fn(*map(flush, xs)))
