"""The numbers of the bytecode format, and its primitive encodings.

Source: the bytecode reader and writer that NVIDIA publishes (github.com/NVIDIA/cuda-tile).
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.ops.tile import versions

MAGIC = b"\x7fTileIR\x00"
VERSIONS = versions.VERSIONS
DEFAULT_VERSION = (13, 3)
PADDING = b"\xcb"
DYNAMIC = -(1 << 63)

END, STRING, FUNC, DEBUG, CONSTANT, TYPE, GLOBAL, PRODUCER = range(8)
"""Section ids."""

NUMBER_TAGS = {
    "i1": 0,
    "i8": 1,
    "i16": 2,
    "i32": 3,
    "i64": 4,
    "f16": 5,
    "bf16": 6,
    "f32": 7,
    "tf32": 8,
    "f64": 9,
    "f8E4M3FN": 10,
    "f8E5M2": 11,
    "f8E8M0FNU": 18,
    "f4E2M1FN": 19,
    "i4": 22,
    "fnv8E5M3FNU": 130,
}
POINTER, TILE, TENSOR_VIEW, PARTITION_VIEW, FUNCTION, TOKEN = 12, 13, 14, 15, 16, 17
GATHER_SCATTER_VIEW, STRIDED_VIEW = 20, 21
"""Type tags."""

A_INTEGER, A_FLOAT, A_BOOL, A_TYPE, A_STRING, A_ARRAY = 1, 2, 3, 4, 5, 6
A_DENSE, A_DIV_BY, A_SAME_ELEMENTS, A_DICTIONARY, A_HINTS, A_BOUNDED = 7, 8, 9, 10, 11, 12
"""Tags of self-contained attributes."""

D_UNIT, D_FILE, D_BLOCK, D_LOC, D_SUBPROGRAM, D_CALL_SITE = 1, 2, 3, 4, 5, 6
"""Tags of debug attributes."""

F_PRIVATE, F_KERNEL, F_HINTS = 1, 2, 4
"""Flags of a function."""


def varint(value: int) -> bytes:
    """Seven bits a byte, least significant first, the top bit set on all but the last.

    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed_varint(value: int) -> bytes:
    """Zigzag: 0, -1, 1, -2... are 0, 1, 2, 3...

    >>> [signed_varint(v)[0] for v in (0, -1, 1, -2)]
    [0, 1, 2, 3]
    """
    return varint(value << 1 if value >= 0 else ~(value << 1))


def integers(values: Sequence[int], width: int) -> bytes:
    """A count and little-endian integers of `width` bytes."""
    return varint(len(values)) + b"".join(v.to_bytes(width, "little", signed=True) for v in values)


def bit_pattern(bits: int, width: int) -> bytes:
    """An APInt: one byte up to 8 bits, else a zigzag varint of the pattern."""
    return bytes([bits]) if width <= 8 else signed_varint(bits)


def padded(data: bytes | bytearray, alignment: int) -> bytes:
    """The padding that brings `data` to a multiple of `alignment`."""
    return PADDING * (-len(data) % alignment)
