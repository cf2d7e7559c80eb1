"""`mma.m8n8k4` (sm_70): each *quad pair* of a warp multiplies 8x4 by 4x8 for itself.

Quad pair `q` is the lanes ``4*q .. 4*q + 3`` and ``4*q + 16 .. 4*q + 19``: `thr_id` says it for
q = 0.  Thread `t` of the eight holds row `t` of a K-major factor; of a factor that is contiguous in
M or N it holds column ``t % 4``, four rows from ``4 * (t // 4)``.  Half-precision results are
row `t` of D.  A 32-bit result is spread wider: bits 0, 1, 2 of `t` add 1 row, 2 columns, 4 rows;
bits 0, 1, 2 of the value number add 1 column, 2 rows, 4 columns.
Source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type".
"""

from __future__ import annotations

from functools import cache

from tilewright.arch.mma.atom import Major, MmaAtom
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import F16, F32, DType

_QUAD_PAIR = Layout((4, 2), (1, 16))
_FACTOR: dict[Major, Layout] = {
    "K": Layout((8, 4), (1, 8)),
    "MN": Layout(((4, 2), 4), ((8, 4), 1)),
}
_RESULT = {
    F16: Layout((8, 8), (1, 8)),
    F32: Layout(((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32))),
}
# BLAS letters: T says that A is row-major, N that B is column-major; both mean K-major.
_A_LETTERS: dict[str, Major] = {"T": "K", "N": "MN"}
_B_LETTERS: dict[str, Major] = {"N": "K", "T": "MN"}


def _row(d: DType, a_letter: str, b_letter: str) -> MmaAtom:
    a_major, b_major = _A_LETTERS[a_letter], _B_LETTERS[b_letter]
    types = f"{d.name}f16f16{d.name}".upper()
    return MmaAtom(
        name=f"SM70_8x8x4_{types}_{a_letter}{b_letter}",
        kind="quad_pair",
        shape_mnk=(8, 8, 4),
        d_type=d,
        a_type=F16,
        b_type=F16,
        c_type=d,
        thr_id=_QUAD_PAIR,
        layout_a=_FACTOR[a_major],
        layout_b=_FACTOR[b_major],
        layout_c=_RESULT[d],
        min_arch=70,
        a_major=a_major,
        b_major=b_major,
    )


@cache
def sm70_atoms() -> tuple[MmaAtom, ...]:
    """Both results, in all four combinations of majors."""
    return tuple(_row(d, a, b) for d in (F32, F16) for a in "TN" for b in "NT")
