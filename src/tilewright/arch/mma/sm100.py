"""`tcgen05.mma` (sm_100, sm_103): one thread multiplies tiles for one CTA, or for a pair of them.

The result lies in tensor memory, B in shared memory, A in shared (SS) or tensor memory (TS).  So
the "thread" of a row is a CTA: alone it has everything; of two, each has half of the rows of A,
of B and of D.  K is 32 bytes of A's type (64 for the packed 4-bit kinds), twice that if sparse.
The operands are chosen at run time from 8 types, 2 majors and up to 48 shapes, so rows are made on
demand: `umma_atom`, or by name, ``SM100_MMA_F16BF16_SS_128x256x16_F32F16F16_KK``.
Source: PTX ISA, `tcgen05.mma`: "Shape", "Data Movement", ".kind"; CuTe's names of the families.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tilewright.arch.element import CBF16, CF16, CTF32, UE4M3, Element
from tilewright.arch.mma.atom import Major, MmaAtom, Source
from tilewright.arch.mma.sm80 import ptx_type
from tilewright.arch.mma.sm90 import INT_NS
from tilewright.arch.mma.sm120 import F8F6F4_TYPES
from tilewright.errors import DTypeError, LayoutError
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import BF16, E2M1, E8M0, F16, F32, I8, I32, TF32, U8

_Types = tuple[Element, Element, Element]


@dataclass(frozen=True, slots=True)
class UmmaFamily:
    """All instructions that CuTe gives one name.

    Units:  `types` are (D, A, B).  `dense_k` is the K of a dense instruction, 0 where it is 32
            bytes of A's type.  `shapes` are M and the N that it goes with, ascending.
            `scales` are (elements per scale, its type).
    """

    name: str
    ctas: int
    types: tuple[_Types, ...]
    dense_k: int
    shapes: tuple[tuple[int, tuple[int, ...]], ...]
    a_source: Source
    sparsity: int
    scales: tuple[tuple[int, Element], ...]
    transposes: bool
    min_arch: int

    def k(self, types: _Types) -> int:
        """K of the instruction for these types; of a sparse one, the zeros included."""
        return (self.dense_k or 256 // types[1].bits) * self.sparsity


def _same(d: Element, *elements: Element) -> list[_Types]:
    return [(d, t, t) for t in elements]


def _pairs(*accumulators: Element, of: tuple[Element, ...]) -> list[_Types]:
    return [(d, a, b) for d in accumulators for a in of for b in of]


_INTERLEAVED = "TS_INTERLEAVED_CF32CTF32CTF32CF32_TN"
_HALF: list[_Types] = [*_same(F32, F16, BF16), (F16, F16, F16)]
_COMPLEX_HALF = _same(F32, CF16, CBF16)
_MX4: tuple[tuple[int, Element], ...] = ((2, E8M0), (4, E8M0), (4, UE4M3))
# Columns: kind, the forms that it has, types, K of a dense instruction, scale_vec and scale type.
_KINDS: tuple[tuple[str, str, list[_Types], int, tuple[tuple[int, Element], ...]], ...] = (
    ("TF32", "SS TS SS_SPARSE TS_SCALED", _same(F32, TF32), 0, ()),
    ("TF32", _INTERLEAVED, _same(F32, CTF32), 0, ()),
    ("F16BF16", "SS TS SS_SPARSE", _HALF, 0, ()),
    ("F16BF16", "SS_SCALED TS_SCALED", _HALF + _COMPLEX_HALF, 0, ()),
    ("S8", "SS TS SS_SPARSE", _pairs(I32, of=(I8, U8)), 32, ()),
    ("F8F6F4", "SS TS SS_SPARSE", _pairs(F32, F16, of=F8F6F4_TYPES), 32, ()),
    ("MXF8F6F4", "SS SS_SPARSE", _pairs(F32, of=F8F6F4_TYPES), 32, ((1, E8M0),)),
    ("MXF4", "SS", _same(F32, E2M1), 64, _MX4),
    ("MXF4NVF4", "SS_SPARSE", _same(F32, E2M1), 64, _MX4),
    ("MXF4_ULTRA", "SS_VS", _same(F32, E2M1), 96, ((3, E8M0), (6, E8M0), (6, UE4M3))),
)


def _shapes(kind: str, ctas: int, sparse: bool) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Which N each M goes with."""
    by_8, by_16, by_32 = (tuple(range(step, 257, step)) for step in (8, 16, 32))
    scaled = kind.startswith("MX")
    if ctas == 2:
        ns = by_32 if kind == "S8" else by_16
        return ((256, ns),) if scaled and sparse else ((128, ns), (256, ns))
    if scaled:
        return ((128, by_16 if kind == "MXF4_ULTRA" else by_8),)
    return (64, INT_NS if kind == "S8" else by_8), (128, by_16)


def _family(
    kind: str,
    form: str,
    ctas: int,
    types: list[_Types],
    dense_k: int,
    scale_vecs: tuple[tuple[int, Element], ...],
) -> UmmaFamily:
    sparsity = 2 if form.endswith("SPARSE") else 1
    ultra = kind == "MXF4_ULTRA"
    prefix = "SM103_" if ultra else "SM100_MMA_"
    return UmmaFamily(
        name=f"{prefix}{kind}_{'2x1SM_' if ctas == 2 else ''}{form}",
        ctas=ctas,
        types=tuple(types),
        dense_k=dense_k,
        shapes=_shapes(kind, ctas, sparsity > 1),
        a_source="tmem" if form.startswith("TS") else "smem",
        sparsity=sparsity,
        scales=tuple((dense_k * sparsity // x, t) for x, t in scale_vecs),
        transposes=not kind.startswith("MXF4") and form != _INTERLEAVED,
        min_arch=103 if ultra else 100,
    )


@cache
def umma_families() -> dict[str, UmmaFamily]:
    """Every family, by CuTe's name."""
    rows = (
        _family(kind, form, ctas, types, dense_k, scale_vecs)
        for kind, forms, types, dense_k, scale_vecs in _KINDS
        for form in forms.split()
        for ctas in (1, 2)
    )
    return {row.name: row for row in rows}


def _family_named(name: str) -> UmmaFamily:
    row = umma_families().get(name)
    if row is None:
        known = ", ".join(umma_families())
        raise LayoutError(f"umma_atom: {name!r} is not a family of tcgen05.mma; known: {known}")
    return row


def _check_shape(family: UmmaFamily, m: int, n: int) -> None:
    if n not in dict(family.shapes).get(m, ()):
        legal = [f"M={x}: N={', '.join(map(str, ns[:4]))} .. {ns[-1]}" for x, ns in family.shapes]
        raise LayoutError(
            f"umma_atom: {family.name} has no shape M={m}, N={n}",
            details={"has": "; ".join(legal)},
        )


def _split(ctas: int, rows: int, columns: int) -> Layout:
    """(CTA, value) -> ``row + column * rows``: each CTA has a block of the rows."""
    per_cta = rows // ctas
    return Layout((ctas, (per_cta, columns)), (per_cta if ctas > 1 else 0, (1, rows)))


def umma_atom(
    family: str,
    types: _Types,
    m: int,
    n: int,
    majors: tuple[Major, Major] = ("K", "K"),
    scale: tuple[int, Element] | None = None,
) -> MmaAtom:
    """The row of one `tcgen05.mma`; `types` are (D, A, B), `scale` (elements per scale, type).

    Without `scale` a block-scaled family takes its first.
    Raises: LayoutError for a family, shape, major or scale that does not exist; DTypeError for
    types that the family does not multiply.

    >>> row = umma_atom("SM100_MMA_F16BF16_2x1SM_SS", (F32, F16, F16), 256, 128)
    >>> print(row.name, row.layout_b)
    SM100_MMA_F16BF16_2x1SM_SS_256x128x16_F32F16F16_KK (2,(64,16)):(64,(1,128))
    """
    f = _family_named(family)
    if types not in f.types:
        having = ", ".join(f"{a} x {b} -> {d}" for d, a, b in f.types)
        d, a, b = types
        raise DTypeError(
            f"umma_atom: {family} does not multiply {a} x {b} -> {d}", details={"has": having}
        )
    _check_shape(f, m, n)
    if majors != ("K", "K") and (not f.transposes or (f.a_source == "tmem" and majors[0] == "MN")):
        raise LayoutError(
            f"umma_atom: {family} cannot take A {majors[0]}-major and B {majors[1]}-major",
            hint="A in tensor memory and packed 4-bit types are K-major",
        )
    if scale is None and f.scales:
        scale = f.scales[0]
    if scale is not None and scale not in f.scales:
        having = ", ".join(f"{count} elements per {t}" for count, t in f.scales) or "no scales"
        raise LayoutError(
            f"umma_atom: {family} has no scale of {scale[0]} elements per {scale[1]}",
            details={"has": having},
        )
    return _row(f, types, (m, n), majors, scale)


@cache
def _row(
    f: UmmaFamily,
    types: _Types,
    mn: tuple[int, int],
    majors: tuple[Major, Major],
    scale: tuple[int, Element] | None,
) -> MmaAtom:
    (d, a, b), (m, n), k = types, mn, f.k(types)
    words = "".join(ptx_type(t).upper() for t in types)
    letters = ("K" if majors[0] == "K" else "M") + ("K" if majors[1] == "K" else "N")
    suffix = f"_VS{scale[0]}_{scale[1].name.upper()}" if scale else ""
    # Sparse A of at most 8 bits is stored in bytes: two of its values, for four.
    in_bytes = f.sparsity > 1 and f.dense_k == 32
    return MmaAtom(
        name=f"{f.name}_{m}x{n}x{k}_{words}_{letters}{suffix}",
        kind="umma",
        shape_mnk=(m, n, k),
        d_type=d,
        a_type=a,
        b_type=b,
        c_type=d,
        thr_id=Layout(f.ctas, 1 if f.ctas > 1 else 0),
        layout_a=_split(f.ctas, m, k),
        layout_b=_split(f.ctas, n, k),
        layout_c=_split(f.ctas, m, n),
        min_arch=f.min_arch,
        a_source=f.a_source,
        b_source="smem",
        c_source="tmem",
        a_major=majors[0],
        b_major=majors[1],
        bits=(d.bits, 8 // f.sparsity, b.bits, d.bits) if in_bytes else (),
        sparsity=f.sparsity,
        scale_vector=scale[0] if scale else 0,
        scale_type=scale[1] if scale else None,
    )


_NAME = re.compile(r"(\w+)_(\d+)x(\d+)x(\d+)_([A-Z0-9]+)_([KM])([KN])(?:_VS(\d+)_(\w+))?")


def umma_by_name(name: str) -> MmaAtom | None:
    """The row that has this name, whichever shape and majors it says; None if none can."""
    match = _NAME.fullmatch(name)
    family = umma_families().get(match[1]) if match else None
    if match is None or family is None:
        return None
    words = {"".join(ptx_type(t).upper() for t in types): types for types in family.types}
    scales = {(str(count), t.name.upper()): (count, t) for count, t in family.scales}
    types, scale = words.get(match[5]), scales.get((match[8], match[9]))
    if types is None or int(match[4]) != family.k(types) or (family.scales and scale is None):
        return None
    majors: tuple[Major, Major] = (
        "K" if match[6] == "K" else "MN",
        "K" if match[7] == "K" else "MN",
    )
    return umma_atom(family.name, types, int(match[2]), int(match[3]), majors, scale)


def _packed() -> Iterator[MmaAtom]:
    """The two-wide `fma` of sm_100 (``fma.rn.f32x2``), along M or along N."""
    pair, one = Layout((1, 2), (0, 1)), Layout((1, 1), (0, 0))
    for m, n in ((2, 1), (1, 2)):
        yield MmaAtom(
            name=f"SM100_{m}x{n}x1_F32F32F32F32",
            kind="fma",
            shape_mnk=(m, n, 1),
            d_type=F32,
            a_type=F32,
            b_type=F32,
            c_type=F32,
            thr_id=Layout(1, 0),
            layout_a=pair if m == 2 else one,
            layout_b=pair if n == 2 else one,
            layout_c=pair,
            min_arch=100,
        )


@cache
def sm100_atoms() -> tuple[MmaAtom, ...]:
    """Of each family, for each types and scale, the largest shape with both factors K-major."""
    rows = [
        umma_atom(f.name, types, f.shapes[-1][0], 256, ("K", "K"), scale)
        for f in umma_families().values()
        for types in f.types
        for scale in f.scales or (None,)
    ]
    return (*_packed(), *rows)
