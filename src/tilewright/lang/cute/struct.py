"""`@cute.struct`: the shared memory of a kernel, as a class of named fields.

    @cute.struct
    class SharedStorage:
        mbar: cute.struct.MemRange[cutlass.Int64, 8]
        sA: cute.struct.Align[cute.struct.MemRange[cutlass.BFloat16, 8192], 1024]

    storage = utils.SmemAllocator().allocate(SharedStorage)
    sA = storage.sA.get_tensor(layout.outer, swizzle=layout.inner)

Every field is an allocation of its own, named after the field: the compiler orders them so that no
padding is wasted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from tilewright.errors import LayoutError, ResourceError, TypeMismatchError
from tilewright.ir.ops.memory import AllocShared
from tilewright.lang import trace
from tilewright.lang.cute.pointer import Pointer, in_bytes, recast_ptr, row_of, static_int
from tilewright.lang.cute.tensor import Tensor, plain
from tilewright.lang.values import Numeric, describe
from tilewright.layout.layout import Layout
from tilewright.layout.modes import cosize
from tilewright.layout.swizzle import ComposedLayout, Swizzle
from tilewright.numeric.dtypes import DType, dtype


class Field:
    """`count` elements of a type, aligned to `align` bytes."""

    def __init__(self, element: DType, count: int, align: int) -> None:
        self.element, self.count, self.align = element, count, align

    @property
    def size_in_bytes(self) -> int:
        return self.element.bytes_for(self.count)


class MemRangeData:
    """The memory of a field."""

    __slots__ = ("_count", "_ptr")
    __tw_immutable__ = True

    def __init__(self, ptr: Pointer, count: int) -> None:
        self._ptr = ptr
        self._count = count

    def data_ptr(self) -> Pointer:
        """The pointer to its first element."""
        return self._ptr

    @property
    def ptr(self) -> Pointer:
        """The pointer to its first element."""
        return self._ptr

    def get_tensor(self, layout: Any, swizzle: Any = None, dtype: Any = None) -> Tensor:
        """The field as a tensor.

        Units:  `swizzle` counts in elements, as in a composed layout.
        Raises: ResourceError if the layout does not fit into the field.
        """
        p = self._ptr if dtype is None else _seen_as(self._ptr, row_of(dtype))
        bits = self._count * self._ptr.element.storage_bits
        return shared_tensor(p, layout, swizzle, bits // p.element.storage_bits)


def _seen_as(p: Pointer, row: DType) -> Pointer:
    return p if row is p.element else recast_ptr(p, None, row)


def shared_tensor(p: Pointer, layout: Any, swizzle: Any, capacity: int | None) -> Tensor:
    """A tensor over shared memory that starts at `p` and has room for `capacity` elements."""
    shape_layout = layout if isinstance(layout, Layout | ComposedLayout) else Layout(plain(layout))
    need = cosize(shape_layout)
    if type(need) is not int:
        raise LayoutError(
            f"shared memory: the layout must be known at compile time, got {shape_layout}",
            loc=trace.loc(),
        )
    if capacity is not None and need > capacity:
        raise ResourceError(
            f"shared memory: the layout {shape_layout} takes {need} elements of {p.element}, the "
            f"buffer has {capacity}",
            loc=trace.loc(),
            hint="size it with cute.cosize(layout)",
        )
    if swizzle is None:
        return Tensor(p, shape_layout)
    if isinstance(shape_layout, ComposedLayout) or not isinstance(swizzle, Swizzle):
        raise TypeMismatchError(
            f"shared memory: expected a plain layout and a Swizzle, got {shape_layout} and "
            f"{describe(swizzle)}",
            loc=trace.loc(),
            hint="pass layout.outer with swizzle=layout.inner, or the composed layout alone",
        )
    return Tensor(p.with_swizzle(in_bytes(swizzle, p.element)), shape_layout)


class _MemRange:
    """``MemRange[dtype, count]``."""

    def __getitem__(self, item: Any) -> Field:
        if not isinstance(item, tuple) or len(item) != 2:
            raise TypeMismatchError(
                f"MemRange: expected MemRange[dtype, count], got MemRange[{describe(item)}]",
                loc=trace.loc(),
            )
        row, count = row_of(item[0]), static_int(item[1])
        if count is None or count < 0:
            raise TypeMismatchError(
                f"MemRange: expected a compile-time count >= 0, got {describe(item[1])}",
                loc=trace.loc(),
            )
        return Field(row, count, max(row.storage_bits // 8, 1))


class _Align:
    """``Align[field, bytes]``."""

    def __getitem__(self, item: Any) -> Any:
        if not isinstance(item, tuple) or len(item) != 2:
            raise TypeMismatchError("Align: expected Align[field, bytes]", loc=trace.loc())
        inner, align = item
        number = static_int(align)
        if number is None or number < 1 or number & (number - 1):
            raise TypeMismatchError(
                f"Align: expected a power of two, got {describe(align)}", loc=trace.loc()
            )
        field = as_field(inner, "Align")
        return Field(field.element, field.count, max(field.align, number))


def as_field(kind: Any, where: str) -> Field:
    """The field that an annotation declares.

    Raises: TypeMismatchError if it declares none.
    """
    if isinstance(kind, Field):
        return kind
    if isinstance(kind, type) and issubclass(kind, Numeric):
        row = row_of(kind)
        return Field(row, 1, max(row.storage_bits // 8, 1))
    raise TypeMismatchError(
        f"{where}: expected cute.struct.MemRange[..], cute.struct.Align[..] or a numeric type, "
        f"got {describe(kind)}",
        loc=trace.loc(),
    )


class struct:
    """Decorator: a class whose annotations are the fields of a piece of shared memory."""

    MemRange = _MemRange()
    Align = _Align()

    def __init__(self, cls: type) -> None:
        frame: FrameType | None = sys._getframe(1)
        self.__name__ = cls.__name__
        self.fields: dict[str, Any] = {}
        for name, annotation in vars(cls).get("__annotations__", {}).items():
            kind = _resolved(annotation, frame, name)
            is_struct = isinstance(kind, struct)
            self.fields[name] = kind if is_struct else as_field(kind, f"struct field {name}")

    def size_in_bytes(self) -> int:
        """Bytes of all fields, each aligned as it asks, in their order."""
        at = 0
        for field in self.fields.values():
            align = field.alignment if isinstance(field, struct) else field.align
            at = -(-at // align) * align
            at += field.size_in_bytes() if isinstance(field, struct) else field.size_in_bytes
        return -(-at // self.alignment) * self.alignment

    @property
    def alignment(self) -> int:
        """Bytes that the widest field is aligned to."""
        aligns = [f.alignment if isinstance(f, struct) else f.align for f in self.fields.values()]
        return max(aligns, default=1)

    def place(self, prefix: str = "") -> StructData:
        """Allocates every field."""
        held: dict[str, Any] = {}
        for name, field in self.fields.items():
            if isinstance(field, struct):
                held[name] = field.place(f"{prefix}{name}.")
            else:
                p = alloc_shared(field.element, field.count, field.align, prefix + name)
                held[name] = MemRangeData(p, field.count)
        return StructData(self.__name__, held)

    def __repr__(self) -> str:
        return f"<struct {self.__name__}>"


class StructData:
    """The allocated fields of a struct, by name."""

    __tw_immutable__ = True

    def __init__(self, name: str, held: Mapping[str, Any]) -> None:
        self.__dict__.update(held)
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        fields = ", ".join(n for n in self.__dict__ if n != "_name")
        raise TypeMismatchError(
            f"{self.__dict__.get('_name', 'struct')} has no field {name}; it has {fields}",
            loc=trace.loc(),
        )


def _resolved(annotation: Any, frame: FrameType | None, name: str) -> Any:
    """An annotation that postponed evaluation left as text, evaluated where the class stands."""
    if not isinstance(annotation, str) or frame is None:
        return annotation
    try:
        return eval(annotation, frame.f_globals, dict(frame.f_locals))
    except NameError as problem:
        raise TypeMismatchError(
            f"struct field {name}: cannot evaluate {annotation!r}: {problem}",
            loc=trace.loc(),
            hint="assign the sizes to local variables before the class",
        ) from None


def alloc_shared(element: DType, count: int, align: int, label: str) -> Pointer:
    """A buffer of the block's shared memory.

    Raises: ResourceError if the target has not enough of it.
    """
    active = trace.require("allocating shared memory")
    limit = getattr(active.target, "smem_per_block", None)
    if limit is not None:
        held = [op for op in active.func.body.walk() if isinstance(op, AllocShared)]
        sizes = [(dtype(op.dtype).bytes_for(op.count), op.label or "unnamed") for op in held]
        sizes.append((element.bytes_for(count), label or "unnamed"))
        total = sum(nbytes for nbytes, _ in sizes)
        if total > limit:
            nbytes, largest = max(sizes)
            raise ResourceError(
                f"shared memory: {total:,} bytes > {limit:,} on {active.target}, of which "
                f"{largest} takes {nbytes:,}",
                loc=trace.loc(),
                hint="use fewer stages or a smaller tile",
            )
    op = trace.emit(
        AllocShared, dtype=element.name, count=count, align=align, label=label, name=label
    )
    return Pointer(op.results[0])
