"""The smallest swizzle that frees accesses of bank conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.layout.analysis import Access, bank_conflicts, bank_phases, lane_addresses
from tilewright.layout.modes import cosize
from tilewright.layout.swizzle import AnyLayout, Swizzle


@dataclass(frozen=True, slots=True)
class SwizzleChoice:
    """The answer of `smallest_swizzle`: the swizzle, or None with the reason.

    `ways_before` and `ways_after` are the worst ways without a swizzle and with `swizzle` (with the
    best one tried, if none is free of conflicts).  The swizzled offsets stay inside a buffer of
    `buffer_elements`.
    """

    swizzle: Swizzle | None
    reason: str
    ways_before: int
    ways_after: int
    buffer_elements: int
    num_tried: int


_Offsets = list[list[int | None]]
"""Element offsets of the lanes of each access."""


def smallest_swizzle(
    layout: AnyLayout, accesses: Access | Sequence[Access], max_bits: int = 5
) -> SwizzleChoice:
    """The smallest ``Swizzle(B,M,S)`` whose composition with `layout` makes all accesses free of
    conflicts: fewest bits B, then lowest base M, then shortest shift S.

    M is at least the log2 of the widest access in elements, so that accesses stay whole; a layout
    that needs none gets B = 0.
    Raises: LayoutError as `bank_conflicts`, for `layout` as it is.

    >>> from tilewright.layout.layout import Layout
    >>> print(smallest_swizzle(Layout(32, 32), Access(32)).swizzle)
    Sw<5,0,5>
    >>> rows = Access(tuple((r, 0) for r in range(8)), 16, 16)  # one 8x8 ldmatrix
    >>> print(smallest_swizzle(Layout((8, 64), (64, 1)), rows).swizzle)
    Sw<3,3,3>
    """
    wanted = [accesses] if isinstance(accesses, Access) else list(accesses)
    offsets = [_element_offsets(layout, access) for access in wanted]
    before = _worst(offsets, wanted, Swizzle(0, 0, 0))
    base = max((_log2(-(-8 * a.access_bytes // a.bits)) for a in wanted), default=0)
    if before <= 1:
        plain = Swizzle(0, base, 0)
        return SwizzleChoice(plain, "no swizzle is needed", before, before, _room(layout, plain), 0)
    top = max((o for row in offsets for o in row if o is not None), default=0).bit_length()
    best, best_ways, tried = Swizzle(0, base, 0), before, 0
    for bits in range(1, max_bits + 1):
        for low in range(base, top):
            for shift in range(bits, top - low):
                candidate, tried = Swizzle(bits, low, shift), tried + 1
                ways = _worst(offsets, wanted, candidate)
                if ways < best_ways:
                    best, best_ways = candidate, ways
                if ways <= 1:
                    reason = f"{before}-way without, conflict-free with {candidate}"
                    room = _room(layout, candidate)
                    return SwizzleChoice(candidate, reason, before, 1, room, tried)
    reason = _why_none(offsets, wanted, base, max_bits, tried, best, best_ways)
    return SwizzleChoice(None, reason, before, best_ways, _room(layout, best), tried)


def _element_offsets(layout: AnyLayout, access: Access) -> list[int | None]:
    bits = access.bits
    bank_conflicts(layout, access.threads, access.access_bytes, access.element_bits)
    addresses = lane_addresses(layout, access.threads, access.access_bytes, access.element_bits)
    return [None if a is None else a * 8 // bits for a in addresses]


def _worst(offsets: _Offsets, accesses: list[Access], swizzle: Swizzle) -> int:
    worst = 1
    for row, access in zip(offsets, accesses, strict=True):
        moved = [None if o is None else swizzle(o) * access.bits // 8 for o in row]
        worst = max([worst, *(p.ways for p in bank_phases(moved, access.access_bytes))])
    return worst


def _room(layout: AnyLayout, swizzle: Swizzle) -> int:
    """The cosize of `layout`, rounded up to the whole blocks that the swizzle permutes."""
    block = 1 << (swizzle.base + swizzle.bits) if swizzle.bits else 1
    return -(-int(cosize(layout)) // block) * block


def _why_none(
    offsets: _Offsets,
    accesses: list[Access],
    base: int,
    max_bits: int,
    tried: int,
    best: Swizzle,
    best_ways: int,
) -> str:
    varying = 0
    for row in offsets:
        known = [o for o in row if o is not None]
        for o in known:
            varying |= o ^ known[0]
    bits = max((a.bits for a in accesses), default=32)
    above = [i for i in range(varying.bit_length()) if varying >> i & 1 and (bits << i) >= 1024]
    if tried == 0:
        return "the offsets have too few bits for a swizzle to mix"
    text = f"none of the {tried} swizzles of up to {max_bits} bits with base >= {base} is free of "
    text += f"conflicts; the best, {best}, is {best_ways}-way"
    if above and above[-1] - above[0] >= max_bits:
        text += (
            f": the lanes differ in offset bits {above[0]} to {above[-1]}, and a swizzle moves "
            f"only {max_bits} neighbouring bits"
        )
    return text


def _log2(value: int) -> int:
    return max(value, 1).bit_length() - 1
