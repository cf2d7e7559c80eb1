"""Universal FMA: one multiply-add by one thread, on every architecture."""

from __future__ import annotations

from tilewright.arch.mma.atom import MmaAtom
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import BF16, F16, F32, F64, I32, U32, DType

_ONE = Layout((1, 1), (0, 0))
# Source: PTX ISA, `fma` (floating point and half precision) and `mad`.
_PTX = {F64: "fma.rn.f64", F32: "fma.rn.f32", F16: "fma.rn.f16", BF16: "fma.rn.bf16"}
_PTX |= {I32: "mad.lo.s32", U32: "mad.lo.u32"}


def _row(dtype: DType) -> MmaAtom:
    return MmaAtom(
        name=f"UniversalFMA_{dtype.name.upper()}",
        kind="fma",
        shape_mnk=(1, 1, 1),
        d_type=dtype,
        a_type=dtype,
        b_type=dtype,
        c_type=dtype,
        thr_id=Layout(1, 0),
        layout_a=_ONE,
        layout_b=_ONE,
        layout_c=_ONE,
        min_arch=80,
        ptx=_PTX[dtype],
    )


UNIVERSAL_ATOMS: tuple[MmaAtom, ...] = tuple(_row(dtype) for dtype in _PTX)
