"""All copy atoms, by name and by what they do."""

from __future__ import annotations

import difflib
from functools import cache

from tilewright.arch.copy.atom import CopyAtom, CopyKind
from tilewright.arch.copy.sm50 import shuffle_copies
from tilewright.arch.copy.sm75 import MATRIX_COPIES, movmatrix_copies
from tilewright.arch.copy.sm80 import CP_ASYNC_COPIES
from tilewright.arch.copy.sm90 import (
    BULK_COPIES,
    STORES_ASYNC,
    TMA_COPIES,
    TMA_REDUCTIONS,
    bulk_copies,
)
from tilewright.arch.copy.sm100 import narrow_matrix_copies, wide_copies
from tilewright.arch.copy.sm100_tmem import tmem_copies
from tilewright.arch.copy.universal import UNIVERSAL_COPIES
from tilewright.errors import LayoutError

ALL_COPY_ATOMS: tuple[CopyAtom, ...] = (
    UNIVERSAL_COPIES
    + MATRIX_COPIES
    + CP_ASYNC_COPIES
    + TMA_COPIES
    + TMA_REDUCTIONS
    + BULK_COPIES
    + STORES_ASYNC
)
"""The rows that kernels are made of; `every_copy_atom` adds those of all other instructions."""

_BY_NAME: dict[str, CopyAtom] = {atom.name: atom for atom in ALL_COPY_ATOMS}
# Made when first asked for: most programs use none of them.
_OTHERS = (
    shuffle_copies,
    movmatrix_copies,
    bulk_copies,
    wide_copies,
    narrow_matrix_copies,
    tmem_copies,
)


@cache
def every_copy_atom() -> tuple[CopyAtom, ...]:
    """All rows: `ALL_COPY_ATOMS`, then those of every other instruction from sm_50 to sm_103."""
    return (*ALL_COPY_ATOMS, *(atom for rows in _OTHERS for atom in rows()))


@cache
def _every_name() -> dict[str, CopyAtom]:
    return {atom.name: atom for atom in every_copy_atom()}


def copy_atom(name: str | CopyAtom) -> CopyAtom:
    """The row called `name`.

    Raises: LayoutError if there is none, with the nearest names.

    >>> copy_atom("SM75_U32x4_LDSM_N").ptx
    'ldmatrix.sync.aligned.m8n8.x4.shared.b16 {regs}, [{address}];'
    """
    if isinstance(name, CopyAtom):
        return name
    found = _BY_NAME.get(name) or _every_name().get(name)
    if found is not None:
        return found
    near = difflib.get_close_matches(str(name), _every_name(), n=3, cutoff=0.5)
    listed = ", ".join(near or _BY_NAME)
    raise LayoutError(
        f"copy_atom: {name!r} is not a copy atom; {'near' if near else 'known'} names: {listed}"
    )


def find_copy_atom(
    kind: CopyKind,
    *,
    bits: int | None = None,
    num_matrices: int | None = None,
    transpose: bool = False,
    cache: str | None = None,
    zero_fill: bool = False,
    multicast: bool = False,
) -> CopyAtom:
    """The atom of one kind, of those with an emitter.

    What is None is free, and the widest that fits is taken.

    Raises: LayoutError if there is none, listing the atoms of that kind.

    >>> find_copy_atom("cp_async", bits=64).name, find_copy_atom("stmatrix", transpose=True).name
    ('SM80_CP_ASYNC_CACHEALWAYS_64b', 'SM90_U16x8_STSM_T')
    """
    of_kind = [atom for atom in ALL_COPY_ATOMS if atom.kind == kind]
    fitting = [
        atom
        for atom in of_kind
        if bits in (None, atom.access_bits)
        and num_matrices in (None, atom.num_matrices)
        and cache in (None, atom.cache)
        and (atom.transpose, atom.zero_fill, atom.multicast) == (transpose, zero_fill, multicast)
    ]
    if fitting:
        return max(fitting, key=lambda atom: (atom.access_bits, atom.num_matrices))
    asked: dict[str, object] = {"bits": bits, "num_matrices": num_matrices, "cache": cache}
    flags = {"transpose": transpose, "zero_fill": zero_fill, "multicast": multicast}
    asked |= {flag: True for flag, is_set in flags.items() if is_set}
    wanted = ", ".join(f"{key}={value}" for key, value in asked.items() if value is not None)
    raise LayoutError(
        f"find_copy_atom: no {kind} atom with {wanted or 'these defaults'}",
        details={"has": ", ".join(atom.name for atom in of_kind) or "no atom of this kind"},
    )
