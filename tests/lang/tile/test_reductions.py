"""Reductions, scans and matrix products against NumPy."""

import ml_dtypes
import numpy as np
import pytest

import tilewright.tile as ct

RNG = np.random.default_rng(3)
WHOLE = RNG.integers(-9, 9, (4, 8)).astype(np.float32)


@ct.kernel
def reductions(x, rows, columns, whole):
    t = ct.load(x, (0, 0), (4, 8))
    ct.store(rows, (0, 0), ct.sum(t, axis=1)[None, :])
    ct.store(rows, (1, 0), ct.max(t, axis=-1)[None, :])
    ct.store(rows, (2, 0), ct.min(t, 1)[None, :])
    ct.store(rows, (3, 0), ct.argmax(t, 1).astype(ct.float32)[None, :])
    ct.store(rows, (4, 0), ct.argmin(t, 1).astype(ct.float32)[None, :])
    ct.store(columns, (0, 0), ct.sum(t, 0, keepdims=True))
    ct.store(columns, (1, 0), ct.prod(t, 0, keepdims=True))
    ct.store(whole, 0, ct.sum(t))
    ct.store(whole, 1, ct.max(t, (0, 1)))
    ct.store(whole, 2, ct.argmax(t).astype(ct.float32))
    ct.store(whole, 3, ct.sum(t > 0).astype(ct.float32))
    ct.static_assert(ct.sum(t, (0, 1), keepdims=True).shape == (1, 1))
    ct.static_assert(ct.argmin(t, keepdims=True).shape == (1, 1))


def test_reductions(run):
    x = WHOLE
    _, rows, columns, whole = run(
        reductions,
        (1,),
        x,
        np.zeros((5, 4), np.float32),
        np.zeros((2, 8), np.float32),
        np.zeros(4, np.float32),
    )
    wanted = [x.sum(1), x.max(1), x.min(1), x.argmax(1), x.argmin(1)]
    np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_array_equal(columns, [x.sum(0), x.prod(0)])
    np.testing.assert_array_equal(whole, [x.sum(), x.max(), x.argmax(), (x > 0).sum()])


@ct.kernel
def with_nan(x, out):
    t = ct.load(x, 0, 8)
    ct.store(out, 0, ct.max(t))
    ct.store(out, 1, ct.max(t, propagate_nan=True))
    ct.store(out, 2, ct.argmax(t).astype(ct.float32))
    ct.store(out, 3, ct.argmin(t, propagate_nan=True).astype(ct.float32))


def test_nan_in_reductions(run):
    x = np.array([1, 5, np.nan, 3, 5, -2, 0, 4], np.float32)
    _, out = run(with_nan, (1,), x, np.zeros(4, np.float32))
    np.testing.assert_array_equal(out, [5, np.nan, 1, 2])


@ct.kernel
def scans(x, out):
    t = ct.load(x, (0, 0), (4, 8))
    ct.store(out, (0, 0), ct.cumsum(t, 1))
    ct.store(out, (1, 0), ct.cumsum(t, 0, reverse=True))
    ct.store(out, (2, 0), ct.cumprod(t, -1))
    ct.store(out, (3, 0), ct.scan(t, 1, lambda a, b: ct.maximum(a, b), -100.0))


def test_scans(run):
    x = WHOLE
    _, out = run(scans, (1,), x, np.zeros((16, 8), np.float32))
    np.testing.assert_array_equal(out[:4], x.cumsum(1))
    np.testing.assert_array_equal(out[4:8], x[::-1].cumsum(0)[::-1])
    np.testing.assert_array_equal(out[8:12], x.cumprod(1))
    np.testing.assert_array_equal(out[12:], np.maximum.accumulate(x, 1))


def later(a_value, a_index, b_value, b_index):
    """The greater value, of equal ones the greater index."""
    first = (a_value > b_value) | ((a_value == b_value) & (a_index > b_index))
    return ct.where(first, a_value, b_value), ct.where(first, a_index, b_index)


@ct.kernel
def custom(x, values, indices):
    t = ct.load(x, (0, 0), (4, 8))
    i = ct.arange(8, dtype=ct.int32)[None, :]
    v, j = ct.reduce((t, i), 1, later, (-1000.0, -1))
    ct.store(values, 0, v)
    ct.store(indices, 0, j)
    ct.store(values, 1, ct.reduce(t, 0, lambda a, b: a * b, 1).extract(0, 4))


def test_reduction_by_a_function(run):
    x = WHOLE
    _, values, indices = run(custom, (1,), x, np.zeros(8, np.float32), np.zeros(4, np.int32))
    np.testing.assert_array_equal(values[:4], x.max(1))
    np.testing.assert_array_equal(indices, 7 - x[:, ::-1].argmax(1))
    np.testing.assert_array_equal(values[4:], x.prod(0)[:4])


@ct.kernel
def products(x, y, out, m: ct.Constant[int]):
    a = ct.load(x, (0, 0), (m, m))
    b = ct.load(y, (0, 0), (m, m))
    acc = ct.full((m, m), 1, out.dtype)
    ct.store(out, (0, 0), ct.mma(a, b, acc))


PRODUCTS = {
    "f16": (np.float16, np.float32),
    "f16_f16": (np.float16, np.float16),
    "bf16": (ml_dtypes.bfloat16, np.float32),
    "f32": (np.float32, np.float32),
    "f64": (np.float64, np.float64),
    "i8": (np.int8, np.int32),
    "u8": (np.uint8, np.int32),
    "e4m3": (ml_dtypes.float8_e4m3fn, np.float32),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_mma(run, name):
    kind, acc = PRODUCTS[name]
    x, y = (RNG.integers(0, 4, (16, 16)).astype(kind) for _ in range(2))
    *_, out, _ = run(products, (1,), x, y, np.zeros((16, 16), acc), 16)
    wanted = x.astype(np.float64) @ y.astype(np.float64) + 1
    np.testing.assert_array_equal(out.astype(np.float64), wanted)


@ct.kernel
def batches(x, y, out, vector, flat):
    a = ct.load(x, (0, 0, 0), (2, 4, 8))
    b = ct.load(y, (0, 0), (8, 4))
    ct.store(out, (0, 0, 0), ct.mma(a, b, ct.zeros((2, 4, 4), ct.float32)))
    ct.store(out, (1, 0, 0), a @ b)
    v = ct.load(vector, 0, 8)
    ct.store(flat, 0, ct.matmul(v, b))
    ct.store(flat, 1, (a @ v).extract((0, 0), (1, 4)).reshape((4,)))
    ct.static_assert(ct.matmul(v, v).shape == ())


def test_products_of_batches_and_vectors(run):
    x = RNG.integers(0, 4, (2, 4, 8)).astype(np.float32)
    y = RNG.integers(0, 4, (8, 4)).astype(np.float32)
    v = RNG.integers(0, 4, 8).astype(np.float32)
    _, _, out, _, flat = run(
        batches, (1,), x, y, np.zeros((4, 4, 4), np.float32), v, np.zeros(8, np.float32)
    )
    np.testing.assert_array_equal(out[:2], x @ y)
    np.testing.assert_array_equal(out[2:], x @ y)
    np.testing.assert_array_equal(flat, np.concatenate([v @ y, (x @ v)[0]]))


@ct.kernel
def scaled(x, xs, y, ys, out):
    a = ct.load(x, (0, 0), (16, 64))
    b = ct.load(y, (0, 0), (64, 16))
    sa = ct.load(xs, (0, 0), (16, 2))
    sb = ct.load(ys, (0, 0), (2, 16))
    ct.store(out, (0, 0), ct.mma_scaled(a, sa, b, sb, ct.zeros((16, 16), ct.float32)))


def test_mma_scaled(run):
    kind, scale = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
    x, y = (RNG.integers(-3, 4, s).astype(kind) for s in ((16, 64), (64, 16)))
    xs, ys = (2.0 ** RNG.integers(-2, 3, s) for s in ((16, 2), (2, 16)))
    args = x, xs.astype(scale), y, ys.astype(scale), np.zeros((16, 16), np.float32)
    *_, out = run(scaled, (1,), *args)
    a = x.astype(np.float64) * np.repeat(xs, 32, 1)
    b = y.astype(np.float64) * np.repeat(ys, 32, 0)
    np.testing.assert_array_equal(out, a @ b)
