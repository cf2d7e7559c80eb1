"""The epilogue that needs nothing: registers to global memory, each thread its own elements.

Any element type, any layout, any alignment of D; neighbours are stored two at a time where the
layout allows.
"""

from __future__ import annotations

from typing import Any

from tilewright.collective.epilogue.fusion import Fusion, in_order
from tilewright.lang import cute
from tilewright.lang.ranges import range_constexpr


class DirectStore:
    """Stores a thread's accumulators of a `tile` (rows, columns) of D (M,N,L).

    `thr_mma` says which elements the thread has.
    """

    def __init__(self, thr_mma: Any, mD: Any, fusion: Fusion, tile: tuple[int, int]) -> None:
        self.thr_mma, self.mD, self.fusion, self.shape = thr_mma, mD, fusion, tile

    @cute.jit
    def tile(self, acc: Any, tile_m: Any, tile_n: Any, batch: Any) -> None:
        """Stores the accumulators of tile (tile_m, tile_n) of a batch."""
        gD = cute.local_tile(self.mD, self.shape, (tile_m, tile_n, batch))  # (ROWS, COLUMNS)
        own, values = in_order(self.thr_mma.partition_C(gD)), in_order(acc)
        inside = self.mD.shape[:2]
        fused = self.fusion.tile(self.thr_mma, self.shape, (tile_m, tile_n, batch), inside)
        coords = fused.coords
        for i in range_constexpr(0, cute.size(values), 2):
            out = fused.apply(cute.local_tile(values, (2,), (i // 2,)).load(), i)
            if cute.elem_less(coords[i + 1], inside):
                pair = cute.local_tile(own, (2,), (i // 2,))
                pair.store(out.to(self.mD.element_type))
            elif cute.elem_less(coords[i], inside):
                own[i] = out[0].to(self.mD.element_type)

    def finish(self) -> None:
        """Nothing is left to wait for."""
