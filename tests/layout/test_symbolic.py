"""Sizes with facts: what they show is used, what they do not is refused, and numbers agree."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import values

from tilewright.errors import LayoutError
from tilewright.layout import (
    ComposedLayout,
    E,
    Layout,
    Swizzle,
    Sym,
    blocked_product,
    coalesce,
    complement,
    composition,
    cosize,
    flat_divide,
    idx2crd,
    left_inverse,
    local_tile,
    logical_divide,
    logical_product,
    right_inverse,
    size,
    specialise,
    sym,
    tile_to_shape,
    zipped_divide,
)
from tilewright.layout.leaf import exact_div, provably_below

N, M, K = sym("N", divby=8), sym("M", divby=128), sym("K", divby=64)
FREE = sym("F")

# ---------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (192 * N, "192*N"),
        (N * 192 // 16, "12*N"),
        (24 * N // 16, "3*N/2"),
        (N // 8, "N/8"),
        (-N + 3, "-N+3"),
        (3 - N, "-N+3"),
        (N * M - M * N + 5, "5"),
        ((N + 7) // 8, "N/8"),
        ((N + 8) // 8, "N/8+1"),
        (N % 8, "0"),
        ((N + 3) % 8, "3"),
        (FREE // 7, "(F//7)"),
        (7 * (FREE // 7) + FREE % 7, "F"),
        ((M * N + N) // N, "M+1"),
        (5 // FREE, "(5//F)"),
        (FREE * FREE, "F*F"),
        ((N << 3) >> 3, "N"),
        (8 * N & 0x3F, "0"),
    ],
)
def test_canonical_form(expression: Any, text: str) -> None:
    assert str(expression) == text


def test_equal_expressions_are_equal_values() -> None:
    assert N // 8 * 8 == N
    assert (N + 1) * (N - 1) == N * N - 1
    assert hash((N + 1) * (N - 1)) == hash(N * N - 1)
    assert N != M
    assert sym("N") != N  # other facts: another size
    assert len({Layout((M, N), (N, 1)), Layout((M, 2 * N // 2), (N, 1))}) == 1


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9))
def test_arithmetic_agrees_with_ints(seed: int) -> None:
    """A random expression at numbers is the same arithmetic on these numbers."""
    rng = random.Random(seed)
    env = {"N": 8 * rng.randint(1, 9), "M": 128 * rng.randint(1, 3), "F": rng.randint(1, 30)}
    pairs: list[tuple[Any, int]] = [(N, env["N"]), (M, env["M"]), (FREE, env["F"]), (3, 3), (8, 8)]
    for _ in range(6):
        (x, a), (y, b) = rng.choice(pairs), rng.choice(pairs)
        op = rng.choice("++**-/%")
        if op == "+":
            pairs.append((x + y, a + b))
        elif op == "*" and abs(a * b) < 10**9:
            pairs.append((x * y, a * b))
        elif op == "-":
            pairs.append((x - y, a - b))
        elif op in "/%" and provably_below(0, y):
            pairs.append((x // y, a // b) if op == "/" else (x % y, a % b))
    for expression, number in pairs:
        got = expression.at(**env) if isinstance(expression, Sym) else expression
        assert got == number, expression
        if isinstance(expression, Sym):
            other, value = rng.choice(pairs)
            quotient = exact_div(expression, other)
            if quotient is not None and value:
                assert specialise(quotient, **env) * value == number
            if provably_below(expression, other):
                assert number < value


def test_what_facts_decide() -> None:
    index = sym("i", least=0, most=7)
    assert N >= 8
    assert N > 7
    assert not N < 8
    assert index < N
    assert index <= 7
    assert index % 8 == index
    assert index // 8 == 0
    assert idx2crd(index, (8, N)) == (index, 0)
    assert M % 4 < 4
    assert FREE % 7 < 7
    assert bool(N)
    assert exact_div(16 * N, N) == 16
    assert exact_div(M * N, 8 * N) == M // 8
    assert exact_div(N, 16) is None


def test_at_replaces_what_it_is_given() -> None:
    assert (N // 8 * M).at(N=64, M=128) == 1024
    assert str((N // 8 * M).at(N=64)) == "8*M"
    assert (FREE // 7 + FREE % 7).at(F=20) == 8


# ---------------------------------------------------------------- case A07


@pytest.mark.parametrize("number", [8, 64, 8192])
def test_a07_specialised_answers_are_the_static_ones(number: int) -> None:
    merged = coalesce(Layout((192, N), (1, 192)))
    assert str(merged) == "192*N:1"
    assert specialise(merged, N=number) == coalesce(Layout((192, number), (1, 192)))

    inverse = right_inverse(Layout((16, N), (1, 16)))
    assert str(inverse) == "16*N:1"
    assert specialise(inverse, N=number) == right_inverse(Layout((16, number), (1, 16)))

    a, strides = Layout((4096, 8192), (1, 4096)), (E(0), 8 * E(1), E(1), 32 * E(0))
    composed = composition(a, Layout((32, N // 8, 8, 128), strides))
    assert str(composed) == "(32,N/8,8,128):(1,32768,4096,32)"
    static = composition(a, Layout((32, number // 8, 8, 128), strides))
    got = specialise(composed, N=number)
    assert got.shape == static.shape
    assert values(got, 4096) == values(static, 4096)


# ---------------------------------------------------------------- the algebra over symbols


def test_facts_let_a_flat_composition_through() -> None:
    rows = Layout((M, N), (N, 1))
    assert str(composition(rows, Layout(8))) == "8:N"
    assert str(composition(rows, Layout((N, M), (M, 1)))) == "(N,M):(1,N)"
    assert str(logical_divide(rows, Layout(8))) == "(8,(M/8,N)):(N,(8*N,1))"
    assert str(zipped_divide(rows, (128, 8))) == "((128,8),(M/128,N/8)):((N,1),(128*N,8))"


def test_inverses_and_complements_of_symbolic_strides() -> None:
    rows = Layout((M, N), (N, 1))
    assert str(left_inverse(rows)) == "(N,M):(M,1)"
    assert str(right_inverse(rows)) == "(N,M):(M,1)"
    assert str(complement(rows, 4 * M * N)) == "4:M*N"
    assert str(complement(Layout((4, 8), (N, 1)), 4 * N)) == "N/8:8"
    assert str(left_inverse(Layout((4, 4), (1, sym("L", divby=4))))) == "(L,4):(1,4)"


OPS: list[Any] = [
    coalesce,
    right_inverse,
    size,
    cosize,
    lambda a: zipped_divide(a, (128, 8)),
    lambda a: flat_divide(a, (64, None)),
    lambda a: logical_divide(a, Layout(8)),
    lambda a: composition(a, Layout((8, 4), (1, 8))),
    lambda a: composition(a, (Layout(16, 8), 8)),
    lambda a: local_tile(a, (32, 8), (2, None))[0],
    lambda a: local_tile(a, (32, 8), (2, 0))[1],
    lambda a: logical_product(Layout((4, 2), (2, 1)), a),
    lambda a: blocked_product(Layout((4, 2), (2, 1)), a),
    lambda a: a((3, 5)),
    lambda a: idx2crd(77, a.shape),
]
LAYOUTS = [
    Layout((M, N), (N, 1)),
    Layout((M, N), (1, M)),
    Layout((M, N)),
    Layout((M, (8, N // 8)), (8, (1, 8 * M))),
    Layout((M, K), (K + 8, 1)),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("sizes", [(128, 8, 64), (256, 64, 128), (384, 24, 192)])
def test_specialised_answers_are_the_static_ones(layout: Layout, op: Any, sizes: Any) -> None:
    env = dict(zip("MNK", sizes, strict=True))
    try:
        symbolic = op(layout)
    except LayoutError:
        return
    got, want = specialise(symbolic, **env), op(specialise(layout, **env))
    if isinstance(want, Layout):
        assert size(got) == size(want)
        count = min(size(want), 700)
        assert values(got, count) == values(want, count)
    else:
        assert got == want


def test_composed_layouts_and_products() -> None:
    tile = tile_to_shape(Layout((8, 64), (64, 1)), (M, K), (1, 0))
    assert str(tile) == "((8,M/8),(64,K/64)):((64,8*K),(1,512))"
    swizzled = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((M, 64), (64, 1)))
    assert swizzled((2 * M, 0)) == 128 * M  # a multiple of 512: no bit that is read is set
    assert specialise(swizzled, M=128)((9, 8)) == 576
    assert specialise((N, (4, N * E(1))), N=16) == (16, (4, 16 * E(1)))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: N < 9, r"cannot show whether N < 9: the facts about N do not decide it"),
        (lambda: N >= M, r"cannot show whether N >= M: the facts about M, N do not decide it"),
        (lambda: bool(FREE - 1), r"cannot show whether F-1 != 0"),
        (lambda: int(N), r"N is no number yet: it depends on N"),
        (lambda: 4 // (FREE - 1), r"cannot show that the divisor F-1 is positive"),
        (lambda: N & 8, r"cannot show which of the bits 0b1000 of N are set"),
        (lambda: N ^ 8, r"cannot exclusive-or the symbolic value N with 8"),
        (lambda: N.at(N=12), r"N = 12 breaks the facts about N: a multiple of 8, at least 1"),
        (lambda: sym("i", most=7).at(i=8), r"i = 8 breaks .* a multiple of 1, at least 1, at most"),
        (lambda: sym("2x"), r"sym: expected a name like 'N', got '2x'"),
        (lambda: sym("N", divby=0), r"sym: N has divby=0, expected an int >= 1"),
        (lambda: sym("N", divby=8, most=7), r"no size N >= 0 is a multiple of 8 from 1 to 7"),
        (
            lambda: composition(Layout((FREE, 8), (8, 1)), Layout(8)),
            r"cannot prove that 8:1 of B walks mode 0 of A evenly: extent F, stride 1 and count 8",
        ),
        (
            lambda: composition(Layout((N, 8), (8, 1)), Layout((8, 2), (1, 4))),
            r"modes of B carry across mode 0 of A \(size N\): no carry between the modes can be",
        ),
        (
            lambda: composition(Layout((N, 8), (8, 1)), Layout((2, 2), (1, -1))),
            r"cannot prove that 2:-1 of B walks mode 0",
        ),
        (
            lambda: left_inverse(Layout((4, 4), (1, FREE))),
            r"facts that show that 1 is a multiple of 4\*F",
        ),
        (
            lambda: complement(Layout((4, 8), (FREE, N)), 64),
            r"run-time strides in 2 modes; cannot show that N divides F",
        ),
        (
            lambda: complement(Layout((FREE, 8), (1, 4)), 64),
            r"cannot show that stride 4 of \(F,8\):\(1,4\) is a multiple of F",
        ),
    ],
)
def test_refusals(ask: Any, text: str) -> None:
    with pytest.raises(LayoutError, match=text):
        ask()


def test_a_hint_names_the_fact_that_would_help() -> None:
    with pytest.raises(LayoutError) as caught:
        composition(Layout((FREE, 8), (8, 1)), Layout(8))
    assert "sym('N', divby=8)" in str(caught.value)
    # With that fact, it goes through.
    assert str(composition(Layout((N, 8), (8, 1)), Layout(8))) == "8:8"
