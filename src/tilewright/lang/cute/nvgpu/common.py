"""Instructions that every architecture has: the fused multiply-add and plain copies.

An *operation* says which instruction is meant; `row()` finds its facts in `arch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.registry import find_copy_atom
from tilewright.arch.copy.universal import WIDTHS
from tilewright.arch.mma.atom import MmaAtom
from tilewright.arch.mma.registry import find_mma_atom
from tilewright.errors import DTypeError, LayoutError
from tilewright.lang import trace
from tilewright.lang.cute.pointer import row_of
from tilewright.numeric.dtypes import DType


@dataclass(frozen=True)
class MmaUniversalOp:
    """``d = a * b + c`` by one thread, all in `abacc_dtype`."""

    abacc_dtype: Any

    def row(self) -> MmaAtom:
        """Raises: DTypeError if there is no such multiply-add."""
        t = row_of(self.abacc_dtype)
        return find_mma_atom("fma", t, t, t)


@dataclass(frozen=True)
class CopyUniversalOp:
    """A plain access by one thread, between any two memories."""

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        """The access of `bits` bits (0: of one element).

        Raises: LayoutError for a width that no access has, or that splits an element.
        """
        width = bits or dtype.storage_bits
        if width not in WIDTHS or width % dtype.storage_bits:
            raise LayoutError(
                f"CopyUniversalOp: num_bits_per_copy={width} is not one of "
                f"{', '.join(map(str, WIDTHS))} bits in whole {dtype} elements",
                loc=trace.loc(),
            )
        return find_copy_atom("universal", bits=width)


def whole_bits(op: object, dtype: DType, bits: int, fixed: int) -> None:
    """Raises: DTypeError unless the instruction, which moves `fixed` bits, is asked for them."""
    if dtype.storage_bits > fixed or (bits and bits % fixed):
        raise DTypeError(
            f"{type(op).__name__}: moves units of {fixed} bits, asked for {bits or 'some'} bits of "
            f"{dtype}",
            loc=trace.loc(),
        )
