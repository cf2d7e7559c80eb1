"""Derivations end in the result of the algebra, and each step is right."""

from __future__ import annotations

import pytest

from tilewright.errors import LayoutError
from tilewright.layout.compose import composition
from tilewright.layout.divide import zipped_divide
from tilewright.layout.inverse import complement, right_inverse
from tilewright.layout.layout import Layout
from tilewright.layout.multiply import raked_product
from tilewright.layout.swizzle import ComposedLayout, Swizzle
from tilewright.viz.derive import (
    derive_complement,
    derive_composition,
    derive_divide,
    derive_inverse,
    derive_product,
    derive_swizzle,
    tiler_text,
)


def said(derivation: object) -> dict[str, str]:
    return {step.says: step.value for step in derivation.steps}  # type: ignore[attr-defined]


def test_composition() -> None:
    a, b = Layout((10, 2), (16, 4)), Layout((5, 4), (1, 5))
    derivation = derive_composition(a, b)
    assert derivation.result == composition(a, b)
    assert said(derivation)["A o 5:1"] == "5:16"
    assert said(derivation)["A o 4:5"] == "(2,2):(80,4)"


def test_composition_by_mode() -> None:
    derivation = derive_composition(Layout((8, 16), (16, 1)), (Layout(2, 4), None))
    assert said(derivation)["mode 0 of A o 2:4"] == "2:64"
    assert said(derivation)["mode 1 of A o _"] == "16:1"


def test_composition_with_a_swizzled_layout() -> None:
    a = ComposedLayout(Swizzle(2, 1, 3), 0, Layout((8, 8), (8, 1)))
    assert derive_composition(a, 8).result == composition(a, 8)


def test_complement() -> None:
    a = Layout((2, 2), (1, 6))
    derivation = derive_complement(a, 24)
    assert derivation.result == complement(a, 24)
    assert said(derivation)["mode 2:6 begins at 6 where 2 is free"] == "hole 3:2"
    assert [s.says for s in derive_complement(Layout(4, 2)).steps][-1] == "complement"
    assert str(derive_complement(Layout(1, 0), 8).result) == "8:1"


def test_divide() -> None:
    a = Layout((12, 32))
    by_layout = derive_divide(a, Layout((4, 8), (1, 4)))
    assert str(by_layout.result) == "((4,8),12):((1,4),32)"
    assert said(by_layout)["complement B*"] == "12:32"
    zipped = derive_divide(a, (4, 8), "zipped")
    assert zipped.result == zipped_divide(a, (4, 8))
    assert said(zipped)["mode 1 / 8"] == "(8,4):(12,96)"
    assert derive_divide(a, None).result == a
    assert str(derive_divide(Layout(12), 4).result) == "(4,3):(1,4)"


def test_product() -> None:
    a, b = Layout((2, 5), (5, 1)), Layout((3, 4))
    raked = derive_product(a, b, "raked")
    assert raked.result == raked_product(a, b)
    assert said(raked)["copies A* o B"] == "(3,4):(10,30)"
    assert said(derive_product(a, (3, 4)))["mode 0 * 3"] == "(2,3):(5,1)"
    assert str(derive_product(Layout(4), 3).result) == "(4,3):(1,4)"


def test_inverse() -> None:
    a = Layout((2, 4, 6), (4, 1, 8))
    assert derive_inverse(a).result == right_inverse(a)


def test_swizzle() -> None:
    derivation = derive_swizzle(Swizzle(3, 3, 4), Layout((128, 8), (1, 128)))
    assert said(derivation)["source bits"] == "7 to 9, mask 0b1110000000"
    assert said(derivation)["target bits"] == "3 to 5, mask 0b111000"
    assert "source bits" not in said(derive_swizzle(Swizzle(0, 3, 3), Layout(8)))


def test_tiler_text() -> None:
    assert tiler_text((Layout(4, 2), (2, None))) == "<4:2,(2,_)>"
    assert tiler_text(None) == "_"


def test_refusals() -> None:
    with pytest.raises(LayoutError, match="divide: no form 'blocked', expected one of logical, zi"):
        derive_divide(Layout(8), 2, "blocked")
    with pytest.raises(LayoutError, match="product: no form 'x'"):
        derive_product(Layout(8), 2, "x")
    with pytest.raises(LayoutError, match="inverse: no form 'up', expected one of right, left"):
        derive_inverse(Layout(8), "up")
    with pytest.raises(LayoutError, match="does not walk mode 0"):
        derive_composition(Layout((4, 6, 8), (2, 3, 5)), Layout(6, 3))
