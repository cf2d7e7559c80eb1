"""TMA: the fields of descriptors, boxes and their coordinates, multicast, and what is refused."""

import pytest
from traced import SHARED_BASE, addresses, kernel

from tilewright.errors import CaptureError, LayoutError, TypeMismatchError
from tilewright.ir.ops import copy as copy_ops
from tilewright.ir.ops import host
from tilewright.lang.cute import arch
from tilewright.lang.cute.atom import CopyAtom
from tilewright.lang.cute.copy import copy
from tilewright.lang.cute.nvgpu import cpasync, warpgroup
from tilewright.lang.cute.smem import SmemAllocator
from tilewright.lang.cute.views import (
    group_modes,
    local_tile,
    make_layout,
    make_layout_image_mask,
    slice_,
    tile_to_shape,
)
from tilewright.lang.values import BFloat16, Int64, Uint16
from tilewright.layout.layout import Layout

KIND = warpgroup.SmemLayoutAtomKind
LOAD = cpasync.CopyBulkTensorTileG2SOp()
STORE = cpasync.CopyBulkTensorTileS2GOp()
MULTICAST = cpasync.CopyBulkTensorTileG2SMulticastOp()


def smem_tile(kind, rows: int, columns: int, stages: int = 1):
    atom = warpgroup.make_smem_layout_atom(kind, BFloat16)
    order = (0, 1, 2) if kind.name.startswith("K") else (1, 0, 2)
    return tile_to_shape(atom, (rows, columns, stages), order)


def one(layout):
    return slice_(layout, (None, None, 0))


# kind, tile, box (innermost first), dims that the box walks: 0 is M, 1 is K
BOXES = [
    (KIND.K_SW128, (128, 64), (64, 128), "KM"),
    (KIND.K_SW128, (128, 128), (64, 128), "KM"),
    (KIND.K_SW64, (128, 64), (32, 128), "KM"),
    (KIND.K_SW32, (64, 64), (16, 64), "KM"),
    (KIND.K_INTER, (64, 64), (8, 64), "KM"),
    (KIND.MN_SW128, (128, 64), (64, 64), "MK"),
    (KIND.MN_SW64, (64, 32), (32, 32), "MK"),
    (KIND.MN_INTER, (64, 16), (8, 16), "MK"),
    (KIND.K_SW128, (512, 64), (64, 256), "KM"),
]


@pytest.mark.parametrize(("kind", "tile", "box", "order"), BOXES)
def test_descriptor_fields(kind, tile, box, order: str) -> None:
    """dims and strides innermost first, the box, the swizzle of the shared-memory layout."""
    k_major = order == "KM"
    with kernel(kind="host") as k:
        m, depth, ld = k.number("M"), k.number("K"), k.number("ld", "i64", divby=8)
        stride = (ld, 1) if k_major else (1, ld)
        g = k.gmem("bf16", Layout((m, depth), stride))
        atom, coords = cpasync.make_tiled_tma_atom(LOAD, g, one(smem_tile(kind, *tile)), tile)
        (op,) = k.all(host.MakeTensorMap)
        names = ["K", "M"] if k_major else ["M", "K"]
        assert [v.name for v in op.geometry] == [*names, "ld"]
        assert op.box == box
        assert op.rank == 2
        assert (
            op.swizzle
            == {"INTER": "none", "SW32": "32B", "SW64": "64B", "SW128": "128B"}[
                kind.name.split("_")[1]
            ]
        )
        assert atom.tensormap is op.result
        at = coords[5, 7]
        assert at == ((7, 5) if k_major else (5, 7))
        k.verify()


@pytest.mark.parametrize(("kind", "tile", "box", "order"), BOXES)
def test_boxes_of_a_tile(kind, tile, box, order: str) -> None:
    """Law: the boxes of a copy cover the tile, each at the coordinates and the shared-memory
    address of its first element."""
    layout = smem_tile(kind, *tile, stages=2)
    atom, coords = host_atom(tile, layout, order)
    with kernel() as k:
        tile_g = local_tile(coords, tile, (k.number("i"), None))
        s = SmemAllocator().allocate_tensor(BFloat16, layout, byte_alignment=128)
        inner = CopyAtom(atom.op, atom.row, atom.dtype, k.tensormap(), atom.geometry)
        ts, tg = cpasync.tma_partition(
            inner, 0, make_layout(1), group_modes(s, 0, 2), group_modes(tile_g, 0, 2)
        )
        bar = arch.alloc_smem(Int64, 1)
        copy(inner, tg[None, k.number("k")], ts[None, 1], tma_bar_ptr=bar)
        ops = k.all(copy_ops.TmaLoad)
    found = addresses(k, {"i": 3, "k": 2})
    rows, columns = tile
    assert len(ops) == rows * columns // (box[0] * box[1])
    seen = set()
    for op in ops:
        inner_at, outer_at = (found[v] for v in op.coords)
        row, column = (outer_at, inner_at) if order == "KM" else (inner_at, outer_at)
        row, column = row - 3 * rows, column - 2 * columns
        # The corner is stored where the plain layout says: boxes do not begin inside a pattern.
        assert found[op.dst] - SHARED_BASE == 2 * layout.outer((row, column, 1))
        across, down = (box[1], box[0]) if order == "KM" else (box[0], box[1])
        seen |= {(row + a, column + b) for a in range(across) for b in range(down)}
    assert seen == {(r, c) for r in range(rows) for c in range(columns)}


def host_atom(tile, layout, order: str, op=LOAD, num_multicast: int = 1):
    with kernel(kind="host") as k:
        ld = k.number("ld", "i64", divby=8)
        stride = (ld, 1) if order == "KM" else (1, ld)
        g = k.gmem("bf16", Layout((4096, 4096), stride))
        staged = one(layout) if len(layout.shape) == 3 else layout
        return cpasync.make_tiled_tma_atom(op, g, staged, tile, num_multicast)


def test_more_dimensions_and_broadcast() -> None:
    with kernel(kind="host") as k:
        m, n, batch, heads = (k.number(x) for x in ("M", "K", "L", "H"))
        ld, step = k.number("ld", "i64", divby=8), k.number("step", "i64", divby=8)
        layout = Layout((m, n, (batch, heads)), (ld, 1, (step, 0)))
        g = k.gmem("bf16", layout)
        tile = (128, 64)
        atom, coords = cpasync.make_tiled_tma_atom(
            LOAD, g, one(smem_tile(KIND.K_SW128, *tile)), tile
        )
        (op,) = k.all(host.MakeTensorMap)
        # H is broadcast: it takes no dimension.
        assert [v.name for v in op.geometry] == ["K", "M", "L", "ld", "step"]
        assert op.box == (64, 128, 1)
        assert coords[1, 2, (3, 9)] == (2, 1, 3)
        assert atom.geometry.values == 64 * 128


def test_multicast_shares_a_box() -> None:
    """Each block brings its part of every box to all: the parts cover it, in place."""
    layout = smem_tile(KIND.K_SW128, 128, 64, 2)
    atom, coords = host_atom((128, 64), layout, "KM", MULTICAST, 2)
    assert atom.geometry.box == (64, 64)
    with kernel() as k:
        s = SmemAllocator().allocate_tensor(BFloat16, layout)
        inner = CopyAtom(atom.op, atom.row, atom.dtype, k.tensormap(), atom.geometry)
        rank = arch.block_idx_in_cluster()
        tiles = local_tile(coords, (128, 64), (1, None))
        ts, tg = cpasync.tma_partition(
            inner, rank, make_layout(2), group_modes(s, 0, 2), group_modes(tiles, 0, 2)
        )
        bar = arch.alloc_smem(Int64, 1)
        copy(inner, tg[None, 4], ts[None, 0], tma_bar_ptr=bar, mcast_mask=3)
        (op,) = k.all(copy_ops.TmaLoadMulticast)
        k.verify()
    for rank_value in range(2):
        found = addresses(k, {"cluster_rank": rank_value})
        assert [found[v] for v in op.coords] == [4 * 64, 128 + 64 * rank_value]
        assert found[op.dst] - SHARED_BASE == rank_value * 64 * 64 * 2


def test_image_mask() -> None:
    cluster = make_layout((2, 4, 1))
    assert make_layout_image_mask(cluster, (0, 1, 0), 0).raw == 0b1100
    assert make_layout_image_mask(cluster, (1, 0, 0), 1).raw == 0b10101010
    with kernel() as k:
        mask = make_layout_image_mask(cluster, (k.number("x"), 1, 0), 1)
        assert type(mask) is Uint16
        assert addresses(k, {"x": 1})[mask.ir_value()] == 0b10101010


def test_stores() -> None:
    layout = smem_tile(KIND.K_SW128, 64, 128, 1)
    atom, coords = host_atom((64, 128), layout, "KM", STORE)
    with kernel() as k:
        s = SmemAllocator().allocate_tensor(BFloat16, one(layout))
        inner = CopyAtom(atom.op, atom.row, atom.dtype, k.tensormap(), atom.geometry)
        cpasync.prefetch_descriptor(inner)
        tile = local_tile(coords, (64, 128), (2, 3))
        ts, tg = cpasync.tma_partition(
            inner, 0, make_layout(1), group_modes(s, 0, 2), group_modes(tile, 0, 2)
        )
        copy(inner, ts, tg)
        ops = k.all(copy_ops.TmaStore)
        k.verify()
    found = addresses(k, {})
    assert [[found[v] for v in op.coords] for op in ops] == [[384, 128], [448, 128]]


def test_atoms_travel_by_value() -> None:
    layout = smem_tile(KIND.K_SW128, 64, 64, 1)
    atom, _ = host_atom((64, 64), layout, "KM")
    with kernel() as k:
        fresh = k.tensormap()
        twin = atom.__tw_with_values__([fresh])
        assert twin.__tw_values__() == [fresh]
        assert twin.geometry is atom.geometry


def test_wrong_use_is_refused() -> None:
    layout = smem_tile(KIND.K_SW128, 128, 64, 2)
    tile = one(layout)

    def attempt(make, kind, text):
        with kernel(kind="host") as k:
            with pytest.raises(kind, match=text) as caught:
                make(k)
            assert caught.value.loc is not None
            assert caught.value.loc.file == __file__

    def g(k, shape=(256, 256), stride=(256, 1), dtype="bf16"):
        return k.gmem(dtype, Layout(shape, stride))

    make = cpasync.make_tiled_tma_atom
    attempt(
        lambda k: make(LOAD, g(k, stride=(1, 256)), tile, (128, 64)),
        LayoutError,
        r"shared memory is contiguous along mode 1 of the tensor .* not the mode of stride 1",
    )
    attempt(
        lambda k: make(LOAD, g(k), layout, (128, 64)), LayoutError, r"the tile \(128,64\) has 8192"
    )
    attempt(
        lambda k: make(LOAD, g(k, stride=(257, 1)), tile, (128, 64)),
        LayoutError,
        r"stride 257 of bf16 is 514 bytes, TMA needs multiples of 16",
    )
    attempt(
        lambda k: make(LOAD, g(k), Layout((128, 64), (72, 1)), (128, 64)),
        LayoutError,
        r"the shared-memory layout \(128,64\):\(72,1\) leaves gaps",
    )
    attempt(
        lambda k: make(LOAD, g(k), Layout((128, 4), (4, 1)), (128, 4)),
        LayoutError,
        r"the box is 8 bytes wide, expected a multiple of 16",
    )
    attempt(
        lambda k: make(LOAD, g(k, dtype="f32"), tile, (128, 64)),
        LayoutError,
        r"TMA has no swizzle like that of Sw<3,3,3>",
    )
    attempt(
        lambda k: make(LOAD, g(k), tile, (128, 64), 2),
        TypeMismatchError,
        r"num_multicast=2 needs a multicast operation",
    )
    attempt(
        lambda k: make(MULTICAST, g(k), tile, (128, 64), 3),
        LayoutError,
        r"3 blocks cannot share a box of 64 x 128",
    )
    attempt(
        lambda _: make(LOAD, tile, tile, (128, 64)),
        TypeMismatchError,
        r"expected a tensor in global memory, got a ComposedLayout",
    )
    shape = (8, 8, 8, 8, 8, 8)
    attempt(
        lambda k: make(
            LOAD, g(k, shape, (8, 1, 64, 512, 4096, 32768)), Layout((8, 8), (8, 1)), (8, 8)
        ),
        LayoutError,
        r"has 6 modes, TMA has 5",
    )
    with kernel() as k, pytest.raises(CaptureError, match=r"is made by the host, not inside a ker"):
        make(LOAD, g(k), tile, (128, 64))


def test_copies_that_do_not_fit() -> None:
    layout = smem_tile(KIND.K_SW128, 128, 64, 2)
    atom, coords = host_atom((128, 64), layout, "KM")
    with kernel() as k:
        s = SmemAllocator().allocate_tensor(BFloat16, layout)
        inner = CopyAtom(atom.op, atom.row, atom.dtype, k.tensormap(), atom.geometry)
        tiles = local_tile(coords, (128, 64), (1, None))
        ts, tg = cpasync.tma_partition(
            inner, 0, make_layout(1), group_modes(s, 0, 2), group_modes(tiles, 0, 2)
        )
        bar = arch.alloc_smem(Int64, 1)
        with pytest.raises(TypeMismatchError, match=r"a TMA load needs the mbarrier that counts"):
            copy(inner, tg[None, 0], ts[None, 0])
        with pytest.raises(TypeMismatchError, match=r"mcast_mask is not used for SM90_TMA_LOAD"):
            copy(inner, tg[None, 0], ts[None, 0], tma_bar_ptr=bar, mcast_mask=1)
        copy(inner, tg[None, 0], ts[None, 0], tma_bar_ptr=bar, mcast_mask=0)
        with pytest.raises(TypeMismatchError, match=r"copies coordinates to shared memory, got"):
            copy(inner, ts[None, 0], tg[None, 0], tma_bar_ptr=bar)
        with pytest.raises(LayoutError, match=r"copies whole boxes of 8192 elements"):
            copy(inner, tg[None, 0], ts, tma_bar_ptr=bar)
        with pytest.raises(LayoutError, match=r"tma_partition: mode 0 is the tile on both sides"):
            cpasync.tma_partition(inner, 0, make_layout(1), group_modes(s, 0, 2), tiles)
        with pytest.raises(LayoutError, match=r"cta_layout 2:1 has 2 blocks, the atom was made wi"):
            cpasync.tma_partition(
                inner, 0, make_layout(2), group_modes(s, 0, 2), group_modes(tiles, 0, 2)
            )
        with pytest.raises(TypeMismatchError, match=r"prefetch_descriptor: expected a TMA atom"):
            cpasync.prefetch_descriptor(3)
        unaligned = type(s)(s.iterator + 8, s.layout)
        us, _ = cpasync.tma_partition(
            inner, 0, make_layout(1), group_modes(unaligned, 0, 2), group_modes(tiles, 0, 2)
        )
        with pytest.raises(LayoutError, match=r"the address must be a multiple of 128 bytes"):
            copy(inner, tg[None, 0], us[None, 0], tma_bar_ptr=bar)
