"""The four modes: one XOR for layouts, wgmma and TMA."""

import pytest

from tilewright.arch.descriptor import swizzle_address
from tilewright.arch.swizzle_mode import (
    SWIZZLE_MODES,
    SwizzleMode,
    mode_of_descriptor_code,
    swizzle_mode,
)
from tilewright.errors import LayoutError
from tilewright.numeric.dtypes import BF16, E4M3, F32, F64, I4, DType


def test_codes() -> None:
    """wgmma's codes (PTX ISA) and the tensor map's (CUtensorMapSwizzle) run in opposite order."""
    codes = {m.name: (m.descriptor_code, m.tensormap_code) for m in SWIZZLE_MODES}
    assert codes == {"none": (0, 0), "128B": (1, 3), "64B": (2, 2), "32B": (3, 1)}
    assert all(mode_of_descriptor_code(m.descriptor_code) is m for m in SWIZZLE_MODES)


def test_lookup() -> None:
    for mode in SWIZZLE_MODES:
        assert (
            swizzle_mode(mode.name) is swizzle_mode(mode.span_bytes) is swizzle_mode(mode) is mode
        )
    with pytest.raises(LayoutError) as error:
        swizzle_mode("256B")
    assert str(error.value) == (
        "swizzle mode: '256B' is not one of 'none', '32B', '64B', '128B' "
        "or a span of 16, 32, 64 or 128 bytes"
    )


@pytest.mark.parametrize("mode", SWIZZLE_MODES, ids=str)
def test_the_address_xor_is_the_one_of_the_programming_guide(mode: SwizzleMode) -> None:
    chosen = {"none": 0, "32B": 1, "64B": 3, "128B": 7}[mode.name]
    for address in range(0, 4096, 16):
        unit, row = address >> 4 & 7, address >> 7 & 7
        expected = address & ~0x70 | (unit ^ row & chosen) << 4
        assert swizzle_address(mode.name, address + 5) == expected + 5
        assert mode.on_bytes(address) == expected


@pytest.mark.parametrize("dtype", [E4M3, BF16, F32, F64], ids=str)
@pytest.mark.parametrize("mode", SWIZZLE_MODES, ids=str)
def test_elements_and_bytes_agree(mode: SwizzleMode, dtype: DType) -> None:
    size = dtype.storage_bits // 8
    for element in range(2048 // size):
        assert mode.on_elements(dtype)(element) * size == mode.on_bytes(element * size)


def test_sub_byte_elements() -> None:
    assert swizzle_mode("128B").span_elements(I4) == 256
    assert swizzle_mode("128B").on_elements(I4).base == 5


def test_base_offset_shifts_the_phase() -> None:
    """A pattern that starts in row 3 of the XOR's period reads as one that starts in row 0."""
    start = 3 * 128
    for offset in range(0, 1024, 16):
        moved = swizzle_address("128B", start + offset, base_offset=3)
        assert moved & 0x70 == swizzle_address("128B", offset) & 0x70
