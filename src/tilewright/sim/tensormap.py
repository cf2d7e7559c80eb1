"""The fields of a TMA descriptor, as the hardware is given them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory and the box that one TMA instruction moves.

    Units:  `base` is a virtual address; `dims` (innermost first) and `box` count elements;
            `strides` are bytes, of the dimensions from 1 on.  `l2_promotion` (bytes, 0 for none)
            is for the GPU: the simulator has no caches.
    """

    dtype: str
    base: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str = "none"
    oob_nan: bool = False
    l2_promotion: int = 0
