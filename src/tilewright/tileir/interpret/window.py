"""Where the tiles of a view lie in its tensor: arithmetic on shapes, without memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.ir.tile_types import (
    GatherScatterViewType,
    PartitionViewType,
    StridedViewType,
    ViewType,
)
from tilewright.numeric.convert import storage_dtype
from tilewright.numeric.dtypes import DType
from tilewright.tileir.interpret.access import from_memory
from tilewright.tileir.interpret.memory import Array
from tilewright.tileir.interpret.values import carrier


@dataclass(frozen=True, slots=True)
class Window:
    """The geometry of a view type.

    Units: elements.  Tile dimension i runs along tensor dimension `along[i]`; tiles begin
    `steps[i]` apart.  `sparse` is the tile dimension whose positions are given one by one, or -1.
    """

    tile: tuple[int, ...]
    steps: tuple[int, ...]
    along: tuple[int, ...]
    sparse: int = -1

    @property
    def order(self) -> tuple[int, ...] | None:
        """The tensor's dimensions in the tile's order; None if they are in order."""
        return None if self.along == tuple(range(len(self.along))) else self.along

    def extents(self, shape: Sequence[int]) -> list[int]:
        """The tensor's extents along the tile's dimensions."""
        return [shape[d] for d in self.along]

    def counts(self, shape: Sequence[int]) -> list[int]:
        """The index space: how many tiles begin inside the tensor."""
        return [-(-n // step) for n, step in zip(self.extents(shape), self.steps, strict=True)]

    def within(self, dim: int, at: Any, extent: int) -> bool:
        """Whether all of the tile's elements along one dimension are inside the tensor."""
        if dim == self.sparse:
            return bool(((at >= 0) & (at < extent)).all())
        return bool(at >= 0 and at + self.tile[dim] <= extent)

    def slices(self, shape: Sequence[int], at: Sequence[int]) -> tuple[slice, ...] | None:
        """The tile as slices of the tensor, in the tensor's order; None if part of it is outside.

        >>> Window((2, 4), (2, 4), (1, 0)).slices((8, 8), [2, 4])
        (slice(4, 8, None), slice(2, 4, None))
        """
        if self.along == _IN_ORDER[len(self.along)]:
            found = []
            for start, size, extent in zip(at, self.tile, shape, strict=False):
                end = start + size
                if start < 0 or end > extent:
                    return None
                found.append(slice(start, end))
            return tuple(found)
        placed: list[slice] = [slice(0)] * len(self.tile)
        for start, size, dim in zip(at, self.tile, self.along, strict=True):
            if start < 0 or start + size > shape[dim]:
                return None
            placed[dim] = slice(start, start + size)
        return tuple(placed)

    def clipped(self, tensor: Array, at: Sequence[int], fill: Any, row: DType) -> Array:
        """The tile that begins at `at`; `fill` where it is outside the tensor."""
        tile = tensor.transpose(self.along)
        source, target = [], []
        for start, size, extent in zip(at, self.tile, tile.shape, strict=True):
            low, high = max(start, 0), min(start + size, extent)
            source.append(slice(low, max(low, high)))
            target.append(slice(low - start, max(low, high) - start))
        out = np.full(self.tile, fill, storage_dtype(row))
        out[tuple(target)] = from_memory(tile[tuple(source)], row)
        return out

    def addresses(
        self,
        base: int,
        shape: Sequence[int],
        strides: Sequence[int],
        at: Sequence[Any],
        row: DType,
    ) -> tuple[Array, Array]:
        """The address of each element of a tile, and a mask of those inside the tensor.

        Units: addresses in bytes, or in elements of 4-bit types (base * 2 is the first one's).
        """
        size = 1 if row.bits == 4 else carrier(row).itemsize
        addresses = np.full(self.tile, base * 2 if row.bits == 4 else base, np.int64)
        mask = np.ones(self.tile, np.bool_)
        rank = len(self.tile)
        for i, (where, n, dim) in enumerate(zip(at, self.tile, self.along, strict=True)):
            positions = where if i == self.sparse else where + np.arange(n, dtype=np.int64)
            box = tuple(n if j == i else 1 for j in range(rank))
            addresses += (positions * (strides[dim] * size)).reshape(box)
            mask &= ((positions >= 0) & (positions < shape[dim])).reshape(box)
        return addresses, mask


_IN_ORDER = [tuple(range(rank)) for rank in range(32)]


def window_of(t: ViewType) -> Window:
    """The geometry of a view type."""
    if isinstance(t, PartitionViewType):
        return Window(t.tile, t.tile, t.dim_map)
    if isinstance(t, StridedViewType):
        return Window(t.tile, t.steps, t.dim_map)
    assert isinstance(t, GatherScatterViewType), f"a view is one of three kinds, got {t}"
    ones = (1,) * len(t.tile)
    return Window(t.tile, ones, tuple(range(len(t.tile))), t.sparse_dim)
