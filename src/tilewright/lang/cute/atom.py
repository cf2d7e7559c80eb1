"""Atoms: one instruction, as the language sees it: a row of `arch` and what the kernel chose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.arch.copy import atom as arch_copy
from tilewright.arch.mma import atom as arch_mma
from tilewright.arch.target import Target
from tilewright.errors import TypeMismatchError
from tilewright.ir.core import Value
from tilewright.lang import trace
from tilewright.lang.cute.located import located
from tilewright.lang.cute.pointer import row_of, static_int
from tilewright.lang.cute.tv import in_values
from tilewright.lang.values import describe, is_number, numeric_of
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import DType


@dataclass(frozen=True)
class TmaGeometry:
    """The compile-time facts of a TMA descriptor.

    Units:  elements.  `box` is what one instruction moves, innermost dimension first; `values` is
            the box that all receivers of a multicast share, `split_dim` the dimension along which
            they divide it.  `span_bytes` is the swizzle's.
    """

    box: tuple[int, ...]
    values: int
    num_multicast: int
    split_dim: int
    span_bytes: int


class CopyAtom:
    """One copy instruction for elements of a type; a TMA atom also holds its descriptor."""

    __slots__ = ("dtype", "geometry", "op", "row", "tensormap")
    __tw_immutable__ = True

    def __init__(
        self,
        op: Any,
        row: arch_copy.CopyAtom,
        dtype: DType,
        tensormap: Value | None = None,
        geometry: TmaGeometry | None = None,
    ) -> None:
        self.op, self.row, self.dtype = op, row, dtype
        self.tensormap, self.geometry = tensormap, geometry

    @property
    def value_type(self) -> Any:
        """The numeric class of the elements that it copies."""
        return numeric_of(self.dtype)

    @property
    def thr_id(self) -> Layout:
        return self.row.thr_id

    @property
    def num_threads(self) -> int:
        """Threads that execute the instruction together."""
        return self.row.num_threads

    @property
    def layout_ref_tv(self) -> Layout:
        """(thread, value) of the side that the instruction is described by."""
        return in_values(self.row.ref_layout, self.dtype.storage_bits)

    @property
    def layout_src_tv(self) -> Layout:
        """(thread, value) that each thread names or holds at the source."""
        return in_values(self.row.src_layout, self.dtype.storage_bits)

    @property
    def layout_dst_tv(self) -> Layout:
        """(thread, value) that each thread names or holds at the destination."""
        return in_values(self.row.dst_layout, self.dtype.storage_bits)

    def __tw_values__(self) -> list[Value]:
        return [] if self.tensormap is None else [self.tensormap]

    def __tw_with_values__(self, values: list[Value]) -> CopyAtom:
        return CopyAtom(self.op, self.row, self.dtype, values[0], self.geometry)

    def __str__(self) -> str:
        return f"CopyAtom({self.row.name}, {self.dtype})"

    __repr__ = __str__


class MmaAtom:
    """One matrix instruction, and whether it accumulates."""

    def __init__(self, op: Any, row: arch_mma.MmaAtom) -> None:
        self.op = op
        self.row = row
        self.accumulate: Any = True

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        """M, N and K of one instruction."""
        return self.row.shape_mnk

    @property
    def thr_id(self) -> Layout:
        return self.row.thr_id

    @property
    def atom_tv_layout_A(self) -> Layout:
        return self.row.layout_a

    @property
    def atom_tv_layout_B(self) -> Layout:
        return self.row.layout_b

    @property
    def atom_tv_layout_C(self) -> Layout:
        return self.row.layout_c

    def set(self, field: Any, value: Any) -> None:
        """Sets a field of the instruction; ACCUMULATE takes a bool, also a run-time one."""
        self._check_field(field, "set")
        if not is_number(value):
            raise TypeMismatchError(
                f"set(ACCUMULATE): expected a Boolean, got {describe(value)}", loc=trace.loc()
            )
        known = static_int(value)
        self.accumulate = value if known is None else bool(known)

    def get(self, field: Any) -> Any:
        """The value of a field."""
        self._check_field(field, "get")
        return self.accumulate

    def _check_field(self, field: Any, what: str) -> None:
        if self.row.kind != "wgmma" or getattr(field, "value", None) != "accumulate":
            raise TypeMismatchError(
                f"{what}: {self.row.name} has no field {describe(field)}",
                loc=trace.loc(),
                hint="warpgroup.Field.ACCUMULATE is a field of warpgroup MMAs; others add c",
            )

    def __str__(self) -> str:
        return f"MmaAtom({self.row.name})"

    __repr__ = __str__


def check_target(row: arch_mma.MmaAtom | arch_copy.CopyAtom) -> None:
    """Raises: TargetError at the user's line if the chosen target lacks the instruction."""
    active = trace.current()
    target = None if active is None else active.target
    if isinstance(target, Target) and not row.available_on(target):
        row.check_target(target)


@located
def make_copy_atom(op: Any, copy_internal_type: Any, *, num_bits_per_copy: int = 0) -> CopyAtom:
    """The instruction `op` for elements of a type; plain copies take their width in bits.

    Raises: TypeMismatchError if `op` is no copy operation; LayoutError for widths it does not have.
    """
    if not hasattr(op, "row") or hasattr(op, "shape_mnk") or hasattr(op, "abacc_dtype"):
        raise TypeMismatchError(
            f"make_copy_atom: expected a copy operation such as nvgpu.CopyUniversalOp(), "
            f"got {describe(op)}",
            loc=trace.loc(),
        )
    dtype = row_of(copy_internal_type)
    row = op.row(dtype, num_bits_per_copy)
    if row.is_bulk and row.kind != "bulk":
        raise TypeMismatchError(
            f"make_copy_atom: {type(op).__name__} needs a descriptor",
            loc=trace.loc(),
            hint="use cpasync.make_tiled_tma_atom in the @jit function",
        )
    check_target(row)
    return CopyAtom(op, row, dtype)


@located
def make_mma_atom(op: Any) -> MmaAtom:
    """The matrix instruction `op`.

    Raises: TypeMismatchError if `op` is no matrix operation.
    """
    if isinstance(op, MmaAtom):
        return op
    if not hasattr(op, "row") or not (hasattr(op, "shape_mnk") or hasattr(op, "abacc_dtype")):
        raise TypeMismatchError(
            f"make_mma_atom: expected an MMA operation such as warp.MmaF16BF16Op(..), "
            f"got {describe(op)}",
            loc=trace.loc(),
        )
    row = op.row()
    check_target(row)
    return MmaAtom(op, row)
