"""Conversions, bit for bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tile_harness import bits, found, one, run

from tilewright.errors import VerifyError

NAN, INF = math.nan, math.inf


def cast(op: str, source: str, values: Any, target: str, words: str = "") -> Any:
    n = len(values)
    line = f"%r0 = {op} %a0 {words} : tile<{n}x{source}> -> tile<{n}x{target}>"
    return one(line, [(f"{n}x{source}", values)], f"{n}x{target}")


def test_ftof_rounds_to_nearest_even() -> None:
    assert cast("ftof", "f32", [1 + 2.0**-11, 1 + 3 * 2.0**-11], "f16").tolist() == [1, 1 + 2**-9]
    assert cast("ftof", "f32", [70000.0, -1e-9], "f16").tolist() == [INF, 0]
    assert bits(cast("ftof", "f64", [1 + 2.0**-8 + 2.0**-40, NAN], "bf16"))[0] == 0x3F81
    assert bits(cast("ftof", "f32", [464.0, 1.0625], "f8E4M3FN")) == [0x7E, 0x38]
    assert bits(cast("ftof", "f32", [-1.0, 0.3], "f8E5M2")) == [0xBC, 0x35]
    assert bits(cast("ftof", "f32", [1 + 2.0**-11, 1 + 3 * 2.0**-11], "tf32")) == [
        0x3F800000,
        0x3F804000,
    ]
    assert cast("ftof", "f8E4M3FN", [448.0, -0.5], "f32").tolist() == [448, -0.5]


@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "tf32", "f64", "f8E5M2"])
def test_conversions_to_small_floats_saturate(source: str) -> None:
    values = [INF, -INF, 30000.0, NAN]
    have = cast("ftof", source, values, "f8E4M3FN").astype(float)
    assert have[:3].tolist() == [448, -448, 448]
    assert np.isnan(have[3])
    if source != "f8E5M2":
        have = cast("ftof", source, [INF, -60000, 57344.0, 1.0], "f8E5M2").astype(float)
        assert have.tolist() == [57344, -57344, 57344, 1]


def test_integers_to_small_floats_saturate() -> None:
    have = cast("itof", "i32", [1000, -1000, 17, 448], "f8E4M3FN", "signed").astype(float)
    assert have.tolist() == [448, -448, 16, 448]


def test_ftof_to_e8m0_rounds_up_or_down() -> None:
    for mode, want in (("zero", [127, 128]), ("positive_inf", [128, 129])):
        have = cast("ftof", "f32", [1.5, 3.0], "f8E8M0FNU", f"rounding<{mode}>")
        assert bits(have) == want


def test_tf32_ignores_its_low_bits() -> None:
    noisy = np.uint32([0x3F801FFF, 0x3F802000]).view(np.float32)
    line = "%r0 = ftof %a0 : tile<2xtf32> -> tile<2xf32>"
    assert one(line, [("2xtf32", noisy)], "2xf32").tolist() == [1, 1 + 2**-10]
    line = "%r0 = ftoi %a0 signed saturating : tile<2xtf32> -> tile<2xi32>"
    below_two = np.uint32([0x3FFFFFFF, 0x40000000]).view(np.float32)
    assert one(line, [("2xtf32", below_two)], "2xi32").tolist() == [1, 2]


def test_tf32_has_19_bits() -> None:
    line = "%r0 = bitcast %a0 : tile<2xf32> -> tile<2xtf32>"
    with pytest.raises(VerifyError, match=r"of width 32 to type '.*' of width 19"):
        one(line, [("2xf32", 0)], "2xtf32")
    line = "%p = pack %a0 : tile<2xtf32> -> tile<8xi8>\n%r0 = unpack %p : tile<8xi8> -> tile<2xf32>"
    with pytest.raises(VerifyError, match="source tile size 4 bytes and result tile size 8 bytes"):
        one(line, [("2xtf32", 0)], "2xf32")


def test_f4_by_way_of_bytes() -> None:
    # Codes of e2m1 in order: 0 .5 1 1.5 2 3 4 6, then the negative ones.
    line = """
        %f = ftof %a0 : tile<4xf32> -> tile<4xf4E2M1FN>
        %p = pack %f : tile<4xf4E2M1FN> -> tile<2xi8>
        %r0 = exti %p unsigned : tile<2xi8> -> tile<2xi32>
        %u = unpack %p : tile<2xi8> -> tile<4xf4E2M1FN>
        %r1 = ftof %u : tile<4xf4E2M1FN> -> tile<4xf32>
    """
    (packed, back), _ = run(line, [("4xf32", [0.7, 100, -2.5, 1.25])], ["2xi32", "4xf32"])
    assert packed.tolist() == [0x71, 0x2C]
    assert back.tolist() == [0.5, 6, -2, 1]


def test_integers_to_floats() -> None:
    assert cast("itof", "i32", [-1, 16777217], "f32", "signed").tolist() == [-1, 16777216]
    assert cast("itof", "i32", [-1, 7], "f32", "unsigned").tolist() == [2.0**32, 7]
    assert cast("itof", "i64", [-1, 7], "f64", "unsigned").tolist() == [2.0**64, 7]
    assert cast("itof", "i1", [True, False], "f32", "signed").tolist() == [-1, 0]
    assert cast("itof", "i1", [True, False], "f32", "unsigned").tolist() == [1, 0]
    assert cast("itof", "i32", [257, 70000], "bf16", "signed").astype(float).tolist() == [
        256,
        70144,
    ]
    assert cast("itof", "i32", [2049, 70000], "f16", "signed").tolist() == [2048, INF]


def test_floats_to_integers_truncate() -> None:
    assert cast("ftoi", "f32", [2.9, -2.9], "i32", "signed").tolist() == [2, -2]
    assert cast("ftoi", "f32", [4294967040.0, 0.5], "i32", "unsigned").tolist() == [-256, 0]
    assert cast("ftoi", "f64", [-(2.0**63), 2.0**62], "i64", "signed").tolist() == [
        -(2**63),
        2**62,
    ]
    assert cast("ftoi", "bf16", [200.0, 1.0], "i8", "unsigned").tolist() == [-56, 1]


@pytest.mark.parametrize("value", [128.0, -129.0, INF, NAN])
def test_floats_without_an_integer_are_found(value: float) -> None:
    line = "%r0 = ftoi %a0 signed : tile<2xf32> -> tile<2xi8>"
    out, kind, message = found(line, [("2xf32", [1, value])], "2xi8")
    assert kind == "conversion"
    assert message == (
        f"ftoi: {value} at element (1,) is no signed i8, and the operation does not saturate"
    )
    assert out[0] == 1


def test_saturation() -> None:
    have = cast("ftoi", "f32", [1e9, -1e9, NAN, -5.5], "i8", "signed saturating")
    assert have.tolist() == [127, -128, 0, -5]
    have = cast("ftoi", "f32", [1e9, -1e9, NAN, 255.5], "i8", "unsigned saturating")
    assert have.view(np.uint8).tolist() == [255, 0, 0, 255]
    have = cast("ftoi", "f64", [1e30, -1e30], "i64", "signed saturating")
    assert have.tolist() == [2**63 - 1, -(2**63)]
    have = cast("ftoi", "f64", [1e30, -1e30], "i64", "unsigned saturating")
    assert have.view(np.uint64).tolist() == [2**64 - 1, 0]


def test_widths() -> None:
    assert cast("exti", "i8", [-1, 5], "i32", "signed").tolist() == [-1, 5]
    assert cast("exti", "i8", [-1, 5], "i32", "unsigned").tolist() == [255, 5]
    assert cast("exti", "i1", [True, False], "i8", "signed").tolist() == [-1, 0]
    assert cast("exti", "i1", [True, False], "i8", "unsigned").tolist() == [1, 0]
    assert cast("trunci", "i32", [257, -1], "i8").tolist() == [1, -1]
    assert cast("trunci", "i32", [3, 2], "i1").tolist() == [True, False]


def test_broken_promises_of_truncation() -> None:
    line = "%r0 = trunci %a0 overflow<{}> : tile<2xi32> -> tile<2xi8>"
    for promise, value, how in (
        ("no_signed_wrap", 200, "signed"),
        ("no_unsigned_wrap", -1, "unsigned"),
    ):
        _, kind, message = found(line.format(promise), [("2xi32", [1, value])], "2xi8")
        assert kind == "overflow"
        assert message.startswith(f"trunci to i8 loses {how} bits, though it promises {promise}")
        fine = 200 if promise == "no_unsigned_wrap" else -1
        one(line.format(promise), [("2xi32", [1, fine])], "2xi8")


def test_bitcasts_keep_the_bits() -> None:
    assert bits(cast("bitcast", "f32", [1.0, -0.0], "i32")) == [0x3F800000, 1 << 31]
    assert cast("bitcast", "i16", [0x3C00, 0x7C00], "f16").tolist() == [1, INF]
    assert cast("bitcast", "i8", [0x38, 0x7E], "f8E4M3FN").astype(float).tolist() == [1, 448]


def test_pointers_are_addresses() -> None:
    line = """
        %n = ptr_to_int %pa0 : tile<ptr<f32>> -> tile<i64>
        %four = constant <i64: 4> : tile<i64>
        %m = addi %n, %four : tile<i64>
        %p = int_to_ptr %m : tile<i64> -> tile<ptr<i32>>
        %q = ptr_to_ptr %p : tile<ptr<i32>> -> tile<ptr<f32>>
        %r0, %t = load_ptr_tko weak %q : tile<ptr<f32>> -> tile<f32>, token
    """
    assert one(line, [("2xf32", [1, 2])], "f32") == 2


def test_rubins_scales_are_patterns_to_numpy() -> None:
    line = "%r0 = ftof %a0 : tile<4xf32> -> tile<4xfnv8E5M3FNU>"
    with_patterns = line + "\n%r1 = ftof %r0 : tile<4xfnv8E5M3FNU> -> tile<4xf32>"
    (codes, back), _ = run(
        with_patterns, [("4xf32", [1.0, 1.0625, 0.5, 3.5])], ["4xfnv8E5M3FNU", "4xf32"]
    )
    assert codes.dtype == np.uint8
    assert codes.tolist() == [15 << 3, 15 << 3, 14 << 3, 16 << 3 | 6]  # e5m3, no sign
    assert back.tolist() == [1, 1, 0.5, 3.5]
