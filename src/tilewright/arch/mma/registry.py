"""All MMA atoms, by name and by what they compute."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from tilewright.arch.mma.atom import Major, MmaAtom, MmaKind, Source
from tilewright.arch.mma.cdna3 import cdna3_atoms
from tilewright.arch.mma.sm61 import sm61_atoms
from tilewright.arch.mma.sm70 import sm70_atoms
from tilewright.arch.mma.sm75 import sm75_atoms
from tilewright.arch.mma.sm80 import SM80_ATOMS, complex_atoms, sm80_integer_atoms
from tilewright.arch.mma.sm90 import sm90_atoms, sm90_sparse_and_saturating_atoms
from tilewright.arch.mma.sm100 import sm100_atoms, umma_by_name
from tilewright.arch.mma.sm120 import sm120_atoms
from tilewright.arch.mma.universal import UNIVERSAL_ATOMS
from tilewright.errors import DTypeError, LayoutError
from tilewright.numeric.dtypes import DType

if TYPE_CHECKING:
    ALL_MMA_ATOMS: tuple[MmaAtom, ...]
    """The rows that kernels are made of; `every_mma_atom` adds those of all other instructions."""


@cache
def _kernel_atoms() -> tuple[MmaAtom, ...]:
    return UNIVERSAL_ATOMS + SM80_ATOMS + sm90_atoms()


def __getattr__(name: str) -> Any:
    # More than a thousand rows: made when somebody asks, not when somebody imports.
    if name == "ALL_MMA_ATOMS":
        return _kernel_atoms()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _by_name() -> dict[str, MmaAtom]:
    return {atom.name: atom for atom in _kernel_atoms()}


# Made when first asked for: most programs use none of them.
_WITH_EMITTER: tuple[Callable[[], tuple[MmaAtom, ...]], ...] = (sm80_integer_atoms, sm75_atoms)
_OTHERS: tuple[Callable[[], tuple[MmaAtom, ...]], ...] = (
    complex_atoms,
    sm90_sparse_and_saturating_atoms,
    sm61_atoms,
    sm70_atoms,
    sm100_atoms,
    sm120_atoms,
    cdna3_atoms,
)
_Key = tuple[MmaKind, DType, DType, DType]


@cache
def every_mma_atom() -> tuple[MmaAtom, ...]:
    """All rows: `ALL_MMA_ATOMS`, then those of every other instruction from sm_61 to sm_120.

    Of tcgen05.mma it has the largest shape of each form; `umma_atom` makes the others.
    """
    families = _WITH_EMITTER + _OTHERS
    return (*_kernel_atoms(), *(atom for rows in families for atom in rows()))


@cache
def _every_name() -> dict[str, MmaAtom]:
    return {atom.name: atom for atom in every_mma_atom()}


@cache
def _by_types() -> dict[_Key, list[MmaAtom]]:
    """What a kernel may ask for by its types: plain multiplications with an emitter."""
    found: dict[_Key, list[MmaAtom]] = {}
    later = (atom for rows in _WITH_EMITTER for atom in rows())
    for atom in (*_kernel_atoms(), *later):
        if atom.has_emitter:
            key = (atom.kind, atom.d_dtype, atom.a_dtype, atom.b_dtype)
            found.setdefault(key, []).append(atom)
    return found


def mma_atom(name: str | MmaAtom) -> MmaAtom:
    """The row called `name`.

    Raises: LayoutError if there is none, with the nearest names.

    >>> mma_atom("SM80_16x8x16_F32BF16BF16F32_TN").ptx
    'mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32'
    """
    if isinstance(name, MmaAtom):
        return name
    found = _by_name().get(name) or _every_name().get(name) or umma_by_name(str(name))
    if found is not None:
        return found
    known = _every_name()
    family = str(name).partition("_")[0] + "_"
    kin = [other for other in known if other.startswith(family)]
    near = ", ".join(difflib.get_close_matches(str(name), kin or known, n=3, cutoff=0.5))
    raise LayoutError(
        f"mma_atom: {name!r} is not one of the {len(known)} MMA atoms",
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
    """The atom of one kind that computes ``acc += a * b`` and has an emitter.

    Without `shape_mnk` the largest.  `a_source` defaults to where the kind usually reads A:
    shared memory for wgmma, registers otherwise.

    Raises: DTypeError if the kind has no atom for these types, listing those it has; LayoutError
    if it has them, but not with this shape, source or majors, listing what it has.

    >>> from tilewright.numeric.dtypes import BF16, F32
    >>> find_mma_atom("wgmma", BF16, BF16, F32, shape_mnk=(64, 128, 16), b_major="MN").name
    'SM90_64x128x16_F32BF16BF16_SS_KN'
    """
    source = a_source or ("smem" if kind == "wgmma" else "rmem")
    of_type = _by_types().get((kind, acc_dtype, a_dtype, b_dtype))
    if of_type is None:
        having = [f"{a} x {b} -> {d}" for k, d, a, b in _by_types() if k == kind]
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
        details={"has": ", ".join(dict.fromkeys("x".join(map(str, x.shape_mnk)) for x in form))},
    )


def _form(a_source: Source, a_major: Major, b_major: Major) -> str:
    where = "shared memory" if a_source == "smem" else "registers"
    return f"A in {where} ({a_major}-major), B {b_major}-major"
