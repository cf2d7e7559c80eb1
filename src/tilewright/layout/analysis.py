"""What a layout costs: shared-memory banks, global sectors, and the widest vector.

Plain functions that return frozen values.  An *access* is one instruction of a warp: lane i begins
at coordinate ``threads(i)`` of a layout and moves `access_bytes` contiguous bytes.

Rule BANKS.  Shared memory has 32 banks of 4 bytes; word w lies in bank ``w % 32``.  A bank serves
one word a cycle, to any number of lanes.  Accesses of up to 4 bytes are served 32 lanes at a time,
of 8 bytes 16 lanes, of 16 bytes 8 lanes: one *phase*.  A phase takes as many cycles (*ways*) as its
busiest bank has different words.
Rule SECTORS.  Global memory moves whole aligned sectors of 32 bytes.
Source: CUDA C++ Programming Guide, "Shared Memory", "Global Memory".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.int_tuple import fmt
from tilewright.layout.inverse import max_alignment
from tilewright.layout.layout import Layout
from tilewright.layout.modes import size
from tilewright.layout.swizzle import AnyLayout, ComposedLayout, Swizzle

BANKS, BANK_BYTES, SECTOR_BYTES, WARP = 32, 4, 32, 32
ACCESS_BYTES = (1, 2, 4, 8, 16)

Threads = Any
"""Where lanes begin: None (lane i at index i), an int n (``n:1``), a layout of lane -> index or
coordinate, or a sequence of coordinates, None in it for a lane that is switched off."""


@dataclass(frozen=True, slots=True)
class Access:
    """One warp-wide access, as the arguments of `bank_conflicts`."""

    threads: Threads
    access_bytes: int = 4
    element_bits: int | None = None

    @property
    def bits(self) -> int:
        """Bits of an element of the layout."""
        return self.element_bits or min(32, 8 * self.access_bytes)


@dataclass(frozen=True, slots=True)
class BankPhase:
    """One phase: `ways` cycles, because `lanes_in_conflict` want `ways` words of bank `bank`."""

    lanes: tuple[int, ...]
    ways: int
    bank: int
    lanes_in_conflict: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BankReport:
    """Bank conflicts of one access, phase by phase."""

    access_bytes: int
    phases: tuple[BankPhase, ...]

    @property
    def ways(self) -> int:
        """The worst phase: 1 is free of conflicts."""
        return max((phase.ways for phase in self.phases), default=1)

    @property
    def cycles(self) -> int:
        """Cycles of all phases; `len(phases)` would be free of conflicts."""
        return sum(phase.ways for phase in self.phases)

    @property
    def is_conflict_free(self) -> bool:
        """Whether every phase takes one cycle."""
        return self.ways <= 1

    def __str__(self) -> str:
        if self.is_conflict_free:
            return f"conflict-free: {_count(len(self.phases), 'phase')} of 1 cycle"
        ways = ", ".join(str(phase.ways) for phase in self.phases)
        return (
            f"{self.ways}-way conflict: {self.cycles} cycles instead of {len(self.phases)} ({ways})"
        )


def bank_conflicts(
    layout: AnyLayout | Sequence[int | None],
    threads: Threads = None,
    access_bytes: int = 4,
    element_bits: int | None = None,
) -> BankReport:
    """Ways per phase when lane i accesses `access_bytes` at ``layout(threads(i))``; rule BANKS.

    `layout` is a layout in elements, or directly the byte address of every lane (None: off).
    Units:  `element_bits` by default those of the access, at most 32.
    Raises: LayoutError for another access width, an address that is not aligned to it, or a swizzle
            that cuts the access into pieces.

    >>> column = Layout(32, 32)
    >>> print(bank_conflicts(column))
    32-way conflict: 32 cycles instead of 1 (32)
    >>> bank_conflicts(ComposedLayout(Swizzle(5, 0, 5), 0, column)).ways
    1
    """
    if access_bytes not in ACCESS_BYTES:
        raise LayoutError(
            f"bank_conflicts: an access of {access_bytes} bytes, expected one of "
            f"{', '.join(map(str, ACCESS_BYTES))}"
        )
    addresses = lane_addresses(layout, threads, access_bytes, element_bits)
    return BankReport(access_bytes, tuple(bank_phases(addresses, access_bytes)))


def lane_addresses(
    layout: AnyLayout | Sequence[int | None],
    threads: Threads = None,
    access_bytes: int = 4,
    element_bits: int | None = None,
) -> tuple[int | None, ...]:
    """The byte address at which every lane begins; None for a lane that is off.

    Raises: LayoutError as `bank_conflicts`.

    >>> lane_addresses(Layout((4, 2), (2, 16)), Layout(4, 2), 4)
    (0, 16, 64, 80)
    """
    if not isinstance(layout, (Layout, ComposedLayout)):
        addresses: tuple[int | None, ...] = tuple(layout)
    else:
        bits = Access(None, access_bytes, element_bits).bits
        _check_whole(layout, access_bytes, bits)
        addresses = tuple(
            None if c is None else _byte_address(layout, c, bits)
            for c in _coordinates(layout, threads)
        )
    for lane, address in enumerate(addresses):
        if address is not None and address % access_bytes:
            raise LayoutError(
                f"lane {lane} accesses {access_bytes} bytes at address {address}, which is not a "
                f"multiple of {access_bytes}",
                details={"layout": layout} if isinstance(layout, (Layout, ComposedLayout)) else {},
            )
    return addresses


def _coordinates(layout: AnyLayout, threads: Threads) -> Iterable[Any]:
    if threads is None:
        return range(size(layout))
    if isinstance(threads, int):
        return range(threads)
    if isinstance(threads, (Layout, ComposedLayout)):
        return [threads(i) for i in range(size(threads))]
    return list(threads)


def _byte_address(layout: AnyLayout, coord: Any, element_bits: int) -> int:
    offset = layout(coord)
    if type(offset) is not int:
        raise LayoutError(
            f"{layout} gives {fmt(offset)} at {fmt(coord)}, expected a static offset in elements"
        )
    address, rest = divmod(offset * element_bits, 8)
    if rest:
        raise LayoutError(
            f"element {offset} of {element_bits} bits begins inside a byte; "
            "lanes access whole bytes"
        )
    return address


def _check_whole(layout: AnyLayout, access_bytes: int, element_bits: int) -> None:
    """A swizzle leaves blocks of 2**M elements together: an access must fit into one."""
    if isinstance(layout, ComposedLayout) and isinstance(layout.inner, Swizzle):
        swizzle = layout.inner
        if swizzle.bits and (element_bits << swizzle.base) < 8 * access_bytes:
            needed = (8 * access_bytes // element_bits).bit_length() - 1
            raise LayoutError(
                f"{swizzle} keeps blocks of {1 << swizzle.base} elements of {element_bits} bits "
                f"together, but an access is {access_bytes} bytes",
                hint=f"a base of {needed} keeps them whole",
            )


def bank_phases(addresses: Sequence[int | None], access_bytes: int) -> Iterable[BankPhase]:
    """The phases of lanes that access `access_bytes` at byte `addresses`; rule BANKS."""
    lanes_per_phase = min(WARP, WARP * BANK_BYTES // access_bytes)
    for start in range(0, len(addresses), lanes_per_phase):
        lanes = range(start, min(start + lanes_per_phase, len(addresses)))
        words: list[dict[int, int]] = [{} for _ in range(BANKS)]
        active = []
        for lane in lanes:
            address = addresses[lane]
            if address is None:
                continue
            active.append(lane)
            last = (address + access_bytes - 1) // BANK_BYTES
            for word in range(address // BANK_BYTES, last + 1):
                words[word % BANKS].setdefault(word, lane)
        if active:
            bank = max(range(BANKS), key=lambda b: len(words[b]))
            conflict = tuple(words[bank].values()) if len(words[bank]) > 1 else ()
            yield BankPhase(tuple(active), len(words[bank]), bank, conflict)


def is_conflict_free(
    layout: AnyLayout | Sequence[int | None],
    threads: Threads = None,
    access_bytes: int = 4,
    element_bits: int | None = None,
) -> bool:
    """Whether every phase of the access takes one cycle; see `bank_conflicts`.

    >>> is_conflict_free(Layout(32, 33)), is_conflict_free(Layout(32, 16))
    (True, False)
    """
    return bank_conflicts(layout, threads, access_bytes, element_bits).is_conflict_free


@dataclass(frozen=True, slots=True)
class Request:
    """One warp's global access: `lanes`, the 32-byte sectors touched, distinct bytes asked for."""

    lanes: tuple[int, ...]
    sectors: int
    bytes_used: int

    @property
    def bytes_moved(self) -> int:
        """Bytes of the sectors."""
        return self.sectors * SECTOR_BYTES

    @property
    def ideal_sectors(self) -> int:
        """Sectors that the same number of bytes would need, packed and aligned."""
        return -(-self.bytes_used // SECTOR_BYTES)


@dataclass(frozen=True, slots=True)
class Coalescing:
    """Global-memory cost of one access, a request per warp."""

    access_bytes: int
    requests: tuple[Request, ...]

    @property
    def sectors(self) -> int:
        """Sectors of all requests."""
        return sum(r.sectors for r in self.requests)

    @property
    def bytes_used(self) -> int:
        """Bytes that lanes asked for, each byte of a request counted once."""
        return sum(r.bytes_used for r in self.requests)

    @property
    def bytes_moved(self) -> int:
        """Bytes that cross the memory system."""
        return sum(r.bytes_moved for r in self.requests)

    @property
    def efficiency(self) -> float:
        """``bytes_used / bytes_moved``."""
        return self.bytes_used / self.bytes_moved if self.bytes_moved else 1.0

    @property
    def is_coalesced(self) -> bool:
        """Whether no request touches more sectors than its bytes fill."""
        return all(r.sectors == r.ideal_sectors for r in self.requests)

    def __str__(self) -> str:
        return (
            f"{_count(self.sectors, 'sector')} in {_count(len(self.requests), 'request')}: "
            f"{self.bytes_used} of {self.bytes_moved} bytes used ({100 * self.efficiency:.0f} %)"
        )


def coalescing(
    layout: AnyLayout | Sequence[int | None],
    threads: Threads = None,
    access_bytes: int = 4,
    element_bits: int | None = None,
) -> Coalescing:
    """Sectors per request when lane i accesses `access_bytes` at ``layout(threads(i))`` in global
    memory, from a base address aligned to 32 bytes; rule SECTORS.  Arguments as `bank_conflicts`.

    Raises: LayoutError for an address that is not aligned to the access.

    >>> print(coalescing(Layout(32)))
    4 sectors in 1 request: 128 of 128 bytes used (100 %)
    >>> print(coalescing(Layout(32, 8)))
    32 sectors in 1 request: 128 of 1024 bytes used (12 %)
    """
    if access_bytes not in (*ACCESS_BYTES, 32):
        raise LayoutError(
            f"coalescing: an access of {access_bytes} bytes, expected one of "
            f"{', '.join(map(str, (*ACCESS_BYTES, 32)))}"
        )
    addresses = lane_addresses(layout, threads, access_bytes, element_bits)
    requests = []
    for start in range(0, len(addresses), WARP):
        lanes = [
            i for i in range(start, min(start + WARP, len(addresses))) if addresses[i] is not None
        ]
        begins = {addresses[i] for i in lanes}
        sectors = {a // SECTOR_BYTES for a in begins if a is not None}
        if lanes:
            requests.append(Request(tuple(lanes), len(sectors), len(begins) * access_bytes))
    return Coalescing(access_bytes, tuple(requests))


@dataclass(frozen=True, slots=True)
class Vector:
    """The widest vector of a layout: `elements` of it, `bits` wide, and what stops a wider one."""

    elements: int
    bits: int
    limit: str


def widest_vector(
    layout: AnyLayout, element_bits: int, alignment_bytes: int = 16, max_bits: int = 128
) -> Vector:
    """The widest access by which the whole of `layout` can be moved: every aligned block of
    ``elements`` offsets is either wholly in its image or wholly outside.

    `alignment_bytes` is that of the address of offset 0.
    Raises: LayoutError if an element is wider than `max_bits` or not a power of two.

    >>> widest_vector(Layout((64, 8), (1, 64)), 16)
    Vector(elements=8, bits=128, limit='an instruction moves at most 128 bits')
    >>> widest_vector(Layout((6, 8), (1, 6)), 16).elements, widest_vector(Layout(8, 2), 32).elements
    (8, 1)
    >>> widest_vector(Layout((64, 8), (1, 66)), 16)
    Vector(elements=2, bits=32, limit='(64,8):(1,66) has aligned runs of 2 elements')
    """
    if element_bits < 1 or element_bits & (element_bits - 1) or element_bits > max_bits:
        raise LayoutError(
            f"widest_vector: elements of {element_bits} bits, expected a power of two up to "
            f"{max_bits}"
        )
    run = max_alignment(layout)
    run &= -run
    limits = [
        (max_bits // element_bits, f"an instruction moves at most {max_bits} bits"),
        (run, f"{layout} has aligned runs of {_count(run, 'element')}"),
        (
            max(8 * (alignment_bytes & -alignment_bytes) // element_bits, 1),
            f"the address is aligned to {_count(alignment_bytes, 'byte')}",
        ),
    ]
    elements, limit = min(limits, key=lambda pair: pair[0])
    return Vector(elements, elements * element_bits, limit)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
