"""`mma.sync`: a warp multiplies fragments held in registers (sm_80; fp8 from sm_89).

All rows come from one formula.  A 32-bit register holds ``v = 32 / bits`` neighbours in K (one,
for 64-bit types); lane ``4*g + t`` holds row `g` of each group of eight rows, and the t-th `v`
columns of each group of ``4*v``.
Source: PTX ISA, "Matrix Fragments for mma.m16n8k16" and its siblings.
"""

from __future__ import annotations

from functools import cache

from tilewright.arch.element import C64, GC64, U1, Element
from tilewright.arch.mma.atom import MmaAtom, Operation
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    I4,
    I8,
    I16,
    I32,
    TF32,
    U4,
    U8,
)

_PTX_TYPE: dict[Element, str] = {I4: "s4", I8: "s8", I16: "s16", I32: "s32"}


def ptx_type(element: Element) -> str:
    """PTX's word for an element type in an MMA mnemonic; in capitals it is CuTe's in a name."""
    return _PTX_TYPE.get(element, element.name)


def fragment(rows: int, k: int, bits: int, warps: int = 1) -> Layout:
    """(thread, value) -> ``row + column * rows`` of a factor of `rows` x `k` held in registers.

    Each warp covers 8 or 16 rows; `warps` of them are stacked (wgmma's A: 4 warps, 64 rows).

    >>> print(fragment(16, 16, 16), fragment(8, 8, 32))
    ((4,8),(2,2,2)):((32,1),(16,8,128)) ((4,8),2):((8,1),32)
    >>> print(fragment(64, 16, 16, warps=4))
    ((4,8,4),(2,2,2)):((128,1,16),(64,8,512))
    """
    v = max(32 // bits, 1)
    rows_per_warp = rows // warps
    values = [(v, rows), (rows_per_warp // 8, 8), (k // (4 * v), 4 * v * rows)]
    return _warps_of_quads(v * rows, warps, rows_per_warp, [x for x in values if x[0] > 1])


def accumulator(rows: int, cols: int, warps: int = 1) -> Layout:
    """(thread, value) -> ``row + column * rows`` of C and D.

    Lane ``4*g + t`` holds columns ``2*t`` and ``2*t + 1`` of each group of eight, in rows `g` and,
    where a warp has sixteen, ``g + 8``.

    >>> print(accumulator(16, 8), accumulator(64, 32, warps=4))
    ((4,8),(2,2)):((32,1),(16,8)) ((4,8,4),(2,2,4)):((128,1,16),(64,8,512))
    """
    rows_per_warp = rows // warps
    values = [(2, rows), (rows_per_warp // 8, 8), (cols // 8, 8 * rows)]
    # A wgmma keeps the mode of its column groups even if it has one.
    kept = values if warps > 1 else [x for x in values if x[0] > 1]
    return _warps_of_quads(2 * rows, warps, rows_per_warp, kept)


def _warps_of_quads(
    step: int, warps: int, rows_per_warp: int, values: list[tuple[int, int]]
) -> Layout:
    """Threads ``(4, 8[, warps])`` with `step` within a quad; `values` are (extent, stride)."""
    threads = [(4, step), (8, 1)] + ([(warps, rows_per_warp)] if warps > 1 else [])
    values = values or [(1, 0)]
    shape, stride = (tuple(x[i] for x in values) for i in (0, 1))
    if len(values) == 1:
        return Layout((tuple(x[0] for x in threads), shape[0]), (_strides(threads), stride[0]))
    return Layout((tuple(x[0] for x in threads), shape), (_strides(threads), stride))


def _strides(modes: list[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(stride for _, stride in modes)


def warp_atom(
    mnk: tuple[int, int, int],
    d: Element,
    a: Element,
    b: Element,
    min_arch: int = 80,
    *,
    requires: str = "",
    suffix: str = "",
    operation: Operation = "multiply",
    saturate: bool = False,
) -> MmaAtom:
    """The row of one `mma.sync`; without `requires` it has no emitter."""
    m, n, k = mnk
    types = [ptx_type(t) for t in (d, a, b, d)]
    mnemonic = f"mma.sync.aligned.m{m}n{n}k{k}.row.col." + ".".join(types)
    return MmaAtom(
        name=f"SM{min_arch}_{m}x{n}x{k}_{''.join(types).upper()}_TN{suffix}",
        kind="mma",
        shape_mnk=mnk,
        d_type=d,
        a_type=a,
        b_type=b,
        c_type=d,
        thr_id=Layout(32, 1),
        layout_a=fragment(m, k, a.bits),
        layout_b=fragment(n, k, b.bits),
        layout_c=accumulator(m, n),
        min_arch=min_arch,
        ptx=mnemonic if requires else "",
        requires=requires,
        operation=operation,
        saturate=saturate,
    )


def _rows() -> list[MmaAtom]:
    rows = []
    for k in (16, 8):
        rows += [warp_atom((16, 8, k), F32, t, t, requires="mma") for t in (F16, BF16)]
        rows.append(warp_atom((16, 8, k), F16, F16, F16, requires="mma"))
    rows += [warp_atom((16, 8, k), F32, TF32, TF32, requires="mma") for k in (8, 4)]
    rows += [
        warp_atom((16, 8, k), I32, a, b, requires="mma") for k in (32, 16) for a, b in INT8_PAIRS
    ]
    rows.append(warp_atom((8, 8, 4), F64, F64, F64, requires="mma"))
    for d in (F32, F16):
        fp8 = [(a, b) for a in (E4M3, E5M2) for b in (E4M3, E5M2)]
        rows += [warp_atom((16, 8, 32), d, a, b, 89, requires="mma_fp8") for a, b in fp8]
    f64_m16 = [warp_atom((16, 8, k), F64, F64, F64, 90, requires="mma_f64_m16") for k in (16, 8, 4)]
    return rows + f64_m16


INT8_PAIRS = [(a, b) for a in (I8, U8) for b in (I8, U8)]
_INT4_PAIRS = [(a, b) for a in (I4, U4) for b in (I4, U4)]

SM80_ATOMS: tuple[MmaAtom, ...] = tuple(_rows())
"""Largest K first, so that a search finds the widest instruction."""


@cache
def sm80_integer_atoms() -> tuple[MmaAtom, ...]:
    """The 8-bit rows of 8x8x16, and those that only say who holds what: with saturation, of 4
    bits, of single bits."""
    wide, narrow, single = [], [], []
    for m, k in ((16, 32), (16, 16), (8, 16)):
        for a, b in INT8_PAIRS:
            if m == 8:
                wide.append(warp_atom((m, 8, k), I32, a, b, requires="mma"))
            wide.append(warp_atom((m, 8, k), I32, a, b, suffix="_SATURATE", saturate=True))
    for m, k in ((16, 64), (16, 32), (8, 32)):
        for a, b in _INT4_PAIRS:
            narrow.append(warp_atom((m, 8, k), I32, a, b))
            narrow.append(warp_atom((m, 8, k), I32, a, b, suffix="_SATURATE", saturate=True))
    operations: list[Operation] = ["and_popc", "xor_popc"]
    for operation in operations:
        suffix = "_" + operation.replace("_", "").upper()
        for m, k in ((16, 256), (16, 128), (8, 128)):
            single.append(
                warp_atom((m, 8, k), I32, U1, U1, suffix=suffix, operation=operation),
            )
    return (*wide, *narrow, *single)


@cache
def complex_atoms() -> tuple[MmaAtom, ...]:
    """Complex doubles: several real instructions that share one fragment layout (sm_80, sm_90)."""
    shapes = [((8, 8, 4), 80), ((16, 8, 4), 90), ((16, 8, 8), 90), ((16, 8, 16), 90)]
    rows = [warp_atom(mnk, C64, C64, C64, arch) for mnk, arch in shapes]
    return (*rows, warp_atom((8, 8, 4), GC64, C64, C64))
