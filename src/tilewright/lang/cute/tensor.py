"""Tensor: an iterator (a pointer, or a coordinate) seen through a layout."""

from __future__ import annotations

from typing import Any, cast

from tilewright.errors import DTypeError, LayoutError, TypeMismatchError
from tilewright.ir.core import Value
from tilewright.ir.ops import memory
from tilewright.lang import trace
from tilewright.lang.cute.facts import hand_on
from tilewright.lang.cute.located import located
from tilewright.lang.cute.pointer import (
    AddressSpace,
    Pointer,
    in_bytes,
    on_elements,
    recast_ptr,
    row_of,
    static_int,
)
from tilewright.lang.cute.tensor_ssa import TensorSSA, splat
from tilewright.lang.cute.transfer import gather, scatter, static_size, transfer
from tilewright.lang.protocol import values_of, with_values
from tilewright.lang.values import Int32, as_numeric, describe, from_ir, is_number
from tilewright.layout.compose import composition
from tilewright.layout.coord import has_underscore
from tilewright.layout.int_tuple import Coord, Shape, fmt
from tilewright.layout.layout import (
    Layout,
    make_identity_layout,
)
from tilewright.layout.layout import make_fragment_like as fragment_layout_like
from tilewright.layout.layout import make_layout_like as compact_layout_like
from tilewright.layout.leaf import add
from tilewright.layout.modes import cosize, size, slice_and_offset
from tilewright.layout.recast import recast_layout
from tilewright.layout.swizzle import ComposedLayout, Swizzle


class Tensor:
    """``T(c)``: the element at ``iterator + layout(c)``.

    `iterator` is a Pointer, or for coordinate tensors a coordinate: then elements are coordinates.
    A swizzle belongs to the pointer; `layout` never holds one.

    Shapes: ``t[c]`` with a full coordinate is an element (``t[c] = x`` stores one), with None (`_`)
            in it the sub-tensor along those modes.
    """

    __slots__ = ("iterator", "layout")
    __tw_immutable__ = True

    def __init__(self, iterator: Any, layout: Any) -> None:
        self.iterator, self.layout = _normal(iterator, layout)

    @property
    def shape(self) -> Shape:
        return self.layout.shape

    @property
    def stride(self) -> Any:
        return self.layout.stride

    @property
    def element_type(self) -> Any:
        """The numeric class of the elements (Int32 for coordinates)."""
        return self.iterator.dtype if isinstance(self.iterator, Pointer) else Int32

    dtype = element_type

    @property
    def memspace(self) -> AddressSpace | None:
        return self.iterator.memspace if isinstance(self.iterator, Pointer) else None

    @property
    def size(self) -> Any:
        """Number of elements."""
        return size(self.layout)

    @property
    def is_coordinate(self) -> bool:
        """Whether the elements are coordinates rather than memory."""
        return not hasattr(self.iterator, "dtype")

    def _pointer(self, what: str) -> Pointer:
        if isinstance(self.iterator, Pointer):
            return self.iterator
        raise TypeMismatchError(f"{what}: {self} is not a tensor in memory", loc=trace.loc())

    @located
    def __getitem__(self, coord: Coord) -> Any:
        coord = plain(coord)
        if coord is None:
            return self
        if has_underscore(coord):
            sub, offset = slice_and_offset(coord, self.layout)
            return Tensor(advance(self.iterator, offset), sub)
        place = advance(self.iterator, self.layout(coord))
        if not hasattr(place, "value"):
            return place
        loaded = trace.value(memory.Load, _whole_bytes(place).value())
        return from_ir(loaded)

    @located
    def __setitem__(self, coord: Coord, value: Any) -> None:
        coord = plain(coord)
        if coord is None or has_underscore(coord):
            target = self if coord is None else self[coord]
            target.store(value.load() if isinstance(value, Tensor) else value)
            return
        p = self._pointer("assignment")
        if not is_number(value):
            raise TypeMismatchError(
                f"tensor[...] = {describe(value)}: expected a number for one element",
                loc=trace.loc(),
                hint="keep modes with None to store a TensorSSA",
            )
        place = _whole_bytes(p + self.layout(coord))
        stored = cast(Any, p.dtype)(as_numeric(value)).ir_value()
        trace.emit(memory.Store, place.value(), stored)

    @located
    def load(self) -> TensorSSA:
        """All elements, in this thread's registers."""
        p = self._pointer("load")
        static_size(self.layout, "load")
        if p.memspace is AddressSpace.rmem:
            return TensorSSA(gather(p, self.layout), self.shape)
        fragment = make_rmem_tensor_like(self)
        transfer(p, self.layout, fragment.iterator, fragment.layout)
        return fragment.load()

    @located
    def store(self, data: TensorSSA) -> None:
        """Writes every element; the element types must be the same."""
        p = self._pointer("store")
        if not isinstance(data, TensorSSA):
            raise TypeMismatchError(
                f"store: expected a TensorSSA, got {describe(data)}",
                loc=trace.loc(),
                hint="t.fill(x) writes one number everywhere",
            )
        count = static_size(self.layout, "store")
        if data.dtype is not p.dtype:
            raise DTypeError(
                f"store: the tensor holds {p.dtype}, the values are {data.dtype}",
                loc=trace.loc(),
                hint=f"convert them: values.to({p.dtype})",
            )
        if data.size != count:
            raise LayoutError(
                f"store: {data.size} values of shape {fmt(data.shape)} do not fill a tensor of "
                f"shape {fmt(self.shape)}",
                loc=trace.loc(),
            )
        if p.memspace is AddressSpace.rmem:
            scatter(p, self.layout, data.ir_value())
            return
        fragment = make_rmem_tensor_like(self)
        fragment.store(data)
        transfer(fragment.iterator, fragment.layout, p, self.layout)

    def fill(self, value: Any) -> None:
        """Writes one number to every element."""
        p = self._pointer("fill")
        count = static_size(self.layout, "fill")
        self.store(TensorSSA(splat(value, p.dtype, count), self.shape))

    def __tw_values__(self) -> list[Value]:
        return [*values_of(self.iterator), *values_of(_leaves(self.layout))]

    def __tw_with_values__(self, values: list[Value]) -> Tensor:
        parts = _leaves(self.layout)
        count = len(values_of(parts))
        split = len(values) - count
        hand_on(values_of(parts), values[split:])
        shape, stride = with_values(parts, values[split:])
        new = Tensor.__new__(Tensor)
        new.iterator = with_values(self.iterator, values[:split])
        new.layout = Layout(shape, stride)
        return new

    def __str__(self) -> str:
        where = str(self.iterator) if hasattr(self.iterator, "dtype") else fmt(self.iterator)
        return f"tensor<{where} o {self.layout}>"

    __repr__ = __str__


def _leaves(layout: Layout) -> tuple[Any, Any]:
    return layout.shape, layout.stride


def _normal(iterator: Any, layout: Any) -> tuple[Any, Layout]:
    """The swizzle of a composed layout moved into the pointer, its offset into the iterator."""
    if isinstance(iterator, Tensor):
        raise TypeMismatchError(
            "make_tensor: expected a pointer or coordinate as iterator, got a Tensor",
            loc=trace.loc(),
            hint="pass tensor.iterator",
        )
    while isinstance(layout, ComposedLayout):
        inner, offset = layout.inner, layout.offset
        if isinstance(inner, Swizzle):
            if not isinstance(iterator, Pointer):
                raise LayoutError(
                    f"make_tensor: {layout} swizzles memory, but the iterator is {iterator}",
                    loc=trace.loc(),
                )
            iterator = _swizzled(iterator, inner, layout) + offset
            layout = layout.outer
        else:
            iterator = advance(iterator, inner(offset) if offset != 0 else 0)
            layout = composition(inner, layout.outer)
    if not isinstance(layout, Layout):
        layout = Layout(plain(layout))
    return iterator, layout


def _swizzled(p: Pointer, swizzle: Swizzle, layout: Any) -> Pointer:
    wanted = in_bytes(swizzle, p.element)
    if swizzle.bits == 0 or p.swizzle == wanted:
        return p
    if p.swizzle is not None:
        raise LayoutError(
            f"make_tensor: the pointer is already swizzled ({p.swizzle} of bytes), the layout "
            f"{layout} would swizzle it again",
            loc=trace.loc(),
            hint="pass the plain layout (layout.outer)",
        )
    return p.with_swizzle(wanted)


def _whole_bytes(p: Pointer) -> Pointer:
    if p.element.storage_bits % 8:
        raise DTypeError(
            f"{p.element} elements share bytes: one of them cannot be accessed alone",
            loc=trace.loc(),
            hint="recast the tensor to Uint8 and unpack in registers",
        )
    return p


def advance(iterator: Any, offset: Any) -> Any:
    """`iterator + offset`, where a coordinate grows mode by mode."""
    if hasattr(iterator, "dtype"):
        return iterator + offset
    return add(iterator, offset)


def plain(x: Any) -> Any:
    """Compile-time numbers as Python ints, lists as tuples; run-time values as they are."""
    if type(x) is int or x is None:
        return x
    if isinstance(x, tuple | list):
        return tuple(plain(item) for item in x)
    number = static_int(x)
    return x if number is None else number


@located
def make_tensor(iterator: Any, layout: Any) -> Tensor:
    """The tensor ``iterator o layout``; a shape stands for its compact column-major layout."""
    return Tensor(iterator, layout)


@located
def make_identity_tensor(shape: Any) -> Tensor:
    """``T(c) == c``: the tensor of its own coordinates, to tell which ones are in bounds."""
    clean = plain(shape.shape if hasattr(shape, "shape") else shape)
    rank = len(clean) if isinstance(clean, tuple) else 1
    return Tensor((0,) * rank if isinstance(clean, tuple) else 0, make_identity_layout(clean))


@located
def make_rmem_tensor(layout_or_shape: Any, dtype: Any) -> Tensor:
    """A tensor of uninitialised registers; a shape stands for its compact column-major layout.

    Raises: LayoutError unless the layout is known at compile time.
    """
    layout = layout_or_shape
    while isinstance(layout, ComposedLayout):
        layout = layout.outer
    if not isinstance(layout, Layout):
        layout = Layout(plain(layout))
    if not layout.is_static:
        raise LayoutError(
            f"make_rmem_tensor: registers need a compile-time layout, got {layout}",
            loc=trace.loc(),
        )
    row = row_of(dtype)
    array = trace.emit(memory.AllocRegisters, dtype=row.name, count=int(cosize(layout)))
    return Tensor(Pointer(array.results[0]), layout)


def make_fragment_like(src: Any, dtype: Any = None) -> Any:
    """Registers for the elements of `src`, mode 0 packed first (a layout gives a layout)."""
    if isinstance(src, Layout | ComposedLayout):
        return fragment_layout_like(src)
    kind = src.element_type if dtype is None else dtype
    return make_rmem_tensor(fragment_layout_like(src.layout), kind)


def make_rmem_tensor_like(src: Any, dtype: Any = None) -> Tensor:
    """Registers for the elements of `src`, compact, modes in the sequence of its strides.

    A tensor of coordinates has no such sequence: its registers are column-major.
    """
    if isinstance(src, TensorSSA):
        return make_rmem_tensor(src.shape, src.dtype if dtype is None else dtype)
    kind = src.element_type if dtype is None else dtype
    if isinstance(src.iterator, Pointer) and src.layout.is_static:
        return make_rmem_tensor(compact_layout_like(src.layout), kind)
    return make_rmem_tensor(src.shape, kind)


def make_fragment(layout_or_shape: Any, dtype: Any) -> Tensor:
    """`make_rmem_tensor` by its older name."""
    return make_rmem_tensor(layout_or_shape, dtype)


@located
def recast_tensor(src: Tensor, dtype: Any) -> Tensor:
    """The same memory as elements of another type; the stride-1 mode changes its extent.

    Raises: LayoutError if the layout does not fill whole elements.
    """
    p = src._pointer("recast_tensor")
    row, old = row_of(dtype), p.element
    if row is old:
        return src
    swizzle = None if p.swizzle is None else on_elements(p.swizzle, row)
    layout = recast_layout(row.storage_bits, old.storage_bits, src.layout)
    return Tensor(recast_ptr(p, swizzle, row), layout)
