"""`ldmatrix` (sm_75) and `stmatrix` (sm_90): 8x8 matrices of 16-bit elements, by a warp.

Lane ``8*i + r`` gives the address of row `r` of matrix `i`; the addresses of the other lanes are
not used.  In registers lane ``4*g + t`` holds elements ``2*t`` and ``2*t + 1`` of row `g` of each
matrix, or of column `g` where the copy transposes.
Units:  a bit of the data: 16 per element, 128 per row, 1024 per matrix.
Source: PTX ISA, `ldmatrix`, `stmatrix`.
"""

from __future__ import annotations

from functools import cache

from tilewright.arch.copy.atom import CopyAtom, CopyKind
from tilewright.layout.layout import Layout

_MATRIX, _ROW, _ELEMENT = 1024, 128, 16


def rows_side(num: int) -> Layout:
    """(lane, bit) of the addressed rows; lanes past the last row repeat the first ones.

    >>> print(rows_side(1), rows_side(4))
    ((8,4),128):((128,0),1) (32,128):(128,1)
    """
    used = 8 * num
    if used == 32:
        return Layout((32, _ROW), (_ROW, 1))
    return Layout(((used, 32 // used), _ROW), ((_ROW, 0), 1))


def registers_side(num: int, transpose: bool) -> Layout:
    """(lane, bit) of the registers.

    >>> print(registers_side(4, False), registers_side(2, True))
    (32,(32,4)):(32,(1,1024)) ((4,8),(16,2,2)):((256,16),(1,128,1024))
    """
    if not transpose:
        pair = 2 * _ELEMENT  # a register is a pair of neighbours, and four of them a row
        bits, steps = ((pair, num), (1, _MATRIX)) if num > 1 else (pair, 1)
        return Layout((32, bits), (pair, steps))
    shape, stride = (_ELEMENT, 2), (1, _ROW)
    if num > 1:
        shape, stride = (*shape, num), (*stride, _MATRIX)  # type: ignore[assignment]
    return Layout(((4, 8), shape), ((2 * _ROW, _ELEMENT), stride))


def _row(kind: CopyKind, num: int, transpose: bool) -> CopyAtom:
    load = kind == "ldmatrix"
    memory, registers = rows_side(num), registers_side(num, transpose)
    unit = f"U16x{2 * num}" if transpose else f"U32x{num}"
    trans = ".trans" if transpose else ""
    operands = "{regs}, [{address}]" if load else "[{address}], {regs}"
    arch = 75 if load else 90
    return CopyAtom(
        name=f"SM{arch}_{unit}_{'LDSM' if load else 'STSM'}_{'T' if transpose else 'N'}",
        kind=kind,
        thr_id=Layout(32, 1),
        src_layout=memory if load else registers,
        dst_layout=registers if load else memory,
        ref_layout=registers,
        access_bits=_ROW,
        min_arch=arch,
        ptx=f"{kind}.sync.aligned.m8n8.x{num}{trans}.shared.b16 {operands};",
        num_matrices=num,
        transpose=transpose,
        requires=kind,
    )


MATRIX_COPIES: tuple[CopyAtom, ...] = tuple(
    _row(kind, num, transpose)
    for kind in ("ldmatrix", "stmatrix")
    for transpose in (False, True)
    for num in (1, 2, 4)
)


@cache
def movmatrix_copies() -> tuple[CopyAtom, ...]:
    """`movmatrix`: a warp transposes an 8x8 matrix of 16-bit elements between its registers.

    CuTe's row, and so ours, names the bits of the matrix on the left and those of its transpose on
    the right, so both sides read alike.
    """
    register = registers_side(1, transpose=False)
    return (
        CopyAtom(
            name="SM75_U32x1_MOVM_T",
            kind="movmatrix",
            thr_id=Layout(32, 1),
            src_layout=register,
            dst_layout=register,
            ref_layout=register,
            access_bits=32,
            min_arch=75,
            ptx="",
            num_matrices=1,
            transpose=True,
        ),
    )
