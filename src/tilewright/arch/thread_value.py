"""Thread-value layouts: ``(thread, value) -> coordinate``, what an atom says of one operand.

A coordinate is a colexicographic index into the operand's matrix: ``row + column * rows`` for
matrices, a bit number for copies.  These are the laws that every row of `mma` and `copy` obeys,
and the tables that the simulator and the pictures read.
"""

from __future__ import annotations

import math
from functools import lru_cache

from tilewright.layout.int_tuple import IntTuple, flatten_tuple
from tilewright.layout.layout import Layout


@lru_cache(maxsize=4096)
def mode_offsets(shape: IntTuple, stride: IntTuple) -> tuple[int, ...]:
    """The offsets of ``shape:stride`` in colexicographic order.

    >>> mode_offsets((2, (2, 2)), (8, (1, 4)))
    (0, 8, 1, 9, 4, 12, 5, 13)
    """
    if not isinstance(shape, tuple):
        return tuple(range(0, shape * stride, stride)) if stride else (0,) * shape
    out: tuple[int, ...] = (0,)
    for s, d in zip(shape, stride, strict=True):
        out = tuple(o + p for p in mode_offsets(s, d) for o in out)
    return out


@lru_cache(maxsize=1024)
def tv_table(layout: Layout) -> tuple[tuple[int, ...], ...]:
    """``table[thread][value]``: the coordinate that `thread` holds as its `value`.

    >>> tv_table(Layout((2, (2, 2)), (1, (2, 4))))
    ((0, 2, 4, 6), (1, 3, 5, 7))
    """
    (threads, values), (thread_stride, value_stride) = layout.shape, layout.stride
    row = mode_offsets(values, value_stride)
    shifted = {0: row}
    table = []
    for start in mode_offsets(threads, thread_stride):
        if start not in shifted:
            shifted[start] = tuple(start + v for v in row)
        table.append(shifted[start])
    return tuple(table)


def is_compact(shape: IntTuple, stride: IntTuple, size: int) -> bool:
    """True iff ``shape:stride`` takes every offset of [0, size) exactly once.

    Sorted by stride, each mode must begin where those before it end; no other set of modes with
    positive strides tiles an interval (de Bruijn, "On number systems", 1956).

    >>> is_compact((4, 2), (2, 1), 8), is_compact((4, 2), (1, 2), 8)
    (True, False)
    """
    pairs = zip(flatten_tuple(stride), flatten_tuple(shape), strict=True)
    reach = 1
    for step, extent in sorted((d, s) for d, s in pairs if s != 1):
        if step != reach:
            return False
        reach = step * extent
    return reach == size


def is_broadcast(layout: Layout) -> bool:
    """True iff all threads hold the same values: the thread mode has stride 0."""
    return all(d == 0 for d in flatten_tuple(layout.stride[0]))


def num_threads(layout: Layout) -> int:
    """Extent of the thread mode."""
    return math.prod(flatten_tuple(layout.shape[0]))


def num_values(layout: Layout) -> int:
    """Extent of the value mode."""
    return math.prod(flatten_tuple(layout.shape[1]))
