"""Plain copies: one access of 8 to 128 bits by one thread, between any two memories."""

from __future__ import annotations

from tilewright.arch.copy.atom import CopyAtom
from tilewright.layout.layout import Layout

WIDTHS: tuple[int, ...] = (8, 16, 32, 64, 128)


def one_thread(bits: int) -> Layout:
    """(thread, bit) -> bit, for the only thread."""
    return Layout((1, bits), (0, 1))


def _row(bits: int) -> CopyAtom:
    layout = one_thread(bits)
    return CopyAtom(
        name=f"UniversalCopy_{bits}b",
        kind="universal",
        thr_id=Layout(1, 0),
        src_layout=layout,
        dst_layout=layout,
        ref_layout=layout,
        access_bits=bits,
        min_arch=80,
        ptx="",  # written as C++: the compiler chooses the instruction by memory
    )


UNIVERSAL_COPIES: tuple[CopyAtom, ...] = tuple(_row(bits) for bits in WIDTHS)
