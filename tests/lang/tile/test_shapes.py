"""Factories, shapes and element types against NumPy."""

import ml_dtypes
import numpy as np
import pytest

import tilewright.tile as ct

RNG = np.random.default_rng(5)


@ct.kernel
def factories(f, i):
    ct.store(f, (0, 0), ct.full((1, 8), 2.5, ct.float32))
    ct.store(f, (1, 0), ct.zeros((1, 8), ct.float32))
    ct.store(f, (2, 0), ct.ones((1, 8), np.float32))
    ct.store(f, (3, 0), ct.arange(8, dtype=ct.float32, start=1, step=0.5).reshape((1, -1)))
    ct.store(i, (0, 0), ct.arange(8, dtype=ct.int32)[None, :])
    ct.store(i, (1, 0), ct.arange(8, dtype=ct.int32, start=-3, step=2)[None])
    ct.store(i, (2, 0), ct.full((1, 8), ct.bid(0) + 7, ct.int32))
    n = ct.bid(0)
    ct.store(i, (3, 0), ct.astile(((n, 1, 2, 3, 4, 5, 6, n + 7),), dtype=ct.int32))


def test_factories(run):
    f, i = run(factories, (1,), np.zeros((4, 8), np.float32), np.zeros((4, 8), np.int32))
    np.testing.assert_array_equal(f[:3, 0], [2.5, 0, 1])
    np.testing.assert_array_equal(f[3], np.arange(8) * 0.5 + 1)
    np.testing.assert_array_equal(i[0], np.arange(8))
    np.testing.assert_array_equal(i[1], np.arange(8) * 2 - 3)
    np.testing.assert_array_equal(i[2], np.full(8, 7))
    np.testing.assert_array_equal(i[3], np.arange(8))


@ct.kernel
def shapes(x, permuted, moved, parts, joined, spread):
    t = ct.load(x, (0, 0, 0), (2, 4, 8))
    ct.store(permuted, (0, 0, 0), ct.permute(t, (2, 0, 1)))
    ct.store(moved, (0, 0, 0), t.transpose(0, 2))
    ct.store(parts, (0, 0, 0), ct.extract(t, (1, 0, 3), (1, 4, 2)))
    ct.store(joined, (0, 0), ct.cat((t.reshape((8, 8)), t.reshape((8, 8)) * 2), 0))
    row = ct.extract(t, (0, 1, 0), (1, 1, 8)).reshape((8,))
    ct.store(spread, (0, 0), ct.broadcast_to(row, (4, 8)))
    ct.store(spread, (1, 0), ct.expand_dims(row, 0) + ct.zeros((4, 1), ct.float32))


def test_shapes(run):
    x = RNG.random((2, 4, 8)).astype(np.float32)
    shapes_of = [(8, 2, 4), (8, 4, 2), (1, 4, 2), (16, 8), (8, 8)]
    _, p, m, parts, joined, spread = run(
        shapes, (1,), x, *(np.zeros(s, np.float32) for s in shapes_of)
    )
    np.testing.assert_array_equal(p, x.transpose(2, 0, 1))
    np.testing.assert_array_equal(m, x.transpose(2, 1, 0))
    np.testing.assert_array_equal(parts, x[1:2, :, 6:8])
    np.testing.assert_array_equal(joined, np.concatenate([x.reshape(8, 8), x.reshape(8, 8) * 2]))
    np.testing.assert_array_equal(spread, np.tile(x[0, 1], (8, 1)))


@ct.kernel
def subscripts(x, out):
    t = ct.load(x, (0, 0), (2, 4))
    ct.static_assert(t[None].shape == (1, 2, 4))
    ct.static_assert(t[:, None, :].shape == (2, 1, 4))
    ct.static_assert(t[..., None].shape == (2, 4, 1))
    ct.static_assert(t[None, ..., None].shape == (1, 2, 4, 1))
    ct.static_assert(t.ndim == 2 and t.dtype == ct.float32)
    ct.store(out, (0, 0), t.extract((1, 3), (1, 1)).item())


def test_subscripts_add_dimensions(run):
    x = RNG.random((2, 4)).astype(np.float32)
    _, out = run(subscripts, (1,), x, np.zeros((1, 1), np.float32))
    assert out[0, 0] == x[1, 3]


CASTS = {
    ct.float16: np.float16,
    ct.bfloat16: ml_dtypes.bfloat16,
    ct.float64: np.float64,
    ct.int8: np.int8,
    ct.int64: np.int64,
    ct.uint16: np.uint16,
    ct.bool_: np.bool_,
    ct.float8_e4m3fn: ml_dtypes.float8_e4m3fn,
    ct.float8_e5m2: ml_dtypes.float8_e5m2,
}


@ct.kernel
def cast(x, out):
    ct.store(out, 0, ct.load(x, 0, 16).astype(out.dtype))


@pytest.mark.parametrize("dtype", CASTS, ids=str)
def test_conversion(run, dtype):
    x = (RNG.random(16) * 40).astype(np.float32)
    x[0] = 0
    _, out = run(cast, (1,), x, np.zeros(16, CASTS[dtype]))
    np.testing.assert_array_equal(out, x.astype(CASTS[dtype]))
    back = run(cast, (1,), out, np.zeros(16, np.float32))[1]
    np.testing.assert_array_equal(back, out.astype(np.float32))


@ct.kernel
def bits(x, words, halves):
    t = ct.load(x, 0, 16)
    ct.store(words, 0, ct.bitcast(t, ct.int32))
    packed = ct.pack_to_bytes(t)
    ct.static_assert(packed.shape == (64,) and packed.dtype == ct.uint8)
    ct.store(halves, 0, ct.unpack_from_bytes(packed, ct.int16))


def test_bits(run):
    x = RNG.random(16).astype(np.float32)
    _, words, halves = run(bits, (1,), x, np.zeros(16, np.int32), np.zeros(32, np.int16))
    np.testing.assert_array_equal(words, x.view(np.int32))
    np.testing.assert_array_equal(halves, x.view(np.int16))


@ct.kernel
def wrapping(x, out):
    t = ct.load(x, 0, 16)
    ct.store(out, 0, ct.astype(t, ct.int8))
    ct.store(out, 1, ct.astype(ct.astype(t, ct.uint8), ct.int8))


def test_integers_wrap(run):
    x = RNG.integers(-1000, 1000, 16).astype(np.int32)
    _, out = run(wrapping, (1,), x, np.zeros(32, np.int8))
    np.testing.assert_array_equal(out[:16], x.astype(np.int8))
    np.testing.assert_array_equal(out[16:], x.astype(np.int8))


@ct.kernel
def promoting(i8, i64, f16, f32):
    a = ct.load(i8, 0, 4)
    b = ct.load(i64, 0, 4)
    h = ct.load(f16, 0, 4)
    s = ct.load(f32, 0, 4)
    ct.static_assert((a + b).dtype == ct.int64)
    ct.static_assert((a + 1).dtype == ct.int8)
    ct.static_assert((a + 1.0).dtype == ct.float32)
    ct.static_assert((b + h).dtype == ct.float16)
    ct.static_assert((h + s).dtype == ct.float32)
    ct.static_assert((h * 2).dtype == ct.float16)
    ct.static_assert((h * 2.5).dtype == ct.float16)
    ct.static_assert((a / b).dtype == ct.float32)
    ct.static_assert((a == b).dtype == ct.bool_)
    ct.static_assert(ct.where(a < 3, a, 0).dtype == ct.int8)


def test_promotion(run):
    kinds = (np.int8, np.int64, np.float16, np.float32)
    run(promoting, (1,), *(np.zeros(4, k) for k in kinds))
