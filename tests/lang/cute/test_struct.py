"""Shared memory: structs, the allocator, budgets."""

import pytest
from traced import kernel

from tilewright.errors import LayoutError, ResourceError, TypeMismatchError
from tilewright.ir.ops.memory import AllocShared
from tilewright.lang.cute.smem import SmemAllocator
from tilewright.lang.cute.struct import struct
from tilewright.lang.cute.views import make_composed_layout, make_layout, make_swizzle
from tilewright.lang.values import BFloat16, Float32, Int32, Int64, Uint8
from tilewright.layout.swizzle import Swizzle

COUNT = 4


@struct
class Inner:
    flag: Int32
    scale: struct.MemRange[Float32, 3]


@struct
class Storage:
    mbar: struct.MemRange[Int64, COUNT]
    inner: Inner
    tile: struct.Align[struct.MemRange[BFloat16, 64 * 64], 1024]


def test_sizes() -> None:
    assert Inner.size_in_bytes() == 16
    assert Storage.alignment == 1024
    assert Storage.size_in_bytes() == 1024 + 8192


def test_fields_are_named_allocations() -> None:
    with kernel() as k:
        s = SmemAllocator().allocate(Storage)
        made = [(op.label, op.dtype, op.count, op.align) for op in k.all(AllocShared)]
        assert made == [
            ("mbar", "i64", 4, 8),
            ("inner.flag", "i32", 1, 4),
            ("inner.scale", "f32", 3, 4),
            ("tile", "bf16", 4096, 1024),
        ]
        assert s.mbar.data_ptr().dtype is Int64
        assert s.inner.flag.ptr.dtype is Int32
        t = s.tile.get_tensor(make_layout((64, 64), stride=(64, 1)), swizzle=Swizzle(3, 3, 3))
        assert t.iterator.swizzle == Swizzle(3, 4, 3)
        same = s.tile.get_tensor(
            make_composed_layout(make_swizzle(3, 3, 3), 0, make_layout((64, 64), stride=(64, 1)))
        )
        assert same.iterator.swizzle == t.iterator.swizzle
        assert s.tile.get_tensor((32, 64), dtype=Float32).element_type is Float32
        with pytest.raises(TypeMismatchError, match=r"Storage has no field sA; it has mbar, inner"):
            _ = s.sA
        with pytest.raises(
            ResourceError, match=r"takes 8192 elements of bf16, the buffer has 4096"
        ):
            s.tile.get_tensor((64, 128))


def test_postponed_annotations_are_evaluated_where_the_class_stands() -> None:
    count = 6
    source = (
        "from __future__ import annotations\n"
        "def make(struct, Int64, count):\n"
        "    @struct\n"
        "    class S:\n"
        "        bar: struct.MemRange[Int64, count]\n"
        "    return S\n"
    )
    space: dict = {}
    exec(source, space)
    assert space["make"](struct, Int64, count).fields["bar"].count == 6
    bad = source.replace("count]", "missing]")
    exec(bad, space)
    with pytest.raises(TypeMismatchError, match=r"struct field bar: cannot evaluate"):
        space["make"](struct, Int64, count)


def test_allocator() -> None:
    with kernel() as k:
        smem = SmemAllocator()
        assert smem.allocate(256, 128).dtype is Uint8
        assert smem.allocate(Int64).alignment == 8
        assert smem.allocate_array(Float32, 7, 16, label="row").alignment == 16
        composed = make_composed_layout(make_swizzle(2, 3, 3), 0, make_layout((8, 32)))
        t = smem.allocate_tensor(BFloat16, composed, 16, label="sA")
        # The swizzle repeats every 512 bytes: the buffer is aligned to that.
        assert k.all(AllocShared)[-1].align == 512
        assert t.layout == make_layout((8, 32))
        plain = smem.allocate_tensor(BFloat16, make_layout((8, 32)), 16, swizzle=Swizzle(2, 3, 3))
        assert plain.iterator.swizzle == t.iterator.swizzle


def test_wrong_use_is_refused() -> None:
    with kernel() as k:
        smem = SmemAllocator()
        with pytest.raises(
            ResourceError, match=r"shared memory: 262,144 bytes > 232,448 on sm_90a"
        ):
            smem.allocate_tensor(Float32, make_layout((256, 256)))
        with pytest.raises(TypeMismatchError, match=r"allocate: expected a struct, a numeric type"):
            smem.allocate("a lot")
        with pytest.raises(LayoutError, match=r"allocate_tensor: the layout must be known at comp"):
            smem.allocate_tensor(Float32, make_layout((k.number("n"), 4)))
        with pytest.raises(TypeMismatchError, match=r"byte_alignment must be a power of two, got "):
            smem.allocate(16, 24)
        with pytest.raises(
            TypeMismatchError, match=r"allocate_array: expected a compile-time numb"
        ):
            smem.allocate_array(Float32, k.number("m"))
        with pytest.raises(TypeMismatchError, match=r"MemRange: expected a compile-time count"):
            struct.MemRange[Float32, k.number("c")]
        with pytest.raises(TypeMismatchError, match=r"MemRange: expected MemRange\[dtype, count\]"):
            struct.MemRange[Float32]
        with pytest.raises(TypeMismatchError, match=r"Align: expected a power of two, got int"):
            struct.Align[struct.MemRange[Float32, 4], 48]
        field = smem.allocate(Storage).tile
        composed = make_composed_layout(make_swizzle(0, 3, 3), 0, make_layout(3))
        with pytest.raises(TypeMismatchError, match=r"expected a plain layout and a Swizzle"):
            field.get_tensor(composed, swizzle=Swizzle(1, 3, 3))
