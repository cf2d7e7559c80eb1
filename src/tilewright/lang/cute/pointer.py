"""Pointers: an address of typed elements in global memory, shared memory or registers.

A pointer is an IR base and a compile-time element offset; run-time offsets are folded into the
base where they are added, so that a pointer made outside a loop costs nothing inside it.

Rule SWIZZLE.  A swizzled pointer moves the *offset from its base* at the moment of access: the
element at offset x lies at ``base + sw(x)``.  The base is a multiple of the swizzle's repeat, so
this is the XOR of address bits that TMA and wgmma apply.  Offsets that are multiples of the repeat
commute with the swizzle and are folded into the base; what is left, the *low* offset, is
swizzled.  Where the low run-time bits and a compile-time offset cannot meet, their swizzles are
XORed apart: ``sw(t + s) == sw(t) ^ sw(s)``, and ``sw(t)`` is computed once.
"""

from __future__ import annotations

import enum
import math
from typing import Any, cast

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.core import Op, Value
from tilewright.ir.ops import arith, memory
from tilewright.ir.types import PtrType, Space
from tilewright.lang import trace
from tilewright.lang.cute.facts import divisor, ones
from tilewright.lang.values import (
    Int32,
    Int64,
    Numeric,
    Uint32,
    describe,
    numeric_of,
    static_number,
)
from tilewright.layout.recast import downcast, upcast
from tilewright.layout.swizzle import Swizzle
from tilewright.numeric.dtypes import DType
from tilewright.numeric.dtypes import dtype as dtype_row


class AddressSpace(enum.Enum):
    """Where memory is."""

    gmem = "gmem"
    smem = "smem"
    dsmem = "dsmem"
    """Shared memory of a block of the cluster, through `cute.arch.map_dsmem_ptr`."""
    rmem = "rmem"

    def __str__(self) -> str:
        return self.value


_SPACE = {
    Space.GMEM: AddressSpace.gmem,
    Space.SMEM: AddressSpace.smem,
    Space.DSMEM: AddressSpace.dsmem,
    Space.RMEM: AddressSpace.rmem,
}


class Pointer:
    """The address of an element.

    Units:  offsets in elements, `alignment` in bytes, `swizzle` in bits of the byte offset
            (``Sw<3,4,3>`` is the 128-byte swizzle for every element type).
    """

    __slots__ = ("_swizzled_low", "base", "low", "static", "swizzle")
    __tw_immutable__ = True

    def __init__(self, base: Value, offset: Any = 0, swizzle: Swizzle | None = None) -> None:
        if not isinstance(base.type, PtrType):
            raise TypeMismatchError(
                f"Pointer: expected a pointer value as base, got {base.type}", loc=trace.loc()
            )
        self.base = base
        self.static = 0
        self.swizzle = swizzle if swizzle is not None and swizzle.bits else None
        self.low: Any = None
        self._swizzled_low: Any = None
        if self.swizzle is not None:
            self._check_swizzle(self.swizzle)
        if not (type(offset) is int and offset == 0):
            moved = self + offset
            self.base, self.static = moved.base, moved.static
            self.low, self._swizzled_low = moved.low, moved._swizzled_low

    def _check_swizzle(self, swizzle: Swizzle) -> None:
        repeat = 1 << (swizzle.base + swizzle.bits + abs(swizzle.shift))
        if self._type.space not in (Space.SMEM, Space.DSMEM):
            raise LayoutError(
                f"pointer: swizzle {swizzle} needs shared memory, got {self._type}",
                loc=trace.loc(),
            )
        if self._type.align % repeat:
            raise LayoutError(
                f"pointer: swizzle {swizzle} repeats every {repeat} bytes, but the buffer is "
                f"aligned to {self._type.align}",
                loc=trace.loc(),
                hint=f"allocate it with byte_alignment={repeat} (cute.struct.Align[.., {repeat}])",
            )

    @property
    def _type(self) -> PtrType:
        return cast(PtrType, self.base.type)

    @property
    def element(self) -> DType:
        """The element type's row."""
        return self._type.dtype

    @property
    def dtype(self) -> Any:
        """The numeric class of the elements."""
        return numeric_of(self._type.dtype)

    value_type = dtype

    @property
    def memspace(self) -> AddressSpace:
        return _SPACE[self._type.space]

    @property
    def alignment(self) -> int:
        """Bytes that certainly divide the address of the element."""
        align = math.gcd(self._type.align, self._bytes(self.static))
        if self.swizzle is not None:
            align = math.gcd(align, self._bytes(divisor(self.low)) if self.low is not None else 0)
            align = math.gcd(align, 1 << self.swizzle.base)
        return align

    max_alignment = alignment

    @property
    def offset(self) -> Any:
        """Elements beyond the base: a Python int, or a run-time integer."""
        return self.static if self.low is None else self.low + self.static

    def _bytes(self, elements: int) -> int:
        return elements * self.element.storage_bits // 8

    def element_swizzle(self) -> Swizzle | None:
        """The swizzle counted in elements instead of bytes."""
        return None if self.swizzle is None else on_elements(self.swizzle, self.element)

    def _moved(self, base: Value, static: int, low: Any = None) -> Pointer:
        new = Pointer.__new__(Pointer)
        new.base, new.static, new.swizzle = base, static, self.swizzle
        new.low, new._swizzled_low = low, None
        if low is not None and low is self.low:
            new._swizzled_low = self._swizzled_low
        elif low is not None:
            sw = new.element_swizzle()
            assert sw is not None, "only swizzled pointers keep a low offset"
            new._swizzled_low = sw(low)
        return new

    def __add__(self, offset: Any) -> Any:
        """The pointer `offset` elements further on."""
        number = static_int(offset)
        if number is not None:
            if number == 0:
                return self
            return self._moved(self.base, self.static + number, self.low)
        if not isinstance(offset, Numeric) or not type(offset).is_integer:
            raise TypeMismatchError(
                f"pointer + {describe(offset)}: expected an integer offset", loc=trace.loc()
            )
        static, terms = split_terms(offset)
        static += self.static
        if self.swizzle is None:
            total = sum_terms(terms)
            if total is None:
                return self._moved(self.base, static)
            return self._moved(_offset(self.base, total), static)
        repeat = self._repeat()
        high = sum_terms([t for t in terms if divisor(t) % repeat == 0])
        low = sum_terms([t for t in terms if divisor(t) % repeat])
        if low is None:
            low = self.low
        elif self.low is not None:
            low = self.low + low
        base = self.base if high is None else _offset(self.base, high)
        return self._moved(base, static, low)

    def __radd__(self, offset: Any) -> Any:
        return self + offset

    def __sub__(self, offset: Any) -> Any:
        return self + -offset

    def _repeat(self) -> int:
        """Elements after which the swizzle repeats."""
        sw = self.element_swizzle()
        assert sw is not None, "asked of swizzled pointers only"
        return 1 << (sw.base + sw.bits + abs(sw.shift))

    def value(self) -> Value:
        """The IR pointer to the element (swizzled, where the pointer is)."""
        if self.swizzle is None:
            return _offset_static(self.base, self.static)
        sw, repeat = self.element_swizzle(), self._repeat()
        assert sw is not None, "checked above"
        high, low = divmod(self.static, repeat)
        if self.low is None:
            return _offset_static(self.base, high * repeat + sw(low))
        room = ones(self.low)
        keep = math.gcd(_two_part(divisor(self.low)), 1 << sw.base, _two_part(low))
        if low == 0 or (room >= 0 and room & low == 0):
            flips = sw(low)
            reached = ones(self._swizzled_low)
            if reached >= 0 and reached & flips == 0:
                base = _offset(self.base, self._swizzled_low, keep)
                return _offset_static(base, high * repeat + flips)
            index = self._swizzled_low ^ flips
        else:
            index = sw(self.low + low)
        return _offset_static(_offset(self.base, index, keep), high * repeat)

    def __tw_general__(self) -> Pointer:
        """The same address with its compile-time offset folded in, so that paths can meet."""
        if self.swizzle is not None or self.static == 0:
            return self
        return Pointer(self.plain_value())

    def plain_value(self, need: int = 1) -> Value:
        """The IR pointer to the *unswizzled* offset: what TMA takes as a box's corner.

        Raises: LayoutError unless the address is known to be a multiple of `need` bytes.
        """
        low, static = self.low, self.static
        base = self.base if low is None else _offset(self.base, low)
        found = _offset_static(base, static)
        if cast(PtrType, found.type).align % need:
            raise LayoutError(
                f"the address must be a multiple of {need} bytes, it is known to be one of "
                f"{cast(PtrType, found.type).align}",
                details={"pointer": self},
                loc=trace.loc(),
                hint=f"allocate the buffer with byte_alignment={need}",
            )
        return found

    def toint(self) -> Any:
        """The byte address: Uint32 in the shared window, Int64 in global memory."""
        if self.memspace is AddressSpace.smem:
            return Uint32(trace.value(memory.SharedAddress, self.value()))
        if self.memspace is AddressSpace.gmem:
            return Int64(trace.value(memory.GlobalAddress, self.value()))
        raise TypeMismatchError("toint: registers have no address", loc=trace.loc())

    def align(self, min_align: int) -> Pointer:
        """The same address, vouched to be a multiple of `min_align` bytes."""
        if min_align < 1 or min_align & (min_align - 1):
            raise TypeMismatchError(
                f"align: expected a power of two, got {min_align}", loc=trace.loc()
            )
        if self.alignment % min_align == 0:
            return self
        value = self.plain_value()
        cast_to = trace.value(memory.CastPointer, value, dtype=self.element.name, align=min_align)
        return Pointer(cast_to, 0, self.swizzle)

    def with_swizzle(self, swizzle: Swizzle | None) -> Pointer:
        """The same offset from the same base, seen through another swizzle (of byte offsets)."""
        plain: Pointer = Pointer(self.base, 0, swizzle) + self.static
        return plain if self.low is None else cast(Pointer, plain + self.low)

    def rebased(self, base: Value) -> Pointer:
        """The same offset and swizzle from another base."""
        return self._moved(base, self.static, self.low)

    def __tw_values__(self) -> list[Value]:
        return [self.base] if self.low is None else [self.base, self.low.ir_value()]

    def __tw_with_values__(self, values: list[Value]) -> Pointer:
        low = None if self.low is None else type(self.low)(values[1])
        return self._moved(values[0], self.static, low)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        swizzle = f", {self.swizzle}" if self.swizzle else ""
        return f"ptr<{self.element.name}, {self.memspace}, align<{self.alignment}>{swizzle}>"


def row_of(kind: Any) -> DType:
    """The element type's row of a numeric class, a row or a row's name.

    Raises: TypeMismatchError for anything else.
    """
    if isinstance(kind, type) and issubclass(kind, Numeric):
        return kind._row
    if isinstance(kind, DType | str):
        return dtype_row(kind)
    raise TypeMismatchError(
        f"expected an element type such as cutlass.Float32, got {describe(kind)}", loc=trace.loc()
    )


def static_int(x: Any) -> int | None:
    """The Python int that `x` is known to be, or None."""
    if type(x) is int:
        return x
    number = static_number(x)
    return number if isinstance(number, int) else None


def split_terms(x: Any) -> tuple[int, list[Any]]:
    """`x` as a compile-time number plus run-time terms, looking through its additions."""
    number = static_int(x)
    if number is not None:
        return number, []
    kind = type(x)
    op = x.raw.owner
    if isinstance(op, Op) and type(op) is arith.Constant:
        return int(cast(int, op.value)), []
    if isinstance(op, Op) and type(op) is arith.Add:
        left, right = (split_terms(kind(v)) for v in op.operands)
        return left[0] + right[0], left[1] + right[1]
    return 0, [x]


def sum_terms(terms: list[Any]) -> Any:
    """The sum, or None if there are none."""
    total = None
    for t in terms:
        total = t if total is None else total + t
    return total


def _two_part(d: int) -> int:
    return d & -d if d else 1 << 62


def _offset(base: Value, index: Any, known: int = 0) -> Value:
    by = known or divisor(index)
    return trace.value(memory.Offset, base, index.ir_value(), divisor=_two_part(by) & (1 << 62) - 1)


def _offset_static(base: Value, index: int) -> Value:
    if index == 0:
        return base
    kind = Int32 if -(1 << 31) <= index < 1 << 31 else Int64
    return trace.value(memory.Offset, base, kind(index).ir_value())


def on_elements(swizzle: Swizzle, element: DType) -> Swizzle:
    """A swizzle of byte offsets as one of element offsets."""
    bits = element.storage_bits
    return cast(Swizzle, upcast(swizzle, bits // 8) if bits >= 8 else downcast(swizzle, 8 // bits))


def in_bytes(swizzle: Swizzle, element: DType) -> Swizzle:
    """A swizzle of element offsets as one of byte offsets."""
    bits = element.storage_bits
    return cast(Swizzle, downcast(swizzle, bits // 8) if bits >= 8 else upcast(swizzle, 8 // bits))


def recast_ptr(ptr: Pointer, swizzle_: Swizzle | None = None, dtype: Any = None) -> Pointer:
    """The same address as elements of `dtype`, and with `swizzle_` (None drops the swizzle).

    Units:  `swizzle_` counts in elements of the new type, as layouts do.

    Raises: LayoutError if the address cannot be counted in the new elements.
    """
    row = ptr.element if dtype is None else row_of(dtype)
    old, new = ptr.element.storage_bits, row.storage_bits
    static, low = ptr.static * old, ptr.low
    if static % new or (low is not None and divisor(low) * old % new):
        raise LayoutError(
            f"recast_ptr: offset {ptr.static} of {ptr.element.name} elements is not a whole "
            f"number of {row.name} elements",
            loc=trace.loc(),
        )
    align = cast(PtrType, ptr.base.type).align
    base = ptr.base
    if row is not ptr.element:
        base = trace.value(memory.CastPointer, base, dtype=row.name, align=align)
    moved = Pointer(base, static // new, None if swizzle_ is None else in_bytes(swizzle_, row))
    if low is None:
        return moved
    scaled = low * (old // new) if old >= new else low // (new // old)
    return cast(Pointer, moved + scaled)


def make_ptr(
    dtype: Any,
    value: Any,
    mem_space: AddressSpace = AddressSpace.gmem,
    *,
    assumed_align: int | None = None,
) -> Pointer:
    """A pointer to elements of `dtype` at the address of another pointer.

    Raises: TypeMismatchError for a bare address: the machine checks every access against the
            buffer that it came from, so addresses are not made from numbers.
    """
    if not isinstance(value, Pointer):
        raise TypeMismatchError(
            f"make_ptr: expected a pointer, got {type(value).__name__}",
            loc=trace.loc(),
            hint="pass the array itself as a kernel argument and use its .iterator",
        )
    if value.memspace is not mem_space:
        raise TypeMismatchError(
            f"make_ptr: the pointer is in {value.memspace}, not in {mem_space}", loc=trace.loc()
        )
    row = row_of(dtype)
    swizzle = None if value.swizzle is None else on_elements(value.swizzle, row)
    new = recast_ptr(value, swizzle, row)
    return new if assumed_align is None else new.align(assumed_align)
