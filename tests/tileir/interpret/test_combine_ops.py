"""Reductions and scans."""

from __future__ import annotations

import numpy as np
import pytest
from tile_harness import module, one, parts, run

from tilewright.ir.ops.tile import control
from tilewright.tileir.check import load_text
from tilewright.tileir.interpret.combine_ops import ufunc_of

X = np.arange(1, 17, dtype=np.int32).reshape(4, 4)


def combine(
    what: str, kind: str, dim: int, out: str, identity: str, body: str, words: str = ""
) -> str:
    element = parts(kind)[1]
    scalar = f"tile<{element}>"
    return (
        f"%r0 = {what} %a0 dim={dim} {words} identities=[{identity} : {element}] : "
        f"tile<{kind}> -> tile<{out}> (%e: {scalar}, %acc: {scalar}) {{\n"
        + "\n".join(body.strip().splitlines())
        + f"\nyield %s : {scalar}\n}}"
    )


@pytest.mark.parametrize(
    ("op", "ufunc", "words"),
    [
        ("addi", np.add, ""),
        ("muli", np.multiply, ""),
        ("andi", np.bitwise_and, ""),
        ("ori", np.bitwise_or, ""),
        ("xori", np.bitwise_xor, ""),
        ("maxi", np.maximum, "signed"),
        ("mini", np.minimum, "signed"),
    ],
)
def test_reductions_that_numpy_has(op: str, ufunc: np.ufunc, words: str) -> None:
    body = f"%s = {op} %e, %acc {words} : tile<i32>"
    for dim in (0, 1):
        line = combine("reduce", "4x4xi32", dim, "4xi32", "0", body)
        assert (one(line, [("4x4xi32", X)], "4xi32") == ufunc.reduce(X, dim)).all()
    line = combine("scan", "4x4xi32", 1, "4x4xi32", "0", body, "reverse=false")
    assert (one(line, [("4x4xi32", X)], "4x4xi32") == ufunc.accumulate(X, 1)).all()


def test_narrow_sums_wrap() -> None:
    line = combine("reduce", "4xi8", 0, "i8", "0", "%s = addi %acc, %e : tile<i8>")
    assert one(line, [("4xi8", [100, 100, 100, 1])], "i8") == 45
    line = combine("reduce", "4xi1", 0, "i1", "0", "%s = addi %acc, %e : tile<i1>")
    assert one(line, [("4xi1", [True, True, True, False])], "i1")
    assert not one(line, [("4xi1", [True, True, False, False])], "i1")


def test_unsigned_extrema() -> None:
    line = combine("reduce", "4xi8", 0, "i8", "0", "%s = maxi %e, %acc unsigned : tile<i8>")
    assert one(line, [("4xi8", [1, -2, 127, 5])], "i8") == -2


def test_half_sums_round_at_every_step() -> None:
    # 2048 + 1 is 2048 in f16, however often; pairs are summed first.
    line = combine("reduce", "4xf16", 0, "f16", "0.0", "%s = addf %e, %acc : tile<f16>")
    assert one(line, [("4xf16", [2048, 1, 1, 1])], "f16") == 2050
    line = combine("reduce", "4xbf16", 0, "bf16", "0.0", "%s = addf %e, %acc : tile<bf16>")
    assert one(line, [("4xbf16", [256, 1, 1, 1])], "bf16") == 258


def test_float_extrema_ignore_nan() -> None:
    body = "%s = maxf %e, %acc : tile<f32>"
    line = combine("reduce", "2x4xf32", 1, "2xf32", "0xFF800000", body)
    x = [[1, np.nan, 3, 2], [np.nan, np.nan, -1, -2]]
    assert one(line, [("2x4xf32", x)], "2xf32").tolist() == [3, -1]
    line = combine("scan", "4xf32", 0, "4xf32", "0xFF800000", body, "reverse=true")
    assert one(line, [("4xf32", [5, 1, 4, 2])], "4xf32").tolist() == [5, 4, 4, 2]


def test_scans_keep_the_order_of_elements() -> None:
    # acc * 10 + e is not associative, but (first, last) pairs are: take the last.
    line = combine(
        "scan", "4xi32", 0, "4xi32", "0", "%s = addi %e, %acc : tile<i32>", "reverse=true"
    )
    assert one(line, [("4xi32", [1, 2, 3, 4])], "4xi32").tolist() == [10, 9, 7, 4]


PAIR = """
    %i = iota : tile<8xi32>
    {what} %a0, %i dim=0 {words} identities=[0xFF800000 : f32, 0 : i32] : tile<8xf32>, tile<8xi32> -> {out} (%e: tile<f32>, %acc: tile<f32>, %ei: tile<i32>, %ai: tile<i32>) {{
    %better = cmpf greater_than ordered %e, %acc : tile<f32> -> tile<i1>
    %v = select %better, %e, %acc : tile<i1>, tile<f32>
    %at = select %better, %ei, %ai : tile<i1>, tile<i32>
    yield %v, %at : tile<f32>, tile<i32>
    }}
"""  # noqa: E501


def test_first_of_the_largest() -> None:
    x = np.float32([1, 7, 3, 7, 0, 7, 2, 1])
    line = PAIR.format(what="%r0, %r1 = reduce", words="", out="tile<f32>, tile<i32>")
    (value, at), _ = run(line, [("8xf32", x)], ["f32", "i32"])
    assert (value, at) == (7, 1)
    line = PAIR.format(
        what="%r0, %r1 = scan", words="reverse=false", out="tile<8xf32>, tile<8xi32>"
    )
    (value, at), _ = run(line, [("8xf32", x)], ["8xf32", "8xi32"])
    assert value.tolist() == np.maximum.accumulate(x).tolist()
    assert at.tolist() == [0, 1, 1, 1, 1, 1, 1, 1]


def test_regions_that_treat_scalars_as_tiles() -> None:
    body = """
        %x = reshape %e : tile<i32> -> tile<1xi32>
        %y = reshape %acc : tile<i32> -> tile<1xi32>
        %z = addi %x, %y : tile<1xi32>
        %s = reshape %z : tile<1xi32> -> tile<i32>
    """
    line = combine("reduce", "4x4xi32", 0, "4xi32", "0", body)
    assert (one(line, [("4x4xi32", X)], "4xi32") == X.sum(0)).all()
    line = combine("scan", "4x4xi32", 0, "4x4xi32", "0", body, "reverse=false")
    assert (one(line, [("4x4xi32", X)], "4x4xi32") == X.cumsum(0)).all()


def test_regions_with_constants() -> None:
    body = """
        %two = constant <f32: 2.0> : tile<f32>
        %d = mulf %e, %two : tile<f32>
        %h = divf %d, %two : tile<f32>
        %s = addf %h, %acc : tile<f32>
    """
    line = combine("reduce", "2x8xf32", 1, "2xf32", "0.0", body)
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    assert (one(line, [("2x8xf32", x)], "2xf32") == x.sum(1)).all()


@pytest.mark.parametrize(
    ("kind", "op", "fast"),
    [
        ("f32", "addf %e, %acc", True),
        ("f64", "mulf %acc, %e", True),
        ("f16", "addf %e, %acc", False),
        ("f32", "addf %e, %acc flush_to_zero", False),
        ("f32", "addf %e, %acc rounding<zero>", False),
        ("f32", "addf %e, %e", False),
        ("f32", "subf %e, %acc", False),
        ("i32", "addi %e, %acc", True),
        ("i32", "addi %e, %acc overflow<no_signed_wrap>", False),
        ("i32", "maxi %e, %acc signed", True),
        ("i32", "maxi %e, %acc unsigned", False),
        ("i1", "xori %e, %acc", True),
        ("i1", "addi %e, %acc", False),
    ],
)
def test_what_is_left_to_numpy(kind: str, op: str, fast: bool) -> None:
    identity = {"i1": "0", "i32": "0"}.get(kind, "0.0")
    line = combine("reduce", f"4x{kind}", 0, kind, identity, f"%s = {op} : tile<{kind}>")
    block = load_text(module(line, [f"4x{kind}"], [kind]))
    (found,) = [op for op in block.walk() if isinstance(op, control.Reduce)]
    assert (ufunc_of(found) is not None) == fast
