"""Loads, stores and atomics through pointers; globals and allocations."""

from __future__ import annotations

import numpy as np
import pytest
from tile_harness import KEEP, found, load, one, run

from tilewright.tileir.interpret.machine import Options, Report, interpret


def kernel(body: str, parameters: str = "%p: tile<ptr<i32>>", before: str = "") -> str:
    return f"cuda_tile.module @m {{ {before}\nentry @k({parameters}) {{\n{body}\nreturn\n}} }}"


def execute(
    body: str,
    *args: object,
    parameters: str = "%p: tile<ptr<i32>>",
    before: str = "",
    grid: tuple[int, int, int] = (1, 1, 1),
    options: Options = KEEP,
) -> Report:
    return interpret(load(kernel(body, parameters, before)), "k", grid, list(args), options=options)


POINTERS = """
    %p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %pn = broadcast %p1 : tile<1xptr<i32>> -> tile<4xptr<i32>>
    %i = constant <i32: [{}]> : tile<4xi32>
    %q = offset %pn, %i : tile<4xptr<i32>>, tile<4xi32> -> tile<4xptr<i32>>
"""


def test_masked_loads_take_the_padding() -> None:
    line = """
        %x, %t = load_ptr_tko weak %qa0, %a1, %a2 : tile<4xptr<f32>>, tile<4xi1>, tile<4xf32> -> tile<4xf32>, token
        %r0 = addf %x, %x : tile<4xf32>
    """  # noqa: E501
    args = [("4xf32", [1, 2, 3, 4]), ("4xi1", [1, 0, 1, 0]), ("4xf32", [10, 20, 30, 40])]
    assert one(line, args, "4xf32").tolist() == [2, 40, 6, 80]


def test_masked_lanes_without_padding_are_seen_at_once() -> None:
    line = (
        "%r0, %t = load_ptr_tko weak %qa0, %a1 : tile<2xptr<{0}>>, tile<2xi1> -> tile<2x{0}>, token"
    )
    have = one(line.format("f32"), [("2xf32", [1, 2]), ("2xi1", [1, 0])], "2xf32")
    assert have[0] == 1
    assert np.isnan(have[1])
    have = one(line.format("i16"), [("2xi16", [1, 2]), ("2xi1", [1, 0])], "2xi16")
    assert have.tolist() == [1, 0x5A5A]


def test_masked_lanes_may_point_anywhere() -> None:
    x = np.arange(4, dtype=np.int32)
    body = (
        POINTERS.format("0, 1, 1000000, -7")
        + """
        %m = constant <i1: [true, true, false, false]> : tile<4xi1>
        %x, %t = load_ptr_tko weak %q, %m : tile<4xptr<i32>>, tile<4xi1> -> tile<4xi32>, token
        %y = addi %x, %x : tile<4xi32>
        %u = store_ptr_tko weak %q, %y, %m token=%t : tile<4xptr<i32>>, tile<4xi32>, tile<4xi1> -> token
    """  # noqa: E501
    )
    assert not execute(body, x).findings
    assert x.tolist() == [0, 2, 2, 3]


def test_accesses_out_of_bounds_are_found_and_left_out() -> None:
    x = np.arange(4, dtype=np.int32)
    body = (
        POINTERS.format("0, 3, 4, -1")
        + """
        %one = constant <i32: 1> : tile<4xi32>
        %x, %t = load_ptr_tko weak %q : tile<4xptr<i32>> -> tile<4xi32>, token
        %u = store_ptr_tko weak %q, %one token=%t : tile<4xptr<i32>>, tile<4xi32> -> token
    """
    )
    report = execute(body, x)
    assert x.tolist() == [1, 1, 2, 1]
    assert [(f.kind, f.op, f.count) for f in report.findings] == [
        ("out_of_bounds", "load_ptr_tko", 1),
        ("out_of_bounds", "store_ptr_tko", 1),
    ]
    message = report.findings[0].message
    assert message.startswith("load_ptr_tko of i32 at 0x7f")
    assert message.endswith(
        ", element (2,),: 0 bytes behind the end of p (16 bytes) (2 of 4 elements)"
    )
    assert report.findings[0].loc is not None
    assert report.findings[0].block == (0, 0, 0)


def test_an_element_that_is_half_inside_is_outside() -> None:
    raw = np.zeros(8, np.uint8)
    start = -raw.__array_interface__["data"][0] % 4
    body = (
        POINTERS.format("0, 0, 1, 0")
        + """
        %x, %t = load_ptr_tko weak %q : tile<4xptr<i32>> -> tile<4xi32>, token
    """
    )
    (finding,) = execute(body, raw[start : start + 6]).findings
    assert finding.kind == "out_of_bounds"
    assert "element (2,),: byte 4 of p (6 bytes) (1 of 4 elements)" in finding.message


def test_misaligned_addresses_are_found() -> None:
    body = """
        %n = ptr_to_int %p : tile<ptr<i32>> -> tile<i64>
        %two = constant <i64: 2> : tile<i64>
        %m = addi %n, %two : tile<i64>
        %q = int_to_ptr %m : tile<i64> -> tile<ptr<i32>>
        %x, %t = load_ptr_tko weak %q : tile<ptr<i32>> -> tile<i32>, token
    """
    (finding,) = execute(body, np.zeros(4, np.int32)).findings
    assert finding.kind == "misaligned"
    assert finding.message.endswith("is no multiple of 4")


def test_read_only_arrays_stay_as_they_are() -> None:
    x = np.arange(4, dtype=np.int32)
    x.flags.writeable = False
    body = """
        %x, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
        %u = store_ptr_tko weak %p, %x token=%t : tile<ptr<i32>>, tile<i32> -> token
    """
    (finding,) = execute(body, x).findings
    assert finding.kind == "read_only"
    assert finding.message == "store_ptr_tko writes to p, which is read-only"


def test_pointers_into_two_buffers() -> None:
    x, y = np.arange(2, dtype=np.int32), np.arange(10, 12, dtype=np.int32)
    body = """
        %a = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
        %b = reshape %q : tile<ptr<i32>> -> tile<1xptr<i32>>
        %c = cat %a, %b dim = 0 : tile<1xptr<i32>>, tile<1xptr<i32>> -> tile<2xptr<i32>>
        %x, %t = load_ptr_tko weak %c : tile<2xptr<i32>> -> tile<2xi32>, token
        %one = constant <i32: 1> : tile<2xi32>
        %d = offset %c, %one : tile<2xptr<i32>>, tile<2xi32> -> tile<2xptr<i32>>
        %u = store_ptr_tko weak %d, %x token=%t : tile<2xptr<i32>>, tile<2xi32> -> token
    """
    parameters = "%p: tile<ptr<i32>>, %q: tile<ptr<i32>>"
    assert not execute(body, x, y, parameters=parameters).findings
    assert (x.tolist(), y.tolist()) == ([0, 0], [10, 10])


# --- atomics ------------------------------------------------------------------------------------

RMW = """
    %v = constant <i32: [{values}]> : tile<4xi32>
    %old, %t = atomic_rmw_tko relaxed device %q, {mode}, %v : tile<4xptr<i32>>, tile<4xi32> -> tile<4xi32>, token
    %to = constant <i32: [4, 5, 6, 7]> : tile<4xi32>
    %w = offset %pn, %to : tile<4xptr<i32>>, tile<4xi32> -> tile<4xptr<i32>>
    %u = store_ptr_tko weak %w, %old token=%t : tile<4xptr<i32>>, tile<4xi32> -> token
"""  # noqa: E501


@pytest.mark.parametrize(
    ("mode", "memory", "old"),
    [
        # Memory is 12, -3; lanes 0, 1 and 3 share the first element, in turn.
        ("add", [12 + 1 + 2 + 4, -3 + 3], [12, 13, -3, 15]),
        ("and", [0, 1], [12, 0, -3, 0]),
        ("or", [15, -1], [12, 13, -3, 15]),
        ("xor", [12 ^ 1 ^ 2 ^ 4, -3 ^ 3], [12, 13, -3, 15]),
        ("max", [12, 3], [12, 12, -3, 12]),
        ("min", [1, -3], [12, 1, -3, 1]),
        ("umax", [12, -3], [12, 12, -3, 12]),
        ("umin", [1, 3], [12, 1, -3, 1]),
        ("xchg", [4, 3], [12, 1, -3, 2]),
    ],
)
def test_every_mode_takes_turns(mode: str, memory: list[int], old: list[int]) -> None:
    x = np.array([12, -3, 0, 0, 9, 9, 9, 9], np.int32)
    body = POINTERS.format("0, 0, 1, 0") + RMW.format(mode=mode, values="1, 2, 3, 4")
    assert not execute(body, x).findings
    assert x[:2].tolist() == memory
    assert x[4:].tolist() == old


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_float_additions_round_each(kind: str) -> None:
    line = f"""
        %r0, %t = atomic_rmw_tko relaxed device %qa0, addf, %a1, %a2 : tile<2xptr<{kind}>>, tile<2x{kind}>, tile<2xi1> -> tile<2x{kind}>, token
        %r1, %u = load_ptr_tko weak %qa0 token=%t : tile<2xptr<{kind}>> -> tile<2x{kind}>, token
    """  # noqa: E501
    args = [(f"2x{kind}", [1.5, 2]), (f"2x{kind}", [0.25, 1]), ("2xi1", [True, False])]
    (old, new), _ = run(line, args, [f"2x{kind}"] * 2)
    assert old[0] == 1.5
    assert new.astype(float).tolist() == [1.75, 2]


def test_compare_and_swap() -> None:
    x = np.array([5, 6, 0, 0, 9, 9, 9, 9], np.int32)
    body = (
        POINTERS.format("0, 0, 1, 1")
        + """
        %c = constant <i32: [5, 7, 1, 6]> : tile<4xi32>
        %v = constant <i32: [7, 8, 9, 10]> : tile<4xi32>
        %m = constant <i1: [true, true, true, false]> : tile<4xi1>
        %old, %t = atomic_cas_tko acq_rel device %q, %c, %v, %m : tile<4xptr<i32>>, tile<4xi32>, tile<4xi1> -> tile<4xi32>, token
        %to = constant <i32: [4, 5, 6, 7]> : tile<4xi32>
        %w = offset %pn, %to : tile<4xptr<i32>>, tile<4xi32> -> tile<4xptr<i32>>
        %u = store_ptr_tko weak %w, %old token=%t : tile<4xptr<i32>>, tile<4xi32> -> token
    """  # noqa: E501
    )
    assert not execute(body, x).findings
    assert x.tolist() == [8, 6, 0, 0, 5, 7, 6, 6]  # the last lane yields its comparand


def test_compare_and_swap_of_floats_compares_bits() -> None:
    line = """
        %r0, %t = atomic_cas_tko relaxed sys %qa0, %a1, %a2 : tile<2xptr<f32>>, tile<2xf32> -> tile<2xf32>, token
        %r1, %u = load_ptr_tko weak %qa0 token=%t : tile<2xptr<f32>> -> tile<2xf32>, token
    """  # noqa: E501
    args = [("2xf32", [0.0, np.nan]), ("2xf32", [-0.0, np.nan]), ("2xf32", [1, 2])]
    (_, new), _ = run(line, args, ["2xf32"] * 2)
    assert new.tolist() == [0, 2]


def test_atomics_out_of_bounds_are_found() -> None:
    line = """
        %far = constant <i32: 100> : tile<i32>
        %q = offset %pa0, %far : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        %r0, %t = atomic_rmw_tko relaxed device %q, add, %a0 : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    """  # noqa: E501
    out, kind, message = found(line, [("i32", 1)], "i32")
    assert kind == "out_of_bounds"
    assert "396 bytes behind the end of pa0 (4 bytes)" in message
    assert out == 0x5A5A5A5A


# --- globals and allocations --------------------------------------------------------------------


def test_globals_hold_their_elements_for_a_launch() -> None:
    before = "global @g <i32: [1, 2, 3, 4]> : tile<4xi32>"
    body = """
        %g = get_global @g : tile<ptr<i32>>
        %one = constant <i32: 1> : tile<i32>
        %old, %t = atomic_rmw_tko relaxed device %g, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
        %b, %y, %z = get_tile_block_id : tile<i32>
        %q = offset %p, %b : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        %u = store_ptr_tko weak %q, %old : tile<ptr<i32>>, tile<i32> -> token
    """  # noqa: E501
    for _ in range(2):
        x = np.zeros(3, np.int32)
        assert not execute(body, x, before=before, grid=(3, 1, 1)).findings
        assert x.tolist() == [1, 2, 3]


def test_constant_globals_cannot_be_written() -> None:
    before = "global constant @g <i32: [1]> : tile<1xi32>"
    body = """
        %g = get_global @g : tile<ptr<i32>>
        %one = constant <i32: 7> : tile<i32>
        %t = store_ptr_tko weak %g, %one : tile<ptr<i32>>, tile<i32> -> token
    """
    (finding,) = execute(body, np.zeros(1, np.int32), before=before).findings
    assert finding.kind == "read_only"
    assert finding.message == "store_ptr_tko writes to global @g, which is read-only"


ALLOCA = """
    %m = alloca 'num_elem' = 2, 'alignment' = 16 {} : tile<ptr<i32>>
    %b, %y, %z = get_tile_block_id : tile<i32>
    %old, %t = load_ptr_tko weak %m : tile<ptr<i32>> -> tile<i32>, token
    %u = store_ptr_tko weak %m, %b token=%t : tile<ptr<i32>>, tile<i32> -> token
    %q = offset %p, %b : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %v = store_ptr_tko weak %q, %old : tile<ptr<i32>>, tile<i32> -> token
"""


def test_allocations_are_of_a_block_or_of_the_grid() -> None:
    x = np.zeros(3, np.int32)
    assert not execute(ALLOCA.format("").replace("'", ""), x, grid=(3, 1, 1)).findings
    assert x.tolist() == [-1, -1, -1]  # fresh memory, all ones, for every block
    assert not execute(ALLOCA.format("global").replace("'", ""), x, grid=(3, 1, 1)).findings
    assert x.tolist() == [-1, 0, 1]


def test_leaving_an_allocation_is_found() -> None:
    body = """
        %m = alloca num_elem = 2, alignment = 4 : tile<ptr<i32>>
        %two = constant <i32: 2> : tile<i32>
        %q = offset %m, %two : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        %x, %t = load_ptr_tko weak %q : tile<ptr<i32>> -> tile<i32>, token
    """
    (finding,) = execute(body, np.zeros(1, np.int32)).findings
    assert "0 bytes behind the end of alloca (8 bytes)" in finding.message


def test_operations_that_only_pass_tokens() -> None:
    body = """
        %a = make_token : token
        %b = gdc_wait_tko token=%a -> token
        %c = gdc_launch_dependents_tko -> token
        %d = join_tokens %b, %c : token
        %e = memory_fence_alias_tko %d
        %x, %t = load_ptr_tko weak %p token=%e : tile<ptr<i32>> -> tile<i32>, token
        %u = store_ptr_tko weak %p, %x token=%t : tile<ptr<i32>>, tile<i32> -> token
    """
    for options in (KEEP, Options(adversarial=True)):
        assert not execute(body, np.zeros(1, np.int32), options=options).findings
