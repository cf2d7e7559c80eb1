"""AMD's `v_mfma` (CDNA3): a wave of 64 lanes, as proof that a row is all that an atom needs.

Lane `l` holds row ``l % M`` of A, and four neighbours in K from ``4 * (l // M)``; B alike.  The
result has a column per lane: 16x16 gives lane `l` rows ``4*(l//16) .. +3`` of column ``l % 16``;
32x32 gives it, of column ``l % 32``, four rows of every eight, from ``4 * (l // 32)``.
The first row below is `v_mfma_f32_32x32x8_f16`, the second `v_mfma_f32_16x16x16_f16`.
Source: AMD Instinct MI300 ISA, "Matrix Arithmetic Instructions"; AMD matrix instruction calculator.
"""

from __future__ import annotations

from functools import cache

from tilewright.arch.mma.atom import MmaAtom
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import F16, F32

_WAVE = 64
_PER_LANE = 4
"""Elements of A, of B, and rows of D, that are neighbours in one lane."""


def _row(mn: int) -> MmaAtom:
    groups = _WAVE // mn  # lanes that share a row of A, or a column of D
    k = groups * _PER_LANE
    factor = Layout(((mn, groups), _PER_LANE), ((1, _PER_LANE * mn), mn))
    blocks = mn // (groups * _PER_LANE)
    lanes, lane_strides = (mn, groups), (mn, _PER_LANE)
    result = (
        Layout((lanes, _PER_LANE), (lane_strides, 1))
        if blocks == 1
        else Layout((lanes, (_PER_LANE, blocks)), (lane_strides, (1, groups * _PER_LANE)))
    )
    return MmaAtom(
        name=f"CDNA3_{mn}x{mn}x{k}_F32F16F16F32",
        kind="mfma",
        shape_mnk=(mn, mn, k),
        d_type=F32,
        a_type=F16,
        b_type=F16,
        c_type=F32,
        thr_id=Layout(_WAVE, 1),
        layout_a=factor,
        layout_b=factor,
        layout_c=result,
        min_arch=0,
    )


@cache
def cdna3_atoms() -> tuple[MmaAtom, ...]:
    """32x32x8 and 16x16x16, half precision into single."""
    return _row(32), _row(16)
