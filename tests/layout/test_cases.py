"""Field reports A01-A08 and A16, each with its right answer."""

from __future__ import annotations

import pytest
from layout_strategies import Sym, specialise, values, var

from tilewright.errors import LayoutError
from tilewright.layout import (
    E,
    Layout,
    Swizzle,
    blocked_product,
    coalesce,
    complement,
    composition,
    cosize,
    crd2idx,
    idx2crd,
    left_inverse,
    logical_divide,
    logical_product,
    make_layout,
    right_inverse,
    size,
    slice_and_offset,
    zipped_divide,
)


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        (((2, 3), (1, 2)), ((2, 3), (3, 1)), "(2,3):(3,1)"),
        (((6, 2), (8, 3)), ((4, 3), (3, 1)), "((2,2),3):((24,3),8)"),
        (((32, 128), (128, 1)), ((30, 128), (1, 32)), "(30,128):(128,1)"),
        (((4, 1), (1, 42)), (12, 1), "(4,3):(1,42)"),
    ],
)
def test_a01_accepted(a: object, b: object, want: str) -> None:
    assert str(composition(Layout(*a), Layout(*b))) == want  # type: ignore[misc]


@pytest.mark.parametrize(
    ("a", "b", "mode"),
    [
        (((4, 6, 8), (2, 3, 5)), (6, 3), "6:3 of B does not walk mode 0 of A evenly"),
        (((2, 3), (4, 1)), ((3, 4), (3, 1)), "3:3 of B does not walk mode 0 of A evenly"),
        (
            (((4, 4), 6, 8), ((4, 0), 8, 6)),
            ((1, 2, 4), (12, 12, 8)),
            r"carry across mode 1 of A \(size 4\): A\(B\(3\)\) = 8, but by modes 0",
        ),
    ],
)
def test_a01_refused_naming_both_layouts_and_the_mode(a: object, b: object, mode: str) -> None:
    left, right = Layout(*a), Layout(*b)  # type: ignore[misc]
    with pytest.raises(LayoutError, match=mode) as caught:
        composition(left, right)
    assert f"A = {left}" in str(caught.value)
    assert f"B = {right}" in str(caught.value)


def test_a02_layout_tiler_and_by_mode_tiler_are_distinct() -> None:
    a = Layout((12, 32), (1, 12))
    r = logical_divide(a, Layout((4, 8), (1, 4)))
    assert str(r) == "((4,8),12):((1,4),32)"
    assert sorted(values(r)) == list(range(384))
    assert str(zipped_divide(a, (4, 8))) == "((4,8),(3,4)):((1,12),(4,96))"


def test_a03_divide_never_drops_elements() -> None:
    a = Layout((12, (4, 8)), (7, (1, 30)))
    assert (size(a), cosize(a)) == (384, 291)
    with pytest.raises(LayoutError, match=r"\(12,\(4,8\)\):\(7,\(1,30\)\) cannot be cut into"):
        zipped_divide(a, 128)
    with pytest.raises(LayoutError, match="must be static here"):
        zipped_divide(a, var("n"))
    r = zipped_divide(a, 96)
    assert str(r) == "((12,4,2),4):((7,1,30),60)"
    assert sorted(values(r)) == sorted(values(a))


def test_a04_products() -> None:
    r = blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3)))
    assert str(r) == "((2,3),(5,4)):((5,10),(1,30))"
    assert str(coalesce(r, (1, 1))) == "(6,(5,4)):(5,(1,30))"
    r = logical_product(Layout((32, 8)), Layout((4, 1)))
    assert str(r) == "((32,8),(4,1)):((1,32),(256,0))"


def test_a05_complement_and_coalesce() -> None:
    rest = complement(Layout(6, 4), 24)
    assert str(rest) == "4:1"
    both = make_layout(rest, Layout(6, 4))
    assert str(both) == "(4,6):(1,4)"
    assert str(coalesce(both)) == "24:1"
    assert str(coalesce(complement(Layout(4, 2), 8))) == "2:1"
    assert str(complement(Layout((2, 2), (1, 6)), 24)) == "(3,2):(2,12)"


def test_a06_inverses_by_property() -> None:
    a = Layout((2, 4, 6), (4, 1, 8))
    r = right_inverse(a)
    assert str(r) == "(4,2,6):(2,1,8)"
    assert all(a(r(i)) == i for i in range(48))
    for b in (Layout(4, 2), Layout((4, 2), (1, 16)), Layout(((2, 2), (2, 2)), ((1, 4), (8, 32)))):
        inverse = left_inverse(b)
        assert all(inverse(b(i)) == i for i in range(size(b)))


def test_a07_run_time_sizes() -> None:
    n = var("N")
    assert str(coalesce(Layout((192, n), (1, 192)))) == "(192*N):1"
    assert str(right_inverse(Layout((16, n), (1, 16)))) == "(16*N):1"
    a = Layout((4096, 8192), (1, 4096))
    strides = (E(0), 8 * E(1), E(1), 32 * E(0))
    r = composition(a, Layout((32, n // 8, 8, 128), strides))
    assert str(r) == "(32,(N//8),8,128):(1,32768,4096,32)"
    for number in (8, 64, 8192):
        static = composition(a, Layout((32, number // 8, 8, 128), strides))
        assert values(specialise(r, N=number), 4096) == values(static, 4096)
        assert specialise(coalesce(Layout((192, n), (1, 192))), N=number) == Layout(192 * number)


def test_a08_coordinates_and_slicing() -> None:
    assert idx2crd(11, (5, 4)) == (1, 2)
    assert idx2crd(7, (1, (2, 2)), (0, (1, 2))) == (0, (1, 1))
    a = Layout(((2, 2), (2, 2)), ((1, 8), (4, 16)))
    sub, offset = slice_and_offset((1, None), a)
    assert values(sub) == values(Layout((2, 2), (4, 16)))
    assert offset == 1
    assert all(a((1, c)) == offset + sub((c,)) for c in range(4))
    with pytest.raises(LayoutError, match="called with the wildcard coordinate") as caught:
        a((1, None))
    assert "slice_and_offset" in str(caught.value)


def test_a11_swapped_arguments_are_named() -> None:
    with pytest.raises(LayoutError, match="expected crd2idx\\(coord, shape, stride\\)"):
        crd2idx(Layout((4, 4)), (1, 1))
    with pytest.raises(LayoutError, match="right_inverse: expected a layout, got int"):
        right_inverse(1)  # type: ignore[arg-type]


def _conflict_ways(words: list[int]) -> int:
    """How many passes 32 banks of 4 bytes need: the most distinct words wanted from one bank."""
    banks: dict[int, set[int]] = {}
    for w in words:
        banks.setdefault(w % 32, set()).add(w)
    return max(len(ws) for ws in banks.values())


@pytest.mark.parametrize(("row", "ways"), [(32, 32), (64, 32), (16, 16), (33, 1)])
def test_a16_column_reads(row: int, ways: int) -> None:
    assert _conflict_ways([Layout((32, 32), (row, 1))((i, 3)) for i in range(32)]) == ways


@pytest.mark.parametrize(("bits", "ways"), [(5, 1), (3, 4), (2, 8)])
def test_a16_swizzled_column_reads(bits: int, ways: int) -> None:
    r = composition(Swizzle(bits, 0, 5), Layout((32, 32), (32, 1)))
    assert _conflict_ways([r((i, 3)) for i in range(32)]) == ways


@pytest.mark.parametrize(
    ("swizzle", "ways"), [(None, 8), (Swizzle(3, 3, 4), 1), (Swizzle(3, 3, 3), 2)]
)
def test_a16_ldmatrix_of_m_major_halves(swizzle: Swizzle | None, ways: int) -> None:
    """8 rows of 16 bytes from a 16-bit tile (128,8):(1,128): each row covers four banks."""
    base = Layout((128, 8), (1, 128))
    f = base if swizzle is None else composition(swizzle, base)
    words = [f((0, k)) // 2 + w for k in range(8) for w in range(4)]
    assert _conflict_ways(words) == ways
    if swizzle == Swizzle(3, 3, 4):
        assert all(f((i, k)) == f((0, k)) + i for k in range(8) for i in range(8))


def test_specialised_expressions_are_small() -> None:
    n = var("N")
    r = zipped_divide(Layout((n, 64), (64, 1)), (128, 64))
    assert isinstance(r.shape[1][0], Sym)
    assert r.shape[1][0].nodes() == 2
