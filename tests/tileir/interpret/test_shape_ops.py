"""Making tiles and moving their elements."""

from __future__ import annotations

import numpy as np
import pytest
from tile_harness import bits, found, one, run


def test_constants() -> None:
    assert (
        one("%r0 = constant <f32: 1.5> : tile<2x2xf32>", [], "2x2xf32").tolist() == [[1.5] * 2] * 2
    )
    line = "%r0 = constant <i32: [[1, -2], [3, 4]]> : tile<2x2xi32>"
    assert one(line, [], "2x2xi32").tolist() == [[1, -2], [3, 4]]
    assert one("%r0 = constant <i1: [true, false]> : tile<2xi1>", [], "2xi1").tolist() == [
        True,
        False,
    ]
    assert (
        one("%r0 = constant <f32: 0x7FC00000> : tile<f32>", [], "f32").view(np.uint32) == 0x7FC00000
    )
    assert bits(one("%r0 = constant <tf32: 1.5> : tile<2xtf32>", [], "2xtf32")) == [0x3FC00000] * 2
    assert bits(one("%r0 = constant <f8E5M2: 2.0> : tile<2xf8E5M2>", [], "2xf8E5M2")) == [0x40] * 2


def test_iota_counts() -> None:
    assert one("%r0 = iota : tile<8xi32>", [], "8xi32").tolist() == list(range(8))
    assert one("%r0 = iota : tile<256xi8>", [], "256xi8").view(np.uint8).tolist() == list(
        range(256)
    )


def test_broadcast_and_reshape() -> None:
    line = """
        %x = reshape %a0 : tile<4xi32> -> tile<2x1x2xi32>
        %r0 = broadcast %x : tile<2x1x2xi32> -> tile<2x2x2xi32>
    """
    assert one(line, [("4xi32", [1, 2, 3, 4])], "2x2x2xi32").tolist() == [
        [[1, 2], [1, 2]],
        [[3, 4], [3, 4]],
    ]
    line = "%x = reshape %a0 : tile<1x1xf16> -> tile<f16>\n%r0 = addf %x, %x : tile<f16>"
    assert one(line, [("1x1xf16", 2)], "f16") == 4


def test_permute_takes_dimensions_from_the_source() -> None:
    x = np.arange(16, dtype=np.int32).reshape(2, 2, 4)
    line = "%r0 = permute %a0 [2, 0, 1] : tile<2x2x4xi32> -> tile<4x2x2xi32>"
    assert (one(line, [("2x2x4xi32", x)], "4x2x2xi32") == x.transpose(2, 0, 1)).all()


def test_cat() -> None:
    args = [("2x1xf32", [[1], [2]]), ("2x1xf32", [[3], [4]])]
    for dim, shape, want in ((1, "2x2", [[1, 3], [2, 4]]), (0, "4x1", [[1], [2], [3], [4]])):
        line = f"%r0 = cat %a0, %a1 dim = {dim} : tile<2x1xf32>, tile<2x1xf32> -> tile<{shape}xf32>"
        assert one(line, args, f"{shape}xf32").tolist() == want


_INDEX = "%i = constant <i32: {}> : tile<i32>\n%j = constant <i32: {}> : tile<i32>\n"


def test_extract_and_insert_count_subtiles() -> None:
    x = np.arange(32, dtype=np.int32).reshape(4, 8)
    line = _INDEX.format(1, 3) + "%r0 = extract %a0[%i, %j] : tile<4x8xi32> -> tile<2x2xi32>"
    assert one(line, [("4x8xi32", x)], "2x2xi32").tolist() == [[22, 23], [30, 31]]
    line = _INDEX.format(0, 1) + "%r0 = insert %a1, %a0[%i, %j] : tile<2x4xi32>, tile<4x8xi32>"
    have = one(line, [("4x8xi32", x), ("2x4xi32", -1)], "4x8xi32")
    want = x.copy()
    want[0:2, 4:8] = -1
    assert (have == want).all()


@pytest.mark.parametrize("index", [4, -1])
def test_subtiles_outside_are_found(index: int) -> None:
    line = _INDEX.format(0, index) + "%r0 = extract %a0[%i, %j] : tile<4x8xi32> -> tile<2x2xi32>"
    _, kind, message = found(line, [("4x8xi32", 0)], "2x2xi32")
    assert kind == "subtile"
    assert message == (
        f"extract: index {index % 2**32} in dimension 1, expected less than 4: "
        "8 elements are 4 subtiles of 2"
    )
    line = _INDEX.format(0, index) + "%r0 = insert %a1, %a0[%i, %j] : tile<2x2xi32>, tile<4x8xi32>"
    out, kind, _ = found(line, [("4x8xi32", 5), ("2x2xi32", 1)], "4x8xi32")
    assert kind == "subtile"
    assert (out == 5).all()


def test_select() -> None:
    line = "%r0 = select %a0, %a1, %a2 : tile<2xi1>, tile<2xf32>"
    args = [("2xi1", [True, False]), ("2xf32", [1, 2]), ("2xf32", [3, 4])]
    assert one(line, args, "2xf32").tolist() == [1, 4]
    line = "%r0 = select %a0, %a1, %a2 : tile<i1>, tile<i8>"
    assert one(line, [("i1", False), ("i8", 1), ("i8", 2)], "i8") == 2


def test_offset_counts_elements_and_is_signed() -> None:
    line = """
        %n = constant <i8: -1> : tile<i8>
        %one = constant <i64: 3> : tile<i64>
        %p = offset %pa0, %one : tile<ptr<i16>>, tile<i64> -> tile<ptr<i16>>
        %q = offset %p, %n : tile<ptr<i16>>, tile<i8> -> tile<ptr<i16>>
        %r0, %t = load_ptr_tko weak %q : tile<ptr<i16>> -> tile<i16>, token
    """
    assert one(line, [("4xi16", [10, 20, 30, 40])], "i16") == 30


def test_pack_and_unpack_are_little_endian() -> None:
    line = (
        "%r0 = pack %a0 : tile<2xi32> -> tile<8xi8>\n%r1 = unpack %r0 : tile<8xi8> -> tile<4xi16>"
    )
    (packed, halves), _ = run(line, [("2xi32", [0x04030201, -1])], ["8xi8", "4xi16"])
    assert packed.tolist() == [1, 2, 3, 4, -1, -1, -1, -1]
    assert halves.tolist() == [0x0201, 0x0403, -1, -1]
    line = "%r0 = pack %a0 : tile<8xi1> -> tile<1xi8>\n%r1 = unpack %r0 : tile<1xi8> -> tile<8xi1>"
    flags = [True, False, False, True, False, False, False, True]
    (packed, back), _ = run(line, [("8xi1", flags)], ["1xi8", "8xi1"])
    assert packed.view(np.uint8).tolist() == [0b10001001]
    assert back.tolist() == flags


def test_i4_extends_and_truncates() -> None:
    line = """
        %n = trunci %a0 : tile<4xi32> -> tile<4xi4>
        %p = pack %n : tile<4xi4> -> tile<2xi8>
        %m = unpack %p : tile<2xi8> -> tile<4xi4>
        %r0 = exti %m signed : tile<4xi4> -> tile<4xi32>
        %r1 = exti %m unsigned : tile<4xi4> -> tile<4xi32>
        %r2 = exti %p unsigned : tile<2xi8> -> tile<2xi32>
    """
    (signed, unsigned, packed), _ = run(
        line, [("4xi32", [7, 8, -1, 17])], ["4xi32", "4xi32", "2xi32"]
    )
    assert signed.tolist() == [7, -8, -1, 1]
    assert unsigned.tolist() == [7, 8, 15, 1]
    assert packed.tolist() == [0x87, 0x1F]
