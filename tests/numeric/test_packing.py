"""packing: nibble order, round trips through memory for every type, and refusals."""

import numpy as np
import pytest

from tilewright.errors import DTypeError
from tilewright.numeric.convert import bits_to_storage, storage_dtype, storage_to_bits
from tilewright.numeric.dtypes import ALL_DTYPES, BOOL, E2M1, F16, F32, I4, I32, U4
from tilewright.numeric.encode import bits_dtype
from tilewright.numeric.packing import from_bytes, pack, to_bytes, unpack


def random_storage(dtype, shape):
    rng = np.random.default_rng(5)
    raw = rng.integers(0, 1 << min(dtype.bits, 63), shape, dtype=np.uint64)
    raw &= ~np.uint64((1 << dtype.pad_bits) - 1)
    return bits_to_storage(raw.astype(bits_dtype(dtype)), dtype)


def test_low_nibble_first():
    assert pack(np.array([1, 2, -1], "int4"), I4).tolist() == [0x21, 0x0F]
    assert unpack(np.uint8([0x21, 0x0F]), I4, 3).astype(int).tolist() == [1, 2, -1]
    assert pack(np.array([1.0, -6.0], "float4_e2m1fn"), E2M1).tolist() == [0xF2]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_memory_round_trip(dtype, count):
    for shape in [(count,), (3, count), (2, 3, count)]:
        array = random_storage(dtype, shape)
        data = to_bytes(array, dtype)
        assert data.dtype == np.uint8
        assert data.shape == (*shape[:-1], dtype.bytes_for(count))
        back = from_bytes(data, dtype, count)
        assert back.dtype == storage_dtype(dtype)
        np.testing.assert_array_equal(storage_to_bits(back, dtype), storage_to_bits(array, dtype))
        assert not np.shares_memory(back, data)


def test_images_are_little_endian():
    assert to_bytes(np.int32([0x01020304]), I32).tolist() == [4, 3, 2, 1]
    assert to_bytes(np.float16(1.0), F16).tolist() == [0x00, 0x3C]
    assert from_bytes(b"\x00\x00\x80\x3f", F32).tolist() == [1.0]
    assert from_bytes(bytearray(b"\x00\x3c\x00"), F16).tolist() == [1.0]


def test_strided_arrays():
    array = np.arange(24, dtype=np.int32).reshape(4, 6)
    np.testing.assert_array_equal(from_bytes(to_bytes(array.T, I32), I32), array.T)
    np.testing.assert_array_equal(from_bytes(to_bytes(array[:, ::2], I32), I32), array[:, ::2])
    nibbles = array.astype("uint4")
    back = from_bytes(to_bytes(nibbles[:, ::2], U4), U4, 3)
    assert back.astype(int).tolist() == (array % 16)[:, ::2].tolist()


def test_any_nonzero_byte_is_true():
    got = from_bytes(b"\x00\x01\x02\xff", BOOL)
    assert storage_to_bits(got, BOOL).tolist() == [0, 1, 1, 1]


def test_count_defaults_to_all_that_fit():
    assert from_bytes(np.uint8([0x21, 0x43]), U4).astype(int).tolist() == [1, 2, 3, 4]
    assert from_bytes(bytes(7), I32).shape == (1,)


def test_pack_refuses_wider_types():
    with pytest.raises(DTypeError, match=r"^pack: f16 has 16 bits, expected a 4-bit type$"):
        pack(np.zeros(2, np.float16), F16)
    with pytest.raises(DTypeError, match=r"^unpack: f16 has 16 bits, expected a 4-bit type$"):
        unpack(np.zeros(2, np.uint8), F16, 1)


def test_too_few_bytes():
    text = r"^unpack: 3 bytes hold 6 elements of e2m1, expected 7$"
    with pytest.raises(DTypeError, match=text):
        unpack(np.zeros(3, np.uint8), E2M1, 7)
    with pytest.raises(
        DTypeError, match=r"^from_bytes: 7 bytes hold 1 elements of i32, expected 2$"
    ):
        from_bytes(bytes(7), I32, 2)


def test_wrong_storage_is_refused():
    with pytest.raises(
        DTypeError, match=r"^storage of f16: array of numpy dtype float32, expected"
    ):
        to_bytes(np.zeros(2, np.float32), F16)
