"""wgmma descriptors: the bits are those of arch.descriptor, for every step and stage."""

import pytest
from traced import SHARED_BASE, addresses, kernel

from tilewright.arch.descriptor import decode, descriptor_of, encode
from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.ops import memory
from tilewright.lang.cute import arch
from tilewright.lang.cute.nvgpu import warpgroup
from tilewright.lang.cute.smem import SmemAllocator
from tilewright.lang.cute.tensor import make_rmem_tensor
from tilewright.lang.cute.tiled_mma import make_tiled_mma
from tilewright.lang.cute.views import local_tile, make_layout, size, tile_to_shape
from tilewright.lang.values import BFloat16, Float32
from tilewright.layout.compose import composition
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import ComposedLayout
from tilewright.numeric.dtypes import BF16

MODE = warpgroup.OperandMajorMode
KINDS = list(warpgroup.SmemLayoutAtomKind)
STAGES = 3


def tile(kind: warpgroup.SmemLayoutAtomKind, rows: int, columns: int) -> ComposedLayout:
    """A staged tile whose contiguous direction comes first, as the library makes it."""
    atom = warpgroup.make_smem_layout_atom(kind, BFloat16)
    order = (0, 1, 2) if kind.name.startswith("K") else (1, 0, 2)
    return tile_to_shape(atom, (rows, columns, STAGES), order)


def mma_for(kind: warpgroup.SmemLayoutAtomKind):
    major = MODE.K if kind.name.startswith("K") else MODE.MN
    op = warpgroup.MmaF16BF16Op(
        BFloat16, Float32, (64, 128, 16), warpgroup.OperandSource.SMEM, major, major
    )
    return make_tiled_mma(op, (2, 1, 1))


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize("which", ["A", "B"])
def test_bits_of_every_fragment(kind: warpgroup.SmemLayoutAtomKind, which: str) -> None:
    """Law: the descriptor of (row block, k, stage) is the one that `arch` derives from the layout
    of that very piece of shared memory."""
    mma = mma_for(kind)
    layout = tile(kind, 128, 64)
    rows = 64 if which == "A" else 128
    with kernel() as k:
        s = SmemAllocator().allocate_tensor(BFloat16, layout)
        group = arch.make_warp_uniform(arch.thread_idx()[0] // 128)
        thr = mma.get_slice(group * 128)
        part = getattr(thr, f"partition_{which}")(s)
        fragment = getattr(mma, f"make_fragment_{which}")(part)
        assert [size(fragment, mode=[i]) for i in range(4)] == [1, 1, 4, STAGES]
        stage = k.number("stage")
        bits = {(x, y): fragment[0, 0, x, y].encoded() for x in range(4) for y in (0, 2, stage)}
    for group_value in range(2):
        found = addresses(k, {"thread_idx": 128 * group_value + 5, "stage": 1})
        for (x, y), value in bits.items():
            number = y if isinstance(y, int) else 1
            first = group_value * 64 if which == "A" else 0
            piece = layout.outer, layout.outer((first, x * 16, number))
            sub = composition(piece[0], (Layout(rows), Layout(16), 1))
            values = Layout(sub.shape[:2], sub.stride[:2])
            seen = ComposedLayout(layout.inner, 0, values) if layout.inner.bits else values
            expected = descriptor_of(seen, "K" if kind.name.startswith("K") else "MN", BF16)
            start = SHARED_BASE + 2 * piece[1]
            wanted = encode(start, expected.leading_bytes, expected.stride_bytes, expected.swizzle)
            assert found[value] == wanted, (x, y, decode(found[value]))


def test_the_base_is_made_once() -> None:
    """Stepping k and the stage adds small numbers: no address arithmetic in the loop."""
    mma = mma_for(warpgroup.SmemLayoutAtomKind.K_SW128)
    with kernel() as k:
        s = SmemAllocator().allocate_tensor(BFloat16, tile(KINDS[-1], 128, 64))
        b = mma.make_fragment_B(mma.get_slice(0).partition_B(s))
        assert len(k.all(memory.SharedAddress)) == 1
        before = len(k.ops)
        b[0, 0, 3, 2].encoded()
        # add, cast to 64 bits, or the constant half: and their constants.
        assert [op.name for op in k.ops[before:] if op.name != "arith.constant"] == [
            *("arith.add", "arith.cast", "arith.or")
        ]
        assert len(k.all(memory.SharedAddress)) == 1


def test_the_rank_of_a_cluster_is_masked_off() -> None:
    mma = mma_for(warpgroup.SmemLayoutAtomKind.MN_SW128)
    with kernel() as k:
        s = SmemAllocator().allocate_tensor(BFloat16, tile(KINDS[3], 128, 64))
        value = mma.make_fragment_B(mma.get_slice(0).partition_B(s))[0, 0, 0, 0].encoded()
        address = k.all(memory.SharedAddress)[0]
    known = addresses(k, {})
    assert known[address.result] == SHARED_BASE
    assert decode(known[value]).start_address == SHARED_BASE
    assert decode(known[value]).leading_bytes == 64 * 64 * 2


def test_slices_of_a_tile() -> None:
    """A warpgroup's own rows, cut by local_tile at a run-time place."""
    op = warpgroup.MmaF16BF16Op(BFloat16, Float32, (64, 128, 16))
    mma = make_tiled_mma(op)
    with kernel() as k:
        s = SmemAllocator().allocate_tensor(BFloat16, tile(KINDS[-1], 128, 64))
        own = local_tile(s, (64, 64), (k.number("w"), 0, None))
        value = mma.make_fragment_A(mma.get_slice(0).partition_A(own))[0, 0, 1, 1].encoded()
    start = decode(addresses(k, {"w": 1})[value]).start_address
    assert start == SHARED_BASE + 64 * 128 + 32 + 128 * 64 * 2


def test_what_no_descriptor_describes_is_refused() -> None:
    mma = mma_for(warpgroup.SmemLayoutAtomKind.K_SW128)
    thr = mma.get_slice(0)
    with kernel() as k:
        smem = SmemAllocator()
        plain = smem.allocate_tensor(BFloat16, make_layout((128, 64), stride=(64, 1)))
        with pytest.raises(LayoutError, match=r"matrix descriptor: .* is not a K-major layout"):
            mma.make_fragment_A(thr.partition_A(plain))
        odd = smem.allocate_tensor(
            BFloat16,
            tile_to_shape(
                ComposedLayout(
                    tile(KINDS[-1], 8, 64).inner.__class__(3, 4, 3), 0, Layout((8, 128), (128, 1))
                ),
                (128, 128),
                (0, 1),
            ),
        )
        with pytest.raises(LayoutError, match=r"TMA and wgmma have no swizzle Sw<3,5,3> of bytes"):
            mma.make_fragment_A(thr.partition_A(odd))
        good = smem.allocate_tensor(BFloat16, tile(KINDS[-1], 136, 64), label="good")
        shifted = local_tile(good, (4, 64, 1), (1, 0, 0))
        moved = type(good)(shifted.iterator, local_tile(good, (128, 64), (0, 0, None)).layout)
        with pytest.raises(LayoutError, match=r"may only start in the first row of the 128B"):
            mma.make_fragment_A(thr.partition_A(moved))
        with pytest.raises(
            TypeMismatchError, match=r"reads A from shared memory, expected its par"
        ):
            mma.make_fragment_A((64, 16))
        with pytest.raises(TypeMismatchError, match=r"reads B from shared memory, got tensor<ptr"):
            mma.make_fragment_B(make_rmem_tensor(((128, 16), 1, 1), BFloat16))
        wrong = smem.allocate_tensor("f16", tile(KINDS[-1], 128, 64))
        with pytest.raises(TypeMismatchError, match=r"takes bf16 for A, the tensor holds f16"):
            mma.make_fragment_A(thr.partition_A(wrong))
        with pytest.raises(TypeMismatchError, match=r"make_fragment_A: expected a partition"):
            mma.make_fragment_A(good)
        assert k.ops
