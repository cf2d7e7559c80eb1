"""`cp.async` (sm_80): 4, 8 or 16 bytes from global to shared memory, past the registers.

With zero fill the instruction reads `src_size` bytes (0 to the size) and writes zeros for the rest.
Source: PTX ISA, `cp.async`.
"""

from __future__ import annotations

from typing import Literal

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.universal import one_thread
from tilewright.layout.layout import Layout


def _row(cache: Literal["ca", "cg"], bits: int, zero_fill: bool) -> CopyAtom:
    level = "CACHEALWAYS" if cache == "ca" else "CACHEGLOBAL"
    layout = one_thread(bits)
    size = ", {src_size}" if zero_fill else ""
    return CopyAtom(
        name=f"SM80_CP_ASYNC_{level}{'_ZFILL' if zero_fill else ''}_{bits}b",
        kind="cp_async",
        thr_id=Layout(1, 0),
        src_layout=layout,
        dst_layout=layout,
        ref_layout=layout,
        access_bits=bits,
        min_arch=80,
        ptx=f"cp.async.{cache}.shared.global [{{dst}}], [{{src}}], {bits // 8}{size};",
        cache=cache,
        zero_fill=zero_fill,
        requires="cp_async",
    )


CP_ASYNC_COPIES: tuple[CopyAtom, ...] = (
    *(_row("ca", bits, zero_fill) for bits in (32, 64, 128) for zero_fill in (False, True)),
    *(_row("cg", 128, zero_fill) for zero_fill in (False, True)),
)
