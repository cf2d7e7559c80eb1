"""What layouts cost: CASES A16 to the letter, laws against brute force, and the messages."""

from __future__ import annotations

import random

import pytest

from tilewright.errors import LayoutError
from tilewright.layout.analysis import (
    Access,
    bank_conflicts,
    coalescing,
    is_conflict_free,
    lane_addresses,
    widest_vector,
)
from tilewright.layout.coverage import coverage, is_injective
from tilewright.layout.layout import Layout, make_identity_layout, make_layout
from tilewright.layout.swizzle import ComposedLayout, Swizzle
from tilewright.layout.swizzle_search import smallest_swizzle


def swizzled(swizzle: Swizzle, layout: Layout) -> ComposedLayout:
    return ComposedLayout(swizzle, 0, layout)


# ---------------------------------------------------------------- CASES A16


@pytest.mark.parametrize(("stride", "ways"), [(32, 32), (64, 32), (16, 16), (33, 1)])
def test_a16_a_column_of_floats(stride: int, ways: int) -> None:
    matrix = Layout((32, 32), (stride, 1))
    assert bank_conflicts(matrix, Layout(32, 1)).ways == ways


@pytest.mark.parametrize(("bits", "ways"), [(5, 1), (3, 4), (2, 8)])
def test_a16_the_column_swizzled(bits: int, ways: int) -> None:
    matrix = swizzled(Swizzle(bits, 0, 5), Layout((32, 32), (32, 1)))
    assert bank_conflicts(matrix, Layout(32, 1)).ways == ways


@pytest.mark.parametrize("floats", [1, 2, 4, 8])
def test_a16_scalar_reads_at_a_stride(floats: int) -> None:
    assert bank_conflicts(Layout(32, floats)).ways == floats


@pytest.mark.parametrize(("stride", "ways"), [(4, 1), (8, 2)])
def test_a16_128_bit_reads(stride: int, ways: int) -> None:
    report = bank_conflicts(Layout(32, stride), None, 16, 32)
    assert report.ways == ways
    assert [len(phase.lanes) for phase in report.phases] == [8, 8, 8, 8]


@pytest.mark.parametrize(
    ("swizzle", "ways"), [(None, 8), (Swizzle(3, 3, 4), 1), (Swizzle(3, 3, 3), 2)]
)
def test_a16_ldmatrix_of_an_m_major_tile(swizzle: Swizzle | None, ways: int) -> None:
    tile = Layout((128, 8), (1, 128))
    rows = [(0, k) for k in range(8)]  # 8 rows of 16 bytes
    seen = tile if swizzle is None else swizzled(swizzle, tile)
    assert bank_conflicts(seen, rows, 16, 16).ways == ways


def test_a16_vectors_of_eight_stay_contiguous() -> None:
    seen = swizzled(Swizzle(3, 3, 4), Layout((128, 8), (1, 128)))
    for start in range(0, 1024, 8):
        run = [seen(start + i) for i in range(8)]
        assert run == list(range(run[0], run[0] + 8))
    assert widest_vector(seen, 16).elements == 8


# ---------------------------------------------------------------- banks


def brute_ways(addresses: list[int], width: int) -> list[int]:
    """Ways per phase from the definition, with no shared code."""
    per_phase = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[width]
    out = []
    for start in range(0, len(addresses), per_phase):
        words = set()
        for a in addresses[start : start + per_phase]:
            words |= {(a + i) // 4 for i in range(width)}
        counts = [0] * 32
        for w in words:
            counts[w % 32] += 1
        out.append(max(counts))
    return out


def test_banks_equal_brute_force() -> None:
    draw = random.Random(16)
    for _ in range(500):
        width = draw.choice([1, 2, 4, 8, 16])
        addresses = [draw.randrange(512) * width for _ in range(32)]
        report = bank_conflicts(addresses, access_bytes=width)
        assert [p.ways for p in report.phases] == brute_ways(addresses, width)
        assert report.cycles == sum(p.ways for p in report.phases)


def test_one_word_for_all_lanes_is_free() -> None:
    assert bank_conflicts(Layout(32, 0)).is_conflict_free
    assert bank_conflicts(Layout((2, 16), (0, 1)), None, 2).is_conflict_free


def test_64_bit_accesses_have_two_phases() -> None:
    report = bank_conflicts(Layout(32, 2), None, 8, 32)
    assert [p.lanes for p in report.phases] == [tuple(range(16)), tuple(range(16, 32))]
    assert report.is_conflict_free
    assert bank_conflicts(Layout(32, 4), None, 8, 32).ways == 2


def test_report_names_bank_and_lanes() -> None:
    report = bank_conflicts(Layout(4, 32))
    assert report.phases[0].bank == 0
    assert report.phases[0].lanes_in_conflict == (0, 1, 2, 3)
    assert str(report) == "4-way conflict: 4 cycles instead of 1 (4)"
    assert str(bank_conflicts(Layout(32))) == "conflict-free: 1 phase of 1 cycle"


def test_lanes_that_are_off_take_no_part() -> None:
    assert bank_conflicts([0, None, 128, None], access_bytes=4).phases[0].lanes == (0, 2)
    assert bank_conflicts([None] * 32, access_bytes=16).phases == ()
    assert bank_conflicts(Layout(32, 32), [0, None, 1]).ways == 2


def test_several_warps_are_several_phases() -> None:
    assert [p.ways for p in bank_conflicts(Layout((32, 2), (1, 0))).phases] == [1, 1]


def test_threads_may_be_a_layout_of_coordinates() -> None:
    tile = Layout((8, 16), (16, 1))
    by_row = make_layout(make_identity_layout((8, 4)), Layout(1, 0))[0]
    assert lane_addresses(tile, by_row) == lane_addresses(
        tile, [(i % 8, i // 8) for i in range(32)]
    )


def test_sub_byte_elements() -> None:
    assert lane_addresses(Layout(4, 8), None, 4, 4) == (0, 4, 8, 12)


# ---------------------------------------------------------------- smallest swizzle


@pytest.mark.parametrize(
    ("layout", "access", "found"),
    [
        (Layout((32, 32), (32, 1)), Access(32), "Sw<5,0,5>"),
        (Layout((32, 16), (16, 1)), Access(32), "Sw<4,0,5>"),
        (Layout((8, 64), (64, 1)), Access(tuple((r, 0) for r in range(8)), 16, 16), "Sw<3,3,3>"),
        (Layout((8, 32), (32, 1)), Access(tuple((r, 0) for r in range(8)), 16, 16), "Sw<2,3,3>"),
        (Layout((128, 8), (1, 128)), Access(tuple((0, k) for k in range(8)), 16, 16), "Sw<3,3,4>"),
        (Layout((32, 32), (33, 1)), Access(32), "Sw<0,0,0>"),
    ],
)
def test_smallest_swizzle(layout: Layout, access: Access, found: str) -> None:
    choice = smallest_swizzle(layout, access)
    assert str(choice.swizzle) == found
    assert choice.ways_after == 1
    seen = swizzled(choice.swizzle, layout)  # type: ignore[arg-type]
    assert is_conflict_free(seen, access.threads, access.access_bytes, access.element_bits)
    assert {seen(i) for i in range(32)} <= set(range(choice.buffer_elements))


def test_no_smaller_swizzle_would_do() -> None:
    layout, access = Layout((32, 32), (32, 1)), Access(32)
    choice = smallest_swizzle(layout, access)
    assert choice.swizzle is not None
    for bits in range(choice.swizzle.bits):
        for base in range(8):
            for shift in range(bits, 10):
                seen = swizzled(Swizzle(bits, base, shift), layout)
                assert not is_conflict_free(seen, 32)


def test_a_float_tile_read_by_rows_and_columns() -> None:
    tile = Layout((32, 128), (128, 1))
    column, row = Access(tuple((i, 0) for i in range(32))), Access(tuple((0, i) for i in range(32)))
    choice = smallest_swizzle(tile, [column, row])
    assert str(choice.swizzle) == "Sw<5,0,7>"
    assert choice.ways_before == 32
    assert choice.reason == "32-way without, conflict-free with Sw<5,0,7>"
    assert choice.buffer_elements == 32 * 128


def test_a_swizzle_pads_a_ragged_buffer() -> None:
    choice = smallest_swizzle(Layout((32, 20), (32, 1)), Access(32))
    assert choice.buffer_elements == 32 * 32


def test_no_swizzle_and_why() -> None:
    scattered = Layout((4, 8), (32, 4096))
    choice = smallest_swizzle(scattered, Access(32))
    assert choice.swizzle is None
    assert choice.ways_before == 32
    assert choice.ways_after == 4
    assert choice.reason == (
        "none of the 395 swizzles of up to 5 bits with base >= 0 is free of conflicts; the best, "
        "Sw<3,0,12>, is 4-way: the lanes differ in offset bits 5 to 14, and a swizzle moves only "
        "5 neighbouring bits"
    )


def test_no_swizzle_where_there_is_nothing_to_mix() -> None:
    wide = Access((0, 64), 16, 16)
    choice = smallest_swizzle(Layout(128), wide, max_bits=0)
    assert choice.swizzle is None
    assert choice.reason == "the offsets have too few bits for a swizzle to mix"


# ---------------------------------------------------------------- sectors


@pytest.mark.parametrize(
    ("layout", "width", "sectors"),
    [
        (Layout(32, 1), 4, 4),
        (Layout(32, 2), 4, 8),
        (Layout(32, 8), 4, 32),
        (Layout(32, 4), 16, 16),
        (Layout((8, 4), (1, 1024)), 4, 4),
        (Layout(32, 0), 4, 1),
        (Layout(32, 1), 2, 2),
    ],
)
def test_sectors(layout: Layout, width: int, sectors: int) -> None:
    bits = 32 if width == 16 else None
    assert coalescing(layout, None, width, bits).sectors == sectors


def test_coalescing_counts_bytes_once() -> None:
    report = coalescing(Layout(64, 8), None, 4)
    assert [r.sectors for r in report.requests] == [32, 32]
    assert (report.bytes_used, report.bytes_moved, report.efficiency) == (256, 2048, 0.125)
    assert not report.is_coalesced
    assert coalescing(Layout(32, 0)).bytes_used == 4
    assert coalescing(Layout(32)).is_coalesced
    assert coalescing([None], access_bytes=4).efficiency == 1.0


def test_a_misplaced_row_costs_a_sector() -> None:
    shifted = [4 + 4 * i for i in range(32)]
    report = coalescing(shifted, access_bytes=4)
    assert report.sectors == 5
    assert not report.is_coalesced


def test_accesses_of_32_bytes_are_for_global_memory() -> None:
    assert coalescing(Layout(32, 8), None, 32, 32).sectors == 32
    with pytest.raises(LayoutError, match=r"access of 32 bytes, expected one of 1, 2, 4, 8, 16$"):
        bank_conflicts(Layout(32, 8), None, 32, 32)


# ---------------------------------------------------------------- vectors


@pytest.mark.parametrize(
    ("layout", "bits", "elements"),
    [
        (Layout((64, 8), (1, 64)), 16, 8),
        (Layout((64, 8), (1, 64)), 32, 4),
        (Layout((8, 64), (64, 1)), 16, 8),
        (Layout((64, 8), (1, 68)), 16, 4),
        (Layout((64, 8), (1, 65)), 16, 1),
        (Layout((6, 4), (1, 6)), 16, 8),
        (Layout(8, 2), 8, 1),
        (Layout(64), 4, 32),
        (ComposedLayout(Swizzle(3, 2, 3), 0, Layout((8, 64), (64, 1))), 16, 4),
        (ComposedLayout(Swizzle(3, 3, 3), 4, Layout((8, 64), (64, 1))), 16, 4),
    ],
)
def test_widest_vector(layout: Layout, bits: int, elements: int) -> None:
    found = widest_vector(layout, bits)
    assert (found.elements, found.bits) == (elements, elements * bits)
    image = {layout(i) for i in range(512) if i < len_of(layout)}
    blocks = {o // elements for o in image}
    assert {b * elements + i for b in blocks for i in range(elements)} == image


def len_of(layout: Layout) -> int:
    total = 1
    for extent in layout.shape if isinstance(layout.shape, tuple) else (layout.shape,):
        total *= extent
    return total


def test_what_limits_a_vector() -> None:
    tile = Layout((64, 8), (1, 64))
    assert widest_vector(tile, 16, alignment_bytes=4).limit == "the address is aligned to 4 bytes"
    assert widest_vector(tile, 16, alignment_bytes=6).elements == 1
    assert widest_vector(tile, 16).limit == "an instruction moves at most 128 bits"
    assert widest_vector(tile, 16, 32, 256).elements == 16


# ---------------------------------------------------------------- coverage


def test_coverage() -> None:
    assert coverage(Layout((4, (2, 3)), (6, (3, 1)))).is_exact
    gaps = coverage(Layout(4, 2), 8)
    assert gaps.missing == (1, 3, 5, 7)
    assert str(gaps) == "missing: 1, 3, 5, 7"
    twice = coverage(Layout((2, 2), (1, 1)), 3)
    assert twice.repeated == ((1, 2),)
    assert coverage(Layout(4), 3).outside == (3,)
    assert str(coverage(Layout(1), 20)).endswith("and 11 more")


def test_coverage_of_coordinates() -> None:
    assert coverage(make_identity_layout((3, 4))).is_exact
    part = coverage(make_identity_layout((3, 4)), (4, 3))
    assert part.missing == ((3, 0), (3, 1), (3, 2))
    assert part.outside == ((0, 3), (1, 3), (2, 3))
    with pytest.raises(LayoutError, match=r"coordinate \(0,0\) has no place in the extent 12"):
        coverage(make_identity_layout((3, 4)), 12)


def test_coverage_of_a_swizzled_tile() -> None:
    assert coverage(swizzled(Swizzle(3, 3, 3), Layout((8, 64), (64, 1)))).is_exact


def test_is_injective() -> None:
    assert is_injective(Layout((4, 3), (3, 1)))
    assert is_injective(Layout((4, 3), (1, 2))) is False
    assert is_injective(Layout((1 << 20, 4), (4, 1))) is True
    assert is_injective(Layout((1 << 20, 4), (1, 0))) is False
    assert is_injective(Layout((1 << 20, 4), (2, 3))) is None
    assert is_injective(swizzled(Swizzle(3, 3, 3), Layout((8, 64), (64, 1))))
    big = Layout((1 << 10, 1 << 10), ((1 << 10), 1))
    assert is_injective(ComposedLayout(Layout(1 << 20), 0, big)) is None


# ---------------------------------------------------------------- messages


def test_messages() -> None:
    with pytest.raises(LayoutError, match="an access of 3 bytes, expected one of 1, 2, 4, 8, 16"):
        bank_conflicts(Layout(32), None, 3)
    with pytest.raises(LayoutError, match="coalescing: an access of 64 bytes, expected one of"):
        coalescing(Layout(32), None, 64)
    with pytest.raises(
        LayoutError, match="lane 1 accesses 16 bytes at address 4, which is not a multiple of 16"
    ):
        bank_conflicts(Layout(32), None, 16, 32)
    with pytest.raises(LayoutError, match="element 1 of 4 bits begins inside a byte"):
        bank_conflicts(Layout(32), None, 1, 4)
    with pytest.raises(LayoutError, match="elements of 12 bits, expected a power of two up to 128"):
        widest_vector(Layout(32), 12)
    with pytest.raises(LayoutError, match=r"gives \(0,0\) at 0, expected a static offset"):
        bank_conflicts(make_identity_layout((4, 8)))


def test_a_swizzle_that_cuts_the_access() -> None:
    seen = swizzled(Swizzle(5, 0, 5), Layout((32, 32), (32, 1)))
    with pytest.raises(LayoutError) as caught:
        bank_conflicts(seen, 32, 16, 32)
    assert str(caught.value) == (
        "Sw<5,0,5> keeps blocks of 1 elements of 32 bits together, but an access is 16 bytes\n"
        "  hint: a base of 2 keeps them whole"
    )
