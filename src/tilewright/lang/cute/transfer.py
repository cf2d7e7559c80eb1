"""Copies between two pieces of memory, each a pointer and a layout, as wide as both allow."""

from __future__ import annotations

import math
from typing import Any, cast

from tilewright.errors import DTypeError, LayoutError
from tilewright.ir.core import Value
from tilewright.ir.ops import memory
from tilewright.lang import trace
from tilewright.lang.cute.facts import divisor
from tilewright.lang.cute.pointer import AddressSpace, Pointer
from tilewright.lang.cute.regions import run_time_if
from tilewright.layout.compose import composition
from tilewright.layout.divide import logical_divide
from tilewright.layout.int_tuple import leaves
from tilewright.layout.inverse import max_common_layout
from tilewright.layout.layout import Layout
from tilewright.layout.modes import coalesce, size

MAX_BYTES = 16
"""The widest access of one thread."""


def static_size(layout: Layout, what: str) -> int:
    """The number of elements.

    Raises: LayoutError if it is known only at run time; `what` names the operation.
    """
    count = size(layout)
    if type(count) is not int:
        raise LayoutError(
            f"{what}: the shape must be known at compile time, got {layout}",
            loc=trace.loc(),
            hint="cut a tile of static shape first, with local_tile or zipped_divide",
        )
    return count


def transfer(
    src: Pointer,
    src_layout: Layout,
    dst: Pointer,
    dst_layout: Layout,
    predicate: Value | None = None,
    max_bytes: int = MAX_BYTES,
) -> None:
    """``dst[i] = src[i]`` for every index i, in the widest accesses that are provably legal.

    Raises: DTypeError unless both sides have elements of one width; LayoutError if sizes differ.
    """
    check_widths(src, dst)
    count = static_size(src_layout, "copy")
    if static_size(dst_layout, "copy") != count:
        raise LayoutError(
            f"copy: source and destination differ in size: {src_layout} and {dst_layout}",
            loc=trace.loc(),
        )
    if src.memspace is dst.memspace is AddressSpace.rmem and predicate is None:
        move_registers(src, src_layout, dst, dst_layout)
        return
    width, order = _widest(src, src_layout, dst, dst_layout, max_bytes)
    sources, targets = composition(src_layout, order), composition(dst_layout, order)
    for i in range(0, count, width):
        one_access(src + sources(i), dst + targets(i), width, predicate)


def check_widths(src: Pointer, dst: Pointer) -> None:
    """Raises: DTypeError unless both sides have elements of the same width."""
    if src.element.storage_bits != dst.element.storage_bits:
        raise DTypeError(
            f"copy: source has {src.element.storage_bits}-bit elements ({src.element}), "
            f"destination {dst.element.storage_bits}-bit ones ({dst.element})",
            loc=trace.loc(),
            hint="convert in registers: dst.store(src.load().to(dst.element_type))",
        )


def one_access(src: Pointer, dst: Pointer, count: int, predicate: Value | None = None) -> None:
    """Copies `count` contiguous elements in one access on either side."""
    extra = () if predicate is None else (predicate,)
    bits = count * src.element.storage_bits
    if bits % 8:
        raise DTypeError(
            f"copy: {count} elements of {src.element} are not whole bytes",
            loc=trace.loc(),
            hint="lay pairs of them along the stride-1 mode of both sides",
        )
    trace.emit(memory.Copy, src.value(), dst.value(), *extra, bytes=bits // 8)


def move_registers(src: Pointer, src_layout: Layout, dst: Pointer, dst_layout: Layout) -> None:
    """Copies between register arrays through one vector."""
    values = gather(src, src_layout)
    row = dst.element
    if row is not src.element:
        raise DTypeError(
            f"copy: registers of {src.element} do not go into registers of {row}",
            loc=trace.loc(),
            hint="convert: dst.store(src.load().to(dst.element_type))",
        )
    scatter(dst, dst_layout, values)


def register_indices(p: Pointer, layout: Layout) -> tuple[int, ...] | None:
    """The constant indices of a register tensor's elements, or None if they are not constant."""
    if p.memspace is not AddressSpace.rmem or not layout.is_static:
        return None
    return tuple(p.static + layout(i) for i in range(size(layout)))


def gather(p: Pointer, layout: Layout) -> Value:
    """The elements of a register tensor, as a vector."""
    return trace.value(memory.Gather, p.base, indices=_required(p, layout))


def scatter(p: Pointer, layout: Layout, vector: Value) -> None:
    """Writes a vector to the elements of a register tensor."""
    trace.emit(memory.Scatter, p.base, vector, indices=_required(p, layout))


def _required(p: Pointer, layout: Layout) -> tuple[int, ...]:
    indices = register_indices(p, layout)
    if indices is None:
        raise LayoutError(
            f"a register tensor needs a compile-time layout, got {layout} in {p.memspace}",
            loc=trace.loc(),
        )
    return indices


def is_contiguous(layout: Layout) -> bool:
    """True iff element i lies at offset i."""
    return all(layout(i) == i for i in range(size(layout))) if layout.is_static else False


def exact_access(
    src: Pointer, src_layout: Layout, dst: Pointer, dst_layout: Layout, predicate: Value | None
) -> None:
    """One access for the whole of both layouts: what an atom of fixed width does.

    A side in registers may be scattered; a side in memory must be contiguous and aligned.
    Raises: LayoutError otherwise.
    """
    check_widths(src, dst)
    count = static_size(src_layout, "copy")
    for name, p, layout in (("source", src, src_layout), ("destination", dst, dst_layout)):
        if p.memspace is not AddressSpace.rmem:
            _check_access(name, p, layout, count)
    ragged_src = src.memspace is AddressSpace.rmem and not is_contiguous(src_layout)
    ragged_dst = dst.memspace is AddressSpace.rmem and not is_contiguous(dst_layout)
    if not (ragged_src or ragged_dst):
        one_access(src, dst, count, predicate)
        return
    if predicate is None:
        _through_vector(src, src_layout, dst, dst_layout, count)
        return
    with run_time_if(predicate):
        _through_vector(src, src_layout, dst, dst_layout, count)


def _through_vector(
    src: Pointer, src_layout: Layout, dst: Pointer, dst_layout: Layout, count: int
) -> None:
    if src.memspace is AddressSpace.rmem:
        vector = gather(src, src_layout)
    else:
        vector = trace.value(memory.Load, src.value(), count=count)
    if dst.memspace is AddressSpace.rmem:
        scatter(dst, dst_layout, vector)
    else:
        trace.emit(memory.Store, dst.value(), vector)


def _check_access(name: str, p: Pointer, layout: Layout, count: int) -> None:
    nbytes = count * p.element.storage_bits // 8
    if not is_contiguous(coalesce(layout)):
        raise LayoutError(
            f"copy: the {name} of a {nbytes * 8}-bit access must be {count} contiguous elements, "
            f"it is {layout} in {p.memspace}",
            loc=trace.loc(),
            hint="use a narrower num_bits_per_copy, or a value layout along the stride-1 mode",
        )
    if p.alignment % nbytes:
        raise LayoutError(
            f"copy: the {name} of a {nbytes * 8}-bit access must be aligned to {nbytes} bytes, "
            f"it is known to be aligned to {p.alignment}",
            details={"pointer": p, "layout": layout},
            loc=trace.loc(),
            hint="vouch for strides with cute.assume(stride, divby=n), or for the pointer with "
            ".align(n)",
        )


def _widest(
    src: Pointer, src_layout: Layout, dst: Pointer, dst_layout: Layout, max_bytes: int
) -> tuple[int, Layout]:
    """The number of elements per access, and the order of indices in which they follow."""
    count = cast(int, size(src_layout))
    plain = Layout(count)
    try:
        common = max_common_layout(src_layout, dst_layout)
    except LayoutError:
        return 1, plain
    run = size(common)
    bits = src.element.storage_bits
    if type(run) is not int or not common.is_static:
        return 1, plain
    width = math.gcd(run, max_bytes * 8 // bits)
    while width > 1:
        tile = composition(common, Layout(width))
        order = coalesce(logical_divide(plain, tile), (1, 1))
        sides = ((src, src_layout), (dst, dst_layout))
        if (width * bits) % 8 == 0 and all(_aligned(p, o, order, width) for p, o in sides):
            return width, order
        width //= 2
    return 1, plain


def _aligned(p: Pointer, layout: Layout, order: Layout, width: int) -> bool:
    """Whether accesses of `width` elements at the multiples of `width` in `order` are aligned."""
    if p.memspace is AddressSpace.rmem:
        return True
    nbytes = width * p.element.storage_bits // 8
    if p.alignment % nbytes:
        return False
    starts = composition(layout, order[1])
    pairs: list[tuple[Any, Any]] = list(
        zip(leaves(starts.shape), leaves(starts.stride), strict=True)
    )
    return all(divisor(d) % width == 0 for s, d in pairs if not (type(s) is int and s == 1))
