"""The laws of MMA rows, and one executor for all of them."""

import dataclasses
import math

import numpy as np
import pytest

from tilewright.arch.mma.atom import MmaAtom, operand_map
from tilewright.arch.mma.registry import ALL_MMA_ATOMS, mma_atom
from tilewright.arch.target import target
from tilewright.arch.thread_value import tv_table
from tilewright.errors import LayoutError, TargetError
from tilewright.layout.layout import Layout

M16N8K16 = mma_atom("SM80_16x8x16_F32BF16BF16F32_TN")
WGMMA = mma_atom("SM90_64x16x16_F32BF16BF16_RS_KN")
# Every form of wgmma at a few N; all the others.
FORMS = [a for a in ALL_MMA_ATOMS if a.kind != "wgmma" or a.shape_mnk[1] in (8, 24, 256)]


def gather(atom: MmaAtom, which: str, matrix: np.ndarray) -> np.ndarray:
    """Registers (thread, value) of a matrix."""
    return matrix.ravel(order="F")[np.array(tv_table(atom.layout(which)))]


def scatter(atom: MmaAtom, which: str, registers: np.ndarray) -> np.ndarray:
    """The matrix that registers hold."""
    rows, cols = atom.matrix_shape(which)
    flat = np.full(rows * cols, 10**9)
    flat[np.array(tv_table(atom.layout(which)))] = registers
    return flat.reshape(rows, cols, order="F")


def execute(atom: MmaAtom, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    product = scatter(atom, "A", a) @ scatter(atom, "B", b).T
    return gather(atom, "D", product + scatter(atom, "C", c))


@pytest.mark.parametrize("atom", FORMS, ids=str)
def test_registers_in_registers_out(atom: MmaAtom) -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-3, 4, atom.matrix_shape(w)) for w in ("A", "B", "C"))
    d = execute(atom, gather(atom, "A", a), gather(atom, "B", b), gather(atom, "C", c))
    assert (scatter(atom, "D", d) == a @ b.T + c).all()


@pytest.mark.parametrize("atom", FORMS, ids=str)
def test_register_operands_are_bijections(atom: MmaAtom) -> None:
    for which in ("A", "B", "C"):
        table = tv_table(atom.layout(which))
        if atom.source(which) == "smem":
            table = table[:1]
        held = sorted(x for row in table for x in row)
        assert held == list(range(atom.size(which)))


def test_sizes_add_up() -> None:
    for atom in ALL_MMA_ATOMS:
        threads = {"fma": 1, "mma": 32, "wgmma": 128}[atom.kind]
        assert atom.num_threads == threads
        assert atom.num_values("C") * threads == atom.size("C")
        for which in ("A", "B", "C", "D"):
            regs = atom.registers(which)
            if atom.source(which) == "smem":
                assert (regs.constraint, regs.count) == ("l", 1)
                continue
            assert regs.count * regs.per_register == atom.num_values(which)
            bits = {"r": 32, "f": 32, "d": 64, "h": 16}[regs.constraint]
            assert regs.per_register * atom.dtype(which).bits == bits


def test_every_instruction_multiplies_what_its_name_says() -> None:
    for atom in ALL_MMA_ATOMS:
        m, n, k = atom.shape_mnk
        assert atom.kind == "fma" or f"m{m}n{n}k{k}." in atom.ptx
        assert math.prod(atom.shape_mnk) == atom.size("A") * n
        assert atom.c_dtype is atom.d_dtype


def test_operand_map_gives_rows_and_columns() -> None:
    table = operand_map(M16N8K16, "A")
    assert (len(table), len(table[0])) == (32, 8)
    # lane 5 = 4*1 + 1: row 1, columns 2 and 3; then row 9; then columns 10 and 11.
    assert table[5][:5] == ((1, 2), (1, 3), (9, 2), (9, 3), (1, 10))
    shared = operand_map(mma_atom("SM90_64x8x16_F32F16F16_SS_KK"), "B")
    assert shared[0] is shared[127]
    assert shared[0][9] == (1, 1)


def test_registers() -> None:
    assert dataclasses.astuple(M16N8K16.registers("A")) == (4, "unsigned", "r", 2)
    assert dataclasses.astuple(M16N8K16.registers("B")) == (2, "unsigned", "r", 2)
    assert dataclasses.astuple(M16N8K16.registers("C")) == (4, "float", "f", 1)
    half = mma_atom("SM90_64x256x16_F16F16F16_SS_KK")
    assert dataclasses.astuple(half.registers("D")) == (64, "unsigned", "r", 2)
    fma = mma_atom("UniversalFMA_BF16")
    assert dataclasses.astuple(fma.registers("A")) == (1, "unsigned short", "h", 1)


def numbered(*counts: int) -> list[list[str]]:
    names = iter(range(sum(counts)))
    return [[f"%{next(names)}" for _ in range(count)] for count in counts]


def test_instruction_text() -> None:
    assert M16N8K16.instruction(*numbered(4, 4, 2, 4)) == (
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
    )
    d, a, b, _ = numbered(8, 4, 1, 0)
    assert WGMMA.instruction(d, a, b, ["p"]) == (
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, p, 1, 1, 1;"
    )
    fma = mma_atom("UniversalFMA_F32")
    assert fma.instruction(*numbered(1, 1, 1, 1)) == "fma.rn.f32 %0, %1, %2, %3;"


@pytest.mark.parametrize(
    ("name", "immediates"),
    [
        ("SM90_64x8x16_F32F16F16_SS_KK", (1, 1, 0, 0)),
        ("SM90_64x8x16_F32F16F16_SS_MK", (1, 1, 1, 0)),
        ("SM90_64x8x16_F32F16F16_SS_KN", (1, 1, 0, 1)),
        ("SM90_64x8x16_F32F16F16_RS_KN", (1, 1, 1)),
        ("SM90_64x8x8_F32TF32TF32_SS_KK", (1, 1)),
        ("SM90_64x8x32_F32E4M3E5M2_RS_KK", (1, 1)),
        ("SM90_64x8x32_S32S8U8_SS_KK", ()),
        ("SM80_16x8x8_F32F16F16F32_TN", ()),
    ],
)
def test_immediates(name: str, immediates: tuple[int, ...]) -> None:
    assert mma_atom(name).immediates() == immediates


def test_a_wrong_number_of_registers_is_refused() -> None:
    with pytest.raises(LayoutError) as error:
        M16N8K16.instruction(*numbered(4, 4, 4, 4))
    assert str(error.value) == (
        "MMA atom SM80_16x8x16_F32BF16BF16F32_TN: operand B takes 2 registers, got 4 names"
    )


def test_a_row_that_is_no_bijection_is_refused() -> None:
    wrong = Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 64)))
    with pytest.raises(LayoutError) as error:
        dataclasses.replace(M16N8K16, layout_a=wrong)
    assert str(error.value) == (
        "MMA atom SM80_16x8x16_F32BF16BF16F32_TN: layout of A is not a bijection onto its "
        "16x16 matrix\n  A = ((4,8),(2,2,2)):((32,1),(16,8,64))"
    )


def test_a_shared_operand_must_be_seen_by_all_threads() -> None:
    with pytest.raises(LayoutError, match="layout of B is not a bijection onto its 16x16 matrix"):
        dataclasses.replace(WGMMA, layout_b=Layout((128, (16, 16)), (1, (1, 16))))


def test_a_row_over_the_wrong_threads_is_refused() -> None:
    with pytest.raises(LayoutError, match="layout of C is over 16 threads, the atom has 32"):
        dataclasses.replace(M16N8K16, layout_c=Layout((16, 8), (8, 1)))


def test_targets() -> None:
    assert M16N8K16.available_on(target("sm_80"))
    assert WGMMA.available_on(target("sm_90a"))
    assert not WGMMA.available_on(target("sm_100a"))
    with pytest.raises(TargetError) as error:
        WGMMA.check_target(target("sm_80"))
    assert str(error.value) == (
        "MMA atom SM90_64x16x16_F32BF16BF16_RS_KN: needs wgmma, which sm_80 does not have\n"
        "  targets with wgmma = sm_90a"
    )
    fp8 = mma_atom("SM89_16x8x32_F32E4M3E4M3F32_TN")
    assert [fp8.available_on(target(t)) for t in ("sm_80", "sm_89", "sm_90")] == [False, True, True]
