"""Layout atoms, the choice of a swizzle, stage counts."""

import pytest

from tilewright.arch.smem import smem_layout_atom, stage_count, widest_swizzle
from tilewright.arch.swizzle_mode import SWIZZLE_MODES, SwizzleMode
from tilewright.arch.thread_value import mode_offsets
from tilewright.errors import LayoutError, ResourceError
from tilewright.numeric.dtypes import BF16, E2M1, E4M3, F16, F32, F64, DType


@pytest.mark.parametrize("dtype", [E2M1, E4M3, BF16, F32, F64], ids=str)
@pytest.mark.parametrize("mode", SWIZZLE_MODES, ids=str)
@pytest.mark.parametrize("major", ["K", "MN"])
def test_an_atom_fills_its_repeat(major: str, mode: SwizzleMode, dtype: DType) -> None:
    atom = smem_layout_atom(major, mode, dtype)  # type: ignore[arg-type]
    offsets = sorted(atom.inner(o) for o in mode_offsets(atom.shape, atom.stride))
    assert offsets == list(range(len(offsets)))
    assert len(offsets) * dtype.storage_bits == 8 * mode.repeat_bytes


def test_128B_k_major_has_no_bank_conflict_in_a_column() -> None:
    """Eight rows of the same 16-byte column land in eight different units of 128 bytes."""
    atom = smem_layout_atom("K", "128B", F16)
    for column in range(0, 64, 8):
        assert len({atom(row, column) * 2 % 128 // 16 for row in range(8)}) == 8


@pytest.mark.parametrize(
    ("extent", "name"),
    [
        (256, "128B"),
        (192, "128B"),
        (96, "64B"),
        (32, "64B"),
        (16, "32B"),
        (24, "none"),
        (8, "none"),
    ],
)
def test_widest_swizzle_divides_the_extent(extent: int, name: str) -> None:
    assert widest_swizzle(extent, F16).name == name


def test_no_swizzle_fits() -> None:
    with pytest.raises(LayoutError) as error:
        widest_swizzle(20, F16)
    assert str(error.value) == (
        "widest_swizzle: 20 f16 elements are not a multiple of 16 bytes\n"
        "  hint: make the contiguous extent of the tile a multiple of 8"
    )
    with pytest.raises(LayoutError, match="widest_swizzle: 0 f16 elements"):
        widest_swizzle(0, F16)


def test_stage_count_is_the_most_that_fit() -> None:
    for carveout in range(0, 200_000, 7_000):
        stages = stage_count((128, 128, 64), 16, 16, carveout)
        used = stages * (2 * 128 * 64 * 2 + 16)
        free = 232448 - -(-carveout // 128) * 128
        assert used <= free < used + 2 * 128 * 64 * 2 + 16
    assert stage_count((128, 256, 64), 16, 16) == 4
    assert stage_count((128, 128, 128), 8, 4) == 9


def test_no_stage_fits() -> None:
    with pytest.raises(ResourceError) as error:
        stage_count((256, 256, 128), 16, 16, carveout_bytes=120_000)
    assert str(error.value) == (
        "stage_count: one stage of tile 256x256x128 takes 131,088 bytes, "
        "112,384 are free of 232,448\n"
        "  carveout = 120,000 bytes\n"
        "  hint: use a smaller tile, or a smaller epilogue buffer"
    )
