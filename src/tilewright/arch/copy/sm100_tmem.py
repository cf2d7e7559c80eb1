"""Copies to and from tensor memory (sm_100): `tcgen05.ld`, `tcgen05.st`, `tcgen05.cp`.

Tensor memory has lanes ("datapaths", dp) of 32-bit columns.  A load takes 16 or 32 lanes, of each
`width` bits, `x` times side by side, into the registers of a warp.  Bits are numbered along a lane,
then lane by lane.  Which thread gets what (x = 1; the repeats follow in further registers):

    shape      lane `r` of tensor memory is shared by
    32dp32b    thread r
    16dp32b    threads r and r + 16: the first and the second half of the columns
    16dp64b    two threads, of 32 bits each: bit 0 of a thread's number is bit 3 of `r`, bit 1 the
               half, and bits 2-4 are the low bits of `r`
    16dp128b   threads 4*(r % 8) + t, 32 bits each; the upper eight lanes follow in a register
    16dp256b   the same, 64 bits each

The instruction addresses tensor memory once for the warp, so that side is seen whole by all.  With
``_16b`` a register holds two 16-bit columns; the bits that move are the same.
Source: PTX ISA, "tcgen05.ld", "Data Movement Shape", "tcgen05.cp".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from tilewright.arch.copy.atom import CopyAtom
from tilewright.layout.layout import Layout

_LANES = 32
_MAX_REGISTERS = 128
_WORD = 32

_Modes = list[tuple[int, int]]


def _grouped(threads: _Modes, bits: _Modes) -> Layout:
    """A layout of modes (extent, stride), those of one element left out."""
    shapes, strides = [], []
    for modes in (threads, bits):
        kept = [mode for mode in modes if mode[0] > 1]
        shapes.append(kept[0][0] if len(kept) == 1 else tuple(mode[0] for mode in kept))
        strides.append(kept[0][1] if len(kept) == 1 else tuple(mode[1] for mode in kept))
    return Layout(tuple(shapes), tuple(strides))


def _32dp32b(x: int) -> Layout:
    return _grouped([(32, _WORD * x)], [(_WORD * x, 1)])


def _16dp32b(x: int) -> Layout:
    half = _WORD * x
    return _grouped([(16, 2 * half), (2, half)], [(half, 1)])


def _16dp64b(x: int) -> Layout:
    lane = 64 * x
    return _grouped([(2, 8 * lane), (2, _WORD), (8, lane)], [(_WORD, 1), (x, 64)])


def _quads(part: int) -> Callable[[int], Layout]:
    """Four threads share a lane, each `part` bits; eight lanes, then eight more."""

    def layout(x: int) -> Layout:
        lane = 4 * part * x
        return _grouped([(4, part), (8, lane)], [(part, 1), (2, 8 * lane), (x, 4 * part)])

    return layout


# Columns: the shape, registers per thread for x = 1, the layout of the registers.
_SHAPES: tuple[tuple[str, int, Callable[[int], Layout]], ...] = (
    ("16dp256b", 4, _quads(64)),
    ("16dp128b", 2, _quads(32)),
    ("16dp64b", 1, _16dp64b),
    ("16dp32b", 1, _16dp32b),
    ("32dp32b", 1, _32dp32b),
)
# `tcgen05.ld.red` also returns the minimum or maximum along a lane.
_STAT_REPEATS = (32, 128)


def _access(name: str, load: bool, registers: Layout, per_thread: int) -> CopyAtom:
    whole = Layout((_LANES, _LANES * per_thread * _WORD), (0, 1))
    return CopyAtom(
        name=f"SM100_TMEM_{name}",
        kind="tmem_load" if load else "tmem_store",
        thr_id=Layout(_LANES, 1),
        src_layout=whole if load else registers,
        dst_layout=registers if load else whole,
        ref_layout=whole,
        access_bits=_WORD * per_thread,
        min_arch=100,
        ptx="",
    )


def _loads_and_stores() -> Iterator[CopyAtom]:
    for load in (True, False):
        word = "LOAD" if load else "STORE"
        for shape, per_repeat, layout in _SHAPES:
            x = 1
            while x * per_repeat <= _MAX_REGISTERS:
                for suffix in ("", "_16b"):
                    name = f"{word}_{shape}{x}x{suffix}"
                    yield _access(name, load, layout(x), x * per_repeat)
                x *= 2
    for x in _STAT_REPEATS:
        yield _access(f"LOAD_STAT_32dp32b{x}x", True, _32dp32b(x), x)


# Columns: the shape, the modes of the bits that it reads, of those that it writes (None: as many,
# in their own order), and how many copies it makes.
_COPIES: tuple[tuple[str, _Modes, _Modes | None, int], ...] = (
    ("128dp256bit", [(128 * 256, 1)], None, 1),
    ("128dp128bit", [(128 * 128, 1)], None, 1),
    ("4dp256bit", [(4, 32), (256, 128)], [(4, 32), (256, 128)], 1),
    ("2x64dp128bitlw0213", [(64, 1), (128, 64), (2, 0)], None, 2),
    ("2x64dp128bitlw0123", [(32, 1), (128, 32), (2, 32 * 128), (2, 0)], None, 2),
    ("4x32dp128bit", [(32, 1), (128, 32), (4, 0)], None, 4),
)


def _shared_copies() -> Iterator[CopyAtom]:
    """`tcgen05.cp`: from shared memory, for one CTA or the same for both of a pair."""
    for shape, read, written, copies in _COPIES:
        size = 1
        for extent, _ in read:
            size *= extent
        for ctas in (1, 2):
            source = _of_ctas(ctas, read)
            target = _of_ctas(ctas, written or [(size, 1)])
            yield CopyAtom(
                name=f"SM100_UTCCP_{shape}_{ctas}cta",
                kind="tmem_copy",
                thr_id=Layout(ctas, 1 if ctas > 1 else 0),
                src_layout=source,
                dst_layout=target,
                ref_layout=target,
                access_bits=size,
                min_arch=100,
                ptx="",
                multiplicity=copies,
            )


def _of_ctas(ctas: int, bits: _Modes) -> Layout:
    if len(bits) == 1:
        return Layout((ctas, bits[0][0]), (0, bits[0][1]))
    return Layout((ctas, tuple(b[0] for b in bits)), (0, tuple(b[1] for b in bits)))


@cache
def tmem_copies() -> tuple[CopyAtom, ...]:
    """Loads, stores, and copies from shared memory."""
    return (*_loads_and_stores(), *_shared_copies())
