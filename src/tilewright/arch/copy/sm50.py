"""Shuffles (sm_50): lanes that differ in one bit of their number swap halves of their registers.

Each lane has two 32-bit registers.  After the copy, of every pair of lanes ``l`` and ``l + x``
(`x` a power of two) the first has register 0 of both, and the second register 1 of both: a 2x2
transposition.  Source: PTX ISA, `shfl.sync`; CuTe's ``Shuffle_U32_2x2Trans``.
"""

from __future__ import annotations

from functools import cache

from tilewright.arch.copy.atom import CopyAtom
from tilewright.layout.layout import Layout

_REGISTER = 32
_LANES = 32
_PER_LANE = 2 * _REGISTER


def _row(x: int) -> CopyAtom:
    source = Layout((_LANES, _PER_LANE), (_PER_LANE, 1))
    lanes = [(x, _PER_LANE), (2, _REGISTER), (_LANES // (2 * x), 2 * x * _PER_LANE)]
    kept = [mode for mode in lanes if mode[0] > 1]
    shape, stride = (tuple(mode[i] for mode in kept) for i in (0, 1))
    return CopyAtom(
        name=f"SM50_Shuffle_U32_2x2Trans_XOR{x}",
        kind="shuffle",
        thr_id=Layout(_LANES, 1),
        src_layout=source,
        dst_layout=Layout((shape, (_REGISTER, 2)), (stride, (1, x * _PER_LANE))),
        ref_layout=source,
        access_bits=_REGISTER,
        min_arch=50,
        ptx="",
    )


@cache
def shuffle_copies() -> tuple[CopyAtom, ...]:
    """Between neighbours, and between lanes four apart."""
    return _row(1), _row(4)
