"""All MMA atoms, by name and by what they compute."""

from __future__ import annotations

import difflib

from tilewright.arch.mma.atom import Major, MmaAtom, MmaKind, Source
from tilewright.arch.mma.sm80 import SM80_ATOMS
from tilewright.arch.mma.sm90 import SM90_ATOMS
from tilewright.arch.mma.universal import UNIVERSAL_ATOMS
from tilewright.errors import DTypeError, LayoutError
from tilewright.numeric.dtypes import DType

ALL_MMA_ATOMS: tuple[MmaAtom, ...] = UNIVERSAL_ATOMS + SM80_ATOMS + SM90_ATOMS
_BY_NAME: dict[str, MmaAtom] = {atom.name: atom for atom in ALL_MMA_ATOMS}
_Key = tuple[MmaKind, DType, DType, DType]
_BY_TYPES: dict[_Key, list[MmaAtom]] = {}
for _atom in ALL_MMA_ATOMS:
    _key = (_atom.kind, _atom.d_dtype, _atom.a_dtype, _atom.b_dtype)
    _BY_TYPES.setdefault(_key, []).append(_atom)


def mma_atom(name: str | MmaAtom) -> MmaAtom:
    """The row called `name`.

    Raises: LayoutError if there is none, with the nearest names.

    >>> mma_atom("SM80_16x8x16_F32BF16BF16F32_TN").ptx
    'mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32'
    """
    if isinstance(name, MmaAtom):
        return name
    if name in _BY_NAME:
        return _BY_NAME[name]
    near = ", ".join(difflib.get_close_matches(str(name), _BY_NAME, n=3, cutoff=0.5))
    raise LayoutError(
        f"mma_atom: {name!r} is not one of the {len(_BY_NAME)} MMA atoms",
        hint=f"near names: {near}" if near else "",
    )


def find_mma_atom(
    kind: MmaKind,
    a_dtype: DType,
    b_dtype: DType,
    acc_dtype: DType,
    *,
    shape_mnk: tuple[int, int, int] | None = None,
    a_source: Source | None = None,
    a_major: Major = "K",
    b_major: Major = "K",
) -> MmaAtom:
    """The atom of one kind that computes ``acc += a * b``.

    Without `shape_mnk` the largest.  `a_source` defaults to where the kind usually reads A:
    shared memory for wgmma, registers otherwise.

    Raises: DTypeError if the kind has no atom for these types, listing those it has; LayoutError
    if it has them, but not with this shape, source or majors, listing what it has.

    >>> from tilewright.numeric.dtypes import BF16, F32
    >>> find_mma_atom("wgmma", BF16, BF16, F32, shape_mnk=(64, 128, 16), b_major="MN").name
    'SM90_64x128x16_F32BF16BF16_SS_KN'
    """
    source = a_source or ("smem" if kind == "wgmma" else "rmem")
    of_type = _BY_TYPES.get((kind, acc_dtype, a_dtype, b_dtype))
    if of_type is None:
        having = [f"{a} x {b} -> {d}" for k, d, a, b in _BY_TYPES if k == kind]
        raise DTypeError(
            f"find_mma_atom: {kind} has no form for {a_dtype} x {b_dtype} -> {acc_dtype}",
            details={"has": ", ".join(having)},
        )
    form = [
        atom
        for atom in of_type
        if (atom.a_source, atom.a_major, atom.b_major) == (source, a_major, b_major)
    ]
    if not form:
        forms = dict.fromkeys(_form(x.a_source, x.a_major, x.b_major) for x in of_type)
        raise LayoutError(
            f"find_mma_atom: {kind} {a_dtype} x {b_dtype} -> {acc_dtype} has no form with "
            f"{_form(source, a_major, b_major)}",
            details={"has": "; ".join(forms)},
        )
    for atom in form:
        if shape_mnk is None or atom.shape_mnk == tuple(shape_mnk):
            return atom
    raise LayoutError(
        f"find_mma_atom: {kind} {a_dtype} x {b_dtype} -> {acc_dtype} has no shape {shape_mnk}",
        details={"has": ", ".join("x".join(map(str, x.shape_mnk)) for x in form)},
    )


def _form(a_source: Source, a_major: Major, b_major: Major) -> str:
    where = "shared memory" if a_source == "smem" else "registers"
    return f"A in {where} ({a_major}-major), B {b_major}-major"
