"""The epilogue that needs nothing: registers to global memory, each thread its own elements.

Any element type, any layout, any alignment of D.  What a thread has of neighbours in memory is
stored in one access, as wide as D's alignment allows; the tensors of the fusion are loaded alike.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.collective.epilogue.fusion import Fusion, in_order, may_be_cut, neighbours
from tilewright.lang import cute
from tilewright.lang.ranges import range_constexpr
from tilewright.layout.int_tuple import flatten_tuple

STEP = 8
"""Elements of a thread that are computed together where tensors are loaded."""


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
        count = cute.size(values)
        width = neighbours(own, count)
        # More at a time where tensors are loaded: what a column has in common is loaded once.
        step = math.gcd(max(width, STEP if len(fused.parts) > 0 else 2), count)
        together = width if width > 1 else step
        for i in range_constexpr(0, count, step):
            out = fused.apply(cute.local_tile(values, (step,), (i // step,)).load(), i)
            out = out.reshape((together, step // together))
            for x in range_constexpr(step // together):
                at = i + x * together
                self.store(out[None, x].to(self.mD.element_type), own, fused.coords, at, width)

    @cute.jit
    def store(self, out: Any, own: Any, coords: Any, first: Any, width: Any) -> None:
        """Stores what lies inside of D: all of `out` in one access, or one by one."""
        inside, count = self.mD.shape[:2], cute.size(out.shape)
        if width == count:
            # Neighbours lie along one index: if the last one is inside, all are.
            whole = cute.elem_less(coords[first + count - 1], inside)
            if whole:
                cute.local_tile(own, (count,), (first // count,)).store(out)
            for x in range_constexpr(may_be_cut(coords, inside, count)):
                if not whole and cute.elem_less(coords[first + x], inside):
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
    layout, places = (getattr(x, "layout", x) for x in (part, coords))
    shape, stride, axis = map(flatten_tuple, (layout.shape, layout.stride, places.stride))
    own = [i for i, n in enumerate(shape) if n > 1]
    first = next((i for i in own if type(stride[i]) is int and stride[i] == 1), None)
    leaves = sorted(own, key=lambda i: (i != first, axis[i].path[0]))
    if leaves == own:
        return None
    steps = [math.prod(shape[:i]) for i in leaves]
    return cute.make_layout((tuple(shape[i] for i in leaves),), stride=(tuple(steps),))
