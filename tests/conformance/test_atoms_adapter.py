"""CuTe's C++ names, of which more exist than the vectors at hand use."""

import runpy
from pathlib import Path

import pytest

ADAPTER = runpy.run_path(str(Path(__file__).with_name("atoms_adapter.py")))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("UniversalFMA<double>", "UniversalFMA_F64"),
        ("SM90_64x128x16_F32BF16BF16_SS<GMMA::Major::K,GMMA::Major::MN>",
         "SM90_64x128x16_F32BF16BF16_SS_KN"),
        ("SM90_64x64x32_S32U8S8_RS_TN", "SM90_64x64x32_S32U8S8_RS_KK"),
        ("SM90_64x64x32_S32U8S8_SS_TN_SATURATE", "SM90_64x64x32_S32U8S8_SS_KK_SATURATE"),
        ("SM90::GMMA::SPARSE::GMMA_64x8x32_F32F16F16_SS<GMMA::Major::MN,GMMA::Major::K>",
         "SM90_SPARSE_64x8x32_F32F16F16_SS_MK"),
        ("SM90::GMMA::SPARSE::GMMA_64x8x64_F16E4M3E5M2_RS_TN<>",
         "SM90_SPARSE_64x8x64_F16E4M3E5M2_RS_KK"),
        ("SM100_MMA_F16BF16_SS<half_t,half_t,float,128,64,UMMA::Major::K,UMMA::Major::MN>",
         "SM100_MMA_F16BF16_SS_128x64x16_F32F16F16_KN"),
        ("SM100_MMA_S8_2x1SM_SS<int8_t,uint8_t,int32_t,256,64,UMMA::Major::K,UMMA::Major::K>",
         "SM100_MMA_S8_2x1SM_SS_256x64x32_S32S8U8_KK"),
        ("SM100_MMA_F16BF16_SS_SCALED<cutlass::complex<half_t>,cutlass::complex<half_t>,float,"
         "64,8,UMMA::Major::K,UMMA::Major::K,0>",
         "SM100_MMA_F16BF16_SS_SCALED_64x8x8_F32CF16CF16_KK"),
        ("SM100_MMA_TF32_TS_INTERLEAVED_CF32CTF32CTF32CF32_TN<64,8,UMMA::Major::K,UMMA::Major::K>",
         "SM100_MMA_TF32_TS_INTERLEAVED_CF32CTF32CTF32CF32_TN_64x8x4_F32CTF32CTF32_KK"),
        ("SM100_MMA_MXF8F6F4_SS<float_e4m3_t,float_e3m2_t,float,float_ue8m0_t,128,8,"
         "UMMA::Major::K,UMMA::Major::K>",
         "SM100_MMA_MXF8F6F4_SS_128x8x32_F32E4M3E3M2_KK_VS32_E8M0"),
        ("SM100_MMA_MXF4_SS<float_e2m1_t,float_e2m1_t,float,float_ue4m3_t,128,8,16,"
         "UMMA::Major::K,UMMA::Major::K>", "SM100_MMA_MXF4_SS_128x8x64_F32E2M1E2M1_KK_VS16_UE4M3"),
        ("SM103::SM103_MXF4_ULTRA_SS_VS<float_e2m1_t,float_e2m1_t,float,float_ue8m0_t,128,16,32,"
         "UMMA::Major::K,UMMA::Major::K>",
         "SM103_MXF4_ULTRA_SS_VS_128x16x96_F32E2M1E2M1_KK_VS32_E8M0"),
        ("SM120_16x8x32_TN<float_e4m3_t,float_e2m1_t,float>", "SM120_16x8x32_F32E4M3E2M1F32_TN"),
        ("SM120::BLOCKSCALED::SM120_16x8x64_TN_VS<float_e2m1_t,float_e2m1_t,float,float_ue4m3_t,16>",
         "SM120_16x8x64_F32E2M1E2M1F32_TN_VS16_UE4M3"),
        ("SM120::BLOCKSCALED::SPARSE::SM120_SPARSE_16x8x64_TN_VS<float_e5m2_t,float_e4m3_t,float,"
         "float_ue8m0_t,64>", "SM120_SPARSE_16x8x64_F32E5M2E4M3F32_TN_VS64_E8M0"),
    ],
)  # fmt: skip
def test_mma_names(theirs: str, ours: str) -> None:
    assert ADAPTER["our_mma"](theirs).name == ours


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("UniversalCopy<cutlass::half_t>", "UniversalCopy_16b"),
        ("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>", "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL_128b"),
        ("SM90_TMA_LOAD_IM2COL", "SM90_TMA_LOAD_IM2COL"),
    ],
)
def test_copy_names(theirs: str, ours: str) -> None:
    assert ADAPTER["our_copy_name"](theirs) == ours
