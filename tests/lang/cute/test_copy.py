"""cute.copy: which instructions come out, on which addresses, and what is refused."""

import pytest
from traced import SHARED_BASE, addresses, kernel

from tilewright.errors import DTypeError, LayoutError, TypeMismatchError
from tilewright.ir.ops import control, memory
from tilewright.ir.ops import copy as copy_ops
from tilewright.lang.cute import arch
from tilewright.lang.cute.atom import make_copy_atom
from tilewright.lang.cute.copy import autovec_copy, basic_copy, basic_copy_if, copy
from tilewright.lang.cute.nvgpu import cpasync, warp
from tilewright.lang.cute.nvgpu.common import CopyUniversalOp
from tilewright.lang.cute.smem import SmemAllocator
from tilewright.lang.cute.tensor import make_fragment_like, make_rmem_tensor
from tilewright.lang.cute.tiled_copy import (
    make_tiled_copy_A,
    make_tiled_copy_C,
    make_tiled_copy_tv,
)
from tilewright.lang.cute.tiled_mma import make_tiled_mma
from tilewright.lang.cute.views import make_composed_layout, make_layout, make_swizzle, size
from tilewright.lang.values import BFloat16, Boolean, Float32, Int32
from tilewright.layout.layout import Layout
from tilewright.layout.multiply import tile_to_shape

THREADS = make_layout((16, 8), stride=(8, 1))
SWIZZLED = tile_to_shape(
    make_composed_layout(make_swizzle(3, 3, 3), 0, make_layout((8, 64), stride=(64, 1))),
    (32, 64),
    (0, 1),
)


def vector_copy(op=None, bits=128, dtype=BFloat16):
    atom = make_copy_atom(op or CopyUniversalOp(), dtype, num_bits_per_copy=bits)
    return make_tiled_copy_tv(atom, THREADS, make_layout((1, bits // dtype.width)))


@pytest.mark.parametrize("mode", ["ca", "cg"])
def test_cp_async_moves_the_tile(mode: str) -> None:
    """Every 16 bytes of the tile are copied by exactly one thread, to where the layout says."""
    cache = cpasync.LoadCacheMode.ALWAYS if mode == "ca" else cpasync.LoadCacheMode.GLOBAL
    tiled = vector_copy(cpasync.CopyG2SOp(cache))
    with kernel() as k:
        g = k.gmem("bf16", Layout((32, 64), (k.number("ld", divby=8), 1)))
        s = SmemAllocator().allocate_tensor(BFloat16, SWIZZLED)
        thr = tiled.get_slice(arch.thread_idx()[0])
        copy(tiled, thr.partition_S(g), thr.partition_D(s))
        ops = k.all(copy_ops.CpAsync)
        assert [(op.bytes, op.cache) for op in ops] == [(16, mode)] * 2
    seen = set()
    for t in range(128):
        found = addresses(k, {"thread_idx": t, "ld": 72})
        for op in ops:
            row, column = divmod(found[op.src] // 2, 72)
            assert found[op.dst] - SHARED_BASE == 2 * SWIZZLED((row, column))
            seen.add((row, column))
    assert seen == {(r, c) for r in range(32) for c in range(0, 64, 8)}
    with kernel() as k:
        k.verify()


def test_predicates_go_to_their_instructions() -> None:
    tiled = vector_copy(cpasync.CopyG2SOp())
    with kernel() as k:
        g = k.gmem("bf16", Layout((32, 64), (64, 1)))
        s = SmemAllocator().allocate_tensor(BFloat16, make_layout((32, 64), stride=(64, 1)))
        thr = tiled.get_slice(0)
        src, dst = thr.partition_S(g), thr.partition_D(s)
        pred = make_rmem_tensor((1, 2, 1), Boolean)
        pred.fill(True)
        copy(tiled, src, dst, pred=pred)
        loads = k.all(memory.Load)
        conditions = [op.predicate[0] for op in k.all(copy_ops.CpAsync)]
        assert [load.result for load in loads] == conditions
        # Without the mode of the values, or as one condition for all.
        flat = make_rmem_tensor((2, 1), Boolean)
        flat.fill(True)
        copy(tiled, src, dst, pred=flat)
        copy(tiled, src, dst, pred=Boolean(k.number("p", "bool")))
        assert all(len(op.predicate) == 1 for op in k.all(copy_ops.CpAsync))
        k.verify()
        with pytest.raises(LayoutError, match=r"copy: pred has shape \(7,\)"):
            copy(tiled, src, dst, pred=make_rmem_tensor((7,), Boolean))
        with pytest.raises(TypeMismatchError, match=r"copy: pred must hold Booleans, got str"):
            copy(tiled, src, dst, pred="yes")


def test_plain_copies_keep_their_width() -> None:
    with kernel() as k:
        g = k.gmem("f32", Layout((32, 64), (64, 1)))
        tiled = vector_copy(bits=64, dtype=Float32)
        part = tiled.get_slice(3).partition_S(g)
        registers = make_fragment_like(part)
        copy(tiled, part, registers)
        assert {op.bytes for op in k.all(memory.Copy)} == {8}
        assert len(k.all(memory.Copy)) == size(part) // 2
        copy(tiled.atom, registers, part)
        k.verify()


def test_scattered_registers_go_through_a_vector() -> None:
    with kernel() as k:
        g = k.gmem("f32", Layout(4))
        atom = make_copy_atom(CopyUniversalOp(), Float32, num_bits_per_copy=128)
        rows = make_rmem_tensor(Layout(4, 3), Float32)
        copy(atom, g, rows)
        (scatter,) = k.all(memory.Scatter)
        assert scatter.indices == (0, 3, 6, 9)
        copy(atom, rows, g, pred=Boolean(k.number("p", "bool")))
        assert len(k.all(control.If)) == 1
        k.verify()


def test_matrix_copies() -> None:
    """ldmatrix: lane l names row l of the 16x16 tile's four 8x8 matrices."""
    mma = make_tiled_mma(warp.MmaF16BF16Op(BFloat16, Float32, (16, 8, 16)))
    load = make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), BFloat16)
    tiled = make_tiled_copy_A(load, mma)
    with kernel() as k:
        s = SmemAllocator().allocate_tensor(BFloat16, SWIZZLED)
        lane = arch.lane_idx()
        src = tiled.get_slice(lane).partition_S(s)
        fragment = mma.make_fragment_A(mma.get_slice(lane).partition_A(s))
        copy(tiled, src, tiled.retile(fragment))
        ops = k.all(copy_ops.LdMatrix)
        assert len(ops) == 2 * 4
        assert all(op.num == 4 and not op.transpose for op in ops)
        assert not k.all(memory.Scatter), "fragments of A are filled in place"
    for lane_value in range(32):
        found = addresses(k, {"lane": lane_value})
        row, column = lane_value % 16, lane_value // 16 * 8
        wanted = [
            SHARED_BASE + 2 * SWIZZLED((row + 16 * m, column + 16 * x))
            for x in range(4)
            for m in range(2)
        ]
        assert [found[op.src] for op in ops] == wanted
        assert [found[op.dst] for op in ops] == [16 * i for i in range(8)]
    with kernel() as k:
        # Transposed, the instruction writes columns: they must be the contiguous direction.
        s = SmemAllocator().allocate_tensor(BFloat16, make_layout((32, 64), stride=(1, 32)))
        store = make_tiled_copy_C(make_copy_atom(warp.StMatrix8x8x16bOp(True, 2), BFloat16), mma)
        acc = make_rmem_tensor(mma.partition_shape_C((32, 64)), BFloat16)
        acc.fill(0)
        copy(store, store.retile(acc), store.get_slice(arch.lane_idx()).partition_D(s))
        assert {(op.num, op.transpose) for op in k.all(copy_ops.StMatrix)} == {(2, True)}
        k.verify()


def test_automatic_width() -> None:
    with kernel() as k:
        g = k.gmem("bf16", Layout((4, 16), (16, 1)))
        r = make_rmem_tensor(Layout((4, 16), (16, 1)), BFloat16)
        autovec_copy(g, r)
        assert [op.bytes for op in k.all(memory.Copy)] == [16] * 8
        basic_copy(g, r)
        assert [op.bytes for op in k.all(memory.Copy)][8:] == [2] * 64
        autovec_copy(k.gmem("bf16", Layout(6), align=4), make_rmem_tensor(6, BFloat16))
        assert [op.bytes for op in k.all(memory.Copy)][72:] == [4] * 3
        keep = make_rmem_tensor(4, Boolean)
        keep.fill(True)
        basic_copy_if(keep, k.gmem("f32", Layout(4)), make_rmem_tensor(4, Float32))
        assert all(len(op.predicate) == 1 for op in k.all(memory.Copy)[-4:])
        autovec_copy(r, make_rmem_tensor((4, 16), BFloat16))
        k.verify()


def test_wrong_use_is_refused() -> None:
    with kernel() as k:
        smem = SmemAllocator()
        g, s = k.gmem("bf16", Layout((32, 64), (64, 1))), smem.allocate_tensor(BFloat16, SWIZZLED)
        r = make_rmem_tensor(8, BFloat16)
        wide = make_copy_atom(CopyUniversalOp(), BFloat16, num_bits_per_copy=128)
        ld = make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), BFloat16)
        g2s = make_copy_atom(cpasync.CopyG2SOp(), BFloat16, num_bits_per_copy=128)
        odd = k.gmem("bf16", Layout((32, 64), (k.number("ld"), 1)))
        cases = [
            (lambda: copy(g, g, s), TypeMismatchError, r"copy: expected a copy atom or tiled copy"),
            (lambda: copy(wide, g, 3), TypeMismatchError, r"expected a Tensor as destination, got"),
            (
                lambda: copy(ld, g, r),
                TypeMismatchError,
                r"the source of SM75_U32x4_LDSM_N must be in smem",
            ),
            (
                lambda: copy(g2s, s, r),
                TypeMismatchError,
                r"the source of SM80_CP_ASYNC_CACHEALWAYS_128b must be in gmem",
            ),
            (
                lambda: copy(wide, k.gmem("f32", Layout(8)), r),
                TypeMismatchError,
                r"copies 16-bit elements, the source holds f32",
            ),
            (
                lambda: copy(wide, g[None, 0], make_rmem_tensor(32, BFloat16)),
                LayoutError,
                r"mode \(32,\) is not a whole instruction and has no parts",
            ),
            (
                lambda: copy(wide, g[0, None], make_rmem_tensor(12, BFloat16)),
                LayoutError,
                r"source \(64,\) and destination 12 are not as many of them",
            ),
            (
                lambda: copy(wide, type(g)(g.iterator, Layout(8, 64)), r),
                LayoutError,
                r"the source of a 128-bit access must be 8 contiguous elements, it is 8:64",
            ),
            (
                lambda: copy(wide, type(g)(odd[1, None].iterator, Layout(8)), r),
                LayoutError,
                r"must be aligned to 16 bytes, it is known to be aligned to 2",
            ),
            (
                lambda: copy(
                    g2s, type(g)(odd[1, None].iterator, Layout(8)), type(s)(s.iterator, Layout(8))
                ),
                LayoutError,
                r"source of SM80_CP_ASYNC_CACHEALWAYS_128b must be aligned to 16 bytes",
            ),
            (
                lambda: copy(wide, type(g)(g.iterator, Layout(8)), r, mcast_mask=3),
                TypeMismatchError,
                r"takes neither mbarrier nor multicast mask",
            ),
            (
                lambda: copy(ld, type(s)(s.iterator, Layout(8)), r, pred=True),
                TypeMismatchError,
                r"executed by whole warps and takes no predicate",
            ),
            (
                lambda: autovec_copy(k.gmem("f32", Layout(8)), r),
                DTypeError,
                r"source has 32-bit elements \(f32\), destination 16-bit ones \(bf16\)",
            ),
            (
                lambda: autovec_copy(k.gmem("bf16", Layout(9)), r),
                LayoutError,
                r"source and destination differ in size: 9:1 and 8:1",
            ),
            (
                lambda: autovec_copy(3, r),
                TypeMismatchError,
                r"autovec_copy: expected a tensor in me",
            ),
            (
                lambda: autovec_copy(k.gmem("e2m1", Layout(8, 2)), make_rmem_tensor(8, "e2m1")),
                DTypeError,
                r"1 elements of e2m1 are not whole bytes",
            ),
            (
                lambda: autovec_copy(make_rmem_tensor(8, "f16"), r),
                DTypeError,
                r"registers of f16 do not go into registers of bf16",
            ),
        ]
        for attempt, kind, text in cases:
            with pytest.raises(kind, match=text) as caught:
                attempt()
            assert caught.value.loc is not None
            assert caught.value.loc.file == __file__


def test_index_type() -> None:
    with kernel() as k:
        assert isinstance(k.number("i"), Int32)
