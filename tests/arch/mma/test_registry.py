"""Finding rows, and what is said when there is none."""

import subprocess
import sys
from collections import Counter

import pytest

from tilewright.arch.element import UE4M3
from tilewright.arch.mma.registry import (
    ALL_MMA_ATOMS,
    every_mma_atom,
    find_mma_atom,
    mma_atom,
)
from tilewright.arch.mma.sm100 import umma_atom, umma_by_name, umma_families
from tilewright.errors import DTypeError, LayoutError
from tilewright.numeric.dtypes import (
    BF16,
    E2M1,
    E4M3,
    E8M0,
    F16,
    F32,
    F64,
    I4,
    I8,
    I32,
    TF32,
    DType,
)


def test_names_are_unique_and_found() -> None:
    everything = every_mma_atom()
    assert everything[: len(ALL_MMA_ATOMS)] == ALL_MMA_ATOMS
    assert len({atom.name for atom in everything}) == len(everything)
    assert all(mma_atom(atom.name) is atom for atom in everything)
    assert mma_atom(ALL_MMA_ATOMS[0]) is ALL_MMA_ATOMS[0]


def test_how_many_rows_there_are() -> None:
    """By what executes them; a change here is a change of what we claim to describe."""
    assert Counter(atom.kind for atom in every_mma_atom()) == {
        "fma": 8,
        "dot": 2,
        "quad_pair": 8,
        "mma": 238,
        "wgmma": 2880,
        "umma": 490,
        "mfma": 2,
    }
    assert len(umma_families()) == 42


def test_rows_that_few_programs_use_are_made_when_asked_for() -> None:
    code = (
        "from tilewright.arch.mma import registry, sm90, sm100, sm120\n"
        "later = (sm90.sm90_sparse_and_saturating_atoms, sm100.sm100_atoms, sm120.sm120_atoms)\n"
        "registry.mma_atom('SM80_16x8x16_F32F16F16F32_TN')\n"
        "print(sum(rows.cache_info().currsize for rows in later))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).stdout == b"0\n"


def test_every_row_is_found_by_what_it_does() -> None:
    for a in every_mma_atom():
        if not a.has_emitter or a.name.startswith("SM75_16"):
            continue  # SM80 has the same two instructions, under names that come first
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
        assert found is a or (found.ptx, a.name) == (a.ptx, "SM75_8x8x16_S32S8S8S32_TN")


def test_only_plain_products_are_found() -> None:
    for shape in ((16, 8, 32), (8, 8, 16)):
        found = find_mma_atom("mma", I8, I8, I32, shape_mnk=shape)
        assert (found.saturate, found.operation) == (False, "multiply")
    with pytest.raises(DTypeError, match="find_mma_atom: mma has no form for i4 x i4 -> i32"):
        find_mma_atom("mma", I4, I4, I32)


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


def test_umma_rows_of_any_shape() -> None:
    name = "SM100_MMA_F16BF16_TS_64x24x16_F32BF16BF16_KN"
    row = mma_atom(name)
    assert row is umma_atom("SM100_MMA_F16BF16_TS", (F32, BF16, BF16), 64, 24, ("K", "MN"))
    assert (row.name, row.a_source, row.b_source, row.c_source) == (name, "tmem", "smem", "tmem")
    scaled = mma_atom("SM103_MXF4_ULTRA_SS_VS_128x48x96_F32E2M1E2M1_KK_VS16_UE4M3")
    assert (scaled.scale_vector, scaled.scale_type, scaled.min_arch) == (16, UE4M3, 103)
    first = umma_atom("SM103_MXF4_ULTRA_SS_VS", (F32, E2M1, E2M1), 128, 48)
    assert (first.scale_vector, first.scale_type) == (32, E8M0)
    for f in umma_families().values():
        for m, ns in f.shapes:
            row = umma_atom(f.name, f.types[0], m, ns[0])
            assert umma_by_name(row.name) is row


@pytest.mark.parametrize(
    "name",
    [
        "SM100_MMA_F16BF16_SS_128x256x16_F32F16F32_KK",
        "SM100_MMA_F16BF16_SS_128x256x32_F32F16F16_KK",
        "SM100_MMA_MXF4_SS_128x256x64_F32E2M1E2M1_KK",
        "SM100_MMA_F17_SS_128x256x16_F32F16F16_KK",
    ],
)
def test_umma_names_that_mean_nothing(name: str) -> None:
    assert umma_by_name(name) is None
    with pytest.raises(
        LayoutError, match=r"mma_atom: 'SM100_MMA.* is not one of the 3628 MMA atoms"
    ):
        mma_atom(name)


def test_umma_errors() -> None:
    f16 = (F32, F16, F16)
    with pytest.raises(LayoutError, match="'SM100_MMA_F17' is not a family of tcgen05"):
        umma_atom("SM100_MMA_F17", f16, 128, 128)
    with pytest.raises(DTypeError) as types:
        umma_atom("SM100_MMA_TF32_SS", f16, 128, 128)
    assert str(types.value) == (
        "umma_atom: SM100_MMA_TF32_SS does not multiply f16 x f16 -> f32\n"
        "  has = tf32 x tf32 -> f32"
    )
    with pytest.raises(LayoutError) as shape:
        umma_atom("SM100_MMA_F16BF16_SS", f16, 128, 8)
    assert str(shape.value) == (
        "umma_atom: SM100_MMA_F16BF16_SS has no shape M=128, N=8\n"
        "  has = M=64: N=8, 16, 24, 32 .. 256; M=128: N=16, 32, 48, 64 .. 256"
    )
    with pytest.raises(LayoutError) as major:
        umma_atom("SM100_MMA_F16BF16_TS", f16, 128, 16, ("MN", "K"))
    assert str(major.value) == (
        "umma_atom: SM100_MMA_F16BF16_TS cannot take A MN-major and B K-major\n"
        "  hint: A in tensor memory and packed 4-bit types are K-major"
    )
    with pytest.raises(LayoutError) as scale:
        umma_atom("SM100_MMA_F16BF16_SS", f16, 128, 16, scale=(32, E8M0))
    assert str(scale.value) == (
        "umma_atom: SM100_MMA_F16BF16_SS has no scale of 32 elements per e8m0\n  has = no scales"
    )
