"""Thread-value partitioning: the laws behind TiledCopy and TiledMma, as layouts and nothing else.

A *TV layout* maps (thread, value) to a coordinate of a tile.  Tiling a tensor with it gives every
thread its values, in the order of the instruction's registers, and the repetitions of the tile:
``(values, rest0, rest1, ..)``.
Source: CuTe, "TiledCopy" and "TiledMMA"; the vectors of NVIDIA's own code check every function.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.complement import complement
from tilewright.layout.compose import composition
from tilewright.layout.divide import logical_divide, zipped_divide
from tilewright.layout.int_tuple import fmt, product_each, repeat_like
from tilewright.layout.inverse import left_inverse, right_inverse
from tilewright.layout.layout import Layout, make_layout
from tilewright.layout.modes import coalesce, filter, rank, size, slice_and_offset
from tilewright.layout.multiply import logical_product, raked_product, tiled_product
from tilewright.layout.recast import recast_layout, upcast


def make_layout_tv(thr_layout: Layout, val_layout: Layout) -> tuple[tuple[int, ...], Layout]:
    """The tile that threads times values cover, and its TV layout.

    Shapes: threads (M,N) and values (m,n) give the tile (M*m, N*n); values lie together.

    >>> tiler, tv = make_layout_tv(Layout((16, 8), (8, 1)), Layout((1, 8), (0, 1)))
    >>> print(tiler, tv)
    (16, 64) ((8,16),8):((128,1),16)
    """
    tile = raked_product(thr_layout, val_layout)
    shape = Layout((size(thr_layout), size(val_layout)))
    return product_each(tile.shape), composition(right_inverse(tile), shape)


def tile_size(tiler: Any) -> Any:
    """The extents of the tile that a by-mode tiler cuts."""
    return tuple(size(t) if isinstance(t, Layout) else t for t in tiler)


@dataclass(frozen=True)
class CopyTiling:
    """How the threads of a tiled copy share a tile.

    Shapes: `tiler` cuts the tile; `layout_tv` maps (thread, value) to its coordinate, on the
            reference side of the instruction; `ref`, `src`, `dst` are the instruction's own
            (thread, value) layouts, in values of the copied type.
    """

    tiler: tuple[Any, ...]
    layout_tv: Layout
    ref: Layout
    src: Layout
    dst: Layout

    @property
    def num_threads(self) -> int:
        return int(size(self.layout_tv, [0]))

    @property
    def atom_values(self) -> int:
        """Values per thread of one instruction, on the reference side."""
        return int(size(self.ref, [1]))

    def check(self) -> None:
        """Raises: LayoutError unless whole instructions tile the threads and the values."""
        for what, mode in (("threads", 0), ("values", 1)):
            have, need = size(self.layout_tv, [mode]), size(self.ref, [mode])
            if have % need:
                raise LayoutError(
                    f"tiled copy: {have} {what} are not whole instructions of {need} {what}",
                    details={"layout_tv": self.layout_tv, "instruction": self.ref},
                )

    def side(self, layout: Layout, which: Layout) -> Layout:
        """((thread, rest threads), (value, rest values), (rest modes)) of a tensor's layout."""
        if rank(layout) < len(self.tiler):
            raise LayoutError(
                f"partition: the tensor {layout} has fewer modes than the tile {fmt(self.tiler)}"
            )
        tiled = zipped_divide(layout, self.tiler)
        found: Layout = composition(tiled, (_thread_values(self, which), None))
        return found

    def partition(self, layout: Layout, which: Layout, thread: Any) -> tuple[Layout, Any]:
        """One thread's ((value, rest values), rest0, rest1, ..), and its offset."""
        whole = self.side(layout, which)
        rest = whole.shape[1]
        wild = (None,) * len(rest) if type(rest) is tuple else None
        # Thread and value are both in mode 0: ((thread, value), rest).
        sliced, offset = slice_and_offset(((thread, None), wild), whole)
        return sliced, offset

    def tv(self, which: Layout) -> Layout:
        """(thread, value) -> coordinate of the tile, for one side."""
        found: Layout = composition(Layout(tile_size(self.tiler)), _thread_values(self, which))
        return found

    def retile(self, layout: Layout) -> Layout:
        """A thread's values, laid out by some other instruction, regrouped for this one.

        Shapes: (V, rest0, ..) -> ((value, rest values), rest0', ..).
        """
        count = size(layout, [0])
        fragment = _fragment_order(self, count)
        target = (count, *product_each(fragment.shape))
        ordered = logical_product(Layout(count), right_inverse(fragment))
        grouped = zipped_divide(ordered, Layout(self.atom_values))
        tiled = zipped_divide(layout, target)
        values = composition(tiled, (grouped, None))
        rest = values.shape[1]
        coord = (0, *(None,) * (len(rest) - 1))
        sliced, _ = slice_and_offset((None, coord), values)
        return make_layout(sliced[0], *[sliced[i] for i in range(1, len(sliced))])


@lru_cache(maxsize=512)
def _thread_values(tiling: CopyTiling, which: Layout) -> Layout:
    """((thread, rest threads), (value, rest values)) -> coordinate of the tile."""
    atom_shape = (size(tiling.ref, [0]), size(tiling.ref, [1]))
    atoms = zipped_divide(tiling.layout_tv, atom_shape)
    to_side = composition(right_inverse(tiling.ref), which)
    moved = composition(atoms, (to_side, None))
    zipped = make_layout(
        make_layout(moved[0][0], moved[1][0]), make_layout(moved[0][1], moved[1][1])
    )
    return coalesce(zipped, (1, (1, 1)))


@lru_cache(maxsize=512)
def _fragment_order(tiling: CopyTiling, count: int) -> Layout:
    """(m, n) -> the place of that element's value among a thread's values, in groups of `count`."""
    tile = product_each(tile_size(tiling.tiler))
    flat = right_inverse(tiling.layout_tv)
    shaped = composition(flat, Layout(tile))
    order: Layout = upcast(shaped, tiling.num_threads * count)
    return order


@lru_cache(maxsize=256)
def in_values(layout: Layout, bits: int) -> Layout:
    """A (thread, bit) layout of a copy instruction, counted in values of `bits` bits."""
    counted: Layout = recast_layout(bits, 1, layout)
    return counted


@dataclass(frozen=True)
class MmaTiling:
    """How warps (or threads, or warpgroups) of one MMA instruction share a tile.

    Shapes: `atom_mnk` the instruction, `thr_id` its threads, `layout_*` its (thread, value)
            layouts; `atom_layout` (M,N,K) arranges copies of it; `permutation` (M,N,K) says which
            elements of the tensor a tile takes (None: as they come).
    """

    atom_mnk: tuple[int, int, int]
    thr_id: Layout
    layout_a: Layout
    layout_b: Layout
    layout_c: Layout
    atom_layout: Layout
    permutation: tuple[Any, Any, Any]

    @property
    def thr_layout_vmnk(self) -> Layout:
        """(thread of the instruction, M, N, K) -> thread number."""
        return _thread_layout(self)

    @property
    def num_threads(self) -> int:
        return int(size(self.thr_layout_vmnk))

    def tile_mnk(self) -> tuple[int, int, int]:
        """The extents of the tile that all threads compute together."""
        threads = self.thr_layout_vmnk
        sizes = []
        for i in range(3):
            own = self.permutation[i]
            extent = size(threads, [i + 1]) * self.atom_mnk[i]
            sizes.append(extent if own is None else size(own) if isinstance(own, Layout) else own)
        return sizes[0], sizes[1], sizes[2]

    def axes(self, which: str) -> tuple[int, int]:
        """The two of M, N, K that an operand has."""
        return {"A": (0, 2), "B": (1, 2), "C": (0, 1)}[which]

    def atom_tv(self, which: str) -> Layout:
        return {"A": self.layout_a, "B": self.layout_b, "C": self.layout_c}[which]

    def thrfrg(self, layout: Layout, which: str) -> Layout:
        """((ThrV, (Thr0, Thr1)), (values, (rest0, rest1, ..))) of an operand's layout."""
        if rank(layout) < 2:
            raise LayoutError(
                f"partition_{which}: expected a tensor of two modes or more, got {layout}"
            )
        i, j = self.axes(which)
        permuted = logical_divide(layout, (self.permutation[i], self.permutation[j]))
        atoms = zipped_divide(permuted, (self.atom_mnk[i], self.atom_mnk[j]))
        values = composition(atoms, (self.atom_tv(which), None))
        threads = self.thr_layout_vmnk
        shared = zipped_divide(values[1], (size(threads, [i + 1]), size(threads, [j + 1])))
        own = values[0]
        return make_layout(make_layout(own[0], shared[0]), make_layout(own[1], shared[1]))

    def partition(self, layout: Layout, which: str, thread: Any) -> tuple[Layout, Any]:
        """One thread's (values, rest0, rest1, ..), and its offset."""
        whole = self.thrfrg(layout, which)
        vmnk: Any = self.thr_layout_vmnk.get_flat_coord(thread)
        i, j = self.axes(which)
        rest = whole.shape[1][1]
        coord = ((vmnk[0], (vmnk[i + 1], vmnk[j + 1])), (None, (None,) * len(rest)))
        return slice_and_offset(coord, whole)

    def tv(self, which: str) -> Layout:
        """(thread, value) -> coordinate of the operand's tile."""
        return _mma_tv(self, which)


@lru_cache(maxsize=256)
def _thread_layout(tiling: MmaTiling) -> Layout:
    arranged = tiling.atom_layout
    while rank(arranged) < 3:
        arranged = make_layout(*arranged, Layout(1, 0))
    return tiled_product(tiling.thr_id, arranged)


@lru_cache(maxsize=256)
def _mma_tv(tiling: MmaTiling, which: str) -> Layout:
    i, j = tiling.axes(which)
    tile = tiling.tile_mnk()
    whole = tiling.thrfrg(Layout((tile[i], tile[j])), which)
    own, shared = whole[0][0], whole[0][1]
    threads = tiling.thr_layout_vmnk
    by_axis = [Layout(size(threads, [k + 1]), 0) for k in range(3)]
    by_axis[i], by_axis[j] = shared[0], shared[1]
    gaps = complement(threads)
    covered = make_layout(threads, gaps)
    values = make_layout(own, *by_axis)
    padded = make_layout(values, Layout(gaps.shape, repeat_like(gaps.shape, 0)))
    per_thread = composition(padded, right_inverse(covered))
    return make_layout(per_thread, whole[1])


def c_atom_tiling(source: Layout, mma: MmaTiling) -> tuple[tuple[Any, ...], Layout]:
    """Tiler and TV layout of the smallest tile of C that one copy instruction per thread covers.

    `source` is the (thread, value) layout of the instruction's source.
    """
    tv_c = mma.tv("C")
    count = size(source, [1])
    some = composition(tv_c, Layout((size(tv_c, [0]), count)))
    tile = mma.tile_mnk()[:2]
    picks = []
    for i in range(2):
        axis = Layout(tile, tuple(int(k == i) for k in range(2)))
        picks.append(filter(composition(axis, some)))
    tiler = tuple(picks)
    to_tile = composition(Layout(tile), tiler)
    return tiler, composition(left_inverse(to_tile), some)


def extent(layout: Layout) -> int:
    """The number of values of a static layout."""
    return int(size(layout))
