"""The Layout value: construction, evaluation, modes, identity, notation."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import extent, injective_layouts, layouts, value, values

from tilewright.errors import LayoutError
from tilewright.layout import (
    ComposedLayout,
    E,
    Layout,
    Swizzle,
    append,
    coalesce,
    cosize,
    depth,
    dice,
    domain_offset,
    filter,
    filter_zeros,
    flatten,
    get,
    group_modes,
    idx2crd,
    is_static,
    make_fragment_like,
    make_identity_layout,
    make_layout,
    make_layout_like,
    make_layout_right,
    make_ordered_layout,
    parse_layout,
    prepend,
    rank,
    select,
    shape,
    size,
    slice_,
    slice_and_offset,
    stride,
    take,
    unflatten,
)


@settings(max_examples=200, deadline=None)
@given(layouts())
def test_evaluation_is_the_definition(a: Layout) -> None:
    for i in range(extent(a) + 3):
        assert a(i) == value(a, i)
        assert a(idx2crd(i, a.shape)) == value(a, i)


@settings(max_examples=200, deadline=None)
@given(layouts())
def test_notation_round_trips(a: Layout) -> None:
    assert parse_layout(str(a)) == a
    assert eval(repr(a)) == a
    assert pickle.loads(pickle.dumps(a)) == a
    assert hash(copy.deepcopy(a)) == hash(a)


@settings(max_examples=200, deadline=None)
@given(layouts())
def test_coalesce_laws(a: Layout) -> None:
    r = coalesce(a)
    assert depth(r) <= 1
    assert values(r) == values(a)
    by_mode = coalesce(a, (1,) * rank(a)) if depth(a) else coalesce(a)
    assert values(by_mode) == values(a)
    assert rank(by_mode) == rank(a) if depth(a) else True


@settings(max_examples=100, deadline=None)
@given(layouts())
def test_filters_keep_the_image(a: Layout) -> None:
    assert set(values(filter(a))) == set(values(a))
    assert set(values(filter_zeros(a))) == set(values(a))
    assert max(values(a)) + 1 == cosize(a)


@settings(max_examples=200, deadline=None)
@given(injective_layouts())
def test_coordinates_of_offsets(a: Layout) -> None:
    for i in range(extent(a)):
        assert a(a.get_hier_coord(a(i))) == a(i)
        assert a(a.get_flat_coord(a(i))) == a(i)
        assert a.get_1d_coord(a(i)) == i


@settings(max_examples=100, deadline=None)
@given(layouts(), st.data())
def test_slice_law(a: Layout, data: st.DataObject) -> None:
    if depth(a) == 0:
        return
    at = idx2crd(data.draw(st.integers(0, extent(a) - 1)), a.shape)
    k = data.draw(st.integers(0, rank(a) - 1))
    sub, offset = slice_and_offset((*at[:k], None, *at[k + 1 :]), a)
    assert a(at) == offset + sub((at[k],))
    moved, origin = domain_offset(at, a)
    assert moved is a
    assert origin == a(at)


def test_make_layout_forms() -> None:
    assert make_layout((4, 8), (8, 1)) == make_layout([4, 8], stride=[8, 1])
    assert str(make_layout_right((4, 1, 8))) == "(4,1,8):(8,0,1)"
    assert str(make_ordered_layout((2, (2, 2), 2), (2, (0, 1), 3))) == "(2,(2,2),2):(4,(1,2),8)"
    assert str(make_layout(Layout(4))) == "(4,):(1,)"
    assert str(make_layout_like(Layout((2, 3), (30, -1)))) == "(2,3):(3,1)"
    assert str(make_fragment_like(Layout((4, 4, 4), (1, 0, 4)))) == "(4,4,4):(1,4,16)"
    sw = ComposedLayout(Swizzle(1, 0, 3), 0, Layout((4, 8), (8, 1)))
    assert str(make_layout_like(sw)) == str(make_layout_like(sw.outer)) == "(4,8):(8,1)"
    assert str(make_fragment_like(sw)) == "(4,8):(1,4)"


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: Layout((4, 8), (1,)), r"different profiles: \(4,8\) against \(1,\)"),
        (lambda: Layout((4, (2, 2)), (1, 4)), r"different profiles at mode \(1,\)"),
        (lambda: Layout(-4), "expected extents >= 1, got -4"),
        (lambda: Layout((E(0), 4)), "expected extents >= 1, got 1@0"),
        (lambda: Layout(4.0), "got float 4.0"),
        (lambda: Layout("4"), "got str '4'"),
        (lambda: Layout((4, None)), "got NoneType None"),
        (lambda: Layout(4, "x"), "stride: expected an int"),
        (lambda: make_layout(Layout(4), 3, 2), "expected one shape, or layouts; got 4:1, 3, 2"),
        (lambda: make_layout(Layout(4), stride=2), "layouts bring their own strides"),
        (lambda: make_ordered_layout((4, 8), ((0, 1), 2)), "does not fit shape"),
        (lambda: Layout((4, 8))((1, 2, 3)), "does not fit shape .4,8.: rank 3 against 2"),
        (lambda: Layout(8)((1, 2)), "does not fit shape 8"),
        (lambda: Layout(8)(1.5), "coordinate: expected an int or a run-time integer"),
        (lambda: Layout((4, 4), (1, 2)).get_hier_coord(3), "do not nest: stride 2"),
        (lambda: Layout((4, 8))[5], r"mode 5 at depth 0 of \(4,8\) is not in \[0, 2\)"),
        (lambda: coalesce(Layout((4, 8)), (1, 1, 1)), "profile .* has 3 modes"),
        (lambda: group_modes(Layout((4, 8)), 1, 1), r"\[1, 1\) is not a range of modes"),
        (lambda: select(Layout((4, 8)), [2]), r"mode 2 is not in \[0, 2\)"),
        (lambda: slice_((None, 1, 1), Layout((4, 8))), "rank 3 against 2"),
        (lambda: append(Layout((4, 8)), Layout(1, 0), 1), "already has more than 1 modes"),
        (lambda: parse_layout("(4,8:(1,4)"), "parse_layout: expected"),
        (lambda: parse_layout("4:x"), "parse_layout: expected a number"),
        (lambda: parse_layout("4:1 5"), "expected end of text"),
        (lambda: size((4, (3, 2)), mode=[1, 2]), r"mode 2 at depth 1"),
    ],
)
def test_refusals(build: object, text: str) -> None:
    with pytest.raises(LayoutError, match=text):
        build()  # type: ignore[operator]


def test_immutable_hashable_iterable() -> None:
    a = Layout((4, (2, 3)), (6, (3, 1)))
    with pytest.raises(AttributeError, match="immutable"):
        a.shape = 4  # type: ignore[misc]
    assert {a: 1}[Layout((4, (2, 3)), (6, (3, 1)))] == 1
    assert [str(m) for m in a] == ["4:6", "(2,3):(3,1)"]
    assert a[-1] == a[1]
    assert a[1, 0] == Layout(2, 3)
    assert a != 4
    assert len(a) == 2


def test_foreign_integers_and_sequences_are_normalised() -> None:
    numpy = pytest.importorskip("numpy")
    a = Layout([numpy.int64(4), 8], (numpy.int32(8), 1))
    assert a == Layout((4, 8), (8, 1))
    assert type(a.shape[0]) is int


def test_questions_and_mode_changes_on_both_kinds() -> None:
    a = Layout((4, (2, 3)), (6, (3, 1)))
    c = ComposedLayout(Swizzle(1, 0, 3), 2, a)
    for x in (a, c):
        assert (size(x), rank(x), depth(x), size(x, mode=[1])) == (24, 2, 2, 6)
        assert shape(x, mode=1) == (2, 3)
        assert stride(x, mode=[1, 0]) == 3
        assert flatten(x).shape == (4, 2, 3)
        assert select(x, [1, 0]).shape == ((2, 3), 4)
        assert take(x, 0, 1).shape == (4,)
        assert get(x, 1).shape == (2, 3)
        assert group_modes(x, 0).shape == ((4, (2, 3)),)
        assert append(x, Layout(5, 24)).shape == (4, (2, 3), 5)
        assert prepend(x, Layout(1, 0), 3).shape == (1, 4, (2, 3))
        assert unflatten(flatten(x), (0, (0, 0))).shape == (4, (2, 3))
        assert slice_((None, 0), x).shape == (4,)
        assert dice((None, 0), x).shape == ((2, 3),)
        assert is_static(x)
        assert coalesce(x).shape == (4, 2, 3)
    assert c((1, 1)) == Swizzle(1, 0, 3)(2 + a((1, 1)))
    sub, offset = slice_and_offset((2, None), c)
    assert offset == 0
    assert [sub((i,)) for i in range(6)] == [c((2, i)) for i in range(6)]
    moved, offset = domain_offset((2, 1), c)
    assert (moved(0), offset) == (c((2, 1)), 0)
    assert select((1, (2, 3)), [1]) == ((2, 3),)


def test_identity_layout_is_the_identity() -> None:
    a = make_identity_layout((4, (2, 3)))
    assert all(a(i) == idx2crd(i, (4, (2, 3))) for i in range(24))
