"""Virtual addresses: where buffers lie when a program runs on the CPU, and how to speak of them."""

from __future__ import annotations

from collections.abc import Iterable

PAGE = 4096
GUARD = 1 << 20
"""Unmapped bytes between two buffers, so that an index slightly too large hits nothing."""
FIRST_ADDRESS = 0x7F00_0000_0000


def describe_address(address: int, buffers: Iterable[tuple[str, int, int]]) -> str:
    """Where an address lies in relation to the nearest of `buffers`: (name, start, bytes).

    >>> describe_address(4166, [("x", 4096, 64)]), describe_address(4100, [("x", 4096, 64)])
    ('6 bytes behind the end of x (64 bytes)', 'byte 4 of x (64 bytes)')
    """
    best = "no buffer is mapped"
    distance = -1
    for name, start, nbytes in buffers:
        before, behind = start - address, address - (start + nbytes)
        size = f"{name} ({nbytes} bytes)"
        if before <= 0 and behind < 0:
            return f"byte {-before} of {size}"
        gap, text = (
            (before, f"{before} bytes before the start of {size}")
            if before > 0
            else (behind, f"{behind} bytes behind the end of {size}")
        )
        if distance < 0 or gap < distance:
            distance, best = gap, text
    return best
