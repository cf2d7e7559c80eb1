"""SmemAllocator: shared memory by the piece, public as `tilewright.utils.SmemAllocator`."""

from __future__ import annotations

from typing import Any

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.lang import trace
from tilewright.lang.cute.pointer import Pointer, in_bytes, row_of, static_int
from tilewright.lang.cute.struct import StructData, alloc_shared, shared_tensor, struct
from tilewright.lang.cute.tensor import Tensor, plain
from tilewright.lang.values import Numeric, describe
from tilewright.layout.layout import Layout
from tilewright.layout.modes import cosize
from tilewright.layout.swizzle import ComposedLayout, Swizzle
from tilewright.numeric.dtypes import U8, DType


class SmemAllocator:
    """Hands out the block's shared memory; the compiler places the pieces."""

    def allocate(self, size_or_type: Any, byte_alignment: int = 1, label: str = "") -> Any:
        """A struct's fields, a pointer to one number, or a pointer to that many bytes.

        Raises: TypeMismatchError for anything else.
        """
        if isinstance(size_or_type, struct):
            placed: StructData = size_or_type.place()
            return placed
        if isinstance(size_or_type, type) and issubclass(size_or_type, Numeric):
            return self.allocate_array(size_or_type, 1, byte_alignment, label)
        count = static_int(size_or_type)
        if count is None or count < 0:
            raise TypeMismatchError(
                f"allocate: expected a struct, a numeric type or a number of bytes, got "
                f"{describe(size_or_type)}",
                loc=trace.loc(),
            )
        return alloc_shared(U8, count, _power(byte_alignment), label or "smem")

    def allocate_array(
        self, element_type: Any, num_elems: int = 1, byte_alignment: int = 1, label: str = ""
    ) -> Pointer:
        """A pointer to `num_elems` elements."""
        row = row_of(element_type)
        count = static_int(num_elems)
        if count is None:
            raise TypeMismatchError(
                f"allocate_array: expected a compile-time number of elements, got "
                f"{describe(num_elems)}",
                loc=trace.loc(),
            )
        align = max(_power(byte_alignment), row.storage_bits // 8, 1)
        return alloc_shared(row, count, align, label or "smem")

    def allocate_tensor(
        self,
        element_type: Any,
        layout: Any,
        byte_alignment: int = 16,
        swizzle: Swizzle | None = None,
        label: str = "",
    ) -> Tensor:
        """A tensor in shared memory; a swizzled one is aligned to its swizzle's repeat.

        Units:  `swizzle` counts in elements, as in a composed layout.
        Raises: LayoutError unless the layout is known at compile time.
        """
        row = row_of(element_type)
        whole = layout if isinstance(layout, Layout | ComposedLayout) else Layout(plain(layout))
        count = cosize(whole)
        if type(count) is not int:
            raise LayoutError(
                f"allocate_tensor: the layout must be known at compile time, got {whole}",
                loc=trace.loc(),
            )
        align = max(_power(byte_alignment), row.storage_bits // 8, 1, _repeat(whole, swizzle, row))
        p = alloc_shared(row, count, align, label or "smem")
        return shared_tensor(p, whole, swizzle, None)


def _power(align: int) -> int:
    number = static_int(align)
    if number is None or number < 1 or number & (number - 1):
        raise TypeMismatchError(
            f"byte_alignment must be a power of two, got {describe(align)}", loc=trace.loc()
        )
    return number


def _repeat(layout: Any, swizzle: Swizzle | None, row: DType) -> int:
    """Bytes after which the swizzle of a tensor repeats, 1 without one."""
    found = swizzle
    if found is None and isinstance(layout, ComposedLayout) and isinstance(layout.inner, Swizzle):
        found = layout.inner
    if found is None or found.bits == 0:
        return 1
    on_bytes = in_bytes(found, row)
    return 1 << (on_bytes.base + on_bytes.bits + abs(on_bytes.shift))
