"""Atoms, tiled copies and tiled MMAs as objects: what they know, and what they refuse."""

import pytest
from traced import kernel

from tilewright.arch.mma.registry import mma_atom
from tilewright.arch.target import target
from tilewright.errors import DTypeError, LayoutError, TargetError, TypeMismatchError
from tilewright.lang.cute.atom import make_copy_atom, make_mma_atom
from tilewright.lang.cute.nvgpu import cpasync, warp, warpgroup
from tilewright.lang.cute.nvgpu.common import CopyUniversalOp, MmaUniversalOp
from tilewright.lang.cute.tensor import make_identity_tensor
from tilewright.lang.cute.tiled_copy import (
    make_layout_tv,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_C,
    make_tiled_copy_C_atom,
    make_tiled_copy_D,
    make_tiled_copy_S,
    make_tiled_copy_tv,
)
from tilewright.lang.cute.tiled_mma import make_tiled_mma
from tilewright.lang.cute.views import make_layout, size
from tilewright.lang.values import BFloat16, Boolean, Float16, Float32, Int8
from tilewright.layout.layout import Layout

HOPPER = warpgroup.MmaF16BF16Op(BFloat16, Float32, (64, 128, 16))
AMPERE = warp.MmaF16BF16Op(Float16, Float32, (16, 8, 16))


def test_rows_come_from_arch() -> None:
    rows = {
        "SM90_64x128x16_F32BF16BF16_SS_KK": HOPPER,
        "SM90_64x64x16_F32F16F16_SS_KN": warpgroup.MmaF16BF16Op(
            Float16,
            Float32,
            (64, 64, 16),
            warpgroup.OperandSource.SMEM,
            warpgroup.OperandMajorMode.K,
            warpgroup.OperandMajorMode.MN,
        ),
        "SM90_64x64x16_F32BF16BF16_RS_KK": warpgroup.MmaF16BF16Op(
            BFloat16, Float32, (64, 64, 16), warpgroup.OperandSource.RMEM
        ),
        "SM90_64x32x32_F32E4M3E5M2_SS_KK": warpgroup.MmaF8Op("e4m3", "e5m2", Float32, (64, 32, 32)),
        "SM90_64x32x32_S32S8S8_SS_KK": warpgroup.MmaI8Op(Int8, Int8, "i32", (64, 32, 32)),
        "SM90_64x32x8_F32TF32TF32_SS_KK": warpgroup.MmaTF32Op(Float32, (64, 32, 8)),
        "SM80_16x8x16_F32F16F16F32_TN": AMPERE,
        "SM80_16x8x8_F32TF32TF32F32_TN": warp.MmaTF32Op((16, 8, 8)),
        "SM89_16x8x32_F32E4M3E4M3F32_TN": warp.MmaFP8Op("e4m3", Float32),
        "SM80_16x8x32_S32S8U8S32_TN": warp.MmaI8Op(Int8, "u8"),
        "UniversalFMA_F32": MmaUniversalOp(Float32),
    }
    for name, op in rows.items():
        atom = make_mma_atom(op)
        assert atom.row is mma_atom(name)
        assert atom.shape_mnk == atom.row.shape_mnk
    assert make_copy_atom(CopyUniversalOp(), Float32).row.name == "UniversalCopy_32b"
    atom = make_copy_atom(warp.LdMatrix8x8x16bOp(True, 4), BFloat16)
    assert atom.row.name == "SM75_U16x8_LDSM_T"
    assert atom.value_type is BFloat16
    assert atom.layout_src_tv == Layout((32, 8), (8, 1))
    store = make_copy_atom(warp.StMatrix8x8x16bOp(False, 2), BFloat16)
    assert store.row.name == "SM90_U32x2_STSM_N"
    g2s = make_copy_atom(cpasync.CopyG2SOp(), Float32, num_bits_per_copy=128)
    assert g2s.row.name == "SM80_CP_ASYNC_CACHEALWAYS_128b"


def test_smem_layout_atoms_count_in_elements() -> None:
    kind = warpgroup.SmemLayoutAtomKind
    assert str(warpgroup.make_smem_layout_atom(kind.K_SW64, BFloat16)) == (
        "Sw<2,3,3> o 0 o (8,32):(32,1)"
    )
    assert str(warpgroup.make_smem_layout_atom(kind.MN_SW128, Float32)) == (
        "Sw<3,2,3> o 0 o (32,8):(1,32)"
    )


def test_tiled_copies() -> None:
    atom = make_copy_atom(CopyUniversalOp(), BFloat16, num_bits_per_copy=128)
    tiled = make_tiled_copy_tv(atom, make_layout((16, 8), stride=(8, 1)), make_layout((1, 8)))
    assert (tiled.num_threads, size(tiled), tiled.tiler_mn) == (128, 128, (16, 64))
    tiler, layout = make_layout_tv(make_layout((16, 8), stride=(8, 1)), make_layout((1, 8)))
    again = make_tiled_copy(atom, layout, tiler)
    assert again.layout_tv_tiled == tiled.layout_tv_tiled
    assert make_tiled_copy_S(atom, tiled).layout_tv_tiled == tiled.layout_src_tv_tiled
    assert make_tiled_copy_D(atom, tiled).tiler_mn == (16, 64)
    with kernel():
        part = tiled.get_slice(5).partition_S(make_identity_tensor((32, 64)))
        assert part.shape == ((8, 1), 2, 1)
        assert part[3, 1, 0] == (16, 43)


def test_tiled_mmas() -> None:
    mma = make_tiled_mma(AMPERE, (2, 2, 1), permutation_mnk=(32, 32, 16))
    assert (mma.num_threads, size(mma), mma.tile_mnk) == (128, 128, (32, 32, 16))
    assert mma.partition_shape_C((64, 64)) == ((2, 2), 2, 4)
    assert mma.partition_shape_A((64, 32)) == ((2, 2, 2), 2, 2)
    assert mma.partition_shape_B((64, 32)) == ((2, 2), 4, 2)
    assert mma.get_tile_size(2) == 16
    assert size(mma.tv_layout_C) == 32 * 32
    assert make_tiled_copy_A(make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), Float16), mma)
    st = make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), Float16)
    assert make_tiled_copy_C_atom(st, mma).num_threads == 128
    with kernel():
        thr = mma.get_slice(5)
        c = thr.partition_C(make_identity_tensor((32, 32)))
        assert c[0, 0, 0] == (1, 2)
        assert mma.make_fragment_C(mma.partition_shape_C((64, 64))).element_type is Float32
        a = mma.make_fragment_A(thr.partition_shape_A((64, 32)))
        assert a.layout == Layout(((2, 2, 2), 2, 2))


def test_accumulate_field() -> None:
    mma = make_tiled_mma(HOPPER)
    assert mma.get(warpgroup.Field.ACCUMULATE) is True
    mma.set(warpgroup.Field.ACCUMULATE, False)
    assert mma.accumulate is False
    with kernel() as k:
        flag = Boolean(k.number("f", "bool"))
        mma.set(warpgroup.Field.ACCUMULATE, flag)
        assert mma.get(warpgroup.Field.ACCUMULATE) is flag
        with pytest.raises(TypeMismatchError, match=r"set\(ACCUMULATE\): expected a Boolean, got "):
            mma.set(warpgroup.Field.ACCUMULATE, "yes")
        with pytest.raises(TypeMismatchError, match=r"SM80_16x8x16_F32F16F16F32_TN has no field"):
            make_tiled_mma(AMPERE).set(warpgroup.Field.ACCUMULATE, True)


def test_instructions_that_do_not_exist() -> None:
    with pytest.raises(LayoutError, match=r"has no shape \(64, 12, 16\)") as caught:
        make_tiled_mma(warpgroup.MmaF16BF16Op(BFloat16, Float32, (64, 12, 16)))
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
    with pytest.raises(DTypeError, match=r"MmaF16BF16Op: ab_dtype must be f16 or bf16, got f32"):
        make_mma_atom(warp.MmaF16BF16Op(Float32, Float32, (16, 8, 16)))
    with pytest.raises(DTypeError, match=r"MmaFP8Op: a_dtype must be e4m3 or e5m2, got bf16"):
        make_mma_atom(warp.MmaFP8Op(BFloat16, Float32))
    with pytest.raises(LayoutError, match=r"num_bits_per_copy=48 is not one of 8, 16, 32, 64, 128"):
        make_copy_atom(CopyUniversalOp(), BFloat16, num_bits_per_copy=48)
    only_global = cpasync.CopyG2SOp(cpasync.LoadCacheMode.GLOBAL)
    with pytest.raises(LayoutError, match=r"LoadCacheMode.GLOBAL copies 128 bits, not 64"):
        make_copy_atom(only_global, Float32, num_bits_per_copy=64)
    with pytest.raises(DTypeError, match=r"only 16-bit elements can be transposed, got f32"):
        make_copy_atom(warp.LdMatrix8x8x16bOp(True, 1), Float32)
    with pytest.raises(DTypeError, match=r"moves units of 16 bits, asked for some bits of f32"):
        make_copy_atom(warp.LdMatrix8x8x16bOp(False, 1), Float32)


def test_instructions_that_the_target_lacks() -> None:
    """CASES A11: refused where the kernel asks for it, not by ptxas."""
    with kernel("sm_80") as k:
        assert k.trace.target is target("sm_80")
        with pytest.raises(TargetError, match=r"needs wgmma, which sm_80 does not have") as caught:
            make_tiled_mma(HOPPER)
        assert caught.value.loc is not None
        with pytest.raises(TargetError, match=r"needs stmatrix, which sm_80 does not have"):
            make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), BFloat16)


def test_arguments_of_the_wrong_kind() -> None:
    atom = make_copy_atom(CopyUniversalOp(), Float32)
    mma = make_tiled_mma(MmaUniversalOp(Float32), (16, 16, 1))
    cases = [
        (lambda: make_copy_atom(HOPPER, BFloat16), r"make_copy_atom: expected a copy operation"),
        (lambda: make_copy_atom(3, BFloat16), r"make_copy_atom: expected a copy operation"),
        (
            lambda: make_copy_atom(cpasync.CopyBulkTensorTileG2SOp(), BFloat16),
            r"CopyBulkTensorTileG2SOp needs a descriptor",
        ),
        (lambda: make_mma_atom(CopyUniversalOp()), r"make_mma_atom: expected an MMA operation"),
        (
            lambda: make_tiled_copy_tv(mma, Layout(32), Layout(1)),
            r"expected a copy atom, got a Til",
        ),
        (lambda: make_tiled_copy_A(mma, atom), r"make_tiled_copy_A: expected a TiledMma"),
        (lambda: make_tiled_copy_S(atom, mma), r"make_tiled_copy_S: expected a TiledCopy"),
        (lambda: make_tiled_copy_C_atom(atom, 3), r"make_tiled_copy_C_atom: expected a TiledMma"),
        (lambda: mma.get_slice("0"), r"TiledMma.get_slice: expected an integer thread index"),
        (lambda: mma.get_slice(1.0), r"TiledMma.get_slice: expected an integer thread index"),
        (
            lambda: make_tiled_copy_C(atom, mma).get_slice((1, 2)),
            r"TiledCopy.get_slice: expected an integer thread index",
        ),
        (
            lambda: make_tiled_copy_C(atom, mma).get_slice(0).partition_S(Layout(4)),
            r"partition_S: expected a Tensor, got a Layout",
        ),
        (lambda: mma.get_slice(0).partition_A(4), r"partition_A: expected a Tensor, got int"),
        (
            lambda: warpgroup.make_smem_layout_atom("K_SW128", BFloat16),
            r"make_smem_layout_atom: expected a SmemLayoutAtomKind",
        ),
    ]
    for attempt, text in cases:
        with pytest.raises(TypeMismatchError, match=text):
            attempt()


def test_extents_that_do_not_fit() -> None:
    mma = make_tiled_mma(AMPERE, (2, 2, 1))
    with pytest.raises(
        LayoutError, match=r"partition_shape_C: N = 24 is not a multiple of the N = "
    ):
        mma.partition_shape_C((64, 24))
    with kernel() as k:
        run_time = k.gmem("f16", Layout((k.number("M"), 16), (16, 1)))
        with pytest.raises(
            LayoutError, match=r"partition_A: M = .* is known only at run time, an "
        ):
            mma.get_slice(0).partition_A(run_time)
        with pytest.raises(LayoutError, match=r"atom_layout_mnk must be known at compile time"):
            make_tiled_mma(AMPERE, (k.number("w"), 1, 1))
    with pytest.raises(LayoutError, match=r"permutation N = 24 is not a multiple of the 16"):
        make_tiled_mma(AMPERE, (2, 2, 1), permutation_mnk=(32, 24, 16))
    wide = make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), Float16)
    with pytest.raises(
        LayoutError, match=r"copies 8 values per thread, the MMA gives each thread 4"
    ):
        make_tiled_copy_C_atom(wide, make_tiled_mma(AMPERE, (2, 2, 1)))
