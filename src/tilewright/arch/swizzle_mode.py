"""The four ways in which Hopper arranges 16-byte units in shared memory, one row each.

TMA, wgmma and our layouts must mean the same by a mode, so its name, its codes in the descriptor
and in the tensor map, and its XOR stand in one row.  A mode of span S keeps S contiguous bytes of
a row together, eight rows at distance S, and XORs the row number (mod S/16) into the number of the
16-byte unit.  The XOR acts on bits of the absolute shared-memory address.
Source: PTX ISA, "Shared Memory Matrix Layout", "Matrix Descriptor Format", "Swizzling Modes".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilewright.errors import LayoutError
from tilewright.layout.swizzle import Swizzle
from tilewright.numeric.dtypes import DType

SwizzleName = Literal["none", "32B", "64B", "128B"]


@dataclass(frozen=True, slots=True)
class SwizzleMode:
    """One swizzle mode.

    Units:  `span_bytes` contiguous bytes of a row (16 without swizzle: one unit); the pattern
            repeats every `repeat_bytes`, to which a tile's start must be aligned.
            `bits` address bits from bit 4 are XORed with those from bit 7.
    """

    name: SwizzleName
    span_bytes: int
    bits: int
    descriptor_code: int
    tensormap_code: int

    def __str__(self) -> str:
        return self.name

    @property
    def repeat_bytes(self) -> int:
        return 8 * self.span_bytes

    @property
    def on_bytes(self) -> Swizzle:
        """The XOR as a function of byte addresses.

        >>> print(swizzle_mode("128B").on_bytes)
        Sw<3,4,3>
        """
        return Swizzle(self.bits, 4, 3)

    def on_elements(self, dtype: DType) -> Swizzle:
        """The XOR as a function of element offsets from a start aligned to `repeat_bytes`.

        >>> from tilewright.numeric.dtypes import BF16, E2M1
        >>> print(swizzle_mode("128B").on_elements(BF16), swizzle_mode("64B").on_elements(E2M1))
        Sw<3,3,3> Sw<2,5,3>
        """
        return Swizzle(self.bits, (self.unit_elements(dtype)).bit_length() - 1, 3)

    def span_elements(self, dtype: DType) -> int:
        """Elements in the contiguous span of a row."""
        return self.span_bytes * 8 // dtype.storage_bits

    @staticmethod
    def unit_elements(dtype: DType) -> int:
        """Elements in the 16 bytes that the XOR moves as one."""
        return 128 // dtype.storage_bits


# Columns: name, span, bits, code in the wgmma descriptor, code in the tensor map.
SWIZZLE_MODES: tuple[SwizzleMode, ...] = (
    SwizzleMode("128B", 128, 3, 1, 3),
    SwizzleMode("64B", 64, 2, 2, 2),
    SwizzleMode("32B", 32, 1, 3, 1),
    SwizzleMode("none", 16, 0, 0, 0),
)
"""Widest first."""

_BY_NAME: dict[str | int, SwizzleMode] = {mode.name: mode for mode in SWIZZLE_MODES}
_BY_NAME |= {mode.span_bytes: mode for mode in SWIZZLE_MODES}
_BY_CODE = {mode.descriptor_code: mode for mode in SWIZZLE_MODES}


def swizzle_mode(which: str | int | SwizzleMode) -> SwizzleMode:
    """The mode of a name or of a span in bytes; 16 is no swizzle.

    Raises: LayoutError if there is none.
    """
    if isinstance(which, SwizzleMode):
        return which
    mode = _BY_NAME.get(which)
    if mode is None:
        raise LayoutError(
            f"swizzle mode: {which!r} is not one of 'none', '32B', '64B', '128B' "
            "or a span of 16, 32, 64 or 128 bytes"
        )
    return mode


def mode_of_descriptor_code(code: int) -> SwizzleMode:
    """The mode of the two bits in a matrix descriptor."""
    return _BY_CODE[code]
