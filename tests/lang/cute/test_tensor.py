"""Tensors: elements, slices, registers, stores, conversions, and what is refused."""

import pytest
from traced import addresses, kernel

from tilewright.errors import DTypeError, LayoutError, TypeMismatchError
from tilewright.ir.ops import memory
from tilewright.lang.cute import arch
from tilewright.lang.cute.pointer import AddressSpace
from tilewright.lang.cute.tensor import (
    Tensor,
    make_fragment,
    make_fragment_like,
    make_identity_tensor,
    make_rmem_tensor,
    make_rmem_tensor_like,
    make_tensor,
    recast_tensor,
)
from tilewright.lang.cute.tensor_ssa import TensorSSA
from tilewright.lang.cute.views import (
    composition,
    domain_offset,
    elem_less,
    flat_divide,
    group_modes,
    local_partition,
    local_tile,
    logical_divide,
    make_layout,
    select,
    size,
    slice_,
    tiled_divide,
    zipped_divide,
)
from tilewright.lang.values import BFloat16, Boolean, Float32, Int32, Uint8, from_ir
from tilewright.layout.layout import Layout


def test_what_a_tensor_knows() -> None:
    with kernel() as k:
        t = k.gmem("bf16", Layout((128, 64), (64, 1)))
        assert (t.shape, t.stride, t.element_type) == ((128, 64), (64, 1), BFloat16)
        assert (t.memspace, t.size) == (AddressSpace.gmem, 8192)
        assert str(t) == "tensor<ptr<bf16, gmem, align<16>> o (128,64):(64,1)>"


def test_element_access_every_coordinate() -> None:
    with kernel() as k:
        t = k.gmem("f32", Layout((4, (2, 3)), (6, (3, 1))))
        for c in [(3, (1, 2)), (2, 5), 17, (0, (0, 0))]:
            assert t[c].dtype is Float32
            t[c] = 1
        loads, stores = k.all(memory.Load), k.all(memory.Store)
        found = addresses(k, {})
        offsets = [found[op.base] // 4 for op in (*loads, *stores)]
        wanted = [t.layout(c) for c in [(3, (1, 2)), (2, 5), 17, (0, (0, 0))]]
        assert sorted(offsets) == sorted(wanted * 2)
        k.verify()


def test_slices_start_where_they_should() -> None:
    with kernel() as k:
        t = k.gmem("f32", Layout(((2, 2), (2, 2)), ((1, 8), (4, 16))))
        i = k.number("i")
        assert t[1, None].layout.shape == ((2, 2),)
        # CASES A08: the slice has an offset.
        value = t[1, None][0].ir_value()
        assert addresses(k, {})[value.owner.base] == 4
        part = t[None, i]
        place = part[3].ir_value().owner.base
        assert addresses(k, {"i": 3})[place] == 4 * t.layout((3, 3))
        assert t[None] is t


def test_registers_are_arrays_with_constant_indices() -> None:
    with kernel() as k:
        r = make_rmem_tensor((4, 2), Float32)
        assert r.memspace is AddressSpace.rmem
        r.fill(0.0)
        r[1, 1] = 2.0
        values = r[None, 1].load()
        assert values.shape == (4,)
        assert k.all(memory.Gather)[0].indices == (4, 5, 6, 7)
        assert k.all(memory.Scatter)[0].indices == tuple(range(8))
        r[None, 0] = values
        assert k.all(memory.Scatter)[1].indices == (0, 1, 2, 3)
        k.verify()


def test_fragments_like() -> None:
    with kernel() as k:
        g = k.gmem("bf16", Layout((8, 4, 2), (1, 100, 50)))
        assert make_fragment_like(g).layout == Layout((8, 4, 2), (1, 16, 8))
        assert make_fragment_like(g, Float32).element_type is Float32
        assert make_rmem_tensor_like(g).layout == Layout((8, 4, 2), (1, 16, 8))
        assert make_fragment(Layout((2, 3), (3, 1)), Int32).layout.stride == (3, 1)
        assert make_fragment_like(g.layout) == Layout((8, 4, 2), (1, 16, 8))
        cut = local_tile(k.gmem("f32", Layout((k.number("M"), 8), (8, 1))), (4, 8), (0, 0))
        assert make_rmem_tensor_like(cut).shape == (4, 8)


def test_global_vectors_are_as_wide_as_alignment_allows() -> None:
    with kernel() as k:
        n = k.number("n", divby=4)
        t = k.gmem("f32", Layout((4, 8), (n, 1)))
        assert isinstance(t[2, None].load(), TensorSSA)
        assert [op.bytes for op in k.all(memory.Copy)] == [16, 16]
        m = k.number("m")
        k.gmem("f32", Layout((4, 8), (m, 1)))[1, None].load()
        assert [op.bytes for op in k.all(memory.Copy)][2:] == [4] * 8
        k.verify()


def test_store_converts_nothing_silently() -> None:
    with kernel() as k:
        t = k.gmem("bf16", Layout((8,)))
        r = make_rmem_tensor(8, Float32)
        r.fill(1)
        t.store(r.load().to(BFloat16))
        with pytest.raises(DTypeError, match=r"store: the tensor holds BFloat16, the values are F"):
            t.store(r.load())
        with pytest.raises(LayoutError, match=r"store: 8 values of shape 8 do not fill a tensor"):
            make_rmem_tensor(4, Float32).store(r.load())
        with pytest.raises(TypeMismatchError, match=r"store: expected a TensorSSA, got int"):
            t.store(3)


def test_coordinate_tensors() -> None:
    with kernel() as k:
        bx = arch.block_idx()[0]
        c = make_identity_tensor((k.number("M"), 64))
        assert c.is_coordinate
        assert c[3, 5] == (3, 5)
        tile = local_tile(c, (16, 8), (bx, 2))
        row, column = tile[1, 1]
        assert column == 17
        assert addresses(k, {"block_idx": 3})[row.ir_value()] == 49
        inside = elem_less(tile[1, 1], (100, 64))
        assert inside.dtype is Boolean
        k.verify()


def test_views_keep_the_pointer() -> None:
    """Every element of a view is the element that the layout algebra names."""
    with kernel() as k:
        t = k.gmem("f32", Layout((12, 32), (32, 1)))
        views = [
            logical_divide(t, (4, 8)),
            zipped_divide(t, (4, 8)),
            tiled_divide(t, (4, 8)),
            flat_divide(t, (4, 8)),
            composition(t, (4, 8)),
            group_modes(t, 0, 2),
            select(t, [1, 0]),
        ]
        for v in views:
            assert isinstance(v, Tensor)
            assert v.iterator is t.iterator
        assert views[1].layout == zipped_divide(t.layout, (4, 8))
        assert size(views[3], mode=[2]) == 3
        moved = domain_offset((2, 3), t)
        assert moved.iterator.static == 67
        assert moved.shape == t.shape
        assert slice_(t, (2, None)).iterator.static == 64
        part = local_partition(t, make_layout((4, 8), stride=(8, 1)), 11)
        assert part.iterator.static == 32 + 3
        assert part.shape == (3, 4)


def test_local_tile_projection() -> None:
    with kernel() as k:
        a = k.gmem("f32", Layout((128, 64), (64, 1)))
        tile = local_tile(a, (32, 99, 16), (1, 7, None), proj=(1, None, 1))
        assert tile.shape == (32, 16, 4)
        assert tile.iterator.static == 32 * 64


def test_recast() -> None:
    with kernel() as k:
        t = k.gmem("bf16", Layout((8, 64), (64, 1)))
        wide = recast_tensor(t, Float32)
        assert wide.layout == Layout((8, 32), (32, 1))
        assert wide.element_type is Float32
        assert recast_tensor(t, Uint8).shape == (8, 128)
        assert recast_tensor(t, BFloat16) is t


def test_protocol() -> None:
    with kernel() as k:
        t = k.gmem("f32", Layout((k.number("M"), 8), (8, 1)))
        values = t.__tw_values__()
        assert len(values) == 2
        fresh = [k.argument(v.type) for v in values]
        twin = t.__tw_with_values__(fresh)
        assert twin.iterator.base is fresh[0]
        assert twin.shape[0].ir_value() is fresh[1]
        assert twin.stride == (8, 1)


def test_wrong_use_is_refused_at_the_users_line() -> None:
    with kernel() as k:
        t = k.gmem("f32", Layout((4, 8)))
        with pytest.raises(LayoutError, match=r"does not fit") as caught:
            t[1, 2, 3]
        assert caught.value.loc is not None
        assert caught.value.loc.file == __file__
        with pytest.raises(TypeMismatchError, match=r"tensor\[...\] = a TensorSSA: expected a num"):
            t[1, 2] = t[1, None].load()
        with pytest.raises(TypeMismatchError, match=r"expected a pointer or coordinate as iterato"):
            make_tensor(t, t.layout)
        with pytest.raises(LayoutError, match=r"load: the shape must be known at compile time"):
            k.gmem("f32", Layout((k.number("M"),), (1,))).load()
        with pytest.raises(LayoutError, match=r"make_rmem_tensor: registers need a compile-time"):
            make_rmem_tensor((k.number("M"), 2), Float32)
        with pytest.raises(TypeMismatchError, match=r"fill: .* is not a tensor in memory"):
            make_identity_tensor((4, 4)).fill(0)
        with pytest.raises(TypeMismatchError, match=r"local_tile: expected a Tensor, got a Layout"):
            local_tile(t.layout, (2, 2), (0, 0))
        packed = k.gmem("e2m1", Layout((16,)))
        with pytest.raises(DTypeError, match=r"e2m1 elements share bytes"):
            packed[0]


def test_loads_have_the_right_type() -> None:
    with kernel() as k:
        x = k.gmem("i32", Layout(4))[2]
        assert type(x) is Int32
        assert from_ir(x.ir_value()).dtype is Int32
