"""Float operations against patterns worked out by hand, and against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_harness import bits, one

from tilewright.numeric.dtypes import BF16, F16, F32, F64, DType
from tilewright.numeric.encode import encode
from tilewright.tileir.interpret.rounding import MODES, fma_f32, fma_f64, fraction_to_float, rounded

NAN, INF = math.nan, math.inf
TINY = 2.0**-149  # the smallest f32
NORMAL = 2.0**-126


def binary(op: str, a: Any, b: Any, words: str = "", kind: str = "f32") -> Any:
    n = len(a)
    shape = f"{n}x{kind}"
    line = f"%r0 = {op} %a0, %a1 {words} : tile<{shape}>"
    return one(line, [(shape, a), (shape, b)], shape)


def unary(op: str, a: Any, words: str = "", kind: str = "f32") -> Any:
    shape = f"{len(a)}x{kind}"
    return one(f"%r0 = {op} %a0 {words} : tile<{shape}>", [(shape, a)], shape)


# --- rounding -----------------------------------------------------------------------------------


def test_addition_rounds_as_asked() -> None:
    # 1 + 2^-24 lies halfway between 1 and the next f32.
    a, b = [1.0, -1.0], [2.0**-24, -(2.0**-24)]
    up = 1 + 2.0**-23
    assert binary("addf", a, b).tolist() == [1, -1]
    assert binary("addf", a, b, "rounding<zero>").tolist() == [1, -1]
    assert binary("addf", a, b, "rounding<positive_inf>").tolist() == [up, -1]
    assert binary("addf", a, b, "rounding<negative_inf>").tolist() == [1, -up]
    assert binary("subf", a, [-v for v in b], "rounding<positive_inf>").tolist() == [up, -1]


def test_exact_zero_sums_have_the_sign_of_their_mode() -> None:
    a, b = [1.0, 0.0, -0.0, -0.0], [-1.0, 0.0, 0.0, -0.0]
    for mode, want in (
        ("nearest_even", [False, False, False, True]),
        ("negative_inf", [True, False, True, True]),
        ("positive_inf", [False, False, False, True]),
    ):
        for kind in ("f32", "f64", "f16"):
            have = binary("addf", a, b, f"rounding<{mode}>", kind)
            assert np.signbit(have).tolist() == want, (mode, kind)


def test_overflow_goes_where_the_mode_sends_it() -> None:
    largest = float(np.finfo(np.float32).max)
    a, b = [largest, -largest], [largest, -largest]
    assert binary("addf", a, b).tolist() == [INF, -INF]
    assert binary("addf", a, b, "rounding<zero>").tolist() == [largest, -largest]
    assert binary("mulf", a, [2, 2], "rounding<positive_inf>").tolist() == [INF, -largest]
    assert binary("mulf", a, [2, 2], "rounding<negative_inf>").tolist() == [largest, -INF]
    assert binary("mulf", [1e308, -1e308], [1e10, 1e10], "rounding<zero>", "f64").tolist() == [
        float(np.finfo(np.float64).max),
        -float(np.finfo(np.float64).max),
    ]


def test_division_and_roots_round_as_asked() -> None:
    third = 0x3EAAAAAB  # 1/3 to nearest is above it
    assert bits(binary("divf", [1, -1], [3, 3])) == [third, third | 1 << 31]
    assert bits(binary("divf", [1, -1], [3, 3], "rounding<zero>")) == [
        third - 1,
        (third - 1) | 1 << 31,
    ]
    assert bits(binary("divf", [1, 1], [3, -3], "rounding<negative_inf>")) == [
        third - 1,
        third | 1 << 31,
    ]
    assert bits(binary("divf", [1, 1], [3, 3], "rounding<approx>")) == [third, third]
    assert bits(binary("divf", [1, 1], [3, 3], "rounding<full>")) == [third, third]
    root = 0x3FB504F3  # sqrt(2) to nearest is below it
    assert bits(unary("sqrt", [2.0, 4.0])) == [root, 0x40000000]
    assert bits(unary("sqrt", [2.0, 4.0], "rounding<positive_inf>")) == [root + 1, 0x40000000]
    assert bits(unary("sqrt", [2.0, 4.0], "rounding<zero>")) == [root, 0x40000000]
    assert np.isnan(unary("sqrt", [-1.0, 1.0], "rounding<zero>")).tolist() == [True, False]


def test_fma_rounds_once() -> None:
    # (1 + 2^-12)^2 - 1 - 2^-11 is 2^-24; rounded twice it would be 0.
    a = 1 + 2.0**-12
    args = [("2xf32", [a, 3]), ("2xf32", [a, 5]), ("2xf32", [-1 - 2.0**-11, 7])]
    line = "%r0 = fma %a0, %a1, %a2 : tile<2xf32>"
    assert one(line, args, "2xf32").tolist() == [2.0**-24, 22]
    b = 1 + 2.0**-27
    args64 = [("2xf64", [b, 3]), ("2xf64", [b, 5]), ("2xf64", [-1 - 2.0**-26, 7])]
    line = "%r0 = fma %a0, %a1, %a2 : tile<2xf64>"
    assert one(line, args64, "2xf64").tolist() == [2.0**-54, 22]


def test_fma_next_to_a_tie() -> None:
    # 2^36 + 1 = 1774001 * 38737: the exact sum is just above a tie, and float64 loses by how much.
    a, b = 1774001 * 2.0**-30, 38737 * 2.0**-30
    line = "%r0 = fma %a0, %a1, %a2 : tile<2xf32>"
    args = [("2xf32", [a, a * 2.0**-63]), ("2xf32", [b, b * 2.0**-63]), ("2xf32", [1, 2.0**-127])]
    assert one(line, args, "2xf32").tolist() == [1 + 2.0**-23, 2.0**-127 + 2.0**-149]


def test_fma_of_large_f64() -> None:
    line = "%r0 = fma %a0, %a1, %a2 : tile<2xf64>"
    args = [("2xf64", [2.0**1000, 3]), ("2xf64", [1, INF]), ("2xf64", [1, 1])]
    assert one(line, args, "2xf64").tolist() == [2.0**1000, INF]


def test_narrow_types_round_once() -> None:
    assert binary("addf", [2048.0, 1.0], [1.0, 1.0], kind="f16").tolist() == [2048, 2]
    up = binary("addf", [2048.0, 1.0], [1.0, 1.0], "rounding<positive_inf>", "f16")
    assert up.tolist() == [2050, 2]
    third = binary("divf", [1.0, 1.0], [3.0, 3.0], kind="bf16")
    assert bits(third) == [0x3EAB, 0x3EAB]
    down = binary("divf", [1.0, 1.0], [3.0, 3.0], "rounding<zero>", "bf16")
    assert bits(down) == [0x3EAA, 0x3EAA]


_EXACT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}


def _reference(value: Fraction, row: DType, mode: str) -> float:
    """The nearest float64 to odd of an exact value, encoded once: right for at most 24 bits."""
    if not value:
        return 0.0
    nearest = fraction_to_float(value, "rn")
    if row is F64:
        return fraction_to_float(value, MODES[mode])
    rest = value - Fraction(nearest)
    if rest and np.float64(nearest).view(np.uint64) % 2 == 0:
        nearest = math.nextafter(nearest, INF if rest > 0 else -INF)
    pattern = encode([nearest], row, MODES[mode])
    width = {16: np.float16, 32: np.float32}[row.bits]
    if row is BF16:
        return float((pattern.astype(np.uint32) << 16).view(np.float32)[0])
    return float(pattern.view(width)[0])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_fma_of_f64_where_terms_cancel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal(2)
    c = -a * b * (1 + float(rng.integers(-2, 3)) * 2.0**-52) + rng.choice([0, 2.0**-105])
    have = float(fma_f64(*(np.array([v]) for v in (a, b, c)))[0])
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assert have == (fraction_to_float(exact, "rn") if exact else 0)


_ARRAYS = {F16: np.float16, F32: np.float32, F64: np.float64}


@pytest.mark.parametrize("row", [F16, F32, F64], ids=str)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_mode_against_exact_arithmetic(row: DType, data: st.DataObject) -> None:
    what = data.draw(st.sampled_from(sorted(_EXACT)))
    mode = data.draw(st.sampled_from(sorted(MODES)))
    floats = st.floats(allow_nan=False, allow_infinity=False, width=row.bits)
    count = 3 if what == "fma" else 2
    values = [data.draw(floats) for _ in range(count)]
    if what == "div" and not values[1]:
        return
    arrays = [np.array([v], _ARRAYS[row]) for v in values]
    with np.errstate(all="ignore"):
        have = float(rounded(what, row, mode)(*arrays)[0])
        if what == "fma" and mode == "nearest_even" and row is not F16:
            fast = fma_f32 if row is F32 else fma_f64
            assert float(fast(*arrays)[0]) == have
    want = _reference(_EXACT[what](*map(Fraction, values)), row, mode)
    assert have == want, (what, mode, values)


@settings(max_examples=60, deadline=None)
@given(st.floats(min_value=0, allow_infinity=False, width=32), st.sampled_from(sorted(MODES)))
def test_roots_against_exact_arithmetic(value: float, mode: str) -> None:
    with np.errstate(all="ignore"):
        have = Fraction(float(rounded("sqrt", F32, mode)(np.float32([value]))[0]))
        wide = Fraction(float(rounded("sqrt", F64, mode)(np.float64([value]))[0]))
    for root, step in ((have, Fraction(2) ** -22), (wide, Fraction(2) ** -51)):
        if mode in ("zero", "negative_inf"):
            assert root**2 <= value
        if mode == "positive_inf":
            assert root**2 >= value
        assert abs(root**2 - Fraction(value)) <= 2 * step * Fraction(value)


# --- flush to zero ------------------------------------------------------------------------------


def test_subnormals_are_flushed_where_asked() -> None:
    assert binary("addf", [TINY, NORMAL], [TINY, 0]).tolist() == [2 * TINY, NORMAL]
    assert binary("addf", [TINY, NORMAL], [TINY, 0], "flush_to_zero").tolist() == [0, NORMAL]
    out = binary("mulf", [-NORMAL, 2], [0.5, NORMAL], "flush_to_zero")
    assert bits(out) == [1 << 31, 0x01000000]
    assert binary("maxf", [TINY, TINY], [0, 1], "flush_to_zero").tolist() == [0, 1]
    assert binary("divf", [TINY, 1], [TINY, 1], "flush_to_zero").tolist()[1] == 1
    assert np.isnan(binary("divf", [TINY, 1], [TINY, 1], "flush_to_zero")[0])
    assert unary("sqrt", [TINY, 4.0], "flush_to_zero").tolist() == [0, 2]
    assert unary("rsqrt", [TINY, 4.0], "flush_to_zero").tolist() == [INF, 0.5]
    assert unary("exp2", [-130.0, 3.0], "flush_to_zero").tolist() == [0, 8]
    args = [("2xf32", [TINY, 1]), ("2xf32", [2.0, 1]), ("2xf32", [TINY, 1])]
    line = "%r0 = fma %a0, %a1, %a2 flush_to_zero : tile<2xf32>"
    assert one(line, args, "2xf32").tolist() == [0, 2]


# --- extrema and comparisons --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_extrema_of_nan_and_signed_zeros(kind: str) -> None:
    a, b = [NAN, 1.0, NAN, 0.0, -0.0, -0.0, 2.0, -INF], [1.0, NAN, NAN, -0.0, 0.0, -0.0, 3.0, 5.0]
    high = binary("maxf", a, b, kind=kind).astype(float)
    assert high[:2].tolist() == [1, 1]
    assert np.isnan(high[2])
    assert np.signbit(high[3:6]).tolist() == [False, False, True]
    assert high[6:].tolist() == [3, 5]
    low = binary("minf", a, b, kind=kind).astype(float)
    assert low[:2].tolist() == [1, 1]
    assert np.signbit(low[3:6]).tolist() == [True, True, True]
    assert low[6:].tolist() == [2, -INF]
    for op in ("maxf", "minf"):
        strict = binary(op, a, b, "propagate_nan", kind).astype(float)
        assert np.isnan(strict[:3]).all()
    assert np.signbit(binary("maxf", a, b, "propagate_nan", kind).astype(float)[3:6]).tolist() == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("predicate", "want"),
    [
        ("equal", [0, 1, 0]),
        ("not_equal", [1, 0, 1]),
        ("less_than", [1, 0, 0]),
        ("less_than_or_equal", [1, 1, 0]),
        ("greater_than", [0, 0, 1]),
        ("greater_than_or_equal", [0, 1, 1]),
    ],
)
def test_comparisons_of_nan(predicate: str, want: list[int]) -> None:
    args = [("4xf32", [1, 0.0, 3, NAN]), ("4xf32", [2, -0.0, 1, 1])]
    for how, of_nan in (("ordered", 0), ("unordered", 1)):
        line = f"%r0 = cmpf {predicate} {how} %a0, %a1 : tile<4xf32> -> tile<4xi1>"
        assert one(line, args, "4xi1").tolist() == [bool(w) for w in [*want, of_nan]]


# --- signs, whole numbers, remainders -----------------------------------------------------------


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_signs_and_whole_numbers(kind: str) -> None:
    a = [-1.5, 1.5, -0.0, INF]
    assert unary("absf", a, kind=kind).astype(float).tolist() == [1.5, 1.5, 0, INF]
    assert unary("negf", a, kind=kind).astype(float).tolist() == [1.5, -1.5, 0, -INF]
    assert unary("ceil", a, kind=kind).astype(float).tolist() == [-1, 2, 0, INF]
    assert unary("floor", a, kind=kind).astype(float).tolist() == [-2, 1, 0, INF]
    assert np.signbit(unary("negf", [0.0, -0.0], kind=kind).astype(float)).tolist() == [True, False]


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_remainder_has_the_sign_of_the_dividend(kind: str) -> None:
    have = binary("remf", [5.5, -5.5, 5.5, -6.0], [2, 2, -2, 3], kind=kind).astype(float)
    assert have.tolist() == [1.5, -1.5, 1.5, 0]
    assert np.signbit(have[3])
    assert np.isnan(binary("remf", [1, INF], [0, 2], kind=kind).astype(float)).all()


# --- elementary functions -----------------------------------------------------------------------

_FUNCTIONS = {
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "log2": math.log2,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "rsqrt": lambda x: 1 / math.sqrt(x),
}


@pytest.mark.parametrize("op", _FUNCTIONS)
def test_functions_are_rounded_from_float64(op: str) -> None:
    a = [0.125, 0.75, 1.0, 2.5]
    exact = [_FUNCTIONS[op](v) for v in a]
    assert unary(op, a).tolist() == np.float32(exact).tolist()
    assert unary(op, a, kind="f16").tolist() == np.float32(exact).astype(np.float16).tolist()
    assert unary(op, a, kind="bf16").astype(float).tolist() == pytest.approx(exact, rel=2**-8)
    assert unary(op, a, kind="f64").tolist() == pytest.approx(exact, rel=1e-15)


def test_edges_of_functions() -> None:
    assert unary("exp", [-INF, INF, 0.0, 100.0]).tolist() == [0, INF, 1, INF]
    assert unary("log", [0.0, 1.0]).tolist() == [-INF, 0]
    assert np.isnan(unary("log2", [-1.0, NAN])).all()
    assert unary("tanh", [INF, -INF], "rounding<approx>").tolist() == [1, -1]
    assert unary("exp", [0.0, 1.0], "rounding<approx>").tolist() == [1, float(np.float32(math.e))]


def test_angles_and_powers() -> None:
    # The first operand is the ordinate.
    assert (
        binary("atan2", [1, -1], [0, -1]).tolist()
        == np.float32([math.pi / 2, -3 * math.pi / 4]).tolist()
    )
    assert binary("pow", [2, 2], [0.5, -1]).tolist() == [float(np.float32(math.sqrt(2))), 0.5]
    assert binary("pow", [NAN, 1], [0, NAN]).tolist() == [1, 1]
    assert np.isnan(binary("pow", [-2, -8], [0.5, 1 / 3])).all()
    line = "%r0 = fpowi %a0, %a1 : tile<4xf32>, tile<4xi32>"
    args = [("4xf32", [2, -2, 0.5, 0]), ("4xi32", [10, 3, -2, -1])]
    assert one(line, args, "4xf32").tolist() == [1024, -8, 4, INF]
