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


REDUCTIONS = ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR")
_BULK = "cp.async.bulk.{dst}.{src}.{done} [{{dst}}], [{{src}}], {{bytes}}{barrier};"
_CAST = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
    "[{dst}], [{src}], {bytes}, [{barrier}], {mask};"
)
_COUNTED = "mbarrier::complete_tx::bytes"


def _plain(
    name: str, kind: CopyKind, ptx: str, bits: int = 0, *, multicast: bool = False
) -> CopyAtom:
    """A copy by one thread, of `bits` or of as many as are asked for."""
    layout = one_thread(bits or 1)
    return CopyAtom(
        name=name,
        kind=kind,
        thr_id=Layout(1, 0),
        src_layout=layout,
        dst_layout=layout,
        ref_layout=layout,
        access_bits=bits,
        min_arch=90,
        ptx=ptx,
        multicast=multicast,
        requires="tma",
    )


def _counted(dst: str, src: str) -> str:
    return _BULK.format(dst=dst, src=src, done=_COUNTED, barrier=", [{barrier}]")


BULK_COPIES: tuple[CopyAtom, ...] = (
    _plain("SM90_BULK_COPY_G2S", "bulk", _counted("shared::cluster", "global")),
    _plain("SM90_BULK_COPY_G2S_MULTICAST", "bulk", _CAST, multicast=True),
    _plain("SM90_BULK_COPY_S2S", "bulk", _counted("shared::cluster", "shared::cta")),
    _plain(
        "SM90_BULK_COPY_S2G",
        "bulk",
        _BULK.format(dst="global", src="shared::cta", done="bulk_group", barrier=""),
    ),
    *(
        _plain(
            f"SM90_BULK_REDUCE_{op}",
            "bulk",
            f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op.lower()}.{{type}} "
            "[{dst}], [{src}], {bytes};",
        )
        for op in REDUCTIONS
    ),
)
"""Runs of bytes.  ``{type}`` is the elements', with ".noftz" for sums of f16 and bf16.
Source: PTX ISA, `cp.async.bulk`, `cp.reduce.async.bulk`."""

TMA_REDUCTIONS: tuple[CopyAtom, ...] = tuple(
    _plain(
        f"SM90_TMA_REDUCE_{op}",
        "tma_reduce",
        f"cp.reduce.async.bulk.tensor.{{rank}}d.global.shared::cta.{op.lower()}.tile.bulk_group"
        "{hinted} [{tensormap}, {{{coords}}}], [{src}]{hint};",
    )
    for op in REDUCTIONS
)
"""Source: PTX ISA, `cp.reduce.async.bulk.tensor`."""

STORES_ASYNC: tuple[CopyAtom, ...] = tuple(
    _plain(
        f"SM90_ST_ASYNC_{bits}b",
        "st_async",
        f"st.async.weak.shared::cluster.{_COUNTED}{vector}.b32 [{{dst}}], {{value}}, "
        "[{barrier}];",
        bits,
    )
    for bits, vector in ((32, ""), (64, ".v2"), (128, ".v4"))
)
"""Registers into the shared memory of another CTA.  Source: PTX ISA, `st.async`."""

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
