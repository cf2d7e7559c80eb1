"""TiledMma: a matrix instruction repeated over warps (or threads, or warpgroups) and a tile."""

from __future__ import annotations

from typing import Any

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.lang import trace
from tilewright.lang.cute import tv
from tilewright.lang.cute.atom import MmaAtom, make_mma_atom
from tilewright.lang.cute.descriptor import make_descriptor_tensor
from tilewright.lang.cute.located import located
from tilewright.lang.cute.tensor import (
    Tensor,
    advance,
    make_rmem_tensor,
    plain,
)
from tilewright.lang.values import Numeric, describe, is_number, numeric_of
from tilewright.layout.int_tuple import fmt, product
from tilewright.layout.layout import Layout, make_identity_layout
from tilewright.layout.modes import size

_AXES = {"A": ("M", "K"), "B": ("N", "K"), "C": ("M", "N")}


class TiledMma(MmaAtom):
    """All threads' share of a matrix product: ``get_slice(thread).partition_A(sA)``.

    Shapes: partitions are (values of one instruction, rest0, rest1, ..).
    """

    def __init__(self, atom: MmaAtom, atom_layout: Layout, permutation: tuple[Any, ...]) -> None:
        super().__init__(atom.op, atom.row)
        self.accumulate = atom.accumulate
        row = atom.row
        self.tiling = tv.MmaTiling(
            row.shape_mnk,
            row.thr_id,
            row.layout_a,
            row.layout_b,
            row.layout_c,
            atom_layout,
            (permutation[0], permutation[1], permutation[2]),
        )

    @property
    def num_threads(self) -> int:
        """Threads that the MMA is tiled over."""
        return self.tiling.num_threads

    size = num_threads

    @property
    def thr_layout_vmnk(self) -> Layout:
        """(thread of the instruction, M, N, K) -> thread."""
        return self.tiling.thr_layout_vmnk

    @property
    def permutation_mnk(self) -> tuple[Any, Any, Any]:
        return self.tiling.permutation

    @property
    def tile_mnk(self) -> tuple[int, int, int]:
        """The tile that all threads compute together."""
        return self.tiling.tile_mnk()

    def get_tile_size(self, mode: int) -> int:
        """The extent of the tile along M (0), N (1) or K (2)."""
        return self.tiling.tile_mnk()[mode]

    @property
    def tv_layout_A(self) -> Layout:
        """(thread, value) -> coordinate of the (M, K) tile."""
        return self.tiling.tv("A")

    @property
    def tv_layout_B(self) -> Layout:
        """(thread, value) -> coordinate of the (N, K) tile."""
        return self.tiling.tv("B")

    @property
    def tv_layout_C(self) -> Layout:
        """(thread, value) -> coordinate of the (M, N) tile."""
        return self.tiling.tv("C")

    tv_layout_A_tiled = tv_layout_A
    tv_layout_B_tiled = tv_layout_B
    tv_layout_C_tiled = tv_layout_C

    def get_slice(self, thr_idx: Any) -> ThrMma:
        """One thread's view.

        Raises: TypeMismatchError unless `thr_idx` is an integer.
        """
        floating = isinstance(thr_idx, float) or (
            isinstance(thr_idx, Numeric) and type(thr_idx).is_float
        )
        if not is_number(thr_idx) or floating:
            raise TypeMismatchError(
                f"TiledMma.get_slice: expected an integer thread index, got {describe(thr_idx)}",
                loc=trace.loc(),
                hint="tidx, _, _ = cute.arch.thread_idx()",
            )
        return ThrMma(self, plain(thr_idx))

    @located
    def partition_shape_A(self, shape_mk: Any) -> Any:
        """The shape of a partition of an (M, K) tile."""
        return self._partition_shape(plain(shape_mk), "A")

    @located
    def partition_shape_B(self, shape_nk: Any) -> Any:
        """The shape of a partition of an (N, K) tile."""
        return self._partition_shape(plain(shape_nk), "B")

    @located
    def partition_shape_C(self, shape_mn: Any) -> Any:
        """The shape of a partition of an (M, N) tile."""
        return self._partition_shape(plain(shape_mn), "C")

    def _partition_shape(self, shape: Any, which: str) -> Any:
        self.check_extents(shape, which, f"partition_shape_{which}")
        return self.tiling.partition(make_identity_layout(shape), which, 0)[0].shape

    def check_extents(self, shape: Any, which: str, what: str) -> None:
        """Raises: LayoutError unless both extents are compile-time multiples of the tile."""
        tile = self.tiling.tile_mnk()
        for axis, i, extent in zip(_AXES[which], self.tiling.axes(which), shape, strict=False):
            count = product(extent)
            if type(count) is not int:
                raise LayoutError(
                    f"{what}: {axis} = {fmt(extent)} is known only at run time, an MMA needs a "
                    f"compile-time {axis}",
                    loc=trace.loc(),
                    hint=f"cut a tile of static {axis} first, with local_tile",
                )
            if count % tile[i]:
                raise LayoutError(
                    f"{what}: {axis} = {count} is not a multiple of the {axis} = {tile[i]} that "
                    f"the tiled MMA covers",
                    details={"mma": self},
                    loc=trace.loc(),
                )

    @located
    def make_fragment_A(self, a: Any) -> Tensor:
        """What the instruction takes for A: registers, or descriptors of a shared-memory partition.

        Shapes: `a` is a partition (or its shape); descriptors are (1, M, K, ..).
        """
        return self._fragment(a, "A")

    @located
    def make_fragment_B(self, b: Any) -> Tensor:
        """What the instruction takes for B; see `make_fragment_A`."""
        return self._fragment(b, "B")

    @located
    def make_fragment_C(self, c: Any) -> Tensor:
        """Accumulator registers for a partition (or its shape)."""
        return self._fragment(c, "C")

    def _fragment(self, x: Any, which: Any) -> Tensor:
        if self.row.source(which) == "smem":
            return make_descriptor_tensor(x, self.row, which)
        # Column-major, so that a wide ldmatrix fills neighbouring fragments of B in one piece.
        shape = x.shape if isinstance(x, Tensor) else plain(x)
        return make_rmem_tensor(shape, numeric_of(self.row.dtype(which)))

    def __str__(self) -> str:
        return f"TiledMma({self.row.name}, {self.tiling.atom_layout})"

    __repr__ = __str__


class ThrMma(TiledMma):
    """One thread of a tiled MMA."""

    def __init__(self, tiled: TiledMma, thr_idx: Any) -> None:
        self.__dict__.update(tiled.__dict__)
        self.thr_idx = thr_idx

    @located
    def partition_A(self, mk: Tensor) -> Tensor:
        """The thread's elements of an (M, K, ..) tensor: (values, M', K', ..)."""
        return self._partition(mk, "A")

    @located
    def partition_B(self, nk: Tensor) -> Tensor:
        """The thread's elements of an (N, K, ..) tensor: (values, N', K', ..)."""
        return self._partition(nk, "B")

    @located
    def partition_C(self, mn: Tensor) -> Tensor:
        """The thread's elements of an (M, N, ..) tensor: (values, M', N', ..)."""
        return self._partition(mn, "C")

    def _partition(self, t: Any, which: str) -> Tensor:
        if not isinstance(t, Tensor):
            raise TypeMismatchError(
                f"partition_{which}: expected a Tensor, got {describe(t)}", loc=trace.loc()
            )
        shape = t.shape if type(t.shape) is tuple else (t.shape,)
        self.check_extents(shape, which, f"partition_{which}")
        layout, offset = self.tiling.partition(t.layout, which, self.thr_idx)
        return Tensor(advance(t.iterator, offset), layout)


@located
def make_tiled_mma(
    op_or_atom: Any, atom_layout_mnk: Any = (1, 1, 1), permutation_mnk: Any = None
) -> TiledMma:
    """`op_or_atom` repeated as `atom_layout_mnk` says, over a permuted tile.

    Shapes: `atom_layout_mnk` is a layout or shape (M,N,K) of instructions side by side;
            `permutation_mnk` gives for M, N and K the tile's extent, a layout of the elements that
            it takes, or None.
    """
    atom = make_mma_atom(op_or_atom)
    layout = atom_layout_mnk
    if not isinstance(layout, Layout):
        layout = Layout(plain(layout))
    if not layout.is_static:
        raise LayoutError(
            f"make_tiled_mma: atom_layout_mnk must be known at compile time, got {layout}",
            loc=trace.loc(),
        )
    wanted = (None, None, None) if permutation_mnk is None else tuple(plain(permutation_mnk))
    tiled = TiledMma(atom, layout, (*wanted, None, None, None)[:3])
    for i, own in enumerate(wanted[:3]):
        need = size(tiled.thr_layout_vmnk, [i + 1]) * atom.shape_mnk[i]
        extent = size(own) if isinstance(own, Layout) else own
        if extent is not None and extent % need:
            raise LayoutError(
                f"make_tiled_mma: permutation {'MNK'[i]} = {extent} is not a multiple of the "
                f"{need} that the instructions cover",
                loc=trace.loc(),
            )
    return tiled
