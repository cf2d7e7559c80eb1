"""Matrix products: exact on small integers, rounded where the type rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_harness import one

from tilewright.tileir.interpret.mma_ops import Scratch

RNG = np.random.default_rng(7)


def mma(kind: str, acc: str, a: Any, b: Any, c: Any, words: str = "", op: str = "mmaf") -> Any:
    dims = ["x".join(map(str, np.shape(x))) for x in (a, b, c)]
    types = [f"{dims[0]}x{kind}", f"{dims[1]}x{kind}", f"{dims[2]}x{acc}"]
    line = f"%r0 = {op} %a0, %a1, %a2 {words} : " + ", ".join(f"tile<{t}>" for t in types)
    return one(line, list(zip(types, (a, b, c), strict=True)), types[2])


@pytest.mark.parametrize(
    ("kind", "acc"),
    [
        ("f16", "f32"),
        ("f16", "f16"),
        ("bf16", "f32"),
        ("f32", "f32"),
        ("tf32", "f32"),
        ("f64", "f64"),
        ("f8E4M3FN", "f32"),
        ("f8E5M2", "f16"),
    ],
)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_small_integers_are_exact(kind: str, acc: str, batch: tuple[int, ...]) -> None:
    a = RNG.integers(-4, 5, (*batch, 4, 8))
    b = RNG.integers(-4, 5, (*batch, 8, 2))
    c = RNG.integers(-4, 5, (*batch, 4, 2))
    assert (mma(kind, acc, a, b, c) == a @ b + c).all()


def test_tf32_drops_low_bits_and_fp8_may_hurry() -> None:
    a = np.float32([[1 + 2.0**-11]])
    assert mma("tf32", "f32", a, a, np.float32([[0]])).tolist() == [[1]]
    x = np.ones((2, 2))
    assert (mma("f8E4M3FN", "f32", x, x, x, "fast_acc") == 3).all()


def test_half_accumulators_round() -> None:
    a, b, c = np.full((1, 2), 1.0), np.full((2, 1), 0.5), np.full((1, 1), 2048.0)
    assert mma("f16", "f16", a, b, c).tolist() == [[2048]]
    assert mma("f16", "f32", a, b, c).tolist() == [[2049]]


@pytest.mark.parametrize("depth", [8, 512])
@pytest.mark.parametrize("signs", ["signed signed", "signed unsigned", "unsigned unsigned"])
def test_integers_by_their_signs(depth: int, signs: str) -> None:
    a = RNG.integers(-128, 128, (2, depth)).astype(np.int8)
    b = RNG.integers(-128, 128, (depth, 2)).astype(np.int8)
    a[0] = b[:, 0] = -1 if "unsigned" in signs else -128  # the largest sums
    c = np.array([[2**31 - 1, 0], [1, -5]], np.int32)
    x, y = (
        (v.view(np.uint8) if s == "unsigned" else v).astype(np.int64)
        for v, s in zip((a, b), signs.split(), strict=True)
    )
    want = (x @ y + c).astype(np.int32)  # wraps
    assert (mma("i8", "i32", a, b, c, signs, "mmai") == want).all()


@pytest.mark.parametrize(
    ("kind", "scale", "block"),
    [("f8E4M3FN", "f8E8M0FNU", 32), ("f8E5M2", "f8E8M0FNU", 32)],
)
def test_scaled_products(kind: str, scale: str, block: int) -> None:
    a, b = RNG.integers(-3, 4, (4, 2 * block)), RNG.integers(-3, 4, (2 * block, 4))
    sa, sb = 2.0 ** RNG.integers(-2, 3, (4, 2)), 2.0 ** RNG.integers(-2, 3, (2, 4))
    c = RNG.integers(-3, 4, (4, 4))
    k = 2 * block
    kinds = [f"4x{k}x{kind}", f"{k}x4x{kind}", "4x4xf32", f"4x2x{scale}", f"2x4x{scale}"]
    line = "%r0 = mmaf_scaled %a0, %a1, %a2, %a3, %a4 : " + ", ".join(f"tile<{t}>" for t in kinds)
    have = one(line, list(zip(kinds, (a, b, c, sa, sb), strict=True)), "4x4xf32")
    want = (a * sa.repeat(block, 1)) @ (b * sb.repeat(block, 0)) + c
    assert (have == want).all()


def test_scaled_products_of_f4() -> None:
    codes = np.array([0, 1, 2, 3, 4, 5, 6, 7])  # 0 .5 1 1.5 2 3 4 6
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    picks = RNG.integers(0, 8, (1, 32))
    packed = (codes[picks][0, 0::2] | codes[picks][0, 1::2] << 4).astype(np.int8)
    line = """
        %u = unpack %a0 : tile<16xi8> -> tile<32xf4E2M1FN>
        %x = reshape %u : tile<32xf4E2M1FN> -> tile<1x32xf4E2M1FN>
        %y = reshape %u : tile<32xf4E2M1FN> -> tile<32x1xf4E2M1FN>
        %s = reshape %a1 : tile<2xf8E4M3FN> -> tile<1x2xf8E4M3FN>
        %t = reshape %a1 : tile<2xf8E4M3FN> -> tile<2x1xf8E4M3FN>
        %zero = constant <f32: 0.25> : tile<1x1xf32>
        %r0 = mmaf_scaled %x, %y, %zero, %s, %t : tile<1x32xf4E2M1FN>, tile<32x1xf4E2M1FN>, tile<1x1xf32>, tile<1x2xf8E4M3FN>, tile<2x1xf8E4M3FN>
    """  # noqa: E501
    scale = np.array([1.5, 0.5])
    have = one(line, [("16xi8", packed), ("2xf8E4M3FN", scale)], "1x1xf32")
    scaled = values[picks][0] * scale.repeat(16)
    assert have.tolist() == [[float(scaled @ scaled + 0.25)]]


def test_scratch_arrays_are_reused_only_when_nobody_holds_them() -> None:
    scratch = Scratch((2, 2), np.float32)
    first = scratch.take()
    view = first[:1]
    del first
    second = scratch.take()
    assert not np.shares_memory(view, second)
    where = view.__array_interface__["data"]
    del view
    assert scratch.take().__array_interface__["data"] == where
