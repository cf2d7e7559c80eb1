"""What an instruction's operand is made of: a `DType`, or bits that no `DType` describes.

Some instructions multiply things that the language has no type for: single bits, 6-bit floats,
complex numbers.  Their rows still say who holds what, so all that a row needs is a name and a
width.  `numeric` stays the table of the types that a program can hold and convert.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.numeric.dtypes import DType


@dataclass(frozen=True, slots=True)
class RawElement:
    """An element type that only instruction rows know.

    Units:  `bits` is what one value takes where the instruction reads it.
    """

    name: str
    bits: int

    def __str__(self) -> str:
        return self.name


Element = DType | RawElement

U1 = RawElement("u1", 1)
"""One bit, for xor and and with population count."""
E3M2 = RawElement("e3m2", 6)
E2M3 = RawElement("e2m3", 6)
UE4M3 = RawElement("ue4m3", 8)
"""A block scale: e4m3 without its sign."""
C64 = RawElement("c64", 128)
"""A complex number of two doubles."""
GC64 = RawElement("gc64", 192)
"""Gauss's three real products of a complex sum, which are added up at the end."""
CF16 = RawElement("cf16", 32)
CBF16 = RawElement("cbf16", 32)
CTF32 = RawElement("ctf32", 64)
"""Complex numbers with the real and the imaginary part side by side."""
