"""Whether two arrays, or two elements of one, share memory: on addresses alone, nothing is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.arrays import ArrayView

_shares: Any = np.shares_memory
"""Exact, by bounded search.  NumPy's own annotation knows fewer bounds than its code."""
WORK = 100_000
"""Steps that an exact answer may take; where they do not suffice, arrays count as overlapping."""


def overlaps(x: ArrayView, y: ArrayView) -> bool:
    """Whether some byte belongs to both.  Columns of one matrix may interleave without sharing.

    >>> from tilewright.runtime.arrays import as_array
    >>> whole = np.zeros((4, 8), np.float16)
    >>> left, right, rows = (as_array(v) for v in (whole[:, :4], whole[:, 4:], whole[1:2]))
    >>> overlaps(left, right), overlaps(left, rows)
    (False, True)
    """
    if not x.size or not y.size or x.device != y.device:
        return False
    (x_low, x_high), (y_low, y_high) = _span(x), _span(y)
    if x_high <= y_low or y_high <= x_low:
        return False
    try:
        return bool(_shares(_addresses(x), _addresses(y), max_work=WORK))
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(view: ArrayView) -> bool:
    """Whether a step along one mode may land where the smaller steps already are.

    >>> from tilewright.runtime.arrays import as_array
    >>> rows = np.lib.stride_tricks.as_strided(np.zeros(32, np.float16), (4, 8), (8, 2))
    >>> overlaps_itself(as_array(rows)), overlaps_itself(as_array(np.zeros((4, 8)).T))
    (True, False)
    """
    reached = 0
    modes = zip(view.strides, view.shape, strict=True)
    for stride, extent in sorted((abs(s), n) for s, n in modes if n > 1):
        if view.size and stride <= reached:
            return True
        reached += stride * (extent - 1)
    return False


def _span(view: ArrayView) -> tuple[int, int]:
    """The first byte of all, and the one behind the last."""
    low = high = 0
    for stride, extent in zip(view.strides, view.shape, strict=True):
        reach = stride * (extent - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    bits = view.element_bits
    return view.pointer + low * bits // 8, view.pointer - -(high + 1) * bits // 8


class _Addresses:
    """An array in NumPy's terms whose elements nobody reads: it may lie on a GPU."""

    def __init__(self, view: ArrayView) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{max(view.element_bits // 8, 1)}",
            "shape": view.shape,
            "strides": view.strides_bytes,
            "data": (view.pointer, True),
        }


def _addresses(view: ArrayView) -> np.ndarray[Any, np.dtype[Any]]:
    return np.asarray(_Addresses(view))
