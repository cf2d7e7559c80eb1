"""Shared-memory layouts that wgmma and TMA agree on, and how many stages of them fit.

Layouts here are in elements, of a buffer whose start is aligned to the swizzle's repeat.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.arch.mma.atom import Major
from tilewright.arch.swizzle_mode import SWIZZLE_MODES, SwizzleMode, swizzle_mode
from tilewright.errors import LayoutError, ResourceError
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import ComposedLayout
from tilewright.numeric.dtypes import DType

SMEM_CAPACITY_SM90 = 227 * 1024
_ALIGN = 128
# A stage has two 8-byte barriers, full and empty.
_BARRIER_BYTES = 16


@lru_cache(maxsize=128)
def smem_layout_atom(major: Major, mode: str | int | SwizzleMode, dtype: DType) -> ComposedLayout:
    """(MN, K) -> element: the smallest tile of a swizzle mode, 8 rows of its span.

    `mode` is a `SwizzleMode`, its name, or its span in bytes (16: no swizzle).  A K-major atom is
    8 x span, an MN-major atom span x 8.
    Source: CuTe's ``GMMA::Layout_{K,MN}_{INTER,SW32,SW64,SW128}_Atom``.

    >>> from tilewright.numeric.dtypes import BF16
    >>> print(smem_layout_atom("K", 128, BF16))
    Sw<3,3,3> o 0 o (8,64):(64,1)
    >>> print(smem_layout_atom("MN", "64B", BF16))
    Sw<2,3,3> o 0 o (32,8):(1,32)
    """
    row = swizzle_mode(mode)
    span = row.span_elements(dtype)
    shape, stride = ((8, span), (span, 1)) if major == "K" else ((span, 8), (1, span))
    return ComposedLayout(row.on_elements(dtype), 0, Layout(shape, stride))


def widest_swizzle(extent: int, dtype: DType) -> SwizzleMode:
    """The mode of the longest span that divides `extent`.

    `extent` is that of the contiguous direction of the tile that *one warpgroup* reads or writes:
    a span that crosses its border would mix the data of two warpgroups.
    Raises: LayoutError if not even 16 bytes divide it.

    >>> from tilewright.numeric.dtypes import F16
    >>> [widest_swizzle(n, F16).name for n in (192, 96, 48, 24)]
    ['128B', '64B', '32B', 'none']
    """
    for mode in SWIZZLE_MODES:
        if extent > 0 and extent % mode.span_elements(dtype) == 0:
            return mode
    unit = SwizzleMode.unit_elements(dtype)
    raise LayoutError(
        f"widest_swizzle: {extent} {dtype} elements are not a multiple of 16 bytes",
        hint=f"make the contiguous extent of the tile a multiple of {unit}",
    )


def stage_count(
    tile_mnk: tuple[int, int, int],
    a_bits: int,
    b_bits: int,
    carveout_bytes: int = 0,
    capacity: int = SMEM_CAPACITY_SM90,
) -> int:
    """How many stages of an A tile and a B tile fit beside `carveout_bytes` (of the epilogue).

    Each stage takes its two tiles, rounded up to 128 bytes, and two barriers.
    Source: CUTLASS, ``compute_stage_count_or_override`` for sm_90.
    Raises: ResourceError if not one stage fits.

    >>> stage_count((128, 128, 64), 16, 16, carveout_bytes=33792)
    6
    """
    m, n, k = tile_mnk
    tiles = m * k * a_bits // 8 + n * k * b_bits // 8
    stage = _round_up(tiles, _ALIGN) + _BARRIER_BYTES
    free = capacity // _ALIGN * _ALIGN - _round_up(carveout_bytes, _ALIGN)
    if free < stage:
        raise ResourceError(
            f"stage_count: one stage of tile {m}x{n}x{k} takes {stage:,} bytes, "
            f"{max(free, 0):,} are free of {capacity:,}",
            details={"carveout": f"{carveout_bytes:,} bytes"},
            hint="use a smaller tile, or a smaller epilogue buffer",
        )
    return free // stage


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
