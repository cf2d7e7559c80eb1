"""The words in which a collective is asked for: CUTLASS's own tags, and what they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeVar

from tilewright.arch.target import Target, target
from tilewright.errors import LaunchError
from tilewright.numeric.dtypes import DType, dtype

MAX_ALIGN_BITS = 128


class OpClass(StrEnum):
    """What multiplies: the tensor cores, or the ordinary float units."""

    TensorOp = "TensorOp"
    Simt = "Simt"


class KernelSchedule(StrEnum):
    """How a block's warps share the work.

    Multistage: all warps load by cp.async and multiply.  Tma: one group of four warps loads by TMA
    and multiplies.  WarpSpecialized: some load (by TMA, or by cp.async), the others multiply: one
    group of four warps; in Pingpong two, each with a tile of its own; in Cooperative two that share
    a tile.
    """

    KernelScheduleAuto = "KernelScheduleAuto"
    KernelMultistage = "KernelMultistage"
    KernelTma = "KernelTma"
    KernelTmaWarpSpecialized = "KernelTmaWarpSpecialized"
    KernelTmaWarpSpecializedPingpong = "KernelTmaWarpSpecializedPingpong"
    KernelTmaWarpSpecializedCooperative = "KernelTmaWarpSpecializedCooperative"
    KernelCpAsyncWarpSpecialized = "KernelCpAsyncWarpSpecialized"
    KernelCpAsyncWarpSpecializedPingpong = "KernelCpAsyncWarpSpecializedPingpong"
    KernelCpAsyncWarpSpecializedCooperative = "KernelCpAsyncWarpSpecializedCooperative"

    @property
    def uses_tma(self) -> bool:
        return self.startswith("KernelTma")

    @property
    def is_cooperative(self) -> bool:
        return self.endswith("Cooperative")


class EpilogueSchedule(StrEnum):
    """How D leaves: by TMA through shared memory, or straight from registers."""

    EpilogueScheduleAuto = "EpilogueScheduleAuto"
    NoSmemWarpSpecialized = "NoSmemWarpSpecialized"
    TmaWarpSpecialized = "TmaWarpSpecialized"
    TmaWarpSpecializedCooperative = "TmaWarpSpecializedCooperative"


class Decision(NamedTuple):
    """One choice, and why."""

    what: str
    choice: str
    why: str

    def __str__(self) -> str:
        return f"{self.what:<10} {self.choice}: {self.why}"


_LAYOUTS = ("RowMajor", "ColumnMajor")
_ROW_MAJOR = {"A": "K", "B": "N", "C": "N", "D": "N"}
_COLUMN_MAJOR = {"A": "M", "B": "K", "C": "M", "D": "M"}


@dataclass(frozen=True, slots=True)
class TensorDescription:
    """Element type, layout and alignment of an operand.

    `layout` is RowMajor or ColumnMajor, or the index that is contiguous: K, M or N.  `alignment`
    counts elements; every row start is a multiple of it.  0 stands for 16 bytes.

    >>> a = TensorDescription("bf16", "RowMajor")
    >>> a.alignment, a.major("A"), a.major("B")
    (8, 'K', 'N')
    """

    element: str | DType
    layout: str = "RowMajor"
    alignment: int = 0

    def __post_init__(self) -> None:
        row = dtype(self.element)
        object.__setattr__(self, "element", row)
        alignment = self.alignment or MAX_ALIGN_BITS // row.storage_bits
        bits = alignment * row.storage_bits
        if alignment & (alignment - 1) or not 8 <= bits <= MAX_ALIGN_BITS:
            raise LaunchError(
                f"alignment of {alignment} {row.name} elements: expected a power of two, from 1 to "
                f"16 bytes"
            )
        object.__setattr__(self, "alignment", alignment)

    @property
    def dtype(self) -> DType:
        return dtype(self.element)

    @property
    def align_bytes(self) -> int:
        return self.alignment * self.dtype.storage_bits // 8

    def major(self, operand: str) -> str:
        """The contiguous index of operand A (M,K), B (K,N), C or D (M,N).

        Raises: LaunchError for a layout that the operand cannot have.
        """
        row, column = _ROW_MAJOR[operand], _COLUMN_MAJOR[operand]
        found = {"RowMajor": row, "ColumnMajor": column, row: row, column: column}
        if self.layout not in found:
            raise LaunchError(
                f"{operand}: layout {self.layout!r} does not exist, expected RowMajor "
                f"({row} contiguous) or ColumnMajor ({column})"
            )
        return found[self.layout]

    def text(self, operand: str) -> str:
        """For messages: `A bf16 RowMajor (K contiguous) align 8`."""
        major = self.major(operand)
        layout = _LAYOUTS[major != _ROW_MAJOR[operand]]
        return f"{operand} {self.dtype.name} {layout} ({major} contiguous) align {self.alignment}"


_Tag = TypeVar("_Tag", OpClass, KernelSchedule, EpilogueSchedule)


def read_tag(kind: type[_Tag], value: str) -> _Tag:
    """The member that `value` names.

    Raises: LaunchError for a name that does not exist, listing those that do.
    """
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise LaunchError(f"{kind.__name__} {value!r} does not exist; there are: {known}") from None


def read_arch(arch: str | Target) -> Target:
    """The target of `arch`; CUTLASS's `Sm90` is `sm_90`.

    >>> read_arch("Sm90").name
    'sm_90a'
    """
    if isinstance(arch, str) and arch[:2] == "Sm":
        return target("sm_" + arch[2:])
    return target(arch)
