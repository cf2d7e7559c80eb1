"""Tile IR built from Python: what it computes, what is printed, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import VerifyError
from tilewright.ir.core import Block
from tilewright.ir.tile_attrs import TypedAttr
from tilewright.ir.tile_types import NUMBERS, TOKEN
from tilewright.tileir.build import ModuleBuilder, TileBuilder, type_of
from tilewright.tileir.bytecode.reader import read_bytecode
from tilewright.tileir.bytecode.writer import write_bytecode
from tilewright.tileir.interpret.machine import interpret
from tilewright.tileir.printer import print_text
from tilewright.tileir.reader import parse

TENSOR = "tensor_view<?x4xf32, strides=[4,1]>"
VIEW = f"partition_view<tile=(2x4), {TENSOR}>"


def sums() -> ModuleBuilder:
    """y[0..3] = sum of the rows of x, (n, 4), that an even number of rows has."""
    m = ModuleBuilder("m")
    with m.entry("sums", x="tile<ptr<f32>>", y="tile<ptr<f32>>", n="tile<i32>") as b:
        x, y, n = b.args
        tensor = b("make_tensor_view", x, dynamicShape=n, types=TENSOR)
        view = b("make_partition_view", tensor, types=VIEW)
        zero, one = (b.constant(i, "tile<i32>") for i in (0, 1))
        two = b.constant(2, "tile<i32>")
        start = b.constant(0, "tile<4xf32>")
        tiles = b("divi", n, two, signedness="signed")
        body = b.nested("tile<i32>", "tile<4xf32>")
        step, total = body.args
        t, _ = body(
            "load_view_tko", view, index=[step, zero], memory_ordering_semantics="weak",
            types="tile<2x4xf32>",
        )  # fmt: skip
        add = body.nested("tile<f32>", "tile<f32>")
        add.op("yield", add("addf", *add.args))
        none = (TypedAttr("0.000000e+00", NUMBERS["f32"]),)
        rows = body("reduce", t, dim=0, identities=none, regions=[add], types="tile<4xf32>")
        body.op("continue", body("addf", total, rows))
        total = b("for", zero, tiles, one, start, regions=[body], types=[start.type])
        out = b("make_tensor_view", y, types="tensor_view<4xf32, strides=[1]>")
        to = b(
            "make_partition_view", out,
            types="partition_view<tile=(4), tensor_view<4xf32, strides=[1]>>",
        )  # fmt: skip
        b("store_view_tko", total, to, index=[zero], memory_ordering_semantics="weak")
    return m


def test_a_built_module_is_one_that_was_read() -> None:
    top = sums().verified()
    text = print_text(top)
    assert print_text(parse(text)) == text
    data = write_bytecode(top)
    assert write_bytecode(read_bytecode(data)) == data


def test_a_built_module_runs() -> None:
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    y = np.zeros(4, np.float32)
    interpret(sums().verified(), "sums", (1, 1, 1), [x, y, 6])
    np.testing.assert_array_equal(y, x.sum(axis=0))


def test_constants() -> None:
    b = TileBuilder(Block())
    assert b.constant(1.5, "tile<4xf16>").owner.attrs["value"].bits == (0x3E00,)
    assert b.constant([-1, 2], "tile<2xi8>").owner.attrs["value"].bits == (0xFF, 2)
    assert type_of(TOKEN) is type_of("token") is TOKEN


def scalar() -> tuple[TileBuilder, Any]:
    b = TileBuilder(Block())
    return b, b.constant(1, "tile<f32>")


BAD = [
    (lambda b, x: b("adff", x, x), "Tile IR has no operation 'adff'\n  hint: did you mean addf?"),
    (lambda b, x: b("addf", x), "cuda_tile.addf: the operand 'rhs' is missing"),
    (lambda b, x: b("addf", x, x, x), "cuda_tile.addf: 1 operands too many"),
    (lambda b, x: b("addf", x, x, types=["tile<f32>"]), "cuda_tile.addf: 1 result types too many"),
    (lambda b, x: b("exti", x), "cuda_tile.exti: the type of 'to' does not follow, give types"),
    (lambda b, x: b("addf", x, x, rounding="zero"), "cuda_tile.addf has no attribute 'rounding'"),
    (lambda b, _: b.constant(1, "token"), "expected a tile of numbers as its type, got token"),
    (lambda b, _: b.constant([1, 2], "tile<4xi8>"), "2 numbers for tile<4xi8>, expected 1 or 4"),
    (lambda *_: type_of("tile<3xf32>"), "all dimensions must be powers of two, got 3"),
    (lambda *_: type_of("tile<f32> token"), "expected the end of the type"),
]


@pytest.mark.parametrize(("make", "text"), BAD)
def test_what_is_refused(make: Any, text: str) -> None:
    with pytest.raises(VerifyError) as caught:
        make(*scalar())
    assert text in str(caught.value)


def test_a_broken_rule_is_found_when_the_module_is_finished() -> None:
    m = ModuleBuilder("m")
    with m.entry("k", x="tile<i32>") as b:
        b("addf", *b.args, *b.args)
    with pytest.raises(VerifyError, match=r"'cuda_tile.addf' op operand #0 must be"):
        m.verified()
