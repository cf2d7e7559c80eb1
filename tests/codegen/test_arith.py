"""Arithmetic as text: parentheses, literals, conversions; g++ evaluates what Python evaluates."""

from __future__ import annotations

import ctypes
import itertools
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels import Kernel, gmem, scalar

from tilewright.codegen.cuda.emit_math import _LOG2_ERFC
from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.errors import DTypeError
from tilewright.ir.core import OPS, Func, Value
from tilewright.ir.evaluate import evaluate, wrap
from tilewright.ir.ops import arith, memory
from tilewright.numeric.dtypes import BOOL, dtype
from tilewright.runtime.sass import opcode_counts
from tilewright.runtime.toolchain import compile_cubin

Array = np.ndarray[Any, np.dtype[Any]]

HOST = """
#define __global__
#define __device__
#define __forceinline__ inline
static int min(int a, int b) { return a < b ? a : b; }
static unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static long long min(long long a, long long b) { return a < b ? a : b; }
static int max(int a, int b) { return a > b ? a : b; }
static unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
static long long max(long long a, long long b) { return a > b ? a : b; }
"""
BINARY = (
    *(arith.Add, arith.Sub, arith.Mul, arith.FloorDiv, arith.Mod, arith.Min, arith.Max),
    *(arith.And, arith.Or, arith.Xor, arith.Shl, arith.Shr),
)
INPUTS = {"i32": (7, -13), "u32": (7, 0xFFFFFFF3), "i64": (7, -13), "u8": (7, 243), "i16": (7, -13)}


def body_of(func: Func) -> str:
    text = emit_cuda(func, line_info=False)
    return text[text.index("{\n") + 2 : text.rindex("}")]


def expression(build) -> str:  # type: ignore[no-untyped-def]
    """The text of one i32 expression of a and b."""
    k = Kernel("e", out=gmem("i32"), a=scalar("i32"), b=scalar("i32"), c=scalar("i32"))
    k.store(k.out, build(k))
    return body_of(k.done()).strip().removeprefix("out[0] = ").removesuffix(";")


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda k: k.mul(k.add(k.a, k.b), k.c), "(a + b) * c"),
        (lambda k: k.add(k.a, k.mul(k.b, k.c)), "a + b * c"),
        (lambda k: k.sub(k.a, k.sub(k.b, k.c)), "a - (b - c)"),
        (lambda k: k.sub(k.sub(k.a, k.b), k.c), "a - b - c"),
        (lambda k: k.add(k.a, k.add(k.b, k.c)), "a + b + c"),
        (lambda k: k.add(k.a, k.i32(-3)), "a - 3"),
        (lambda k: k.sub(k.a, k.v(arith.Neg, k.b)), "a - -b"),
        (lambda k: k.v(arith.Neg, k.v(arith.Neg, k.b)), "- -b"),
        (lambda k: k.div(k.a, k.i32(8)), "a >> 3"),
        (lambda k: k.mod(k.a, k.i32(8)), "a & 7"),
        (lambda k: k.add(k.div(k.a, k.i32(8)), k.b), "(a >> 3) + b"),
        (lambda k: k.div(k.a, k.i32(3)), "floor_div<int>(a, 3)"),
        (lambda k: k.div(k.special("thread_idx"), k.i32(3)), "(int)threadIdx.x / 3"),
        (lambda k: k.mod(k.special("lane"), k.i32(3)), "read_lane() % 3"),
        (lambda k: k.mul(k.a, k.mul(k.b, k.c)), "a * b * c"),
        (
            # a * lane % 3 * b would be (a * lane) % 3 * b.
            lambda k: k.mul(k.a, k.mul(k.mod(k.special("lane"), k.i32(3)), k.b)),
            "a * (read_lane() % 3 * b)",
        ),
        (
            lambda k: k.mul(k.a, k.mul(k.mul(k.div(k.special("lane"), k.i32(3)), k.b), k.c)),
            "a * (read_lane() / 3 * b * c)",
        ),
        (lambda k: k.v(arith.Shl, k.a, k.add(k.b, k.c)), "a << (b + c)"),
        (lambda k: k.v(arith.Or, k.v(arith.And, k.a, k.b), k.c), "(a & b) | c"),
        (lambda k: k.v(arith.Xor, k.v(arith.Xor, k.a, k.b), k.c), "a ^ b ^ c"),
        (lambda k: k.v(arith.Select, k.cmp(k.a, "lt", k.b), k.c, k.i32(0)), "a < b ? c : 0"),
        (
            lambda k: k.v(
                arith.Select,
                k.v(arith.And, k.cmp(k.a, "lt", k.b), k.cmp(k.b, "eq", k.c)),
                k.a,
                k.v(arith.Select, k.cmp(k.a, "ge", k.c), k.b, k.c),
            ),
            "a < b && b == c ? a : a >= c ? b : c",
        ),
        (lambda k: k.v(arith.Min, k.a, k.i32(5)), "min(a, 5)"),
        (lambda k: k.v(arith.Fma, k.a, k.b, k.c), "a * b + c"),
        (lambda k: k.i32(-(1 << 31)), "(-2147483647 - 1)"),
        (
            lambda k: k.cast(k.v(arith.Mul, k.cast(k.a, "i64"), k.const(5, "i64")), "i32"),
            "(i64)a * 5",
        ),
        (lambda k: k.cast(k.cmp(k.a, "lt", k.b), "i32"), "a < b"),
        (lambda k: k.v(arith.Shl, k.i32(1), k.a), "1 << a"),
    ],
)
def test_expressions_have_the_fewest_parentheses(build, text: str) -> None:  # type: ignore[no-untyped-def]
    assert expression(build) == text


def test_literals_keep_their_type_where_c_would_lose_it() -> None:
    k = Kernel("e", out=gmem("u64"), s=scalar("u64"), f=gmem("f32"))
    k.store(k.out, k.v(arith.Shl, k.const(1, "u64"), k.s))
    k.store(k.f, k.const(float("nan"), "f32"))
    k.store(k.at(k.f, 1), k.const(1e30, "f32"))
    text = body_of(k.done())
    assert "out[0] = 1ull << s;" in text
    assert "f[0] = __int_as_float(0x7fffffff);" in text
    assert "f[1] = 1e+30f;" in text


@pytest.mark.parametrize("value", [0.1, 1 / 3, 3.4028234663852886e38, 1e-45, -0.0, 16777217.0])
def test_float_literals_are_exact(value: float) -> None:
    k = Kernel("e", out=gmem("f32"))
    k.store(k.out, k.const(value, "f32"))
    text = body_of(k.done()).strip().removeprefix("out[0] = ").removesuffix("f;")
    assert ctypes.c_float(float(text)).value == ctypes.c_float(value).value
    assert text.startswith("-") == (str(value)[0] == "-")


def test_repeated_and_named_values_become_constants() -> None:
    k = Kernel("e", out=gmem("i32"), a=scalar("i32"))
    twice = k.mul(k.a, k.i32(3))
    k.store(k.out, k.add(twice, twice))
    named = k.add(k.mul(k.a, k.a), k.mul(k.a, k.add(k.a, k.i32(7777777))), name="area")
    k.store(k.at(k.out, 1), named)
    assert body_of(k.done()) == (
        "  const int v0 = a * 3;\n"
        "  out[0] = v0 + v0;\n"
        "  const int area = a * a + a * (a + 7777777);\n"
        "  out[1] = area;\n"
    )


# ---- random expression trees against Python


@st.composite
def trees(draw: st.DrawFn, depth: int = 4):  # type: ignore[no-untyped-def]
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(["a", "b"]) | st.integers(-9, 9))
    kind = draw(st.sampled_from([*BINARY, arith.Neg, arith.Select, arith.Cast]))
    arity = {arith.Neg: 1, arith.Select: 4, arith.Cast: 1}.get(kind, 2)
    return (kind, *(draw(trees(depth=depth - 1)) for _ in range(arity)))


def build(k: Kernel, tree, name: str, env: dict[str, Value]) -> Value:  # type: ignore[no-untyped-def]
    """The tree as IR; divisors, shift counts and products are kept inside what C++ defines."""
    t = dtype(name)
    if isinstance(tree, str):
        return env[tree]
    if isinstance(tree, int):
        return k.ir.constant(tree, t)
    kind, *rest = tree
    args = [build(k, r, name, env) for r in rest]
    if kind is arith.Cast:
        return k.cast(k.cast(args[0], "u8"), name)
    if kind is arith.Neg:
        return k.v(kind, args[0])
    if kind is arith.Select:
        return k.v(kind, k.cmp(args[0], "le", args[1]), args[2], args[3])
    if kind in (arith.FloorDiv, arith.Mod):
        args[1] = k.v(arith.Or, args[1], k.ir.constant(1, t))
    if kind in (arith.Shl, arith.Shr):
        args[1] = k.v(arith.And, args[1], k.ir.constant(7, t))
    return k.v(kind, *args)


def value_of(v: Value, env: dict[Value, int]) -> int:
    op = v.owner
    if v in env:
        return env[v]
    if isinstance(op, arith.Constant):
        return op.value  # type: ignore[return-value]
    result = evaluate(op, [value_of(a, env) for a in op.operands])  # type: ignore[arg-type, union-attr]
    assert result is not None, op
    return result  # type: ignore[return-value]


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(trees(), min_size=30, max_size=30))
def test_text_means_what_the_ir_means(tmp_path: Path, forest: list) -> None:  # type: ignore[type-arg]
    source, wanted = [HOST], []
    for n, (tree, name) in enumerate(zip(forest, itertools.cycle(INPUTS), strict=False)):
        k = Kernel(f"tree_{n}", out=gmem(name), a=scalar(name), b=scalar(name))
        root = build(k, tree, name, {"a": k.a, "b": k.b})
        k.store(k.out, root)
        # Every kernel brings its own prelude: repeated typedefs are fine, templates are not.
        text = emit_cuda(k.done(), line_info=False)
        source.append(f"namespace n{n} {{\n#undef DEV\n{text}}}\n")
        given_values = dict(zip((k.a, k.b), INPUTS[name], strict=True))
        wanted.append((name, value_of(root, given_values)))
    path, library = tmp_path / "trees.cpp", tmp_path / f"{abs(hash(tuple(source)))}.so"
    path.write_text("\n".join(source))
    command = ["g++", "-fwrapv", "-w", "-O0", "-shared", "-fPIC", str(path), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)
    compiled = ctypes.CDLL(str(library))
    types = {
        **{"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64},
        **{"u8": ctypes.c_uint8, "i16": ctypes.c_int16},
    }
    for n, (name, value) in enumerate(wanted):
        t = types[name]
        out = t(0)
        a, b = INPUTS[name]
        getattr(compiled, f"tree_{n}")(ctypes.byref(out), t(a), t(b))
        assert out.value == wrap(value, dtype(name)), source[n + 1]


# ---- every type and conversion compiles

FLOATS = ("f64", "f32", "tf32", "f16", "bf16")
INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")


def casts_kernel(types: tuple[str, ...], name: str) -> Func:
    k = Kernel(name, **{f"p_{t}": gmem(t) for t in (*types, "bool")})
    index = 0
    for source, to in itertools.product((*types, "bool"), repeat=2):
        if source == to:
            continue
        index += 1
        value = k.load(k.at(k.args[f"p_{source}"], index))
        k.store(k.at(k.args[f"p_{to}"], index + 1000), k.cast(value, to))
    return k.done()


def test_conversions_compile_for_sm80() -> None:
    text = emit_cuda(casts_kernel((*FLOATS, *INTEGERS), "casts"))
    assert compile_cubin(text, "casts", "sm_80").spill_stores == 0
    for phrase in ("bf16_from_f32(", "odd_from_i32(", "__float2int_rz(", "f16_from_f64("):
        assert phrase in text


def test_fp8_conversions_compile_for_sm90() -> None:
    compile_cubin(emit_cuda(casts_kernel(("e4m3", "e5m2", "f32", "i32"), "casts")), "fp8", "sm_90a")
    k = Kernel("scales", x=gmem("f32"), e=gmem("e8m0"))
    for n, (rounding, saturate) in enumerate(itertools.product(("rz", "rp"), (False, True))):
        value = k.load(k.at(k.x, n))
        down = k.v(arith.Cast, value, dtype="e8m0", rounding=rounding, saturate=saturate)
        k.store(k.at(k.e, n), down)
        k.store(k.at(k.x, n), k.cast(k.load(k.at(k.e, n)), "f32"))
    compile_cubin(emit_cuda(k.done()), "scales", "sm_80")


def test_arithmetic_of_every_type_compiles_for_sm80() -> None:
    k = Kernel("arithmetic", **{f"p_{t}": gmem(t) for t in (*FLOATS, *INTEGERS)})
    for t in (*FLOATS, *INTEGERS):
        p = k.args[f"p_{t}"]
        a, b = k.load(p, name="a"), k.load(k.at(p, 1), name="b")
        kinds = [arith.Add, arith.Sub, arith.Mul, arith.Min, arith.Max]
        kinds += [arith.Div] if t in FLOATS else [arith.FloorDiv, arith.Mod, arith.Xor, arith.Shl]
        for n, kind in enumerate(kinds):
            k.store(k.at(p, n + 2), k.v(kind, a, b))
        k.store(k.at(p, 20), k.v(arith.Neg, a))
        k.store(k.at(p, 21), k.v(arith.Fma, a, b, a))
        k.store(k.at(p, 22), k.v(arith.Select, k.cmp(a, "lt", b), a, b))
        k.store(k.at(p, 23), k.const(-3, t) if t[0] != "u" else k.const(3, t))
        if t in FLOATS:
            for n, function in enumerate(arith.Math.ATTRS["function"].choices):
                k.store(k.at(p, 30 + n), k.v(arith.Math, a, function=function))
                fast = k.v(arith.Math, a, function=function, fast=True)
                k.store(k.at(p, 60 + n), fast)
        else:
            k.store(k.at(p, 24), k.cast(k.v(arith.Popc, a), t))
    text = emit_cuda(k.done())
    compile_cubin(text, "arithmetic", "sm_80")
    assert "ex2.approx.ftz.f32" in text
    assert "expf(" in text


def fast_erf(x: Array) -> tuple[Array, Array]:
    """What the helper `fast_erf` computes in f32, and what `ex2.approx` may add to it."""
    t = np.abs(x)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        p = np.full_like(t, _LOG2_ERFC[-1])
        for c in reversed(_LOG2_ERFC[:-1]):
            # The product of two f32 is exact in f64, and so is all of it but the last bits.
            p = (p.astype(np.float64) * t + float(np.float32(c))).astype(np.float32)
        power = np.exp2((p * t).astype(np.float64)).astype(np.float32)
        return np.copysign(np.float32(1) - power, x), power * 2.0**-22.5


def test_the_fast_error_function_keeps_its_bound() -> None:
    """|error| <= 2^-22 for every float: dense where erf is not yet 1, and every power of two."""
    rng = np.random.default_rng(0)
    powers = 2.0 ** np.arange(-149, 128)
    x = np.concatenate([np.linspace(0, 6, 200_001), 3 * rng.standard_normal(100_000), powers])
    x = x.astype(np.float32)
    got, slack = fast_erf(x)
    exact = np.array([math.erf(v) for v in x.tolist()])
    assert (np.abs(got - exact) + slack).max() <= 2.0**-22
    assert (fast_erf(-x)[0] == -got).all()


def test_the_fast_error_function_of_special_numbers() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, 3e38, np.nan], np.float32)
    got = fast_erf(x)[0]
    assert got.tolist()[:5] == [0.0, 0.0, 1.0, -1.0, 1.0]
    assert np.signbit(got).tolist()[:2] == [False, True]
    assert np.isnan(got[5])


def test_the_fast_error_function_is_one_helper() -> None:
    k = Kernel("gelu", p=gmem("f32"))
    k.store(k.p, k.v(arith.Math, k.load(k.p), function="erf", fast=True))
    text = emit_cuda(k.done())
    cubin = compile_cubin(text, "gelu", "sm_90a")
    assert text.count("fmaf(") == len(_LOG2_ERFC) - 1
    counts = opcode_counts(cubin.cubin)
    assert counts["FFMA"] == len(_LOG2_ERFC) - 1
    assert counts["MUFU.EX2"] == 1
    assert sum(counts.values()) < 40


def test_bitcasts_compile() -> None:
    groups = (("f32", "tf32", "i32", "u32"), ("f64", "i64", "u64"), ("f16", "bf16", "i16", "u16"))
    k = Kernel("bits", **{f"p_{t}": gmem(t) for group in groups for t in group})
    for group in groups:
        for n, (source, to) in enumerate(itertools.permutations(group, 2)):
            value = k.v(arith.Bitcast, k.load(k.args[f"p_{source}"]), dtype=to)
            k.store(k.at(k.args[f"p_{to}"], n + 1), value)
    compile_cubin(emit_cuda(k.done()), "bits", "sm_80")


def test_narrow_integers_wrap() -> None:
    k = Kernel("e", out=gmem("u8"), a=scalar("u8"))
    k.store(k.out, k.div(k.add(k.a, k.a), k.const(2, "u8")))
    assert "out[0] = (u8)(a + a) / 2;" in body_of(k.done())


def test_bool_arithmetic_is_logical() -> None:
    k = Kernel("e", out=gmem("bool"), a=scalar("i32"), b=scalar("i32"))
    p, q = k.cmp(k.a, "lt", k.b), k.cmp(k.a, "ne", k.i32(0))
    k.store(k.out, k.v(arith.Or, k.v(arith.And, p, q), k.v(arith.Xor, q, k.bool(True))))
    assert "out[0] = (a < b && v0) || v0 != true;" in body_of(k.done())


def test_packed_types_are_refused_with_the_remedy() -> None:
    k = Kernel("e", out=gmem("u8"))
    k.do(memory.AllocRegisters, dtype="i4", count=8)
    with pytest.raises(DTypeError, match="i4 packs two elements to a byte") as caught:
        emit_cuda(k.done())
    assert caught.value.hint == "hold the packed bytes as u8 and convert explicitly"


def test_a_conversion_without_an_instruction_is_refused() -> None:
    k = Kernel("e", out=gmem("bf16"), a=scalar("f32"))
    k.store(k.out, k.v(arith.Cast, k.a, dtype="bf16", rounding="rp"))
    with pytest.raises(DTypeError, match="no conversion from f32 to bf16 with rounding 'rp'"):
        emit_cuda(k.done())
    k = Kernel("e", out=gmem("i32"), a=scalar("f32"))
    k.store(k.out, k.v(arith.Cast, k.a, dtype="i32", rounding="rp"))
    with pytest.raises(DTypeError, match="f32 to i32 truncates, there is no rounding 'rp'"):
        emit_cuda(k.done())
    k = Kernel("e", out=gmem("e4m3"), a=scalar("e4m3"))
    k.store(k.out, k.v(arith.Fma, k.a, k.a, k.a))
    with pytest.raises(DTypeError, match="e4m3 has no fused multiply-add"):
        emit_cuda(k.done())


def test_bool_is_not_an_integer_type() -> None:
    assert not BOOL.is_integer
    assert "arith.add" in OPS
