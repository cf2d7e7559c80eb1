"""`wgmma.mma_async`: a warpgroup multiplies tiles in shared memory (sm_90a).

Every row is 64 x N x (32 bytes of K).  B is always in shared memory, A there (SS) or in registers
(RS); D stays in registers.  Names are CuTe's with two letters for the majors of A and B: K, or
M (for A) and N (for B) where the operand is contiguous in M or N, which only 16-bit types in
shared memory may be: ``SM90_64x256x16_F32BF16BF16_SS_KN`` takes B as a row-major K x N matrix.
A sparse row takes twice the K; half of its A is stored, so that A in registers has the fragment of
a type of half the width.  Sparse and saturating rows have no emitter.
Source: PTX ISA, `wgmma.mma_async`: ".shape", "Register Fragments", "Shared Memory Matrix Layout";
`wgmma.mma_async.sp`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache

from tilewright.arch.mma.atom import Major, MmaAtom, Source
from tilewright.arch.mma.sm80 import accumulator, fragment, ptx_type
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import BF16, E4M3, E5M2, F16, F32, I8, I32, TF32, U8, DType

_M = 64
_WARPS = 4
_THREADS = 128

FLOAT_NS: tuple[int, ...] = tuple(range(8, 257, 8))
# The integer forms exist for fewer N: every 8 up to 32 (24 included), then every 16.
INT_NS: tuple[int, ...] = (8, 16, 24, *range(32, 257, 16))


@lru_cache(maxsize=256)
def _shared(rows: int, k: int) -> Layout:
    """Every thread sees the whole matrix."""
    return Layout((_THREADS, (rows, k)), (0, (1, rows)))


_accumulator = lru_cache(maxsize=64)(accumulator)
_fragment = lru_cache(maxsize=8)(fragment)


def _majors(dtype: DType, a_source: Source) -> list[tuple[Major, Major]]:
    """The majors that an instruction may have, (A, B)."""
    if dtype.bits != 16:
        return [("K", "K")]
    for_a: list[Major] = ["K", "MN"] if a_source == "smem" else ["K"]
    for_b: list[Major] = ["K", "MN"]
    return [(a, b) for a in for_a for b in for_b]


def _row(
    n: int,
    d: DType,
    a: DType,
    b: DType,
    a_source: Source,
    majors: tuple[Major, Major],
    sparsity: int = 1,
    saturate: bool = False,
) -> MmaAtom:
    k = 256 // a.bits * sparsity
    types = [ptx_type(t) for t in (d, a, b)]
    letters = ("K" if majors[0] == "K" else "M") + ("K" if majors[1] == "K" else "N")
    form = "SS" if a_source == "smem" else "RS"
    shape = f"{'SPARSE_' if sparsity > 1 else ''}{_M}x{n}x{k}"
    suffix = "_SATURATE" if saturate else ""
    plain = sparsity == 1 and not saturate
    a_fragment = _fragment(_M, k, a.bits // sparsity, _WARPS)
    mnemonic = f"wgmma.mma_async.sync.aligned.m{_M}n{n}k{k}." + ".".join(types)
    return MmaAtom(
        name=f"SM90_{shape}_{''.join(types).upper()}_{form}_{letters}{suffix}",
        kind="wgmma",
        shape_mnk=(_M, n, k),
        d_type=d,
        a_type=a,
        b_type=b,
        c_type=d,
        thr_id=_WARPGROUP,
        layout_a=_shared(_M, k) if a_source == "smem" else a_fragment,
        layout_b=_shared(n, k),
        layout_c=_accumulator(_M, n, _WARPS),
        min_arch=90,
        ptx=mnemonic if plain else "",
        a_source=a_source,
        b_source="smem",
        a_major=majors[0],
        b_major=majors[1],
        requires="wgmma" if plain else "",
        saturate=saturate,
        sparsity=sparsity,
    )


_WARPGROUP = Layout(_THREADS, 1)
_FP8 = (E4M3, E5M2)
_INT8 = (I8, U8)
# (D, A, B) of every form.
_TYPES: list[tuple[DType, DType, DType]] = [(F32, F16, F16), (F32, BF16, BF16), (F16, F16, F16)]
_TYPES += [(F32, TF32, TF32)]
_TYPES += [(d, a, b) for d in (F32, F16) for a in _FP8 for b in _FP8]
_TYPES += [(I32, a, b) for a in _INT8 for b in _INT8]
_SOURCES: tuple[Source, ...] = ("smem", "rmem")


def _forms(sparsity: int = 1, saturate: bool = False) -> Iterator[MmaAtom]:
    for d, a, b in _TYPES:
        if saturate and not a.is_integer:
            continue
        for source in _SOURCES:
            for majors in _majors(a, source):
                for n in reversed(INT_NS if a.is_integer else FLOAT_NS):
                    yield _row(n, d, a, b, source, majors, sparsity, saturate)


@cache
def sm90_atoms() -> tuple[MmaAtom, ...]:
    """The dense `wgmma.mma_async`: every N, source, major and type."""
    return tuple(_forms())


@cache
def sm90_sparse_and_saturating_atoms() -> tuple[MmaAtom, ...]:
    """`wgmma.mma_async.sp`, and the integer forms with ``.satfinite``."""
    return (*_forms(saturate=True), *_forms(sparsity=2), *_forms(sparsity=2, saturate=True))
