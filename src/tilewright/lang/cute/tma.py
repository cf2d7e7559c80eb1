"""TMA: descriptors, which the host makes, and the boxes that a copy asks for.

A descriptor says how a global tensor is cut into boxes.  What a box is follows from both sides:
reading shared memory in order, which coordinates of the tensor come by?  As long as they walk one
new dimension after the other, one box covers them; where they jump (a tile wider than the swizzle's
span), another box begins.

Rule ORDER.  The dimensions of the descriptor are those of the box, innermost first (the tensor's
contiguous one), then the others in the order of the tensor's modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.arch.swizzle_mode import SWIZZLE_MODES, SwizzleMode
from tilewright.errors import CaptureError, LayoutError, TypeMismatchError
from tilewright.ir.core import Value
from tilewright.ir.ops import bulk, host
from tilewright.ir.ops import copy as copy_ops
from tilewright.lang import trace
from tilewright.lang.cute.arch_sync import barrier_value
from tilewright.lang.cute.atom import CopyAtom, TmaGeometry, check_target
from tilewright.lang.cute.facts import divisor
from tilewright.lang.cute.located import located
from tilewright.lang.cute.pointer import AddressSpace, Pointer, static_int
from tilewright.lang.cute.tensor import Tensor, advance, plain
from tilewright.lang.values import Int32, Uint16, as_numeric, describe
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.compose import composition
from tilewright.layout.divide import logical_divide
from tilewright.layout.int_tuple import flatten_tuple, fmt, unflatten
from tilewright.layout.inverse import right_inverse
from tilewright.layout.layout import Layout
from tilewright.layout.leaf import add
from tilewright.layout.modes import coalesce, rank, size
from tilewright.layout.swizzle import ComposedLayout, Swizzle
from tilewright.numeric.dtypes import DType

MAX_BOX = 256
MAX_RANK = 5
ALIGN = 128
"""Bytes to which a box in shared memory must be aligned."""


@dataclass(frozen=True)
class Boxes:
    """A box by its walk through the tensor: (leaf of the tensor's shape, extent) per dimension."""

    walk: tuple[tuple[int, int], ...]

    @property
    def values(self) -> int:
        total = 1
        for _, extent in self.walk:
            total *= extent
        return total


def smem_parts(smem_layout: Any, dtype: DType) -> tuple[Layout, SwizzleMode]:
    """The plain layout of a tile in shared memory, and the hardware's swizzle of it.

    Raises: LayoutError if the hardware has no such swizzle.
    """
    if isinstance(smem_layout, Layout):
        return smem_layout, SWIZZLE_MODES[-1]
    if isinstance(smem_layout, ComposedLayout) and isinstance(smem_layout.inner, Swizzle):
        inner = smem_layout.inner
        for mode in SWIZZLE_MODES:
            fits = inner == mode.on_elements(dtype) or (mode.bits == 0 and inner.bits == 0)
            if fits and isinstance(smem_layout.outer, Layout):
                return smem_layout.outer, mode
    raise LayoutError(
        f"make_tiled_tma_atom: TMA has no swizzle like that of {smem_layout} for {dtype}",
        loc=trace.loc(),
        hint="make the layout with warpgroup.make_smem_layout_atom and cute.tile_to_shape",
    )


def find_boxes(
    gmem: Layout, tiler: tuple[Any, ...], smem: Layout, mode: SwizzleMode, dtype: DType
) -> Boxes:
    """The largest box that one instruction can bring from a tile of `gmem` into `smem`.

    Raises: LayoutError where shared memory does not follow the tensor's contiguous dimension.
    """
    leaf_strides = flatten_tuple(gmem.stride)
    names = tuple(ScaledBasis(1, (i,)) for i in range(len(leaf_strides)))
    coords = Layout(gmem.shape, unflatten(names, gmem.shape))
    tile = composition(coords, tiler)
    if size(tile) != size(smem):
        raise LayoutError(
            f"make_tiled_tma_atom: the tile {fmt(tile.shape)} has {size(tile)} elements, the "
            f"shared-memory layout {smem} has {size(smem)}",
            hint="pass the layout of one stage",
        )
    inverse = right_inverse(smem)
    if size(inverse) != size(smem):
        raise LayoutError(
            f"make_tiled_tma_atom: the shared-memory layout {smem} leaves gaps; a box fills "
            "consecutive bytes"
        )
    walk = coalesce(composition(tile, inverse))
    pairs = list(zip(flatten_tuple(walk.shape), flatten_tuple(walk.stride), strict=True))
    return Boxes(_walk(pairs, leaf_strides, mode, dtype, gmem))


def _walk(
    pairs: list[tuple[Any, Any]],
    strides: tuple[Any, ...],
    mode: SwizzleMode,
    dtype: DType,
    gmem: Layout,
) -> tuple[tuple[int, int], ...]:
    steps: list[tuple[int, int]] = []
    for extent, basis in pairs:
        if not isinstance(basis, ScaledBasis):
            break
        leaf = basis.path[0]
        if basis.basis_value != 1 or leaf in [seen for seen, _ in steps] or len(steps) == MAX_RANK:
            break
        if not steps and not (type(strides[leaf]) is int and strides[leaf] == 1):
            raise LayoutError(
                f"make_tiled_tma_atom: shared memory is contiguous along mode {leaf} of the tensor "
                f"{gmem}, which is not the mode of stride 1",
                hint="swap the major mode of the shared-memory layout, or make the tensor's "
                "contiguous mode static with mark_layout_dynamic(leading_dim=..)",
            )
        limit = mode.span_elements(dtype) if not steps and mode.bits else MAX_BOX
        fitting = extent if extent <= limit else _largest_divisor(extent, limit)
        steps.append((leaf, fitting))
        if fitting != extent:
            break
    inner = steps[0][1] * dtype.storage_bits if steps else 0
    if inner == 0 or inner % 128:
        raise LayoutError(
            f"make_tiled_tma_atom: the box is {inner // 8} bytes wide, expected a multiple of 16",
            details={"tensor": gmem},
        )
    return tuple(steps)


def _largest_divisor(extent: int, limit: int) -> int:
    return next(n for n in range(limit, 0, -1) if extent % n == 0)


@located
def make_tiled_tma_atom(
    op: Any,
    gmem_tensor: Tensor,
    smem_layout: Any,
    cta_tiler: Any,
    num_multicast: int = 1,
    *,
    internal_type: Any = None,
) -> tuple[CopyAtom, Tensor]:
    """The TMA copy of tiles of a global tensor, and the tensor of its coordinates.

    Called in the @jit host function; both results are passed to the kernel.

    Shapes: `smem_layout` is that of one tile (one stage); `cta_tiler` cuts the tile by mode.
            The coordinate tensor has the shape of `gmem_tensor`: tile it in its place.
    Raises: CaptureError inside a kernel; LayoutError where no box fits both sides.
    """
    del internal_type
    _check_host()
    p = _gmem_pointer(gmem_tensor)
    gmem = gmem_tensor.layout
    tiler = cta_tiler if isinstance(cta_tiler, Layout) else tuple(plain(cta_tiler))
    tiler = tiler if isinstance(tiler, tuple) else (tiler,)
    plain_smem, mode = smem_parts(smem_layout, p.element)
    boxes = find_boxes(gmem, tiler, plain_smem, mode, p.element)
    order = [leaf for leaf, _ in boxes.walk]
    leaves = flatten_tuple(gmem.stride)
    # A broadcast mode takes no dimension: its coordinate does not matter.
    order += [i for i in range(len(leaves)) if i not in order and not _is_zero(leaves[i])]
    if len(order) > MAX_RANK:
        raise LayoutError(
            f"make_tiled_tma_atom: the tensor {gmem} has {len(order)} modes, TMA has {MAX_RANK}"
        )
    split = len(boxes.walk) - 1
    box = _split_box(boxes, num_multicast, split, len(order))
    geometry = TmaGeometry(box, boxes.values, num_multicast, split, mode.span_bytes)
    tensormap = _emit_tensormap(p, gmem, order, geometry, mode)
    row = op.row(p.element, boxes.values * p.element.storage_bits)
    _check_op(op, row, num_multicast)
    check_target(row)
    names: list[Any] = [0] * len(leaves)
    for dim, leaf in enumerate(order):
        names[leaf] = ScaledBasis(1, (dim,))
    coords = Layout(gmem.shape, unflatten(tuple(names), gmem.shape))
    atom = CopyAtom(op, row, p.element, tensormap, geometry)
    return atom, Tensor((0,) * len(order), coords)


def _is_zero(d: Any) -> bool:
    return type(d) is int and d == 0


def _check_host() -> None:
    active = trace.require("make_tiled_tma_atom")
    if not active.on_host:
        raise CaptureError(
            "make_tiled_tma_atom: a TMA descriptor is made by the host, not inside a kernel",
            loc=trace.loc(),
            hint="call it in the @jit function and pass the atom and the tensor to the kernel",
        )


def _gmem_pointer(t: Any) -> Pointer:
    p = t.iterator if isinstance(t, Tensor) else None
    if not isinstance(p, Pointer) or p.memspace is not AddressSpace.gmem:
        raise TypeMismatchError(
            f"make_tiled_tma_atom: expected a tensor in global memory, got {describe(t)}",
            loc=trace.loc(),
        )
    return p


def _check_op(op: Any, row: Any, num_multicast: int) -> None:
    if not getattr(row, "is_bulk", False):
        raise TypeMismatchError(
            f"make_tiled_tma_atom: expected a bulk tensor operation, got {type(op).__name__}",
            loc=trace.loc(),
        )
    if num_multicast > 1 and not row.multicast:
        raise TypeMismatchError(
            f"make_tiled_tma_atom: num_multicast={num_multicast} needs a multicast operation, got "
            f"{type(op).__name__}",
            loc=trace.loc(),
            hint="use cpasync.CopyBulkTensorTileG2SMulticastOp()",
        )


def _split_box(boxes: Boxes, num_multicast: int, split: int, dims: int) -> tuple[int, ...]:
    extents = [extent for _, extent in boxes.walk]
    if extents[split] % num_multicast:
        raise LayoutError(
            f"make_tiled_tma_atom: {num_multicast} blocks cannot share a box of "
            f"{' x '.join(map(str, extents))}: {extents[split]} does not divide",
            loc=trace.loc(),
        )
    extents[split] //= num_multicast
    return (*extents, *(1,) * (dims - len(extents)))


def _emit_tensormap(
    p: Pointer, gmem: Layout, order: list[int], geometry: TmaGeometry, mode: SwizzleMode
) -> Value:
    shapes, strides = flatten_tuple(gmem.shape), flatten_tuple(gmem.stride)
    nbits = p.element.storage_bits
    for leaf in order[1:]:
        d = divisor(strides[leaf])
        if static_int(strides[leaf]) is not None and d * nbits % 128:
            raise LayoutError(
                f"make_tiled_tma_atom: stride {strides[leaf]} of {p.element} is "
                f"{d * nbits // 8} bytes, TMA needs multiples of 16",
                details={"tensor": gmem},
                loc=trace.loc(),
                hint="pad the rows, or load without TMA",
            )
    numbers = [shapes[i] for i in order] + [strides[i] for i in order[1:]]
    return trace.emit(
        host.MakeTensorMap,
        p.value(),
        *(as_numeric(n).ir_value() for n in numbers),
        rank=len(order),
        box=geometry.box,
        swizzle=mode.name,
    ).results[0]


def _tma_atom(atom: Any, what: str) -> tuple[CopyAtom, TmaGeometry, Value]:
    inner = getattr(atom, "atom", atom)
    if isinstance(inner, CopyAtom) and inner.geometry is not None and inner.tensormap is not None:
        return inner, inner.geometry, inner.tensormap
    raise TypeMismatchError(
        f"{what}: expected a TMA atom, got {describe(atom)}",
        loc=trace.loc(),
        hint="make one with cpasync.make_tiled_tma_atom",
    )


@located
def tma_partition(
    atom: CopyAtom, cta_coord: Any, cta_layout: Layout, smem_tensor: Tensor, gmem_tensor: Tensor
) -> tuple[Tensor, Tensor]:
    """The boxes of the tiles on both sides: what `cute.copy` takes, as (shared, global).

    Shapes: ((tile..), rest..) on both sides -> ((box, boxes), rest..).  `cta_coord` is the block's
            place in `cta_layout`, the blocks that share each box of a multicast.
    Raises: LayoutError if the tiles differ, or the blocks are not those of the multicast.
    """
    _, geometry, _ = _tma_atom(atom, "tma_partition")
    tile = smem_tensor.layout[0]
    if size(tile) != size(gmem_tensor.layout, [0]):
        raise LayoutError(
            f"tma_partition: mode 0 is the tile on both sides, got {size(tile)} elements in shared "
            f"and {size(gmem_tensor.layout, [0])} in global memory",
            hint="group the tile's modes into mode 0: cute.group_modes(t, 0, 2)",
        )
    inverse = right_inverse(tile)
    assert isinstance(inverse, Layout), "the inverse of a plain layout"
    boxes = logical_divide(inverse, Layout(geometry.values))
    smem = _boxed(smem_tensor.layout, boxes)
    gmem = _boxed(gmem_tensor.layout, boxes)
    s_start, g_start = smem_tensor.iterator, gmem_tensor.iterator
    sharing = size(cta_layout)
    if sharing != geometry.num_multicast:
        raise LayoutError(
            f"tma_partition: cta_layout {cta_layout} has {sharing} blocks, the atom was made with "
            f"num_multicast={geometry.num_multicast}"
        )
    if sharing > 1:
        part = cta_layout(plain(cta_coord))
        s_start = advance(s_start, part * (geometry.values // sharing))
        step = (0,) * geometry.split_dim + (part * geometry.box[geometry.split_dim],)
        g_start = add(g_start, step)
    return Tensor(s_start, smem), Tensor(g_start, gmem)


def _boxed(layout: Layout, boxes: Layout) -> Layout:
    tiled = composition(layout, (boxes, *(None,) * (rank(layout) - 1)))
    result: Layout = coalesce(tiled, ((1, 1),))
    return result


def prefetch_descriptor(tma_atom: Any) -> None:
    """Brings the descriptor of a TMA atom into its cache."""
    _, _, tensormap = _tma_atom(tma_atom, "prefetch_descriptor")
    trace.emit(copy_ops.PrefetchDescriptor, tensormap)


def tma_copy(
    atom: CopyAtom, src: Tensor, dst: Tensor, barrier: Any = None, mcast_mask: Any = None
) -> None:
    """One instruction per box; one thread of the block executes it.

    Raises: TypeMismatchError for sides, barrier or mask that do not fit the atom.
    """
    _, geometry, tensormap = _tma_atom(atom, "copy")
    load = atom.row.kind == "tma_load"
    memory_side, coords = (dst, src) if load else (src, dst)
    p = memory_side.iterator
    if not isinstance(p, Pointer) or p.memspace is not AddressSpace.smem or coords.memspace:
        raise TypeMismatchError(
            f"copy: {atom.row.name} copies {'coordinates to shared memory' if load else ''}"
            f"{'' if load else 'shared memory to coordinates'}, got {src} and {dst}",
            loc=trace.loc(),
            hint="pass the two results of cpasync.tma_partition, with one tile selected",
        )
    total = size(coords.layout)
    if size(memory_side.layout) != total or type(total) is not int or total % geometry.values:
        raise LayoutError(
            f"copy: a TMA copies whole boxes of {geometry.values} elements, got {src} and {dst}",
            loc=trace.loc(),
        )
    if load and barrier is None:
        raise TypeMismatchError(
            "copy: a TMA load needs the mbarrier that counts its bytes",
            loc=trace.loc(),
            hint="pass tma_bar_ptr=",
        )
    if not atom.row.multicast and static_int(mcast_mask) == 0:
        mcast_mask = None  # "nobody else": what kernels pass where they share nothing.
    if (mcast_mask is None) == (load and atom.row.multicast):
        raise TypeMismatchError(
            f"copy: mcast_mask is {'missing' if mcast_mask is None else 'not used'} for "
            f"{atom.row.name}",
            loc=trace.loc(),
        )
    for i in range(0, total, geometry.values):
        place = (p + memory_side.layout(i)).plain_value(ALIGN)
        at = _coordinates(coords, i, len(geometry.box))
        if atom.row.kind == "tma_reduce":
            kind = atom.row.name.removeprefix("SM90_TMA_REDUCE_").lower()
            trace.emit(bulk.TmaReduce, tensormap, place, *at, kind=kind)
        elif not load:
            trace.emit(copy_ops.TmaStore, tensormap, place, *at)
        elif mcast_mask is None:
            trace.emit(copy_ops.TmaLoad, tensormap, place, barrier_value(barrier), *at)
        else:
            mask = Uint16(as_numeric(mcast_mask)).ir_value()
            bar = barrier_value(barrier)
            trace.emit(copy_ops.TmaLoadMulticast, tensormap, place, bar, mask, *at)


def _coordinates(coords: Tensor, index: int, dims: int) -> list[Value]:
    place = add(coords.iterator, coords.layout(index))
    flat = flatten_tuple(place)
    padded = (*flat, *(0,) * (dims - len(flat)))
    return [Int32(x).ir_value() for x in padded]
