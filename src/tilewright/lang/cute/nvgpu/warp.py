"""Instructions of one warp: `mma.sync`, `ldmatrix`, `stmatrix`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.registry import find_copy_atom
from tilewright.arch.mma.atom import MmaAtom
from tilewright.arch.mma.registry import find_mma_atom
from tilewright.errors import DTypeError
from tilewright.lang import trace
from tilewright.lang.cute.nvgpu.common import whole_bits
from tilewright.lang.cute.pointer import row_of
from tilewright.numeric.dtypes import DType


def _need(op: object, what: str, given: Any, names: tuple[str, ...]) -> None:
    row = row_of(given)
    if row.name not in names:
        raise DTypeError(
            f"{type(op).__name__}: {what} must be {' or '.join(names)}, got {row.name}",
            loc=trace.loc(),
        )


@dataclass(frozen=True)
class MmaF16BF16Op:
    """`mma.sync` on 16-bit floats: (16,8,8) or (16,8,16)."""

    ab_dtype: Any
    acc_dtype: Any
    shape_mnk: tuple[int, int, int]

    def row(self) -> MmaAtom:
        """Raises: DTypeError or LayoutError if the instruction does not exist."""
        _need(self, "ab_dtype", self.ab_dtype, ("f16", "bf16"))
        ab, acc = row_of(self.ab_dtype), row_of(self.acc_dtype)
        return find_mma_atom("mma", ab, ab, acc, shape_mnk=self.shape_mnk)


@dataclass(frozen=True)
class MmaTF32Op:
    """`mma.sync` on tf32: (16,8,4) or (16,8,8)."""

    shape_mnk: tuple[int, int, int]

    def row(self) -> MmaAtom:
        """Raises: LayoutError if the shape does not exist."""
        t, acc = row_of("tf32"), row_of("f32")
        return find_mma_atom("mma", t, t, acc, shape_mnk=self.shape_mnk)


@dataclass(frozen=True)
class MmaFP8Op:
    """`mma.sync` on 8-bit floats: (16,8,32)."""

    a_dtype: Any
    acc_dtype: Any
    shape_mnk: tuple[int, int, int] = (16, 8, 32)
    b_dtype: Any = None

    def row(self) -> MmaAtom:
        """Raises: DTypeError or LayoutError if the instruction does not exist."""
        _need(self, "a_dtype", self.a_dtype, ("e4m3", "e5m2"))
        a = row_of(self.a_dtype)
        b = a if self.b_dtype is None else row_of(self.b_dtype)
        return find_mma_atom("mma", a, b, row_of(self.acc_dtype), shape_mnk=self.shape_mnk)


@dataclass(frozen=True)
class MmaI8Op:
    """`mma.sync` on 8-bit integers: (16,8,16) or (16,8,32)."""

    a_dtype: Any
    b_dtype: Any
    shape_mnk: tuple[int, int, int] = (16, 8, 32)

    def row(self) -> MmaAtom:
        """Raises: DTypeError or LayoutError if the instruction does not exist."""
        _need(self, "a_dtype", self.a_dtype, ("i8", "u8"))
        a, b = row_of(self.a_dtype), row_of(self.b_dtype)
        return find_mma_atom("mma", a, b, row_of("i32"), shape_mnk=self.shape_mnk)


@dataclass(frozen=True)
class LdMatrix8x8x16bOp:
    """Loads 8x8 matrices of 16-bit elements from shared memory (`transpose`: their columns)."""

    transpose: bool = False
    num_matrices: int = 1

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        """Raises: LayoutError for a number of matrices other than 1, 2 or 4."""
        return _matrix_row(self, "ldmatrix", dtype, bits)


@dataclass(frozen=True)
class StMatrix8x8x16bOp:
    """Stores 8x8 matrices of 16-bit elements to shared memory (`transpose`: their columns)."""

    transpose: bool = False
    num_matrices: int = 1

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        """Raises: LayoutError for a number of matrices other than 1, 2 or 4."""
        return _matrix_row(self, "stmatrix", dtype, bits)


def _matrix_row(
    op: LdMatrix8x8x16bOp | StMatrix8x8x16bOp, kind: Any, dtype: DType, bits: int
) -> CopyAtom:
    if op.transpose and dtype.storage_bits != 16:
        raise DTypeError(
            f"{type(op).__name__}: only 16-bit elements can be transposed, got {dtype}",
            loc=trace.loc(),
        )
    whole_bits(op, dtype, bits, 16)
    return find_copy_atom(kind, num_matrices=op.num_matrices, transpose=op.transpose)
