"""Register copies of sm_100: 32-byte global accesses, and `ldmatrix`/`stmatrix` of narrow types.

Loads of 4- and 6-bit elements expand them to bytes: sixteen elements of a row arrive as sixteen
bytes, so the rows are those of the plain `ldmatrix`.

Transposing copies of bytes: lane ``4*g + t`` holds, of every 8 rows of 16 bytes, rows ``2*t`` and
``2*t + 1`` of columns `g` and ``g + 8``.  `ldmatrix.m16n16` reads a row from each lane's address,
and hands lane ``4*g + t`` the rows of lanes ``4*t .. 4*t + 3``; so that these are rows ``2*t``,
``2*t + 1`` of the first and of the second eight, lanes 0, 1, 2, 3 address rows 0, 1, 8, 9 and so
on.  (Between its two registers CuTe then exchanges bytes, to hold what `stmatrix.m16n8` takes.)
Units:  a bit of the data: 8 per element, 128 per row.
Source: PTX ISA, `ld.global`, `ldmatrix`, `stmatrix` (".m16n16", ".m16n8", ".b8x16").
"""

from __future__ import annotations

from functools import cache

from tilewright.arch.copy.atom import CopyAtom, CopyKind
from tilewright.arch.copy.sm75 import registers_side, rows_side
from tilewright.arch.copy.universal import one_thread
from tilewright.layout.layout import Layout

_BYTE = 8
_ROW = 128
_EIGHT_ROWS = 8 * _ROW


@cache
def wide_copies() -> tuple[CopyAtom, ...]:
    """256-bit loads and stores that do not allocate in L1."""
    layout = one_thread(256)
    return tuple(
        CopyAtom(
            name=f"SM100_{direction}_256bit_CACHE_NOALLOCATION",
            kind="streaming",
            thr_id=Layout(1, 0),
            src_layout=layout,
            dst_layout=layout,
            ref_layout=layout,
            access_bits=256,
            min_arch=100,
            ptx="",
        )
        for direction in ("LOAD", "STORE")
    )


def _bytes_of(groups: int) -> Layout:
    """(lane, bit) of `groups` x 8 rows of bytes, transposed."""
    shape, stride = (_BYTE, 2, 2), (1, _ROW, 8 * _BYTE)
    if groups > 1:
        shape, stride = (*shape, groups), (*stride, _EIGHT_ROWS)  # type: ignore[assignment]
    return Layout(((4, 8), shape), ((2 * _ROW, _BYTE), stride))


def _addresses(groups: int) -> Layout:
    """(lane, bit) of the rows that `ldmatrix.m16n16` addresses; 16 lanes per 16x16 matrix."""
    second = 2 * _EIGHT_ROWS if groups == 4 else 0
    return Layout(((2, 2, 4, 2), _ROW), ((_ROW, _EIGHT_ROWS, 2 * _ROW, second), 1))


def _matrix(name: str, kind: CopyKind, memory: Layout, registers: Layout, num: int) -> CopyAtom:
    load = kind == "ldmatrix"
    return CopyAtom(
        name=f"SM100_{name}",
        kind=kind,
        thr_id=Layout(32, 1),
        src_layout=memory if load else registers,
        dst_layout=registers if load else memory,
        ref_layout=registers,
        access_bits=_ROW,
        min_arch=100,
        ptx="",
        num_matrices=num,
        transpose=name.endswith("_T"),
    )


@cache
def narrow_matrix_copies() -> tuple[CopyAtom, ...]:
    """Matrix copies of 4-, 6- and 8-bit elements."""
    expanding = [
        _matrix(
            f"SU{bits}_DU8x16_x{num}_LDSM_N",
            "ldmatrix",
            rows_side(num),
            registers_side(num, transpose=False),
            num,
        )
        for bits in (4, 6)
        for num in (1, 2, 4)
    ]
    loads = [
        _matrix(f"U8x{4 * n}_LDSM_T", "ldmatrix", _addresses(n), _bytes_of(n), n // 2)
        for n in (2, 4)
    ]
    stores = [
        _matrix(f"U8x{4 * n}_STSM_T", "stmatrix", rows_side(n), _bytes_of(n), n) for n in (1, 2, 4)
    ]
    return (*expanding, *loads, *stores)
