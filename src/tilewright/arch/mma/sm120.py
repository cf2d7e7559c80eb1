"""`mma.sync` of sm_120: 8-, 6- and 4-bit floats, block scales, and 2:4 sparsity.

The f8f6f4 form takes any two of five formats in 8-bit containers; the mxf4 form packs two 4-bit
floats to a byte.  A scale covers ``K / x`` elements, where ``x`` = 1, 2 or 4 is the instruction's
``scale_vec``.  A sparse A stores half of its values, so its fragment is that of a type of half the
width.  Scales and sparsity metadata travel in registers of their own, which rows do not describe.
Source: PTX ISA, `mma` (kinds f8f6f4, mxf8f6f4, mxf4nvf4) and `mma.sp`.
"""

from __future__ import annotations

from functools import cache

from tilewright.arch.element import E2M3, E3M2, UE4M3, Element
from tilewright.arch.mma.atom import MmaAtom
from tilewright.arch.mma.sm80 import accumulator, fragment, ptx_type
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import E2M1, E4M3, E5M2, E8M0, F16, F32

F8F6F4_TYPES: tuple[Element, ...] = (E4M3, E5M2, E3M2, E2M3, E2M1)
_PAIRS = [(a, b) for a in F8F6F4_TYPES for b in F8F6F4_TYPES]


def _row(
    container: int,
    d: Element,
    a: Element,
    b: Element,
    sparsity: int,
    scale: tuple[int, Element] | None = None,
) -> MmaAtom:
    """One form; `container` is the bits in which a value travels, `scale` (scale_vec, type)."""
    m, n, k = 16, 8, 256 // container * sparsity
    name = f"SM120_{'SPARSE_' if sparsity > 1 else ''}{m}x{n}x{k}_"
    name += "".join(ptx_type(t).upper() for t in (d, a, b, d)) + "_TN"
    vector = k // scale[0] if scale else 0
    if scale:
        name += f"_VS{vector}_{scale[1].name.upper()}"
    return MmaAtom(
        name=name,
        kind="mma",
        shape_mnk=(m, n, k),
        d_type=d,
        a_type=a,
        b_type=b,
        c_type=d,
        thr_id=Layout(32, 1),
        layout_a=fragment(m, k, container // sparsity),
        layout_b=fragment(n, k, container),
        layout_c=accumulator(m, n),
        min_arch=120,
        bits=(d.bits, container // sparsity, container, d.bits),
        sparsity=sparsity,
        scale_vector=vector,
        scale_type=scale[1] if scale else None,
    )


@cache
def sm120_atoms() -> tuple[MmaAtom, ...]:
    """Dense and sparse: f8f6f4, mxf8f6f4, mxf4 and nvf4."""
    rows = []
    for sparsity in (1, 2):
        rows += [_row(8, d, a, b, sparsity) for d in (F32, F16) for a, b in _PAIRS]
        rows += [_row(8, F32, a, b, sparsity, (1, E8M0)) for a, b in _PAIRS]
        for scale in ((2, E8M0), (4, E8M0), (4, UE4M3)):
            rows.append(_row(4, F32, E2M1, E2M1, sparsity, scale))
    return tuple(rows)
