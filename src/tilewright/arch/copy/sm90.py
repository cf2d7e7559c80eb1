"""TMA (sm_90): one thread asks the bulk tensor engine for a box of a tensor.

One row serves tensors of one to five dimensions (im2col: three to five).  The box, not the row,
says how many bits move: `CopyAtom.sized`.  ``{rank}`` is the number of coordinates, ``{coords}``
lists them innermost first, ``{hint}`` is empty or an L2 cache policy with its comma, together with
``{hinted}`` = ".L2::cache_hint".
Source: PTX ISA, `cp.async.bulk.tensor`.
"""

from __future__ import annotations

from functools import cache

from tilewright.arch.copy.atom import CopyAtom, CopyKind
from tilewright.arch.copy.universal import one_thread
from tilewright.layout.layout import Layout

_LOAD = (
    "cp.async.bulk.tensor.{{rank}}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    "{multicast}{{hinted}} [{{dst}}], [{{tensormap}}, {{{{{{coords}}}}}}], [{{barrier}}]"
    "{mask}{{hint}};"
)
_STORE = (
    "cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group{hinted} "
    "[{tensormap}, {{{coords}}}], [{src}]{hint};"
)


def _row(name: str, ptx: str, store: bool, multicast: bool) -> CopyAtom:
    unsized = one_thread(1)
    return CopyAtom(
        name=name,
        kind="tma_store" if store else "tma_load",
        thr_id=Layout(1, 0),
        src_layout=unsized,
        dst_layout=unsized,
        ref_layout=unsized,
        access_bits=0,
        min_arch=90,
        ptx=ptx,
        multicast=multicast,
        requires="tma",
    )


TMA_COPIES: tuple[CopyAtom, ...] = (
    _row("SM90_TMA_LOAD", _LOAD.format(multicast="", mask=""), False, False),
    _row(
        "SM90_TMA_LOAD_MULTICAST",
        _LOAD.format(multicast=".multicast::cluster", mask=", {mask}"),
        False,
        True,
    ),
    _row("SM90_TMA_STORE", _STORE, True, False),
)


# Columns: name, kind, CTAs that share the copy, multicast.
_OTHER_FORMS: tuple[tuple[str, CopyKind, int, bool], ...] = (
    ("SM90_TMA_LOAD_IM2COL", "tma_load", 1, False),
    ("SM90_TMA_LOAD_IM2COL_MULTICAST", "tma_load", 1, True),
    ("SM90_TMA_STORE_IM2COL", "tma_store", 1, False),
    ("SM90_TMA_REDUCE_ADD", "tma_reduce", 1, False),
    ("SM90_BULK_COPY_G2S", "bulk", 1, False),
    ("SM90_BULK_COPY_S2G", "bulk", 1, False),
    ("SM90_BULK_COPY_AUTO", "bulk", 1, False),
    ("SM100_TMA_2SM_LOAD", "tma_load", 2, False),
    ("SM100_TMA_2SM_LOAD_MULTICAST", "tma_load", 2, True),
    ("SM100_TMA_2SM_LOAD_IM2COL", "tma_load", 2, False),
    ("SM100_TMA_2SM_LOAD_IM2COL_MULTICAST", "tma_load", 2, True),
    ("SM100_TMA_LOAD_2D_GATHER4", "tma_load", 1, False),
    ("SM100_TMA_STORE_2D_SCATTER4", "tma_store", 1, False),
)


def _form(name: str, kind: CopyKind, ctas: int, multicast: bool) -> CopyAtom:
    layout = Layout((ctas, 1), (1 if ctas > 1 else 0, 1))
    return CopyAtom(
        name=name,
        kind=kind,
        thr_id=Layout(ctas, 1 if ctas > 1 else 0),
        src_layout=layout,
        dst_layout=layout,
        ref_layout=layout,
        access_bits=0,
        min_arch=100 if name.startswith("SM100") else 90,
        ptx="",
        multicast=multicast,
    )


@cache
def bulk_copies() -> tuple[CopyAtom, ...]:
    """The forms of TMA and of the plain bulk copy for which we have no emitter."""
    return tuple(_form(*columns) for columns in _OTHER_FORMS)
