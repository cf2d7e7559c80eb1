"""Integer operations against results worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_harness import found, one

I8_MIN, I8_MAX = -128, 127


def binary(op: str, kind: str, a: Any, b: Any, words: str = "") -> list[int]:
    shape = f"4x{kind}"
    line = f"%r0 = {op} %a0, %a1 {words} : tile<{shape}>"
    return one(line, [(shape, a), (shape, b)], shape).tolist()


def test_add_sub_mul_wrap() -> None:
    assert binary("addi", "i8", [127, -128, 1, 0], [1, -1, 2, 0]) == [-128, 127, 3, 0]
    assert binary("subi", "i8", [-128, 127, 1, 0], [1, -1, 2, 0]) == [127, -128, -1, 0]
    assert binary("muli", "i32", [65536, -1, 3, 0], [65536, -1, -7, 5]) == [0, 1, -21, 0]
    assert binary("addi", "i64", [2**63 - 1, 0, 0, 0], [1, 0, 0, 0]) == [-(2**63), 0, 0, 0]


def test_i1_counts_modulo_two() -> None:
    a, b = [True, True, False, False], [True, False, True, False]
    assert binary("addi", "i1", a, b) == [False, True, True, False]
    assert binary("subi", "i1", a, b) == [False, True, True, False]
    assert binary("muli", "i1", a, b) == [True, False, False, False]
    assert binary("maxi", "i1", a, b, "signed") == [True, False, False, False]  # true is -1
    assert binary("maxi", "i1", a, b, "unsigned") == [True, True, True, False]
    assert binary("mini", "i1", a, b, "signed") == [True, True, True, False]
    assert binary("shli", "i1", a, b) == [False, True, False, False]
    assert binary("shri", "i1", a, b, "unsigned") == [False, True, False, False]
    assert binary("shri", "i1", a, b, "signed") == a
    assert binary("mulhii", "i1", a, b) == [False] * 4
    assert one("%r0 = absi %a0 : tile<4xi1>", [("4xi1", a)], "4xi1").tolist() == a
    assert one("%r0 = negi %a0 : tile<4xi1>", [("4xi1", a)], "4xi1").tolist() == a


def test_high_half_of_the_product_is_unsigned() -> None:
    assert binary("mulhii", "i8", [-1, 16, 2, 0], [-1, 16, 3, 9]) == [-2, 1, 0, 0]
    assert binary("mulhii", "i32", [-1, 1 << 16, 0, 1], [-1, 1 << 16, 0, 1]) == [-2, 1, 0, 0]
    a, b = 0xFFFF_FFFF_FFFF_FFFF, 0x1234_5678_9ABC_DEF1
    want = [(x * y) >> 64 for x, y in ((a, a), (a, b), (b, b), (3, b))]
    have = binary(
        "mulhii",
        "i64",
        np.uint64([a, a, b, 3]).view(np.int64),
        np.uint64([a, b, b, b]).view(np.int64),
    )
    assert [h % 2**64 for h in have] == want


def test_division_rounds_as_asked() -> None:
    a, b = [7, -7, 7, -7], [2, 2, -2, -2]
    assert binary("divi", "i32", a, b, "signed") == [3, -3, -3, 3]
    assert binary("divi", "i32", a, b, "signed rounding<negative_inf>") == [3, -4, -4, 3]
    assert binary("divi", "i32", a, b, "signed rounding<positive_inf>") == [4, -3, -3, 4]
    assert binary("divi", "i8", [-1, 7, 6, -2], [2, 2, 3, -1], "unsigned") == [127, 3, 2, 0]
    up = binary("divi", "i8", [-1, 7, 6, 0], [2, 2, 3, 5], "unsigned rounding<positive_inf>")
    assert up == [-128, 4, 2, 0]
    assert binary("remi", "i32", [7, -7, 7, -7], [3, 3, -3, -3], "signed") == [1, -1, 1, -1]
    assert binary("remi", "i8", [-1, 5, 4, 0], [16, 3, 2, 7], "unsigned") == [15, 2, 0, 0]


@pytest.mark.parametrize("op", ["divi", "remi"])
def test_undefined_division_is_found(op: str) -> None:
    line = f"%r0 = {op} %a0, %a1 signed : tile<2xi8>"
    _, kind, message = found(line, [("2xi8", [5, 6]), ("2xi8", [1, 0])], "2xi8")
    assert kind == "division"
    assert message == f"{op} by zero: operands 6, 0 at element (1,)"
    _, kind, message = found(line, [("2xi8", [5, -128]), ("2xi8", [1, -1])], "2xi8")
    assert kind == "division"
    assert message == f"{op} of the lowest i8 by -1: its quotient is no i8"


def test_extrema_read_signs_as_asked() -> None:
    a, b = [-1, 1, -128, 5], [1, -1, 127, 5]
    assert binary("maxi", "i8", a, b, "signed") == [1, 1, 127, 5]
    assert binary("maxi", "i8", a, b, "unsigned") == [-1, -1, -128, 5]
    assert binary("mini", "i8", a, b, "signed") == [-1, -1, -128, 5]
    assert binary("mini", "i8", a, b, "unsigned") == [1, 1, 127, 5]


def test_shifts_read_the_amount_as_unsigned() -> None:
    assert binary("shli", "i8", [1, 1, -1, 3], [7, 8, 4, -1]) == [-128, 0, -16, 0]
    assert binary("shri", "i8", [-128, -128, 64, -1], [7, 8, 3, -1], "signed") == [-1, -1, 8, -1]
    assert binary("shri", "i8", [-128, -128, 64, -1], [7, 8, 3, 1], "unsigned") == [1, 0, 8, 127]


def test_bits() -> None:
    a, b = [12, -1, 0, 5], [10, 7, 3, 5]
    assert binary("andi", "i16", a, b) == [8, 7, 0, 5]
    assert binary("ori", "i16", a, b) == [14, -1, 3, 5]
    assert binary("xori", "i16", a, b) == [6, -8, 3, 0]


def test_signs() -> None:
    a = [("4xi8", [-128, -1, 0, 7])]
    assert one("%r0 = absi %a0 : tile<4xi8>", a, "4xi8").tolist() == [-128, 1, 0, 7]
    assert one("%r0 = negi %a0 : tile<4xi8>", a, "4xi8").tolist() == [-128, 1, 0, -7]


@pytest.mark.parametrize(
    ("predicate", "signed", "unsigned"),
    [
        ("equal", [0, 0, 1, 0], [0, 0, 1, 0]),
        ("not_equal", [1, 1, 0, 1], [1, 1, 0, 1]),
        ("less_than", [1, 0, 0, 1], [0, 1, 0, 1]),
        ("less_than_or_equal", [1, 0, 1, 1], [0, 1, 1, 1]),
        ("greater_than", [0, 1, 0, 0], [1, 0, 0, 0]),
        ("greater_than_or_equal", [0, 1, 1, 0], [1, 0, 1, 0]),
    ],
)
def test_comparisons(predicate: str, signed: list[int], unsigned: list[int]) -> None:
    args = [("4xi8", [-1, 1, 3, 2]), ("4xi8", [1, -1, 3, 100])]
    for how, want in (("signed", signed), ("unsigned", unsigned)):
        line = f"%r0 = cmpi {predicate} %a0, %a1, {how} : tile<4xi8> -> tile<4xi1>"
        assert one(line, args, "4xi1").tolist() == [bool(w) for w in want]
    line = "%r0 = cmpi less_than %a0, %a1, signed : tile<2xi1> -> tile<2xi1>"
    args = [("2xi1", [True, False]), ("2xi1", [False, True])]
    assert one(line, args, "2xi1").tolist() == [True, False]


@pytest.mark.parametrize(
    ("op", "promise", "a", "b", "wraps"),
    [
        ("addi", "no_signed_wrap", 127, 1, True),
        ("addi", "no_signed_wrap", -1, 1, False),
        ("addi", "no_unsigned_wrap", -1, 1, True),
        ("addi", "no_unsigned_wrap", 127, 1, False),
        ("subi", "no_signed_wrap", -128, 1, True),
        ("subi", "no_signed_wrap", 0, 1, False),
        ("subi", "no_unsigned_wrap", 0, 1, True),
        ("subi", "no_unsigned_wrap", -1, 1, False),
        ("muli", "no_signed_wrap", -128, -1, True),
        ("muli", "no_signed_wrap", -16, 8, False),
        ("muli", "no_signed_wrap", -16, -8, True),
        ("muli", "no_unsigned_wrap", 16, 16, True),
        ("muli", "no_unsigned_wrap", 85, 3, False),
        ("muli", "no_wrap", 85, 3, True),
        ("shli", "no_signed_wrap", 64, 1, True),
        ("shli", "no_signed_wrap", -64, 1, False),
        ("shli", "no_unsigned_wrap", 64, 1, False),
        ("shli", "no_unsigned_wrap", -64, 1, True),
    ],
)
def test_promises_not_to_wrap_are_held(op: str, promise: str, a: int, b: int, wraps: bool) -> None:
    line = f"%r0 = {op} %a0, %a1 overflow<{promise}> : tile<i8>"
    args = [("i8", a), ("i8", b)]
    if not wraps:
        one(line, args, "i8")
        return
    out, kind, message = found(line, args, "i8")
    assert kind == "overflow"
    assert message.startswith(f"{op} wraps, ")
    assert message.endswith(f"though it promises {promise}: operands {a}, {b}")
    plain = one(f"%r0 = {op} %a0, %a1 : tile<i8>", args, "i8")
    assert out == plain


def test_promise_of_a_64_bit_product() -> None:
    line = "%r0 = muli %a0, %a1 overflow<no_signed_wrap> : tile<i64>"
    assert one(line, [("i64", -(2**31)), ("i64", 2**31)], "i64") == -(2**62)
    assert found(line, [("i64", -(2**31)), ("i64", 2**33)], "i64")[1] == "overflow"


def test_negation_of_the_lowest_is_found() -> None:
    line = "%r0 = negi %a0 overflow<no_signed_wrap> : tile<2xi16>"
    assert one(line, [("2xi16", [5, -5])], "2xi16").tolist() == [-5, 5]
    out, kind, message = found(line, [("2xi16", [5, -32768])], "2xi16")
    assert (kind, message) == ("overflow", "negi wraps: operand -32768 at element (1,)")
    assert out.tolist() == [-5, -32768]
