"""Hopper's 64-bit shared-memory matrix descriptor, and how wgmma walks memory by it.

    bits  0-13   start address / 16            bits 32-45   stride byte offset / 16
    bits 16-29   leading byte offset / 16      bits 49-51   base offset
    bits 62-63   swizzle mode

What the two offsets mean depends on mode and major (S = span of the mode, bytes):

    major, mode    row r                            column k
    K, swizzled    (r%8)*S + (r//8)*stride          contiguous within S
    K, none        (r%8)*16 + (r//8)*stride         16-byte unit * leading
    MN, swizzled   in S bytes, then block*leading   (k%8)*S + (k//8)*stride
    MN, none       16-byte unit * stride            (k%8)*16 + (k//8)*leading

The swizzle is applied to the sum, an absolute shared-memory address.  So advancing the start by 32
bytes steps K within a 128-byte span: the XOR is of the final address.
Source: PTX ISA, "Matrix Descriptor Format", "Strides"; CuTe's canonical GMMA layouts.  Measured:
tests/arch/test_descriptor_on_gpu.py reads off an H200 which address each element comes from, for
offsets that no tile would have and every base offset; all agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.arch.mma.atom import Major
from tilewright.arch.swizzle_mode import (
    SwizzleMode,
    SwizzleName,
    mode_of_descriptor_code,
    swizzle_mode,
)
from tilewright.arch.thread_value import mode_offsets
from tilewright.errors import DTypeError, LayoutError
from tilewright.layout.int_tuple import IntTuple
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import ComposedLayout, Swizzle
from tilewright.numeric.dtypes import DType

ADDRESS_SHIFT = 0
LEADING_SHIFT = 16
STRIDE_SHIFT = 32
BASE_OFFSET_SHIFT = 49
MODE_SHIFT = 62
FIELD_MASK = 0x3FFF
UNIT_BYTES = 16
"""Address and offsets are stored in units of 16 bytes, 14 bits each."""
ADDRESS_MASK = 0x3FFFF
"""Bits of a shared-window address that a descriptor holds: above them is the block's rank in the
cluster, which must be masked off or it would run into the leading offset."""


@dataclass(frozen=True, slots=True)
class SmemDescriptor:
    """The fields of a matrix descriptor.  Units: bytes."""

    start_address: int
    leading_bytes: int
    stride_bytes: int
    swizzle: SwizzleName
    base_offset: int = 0

    def encode(self) -> int:
        """The 64 bits."""
        return encode(
            self.start_address,
            self.leading_bytes,
            self.stride_bytes,
            self.swizzle,
            self.base_offset,
        )


def encode(
    start_address: int,
    leading_bytes: int,
    stride_bytes: int,
    swizzle: SwizzleName | SwizzleMode,
    base_offset: int = 0,
) -> int:
    """The 64 bits of a descriptor.

    Bits of the address above the block's own 256 KiB are dropped.
    Raises: LayoutError if a field is not a multiple of 16 bytes or does not fit.

    >>> hex(encode(0x400, 16, 1024, "128B"))
    '0x4000004000010040'
    """
    for what, value in (
        ("start address", start_address),
        ("leading byte offset", leading_bytes),
        ("stride byte offset", stride_bytes),
    ):
        if value % UNIT_BYTES or value < 0:
            raise LayoutError(
                f"matrix descriptor: {what} {value} is not a multiple of {UNIT_BYTES} bytes"
            )
        if what != "start address" and value // UNIT_BYTES > FIELD_MASK:
            limit = FIELD_MASK * UNIT_BYTES
            raise LayoutError(f"matrix descriptor: {what} {value} exceeds {limit} bytes")
    if not 0 <= base_offset < 8:
        raise LayoutError(f"matrix descriptor: base offset {base_offset} is not in 0..7")
    return (
        (start_address & ADDRESS_MASK) // UNIT_BYTES << ADDRESS_SHIFT
        | leading_bytes // UNIT_BYTES << LEADING_SHIFT
        | stride_bytes // UNIT_BYTES << STRIDE_SHIFT
        | base_offset << BASE_OFFSET_SHIFT
        | swizzle_mode(swizzle).descriptor_code << MODE_SHIFT
    )


def decode(bits: int) -> SmemDescriptor:
    """The fields of 64 bits: ``decode(x).encode() == x`` for every x that `encode` makes.

    >>> decode(0x4000004000010040)
    SmemDescriptor(start_address=1024, leading_bytes=16, stride_bytes=1024, swizzle='128B', \
base_offset=0)
    """
    return SmemDescriptor(
        start_address=(bits >> ADDRESS_SHIFT & FIELD_MASK) * UNIT_BYTES,
        leading_bytes=(bits >> LEADING_SHIFT & FIELD_MASK) * UNIT_BYTES,
        stride_bytes=(bits >> STRIDE_SHIFT & FIELD_MASK) * UNIT_BYTES,
        swizzle=mode_of_descriptor_code(bits >> MODE_SHIFT & 3).name,
        base_offset=bits >> BASE_OFFSET_SHIFT & 7,
    )


def swizzle_address(mode: SwizzleName | SwizzleMode, address: int, base_offset: int = 0) -> int:
    """The byte address at which the hardware finds what `address` names before the swizzle.

    `base_offset` is the number of the row (of 128 bytes, mod 8) in which the pattern starts; it is
    0 whenever tiles start at a multiple of `repeat_bytes`, which is all that TMA can write.

    >>> [hex(swizzle_address(m, 0x4F8)) for m in ("none", "32B", "64B", "128B")]
    ['0x4f8', '0x4e8', '0x4e8', '0x4e8']
    """
    row = address - (base_offset << 7)
    mask = (1 << swizzle_mode(mode).bits) - 1
    return address ^ ((row >> 7 & mask) << 4)


@lru_cache(maxsize=512)
def operand_offsets(
    mode: SwizzleName,
    leading_bytes: int,
    stride_bytes: int,
    major: Major,
    rows: int,
    k: int,
    elem_bytes: int,
) -> tuple[int, ...]:
    """Byte offsets from the start, before the swizzle, of element (r, c) at ``r + c * rows``."""
    row_part, k_part = _parts(mode, leading_bytes, stride_bytes, major, rows, k, elem_bytes)
    return tuple(r + c for c in k_part for r in row_part)


def operand_byte_offsets(
    descriptor: SmemDescriptor, major: Major, rows: int, k: int, elem_bytes: int
) -> list[int]:
    """Byte addresses, before the swizzle, of the operand's elements: (r, c) at ``r + c * rows``.

    `rows` x `k` is the operand of one instruction: M or N rows, 32 bytes of K.
    `swizzle_address` of each is where the element lies.

    >>> d = SmemDescriptor(0x400, 16, 1024, "128B")
    >>> operand_byte_offsets(d, "K", 16, 16, 2)[7:10] == [0x400 + 7*128, 0x400 + 1024, 0x480 + 1024]
    True
    """
    offsets = operand_offsets(
        descriptor.swizzle,
        descriptor.leading_bytes,
        descriptor.stride_bytes,
        major,
        rows,
        k,
        elem_bytes,
    )
    start = descriptor.start_address
    return [start + o for o in offsets]


def _parts(
    mode: SwizzleName, leading: int, stride: int, major: Major, rows: int, k: int, size: int
) -> tuple[list[int], list[int]]:
    """The offsets that a row and a column contribute; an element's offset is their sum."""
    span = swizzle_mode(mode).span_bytes
    none = mode == "none"
    if major == "K":
        row_part = [r % 8 * span + r // 8 * stride for r in range(rows)]
        unit_step = leading if none else span
        k_part = [c * size % span + c * size // span * unit_step for c in range(k)]
        return row_part, k_part
    block, group = (stride, leading) if none else (leading, stride)
    row_part = [r * size % span + r * size // span * block for r in range(rows)]
    return row_part, [c % 8 * span + c // 8 * group for c in range(k)]


@lru_cache(maxsize=256)
def descriptor_of(layout: ComposedLayout | Layout, major: Major, dtype: DType) -> SmemDescriptor:
    """The descriptor by which wgmma reads an operand stored as `layout` says.

    `layout` is the operand of one instruction, (rows, K of 32 bytes) -> element offset, its modes
    nested at will; a plain layout is not swizzled.  The start address is relative to the buffer:
    the offset of the layout, which a slice of a tile has.  Offsets that the hardware does not use
    are 16, as CuTe has them.
    Raises: LayoutError if no descriptor describes the layout: every row and column is compared.
    """
    size = dtype.storage_bits // 8
    if size == 0:
        raise DTypeError(f"matrix descriptor: wgmma has no {dtype.storage_bits}-bit type {dtype}")
    outer, mode, start = _taken_apart(layout, dtype)
    if not isinstance(outer.shape, tuple) or len(outer.shape) != 2:
        raise LayoutError(f"matrix descriptor: expected a layout of (rows, K), got {layout}")
    row_part, k_part = (_bytes_of(outer.shape[i], outer.stride[i], size) for i in (0, 1))
    unit = UNIT_BYTES // size
    if major == "K":
        stride = _at(row_part, 8)
        leading = _at(k_part, unit) if mode.name == "none" else UNIT_BYTES
    elif mode.name == "none":
        stride, leading = _at(row_part, unit), _at(k_part, 8)
    else:
        stride, leading = _at(k_part, 8), _at(row_part, mode.span_elements(dtype))
    found = SmemDescriptor(start * size, leading, stride, mode.name)
    expected = _parts(mode.name, leading, stride, major, len(row_part), len(k_part), size)
    for what, actual, hardware in zip(("row", "column"), (row_part, k_part), expected, strict=True):
        for i, (a, h) in enumerate(zip(actual, hardware, strict=True)):
            if a != h:
                raise LayoutError(
                    f"matrix descriptor: {layout} is not a {major}-major layout of swizzle "
                    f"{mode.name}: {what} {i} is stored at byte {a}, wgmma would read byte {h}",
                    details={"descriptor": found},
                )
    return found


def _taken_apart(layout: ComposedLayout | Layout, dtype: DType) -> tuple[Layout, SwizzleMode, int]:
    """The plain layout, the swizzle mode and the offset in elements."""
    if isinstance(layout, Layout):
        return layout, swizzle_mode("none"), 0
    inner, outer, offset = layout.inner, layout.outer, layout.offset
    bits = inner.bits if isinstance(inner, Swizzle) else -1
    mode = swizzle_mode(16 << bits) if 0 <= bits <= 3 else None
    fits = mode is not None and (bits == 0 or inner == mode.on_elements(dtype))
    if mode is None or not fits or not isinstance(outer, Layout):
        raise LayoutError(
            f"matrix descriptor: {layout} has no swizzle that wgmma applies to {dtype}; "
            f"expected {swizzle_mode('128B').on_elements(dtype)} or fewer bits"
        )
    if type(offset) is not int:
        raise LayoutError(
            f"matrix descriptor: the offset of {layout} is not a constant; "
            "expected it in the start address"
        )
    return outer, mode, offset


def _bytes_of(shape: IntTuple, stride: IntTuple, size: int) -> list[int]:
    return [o * size for o in mode_offsets(shape, stride)]


def _at(part: list[int], index: int) -> int:
    """The offset at `index`, or one unit where the operand is too small to need it."""
    return part[index] if index < len(part) else UNIT_BYTES
