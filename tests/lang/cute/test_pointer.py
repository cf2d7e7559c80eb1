"""Pointers: offsets, swizzled addresses for all coordinates, alignment, refusals."""

import pytest
from traced import SHARED_BASE, addresses, kernel

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.ops import arith, memory
from tilewright.ir.types import Space
from tilewright.lang.cute import arch
from tilewright.lang.cute.pointer import AddressSpace, Pointer, make_ptr, recast_ptr
from tilewright.lang.cute.smem import SmemAllocator
from tilewright.lang.cute.tensor import Tensor
from tilewright.lang.cute.views import make_composed_layout, make_layout, make_swizzle
from tilewright.lang.values import BFloat16, Float32, Int32, Int64, Uint8
from tilewright.layout.multiply import tile_to_shape
from tilewright.layout.swizzle import Swizzle

# swizzle in elements, element type, atom of the tile
CASES = {
    "bf16 128B": (Swizzle(3, 3, 3), BFloat16, ((8, 64), (64, 1))),
    "bf16 64B": (Swizzle(2, 3, 3), BFloat16, ((8, 32), (32, 1))),
    "bf16 32B": (Swizzle(1, 3, 3), BFloat16, ((8, 16), (16, 1))),
    "f32 128B": (Swizzle(3, 2, 3), Float32, ((8, 32), (32, 1))),
    "fp8 128B": (Swizzle(3, 4, 3), Uint8, ((8, 128), (128, 1))),
    "bf16 MN": (Swizzle(3, 3, 3), BFloat16, ((64, 8), (1, 64))),
    "f32 wide": (Swizzle(2, 0, 5), Float32, ((16, 32), (32, 1))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("split", ["row", "column", "both", "blind"])
def test_swizzled_address_of_every_coordinate(name: str, split: str) -> None:
    """base + sw(layout(c)), whichever of the coordinates are run-time values.

    "blind": run-time values of which nothing is known.
    """
    swizzle, element, (shape, stride) = CASES[name]
    tile = tuple(2 * s for s in shape)
    plain = tile_to_shape(make_layout(shape, stride=stride), tile, (0, 1))
    layout = make_composed_layout(swizzle, 0, plain)
    nbytes = element.width // 8
    columns = [0, 1, 8, tile[1] // 2, tile[1] - 1]
    with kernel() as k:
        tensor = SmemAllocator().allocate_tensor(element, layout)
        t = k.number("t") if split == "blind" else arch.thread_idx()[0]
        places = {}
        for c in columns:
            coord = {
                "row": (t % tile[0], c),
                "column": (c % tile[0], t % tile[1]),
                "both": (t % tile[0], (t // 2) % tile[1]),
                "blind": (t, c),
            }[split]
            sub = tensor[coord[0], None] if split != "column" else tensor[None, coord[1]]
            last = coord[1] if split != "column" else coord[0]
            places[c] = (sub.iterator + sub.layout(last)).value()
    for t_value in range(0, 256 if split == "both" else max(tile)):
        if split == "blind" and t_value >= tile[0]:
            continue
        found = addresses(k, {"thread_idx": t_value, "t": t_value})
        for c in columns:
            i, j = {
                "row": (t_value % tile[0], c),
                "column": (c % tile[0], t_value % tile[1]),
                "both": (t_value % tile[0], t_value // 2 % tile[1]),
                "blind": (t_value, c),
            }[split]
            assert found[places[c]] - SHARED_BASE == nbytes * layout((i, j)), (i, j)


def test_stage_offsets_stay_out_of_the_swizzle() -> None:
    """A stage is a multiple of the repeat: the XOR is the same op in all stages."""
    layout = tile_to_shape(
        make_composed_layout(make_swizzle(3, 3, 3), 0, make_layout((8, 64), stride=(64, 1))),
        (64, 64, 4),
        (0, 1, 2),
    )
    with kernel() as k:
        t = SmemAllocator().allocate_tensor(BFloat16, layout)
        lane, stage = arch.lane_idx(), k.number("stage")
        row = t[lane % 8, None, None]
        xors = len(k.all(arith.Xor))
        for s in (0, 1, stage):
            for column in (0, 8, 16):
                row[column, s]
        flips = k.all(arith.Xor)[xors:]
        # columns 8 and 16 of each stage: one XOR with a constant, on the swizzled row.
        assert len(flips) == 6
        loads = k.all(memory.Load)
        assert len(loads) == 9
    for lane_value in range(32):
        found = addresses(k, {"lane": lane_value, "stage": 3})
        places = [found[op.base] - SHARED_BASE for op in loads]
        expected = [2 * layout((lane_value % 8, c, s)) for s in (0, 1, 3) for c in (0, 8, 16)]
        assert places == expected


def test_run_time_offsets_are_folded_once() -> None:
    with kernel() as k:
        g = k.gmem("f32", (1024,))
        p = g.iterator + k.number("i", divby=4)
        assert p.alignment == 16
        assert (p + 2).alignment == 8
        assert (p + 1).alignment == 4
        for i in range(4):
            (p + i).value()
        # One run-time offset; the constants are added to its result.
        dynamic = [op for op in k.all(memory.Offset) if op.operands[1].type is not None]
        assert sum(op.base is g.iterator.base for op in dynamic) == 1


def test_values_and_rebuilding() -> None:
    with kernel() as k:
        p = k.gmem("f32", (64,)).iterator + 3
        assert len(p.__tw_values__()) == 1
        twin = p.__tw_with_values__([k.argument(p.base.type)])
        assert twin.static == 3
        s = SmemAllocator().allocate_tensor(
            BFloat16, make_composed_layout(Swizzle(3, 3, 3), 0, make_layout((64, 64)))
        )
        q = s.iterator + arch.lane_idx()
        assert len(q.__tw_values__()) == 2
        assert q.__tw_with_values__(q.__tw_values__()).alignment == q.alignment


def test_facts_of_a_pointer() -> None:
    with kernel() as k:
        p = k.gmem("bf16", (64,)).iterator
        assert p.dtype is BFloat16
        assert p.value_type is BFloat16
        assert p.memspace is AddressSpace.gmem
        assert str(p) == "ptr<bf16, gmem, align<16>>"
        assert (p.align(64)).alignment == 64
        assert recast_ptr(p, dtype=Int32).dtype is Int32
        assert make_ptr(Float32, p, AddressSpace.gmem, assumed_align=32).alignment == 32
        assert p.toint().dtype is Int64
        assert [op.name for op in k.ops][-1] == "mem.global_address"


def test_wrong_use_is_refused() -> None:
    with kernel() as k:
        p = k.gmem("bf16", (64,)).iterator
        with pytest.raises(TypeMismatchError, match=r"pointer \+ a run-time Float32: expected"):
            p + k.number("x", "f32")
        with pytest.raises(LayoutError, match=r"swizzle Sw<3,4,3> needs shared memory"):
            p.with_swizzle(Swizzle(3, 4, 3))
        with pytest.raises(LayoutError, match=r"recast_ptr: offset 1 of bf16 elements is not a"):
            recast_ptr(p + 1, dtype=Float32)
        with pytest.raises(TypeMismatchError, match=r"make_ptr: expected a pointer, got int"):
            make_ptr(Float32, 4096)
        with pytest.raises(TypeMismatchError, match=r"make_ptr: the pointer is in gmem, not in sm"):
            make_ptr(Float32, p, AddressSpace.smem)
        with pytest.raises(TypeMismatchError, match=r"align: expected a power of two, got 12"):
            p.align(12)
        with pytest.raises(TypeMismatchError, match=r"expected an element type such as"):
            recast_ptr(p, dtype=3)
        buffer = SmemAllocator().allocate_array(BFloat16, 512, 128)
        with pytest.raises(LayoutError, match=r"repeats every 1024 bytes, but the buffer is al"):
            buffer.with_swizzle(Swizzle(3, 4, 3))
        registers = Pointer(k.argument(p.base.type.__class__(p.element, Space.RMEM, 16)))
        with pytest.raises(TypeMismatchError, match=r"toint: registers have no address"):
            registers.toint()
        with pytest.raises(TypeMismatchError, match=r"Pointer: expected a pointer value as base"):
            Pointer(Int32(k.number("n")).ir_value())


def test_a_swizzle_is_not_applied_twice() -> None:
    with kernel():
        t = SmemAllocator().allocate_tensor(
            BFloat16, make_composed_layout(Swizzle(3, 3, 3), 0, make_layout((64, 64)))
        )
        same = Tensor(t.iterator, make_composed_layout(Swizzle(3, 3, 3), 0, make_layout((64, 64))))
        assert same.iterator.swizzle == Swizzle(3, 4, 3)
        with pytest.raises(LayoutError, match=r"the pointer is already swizzled"):
            Tensor(t.iterator, make_composed_layout(Swizzle(2, 3, 3), 0, make_layout((64, 64))))
