"""`cute.copy`: tensors copied by an instruction, unrolled into one operation per instruction."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.core import Value
from tilewright.ir.ops import bulk
from tilewright.ir.ops import copy as copy_ops
from tilewright.ir.types import PtrType
from tilewright.lang import trace
from tilewright.lang.cute.arch_sync import barrier_value, condition_value
from tilewright.lang.cute.atom import CopyAtom
from tilewright.lang.cute.bulk import bulk_copy
from tilewright.lang.cute.located import located
from tilewright.lang.cute.pointer import AddressSpace, Pointer
from tilewright.lang.cute.regions import run_time_if
from tilewright.lang.cute.tensor import Tensor, make_rmem_tensor, plain
from tilewright.lang.cute.tiled_copy import TiledCopy
from tilewright.lang.cute.tma import tma_copy
from tilewright.lang.cute.transfer import (
    exact_access,
    gather,
    is_contiguous,
    scatter,
    static_size,
    transfer,
)
from tilewright.lang.values import describe, is_number
from tilewright.layout.int_tuple import fmt, wrap
from tilewright.layout.layout import Layout
from tilewright.layout.modes import coalesce, rank, size


@located
def copy(
    atom: Any,
    src: Tensor,
    dst: Tensor,
    *,
    pred: Any = None,
    tma_bar_ptr: Any = None,
    mbar_ptr: Any = None,
    mcast_mask: Any = None,
) -> None:
    """Copies `src` to `dst` with the instructions of `atom` (a copy atom or tiled copy).

    Shapes: ((value, rest values), rest..) on both sides.  `pred` has a Boolean for each
            instruction: (rest values, rest..); where it is false nothing is copied (`cp.async`
            writes zeros).  TMA loads name the mbarrier, multicasts the blocks that receive.
    """
    one = atom.atom if isinstance(atom, TiledCopy) else atom
    if not isinstance(one, CopyAtom):
        raise TypeMismatchError(
            f"copy: expected a copy atom or tiled copy first, got {describe(atom)}",
            loc=trace.loc(),
            hint="cute.copy(atom, src, dst); cute.autovec_copy(src, dst) needs no atom",
        )
    for name, side in (("source", src), ("destination", dst)):
        if not isinstance(side, Tensor):
            raise TypeMismatchError(
                f"copy: expected a Tensor as {name}, got {describe(side)}", loc=trace.loc()
            )
    if one.geometry is not None:
        tma_copy(one, src, dst, tma_bar_ptr if mbar_ptr is None else mbar_ptr, mcast_mask)
        return
    if one.row.kind in ("bulk", "st_async"):
        barrier = tma_bar_ptr if mbar_ptr is None else mbar_ptr
        if one.row.kind == "bulk" and pred is None:
            bulk_copy(one, src, dst, barrier, mcast_mask)
            return
        if one.row.kind == "bulk" or mcast_mask is not None:
            extra = "predicate" if mcast_mask is None else "mcast_mask"
            raise TypeMismatchError(f"copy: {one.row.name} takes no {extra}", loc=trace.loc())
        _check_sides(one, src, dst)
        _Unroll(one, barrier_value(barrier, "copy", AddressSpace.dsmem)).run(src, dst, pred)
        return
    if tma_bar_ptr is not None or mbar_ptr is not None or mcast_mask is not None:
        raise TypeMismatchError(
            f"copy: {one.row.name} takes neither mbarrier nor multicast mask: it is no TMA copy",
            loc=trace.loc(),
        )
    _check_sides(one, src, dst)
    _Unroll(one).run(src, dst, pred)


def _check_sides(atom: CopyAtom, src: Tensor, dst: Tensor) -> None:
    needed = {
        "cp_async": (AddressSpace.gmem, AddressSpace.smem),
        "ldmatrix": (AddressSpace.smem, AddressSpace.rmem),
        "stmatrix": (AddressSpace.rmem, AddressSpace.smem),
        "st_async": (AddressSpace.rmem, AddressSpace.dsmem),
    }.get(atom.row.kind)
    for i, (name, side) in enumerate((("source", src), ("destination", dst))):
        p = side.iterator
        if not isinstance(p, Pointer) or (needed and p.memspace is not needed[i]):
            where = needed[i] if needed else "memory"
            raise TypeMismatchError(
                f"copy: the {name} of {atom.row.name} must be in {where}, got {side}",
                loc=trace.loc(),
            )
        if p.element.storage_bits != atom.dtype.storage_bits:
            raise TypeMismatchError(
                f"copy: {atom} copies {atom.dtype.storage_bits}-bit elements, the {name} holds "
                f"{p.element}",
                loc=trace.loc(),
            )


class _Unroll:
    """Descends through the modes of both sides down to single instructions."""

    def __init__(self, atom: CopyAtom, barrier: Value | None = None) -> None:
        self.atom = atom
        self.barrier = barrier
        """The mbarrier that counts the bytes of asynchronous stores."""
        self.src_count = size(atom.layout_src_tv, [1])
        self.dst_count = size(atom.layout_dst_tv, [1])

    def run(self, src: Tensor, dst: Tensor, pred: Any) -> None:
        """Copies everything; `pred` is None, a condition, or a tensor of one per instruction."""
        count = static_size(src.layout, "copy"), static_size(dst.layout, "copy")
        if count == (self.src_count, self.dst_count):
            self._instruction(src, dst, pred)
            return
        if count[0] * self.dst_count != count[1] * self.src_count or count[0] % self.src_count:
            raise LayoutError(
                f"copy: {self.atom.row.name} moves {self.src_count} values to {self.dst_count}; "
                f"source {fmt(src.shape)} and destination {fmt(dst.shape)} are not as many of them",
                details={"source": src, "destination": dst},
                loc=trace.loc(),
            )
        if rank(src.layout) == 1 or rank(dst.layout) == 1:
            self.run(_opened(src), _opened(dst), pred)
            return
        self._each_rest(src, dst, pred)

    def _each_rest(self, src: Tensor, dst: Tensor, pred: Any) -> None:
        rest = tuple(wrap(src.shape)[1:])
        numbers = Layout(rest)
        targets = Layout(tuple(wrap(dst.shape)[1:]))
        if size(numbers) != size(targets):
            raise LayoutError(
                f"copy: the rest modes of source {fmt(src.shape)} and destination "
                f"{fmt(dst.shape)} differ",
                loc=trace.loc(),
            )
        for i in range(size(numbers)):
            here = (None, *_natural(numbers, i))
            there = (None, *_natural(targets, i))
            self.run(src[here], dst[there], _predicate_at(pred, here, rest))

    def _instruction(self, src: Tensor, dst: Tensor, pred: Any) -> None:
        condition = _condition(pred)
        kind = self.atom.row.kind
        if kind == "universal":
            exact_access(src.iterator, src.layout, dst.iterator, dst.layout, condition)
        elif kind == "cp_async":
            extra = () if condition is None else (condition,)
            trace.emit(
                copy_ops.CpAsync,
                _aligned(self.atom, src, "source"),
                _aligned(self.atom, dst, "destination"),
                *extra,
                bytes=self.atom.row.access_bytes,
                cache=self.atom.row.cache,
            )
        elif kind == "st_async":
            with run_time_if(condition) if condition is not None else nullcontext():
                assert self.barrier is not None, "copy() asks for it"
                vector = gather(src.iterator, src.layout)
                target = _aligned(self.atom, dst, "destination")
                trace.emit(bulk.StoreAsync, target, vector, self.barrier)
        elif condition is not None:
            raise TypeMismatchError(
                f"copy: {self.atom.row.name} is executed by whole warps and takes no predicate",
                loc=trace.loc(),
            )
        elif kind == "ldmatrix":
            with_registers(dst, lambda p: self._matrix(copy_ops.LdMatrix, src, p), write=True)
        else:
            with_registers(src, lambda p: self._matrix(copy_ops.StMatrix, dst, p), write=False)

    def _matrix(self, op: Any, side: Tensor, registers: Value) -> None:
        row = _aligned(self.atom, side, "shared-memory side")
        operands = (row, registers) if op is copy_ops.LdMatrix else (registers, row)
        trace.emit(op, *operands, num=self.atom.row.num_matrices, transpose=self.atom.row.transpose)


def _natural(layout: Layout, index: int) -> tuple[Any, ...]:
    coord = layout.get_hier_coord(index) if rank(layout) > 0 else ()
    return tuple(coord) if isinstance(coord, tuple) else (coord,)


def _opened(t: Tensor) -> Tensor:
    """A rank-1 tensor with the modes inside its only mode at the top."""
    layout = t.layout
    while type(layout.shape) is tuple and len(layout.shape) == 1:
        layout = layout[0]
    if type(layout.shape) is not tuple:
        raise LayoutError(
            f"copy: mode {fmt(t.shape)} is not a whole instruction and has no parts",
            details={"tensor": t},
            loc=trace.loc(),
            hint="partition both sides with the tiled copy of the same atom",
        )
    return Tensor(t.iterator, layout)


def _predicate_at(pred: Any, coord: tuple[Any, ...], rest: tuple[Any, ...]) -> Any:
    if not isinstance(pred, Tensor):
        return pred
    modes = rank(pred.layout)
    if modes == len(rest) + 1:
        return pred[coord]
    if modes == len(rest):
        index = coord[1:] if modes > 1 or type(pred.shape) is tuple else coord[1]
        return _element(pred, index)
    raise LayoutError(
        f"copy: pred has shape {fmt(pred.shape)}, the instructions are ({'values, '}{fmt(rest)})",
        loc=trace.loc(),
        hint="one Boolean per instruction: (rest values, rest modes..)",
    )


def _element(pred: Tensor, index: Any) -> Any:
    return pred[plain(index)]


def _condition(pred: Any) -> Value | None:
    if pred is None:
        return None
    if isinstance(pred, Tensor):
        if size(pred.layout) != 1:
            raise LayoutError(
                f"copy: pred has shape {fmt(pred.shape)} where one instruction remains",
                loc=trace.loc(),
            )
        pred = pred[(0,) * rank(pred.layout) if type(pred.shape) is tuple else 0]
    if not is_number(pred):
        raise TypeMismatchError(
            f"copy: pred must hold Booleans, got {describe(pred)}", loc=trace.loc()
        )
    return condition_value(pred)


def _aligned(atom: CopyAtom, side: Tensor, name: str) -> Value:
    p = side.iterator
    need = atom.row.access_bytes
    count = need * 8 // p.element.storage_bits
    if size(side.layout) == count and not is_contiguous(coalesce(side.layout)):
        raise LayoutError(
            f"copy: the {name} of {atom.row.name} must be {count} contiguous elements, it is "
            f"{side.layout}",
            loc=trace.loc(),
            hint="lay the values of a thread along the stride-1 mode",
        )
    value: Value = p.value()
    t = value.type
    assert isinstance(t, PtrType), "a pointer's value"
    if t.align % need:
        raise LayoutError(
            f"copy: the {name} of {atom.row.name} must be aligned to {need} bytes, it is known to "
            f"be aligned to {t.align}",
            details={name: side},
            loc=trace.loc(),
            hint="vouch for strides with cute.assume(stride, divby=n)",
        )
    return value


def with_registers(t: Tensor, act: Any, *, write: bool) -> None:
    """Runs `act` on a pointer to consecutive registers that stand for `t`.

    Scattered registers are gathered before, or (`write`) written back after.
    """
    p = t.iterator
    if is_contiguous(t.layout):
        act(p.value())
        return
    packed = make_rmem_tensor(size(t.layout), p.element)
    if not write:
        scatter(packed.iterator, packed.layout, gather(p, t.layout))
    act(packed.iterator.value())
    if write:
        scatter(p, t.layout, gather(packed.iterator, packed.layout))


@located
def autovec_copy(src: Tensor, dst: Tensor) -> None:
    """Copies element by element, in the widest accesses that layouts and alignments allow."""
    _memory(src, "autovec_copy")
    _memory(dst, "autovec_copy")
    transfer(src.iterator, src.layout, dst.iterator, dst.layout)


@located
def basic_copy(src: Tensor, dst: Tensor) -> None:
    """Copies element by element, one access each."""
    _memory(src, "basic_copy")
    _memory(dst, "basic_copy")
    one = src.iterator.element.storage_bits // 8 or 1
    transfer(src.iterator, src.layout, dst.iterator, dst.layout, max_bytes=one)


@located
def basic_copy_if(pred: Tensor, src: Tensor, dst: Tensor) -> None:
    """Copies the elements whose predicate is true."""
    for i in range(static_size(src.layout, "basic_copy_if")):
        transfer(
            src.iterator + src.layout(i),
            Layout(1),
            dst.iterator + dst.layout(i),
            Layout(1),
            condition_value(pred[i]),
        )


def _memory(t: Any, what: str) -> None:
    if not isinstance(t, Tensor) or not isinstance(t.iterator, Pointer):
        raise TypeMismatchError(
            f"{what}: expected a tensor in memory, got {describe(t)}", loc=trace.loc()
        )
