"""Run-time leaves: no truth value is ever asked, and specialising gives the static answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import Sym, layouts, shapes, specialise, values, var

from tilewright.errors import LayoutError
from tilewright.layout import (
    ComposedLayout,
    E,
    Layout,
    Swizzle,
    coalesce,
    compact_col_major,
    compact_order,
    compact_row_major,
    complement,
    composition,
    coshape,
    cosize,
    crd2idx,
    elem_less,
    filter,
    flat_divide,
    group_modes,
    idx2crd,
    left_inverse,
    local_partition,
    local_tile,
    logical_divide,
    make_fragment_like,
    make_identity_layout,
    make_layout,
    make_layout_like,
    make_ordered_layout,
    product,
    recast_layout,
    right_inverse,
    size,
    slice_and_offset,
    tile_to_shape,
    upcast,
    zipped_divide,
)

M, N, K, LD, B = (var(n) for n in ("M", "N", "K", "ld", "b"))
ENV = {"M": 256, "N": 96, "K": 64, "ld": 72, "b": 3}


def agrees(symbolic: Any, static: Any, **env: int) -> None:
    """The symbolic result, evaluated at ENV, is the static result (layouts as functions)."""
    got = specialise(symbolic, **{**ENV, **env})
    if isinstance(got, Layout):
        assert got.shape == static.shape
        assert values(got, min(size(got), 512)) == values(static, min(size(static), 512))
    else:
        assert got == static


def cost(t: Any) -> int:
    """Operations that a result would trace."""
    if isinstance(t, Layout):
        return cost(t.shape) + cost(t.stride)
    if isinstance(t, tuple):
        return sum(map(cost, t))
    return (
        t.nodes()
        if isinstance(t, Sym)
        else cost(getattr(t, "basis_value", 0))
        if hasattr(t, "basis_value")
        else 0
    )


def test_the_double_refuses_to_be_a_truth_value() -> None:
    with pytest.raises(TypeError, match="has no truth at trace time"):
        bool(M == 4)


def test_local_tile_of_a_row_major_matrix() -> None:
    """The main use: a static tile of a run-time (M,K) matrix at tile m, all k tiles."""
    m = var("m")
    tile, offset = local_tile(Layout((M, K), (LD, 1)), (128, 32), (m, None))
    assert tile.shape[:2] == (128, 32)
    assert str(tile) == "(128,32,((K+31)//32)):(ld,1,32)"
    assert str(offset) in ("(m*(128*ld))", "(m*(ld*128))")
    static, at = local_tile(Layout((256, 64), (72, 1)), (128, 32), (1, None))
    agrees(tile, static)
    agrees(offset, at, m=1)


def test_local_tile_of_coordinates() -> None:
    m = var("m")
    tile, offset = local_tile(make_identity_layout((M, K)), (128, 32), (m, None))
    assert str(tile) == "(128,32,((K+31)//32)):(1@0,1@1,32@1)"
    assert specialise(offset, m=2, **ENV)[0] == 256
    assert tile((5, 7, 2)) == (5, 71)


@pytest.mark.parametrize("op", [zipped_divide, flat_divide, logical_divide])
@pytest.mark.parametrize("tiler", [(128, 32), (128,), (None, 16), (100, 60)])
def test_divides(op: Any, tiler: Any) -> None:
    agrees(op(Layout((M, K), (LD, 1)), tiler), op(Layout((256, 64), (72, 1)), tiler))


def test_divides_trace_little() -> None:
    r = zipped_divide(Layout((M, K, B), (LD, 1, N)), (128, 64))
    # ceil(M/128), ceil(K/64): two each; 128*ld: one.
    assert cost(r) == 5
    assert cost(zipped_divide(Layout((M, K), (K, 1)), (1, None))) == 0


def test_run_time_tile_size() -> None:
    agrees(
        zipped_divide(Layout((256, 64), (64, 1)), (N, 32)),
        zipped_divide(Layout((256, 64), (64, 1)), (96, 32)),
    )


def test_local_partition_by_a_run_time_thread() -> None:
    tid = var("tid")
    for threads in (Layout((8, 4), (4, 1)), Layout((8, 4))):
        part, offset = local_partition(Layout((M, K), (LD, 1)), threads, tid)
        for t in (0, 5, 31):
            static, at = local_partition(Layout((256, 64), (72, 1)), threads, t)
            agrees(part, static)
            agrees(offset, at, tid=t)


def test_calls_slices_and_coordinates() -> None:
    i = var("i")
    for shape, stride in (
        ((4, (2, 3)), (6, (3, 1))),
        ((M, K), (LD, 1)),
        (((4, M), 8), ((1, 4), N)),
    ):
        L = Layout(shape, stride)
        S = specialise(L, **ENV)
        for n in (0, 3, 23):
            agrees(L(i), S(n), i=n)
            agrees(crd2idx(i, shape, stride), S(n), i=n)
            agrees(idx2crd(i, shape), idx2crd(n, S.shape), i=n)
            assert specialise(L(n), **ENV) == S(n)
        sub, offset = slice_and_offset((i, None), L)
        flat_sub, flat_offset = slice_and_offset((2, None), S)
        agrees(sub, flat_sub)
        agrees(offset, flat_offset, i=2)


def test_compact_strides_and_sizes() -> None:
    shape = (4, (M, 1), K)
    assert str(compact_col_major(shape)) == "(1, (4, 0), (4*M))"
    agrees(compact_row_major(shape), (16384, (64, 0), 1))
    agrees(compact_order(shape, (2, 1, 0)), (16384, (64, 0), 1))
    agrees(size(Layout(shape)), 4 * 256 * 64)
    agrees(cosize(Layout((M, K), (LD, 1))), 255 * 72 + 63 + 1)
    agrees(coshape(make_identity_layout((M, K))), (256, 64))
    agrees(make_ordered_layout((M, K), (1, 0)), Layout((256, 64), (64, 1)))
    agrees(make_layout_like(Layout((M, 4, 8), (32, 0, 4))), Layout((256, 4, 8), (8, 0, 1)))
    agrees(make_fragment_like(Layout((4, M), (1, 4))), Layout((4, 256), (1, 4)))


def test_coalesce_merges_what_is_provable() -> None:
    assert str(coalesce(Layout((192, N), (1, 192)))) == "(192*N):1"
    assert str(coalesce(Layout((M, K), (1, M)))) == "(M*K):1"
    assert str(coalesce(Layout((M, K, B)))) == "((M*K)*b):1"
    assert str(coalesce(Layout((M, K), (1, LD)))) == "(M,K):(1,ld)"
    assert str(filter(Layout((M, 4, K), (1, 0, LD)))) == "(M,K):(1,ld)"


def test_inverses() -> None:
    assert str(right_inverse(Layout((16, N), (1, 16)))) == "(16*N):1"
    agrees(right_inverse(Layout((N, 16), (16, 1))), right_inverse(Layout((96, 16), (16, 1))))
    assert str(right_inverse(Layout((16, 4), (1, LD)))) == "16:1"
    agrees(left_inverse(Layout((16, N), (1, 16))), Layout(16 * 96))
    with pytest.raises(LayoutError, match="has run-time strides; expected static ones"):
        left_inverse(Layout((4, 4), (1, LD)))
    with pytest.raises(LayoutError, match="extent N is run-time"):
        left_inverse(Layout((N, 4), (1, 4)))


def test_complement_with_run_time_bound() -> None:
    assert str(complement(Layout(128), M)) == "((M+127)//128):128"
    assert values(specialise(complement(Layout(4, LD), 288), **ENV)) == list(range(72))
    with pytest.raises(LayoutError, match="run-time strides in 2 modes"):
        complement(Layout((4, 4), (LD, N)), 1024)


def test_composition() -> None:
    a = Layout((4096, 8192), (1, 4096))
    b = Layout((32, N, 8, 128), (E(0), 8 * E(1), E(1), 32 * E(0)))
    assert str(composition(a, b)) == "(32,N,8,128):(1,32768,4096,32)"
    agrees(composition(Layout(M, LD), Layout((4, 8), (1, 16))), Layout((4, 8), (72, 1152)))
    agrees(composition(Layout(64, 2), Layout(N, LD)), Layout(96, 144))
    agrees(composition(Layout((M, K), (LD, 1)), (Layout(8, 4), 32)), Layout((8, 32), (288, 1)))
    for right in (Layout(8), Layout((2, 2), (1, LD))):
        with pytest.raises(LayoutError, match="cannot prove that"):
            composition(Layout((M, K), (LD, 1)), right)


def test_products_and_recasts() -> None:
    atom = Layout((8, 64), (64, 1))
    agrees(tile_to_shape(atom, (M, K)), tile_to_shape(atom, (256, 64)))
    agrees(upcast(Layout((M, K), (LD, 1)), 8), upcast(Layout((256, 64), (72, 1)), 8))
    agrees(
        recast_layout(8, 16, Layout((M, K), (LD, 1))),
        recast_layout(8, 16, Layout((256, 64), (72, 1))),
    )


def test_swizzle_of_a_run_time_offset() -> None:
    i, sw = var("i"), Swizzle(3, 4, 3)
    expression = sw(i)
    assert all(expression.at(i=x) == sw(x) for x in range(0, 4096, 7))
    tile, offset = local_tile(ComposedLayout(sw, 0, Layout((64, 64), (64, 1))), (8, 64), (i, 0))
    assert offset == 0
    whole = ComposedLayout(sw, 0, Layout((64, 64), (64, 1)))
    assert specialise(tile((3, 5)), i=4) == whole((35, 5))
    assert not tile.is_static


def test_bounds_predicate_is_a_run_time_value() -> None:
    inside = elem_less((var("m"), 3), (M, 64))
    assert inside.at(m=255, **ENV) is True
    assert inside.at(m=256, **ENV) is False
    assert elem_less((var("m"), 64), (M, 64)) is False
    both = elem_less((var("m"), var("k")), (M, K))
    assert both.at(m=1, k=64, **ENV) is False


def test_layouts_of_run_time_values_are_hashable_and_compare_by_structure() -> None:
    a = Layout((M, K), (LD, 1))
    assert a == Layout((M, K), (LD, 1))
    assert a != Layout((M, K), (K, 1))
    assert len({a, Layout((M, K), (LD, 1)), Layout((K, M), (LD, 1))}) == 2
    assert not a.is_static
    assert a[0] == Layout(M, LD)
    assert str(make_layout(a, Layout(2))) == "((M,K),2):((ld,1),1)"
    assert str(group_modes(a, 0, 2)) == "((M,K),):((ld,1),)"


@settings(max_examples=150, deadline=None)
@given(shapes(max_size=64), st.integers(0, 63))
def test_symbolic_shapes_specialise(shape: Any, index: int) -> None:
    # Beyond the domain a static size-1 mode differs: its stride is the static 0.
    index %= product(shape)
    names: dict[str, int] = {}

    def lift(s: Any) -> Any:
        if isinstance(s, tuple):
            return tuple(lift(x) for x in s)
        name = f"s{len(names)}"
        names[name] = s
        return var(name)

    symbolic = Layout(lift(shape))
    static = Layout(shape)
    i = var("i")
    assert specialise(symbolic(i), i=index, **names) == static(index)
    assert specialise(size(symbolic), **names) == size(static)
    assert values(specialise(coalesce(symbolic), **names)) == values(static)
    assert specialise(idx2crd(i, symbolic.shape), i=index, **names) == idx2crd(index, shape)


@settings(max_examples=150, deadline=None)
@given(layouts(max_size=64), st.sampled_from([1, 2, 4]))
def test_symbolic_strides_specialise(layout: Layout, tile: int) -> None:
    names: dict[str, int] = {}

    def lift(d: Any) -> Any:
        if isinstance(d, tuple):
            return tuple(lift(x) for x in d)
        name = f"d{len(names)}"
        names[name] = d
        return var(name)

    symbolic = Layout(layout.shape, lift(layout.stride))
    try:
        r = zipped_divide(symbolic, (tile,))
    except LayoutError:
        return
    static = zipped_divide(layout, (tile,))
    got = specialise(r, **names)
    assert size(got) == size(static)
    assert values(got) == values(static)
