"""IntTuple arithmetic, coordinates and order relations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import flat, shapes

from tilewright.errors import LayoutError
from tilewright.layout import (
    E,
    ScaledBasis,
    Swizzle,
    colex_less,
    compact_col_major,
    compact_row_major,
    compatible,
    congruent,
    crd2crd,
    crd2idx,
    elem_less,
    elem_scale,
    has_underscore,
    idx2crd,
    increment,
    inner_product,
    lex_less,
    make_basis_like,
    make_swizzle,
    product,
    product_each,
    product_like,
    repeat,
    repeat_like,
    round_up,
    shape_div,
    transform_leaf,
    unwrap,
    weakly_congruent,
    wrap,
)
from tilewright.layout.int_tuple import flatten_tuple, unflatten, zip_tuples
from tilewright.layout.leaf import add, ceil_div_leaf, floordiv, mod, sub


@settings(max_examples=200, deadline=None)
@given(shapes())
def test_index_and_coordinate_are_inverse(shape: Any) -> None:
    coord = idx2crd(0, shape)
    for i in range(product(shape)):
        assert coord == idx2crd(i, shape)
        assert crd2idx(coord, shape) == i
        coord = increment(coord, shape)


@settings(max_examples=200, deadline=None)
@given(shapes())
def test_compact_strides(shape: Any) -> None:
    column, row = compact_col_major(shape), compact_row_major(shape)
    assert congruent(column, shape)
    for stride in (column, row):
        offsets = {crd2idx(i, shape, stride) for i in range(product(shape))}
        assert offsets == set(range(product(shape)))
    assert all(d == 0 for s, d in zip(flat(shape), flat(column), strict=True) if s == 1)


@settings(max_examples=200, deadline=None)
@given(shapes(), shapes())
def test_relations(a: Any, b: Any) -> None:
    assert unflatten(flatten_tuple(a), a) == a
    if congruent(a, b):
        assert weakly_congruent(a, b)
    if compatible(a, b):
        assert weakly_congruent(a, b)
        assert product(a) == product(b)
        assert all(crd2idx(idx2crd(i, a), b) == i for i in range(product(a)))
    assert not (lex_less(a, b) and lex_less(b, a))
    assert not (colex_less(a, b) and colex_less(b, a))


@settings(max_examples=200, deadline=None)
@given(st.integers(-50, 50), st.integers(1, 9))
def test_leaf_division_truncates(a: int, b: int) -> None:
    assert b * floordiv(a, b) + mod(a, b) == a
    assert abs(mod(a, b)) < b
    assert a * mod(a, b) >= 0
    if a >= 0:
        assert (ceil_div_leaf(a, b) - 1) * b < a <= ceil_div_leaf(a, b) * b


def test_small_functions() -> None:
    assert crd2crd((1, (2, 3)), (2, (3, 4)), (2, 12)) == (1, (11))
    assert product_each(((2, 3), 4)) == (6, 4)
    assert product_like((2, (3, 4)), (1, (1, 1))) == (2, (3, 4))
    assert round_up((7, 5, 3), (2, 2)) == (8, 6, 3)
    assert elem_scale((2, 3), ((4, 2), 5)) == (16, 15)
    assert transform_leaf(lambda x, y: x + y, (1, (2, 3)), (4, (5, 6))) == (5, (7, 9))
    assert repeat_like((1, (2, 3)), None) == (None, (None, None))
    assert repeat(1, 3) == (1, 1, 1)
    assert (wrap(3), unwrap(((3,),))) == ((3,), 3)
    assert has_underscore((1, (2, None)))
    assert zip_tuples((1, 2), (3, 4)) == ((1, 3), (2, 4))
    assert elem_less((3, (1, 1)), (4, (2, 2)))
    assert make_basis_like(4) == 1
    assert add((1, (2,)), (3,)) == (4, (2,))
    assert sub((5, 8, 3), (1, 2)) == (4, 6, 3)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: shape_div(7, 3), "neither of 7 and 3 divides the other"),
        (lambda: shape_div((4, 4), (2, 2, 2)), "ranks of .* differ"),
        (lambda: inner_product((1, 2), (1, 2, 3)), "inner_product: profiles differ"),
        (lambda: transform_leaf(max, (1, 2), (1, (2, 3))), "transform_leaf: profiles differ"),
        (lambda: unflatten((1, 2), (0, (0, 0))), "2 values for 3 leaves"),
        (lambda: product_like((2, 3), (1, (1, 1))), "has no parts at the leaves"),
        (lambda: round_up((4, 8), 3), "is not a prefix of the modes"),
        (lambda: elem_scale((1, 2), 3), "is not a prefix of the profile"),
        (lambda: elem_less((1, 2, 3), (4, 8)), "does not fit shape"),
        (lambda: crd2idx((1, 2, 3), (4, 8)), "rank 3 against 2"),
        (lambda: idx2crd((1, 2), 8), "idx2crd: index .* does not fit"),
        (lambda: idx2crd(3, (0, 4)), "mode of size 0"),
        (lambda: add(3, (1, 2)), "cannot add scalar 3 to coordinate"),
        (lambda: sub(3, (1, 2)), "one is a scalar, one a coordinate"),
        (lambda: floordiv(3, 0), "division of 3 by a mode of size 0"),
        (lambda: zip_tuples((1, 2), (3,)), "zip: ranks differ"),
        (lambda: ScaledBasis(1, ()), "expected axis numbers >= 0"),
        (lambda: ScaledBasis(1, (-1,)), "expected axis numbers >= 0"),
        (lambda: ScaledBasis(1.5, 0), "ScaledBasis value: expected an int"),
        (lambda: Swizzle(3, 0, 2), r"Swizzle<3,0,2>: expected bits >= 0"),
        (lambda: Swizzle(1.0, 0, 2), "expected three ints"),  # type: ignore[arg-type]
        (lambda: make_swizzle(0b11, 0b100), "not runs of equally many bits"),
        (lambda: make_swizzle(0b11, 0b110), "overlap"),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(LayoutError, match=text):
        call()


def test_basis_arithmetic() -> None:
    assert 2 * E(0) == E(0) * 2 == ScaledBasis(2, (0,))
    assert E([0, 1]) == E(0, 1)
    assert str(3 * E(0, 1)) == "3@1@0"
    assert E(0, 1).at(5) == ((0, 5),)
    assert E(1) != E(0) != 1
    assert hash(E(1)) == hash(ScaledBasis(1, 1))
    assert crd2idx((1, 2), (4, 8), (E(0), E(1))) == (1, 2)
