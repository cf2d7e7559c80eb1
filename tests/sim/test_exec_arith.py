"""Arithmetic against NumPy: per-thread arrays and uniform numbers must give the same bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright.ir.ops import arith, memory
from tilewright.numeric.convert import convert, storage_dtype
from tilewright.numeric.dtypes import (
    BF16,
    BOOL,
    E4M3,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    U32,
    dtype,
)  # fmt: skip

N = 64


def numbers(name, n=N, seed=0):
    rng = np.random.default_rng(seed)
    t = dtype(name)
    if t.is_float:
        return (
            convert((rng.standard_normal(n) * 8).astype(np.float32), F32, t)
            if t is not F64
            else rng.standard_normal(n)
        )
    return rng.integers(t.min, t.max, n, dtype=storage_dtype(t), endpoint=True)


def run_binary(kit, kind, t, a, b, uniform=False, out=None, **attrs):
    """The operation on arrays; if `uniform`, element by element on uniform numbers."""
    out_t = out or t
    k = kit(kit.gmem(t, 1), kit.gmem(t, 1), kit.gmem(out_t, 1))
    pa, pb, po = (
        k.v(memory.CastPointer, p, dtype=d.name, align=16)
        for p, d in zip(k.args, (t, t, out_t), strict=True)
    )
    i = k.bid() if uniform else k.tid()
    k.store(po, i, k.v(kind, k.load(pa, i), k.load(pb, i), **attrs))
    got = np.zeros(len(a), storage_dtype(out_t))
    grid, block = (len(a), 1) if uniform else (1, len(a))
    k.run(a, b, got, grid=grid, block=block)
    return got


INT_OPS = {
    arith.Add: np.add, arith.Sub: np.subtract, arith.Mul: np.multiply, arith.Min: np.minimum,
    arith.Max: np.maximum, arith.And: np.bitwise_and, arith.Or: np.bitwise_or,
    arith.Xor: np.bitwise_xor, arith.FloorDiv: np.floor_divide, arith.Mod: np.remainder,
}  # fmt: skip


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("name", ["i8", "u8", "i32", "u32", "i64", "u64"])
def test_integers_wrap_like_numpy(kit, name, uniform):
    t = dtype(name)
    a, b = numbers(name, seed=1), numbers(name, seed=2)
    b[b == 0] = 3
    for kind, f in INT_OPS.items():
        with np.errstate(all="ignore"):
            want = f(a, b)
        np.testing.assert_array_equal(run_binary(kit, kind, t, a, b, uniform), want, kind.name)


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64", "e4m3"])
def test_floats_round_to_their_type(kit, name, uniform):
    t = dtype(name)
    a, b = numbers(name, seed=1), numbers(name, seed=2)
    wide = np.float64 if t is F64 else np.float32
    ops = {
        arith.Add: np.add, arith.Sub: np.subtract, arith.Mul: np.multiply, arith.Div: np.divide,
        arith.Min: np.fmin, arith.Max: np.fmax,
    }  # fmt: skip
    for kind, f in ops.items():
        with np.errstate(all="ignore"):
            value = f(a.astype(wide), b.astype(wide))
        want = value if t is F64 else convert(value.astype(np.float32), F32, t)
        got = run_binary(kit, kind, t, a, b, uniform)
        np.testing.assert_array_equal(got.astype(float), want.astype(float), kind.name)


@pytest.mark.parametrize("uniform", [False, True])
def test_float_corner_cases(kit, uniform):
    a = np.float32([1, -1, 0, math.nan, math.inf, 3e38])
    b = np.float32([0, 0, 0, 2, math.inf, 3e38])
    got = run_binary(kit, arith.Div, F32, a, b, uniform)
    np.testing.assert_array_equal(
        got, np.float32([math.inf, -math.inf, math.nan, math.nan, math.nan, 1])
    )
    np.testing.assert_array_equal(
        run_binary(kit, arith.Min, F32, a, b, uniform), np.float32([0, -1, 0, 2, math.inf, 3e38])
    )
    assert run_binary(kit, arith.Add, F32, a, b, uniform)[-1] == math.inf


@pytest.mark.parametrize("uniform", [False, True])
def test_shifts(kit, uniform):
    a = np.int32([-8, 8, 1, -1, 5])
    b = np.int32([1, 2, 31, 40, 0])
    got = run_binary(kit, arith.Shr, I32, a, b, uniform)
    np.testing.assert_array_equal(got, [-4, 2, 0, -1, 5])
    got = run_binary(kit, arith.Shl, I32, a, b, uniform)
    np.testing.assert_array_equal(got, [-16, 32, -(2**31), 0, 5])


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("predicate", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_are_ordered(kit, predicate, uniform):
    a = np.float32([1, 2, math.nan, 2])
    b = np.float32([2, 1, 1, 2])
    f = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
         "gt": np.greater, "ge": np.greater_equal}[predicate]  # fmt: skip
    got = run_binary(kit, arith.Cmp, F32, a, b, uniform, out=BOOL, predicate=predicate)
    np.testing.assert_array_equal(got, f(a, b))


def test_fma_rounds_once(kit):
    k = kit(kit.gmem(F32), kit.gmem(F32), kit.gmem(F32), kit.gmem(F32))
    x, y, z, o = k.args
    t = k.tid()
    k.store(o, t, k.v(arith.Fma, *(k.load(p, t) for p in (x, y, z))))
    a, b, c = (np.random.default_rng(i).standard_normal(N).astype(np.float32) for i in range(3))
    got = np.zeros(N, np.float32)
    k.run(a, b, c, got, block=N)
    want = (a.astype(np.float64) * b + c).astype(np.float32)
    np.testing.assert_array_equal(got, want)


FUNCTIONS = [
    *("exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "rcp", "sin", "cos"),
    *("tanh", "erf", "floor", "ceil", "abs"),
]


def unary(kit, src, dst, a, build, uniform=False):
    k = kit(kit.gmem(src, 1), kit.gmem(dst, 1))
    pa, po = (
        k.v(memory.CastPointer, p, dtype=d.name, align=16)
        for p, d in zip(k.args, (src, dst), strict=True)
    )
    i = k.bid() if uniform else k.tid()
    k.store(po, i, build(k, k.load(pa, i)))
    got = np.zeros(len(a), storage_dtype(dst))
    k.run(a, got, grid=len(a) if uniform else 1, block=1 if uniform else len(a))
    return got


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize(
    ("src", "dst"),
    [(F32, BF16), (F32, F16), (F32, E4M3), (BF16, F32), (F32, I32), (F32, U8), (I32, F32),
     (I64, I8), (I32, BOOL), (BOOL, I32), (U32, F16), (F64, F32), (E4M3, F16), (F32, BOOL)],
)  # fmt: skip
def test_casts_are_those_of_numeric(kit, src, dst, uniform):
    a = numbers(src.name) if src is not BOOL else np.arange(N) % 3 == 0
    got = unary(kit, src, dst, a, lambda k, x: k.cast(x, dst), uniform)
    np.testing.assert_array_equal(got.astype(float), convert(a, src, dst).astype(float))


def test_cast_rounding_and_saturation(kit):
    a = np.float32([1.00390625, 1e6, -1e6, 464])
    got = unary(kit, F32, E4M3, a, lambda k, x: k.cast(x, E4M3, saturate=True))
    np.testing.assert_array_equal(got.astype(float), [1.0, 448, -448, 448])
    got = unary(
        kit,
        F32,
        BF16,
        np.float32([1.00390625, -1.00390625]),
        lambda k, x: k.cast(x, BF16, rounding="rp"),
    )
    np.testing.assert_array_equal(got.astype(float), [1.0078125, -1.0])


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_elementary_functions(kit, function, uniform):
    a = np.abs(numbers("f32")) + np.float32(0.1)
    got = unary(kit, F32, F32, a, lambda k, x: k.v(arith.Math, x, function=function), uniform)
    exact = {"rsqrt": lambda x: x**-0.5, "rcp": lambda x: 1 / x, "erf": np.vectorize(math.erf)}
    want = exact.get(function, getattr(np, function, None))(a.astype(np.float64))
    np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("uniform", [False, True])
def test_neg_bitcast_popc_select(kit, uniform):
    a = numbers("f32")
    np.testing.assert_array_equal(
        unary(kit, F32, F32, a, lambda k, x: k.v(arith.Neg, x), uniform), -a
    )
    bits = unary(kit, F32, U32, a, lambda k, x: k.v(arith.Bitcast, x, dtype="u32"), uniform)
    np.testing.assert_array_equal(bits, a.view(np.uint32))
    got = unary(kit, I32, U32, numbers("i32"), lambda k, x: k.v(arith.Popc, x), uniform)
    np.testing.assert_array_equal(got, np.bitwise_count(numbers("i32").view(np.uint32)))
    got = unary(
        kit, F32, F32, a,
        lambda k, x: k.v(arith.Select, k.cmp("lt", x, k.c(0, F32)), k.c(7, F32), x), uniform,
    )  # fmt: skip
    np.testing.assert_array_equal(got, np.where(a < 0, np.float32(7), a))


def test_vectors(kit):
    k = kit(kit.gmem(F32), kit.gmem(F32))
    x, o = k.args
    t = k.mul(k.tid(), 4)
    v = k.load(x, t, count=4, divisor=4)
    swapped = k.v(arith.Shuffle, v, indices=(3, 2, 1, 0))
    total = k.v(arith.Reduce, v, kind="add")
    spread = k.v(arith.Splat, total, count=4)
    both = k.v(arith.Add, swapped, spread)
    first = k.v(arith.Extract, both, index=0)
    packed = k.v(arith.Pack, first, total, k.c(2.5, F32), first)
    k.do(memory.Store, k.at(o, t, 4), packed)
    a = np.random.default_rng(0).standard_normal((N, 4)).astype(np.float32)
    got = np.zeros((N, 4), np.float32)
    k.run(a, got, block=N)
    total = ((a[:, 0] + a[:, 1]) + a[:, 2]) + a[:, 3]
    first = a[:, 3] + total
    np.testing.assert_array_equal(
        got, np.stack([first, total, np.full(N, 2.5, np.float32), first], 1)
    )


def test_uniform_vectors(kit):
    k = kit(kit.gmem(BF16), kit.gmem(F32))
    x, o = k.args
    v = k.cast(k.load(x, 0, count=4, divisor=4), F32)
    k.store(o, k.tid(), k.add(k.v(arith.Reduce, v, kind="max"), k.v(arith.Extract, v, index=1)))
    a = convert(np.float32([1, 5, 3, 2]), F32, BF16)
    got = np.zeros(N, np.float32)
    k.run(a, got, block=N)
    np.testing.assert_array_equal(got, np.full(N, 10, np.float32))


def test_four_bit_integers(kit):
    t = dtype("i4")
    k = kit(kit.gmem(t), kit.gmem(I32))
    x, o = k.args
    v = k.load(x, k.mul(k.tid(), 2), count=2, divisor=2)
    w = k.v(arith.Add, v, v)  # wraps to four bits
    k.store(o, k.tid(), k.cast(k.v(arith.Extract, w, index=1), I32))
    data = np.uint8([0x30, 0x5F, 0x81, 0xF2])
    got = np.zeros(4, np.int32)
    k.run(data, got, block=4)
    np.testing.assert_array_equal(got, [6, -6, 0, -2])
