"""Every elementwise function against NumPy."""

import math

import numpy as np
import pytest

import tilewright.tile as ct

N = 16
RNG = np.random.default_rng(11)
FLOATS = RNG.uniform(0.1, 0.9, N).astype(np.float32)
OTHERS = RNG.uniform(0.1, 0.9, N).astype(np.float32)
INTS = RNG.integers(-50, 50, N).astype(np.int32)
DIVISORS = np.where(INTS % 7 == 0, 3, INTS % 7).astype(np.int32) * np.where(INTS % 2, 1, -1)
DIVISORS = DIVISORS.astype(np.int32)


@ct.kernel
def apply1(x, out, f: ct.Constant, n: ct.Constant[int]):
    t = ct.load(x, 0, n)
    ct.store(out, 0, ct.astype(ct.static_eval(FUNCTIONS[f])(t), out.dtype))


@ct.kernel
def apply2(x, y, out, f: ct.Constant, n: ct.Constant[int]):
    a = ct.load(x, 0, n)
    b = ct.load(y, 0, n)
    ct.store(out, 0, ct.astype(ct.static_eval(FUNCTIONS[f])(a, b), out.dtype))


FUNCTIONS = {
    name: getattr(ct, name)
    for name in (
        *("negative", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tan"),
        *("sinh", "cosh", "tanh", "floor", "ceil", "isnan", "bitwise_not", "add", "sub", "mul"),
        *("truediv", "floordiv", "mod", "pow", "atan2", "maximum", "minimum", "cdiv"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_lshift", "bitwise_rshift"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    )
}
UNARY = {
    "negative": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
}


@pytest.mark.parametrize("name", UNARY)
def test_float_functions(run, name):
    x = FLOATS * 3 - (1.5 if name in ("negative", "abs", "floor", "ceil", "sinh") else 0)
    out = np.zeros(N, np.float32)
    run(apply1, (1,), x.astype(np.float32), out, name, N)
    np.testing.assert_allclose(out, UNARY[name](x.astype(np.float64)), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["negative", "abs", "bitwise_not"])
def test_integer_functions(run, name):
    out = np.zeros(N, np.int32)
    run(apply1, (1,), INTS, out, name, N)
    wanted = {"negative": -INTS, "abs": np.abs(INTS), "bitwise_not": ~INTS}[name]
    np.testing.assert_array_equal(out, wanted)


def test_integers_become_floats_for_functions_of_floats(run):
    out = np.zeros(N, np.float32)
    run(apply1, (1,), np.abs(INTS) + 1, out, "log2", N)
    np.testing.assert_allclose(out, np.log2(np.abs(INTS) + 1.0), rtol=1e-6)


def test_isnan(run):
    x = FLOATS.copy()
    x[3] = np.nan
    out = np.zeros(N, np.bool_)
    run(apply1, (1,), x, out, "isnan", N)
    np.testing.assert_array_equal(out, np.isnan(x))


BINARY_FLOAT = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "pow": np.power,
    "atan2": np.arctan2,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
BINARY_INT = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "cdiv": lambda x, y: -(-x // y),
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
COMPARE = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


@pytest.mark.parametrize("name", BINARY_FLOAT)
def test_float_pairs(run, name):
    out = np.zeros(N, np.float32)
    run(apply2, (1,), FLOATS, OTHERS, out, name, N)
    np.testing.assert_allclose(out, BINARY_FLOAT[name](FLOATS, OTHERS), rtol=2e-6)


@pytest.mark.parametrize("name", BINARY_INT)
def test_integer_pairs(run, name):
    out = np.zeros(N, np.int32)
    run(apply2, (1,), INTS, DIVISORS, out, name, N)
    np.testing.assert_array_equal(out, BINARY_INT[name](INTS, DIVISORS))


@pytest.mark.parametrize("name", ["bitwise_lshift", "bitwise_rshift"])
def test_shifts(run, name):
    out, by = np.zeros(N, np.int32), np.arange(N, dtype=np.int32) % 5
    run(apply2, (1,), INTS, by, out, name, N)
    np.testing.assert_array_equal(out, INTS << by if "l" in name[8] else INTS >> by)


@pytest.mark.parametrize("name", COMPARE)
def test_comparisons(run, name):
    x, y = FLOATS.copy(), OTHERS.copy()
    x[:4] = y[:4]
    x[5] = np.nan
    out = np.zeros(N, np.bool_)
    run(apply2, (1,), x, y, out, name, N)
    np.testing.assert_array_equal(out, COMPARE[name](x, y))


@pytest.mark.parametrize("name", ["mod", "floordiv"])
def test_float_remainder_has_the_sign_of_the_divisor(run, name):
    x, y = (FLOATS - 0.5) * 9, (OTHERS - 0.4) * 3
    out = np.zeros(N, np.float32)
    run(apply2, (1,), x.astype(np.float32), y.astype(np.float32), out, name, N)
    wanted = np.mod if name == "mod" else np.floor_divide
    np.testing.assert_allclose(out, wanted(x, y), rtol=1e-4, atol=1e-5)


@ct.kernel
def operators(x, y, out, n: ct.Constant[int]):
    a = ct.load(x, 0, n)
    b = ct.load(y, 0, n)
    s = a + b - a * b + (a // b) % 5 - (-a) + (+b) + (a & b) + (a | b) - (a ^ b) + (~a)
    s = s + (a << 2) + (a >> 1)
    s = ct.where(a < b, s, s + 1000)
    s = ct.where((a == b) | (a != b) & (a >= b) & (a <= b) & (a > b), s, s - 1)
    s += 3
    s = 100 - s
    ct.store(out, 0, s)


def test_operators_have_python_meaning(run):
    out = np.zeros(N, np.int32)
    run(operators, (1,), INTS, DIVISORS, out, N)
    a, b = INTS, DIVISORS
    s = a + b - a * b + (a // b) % 5 + a + b + (a & b) + (a | b) - (a ^ b) + ~a
    s = s + (a << 2) + (a >> 1)
    s = np.where(a < b, s, s + 1000)
    s = np.where((a == b) | (a != b) & (a >= b) & (a <= b) & (a > b), s, s - 1)
    np.testing.assert_array_equal(out, 100 - (s + 3))


@ct.kernel
def rounded(x, y, out):
    a = ct.load(x, 0, 16)
    b = ct.load(y, 0, 16)
    ct.store(out, (0, 0), ct.add(a, b, rounding_mode=ct.RoundingMode.RM).reshape((1, 16)))
    ct.store(out, (1, 0), ct.add(a, b, rounding_mode="RP").reshape((1, 16)))
    ct.store(out, (2, 0), ct.mul(a, b, flush_to_zero=True).reshape((1, 16)))
    ct.store(out, (3, 0), ct.truediv(a, b, rounding_mode=ct.RoundingMode.FULL)[None, :])


def test_rounding_modes_and_flush_to_zero(run):
    x = FLOATS.copy()
    y = OTHERS * np.float32(1e-7)
    x[0], y[0] = 1e-30, 1e-12
    out = np.zeros((4, N), np.float32)
    run(rounded, (1,), x, y, out)
    exact = x.astype(np.float64) + y
    assert np.all(out[0] <= exact)
    assert np.all(out[1] >= exact)
    assert np.all(out[1] > out[0])
    assert out[2, 0] == 0
    np.testing.assert_allclose(out[3, 1:], (x / y)[1:], rtol=1e-5)


@ct.kernel
def nans(x, y, out):
    a = ct.load(x, 0, 16)
    b = ct.load(y, 0, 16)
    ct.store(out, (0, 0), ct.maximum(a, b)[None, :])
    ct.store(out, (1, 0), ct.maximum(a, b, propagate_nan=True)[None, :])


def test_nan_is_ignored_unless_it_propagates(run):
    x = FLOATS.copy()
    x[2] = np.nan
    out = np.zeros((2, N), np.float32)
    run(nans, (1,), x, OTHERS, out)
    np.testing.assert_array_equal(out[0], np.fmax(x, OTHERS))
    np.testing.assert_array_equal(out[1], np.maximum(x, OTHERS))


@ct.kernel
def constants(out):
    ct.store(out, 0, ct.astile((2**10 % 7, 7 // 2, -7 // 2, 3**2), dtype=ct.int32))
    ct.store(out, 1, ct.astile((min(3, 5), max(3, 5), abs(-4), 1 if 3 > 2 else 0), dtype=ct.int32))
    q, r = divmod(17, 5)
    ct.store(out, 2, ct.astile((q, r, len((1, 2, 3)), int(2.9)), dtype=ct.int32))
    ct.store(out, 3, ct.astile((ct.cdiv(9, 4), ct.int32(5) + 1, 1 << 4, 13 & 6), dtype=ct.int32))


def test_constants_are_computed_in_python(run):
    (out,) = run(constants, (1,), np.zeros(16, np.int32))
    np.testing.assert_array_equal(out, [2, 3, -4, 9, 3, 5, 4, 1, 3, 2, 3, 2, 3, 6, 16, 4])


@ct.kernel
def scalars(out, n, x):
    q, r = divmod(n, 7)
    s = n * 2 + q - r
    ct.store(out, 0, ct.astype(s, ct.float32))
    ct.store(out, 1, x / 2)
    ct.store(out, 2, ct.sqrt(x) + n)
    ct.store(out, 3, math.pi * x)


def test_scalars_are_tiles_without_dimensions(run):
    (out, *_) = run(scalars, (1,), np.zeros(4, np.float32), -15, 2.25)
    np.testing.assert_allclose(out, [-30 - 3 - 6, 1.125, 1.5 - 15, math.pi * 2.25], rtol=1e-6)
