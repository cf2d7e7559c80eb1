"""convert: every pair of types agrees with encode after decode; storage arrays are checked."""

import itertools

import numpy as np
import pytest

from tilewright.errors import DTypeError
from tilewright.numeric.convert import bits_to_storage, convert, storage_dtype, storage_to_bits
from tilewright.numeric.dtypes import (
    ALL_DTYPES,
    BF16,
    BOOL,
    E2M1,
    E4M3,
    E8M0,
    F16,
    F32,
    F64,
    I4,
    I8,
    I32,
    I64,
    TF32,
    U8,
    U32,
)
from tilewright.numeric.encode import bits_dtype, decode, encode


def storage_samples(dtype, count=4096):
    """All patterns of a small type; random bits and tame values of a wide one."""
    if dtype.bits <= 16:
        return bits_to_storage(np.arange(1 << dtype.bits).astype(bits_dtype(dtype)), dtype)
    rng = np.random.default_rng(dtype.bits)
    raw = rng.integers(0, 1 << 63, count, dtype=np.uint64) << np.uint64(1)
    raw >>= np.uint64(64 - dtype.bits)
    tame = encode(rng.standard_normal(count) * 300, dtype)
    edges = encode(np.array([0, 1, -1, 2, 448, 464, 65504, 65520, 127, 128, 255, 256]), dtype)
    patterns = np.concatenate([raw.astype(bits_dtype(dtype)), tame, edges])
    if dtype is F64:  # what rounds twice by way of f32
        patterns = np.concatenate([patterns, encode(1 + 2.0**-8 + 2.0 ** -np.arange(30, 52), F64)])
    return bits_to_storage(patterns & ~bits_dtype(dtype).type((1 << dtype.pad_bits) - 1), dtype)


def assert_same(got, expected_bits, dst):
    bits = storage_to_bits(got, dst)
    if dst.is_float:
        both_nan = np.isnan(decode(bits, dst)) & np.isnan(decode(expected_bits, dst))
        bits, expected_bits = bits[~both_nan], expected_bits[~both_nan]
    np.testing.assert_array_equal(bits, expected_bits)


@pytest.mark.parametrize("src", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("saturate", [False, True])
def test_convert_is_encode_after_decode(src, saturate):
    array = storage_samples(src)
    values = decode(storage_to_bits(array, src), src)
    for dst in ALL_DTYPES:
        rounding = "rz" if dst is E8M0 else "rn"
        expected = encode(values, dst, rounding, saturate, source=src)
        got = convert(array, src, dst, rounding, saturate)
        assert got.dtype == storage_dtype(dst)
        assert_same(got, expected, dst)


@pytest.mark.parametrize("rounding", ["rz", "rp", "rm", "rna"])
def test_other_roundings(rounding):
    for src, dst in [(F32, F16), (F32, TF32), (F64, F32), (F16, E4M3), (I32, F16)]:
        array = storage_samples(src)
        values = decode(storage_to_bits(array, src), src)
        assert_same(convert(array, src, dst, rounding), encode(values, dst, rounding), dst)


def test_every_widening_is_exact():
    floats = [d for d in ALL_DTYPES if d.is_float]
    for src, dst in itertools.product(floats, floats):
        widens = dst.exponent_bits >= src.exponent_bits and dst.mantissa_bits >= src.mantissa_bits
        # Only float types with signs on both sides, and infinities, widen without exception.
        if not widens or src is E8M0 or dst is E8M0 or (src.has_nan and not dst.has_inf):
            continue
        array = storage_samples(src)
        there_and_back = convert(convert(array, src, dst), dst, src)
        assert_same(there_and_back, storage_to_bits(array, src), src)


def test_tf32_storage_has_13_zero_bits():
    got = convert(storage_samples(F32), F32, TF32, "rna")
    assert got.dtype == np.float32
    assert not np.any(got.view(np.uint32) & 0x1FFF)


def test_result_is_a_new_array_and_keeps_shape():
    array = np.ones((3, 1, 4), np.float32)
    same = convert(array, F32, F32)
    assert not np.shares_memory(same, array)
    assert same.shape == array.shape
    assert convert(array, F32, E2M1).shape == array.shape
    assert convert(array.T, F32, BF16).shape == (4, 1, 3)
    assert convert(np.float32(1.5), F32, I8) == 1
    table_result = convert(np.arange(4, dtype=np.uint8), U8, F32)
    table_result[:] = 9
    assert convert(np.arange(4, dtype=np.uint8), U8, F32).tolist() == [0, 1, 2, 3]


def test_overflow_raises_no_numpy_warning():
    with np.errstate(all="raise"):
        assert np.isinf(convert(np.float32([1e30]), F32, F16).astype(np.float32))
        assert np.isinf(convert(np.float64([1e300]), F64, F32))
        assert convert(np.float32([1e-30]), F32, F16) == 0
        convert(np.uint32([0x7F800001]).view(np.float32), F32, I32)
        convert(np.uint32([0x7F800001]).view(np.float32), F32, E2M1)


def test_nan_of_f64_and_to_64_bits_is_the_top_bit():
    nan = np.array([np.nan])
    assert convert(nan, F64, I32) == -(2**31)
    assert convert(nan.astype(np.float32), F32, I32) == 0
    assert convert(nan.astype(np.float32), F32, I64) == -(2**63)
    assert convert(nan.astype(np.float16), F16, U32) == 0


def test_four_bit_integers_wrap():
    assert convert(np.int32([7, 8, 15, 16]), I32, I4).astype(int).tolist() == [7, -8, -1, 0]
    assert convert(np.bool_([True, False]), BOOL, E4M3).astype(float).tolist() == [1.0, 0.0]


def test_upper_nibble_of_a_4_bit_element_is_ignored():
    assert convert(np.uint8([0xF7, 0x1F]).view(storage_dtype(I4)), I4, I32).tolist() == [7, -1]
    assert convert(np.uint8([0xF7]).view(storage_dtype(E2M1)), E2M1, F32).tolist() == [6.0]


def test_wrong_storage_is_refused():
    text = r"^storage of bf16: array of numpy dtype float32, expected bfloat16$"
    with pytest.raises(DTypeError, match=text):
        convert(np.zeros(2, np.float32), BF16, F32)


def test_wrong_rounding_is_refused_on_every_path():
    for src in (F32, F16):
        array = np.zeros(2, storage_dtype(src))
        with pytest.raises(DTypeError, match=r"^encode: rounding 'rn' to e8m0, expected one of rz"):
            convert(array, src, E8M0)
