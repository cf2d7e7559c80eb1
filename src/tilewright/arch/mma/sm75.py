"""`mma.sync` of sm_75: half-precision 16x8x8 and 8-bit 8x8x16, the fragments of sm_80."""

from __future__ import annotations

from functools import cache

from tilewright.arch.mma.atom import MmaAtom
from tilewright.arch.mma.sm80 import warp_atom
from tilewright.numeric.dtypes import F16, F32, I8, I32


@cache
def sm75_atoms() -> tuple[MmaAtom, ...]:
    """The same instructions exist under sm_80 names; these are CuTe's names for them."""
    return (
        warp_atom((16, 8, 8), F32, F16, F16, 75, requires="mma"),
        warp_atom((16, 8, 8), F16, F16, F16, 75, requires="mma"),
        warp_atom((8, 8, 16), I32, I8, I8, 75, requires="mma"),
    )
