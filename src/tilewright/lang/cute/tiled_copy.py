"""TiledCopy: a copy instruction repeated over the threads and values of a tile."""

from __future__ import annotations

from typing import Any

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.core import Value
from tilewright.lang import trace
from tilewright.lang.cute import tv
from tilewright.lang.cute.atom import CopyAtom
from tilewright.lang.cute.located import located
from tilewright.lang.cute.tensor import Tensor, advance, plain
from tilewright.lang.cute.tiled_mma import TiledMma
from tilewright.lang.values import Numeric, describe, is_number
from tilewright.layout.layout import Layout


class TiledCopy:
    """All threads' share of a tile: ``get_slice(thread).partition_S(tensor)``.

    Shapes: partitions are ((value, rest values), rest modes..).
    """

    __slots__ = ("atom", "tiling")
    __tw_immutable__ = True

    def __init__(self, atom: CopyAtom, tiler: tuple[Any, ...], layout_tv: Layout) -> None:
        self.atom = atom
        self.tiling = tv.CopyTiling(
            tiler, layout_tv, atom.layout_ref_tv, atom.layout_src_tv, atom.layout_dst_tv
        )
        self.tiling.check()

    @property
    def op(self) -> Any:
        return self.atom.op

    @property
    def value_type(self) -> Any:
        return self.atom.value_type

    @property
    def num_threads(self) -> int:
        """Threads that the copy is tiled over."""
        return self.tiling.num_threads

    size = num_threads

    @property
    def tiler_mn(self) -> tuple[Any, ...]:
        """The tile that all threads copy together."""
        return self.tiling.tiler

    @property
    def layout_tv_tiled(self) -> Layout:
        """(thread, value) -> coordinate of the tile."""
        return self.tiling.layout_tv

    @property
    def layout_src_tv_tiled(self) -> Layout:
        """(thread, value) -> coordinate of the tile, at the source."""
        return self.tiling.tv(self.tiling.src)

    @property
    def layout_dst_tv_tiled(self) -> Layout:
        """(thread, value) -> coordinate of the tile, at the destination."""
        return self.tiling.tv(self.tiling.dst)

    def get_slice(self, thr_idx: Any) -> ThrCopy:
        """One thread's view.

        Raises: TypeMismatchError unless `thr_idx` is an integer.
        """
        return ThrCopy(self, checked_thread(thr_idx, "TiledCopy.get_slice"))

    @located
    def retile(self, src: Tensor) -> Tensor:
        """A thread's registers, laid out by an MMA, regrouped for this copy.

        Shapes: (V, M, N, ..) -> ((value, rest values), M', N', ..).
        """
        return Tensor(src.iterator, self.tiling.retile(src.layout))

    def __tw_values__(self) -> list[Value]:
        return self.atom.__tw_values__()

    def __tw_with_values__(self, values: list[Value]) -> TiledCopy:
        return TiledCopy(
            self.atom.__tw_with_values__(values), self.tiling.tiler, self.tiling.layout_tv
        )

    def __str__(self) -> str:
        return f"TiledCopy({self.atom.row.name}, {self.tiling.tiler}, {self.tiling.layout_tv})"

    __repr__ = __str__


class ThrCopy:
    """One thread of a tiled copy."""

    __slots__ = ("thr_idx", "tiled")
    __tw_immutable__ = True

    def __init__(self, tiled: TiledCopy, thr_idx: Any) -> None:
        self.tiled = tiled
        self.thr_idx = thr_idx

    @property
    def num_threads(self) -> int:
        return self.tiled.num_threads

    @located
    def partition_S(self, src: Tensor) -> Tensor:
        """What the thread names or holds of a source tensor."""
        return self._partition(src, self.tiled.tiling.src, "partition_S")

    @located
    def partition_D(self, dst: Tensor) -> Tensor:
        """What the thread names or holds of a destination tensor."""
        return self._partition(dst, self.tiled.tiling.dst, "partition_D")

    def _partition(self, tensor: Tensor, which: Layout, what: str) -> Tensor:
        t = checked_tensor(tensor, what)
        layout, offset = self.tiled.tiling.partition(t.layout, which, self.thr_idx)
        return Tensor(advance(t.iterator, offset), layout)

    def retile(self, src: Tensor) -> Tensor:
        """See `TiledCopy.retile`."""
        return self.tiled.retile(src)


def checked_thread(thr_idx: Any, what: str) -> Any:
    """Raises: TypeMismatchError unless `thr_idx` is an integer."""
    whole = is_number(thr_idx) and not isinstance(thr_idx, float)
    if not whole or (isinstance(thr_idx, Numeric) and type(thr_idx).is_float):
        raise TypeMismatchError(
            f"{what}: expected an integer thread index, got {describe(thr_idx)}",
            loc=trace.loc(),
            hint="tidx, _, _ = cute.arch.thread_idx()",
        )
    return plain(thr_idx)


def checked_tensor(tensor: Any, what: str) -> Tensor:
    """Raises: TypeMismatchError unless it is a Tensor."""
    if isinstance(tensor, Tensor):
        return tensor
    raise TypeMismatchError(
        f"{what}: expected a Tensor, got {describe(tensor)}",
        loc=trace.loc(),
    )


@located
def make_layout_tv(thr_layout: Layout, val_layout: Layout) -> tuple[tuple[int, ...], Layout]:
    """The tile that threads times values cover, and its (thread, value) layout."""
    return tv.make_layout_tv(thr_layout, val_layout)


@located
def make_tiled_copy(atom: CopyAtom, layout_tv: Layout, tiler_mn: Any) -> TiledCopy:
    """`atom` over a tile whose (thread, value) layout is given."""
    return TiledCopy(_copy_atom(atom, "make_tiled_copy"), tuple(plain(tiler_mn)), layout_tv)


@located
def make_tiled_copy_tv(atom: CopyAtom, thr_layout: Layout, val_layout: Layout) -> TiledCopy:
    """`atom` over threads and values laid out in a tile, the values of a thread side by side."""
    checked = _copy_atom(atom, "make_tiled_copy_tv")
    tiler, layout_tv = tv.make_layout_tv(thr_layout, val_layout)
    return TiledCopy(checked, tiler, layout_tv)


def _copy_atom(atom: Any, what: str) -> CopyAtom:
    if isinstance(atom, TiledCopy):
        return atom.atom
    if isinstance(atom, CopyAtom):
        return atom
    raise TypeMismatchError(
        f"{what}: expected a copy atom, got {describe(atom)}",
        loc=trace.loc(),
        hint="make one with cute.make_copy_atom(op, dtype)",
    )


def _for_operand(atom: Any, mma: Any, which: str) -> TiledCopy:
    what = f"make_tiled_copy_{which}"
    if not isinstance(mma, TiledMma):
        raise TypeMismatchError(
            f"{what}: expected a TiledMma, got {describe(mma)}",
            loc=trace.loc(),
            hint=f"{what}(copy_atom, tiled_mma)",
        )
    tile = mma.tiling.tile_mnk()
    i, j = mma.tiling.axes(which)
    return TiledCopy(_copy_atom(atom, what), (tile[i], tile[j]), mma.tiling.tv(which))


@located
def make_tiled_copy_A(copy_atom: Any, tiled_mma: Any) -> TiledCopy:
    """The copy whose registers are the A fragments of an MMA."""
    return _for_operand(copy_atom, tiled_mma, "A")


@located
def make_tiled_copy_B(copy_atom: Any, tiled_mma: Any) -> TiledCopy:
    """The copy whose registers are the B fragments of an MMA."""
    return _for_operand(copy_atom, tiled_mma, "B")


@located
def make_tiled_copy_C(copy_atom: Any, tiled_mma: Any) -> TiledCopy:
    """The copy whose registers are the accumulators of an MMA."""
    return _for_operand(copy_atom, tiled_mma, "C")


def _like(atom: Any, tiled: Any, what: str, source: bool) -> TiledCopy:
    if not isinstance(tiled, TiledCopy):
        raise TypeMismatchError(
            f"{what}: expected a TiledCopy, got {describe(tiled)}", loc=trace.loc()
        )
    layout = tiled.layout_src_tv_tiled if source else tiled.layout_dst_tv_tiled
    return TiledCopy(_copy_atom(atom, what), tiled.tiler_mn, layout)


@located
def make_tiled_copy_S(copy_atom: Any, tiled_copy: Any) -> TiledCopy:
    """The copy whose threads hold what those of `tiled_copy` hold at its source."""
    return _like(copy_atom, tiled_copy, "make_tiled_copy_S", source=True)


@located
def make_tiled_copy_D(copy_atom: Any, tiled_copy: Any) -> TiledCopy:
    """The copy whose threads hold what those of `tiled_copy` hold at its destination."""
    return _like(copy_atom, tiled_copy, "make_tiled_copy_D", source=False)


@located
def make_tiled_copy_C_atom(copy_atom: Any, mma: Any) -> TiledCopy:
    """The smallest tile of C that one instruction per thread covers: a step of an epilogue.

    Raises: LayoutError if the instruction holds more values than a thread has of C.
    """
    atom = _copy_atom(copy_atom, "make_tiled_copy_C_atom")
    if not isinstance(mma, TiledMma):
        raise TypeMismatchError(
            f"make_tiled_copy_C_atom: expected a TiledMma, got {describe(mma)}", loc=trace.loc()
        )
    tv_c = mma.tiling.tv("C")
    source = atom.layout_src_tv
    have, need = tv_c[1], source[1]
    if tv.extent(have) < tv.extent(need):
        raise LayoutError(
            f"make_tiled_copy_C_atom: {atom} copies {tv.extent(need)} values per thread, "
            f"the MMA gives each thread {tv.extent(have)}",
            loc=trace.loc(),
        )
    tiler, layout_tv = tv.c_atom_tiling(source, mma.tiling)
    return TiledCopy(atom, tiler, layout_tv)
