"""Asynchronous copies: `cp.async`, and TMA (`cp.async.bulk.tensor`)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.registry import copy_atom, find_copy_atom
from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.ops.bulk import REDUCIBLE
from tilewright.lang import trace
from tilewright.lang.cute.tensor_ssa import ReductionOp
from tilewright.lang.cute.tma import make_tiled_tma_atom, prefetch_descriptor, tma_partition
from tilewright.numeric.dtypes import DType

__all__ = [
    "CopyBulkG2SMulticastOp",
    "CopyBulkG2SOp",
    "CopyBulkS2GOp",
    "CopyBulkS2SOp",
    "CopyBulkTensorTileG2SMulticastOp",
    "CopyBulkTensorTileG2SOp",
    "CopyBulkTensorTileS2GOp",
    "CopyDsmemStoreOp",
    "CopyG2SOp",
    "CopyReduceBulkS2GOp",
    "CopyReduceBulkTensorTileS2GOp",
    "CtaGroup",
    "LoadCacheMode",
    "make_tiled_tma_atom",
    "prefetch_descriptor",
    "tma_partition",
]


class LoadCacheMode(enum.Enum):
    """Which caches a load goes through."""

    ALWAYS = "ca"
    GLOBAL = "cg"
    STREAMING = "cs"
    LAST_USE = "lu"
    NONE = "cv"


class CtaGroup(enum.Enum):
    """How many blocks issue an instruction together."""

    ONE = 1
    TWO = 2


@dataclass(frozen=True)
class CopyG2SOp:
    """`cp.async`: 4, 8 or 16 bytes from global to shared memory by one thread.

    Where the predicate of a copy is false, zeros are written.
    """

    cache_mode: LoadCacheMode = LoadCacheMode.ALWAYS

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        """Raises: LayoutError if there is no such width, or not through these caches."""
        width = bits or max(dtype.storage_bits, 32)
        fits = (128,) if self.cache_mode is LoadCacheMode.GLOBAL else (32, 64, 128)
        if width not in fits or self.cache_mode not in (LoadCacheMode.ALWAYS, LoadCacheMode.GLOBAL):
            raise LayoutError(
                f"CopyG2SOp: cp.async with LoadCacheMode.{self.cache_mode.name} copies "
                f"{' or '.join(map(str, fits))} bits, not {width}",
                loc=trace.loc(),
                hint="LoadCacheMode.ALWAYS takes 32, 64 and 128 bits, GLOBAL only 128",
            )
        return find_copy_atom("cp_async", bits=width, cache=self.cache_mode.value)


@dataclass(frozen=True)
class CopyBulkTensorTileG2SOp:
    """TMA: a box of a tensor into shared memory."""

    cta_group: Any = CtaGroup.ONE

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        return find_copy_atom("tma_load").sized(bits or dtype.storage_bits)


@dataclass(frozen=True)
class CopyBulkTensorTileG2SMulticastOp:
    """TMA: a box of a tensor into the shared memory of several blocks of the cluster."""

    cta_group: Any = CtaGroup.ONE

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        return find_copy_atom("tma_load", multicast=True).sized(bits or dtype.storage_bits)


@dataclass(frozen=True)
class CopyBulkTensorTileS2GOp:
    """TMA: a box from shared memory into a tensor."""

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        return find_copy_atom("tma_store").sized(bits or dtype.storage_bits)


def _check_reduction(what: str, kind: Any, dtype: DType) -> str:
    """The reduction's name.

    Raises: TypeMismatchError for what is no reduction into memory, or not of that type.
    """
    name = kind.value if isinstance(kind, ReductionOp) else str(kind)
    known = REDUCIBLE.get(name)
    if known is None:
        raise TypeMismatchError(
            f"{what}: expected a reduction into memory ({', '.join(REDUCIBLE)}), got {kind}",
            loc=trace.loc(),
        )
    if dtype.name not in known:
        raise TypeMismatchError(
            f"{what}: {name} reduces {' '.join(known)}, not {dtype.name}", loc=trace.loc()
        )
    return name.upper()


@dataclass(frozen=True)
class CopyReduceBulkTensorTileS2GOp:
    """TMA: a box from shared memory is reduced into a tensor, element by element.

    Each element is updated atomically; the order of several updates is not determined.
    """

    reduction_kind: Any = ReductionOp.ADD

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        """Raises: TypeMismatchError if elements of that type cannot be reduced so."""
        kind = _check_reduction("CopyReduceBulkTensorTileS2GOp", self.reduction_kind, dtype)
        return copy_atom(f"SM90_TMA_REDUCE_{kind}").sized(bits or dtype.storage_bits)


@dataclass(frozen=True)
class CopyBulkG2SOp:
    """`cp.async.bulk`: contiguous bytes of global memory into shared memory.

    `cute.copy(atom, src, dst, mbar_ptr=..)`; without `num_bits_per_copy` each instruction takes
    all that lies in a row on both sides.
    """

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        return copy_atom("SM90_BULK_COPY_G2S").sized(bits or dtype.storage_bits)


@dataclass(frozen=True)
class CopyBulkG2SMulticastOp:
    """`CopyBulkG2SOp` into several blocks of the cluster: `cute.copy(.., mcast_mask=..)`."""

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        return copy_atom("SM90_BULK_COPY_G2S_MULTICAST").sized(bits or dtype.storage_bits)


@dataclass(frozen=True)
class CopyBulkS2GOp:
    """`cp.async.bulk`: contiguous bytes of shared memory into global memory, by bulk groups."""

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        return copy_atom("SM90_BULK_COPY_S2G").sized(bits or dtype.storage_bits)


@dataclass(frozen=True)
class CopyBulkS2SOp:
    """`cp.async.bulk`: contiguous bytes of shared memory into that of another block.

    The destination and the mbarrier are of the block that receives (`cute.arch.map_dsmem_ptr`).
    """

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        return copy_atom("SM90_BULK_COPY_S2S").sized(bits or dtype.storage_bits)


@dataclass(frozen=True)
class CopyReduceBulkS2GOp:
    """`cp.reduce.async.bulk`: contiguous elements of shared memory are reduced into global ones.

    Like `CopyReduceBulkTensorTileS2GOp`, without a descriptor.
    """

    reduction_kind: Any = ReductionOp.ADD

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        """Raises: TypeMismatchError if elements of that type cannot be reduced so."""
        kind = _check_reduction("CopyReduceBulkS2GOp", self.reduction_kind, dtype)
        return copy_atom(f"SM90_BULK_REDUCE_{kind}").sized(bits or dtype.storage_bits)


@dataclass(frozen=True)
class CopyDsmemStoreOp:
    """`st.async`: registers of each thread into the shared memory of another block.

    4, 8 or 16 bytes per instruction (`num_bits_per_copy`); the receiver's mbarrier counts them.
    """

    def row(self, dtype: DType, bits: int) -> CopyAtom:
        """Raises: LayoutError for other widths."""
        width = bits or max(dtype.storage_bits, 32)
        if width not in (32, 64, 128):
            raise LayoutError(
                f"CopyDsmemStoreOp: an asynchronous store has 32, 64 or 128 bits, not {width}",
                loc=trace.loc(),
            )
        return copy_atom(f"SM90_ST_ASYNC_{width}b")
