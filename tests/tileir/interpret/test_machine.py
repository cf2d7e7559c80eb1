"""Launches: entries, grids, arguments, memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_harness import load

from tilewright.errors import LaunchError
from tilewright.tileir.check import load_text
from tilewright.tileir.interpret.machine import Options, compile_entry, interpret
from tilewright.tileir.interpret.memory import Memory

TWO = """cuda_tile.module @m {
    entry @a(%p: tile<ptr<f32>>, %n: tile<i32>, %x: tile<f32>, %c: tile<i1>) { return }
    entry @b() { return }
}"""
ARRAY = np.zeros(4, np.float32)


def test_an_entry_must_be_named_if_there_are_several() -> None:
    with pytest.raises(LaunchError, match=r"2 entries, and none is named; its entries: a, b"):
        compile_entry(load(TWO))
    with pytest.raises(LaunchError, match=r"no entry 'c'; its entries: a, b"):
        compile_entry(load(TWO), "c")
    assert compile_entry(load(TWO), "b").run((2, 3, 4), []).blocks == 24


@pytest.mark.parametrize("grid", [(1, 1), (0, 1, 1), (1, 1, 1, 1), (1, -1, 1), (1 << 31, 1, 1)])
def test_grids_have_three_sizes(grid: Any) -> None:
    with pytest.raises(LaunchError, match="expected three sizes from 1"):
        interpret(load(TWO), "b", grid, [])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([ARRAY, 1], r"2 arguments, expected 4: %p: tile<ptr<f32>>, %n: tile<i32>"),
        ([[1.0], 1, 2.0, True], r"argument %p is list \[1\.0\], expected tile<ptr<f32>>"),
        ([np.zeros(2, np.float64), 1, 2.0, True], r"argument %p is an array of float64"),
        ([np.zeros(2, np.int32), 1, 2.0, True], r"argument %p is an array of int32"),
        ([ARRAY, 1.5, 2.0, True], r"argument %n is 1\.5, expected tile<i32>"),
        ([ARRAY, 1 << 32, 2.0, True], r"argument %n is 4294967296, which does not fit 32 bits"),
        ([ARRAY, 1, "x", True], r"argument %x is 'x', expected tile<f32>"),
        ([ARRAY, 1, True, True], r"argument %x is True, expected tile<f32>"),
        ([ARRAY, 1, 2.0, 3], r"argument %c is 3, expected tile<i1>"),
    ],
)
def test_arguments_must_fit(args: list[Any], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        interpret(load(TWO), "a", (1, 1, 1), args)


def test_what_is_to_be_done_about_an_array_is_said() -> None:
    with pytest.raises(LaunchError) as caught:
        interpret(load(TWO), "a", (1, 1, 1), [np.zeros(2), 1, 2.0, True])
    assert "hint: make it an array of float32, or view its bytes as uint8" in str(caught.value)


SCALARS = """cuda_tile.module @m {{ entry @k(%p: tile<ptr<{0}>>, %x: tile<{0}>) {{
    %t = store_ptr_tko weak %p, %x : tile<ptr<{0}>>, tile<{0}> -> token
    return
}} }}"""


@pytest.mark.parametrize(
    ("kind", "dtype", "value", "want"),
    [
        ("i8", np.int8, 255, -1),
        ("i8", np.uint8, -1, 255),
        ("i64", np.int64, -(2**63), -(2**63)),
        ("i32", np.int32, np.int32(-7), -7),
        ("i1", np.bool_, True, True),
        ("i1", np.uint8, 1, 1),
        ("f16", np.float16, 0.1, float(np.float16(0.1))),
        ("f32", np.float32, 3, 3),
        ("f32", np.float32, np.float64(0.1), float(np.float32(0.1))),
        ("f64", np.float64, np.float32(0.5), 0.5),
    ],
)
def test_scalars_take_the_type_of_their_parameter(
    kind: str, dtype: Any, value: Any, want: Any
) -> None:
    out = np.zeros(1, dtype)
    interpret(load(SCALARS.format(kind)), "k", (1, 1, 1), [out, value])
    assert out[0] == want


def test_addresses_in_a_memory_of_ones_own() -> None:
    memory = Memory()
    data = np.zeros(64, np.uint8)
    address = memory.map(data, "mine", 0x123450)
    assert address % 4096 == 0x450
    program = compile_entry(load(SCALARS.format("i32")), "k")
    program.run((1, 1, 1), [address + 8, 77], memory)
    assert data.view(np.int32)[2] == 77


def test_arrays_inside_a_mapped_array_are_the_same_memory() -> None:
    text = """cuda_tile.module @m { entry @k(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>) {
        %x, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
        %u = store_ptr_tko weak %q, %x : tile<ptr<i32>>, tile<i32> -> token
        return
    } }"""
    x = np.array([5, 6], np.int32)
    options = Options(check_tokens=True, raise_on_findings=False)
    report = interpret(load(text), "k", (1, 1, 1), [x, x[:1]], options=options)
    assert [f.kind for f in report.findings] == ["unordered"]
    report = interpret(load(text), "k", (1, 1, 1), [x, x[1:]], options=options)
    assert not report.findings
    assert x.tolist() == [5, 5]


def test_memory_is_mapped_as_bytes() -> None:
    with pytest.raises(LaunchError, match="map x: got float32 with 1 dimensions, expected a"):
        Memory().map(np.zeros(2, np.float32), "x")


def test_empty_arrays_have_an_address() -> None:
    memory = Memory()
    address = memory.map_array(np.zeros((0, 3), np.float32), "nothing")
    assert memory.find(address) is None
    assert memory.describe(address) == "0 bytes behind the end of nothing (0 bytes)"
    assert Memory().describe(5) == "no buffer is mapped"
    assert memory.describe(address - 8) == "8 bytes before the start of nothing (0 bytes)"


def test_a_launch_gives_back_what_it_allocates() -> None:
    memory = Memory()
    x = np.zeros(4, np.int32)
    address = memory.map_array(x, "x")
    mark = memory.mark()
    text = """cuda_tile.module @m { global @g <i32: [1]> : tile<1xi32>
    entry @k(%p: tile<ptr<i32>>) {
        %m = alloca num_elem = 8, alignment = 8192 : tile<ptr<i32>>
        %n = ptr_to_int %m : tile<ptr<i32>> -> tile<i64>
        %q = assume div_by<8192>, %n : tile<i64>
        return
    } }"""
    for _ in range(3):
        interpret(load(text), "k", (2, 1, 1), [address], memory=memory)
    assert memory.mark() == mark


def test_findings_are_limited_and_counted() -> None:
    text = """cuda_tile.module @m { entry @k(%x: tile<i32>) {
        %zero = constant <i32: 0> : tile<i32>
        %a = divi %x, %zero signed : tile<i32>
        %b = remi %x, %zero signed : tile<i32>
        %c, %y, %z = get_tile_block_id : tile<i32>
        %d = divi %c, %zero signed : tile<i32>
        return
    } }"""
    options = Options(raise_on_findings=False, max_findings=2)
    report = interpret(load(text), "k", (3, 1, 1), [1], options=options)
    # What depends on parameters alone is computed once, before the first block.
    assert [(f.op, f.count, f.block) for f in report.findings] == [
        ("divi", 1, None),
        ("remi", 1, None),
    ]
    report = interpret(load(text), "k", (3, 1, 1), [1], options=Options(raise_on_findings=False))
    assert (report.findings[2].count, report.findings[2].block) == (3, (0, 0, 0))
    assert str(report.findings[2]).splitlines()[:2] == [
        "division: divi by zero: operands 0, 0",
        "  by divi in block (0, 0, 0)",
    ]
    assert str(report.findings[2]).endswith("(3 times)")


def test_what_cannot_be_launched_is_refused() -> None:
    text = """cuda_tile.module @m {
    entry @k(%v: tensor_view<4xf32, strides=[1]>) { return }
    entry @other() {
        "test.op"() : () -> ()
        return
    } }"""
    block = load_text(text, "test.mlir")
    with pytest.raises(LaunchError) as caught:
        compile_entry(block, "k")
    assert "interpret k: parameter %v is tensor_view<4xf32, strides=[1]>, expected a tile" in str(
        caught.value
    )
    with pytest.raises(LaunchError, match=r"interpret: test\.op is no Tile IR operation") as caught:
        compile_entry(block, "other")
    assert "test.mlir:4:9" in str(caught.value)
