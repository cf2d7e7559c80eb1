"""encode and decode: every pattern, every boundary between patterns, every rounding."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilewright.errors import DTypeError
from tilewright.numeric.convert import storage_dtype
from tilewright.numeric.dtypes import (
    ALL_DTYPES,
    BF16,
    BOOL,
    E2M1,
    E4M3,
    E5M2,
    E8M0,
    F16,
    F32,
    F64,
    I4,
    I8,
    I32,
    I64,
    TF32,
    U4,
    U8,
    U32,
    U64,
)
from tilewright.numeric.encode import bits_dtype, decode, encode

SMALL = [d for d in ALL_DTYPES if d.bits <= 16]
SIGNED_FLOATS = [d for d in ALL_DTYPES if d.is_float and d.is_signed and d is not F64]
MODES = ["rn", "rz", "rp", "rm", "rna"]


def hexes(patterns):
    return [hex(p) for p in np.atleast_1d(patterns)]


# ------------------------------------------------------------------ decode and round trips


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_decode_of_every_pattern_is_what_ml_dtypes_says(dtype):
    patterns = np.arange(1 << dtype.bits).astype(bits_dtype(dtype))
    with np.errstate(invalid="ignore"):
        expected = patterns.view(storage_dtype(dtype)).astype(np.float64)
    np.testing.assert_array_equal(decode(patterns, dtype), expected)
    if dtype.is_float:
        same_sign = np.signbit(decode(patterns, dtype)) == np.signbit(expected)
        assert np.all(same_sign | np.isnan(expected))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_encode_inverts_decode_on_every_pattern(dtype):
    patterns = np.arange(1 << dtype.bits).astype(bits_dtype(dtype))
    values = decode(patterns, dtype)
    back = encode(values, dtype, "rz")
    assert back.dtype == bits_dtype(dtype)
    if not dtype.is_float:
        np.testing.assert_array_equal(back, patterns)
        return
    is_nan = np.isnan(values)
    np.testing.assert_array_equal(back[~is_nan], patterns[~is_nan])
    assert np.isnan(decode(back[is_nan], dtype)).all()


def test_number_of_nans_and_infinities():
    def count(dtype):
        values = decode(np.arange(1 << dtype.bits), dtype)
        return int(np.isnan(values).sum()), int(np.isinf(values).sum())

    assert count(F16) == (2 * 1023, 2)
    assert count(BF16) == (2 * 127, 2)
    assert count(E5M2) == (6, 2)
    assert count(E4M3) == (2, 0)
    assert count(E8M0) == (1, 0)
    assert count(E2M1) == (0, 0)


@given(st.integers(0, 2**32 - 1))
@example(0x7F800000)
@example(1)
def test_wide_float_patterns_round_trip(pattern):
    value = decode(pattern, F32)
    expected = np.uint32(pattern).view(np.float32)
    assert value == expected or (np.isnan(value) and np.isnan(expected))
    if not np.isnan(value):
        assert encode(value, F32) == pattern
        assert decode(pattern, TF32) == decode(pattern & ~0x1FFF, F32)


@given(st.floats(allow_nan=False))
def test_f64_is_itself(value):
    pattern = np.float64(value).view(np.uint64)
    for mode in MODES:
        assert encode(value, F64, mode) == pattern
    assert decode(pattern, F64) == value


def test_shape_is_kept_and_scalars_work():
    assert encode(1.0, F16).shape == ()
    assert encode(np.ones((2, 0, 3)), F16).shape == (2, 0, 3)
    assert encode(np.ones((4, 6)).T[::2], F16).shape == (3, 4)
    assert decode([[0x38], [0xB8]], E4M3).tolist() == [[1.0], [-1.0]]


def test_bits_beyond_the_type_are_ignored():
    assert decode([0x17, 0xF7], E2M1).tolist() == [6.0, 6.0]
    assert decode([0x1FF], I4).tolist() == [-1]
    assert decode([0x3F801FFF], TF32).tolist() == [1.0]


# ------------------------------------------------------------------ rounding to floats


def codes_to_test(dtype):
    """All magnitudes of a small type; of a wide one, the ends and a sample."""
    if dtype.bits - dtype.pad_bits <= 16:
        return np.arange(dtype.max_code)
    edges = np.arange(64)
    sample = np.random.default_rng(7).integers(0, dtype.max_code, 20_000)
    return np.concatenate([edges, dtype.max_code - 1 - edges, sample])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", SIGNED_FLOATS, ids=str)
def test_every_boundary_rounds_as_its_mode_says(dtype, sign):
    """Between neighbours a < b: just above a, just below, at, just above the middle, below b."""
    low = codes_to_test(dtype)
    a, b = (decode(c << dtype.pad_bits, dtype) for c in (low, low + 1))
    middle = (a + b) / 2  # exact: float64 has bits to spare
    points = {
        "a": a,
        "above a": np.nextafter(a, np.inf),
        "below middle": np.nextafter(middle, 0),
        "middle": middle,
        "above middle": np.nextafter(middle, np.inf),
        "below b": np.nextafter(b, 0),
    }
    nearest = {"a": 0, "above a": 0, "below middle": 0, "above middle": 1, "below b": 1}
    sign_bit = (sign < 0) << (dtype.bits - 1)
    for where, magnitude in points.items():
        away = 0 if where == "a" else 1
        steps = {
            "rn": nearest.get(where, low % 2),
            "rna": nearest.get(where, 1),
            "rz": 0,
            "rp": away if sign > 0 else 0,
            "rm": away if sign < 0 else 0,
        }
        for mode, step in steps.items():
            expected = ((low + step) << dtype.pad_bits) | sign_bit
            got = encode(sign * magnitude, dtype, mode)
            assert np.array_equal(got, expected), (where, mode)


@pytest.mark.parametrize("dtype", [F16, BF16, E4M3, E5M2, E2M1, F32], ids=str)
def test_nearest_even_agrees_with_the_casts_of_numpy_and_ml_dtypes(dtype):
    rng = np.random.default_rng(11)
    patterns = rng.integers(0, 1 << 32, 50_000, dtype=np.uint32)
    normals = rng.standard_normal(50_000).astype(np.float32)
    values = np.concatenate([patterns.view(np.float32), normals, 100 * normals, 1e-6 * normals])
    with np.errstate(all="ignore"):
        cast = values.astype(storage_dtype(dtype)).view(bits_dtype(dtype))
    is_nan = np.isnan(values)
    ours = encode(values, dtype)
    np.testing.assert_array_equal(ours[~is_nan], cast[~is_nan])


@pytest.mark.parametrize("dtype", [F16, BF16, E4M3, E5M2, TF32, F32], ids=str)
def test_overflow(dtype):
    top = decode(dtype.max_code << dtype.pad_bits, dtype)
    assert top == dtype.max
    half_step = (top - decode((dtype.max_code - 1) << dtype.pad_bits, dtype)) / 2
    sign = 1 << (dtype.bits - 1)
    largest = dtype.max_code << dtype.pad_bits
    beyond = (dtype.max_code + 1) << dtype.pad_bits  # infinity, or e4m3's NaN
    tie = largest if dtype is E4M3 else beyond  # e4m3's largest is even, the others' odd
    x = top + half_step * np.array([0.5, 1, 1.5, 2, 1e9, np.inf])
    inf = [beyond] * 3
    assert encode(x, dtype).tolist() == [largest, tie, beyond, *inf]
    assert encode(x, dtype, "rna").tolist() == [largest, beyond, beyond, *inf]
    assert encode(x, dtype, "rz").tolist() == [largest] * 5 + [beyond]
    assert encode(x, dtype, "rm").tolist() == [largest] * 5 + [beyond]
    assert encode(x, dtype, "rp").tolist() == [beyond] * 6
    assert encode(-x, dtype, "rp").tolist() == [largest | sign] * 5 + [beyond | sign]
    assert encode(-x, dtype, "rm").tolist() == [beyond | sign] * 6
    for mode in MODES:
        assert encode(x, dtype, mode, saturate=True).tolist() == [largest] * 6
        assert encode(-x, dtype, mode, saturate=True).tolist() == [largest | sign] * 6


def test_e2m1_always_saturates_and_takes_nan_to_plus_6():
    x = [6.0, 7.0, 1e30, np.inf, -7.0, -np.inf, np.nan, -np.nan]
    for saturate in (False, True):
        for mode in MODES:
            got = encode(x, E2M1, mode, saturate)
            assert decode(got, E2M1).tolist() == [6, 6, 6, 6, -6, -6, 6, 6]


@pytest.mark.parametrize("saturate", [False, True])
def test_nan_becomes_the_canonical_nan(saturate):
    expected = {F16: 0x7FFF, BF16: 0x7FFF, F32: 0x7FFFFFFF, E4M3: 0x7F, E5M2: 0x7F, E8M0: 0xFF}
    expected[TF32] = 0x7FFFE000
    for dtype, pattern in expected.items():
        for nan in (np.nan, -np.nan):
            assert encode(nan, dtype, "rz", saturate) == pattern


def test_signed_zero_and_underflow():
    x = [0.0, -0.0, 1e-300, -1e-300, 5e-324]
    for dtype in SIGNED_FLOATS:
        sign, one = 1 << (dtype.bits - 1), 1 << dtype.pad_bits
        assert encode(x, dtype).tolist() == [0, sign, 0, sign, 0]
        assert encode(x, dtype, "rp").tolist() == [0, sign, one, sign, one]
        assert encode(x, dtype, "rm").tolist() == [0, sign, 0, sign | one, 0]


def test_e8m0_is_the_exponent_of_the_magnitude():
    x = [1.0, 1.5, -1.5, 2.0, 0.75, 2.0**-127, 2.0**-128, 0.0, 2.0**127]
    assert encode(x, E8M0, "rz").tolist() == [127, 127, 127, 128, 126, 0, 0, 0, 254]
    assert encode(x, E8M0, "rp").tolist() == [127, 128, 128, 128, 127, 0, 0, 0, 254]
    huge = [1.5 * 2.0**127, 2.0**128, -(2.0**128), np.inf, np.nan]
    assert encode(huge, E8M0, "rz").tolist() == [254, 254, 254, 255, 255]
    assert encode(huge, E8M0, "rp").tolist() == [255, 255, 255, 255, 255]
    for mode in ("rz", "rp"):
        assert encode(huge, E8M0, mode, saturate=True).tolist() == [254, 254, 254, 254, 255]


def test_one_rounding_where_going_through_f32_would_round_twice():
    just_above_tie = 1 + 2.0**-8 + 2.0**-40  # f32 would make it the tie, then even
    assert hexes(encode(just_above_tie, BF16)) == ["0x3f81"]
    assert hexes(np.float64(just_above_tie).astype(ml_dtypes.bfloat16).view(np.uint16)) == [
        "0x3f80"
    ]
    for dtype in (F16, E4M3, E5M2, TF32):
        tie = 1 + dtype.epsilon / 2
        one = encode(1.0, dtype)
        assert encode(tie, dtype) == one
        assert encode(np.nextafter(tie, 2), dtype) == one + (1 << dtype.pad_bits)


@given(
    st.sampled_from(SIGNED_FLOATS),
    st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-500, 500, width=32)),
)
@settings(max_examples=400)
def test_rounding_laws(dtype, x):
    got = {m: float(decode(encode(x, dtype, m, saturate=True), dtype)) for m in MODES}
    assert abs(got["rz"]) <= abs(x)  # law 1
    if abs(x) <= dtype.max:
        assert got["rm"] <= x <= got["rp"]  # law 2
        assert got["rz"] == (got["rm"] if x >= 0 else got["rp"])  # law 3
        below, above = Fraction(x) - Fraction(got["rm"]), Fraction(got["rp"]) - Fraction(x)
        for mode in ("rn", "rna"):  # law 4: nearest
            assert got[mode] in (got["rm"], got["rp"])
            assert abs(Fraction(got[mode]) - Fraction(x)) == min(below, above)
        if below == above != 0:  # law 5: ties
            even = int(encode(got["rn"], dtype)) >> dtype.pad_bits
            assert even % 2 == 0
            assert abs(got["rna"]) == max(abs(got["rm"]), abs(got["rp"]))


@given(st.sampled_from(SIGNED_FLOATS), st.sampled_from(MODES), st.floats(), st.floats())
def test_rounding_is_monotonic_and_idempotent(dtype, mode, x, y):
    low, high = decode(encode(sorted([x, y]), dtype, mode, saturate=True), dtype)
    if not (np.isnan(x) or np.isnan(y)):
        assert low <= high
    again = encode(low, dtype, mode, saturate=True)
    np.testing.assert_array_equal(decode(again, dtype), low)


# ------------------------------------------------------------------ integers


@given(st.integers(-(2**63), 2**64 - 1), st.sampled_from(MODES), st.sampled_from(SIGNED_FLOATS))
@example(2**24 + 1, "rn", F32)
@example(2**54 + 2**30 + 1, "rn", F32)  # float64 would drop the 1 and make this a tie
@example(2**64 - 1, "rz", BF16)
@example(0, "rn", F16)
@example(1, "rn", E4M3)
def test_integer_to_float_is_exact_then_rounded(x, mode, dtype):
    array = np.array([x], np.uint64 if x >= 2**63 else np.int64)
    got = Fraction(float(decode(encode(array, dtype, mode, saturate=True), dtype)[0]))
    if abs(x) > dtype.max:
        assert abs(got) == Fraction(dtype.max)
        return
    step = Fraction(2) ** max(abs(x).bit_length() - 1 - dtype.mantissa_bits, -200)
    error = got - x
    if x == 0:
        assert got == 0
    elif mode in ("rn", "rna"):
        assert abs(error) <= step / 2
    else:
        assert abs(error) < step
        toward = {"rz": -x, "rp": 1, "rm": -1}[mode]
        assert error == 0 or (error > 0) == (toward > 0)


def test_i64_to_f32_and_f64_are_numpys_casts():
    rng = np.random.default_rng(3)
    for np_type in (np.int64, np.uint64):
        info = np.iinfo(np_type)
        x = rng.integers(info.min, info.max, 2000, dtype=np_type, endpoint=True)
        x = np.concatenate([x, x >> 20, np.array([info.min, info.max, 0, 1], np_type)])
        np.testing.assert_array_equal(encode(x, F32), x.astype(np.float32).view(np.uint32))
        np.testing.assert_array_equal(encode(x, F64), x.astype(np.float64).view(np.uint64))


def test_integers_that_float64_rounds_up_to_a_power_of_two():
    x = np.array([2**54 - 1, 2**63 - 1, 2**64 - 1], np.uint64)
    power = np.array([54, 63, 64])
    for dtype in (F64, F32, BF16):
        below, at = 2.0**power * (1 - dtype.epsilon / 2), 2.0**power
        for mode in MODES:
            got = decode(encode(x, dtype, mode), dtype)
            np.testing.assert_array_equal(got, below if mode in ("rz", "rm") else at)
    assert encode(x, E8M0, "rz").tolist() == [127 + 53, 127 + 62, 127 + 63]
    assert encode(x, E8M0, "rp").tolist() == [127 + 54, 127 + 63, 127 + 64]


def test_integers_wrap_or_clamp():
    x = np.array([-129, -128, -1, 0, 127, 128, 255, 256, 511])
    assert decode(encode(x, I8), I8).tolist() == [127, -128, -1, 0, 127, -128, -1, 0, -1]
    assert decode(encode(x, I8, saturate=True), I8).tolist() == [-128] * 2 + [-1, 0] + [127] * 5
    assert decode(encode(x, U8, saturate=True), U8).tolist() == [0] * 4 + [127, 128, 255, 255, 255]
    assert decode(encode(x, U4), U4).tolist() == [15, 0, 15, 0, 15, 0, 15, 0, 15]
    assert decode(encode(x, I4, saturate=True), I4).tolist() == [-8, -8, -1, 0] + [7] * 5
    assert decode(encode(np.int64(-1), U64), U64) == 2**64 - 1
    assert decode(encode(np.int64(-1), U64, saturate=True), U64) == 0
    assert decode(encode(np.uint64(2**64 - 1), I64, saturate=True), I64) == 2**63 - 1
    assert decode(encode([True, False], I32), I32).tolist() == [1, 0]


@given(st.floats(allow_nan=False), st.sampled_from([d for d in ALL_DTYPES if d.is_integer]))
@example(2.0**63, I64)
@example(2.0**64, U64)
@example(-(2.0**63), I64)
@example(2.0**31 - 0.5, I32)
@example(-0.9, U32)
def test_float_to_integer_truncates_and_clamps(x, dtype):
    whole = math.trunc(x) if math.isfinite(x) else (math.inf if x > 0 else -math.inf)
    expected = min(max(whole, dtype.min), dtype.max)
    for mode in ("rn", "rz", "rzi"):
        assert decode(encode(x, dtype, mode), dtype) == expected


def test_float_to_integer_roundings():
    x = [2.5, 3.5, -2.5, 2.4, -2.6]
    assert decode(encode(x, I32, "rni"), I32).tolist() == [2, 4, -2, 2, -3]
    assert decode(encode(x, I32, "rzi"), I32).tolist() == [2, 3, -2, 2, -2]
    assert decode(encode(x, I32, "rpi"), I32).tolist() == [3, 4, -2, 3, -2]
    assert decode(encode(x, I32, "rmi"), I32).tolist() == [2, 3, -3, 2, -3]
    assert encode([127.5, -0.5], I8, "rni").tolist() == [127, 0]


def test_nan_to_integer():
    assert [int(encode(np.nan, d)) for d in (I4, I8, I32, U32)] == [0, 0, 0, 0]
    assert [int(encode(np.nan, d)) for d in (I64, U64)] == [1 << 63, 1 << 63]
    assert [int(encode(np.nan, d, source=F64)) for d in (I8, I32, U32)] == [128, 1 << 31, 1 << 31]


def test_bool_is_not_equal_to_zero():
    assert encode([0.0, -0.0, 1e-300, np.nan, 5], BOOL).tolist() == [0, 0, 1, 1, 1]
    assert encode([0, 256, -1], BOOL).tolist() == [0, 1, 1]


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("dtype", "rounding", "allowed"),
    [
        (F16, "rni", "rn, rz, rp, rm, rna"),
        (E8M0, "rn", "rz, rp"),
        (I32, "rna", "rn, rz, rni, rzi, rpi, rmi"),
        (BOOL, "up", "rn, rz, rni, rzi, rpi, rmi"),
    ],
    ids=str,
)
def test_rounding_that_has_no_meaning(dtype, rounding, allowed):
    text = f"^encode: rounding '{rounding}' to {dtype}, expected one of {allowed}$"
    with pytest.raises(DTypeError, match=text):
        encode([1.0], dtype, rounding)


@pytest.mark.parametrize("values", [[2**70], ["1"], [1j]], ids=str)
def test_values_that_are_not_numbers_of_64_bits(values):
    text = r"^encode: values of numpy dtype \S+, expected floats or integers of at most 64 bits$"
    with pytest.raises(DTypeError, match=text):
        encode(values, F16)
