"""`dp4a` and `dp2a` (sm_61): one thread adds a dot product of packed integers to an integer.

D = C + sum_k A[k] * B[k] over the four bytes, or the two halves, of a 32-bit register.  (The
hardware's dp2a takes B from two of four bytes; CuTe's row, and so ours, calls them halves.)
Source: PTX ISA, `dp4a`, `dp2a`.
"""

from __future__ import annotations

from functools import cache

from tilewright.arch.mma.atom import MmaAtom
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import I8, I16, I32, DType


def _row(k: int, packed: DType) -> MmaAtom:
    vector = Layout((1, k), (0, 1))
    return MmaAtom(
        name=f"SM61_DP{k}A",
        kind="dot",
        shape_mnk=(1, 1, k),
        d_type=I32,
        a_type=packed,
        b_type=packed,
        c_type=I32,
        thr_id=Layout(1, 0),
        layout_a=vector,
        layout_b=vector,
        layout_c=Layout((1, 1), (0, 0)),
        min_arch=61,
    )


@cache
def sm61_atoms() -> tuple[MmaAtom, ...]:
    """DP4A and DP2A."""
    return _row(4, I8), _row(2, I16)
