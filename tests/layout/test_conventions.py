"""Where NVIDIA's four implementations disagree: our choice, one test per row of docs/algebra.md."""

from __future__ import annotations

import pytest

from tilewright.errors import LayoutError
from tilewright.layout import (
    Layout,
    blocked_product,
    ceil_div,
    coalesce,
    compact_col_major,
    complement,
    composition,
    congruent,
    cosize,
    idx2crd,
    left_inverse,
    logical_divide,
    right_inverse,
    size,
    sym,
    zipped_divide,
)


def test_the_stride_of_a_size_1_mode_is_0_where_we_make_it() -> None:
    assert compact_col_major((4, 1, 8)) == (1, 0, 4)
    assert str(composition(Layout((4, 8), (8, 1)), Layout((1, 4), (7, 1)))) == "(1,4):(0,8)"
    given = Layout((4, 1), (1, 42))
    assert given.stride == (1, 42)  # any is accepted
    assert given != Layout((4, 1), (1, 0))
    assert str(coalesce(given)) == "4:1"


def test_run_time_sizes_that_may_be_1_stay() -> None:
    n = sym("N")
    assert str(coalesce(Layout((4, n), (1, 8)))) == "(4,N):(1,8)"


def test_the_last_leaf_is_unbounded() -> None:
    assert str(composition(Layout((4, 1), (1, 42)), Layout(12))) == "(4,3):(1,42)"
    assert Layout((4, 2), (1, 10))(9) == 21
    assert idx2crd(9, (4, 2)) == (1, 2)


def test_negative_coordinates_mirror_positive_ones() -> None:
    a = Layout((4, (2, 3)), (6, (3, 1)))
    assert [a(-i) for i in range(30)] == [-a(i) for i in range(30)]
    assert idx2crd(-5, (4, 8)) == (-1, -1)


def test_a_scalar_is_not_a_tuple_of_one() -> None:
    assert not congruent(4, (4,))
    assert Layout(4) != Layout((4,))
    assert (str(Layout(4)), str(Layout((4,)))) == ("4:1", "(4,):(1,)")


def test_a_ragged_tile_is_counted_up_where_one_stride_walks_the_mode() -> None:
    assert str(zipped_divide(Layout(10), 4)) == "(4,3):(1,4)"
    assert str(zipped_divide(Layout((10, 6), (6, 1)), (4, 6))) == "((4,6),(3,1)):((6,1),(24,6))"


def test_a_ragged_tile_inside_a_mode_is_refused() -> None:
    with pytest.raises(LayoutError, match="cannot be cut into tiles 4:1"):
        zipped_divide(Layout((6, 8), (8, 1)), 4)


def test_composition_drops_modes_beyond_the_tiler_and_divides_keep_them() -> None:
    a = Layout((4, 8, 2))
    assert str(composition(a, (2,))) == "(2,):(1,)"
    assert str(logical_divide(a, (2,))) == "((2,2),8,2):((1,2),4,32)"


def test_complement_where_strides_do_not_nest() -> None:
    a = Layout((4, 2), (1, 5))
    assert str(complement(a)) == "1:0"  # the hole at 4 is too small for a copy
    assert str(complement(a, 20)) == "2:10"
    with pytest.raises(LayoutError, match="is not a multiple of 4, where its smaller modes end"):
        logical_divide(Layout(20), a)
    for no_copies in (Layout((3, 2), (2, 3)), Layout(4, -1)):
        with pytest.raises(LayoutError, match=r"interleave|negative stride"):
            complement(no_copies, 24)


def test_ceil_div_is_used_up_from_the_left() -> None:
    assert ceil_div((10, 7), 4) == (3, 7)


def test_blocked_product_keeps_block_and_pattern_apart() -> None:
    r = blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4)))
    assert str(r) == "((2,3),(5,4)):((5,10),(1,30))"
    assert str(coalesce(r, (1, 1))) == "(6,(5,4)):(5,(1,30))"


def test_right_inverse_steps_over_gaps() -> None:
    assert str(right_inverse(Layout((2, 4, 3), (0, 1, 4)))) == "12:2"
    assert str(right_inverse(Layout((4, 3, 2), (1, 100, 4)))) == "(4,2):(1,12)"


def test_left_inverse_is_held_to_its_law() -> None:
    for a in (Layout(4, 2), Layout((4, 2), (1, 16)), Layout((4, 4), (0, 1))):
        r = left_inverse(a)
        assert all(a(r(a(i))) == a(i) for i in range(size(a)))


def test_cosize_counts_backward_modes_like_forward_ones() -> None:
    assert cosize(Layout(4, -2)) == cosize(Layout(4, 2)) == 7


def test_a_static_extent_of_0_is_refused() -> None:
    with pytest.raises(LayoutError, match="an extent of 0 leaves no coordinate"):
        Layout((4, 0))
