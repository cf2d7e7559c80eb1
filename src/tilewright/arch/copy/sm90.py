"""TMA (sm_90): one thread asks the bulk tensor engine for a box of a tensor.

The box, not the row, says how many bits move: `CopyAtom.sized`.  ``{rank}`` is the number of
coordinates, ``{coords}`` lists them innermost first, ``{hint}`` is empty or an L2 cache policy with
its comma, together with ``{hinted}`` = ".L2::cache_hint".
Source: PTX ISA, `cp.async.bulk.tensor`.
"""

from __future__ import annotations

from tilewright.arch.copy.atom import CopyAtom
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
