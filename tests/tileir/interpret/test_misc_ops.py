"""print_tko and assume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_harness import found, load, run

from tilewright.numeric.dtypes import BOOL, F16, F32, F64, I8, I32, I64
from tilewright.tileir.check import load_text
from tilewright.tileir.interpret.machine import Options, interpret
from tilewright.tileir.interpret.printf import formatted


@pytest.mark.parametrize(
    ("text", "args", "rows", "want"),
    [
        ("x=%d|%5d|%-5d|%05d|%+d", [1, 2, 3, 4, 5], [I32] * 5, "x=1|    2|3    |00004|+5"),
        ("%i %u %x %X %o", [-1, -1, -1, -1, -1], [I8] * 5, "-1 255 ff FF 377"),
        ("%#x %#o %lld %hhd", [255, 8, 7, 9], [I64] * 4, "0xff 010 7 9"),
        ("%f %.2f %e %g %G", [1.5, 2.0, 1.5, 1e-7, 1e-7], [F64] * 5,
         "1.500000 2.00 1.500000e+00 1e-07 1E-07"),
        ("%F %a", [np.inf, 1.0], [F64] * 2, "INF 0x1.0000000000000p+0"),
        ("100%% of %c%s", [65, 7], [I32] * 2, "100% of A7"),
        ("%d", [True], [BOOL], "1"),
        ("%f", [np.float16(0.5)], [F16], "0.500000"),
        ("%d", [2.75], [F32], "2"),
        ("%d", [np.nan], [F32], "nan"),
        ("%f", [3], [I32], "3.000000"),
    ],
)  # fmt: skip
def test_conversions_of_c(text: str, args: list[Any], rows: list[Any], want: str) -> None:
    kinds = {I8: np.int8, I32: np.int32, I64: np.int64, F16: np.float16, F32: np.float32}
    values = [kinds.get(r, np.asarray)(a) for a, r in zip(args, rows, strict=True)]
    assert formatted(text, values, rows) == want


def test_tiles_are_printed_as_nested_lists() -> None:
    line = """
        %t = print_tko "%d and %.1f\\n", %a0, %a1 : tile<2x2xi32>, tile<2xf32> -> token
        %u = print_tko "done" token=%t -> token
    """
    heard: list[str] = []
    options = Options(echo=heard.append)
    args = [("2x2xi32", [[1, 2], [3, 4]]), ("2xf32", [0.5, 1])]
    _, report = run(line, args, [], options)
    assert report.printed == ("[[1, 2], [3, 4]] and [0.5, 1.0]\n", "done")
    assert heard == list(report.printed)


def test_printing_waits_for_its_token() -> None:
    line = """
        %seven = constant <i32: 7> : tile<i32>
        %t = store_ptr_tko weak %pa0, %seven : tile<ptr<i32>>, tile<i32> -> token
        %x, %u = load_ptr_tko weak %pa0 token=%t : tile<ptr<i32>> -> tile<i32>, token
        %v = print_tko "%d", %x token=%u : tile<i32> -> token
    """
    text = "cuda_tile.module @m { entry @k(%pa0: tile<ptr<i32>>) {" + line + "\nreturn\n} }"
    for seed in range(10):
        options = Options(adversarial=True, seed=seed)
        report = interpret(load(text), "k", (1, 1, 1), [np.zeros(1, np.int32)], options=options)
        assert report.printed == ("7",)


@pytest.mark.parametrize(
    ("predicate", "kind", "good", "bad", "problem"),
    [
        ("div_by<8>", "4xi32", [0, 8, -16, 64], [0, 8, -12, 64], "-12 at element (2,)"),
        ("div_by<4, every 2 along 0>", "4xi32", [4, 1, 8, 3], [4, 1, 6, 3], "6 at element (1,)"),
        ("bounded<0, 10>", "4xi8", [0, 10, 5, 1], [0, 11, 5, 1], "11 at element (1,)"),
        ("bounded<?, 10>", "i8", -100, 11, "11"),
        ("bounded<0, ?>", "i8", 100, -1, "-1"),
        ("bounded<0, 0>", "i1", 0, 1, "-1"),
        ("same_elements<[2, 1]>", "4x2xi32", [[1, 2], [1, 2], [3, 4], [3, 4]],
         [[1, 2], [1, 9], [3, 4], [3, 4]], "9 at element (1, 1)"),
    ],
)  # fmt: skip
def test_promises_are_checked(predicate: str, kind: str, good: Any, bad: Any, problem: str) -> None:
    line = f"%r0 = assume {predicate}, %a0 : tile<{kind}>"
    out, report = run(line, [(kind, good)], [kind])
    assert (out[0] == np.asarray(good)).all()
    assert not report.findings
    out0, found_kind, message = found(line, [(kind, bad)], kind)
    assert found_kind == "assume"
    assert message == f"assume {predicate} does not hold: {problem}"
    assert (out0 == np.asarray(bad)).all()


def test_promises_about_addresses() -> None:
    text = """cuda_tile.module @m { entry @k(%p: tile<ptr<f32>>) {
        %q = assume div_by<64>, %p : tile<ptr<f32>>
        %tv = make_tensor_view %q, shape = [4], strides = [1] : tensor_view<4xf32, strides=[1]>
        %w = assume div_by<64>, %tv : tensor_view<4xf32, strides=[1]>
        return
    } }"""
    raw = np.zeros(128, np.uint8)
    start = -raw.__array_interface__["data"][0] % 64
    options = Options(raise_on_findings=False)
    aligned = raw[start : start + 32]
    assert not interpret(load(text), "k", (1, 1, 1), [aligned], options=options).findings
    shifted = raw[start + 4 : start + 36]
    found_ = interpret(load(text), "k", (1, 1, 1), [shifted], options=options).findings
    assert [f.kind for f in found_] == ["assume", "assume"]
    assert "its base is 0x7f" in found_[1].message


def test_pointers_print_as_addresses() -> None:
    line = '%t = print_tko "%llx", %p : tile<ptr<f32>> -> token'
    block = load_text(f"cuda_tile.module @m {{ entry @k(%p: tile<ptr<f32>>) {{ {line} }} }}")
    report = interpret(block, "k", (1, 1, 1), [np.zeros(4, np.float32)])
    assert int(report.printed[0], 16) > 0
