"""Instructions of a warpgroup (128 threads): `wgmma`, its fences, and its shared-memory layouts."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from tilewright.arch.mma.atom import Major, MmaAtom, Source
from tilewright.arch.mma.registry import find_mma_atom
from tilewright.arch.smem import smem_layout_atom
from tilewright.errors import TypeMismatchError
from tilewright.ir.ops import mma
from tilewright.lang import trace
from tilewright.lang.cute.pointer import row_of, static_int
from tilewright.lang.values import describe
from tilewright.layout.swizzle import ComposedLayout


class OperandMajorMode(enum.Enum):
    """The direction in which a shared-memory operand is contiguous."""

    K = "K"
    MN = "MN"


class OperandSource(enum.Enum):
    """Where the instruction reads its A operand."""

    RMEM = "rmem"
    SMEM = "smem"


class Field(enum.Enum):
    """What can be set on a tiled MMA between instructions."""

    ACCUMULATE = "accumulate"
    """Whether the instruction adds to the accumulator (True) or overwrites it."""


def _row(op: Any, a: Any, b: Any, acc: Any) -> MmaAtom:
    majors: list[Major] = [getattr(op, f"{x}_major_mode").value for x in "ab"]
    source: Source = op.a_src.value
    m, n = op.shape_mnk[0], op.shape_mnk[1]
    k = 256 // row_of(a).bits
    given = op.shape_mnk[2] if len(op.shape_mnk) > 2 else k
    return find_mma_atom(
        "wgmma",
        row_of(a),
        row_of(b),
        row_of(acc),
        shape_mnk=(m, n, given),
        a_source=source,
        a_major=majors[0],
        b_major=majors[1],
    )


@dataclass(frozen=True)
class MmaF16BF16Op:
    """`wgmma` on 16-bit floats: (64, 8..256, 16)."""

    ab_dtype: Any
    acc_dtype: Any
    shape_mnk: tuple[int, int, int]
    a_src: OperandSource = OperandSource.SMEM
    a_major_mode: OperandMajorMode = OperandMajorMode.K
    b_major_mode: OperandMajorMode = OperandMajorMode.K

    def row(self) -> MmaAtom:
        """Raises: DTypeError or LayoutError if the instruction does not exist."""
        return _row(self, self.ab_dtype, self.ab_dtype, self.acc_dtype)


@dataclass(frozen=True)
class MmaF8Op:
    """`wgmma` on 8-bit floats, K-major: (64, 8..256, 32)."""

    a_dtype: Any
    b_dtype: Any
    acc_dtype: Any
    shape_mnk: tuple[int, int, int]
    a_src: OperandSource = OperandSource.SMEM
    a_major_mode: OperandMajorMode = OperandMajorMode.K
    b_major_mode: OperandMajorMode = OperandMajorMode.K

    def row(self) -> MmaAtom:
        """Raises: DTypeError or LayoutError if the instruction does not exist."""
        return _row(self, self.a_dtype, self.b_dtype, self.acc_dtype)


@dataclass(frozen=True)
class MmaI8Op:
    """`wgmma` on 8-bit integers, K-major: (64, N, 32)."""

    a_dtype: Any
    b_dtype: Any
    acc_dtype: Any
    shape_mnk: tuple[int, int, int]
    a_src: OperandSource = OperandSource.SMEM
    a_major_mode: OperandMajorMode = OperandMajorMode.K
    b_major_mode: OperandMajorMode = OperandMajorMode.K

    def row(self) -> MmaAtom:
        """Raises: DTypeError or LayoutError if the instruction does not exist."""
        return _row(self, self.a_dtype, self.b_dtype, self.acc_dtype)


@dataclass(frozen=True)
class MmaTF32Op:
    """`wgmma` on tf32, K-major: (64, 8..256, 8)."""

    acc_dtype: Any
    shape_mnk: tuple[int, int, int]
    a_src: OperandSource = OperandSource.SMEM
    a_major_mode: OperandMajorMode = OperandMajorMode.K
    b_major_mode: OperandMajorMode = OperandMajorMode.K

    def row(self) -> MmaAtom:
        """Raises: DTypeError or LayoutError if the instruction does not exist."""
        return _row(self, "tf32", "tf32", self.acc_dtype)


class SmemLayoutAtomKind(enum.Enum):
    """A major direction and a swizzle span."""

    MN_INTER = ("MN", "none")
    MN_SW32 = ("MN", "32B")
    MN_SW64 = ("MN", "64B")
    MN_SW128 = ("MN", "128B")
    K_INTER = ("K", "none")
    K_SW32 = ("K", "32B")
    K_SW64 = ("K", "64B")
    K_SW128 = ("K", "128B")


def make_smem_layout_atom(kind: SmemLayoutAtomKind, element_type: Any) -> ComposedLayout:
    """The smallest tile, (MN, K), that wgmma and TMA read in this swizzle.

    Units:  elements: the swizzle too counts in elements of `element_type`.

    >>> print(make_smem_layout_atom(SmemLayoutAtomKind.K_SW128, "bf16"))
    Sw<3,3,3> o 0 o (8,64):(64,1)
    """
    if not isinstance(kind, SmemLayoutAtomKind):
        raise TypeMismatchError(
            f"make_smem_layout_atom: expected a SmemLayoutAtomKind, got {describe(kind)}",
            loc=trace.loc(),
        )
    major, mode = kind.value
    return smem_layout_atom("K" if major == "K" else "MN", mode, row_of(element_type))


def fence() -> None:
    """Orders earlier accesses of registers and shared memory before the next wgmma."""
    trace.emit(mma.WgmmaFence)


def commit_group() -> None:
    """Makes a group of the wgmmas issued since the last commit."""
    trace.emit(mma.WgmmaCommit)


def wait_group(group: Any) -> None:
    """Waits until at most `group` of the newest groups are in flight."""
    pending = static_int(group)
    if pending is None or not 0 <= pending <= 7:
        raise TypeMismatchError(
            f"wait_group: expected a compile-time number of groups in 0..7, got {describe(group)}",
            loc=trace.loc(),
        )
    trace.emit(mma.WgmmaWait, pending=pending)
