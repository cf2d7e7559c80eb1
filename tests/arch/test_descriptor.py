"""The matrix descriptor: its bits, and that walking it visits what the layout stored.

The proof: a tile is written to shared memory element by element through its swizzled layout; then
each wgmma operand of the tile is read through 64 bits alone, and must find its own elements.
"""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.arch.descriptor import (
    SmemDescriptor,
    decode,
    descriptor_of,
    encode,
    operand_byte_offsets,
    swizzle_address,
)
from tilewright.arch.smem import smem_layout_atom
from tilewright.arch.swizzle_mode import SWIZZLE_MODES, SwizzleMode, swizzle_mode
from tilewright.errors import DTypeError, LayoutError
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import ComposedLayout, Swizzle
from tilewright.numeric.dtypes import BF16, E2M1, E4M3, F16, TF32, DType

Modes = list[tuple[int, int]]


def tiled(
    major: str, mode: SwizzleMode, dtype: DType, rows: int, k: int, rows_first: bool
) -> Modes:
    """(extent, stride) of (rows inner, rows outer, K inner, K outer): the tile, atom by atom."""
    span = mode.span_elements(dtype)
    inner = (8, span) if major == "K" else (span, 8)
    row_atoms, k_atoms, size = rows // inner[0], k // inner[1], 8 * span
    row_step, k_step = (size, size * row_atoms) if rows_first else (size * k_atoms, size)
    strides = (span, 1) if major == "K" else (1, span)
    return [
        (inner[0], strides[0]),
        (row_atoms, row_step),
        (inner[1], strides[1]),
        (k_atoms, k_step),
    ]


def first(extent: int, inner: tuple[int, int], outer: tuple[int, int]) -> Modes:
    """The modes of the first `extent` coordinates of an (inner, outer) pair."""
    if extent <= inner[0]:
        return [(extent, inner[1]), (1, 0)]
    return [inner, (extent // inner[0], outer[1])]


def layout_of(modes: Modes) -> Layout:
    (s0, d0), (s1, d1), (s2, d2), (s3, d3) = modes
    return Layout(((s0, s1), (s2, s3)), ((d0, d1), (d2, d3)))


CASES = [
    (major, mode, dtype, rows_first)
    for major, mode, dtype, rows_first in itertools.product(
        ("K", "MN"), SWIZZLE_MODES, (BF16, TF32, E4M3), (True, False)
    )
    if major == "K" or dtype is BF16
]


@pytest.mark.parametrize(("major", "mode", "dtype", "rows_first"), CASES, ids=str)
def test_walking_a_descriptor_visits_what_the_layout_stored(
    major: str, mode: SwizzleMode, dtype: DType, rows_first: bool
) -> None:
    rows, size = 128, dtype.storage_bits // 8
    k, step, operand_rows = 256 // size, 32 // size, 64
    modes = tiled(major, mode, dtype, rows, k, rows_first)
    tile = ComposedLayout(mode.on_elements(dtype), 0, layout_of(modes))
    assert tile.inner == smem_layout_atom(major, mode, dtype).inner  # type: ignore[arg-type]
    base = 33 * mode.repeat_bytes  # aligned to the pattern of this mode and to no more
    memory = {base + size * tile(r, c): (r, c) for r in range(rows) for c in range(k)}
    assert len(memory) == rows * k

    operand_modes = first(operand_rows, *modes[:2]) + first(step, *modes[2:])
    for row0, k0 in itertools.product(range(0, rows, operand_rows), range(0, k, step)):
        operand = ComposedLayout(tile.inner, tile.outer(row0, k0), layout_of(operand_modes))
        found = descriptor_of(operand, major, dtype)  # type: ignore[arg-type]
        bits = encode(
            base + found.start_address, found.leading_bytes, found.stride_bytes, found.swizzle
        )
        walked = operand_byte_offsets(decode(bits), major, operand_rows, step, size)  # type: ignore[arg-type]
        read = [memory.get(swizzle_address(mode, address)) for address in walked]
        expected = [(row0 + r, k0 + c) for c in range(step) for r in range(operand_rows)]
        assert read == expected


@pytest.mark.parametrize("field", ["leading_bytes", "stride_bytes", "start_address"])
def test_the_proof_has_teeth(field: str) -> None:
    """One field of an MN-major descriptor 16 bytes off, and the walk reads something else."""
    good = SmemDescriptor(0x400, 8192, 1024, "128B")
    values = {f: getattr(good, f) for f in good.__slots__}
    wrong = SmemDescriptor(**{**values, field: values[field] + 16})
    walks = [operand_byte_offsets(d, "MN", 128, 16, 2) for d in (good, wrong)]
    assert walks[0] != walks[1]


def test_the_values_of_the_playbook() -> None:
    """bf16, BK = 64, stored slab by slab: what the hand-written kernels use."""
    k_major = Layout(((8, 8), 16), ((64, 512), 1))
    swizzle = swizzle_mode("128B").on_elements(BF16)
    found = descriptor_of(ComposedLayout(swizzle, 0, k_major), "K", BF16)
    assert found == SmemDescriptor(0, 16, 1024, "128B")
    stepped = descriptor_of(ComposedLayout(swizzle, 16, k_major), "K", BF16)
    assert stepped == SmemDescriptor(32, 16, 1024, "128B")
    slabs = Layout(((64, 4), (8, 2)), ((1, 64 * 64), (64, 512)))
    found = descriptor_of(ComposedLayout(swizzle, 0, slabs), "MN", BF16)
    assert found == SmemDescriptor(0, 64 * 128, 1024, "128B")


def test_bits() -> None:
    bits = encode(0x12340, 0x2000, 0x400, "64B", base_offset=5)
    assert bits & 0x3FFF == 0x1234
    assert bits >> 16 & 0x3FFF == 0x200
    assert bits >> 32 & 0x3FFF == 0x40
    assert bits >> 49 & 7 == 5
    assert bits >> 62 == 2


UNITS = st.integers(0, 0x3FFF).map(lambda x: 16 * x)
DESCRIPTORS = st.builds(
    SmemDescriptor, UNITS, UNITS, UNITS, st.sampled_from(SWIZZLE_MODES).map(str), st.integers(0, 7)
)


@given(DESCRIPTORS)
def test_round_trip(descriptor: SmemDescriptor) -> None:
    assert decode(descriptor.encode()) == descriptor


def test_the_rank_of_a_cluster_does_not_leak_into_the_leading_offset() -> None:
    assert encode(0x0300_0400, 16, 1024, "128B") == encode(0x400, 16, 1024, "128B")


def test_advancing_the_low_bits_advances_the_address() -> None:
    step = encode(0x400, 16, 1024, "128B") + (32 >> 4)
    assert decode(step).start_address == 0x420


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((8, 16, 16, "none"), "matrix descriptor: start address 8 is not a multiple of 16 bytes"),
        ((0, 40, 16, "none"), "leading byte offset 40 is not a multiple of 16 bytes"),
        ((0, 16, -16, "none"), "stride byte offset -16 is not a multiple of 16 bytes"),
        ((0, 16, 1 << 18, "none"), "stride byte offset 262144 exceeds 262128 bytes"),
        ((0, 16, 16, "none", 8), "base offset 8 is not in 0..7"),
    ],
)
def test_encode_refuses(fields: tuple[int, int, int, str], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        encode(*fields)  # type: ignore[arg-type]


def test_a_layout_that_no_descriptor_describes() -> None:
    padded = Layout(((8, 8), 16), ((72, 8 * 72), 1))
    swizzle = swizzle_mode("128B").on_elements(F16)
    with pytest.raises(LayoutError) as error:
        descriptor_of(ComposedLayout(swizzle, 0, padded), "K", F16)
    assert str(error.value) == (
        "matrix descriptor: Sw<3,3,3> o 0 o ((8,8),16):((72,576),1) is not a K-major layout of "
        "swizzle 128B: row 1 is stored at byte 144, wgmma would read byte 128\n"
        "  descriptor = SmemDescriptor(start_address=0, leading_bytes=16, stride_bytes=1152, "
        "swizzle='128B', base_offset=0)"
    )


def test_the_wrong_major_is_refused() -> None:
    rows = ComposedLayout(Swizzle(3, 3, 3), 0, Layout(((8, 8), 16), ((64, 512), 1)))
    with pytest.raises(LayoutError, match="is not a MN-major layout of swizzle 128B: row 1"):
        descriptor_of(rows, "MN", F16)


def test_a_swizzle_of_another_width_is_refused() -> None:
    layout = Layout((64, 16), (64, 1))
    with pytest.raises(LayoutError) as error:
        descriptor_of(ComposedLayout(Swizzle(3, 4, 3), 0, layout), "K", F16)
    assert str(error.value) == (
        "matrix descriptor: Sw<3,4,3> o 0 o (64,16):(64,1) has no swizzle that wgmma applies to "
        "f16; expected Sw<3,3,3> or fewer bits"
    )


def test_other_refusals() -> None:
    with pytest.raises(LayoutError, match=r"expected a layout of \(rows, K\), got 64:1"):
        descriptor_of(Layout(64, 1), "K", F16)
    with pytest.raises(DTypeError, match="wgmma has no 4-bit type e2m1"):
        descriptor_of(Layout((64, 16), (64, 1)), "K", E2M1)
    moving = ComposedLayout(Swizzle(3, 3, 3), (0, 0), Layout((64, 16), (64, 1)))
    with pytest.raises(LayoutError, match="is not a constant; expected it in the start address"):
        descriptor_of(moving, "K", F16)
