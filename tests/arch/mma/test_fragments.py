"""Fragments against the PTX ISA, whose formulas are written out here once more, by hand.

Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 ..." and "Register Fragments and Shared Memory
Matrix Layouts" of wgmma.  groupID = lane >> 2, tid = lane % 4; B's pairs are (n, k).
"""

from collections.abc import Callable
from typing import Any

import pytest

from tilewright.arch.mma.atom import operand_map
from tilewright.arch.mma.registry import ALL_MMA_ATOMS, every_mma_atom, mma_atom
from tilewright.arch.mma.sm100 import umma_atom
from tilewright.numeric.dtypes import F16, F32

Formula = Callable[[int, int, int], tuple[int, int]]


def a_16bit(g: int, t: int, i: int) -> tuple[int, int]:
    row = g if i in (0, 1, 4, 5) else g + 8
    return row, 2 * t + (i & 1) + (8 if i >= 4 else 0)


def b_16bit(g: int, t: int, i: int) -> tuple[int, int]:
    return g, 2 * t + (i & 1) + (8 if i >= 2 else 0)


def a_8bit(g: int, t: int, i: int) -> tuple[int, int]:
    row = g if i < 4 or 8 <= i < 12 else g + 8
    return row, 4 * t + (i & 3) + (16 if i >= 8 else 0)


def b_8bit(g: int, t: int, i: int) -> tuple[int, int]:
    return g, 4 * t + (i & 3) + (16 if i >= 4 else 0)


def a_tf32(g: int, t: int, i: int) -> tuple[int, int]:
    return g if i in (0, 2) else g + 8, t if i < 2 else t + 4


def b_tf32(g: int, t: int, i: int) -> tuple[int, int]:
    return g, t if i == 0 else t + 4


def a_f64(g: int, t: int, i: int) -> tuple[int, int]:
    return g if i % 2 == 0 else g + 8, t + 4 * (i // 2)


def b_f64(g: int, t: int, i: int) -> tuple[int, int]:
    return g, t + 4 * i


def a_4bit(g: int, t: int, i: int) -> tuple[int, int]:
    row = g if i < 8 or 16 <= i < 24 else g + 8
    return row, 8 * t + (i & 7) + (32 if i >= 16 else 0)


def b_4bit(g: int, t: int, i: int) -> tuple[int, int]:
    return g, 8 * t + (i & 7) + (32 if i >= 8 else 0)


def a_1bit(g: int, t: int, i: int) -> tuple[int, int]:
    row = g if i < 32 or 64 <= i < 96 else g + 8
    return row, 32 * t + (i & 31) + (128 if i >= 64 else 0)


def b_1bit(g: int, t: int, i: int) -> tuple[int, int]:
    return g, 32 * t + (i & 31) + (128 if i >= 32 else 0)


def b_8bit_sparse(g: int, t: int, i: int) -> tuple[int, int]:
    return g, 4 * t + (i & 3) + 16 * (i // 4)


def c_16x8(g: int, t: int, i: int) -> tuple[int, int]:
    return g if i < 2 else g + 8, 2 * t + (i & 1)


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("SM80_16x8x16_F32F16F16F32_TN", a_16bit, b_16bit),
        ("SM80_16x8x16_F32BF16BF16F32_TN", a_16bit, b_16bit),
        ("SM80_16x8x16_F16F16F16F16_TN", a_16bit, b_16bit),
        ("SM80_16x8x8_F32BF16BF16F32_TN", a_16bit, b_16bit),
        ("SM80_16x8x8_F32TF32TF32F32_TN", a_tf32, b_tf32),
        ("SM80_16x8x4_F32TF32TF32F32_TN", a_tf32, b_tf32),
        ("SM80_16x8x32_S32S8U8S32_TN", a_8bit, b_8bit),
        ("SM80_16x8x16_S32S8S8S32_TN", a_8bit, b_8bit),
        ("SM89_16x8x32_F32E4M3E5M2F32_TN", a_8bit, b_8bit),
        ("SM75_16x8x8_F32F16F16F32_TN", a_16bit, b_16bit),
        ("SM80_16x8x64_S32S4U4S32_TN", a_4bit, b_4bit),
        ("SM80_16x8x32_S32U4U4S32_TN_SATURATE", a_4bit, b_4bit),
        ("SM80_16x8x256_S32U1U1S32_TN_XORPOPC", a_1bit, b_1bit),
        ("SM80_16x8x128_S32U1U1S32_TN_ANDPOPC", a_1bit, b_1bit),
        ("SM90_16x8x16_C64C64C64C64_TN", a_f64, b_f64),
        ("SM120_16x8x32_F32E2M1E3M2F32_TN", a_8bit, b_8bit),
        ("SM120_16x8x64_F32E2M1E2M1F32_TN_VS32_E8M0", a_4bit, b_4bit),
        ("SM120_SPARSE_16x8x64_F32E4M3E4M3F32_TN", a_4bit, b_8bit_sparse),
        ("SM90_16x8x4_F64F64F64F64_TN", a_f64, b_f64),
        ("SM90_16x8x8_F64F64F64F64_TN", a_f64, b_f64),
        ("SM90_16x8x16_F64F64F64F64_TN", a_f64, b_f64),
    ],
)
def test_warp_fragments(name: str, a: Formula, b: Formula) -> None:
    atom = mma_atom(name)
    for which, formula in (("A", a), ("B", b), ("C", c_16x8)):
        table = operand_map(atom, which)
        for lane in range(32):
            expected = [formula(lane >> 2, lane % 4, i) for i in range(len(table[lane]))]
            assert list(table[lane]) == expected, (which, lane)


def test_the_small_double_fragment() -> None:
    atom = mma_atom("SM80_8x8x4_F64F64F64F64_TN")
    for lane in range(32):
        g, t = lane >> 2, lane % 4
        assert operand_map(atom, "A")[lane] == ((g, t),)
        assert operand_map(atom, "B")[lane] == ((g, t),)
        assert operand_map(atom, "C")[lane] == ((g, 2 * t), (g, 2 * t + 1))


@pytest.mark.parametrize("n", [8, 24, 128, 256])
def test_wgmma_accumulators(n: int) -> None:
    table = operand_map(mma_atom(f"SM90_64x{n}x16_F32BF16BF16_SS_KK"), "D")
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for i, place in enumerate(table[thread]):
            row = 16 * warp + lane // 4 + 8 * (i // 2 % 2)
            assert place == (row, 8 * (i // 4) + 2 * (lane % 4) + i % 2)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("SM90_64x8x16_F32BF16BF16_RS_KK", a_16bit),
        ("SM90_64x8x8_F32TF32TF32_RS_KK", a_tf32),
        ("SM90_64x8x32_F16E5M2E4M3_RS_KK", a_8bit),
        ("SM90_64x8x32_S32U8S8_RS_KK", a_8bit),
    ],
)
def test_wgmma_a_in_registers_is_four_warp_fragments(name: str, formula: Formula) -> None:
    table = operand_map(mma_atom(name), "A")
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for i, (row, column) in enumerate(table[thread]):
            g_row, g_column = formula(lane >> 2, lane % 4, i)
            assert (row, column) == (16 * warp + g_row, g_column)


def test_a_wgmma_result_is_the_next_a_in_place() -> None:
    """16-bit: columns 16j..16j+15 of D, as registers, are the A operand of k-step j."""
    d = operand_map(mma_atom("SM90_64x32x16_F32F16F16_SS_KK"), "D")
    a = operand_map(mma_atom("SM90_64x8x16_F32F16F16_RS_KK"), "A")
    for thread in range(128):
        for step in range(2):
            block = d[thread][8 * step : 8 * step + 8]
            assert tuple((r, c - 16 * step) for r, c in block) == a[thread]


def test_wgmma_shapes() -> None:
    """Which (K, majors, N) exist.  Source: PTX ISA, `wgmma.mma_async`, ".shape"."""
    rows = [a for a in every_mma_atom() if a.kind == "wgmma" and a.sparsity == 2 and not a.saturate]
    assert all(a.shape_mnk[2] * a.a_dtype.bits == 512 for a in rows)
    assert len(rows) == len([a for a in ALL_MMA_ATOMS if a.kind == "wgmma"])
    rows = [a for a in ALL_MMA_ATOMS if a.kind == "wgmma"]
    assert all(a.shape_mnk[0] == 64 and a.shape_mnk[2] * a.a_dtype.bits == 256 for a in rows)
    assert all(a.a_dtype.bits == 16 for a in rows if "MN" in (a.a_major, a.b_major))
    assert all(a.a_major == "K" for a in rows if a.a_source == "rmem")
    per_form: dict[tuple[Any, ...], list[int]] = {}
    for a in rows:
        form = (a.d_dtype, a.a_dtype, a.b_dtype, a.a_source, a.a_major, a.b_major)
        per_form.setdefault(form, []).append(a.shape_mnk[1])
    assert len(per_form) == 3 * 6 + 2 + 8 * 2 + 4 * 2
    for (_, a_dtype, *_), ns in per_form.items():
        integer = [8, 16, 24, *range(32, 257, 16)]
        assert sorted(ns) == (integer if a_dtype.is_integer else list(range(8, 257, 8)))


@pytest.mark.parametrize("name", [a.name for a in every_mma_atom() if a.kind == "quad_pair"])
def test_quad_pairs(name: str) -> None:
    """Source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16"; lane >= 16 is the upper half.

    Our B is (n, k), so PTX's row of B is our column.
    """
    atom = mma_atom(name)
    tables = {which: operand_map(atom, which) for which in ("A", "B", "D")}
    for thread in range(8):
        lane = thread % 4 + 16 * (thread // 4)
        upper = 4 if lane >= 16 else 0
        for i in range(4):
            k_major, mn_major = (lane % 4 + upper, i), (i + upper, lane % 4)
            assert tables["A"][thread][i] == (k_major if atom.a_major == "K" else mn_major)
            assert tables["B"][thread][i] == (k_major if atom.b_major == "K" else mn_major)
        for i in range(8):
            half = (lane % 4 + upper, i)
            single = ((lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1))
            assert tables["D"][thread][i] == (half if atom.d_dtype.bits == 16 else single)


def test_four_quad_pairs_are_a_warp() -> None:
    pair = mma_atom("SM70_8x8x4_F32F16F16F32_TN").thr_id
    lanes = [pair(thread) + 4 * q for q in range(4) for thread in range(8)]
    assert [pair(t) for t in range(8)] == [0, 1, 2, 3, 16, 17, 18, 19]
    assert sorted(lanes) == list(range(32))


@pytest.mark.parametrize(("mn", "k"), [(16, 16), (32, 8)])
def test_mfma(mn: int, k: int) -> None:
    """AMD's formulas.  Source: AMD matrix instruction calculator, register layouts of CDNA3."""
    atom = mma_atom(f"CDNA3_{mn}x{mn}x{k}_F32F16F16F32")
    for lane in range(64):
        factor = tuple((lane % mn, 4 * (lane // mn) + i) for i in range(4))
        assert operand_map(atom, "A")[lane] == operand_map(atom, "B")[lane] == factor
        for i, place in enumerate(operand_map(atom, "D")[lane]):
            block = 8 * (i // 4) if mn == 32 else 0
            assert place == (block + 4 * (lane // mn) + i % 4, lane % mn)


def test_dot_products() -> None:
    for k in (2, 4):
        atom = mma_atom(f"SM61_DP{k}A")
        assert (
            operand_map(atom, "A") == operand_map(atom, "B") == (tuple((0, i) for i in range(k)),)
        )
        assert operand_map(atom, "C") == (((0, 0),),)


def test_a_pair_of_ctas_splits_the_rows() -> None:
    types = (F32, F16, F16)
    pair = umma_atom("SM100_MMA_F16BF16_2x1SM_SS", types, 128, 32)
    for which, rows in (("A", 64), ("B", 16), ("D", 64)):
        for cta in range(2):
            places = operand_map(pair, which)[cta]  # type: ignore[arg-type]
            assert {row for row, _ in places} == set(range(cta * rows, (cta + 1) * rows))
    alone = umma_atom("SM100_MMA_F16BF16_SS", types, 64, 8)
    assert operand_map(alone, "D")[0][65] == (1, 1)
