"""The epilogue that needs nothing: registers to global memory, each thread its own elements.

Any element type, any layout, any alignment of D.  What a thread has of neighbours in memory is
stored in one access, as wide as D's alignment allows; the tensors of the fusion are loaded alike.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.collective.epilogue.fusion import Fusion, in_order, neighbours
from tilewright.lang import cute
from tilewright.lang.ranges import range_constexpr
from tilewright.layout.int_tuple import flatten_tuple


class DirectStore:
    """Stores a thread's accumulators of a `tile` (rows, columns) of D (M,N,L).

    `thr_mma` says which elements the thread has.
    """

    def __init__(self, thr_mma: Any, mD: Any, fusion: Fusion, tile: tuple[int, int]) -> None:
        self.thr_mma, self.mD, self.fusion, self.shape = thr_mma, mD, fusion, tile

    @cute.jit
    def tile(self, acc: Any, tile_m: Any, tile_n: Any, batch: Any) -> None:
        """Stores the accumulators of tile (tile_m, tile_n) of a batch."""
        place, inside = (tile_m, tile_n, batch), self.mD.shape[:2]
        part = self.thr_mma.partition_C(cute.local_tile(self.mD, self.shape, place))
        order = store_order(part, self.thr_mma.partition_C(cute.make_identity_tensor(self.shape)))
        own, values = in_order(part, order), in_order(acc, order)
        fused = self.fusion.tile(self.thr_mma, self.shape, place, inside, order)
        width = neighbours(own, cute.size(values))
        step = max(width, 2)
        for i in range_constexpr(0, cute.size(values), step):
            out = fused.apply(cute.local_tile(values, (step,), (i // step,)).load(), i)
            self.store(out.to(self.mD.element_type), own, fused.coords, i, width)

    @cute.jit
    def store(self, out: Any, own: Any, coords: Any, first: Any, width: Any) -> None:
        """Stores what lies inside of D: all of `out` in one access, or one by one."""
        inside, count = self.mD.shape[:2], cute.size(out.shape)
        if width == count:
            # Neighbours lie along one index: if the last one is inside, all are.
            if cute.elem_less(coords[first + count - 1], inside):
                cute.local_tile(own, (count,), (first // count,)).store(out)
            else:
                for x in range_constexpr(count - 1):
                    if cute.elem_less(coords[first + x], inside):
                        own[first + x] = out[x]
        else:
            for x in range_constexpr(count):
                if cute.elem_less(coords[first + x], inside):
                    own[first + x] = out[x]

    def finish(self) -> None:
        """Nothing is left to wait for."""


def store_order(part: Any, coords: Any) -> Any:
    """The order in which a thread's elements are stored; None is their own order.

    Neighbours in memory follow each other: the leaf of the layout that has stride 1 comes first.
    Then come the rows, then the columns, so that what a column needs is not held for later rows.

    >>> own = cute.make_layout((2, 4), stride=(8, 1))
    >>> print(store_order(own, cute.make_identity_tensor((2, 4))))
    ((4,2),):((2,1),)
    """
    layout = getattr(part, "layout", part)
    shape, stride = flatten_tuple(layout.shape), flatten_tuple(layout.stride)
    own = [i for i, n in enumerate(shape) if n > 1]
    axes = {i: flatten_tuple(coords.layout.stride)[i].path[0] for i in own}
    first = next((i for i in own if type(stride[i]) is int and stride[i] == 1), None)
    leaves = sorted(own, key=lambda i: (i != first, axes[i]))
    if leaves == own:
        return None
    steps = [math.prod(shape[:i]) for i in leaves]
    return cute.make_layout((tuple(shape[i] for i in leaves),), stride=(tuple(steps),))
