"""Asynchronous copies: `cp.async`, and TMA (`cp.async.bulk.tensor`)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.registry import find_copy_atom
from tilewright.errors import LayoutError
from tilewright.lang import trace
from tilewright.lang.cute.tma import make_tiled_tma_atom, prefetch_descriptor, tma_partition
from tilewright.numeric.dtypes import DType

__all__ = [
    "CopyBulkTensorTileG2SMulticastOp",
    "CopyBulkTensorTileG2SOp",
    "CopyBulkTensorTileS2GOp",
    "CopyG2SOp",
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
