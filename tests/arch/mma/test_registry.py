"""Finding rows, and what is said when there is none."""

import pytest

from tilewright.arch.mma.registry import ALL_MMA_ATOMS, find_mma_atom, mma_atom
from tilewright.errors import DTypeError, LayoutError
from tilewright.numeric.dtypes import BF16, E4M3, F16, F32, F64, I8, I32, TF32, DType


def test_names_are_unique_and_found() -> None:
    assert len({atom.name for atom in ALL_MMA_ATOMS}) == len(ALL_MMA_ATOMS)
    assert all(mma_atom(atom.name) is atom for atom in ALL_MMA_ATOMS)
    assert mma_atom(ALL_MMA_ATOMS[0]) is ALL_MMA_ATOMS[0]


def test_every_row_is_found_by_what_it_does() -> None:
    for a in ALL_MMA_ATOMS:
        found = find_mma_atom(
            a.kind,
            a.a_dtype,
            a.b_dtype,
            a.d_dtype,
            shape_mnk=a.shape_mnk,
            a_source=a.a_source,
            a_major=a.a_major,
            b_major=a.b_major,
        )
        assert found is a


@pytest.mark.parametrize(
    ("kind", "a", "acc", "name"),
    [
        ("wgmma", BF16, F32, "SM90_64x256x16_F32BF16BF16_SS_KK"),
        ("wgmma", E4M3, F32, "SM90_64x256x32_F32E4M3E4M3_SS_KK"),
        ("wgmma", TF32, F32, "SM90_64x256x8_F32TF32TF32_SS_KK"),
        ("mma", F16, F16, "SM80_16x8x16_F16F16F16F16_TN"),
        ("mma", I8, I32, "SM80_16x8x32_S32S8S8S32_TN"),
        ("mma", F64, F64, "SM80_8x8x4_F64F64F64F64_TN"),
        ("fma", F32, F32, "UniversalFMA_F32"),
    ],
)
def test_the_first_found_is_the_widest(kind: str, a: DType, acc: DType, name: str) -> None:
    assert find_mma_atom(kind, a, a, acc).name == name  # type: ignore[arg-type]


def test_a_dtype_without_an_atom() -> None:
    with pytest.raises(DTypeError) as error:
        find_mma_atom("wgmma", F64, F64, F64)
    assert str(error.value) == (
        "find_mma_atom: wgmma has no form for f64 x f64 -> f64\n"
        "  has = f16 x f16 -> f32, bf16 x bf16 -> f32, f16 x f16 -> f16, tf32 x tf32 -> f32, "
        "e4m3 x e4m3 -> f32, e4m3 x e5m2 -> f32, e5m2 x e4m3 -> f32, e5m2 x e5m2 -> f32, "
        "e4m3 x e4m3 -> f16, e4m3 x e5m2 -> f16, e5m2 x e4m3 -> f16, e5m2 x e5m2 -> f16, "
        "i8 x i8 -> i32, i8 x u8 -> i32, u8 x i8 -> i32, u8 x u8 -> i32"
    )


def test_a_major_that_the_type_does_not_have() -> None:
    with pytest.raises(LayoutError) as error:
        find_mma_atom("wgmma", E4M3, E4M3, F32, b_major="MN")
    assert str(error.value) == (
        "find_mma_atom: wgmma e4m3 x e4m3 -> f32 has no form with "
        "A in shared memory (K-major), B MN-major\n"
        "  has = A in shared memory (K-major), B K-major; A in registers (K-major), B K-major"
    )


def test_a_shape_that_does_not_exist() -> None:
    with pytest.raises(LayoutError) as error:
        find_mma_atom("mma", F16, F16, F32, shape_mnk=(16, 8, 32))
    assert str(error.value) == (
        "find_mma_atom: mma f16 x f16 -> f32 has no shape (16, 8, 32)\n  has = 16x8x16, 16x8x8"
    )


def test_an_unknown_name() -> None:
    with pytest.raises(LayoutError, match=r"mma_atom: 'SM80_16x8x16_F32BF16BF16_TN' is not one of"):
        mma_atom("SM80_16x8x16_F32BF16BF16_TN")
    with pytest.raises(LayoutError, match="hint: near names: SM80_16x8x16_F32BF16BF16F32_TN"):
        mma_atom("SM80_16x8x16_F32BF16BF16_TN")
