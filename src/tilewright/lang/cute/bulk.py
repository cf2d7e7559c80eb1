"""Bulk copies of whole tensors of contiguous elements, without a descriptor.

One thread issues them, as many bytes at a time as both sides have in a row: all of a vector, a row
of a matrix of rows.  Sizes and addresses are multiples of 16 bytes.
"""

from __future__ import annotations

from typing import Any, cast

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.core import Value
from tilewright.ir.ops import bulk
from tilewright.ir.types import PtrType
from tilewright.lang import trace
from tilewright.lang.cute.arch_sync import barrier_value
from tilewright.lang.cute.arch_thread import as_u32
from tilewright.lang.cute.atom import CopyAtom
from tilewright.lang.cute.pointer import AddressSpace, Pointer, static_int
from tilewright.lang.cute.tensor import Tensor
from tilewright.lang.values import Int32, Uint16, as_numeric
from tilewright.layout.compose import composition
from tilewright.layout.divide import logical_divide
from tilewright.layout.int_tuple import fmt
from tilewright.layout.inverse import max_common_layout
from tilewright.layout.layout import Layout
from tilewright.layout.modes import coalesce, rank, size

_SIDES = {
    "SM90_BULK_COPY_G2S": (AddressSpace.gmem, AddressSpace.smem),
    "SM90_BULK_COPY_G2S_MULTICAST": (AddressSpace.gmem, AddressSpace.smem),
    "SM90_BULK_COPY_S2G": (AddressSpace.smem, AddressSpace.gmem),
    "SM90_BULK_COPY_S2S": (AddressSpace.smem, AddressSpace.dsmem),
}
_REDUCE = "SM90_BULK_REDUCE_"


def bulk_copy(atom: CopyAtom, src: Tensor, dst: Tensor, barrier: Any, mcast_mask: Any) -> None:
    """The instructions that copy `src` to `dst`.

    Raises: TypeMismatchError for sides, barrier or mask that do not fit the atom; LayoutError for
            runs that are no multiple of 16 bytes, or not known to be aligned.
    """
    name = atom.row.name
    p, q = _side(atom, src, 0), _side(atom, dst, 1)
    counted = name.startswith(("SM90_BULK_COPY_G2S", "SM90_BULK_COPY_S2S"))
    if (mcast_mask is not None) != atom.row.multicast:
        raise TypeMismatchError(
            f"copy: {name} "
            + ("needs mcast_mask=" if atom.row.multicast else "takes no mcast_mask"),
            loc=trace.loc(),
        )
    mask = None if mcast_mask is None else Uint16(as_numeric(mcast_mask)).ir_value()
    if counted == (barrier is None):
        raise TypeMismatchError(
            f"copy: {name} " + ("needs mbar_ptr=" if counted else "takes no mbarrier"),
            loc=trace.loc(),
            hint="it counts the bytes that arrive"
            if counted
            else "stores are waited for by groups: cp_async_bulk_commit_group, .._wait_group",
        )
    remote = name == "SM90_BULK_COPY_S2S"
    bar = None
    if counted:
        where = AddressSpace.dsmem if remote else AddressSpace.smem
        bar = barrier_value(barrier, "copy", where)
    for source, target, count in _runs(atom, p, src.layout, q, dst.layout):
        _emit(name, _aligned(source, "source"), _aligned(target, "destination"), bar, count, mask)


def _emit(
    name: str, src: Value, dst: Value, bar: Value | None, nbytes: Value, mask: Value | None
) -> None:
    if name.startswith(_REDUCE):
        kind = name.removeprefix(_REDUCE).lower()
        trace.emit(bulk.BulkReduce, src, dst, nbytes, kind=kind)
    elif bar is None:
        trace.emit(bulk.BulkStore, src, dst, nbytes)
    elif mask is not None:
        trace.emit(bulk.BulkLoadMulticast, src, dst, bar, nbytes, mask)
    else:
        op = bulk.BulkSend if name == "SM90_BULK_COPY_S2S" else bulk.BulkLoad
        trace.emit(op, src, dst, bar, nbytes)


def _side(atom: CopyAtom, t: Tensor, which: int) -> Pointer:
    wanted = _SIDES.get(atom.row.name, (AddressSpace.smem, AddressSpace.gmem))[which]
    p = t.iterator
    name = ("source", "destination")[which]
    if not isinstance(p, Pointer) or p.memspace is not wanted:
        raise TypeMismatchError(
            f"copy: the {name} of {atom.row.name} must be in {wanted}, got {t}",
            loc=trace.loc(),
            hint="map a shared pointer to another block with cute.arch.map_dsmem_ptr(ptr, rank)"
            if wanted is AddressSpace.dsmem
            else "",
        )
    if p.element is not atom.dtype:
        raise TypeMismatchError(
            f"copy: {atom} copies {atom.dtype}, the {name} holds {p.element}", loc=trace.loc()
        )
    if p.swizzle is not None:
        raise LayoutError(
            f"copy: the {name} of {atom.row.name} is swizzled ({p.swizzle}); a bulk copy moves "
            "bytes in order",
            loc=trace.loc(),
            hint="use a TMA copy, which swizzles",
        )
    return p


def _runs(
    atom: CopyAtom, p: Pointer, source: Layout, q: Pointer, target: Layout
) -> list[tuple[Pointer, Pointer, Value]]:
    """(source, destination, bytes) of each instruction."""
    unit = atom.dtype.storage_bits
    if not source.is_static or not target.is_static:
        return [(p, q, _dynamic_bytes(atom, source, target))]
    count = cast(int, size(source))
    if size(target) != count:
        raise LayoutError(
            f"copy: source {fmt(source.shape)} and destination {fmt(target.shape)} differ in size",
            loc=trace.loc(),
        )
    run = cast(int, size(max_common_layout(source, target)))
    width = atom.row.ref_bits // unit
    width = run if width <= 1 else width
    nbytes = width * unit // 8
    if run % width or nbytes % bulk.UNIT or not nbytes:
        raise LayoutError(
            f"copy: {atom.row.name} of {nbytes} bytes at a time: source {source} and destination "
            f"{target} have {run * unit // 8} bytes in a row, and a bulk copy moves a multiple of "
            f"{bulk.UNIT}",
            loc=trace.loc(),
            hint="copy the rest with ordinary loads and stores",
        )
    common = composition(max_common_layout(source, target), Layout(width))
    order = coalesce(logical_divide(Layout(count), common), (1, 1))
    sources, targets = composition(source, order), composition(target, order)
    amount = as_u32(nbytes)
    return [(p + sources(i), q + targets(i), amount) for i in range(0, count, width)]


def _dynamic_bytes(atom: CopyAtom, source: Layout, target: Layout) -> Value:
    """The bytes of two vectors whose length is known at run time only."""
    for layout in (source, target):
        flat = coalesce(layout)
        if rank(flat) != 1 or static_int(flat.stride) != 1:
            raise LayoutError(
                f"copy: {atom.row.name} between {source} and {target}: of a shape known only at "
                "run time, it copies one run of contiguous elements",
                loc=trace.loc(),
            )
    nbytes: Value = as_u32(Int32(size(source)) * (atom.dtype.storage_bits // 8))
    return nbytes


def _aligned(p: Pointer, name: str) -> Value:
    value = p.value()
    t = value.type
    assert isinstance(t, PtrType), "a pointer's value"
    if t.align % bulk.UNIT:
        raise LayoutError(
            f"copy: the {name} of a bulk copy must be aligned to {bulk.UNIT} bytes, it is known "
            f"to be aligned to {t.align}",
            details={"pointer": p},
            loc=trace.loc(),
            hint="allocate it with that alignment, or vouch for it with .align(16)",
        )
    return value
