"""The laws of MMA rows, and one executor for all of them."""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
import pytest

from tilewright.arch.element import C64, CBF16, CF16, CTF32, GC64, U1
from tilewright.arch.mma.atom import MmaAtom, Operand, operand_map
from tilewright.arch.mma.registry import ALL_MMA_ATOMS, every_mma_atom, mma_atom
from tilewright.arch.target import target
from tilewright.arch.thread_value import tv_table
from tilewright.errors import DTypeError, LayoutError, TargetError
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import F64, DType

M16N8K16 = mma_atom("SM80_16x8x16_F32BF16BF16F32_TN")
WGMMA = mma_atom("SM90_64x16x16_F32BF16BF16_RS_KN")
COMPLEX = {C64, GC64, CF16, CBF16, CTF32}


def distinct(atoms: Iterable[MmaAtom]) -> list[MmaAtom]:
    """One row of each layout and arithmetic: types that are held alike are computed alike."""
    found: dict[tuple[object, ...], MmaAtom] = {}
    for a in atoms:
        if a.kind == "wgmma" and a.shape_mnk[1] not in (8, 24, 256):
            continue
        key = (a.kind, a.thr_id, a.layout_a, a.layout_b, a.layout_c)
        found.setdefault((*key, a.operation, a.saturate, a.a_type in COMPLEX), a)
    return list(found.values())


FORMS = distinct(every_mma_atom())


def gather(atom: MmaAtom, which: str, matrix: np.ndarray) -> np.ndarray:
    """Registers (thread, value) of a matrix."""
    return matrix.ravel(order="F")[np.array(tv_table(atom.layout(which)))]


def scatter(atom: MmaAtom, which: str, registers: np.ndarray) -> np.ndarray:
    """The matrix that registers hold."""
    rows, cols = atom.matrix_shape(which)
    flat = np.full(rows * cols, 10**9, registers.dtype)
    flat[np.array(tv_table(atom.layout(which)))] = registers
    return flat.reshape(rows, cols, order="F")


def multiply(atom: MmaAtom, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sum along K of what the instruction does with each pair of elements."""
    if atom.operation == "multiply":
        return a @ b.T
    combine = {"xor_popc": np.not_equal, "and_popc": np.logical_and}[atom.operation]
    return combine(a[:, None], b[None]).sum(axis=2)


def execute(atom: MmaAtom, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Registers in, registers out: only by the row."""
    total = multiply(atom, scatter(atom, "A", a), scatter(atom, "B", b)) + scatter(atom, "C", c)
    if atom.saturate:
        limits = np.iinfo(np.int32)
        total = total.clip(limits.min, limits.max)
    return gather(atom, "D", total)


def some(atom: MmaAtom, which: Operand, rng: np.random.Generator) -> np.ndarray:
    """A matrix of small integers that the operand's type can hold; sums of them are exact."""
    element, shape = atom.element(which), atom.matrix_shape(which)
    if element is U1:
        return rng.integers(0, 2, shape)
    low = 0 if isinstance(element, DType) and not element.is_signed else -3
    if atom.saturate and which == "C":
        return rng.choice([2**31 - 1, -(2**31), 0], shape)
    values = rng.integers(low, 4, shape)
    if element in COMPLEX and atom.c_type not in COMPLEX:
        return values  # one real product of a complex one
    if element in COMPLEX:
        return values + 1j * rng.integers(low, 4, shape)
    return values.astype(float) if values.size > 4096 else values


@pytest.mark.parametrize("atom", FORMS, ids=str)
def test_registers_in_registers_out(atom: MmaAtom) -> None:
    rng = np.random.default_rng(0)
    a, b, c = (some(atom, which, rng) for which in ("A", "B", "C"))
    d = execute(atom, gather(atom, "A", a), gather(atom, "B", b), gather(atom, "C", c))
    expected = multiply(atom, a, b) + c
    if atom.saturate:
        assert (expected != expected.clip(-(2**31), 2**31 - 1)).any()
        expected = expected.clip(-(2**31), 2**31 - 1)
    assert (scatter(atom, "D", d) == expected).all()


def test_the_forms_are_of_every_family() -> None:
    families = {atom.name.split("_")[0] for atom in FORMS}
    assert families >= {"UniversalFMA", "SM61", "SM70", "SM80", "SM90", "SM100", "SM120", "CDNA3"}
    assert {a.kind for a in FORMS} == {a.kind for a in every_mma_atom()}
    assert {a.sparsity for a in FORMS} == {1, 2}


@pytest.mark.parametrize("atom", FORMS, ids=str)
def test_operands_are_bijections(atom: MmaAtom) -> None:
    for which in ("A", "B", "C"):
        table = tv_table(atom.layout(which))
        if atom.kind == "wgmma" and atom.source(which) == "smem":
            table = table[:1]
        held = sorted(x for row in table for x in row)
        assert held == list(range(atom.size(which)))


def test_every_row_is_over_its_group() -> None:
    groups = {"fma": 1, "dot": 1, "quad_pair": 8, "mma": 32, "wgmma": 128, "mfma": 64}
    for atom in every_mma_atom():
        ctas = 2 if "_2x1SM_" in atom.name else 1
        assert atom.num_threads == (ctas if atom.kind == "umma" else groups[atom.kind]), atom.name
        assert atom.num_values("C") * atom.num_threads == atom.size("C")
        m, n, k = atom.shape_mnk
        assert atom.name.startswith(("SM61", "Universal")) or f"{m}x{n}x{k}_" in atom.name
        assert len(atom.operand_bits) == 4


def test_a_row_of_32_bytes() -> None:
    """What an instruction takes of A in a row: a constant of its family, whatever the type."""
    for atom in every_mma_atom():
        stored = atom.shape_mnk[2] * atom.operand_bits[1]
        if atom.kind == "wgmma" or (atom.kind == "umma" and "F8F6F4" not in atom.name):
            assert stored == (384 if atom.min_arch == 103 else 256), atom.name
        if atom.min_arch == 120:
            assert stored == 256, atom.name


def test_sizes_add_up() -> None:
    for atom in every_mma_atom():
        if not atom.has_emitter:
            continue
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


def test_a_row_without_an_emitter_says_so() -> None:
    atom = mma_atom("SM80_16x8x64_S32S4U4S32_TN")
    assert not atom.has_emitter
    assert not atom.available_on(target("sm_80"))
    with pytest.raises(TargetError) as error:
        atom.check_target(target("sm_80"))
    assert str(error.value) == (
        "MMA atom SM80_16x8x64_S32S4U4S32_TN: the code generator does not write this instruction; "
        "its row only says which thread holds what"
    )
    for ask in (lambda: atom.registers("A"), lambda: atom.instruction(*numbered(4, 4, 2, 4))):
        with pytest.raises(TargetError, match="does not write this instruction"):
            ask()


def test_an_element_that_is_no_dtype() -> None:
    atom = mma_atom("SM80_8x8x4_GC64C64C64GC64_TN")
    assert (atom.element("A"), atom.element("D")) == (C64, GC64)
    assert atom.operand_bits == (192, 128, 128, 192)
    with pytest.raises(DTypeError) as error:
        atom.a_dtype  # noqa: B018
    assert str(error.value) == (
        "MMA atom SM80_8x8x4_GC64C64C64GC64_TN: operand A holds c64, 128 bits that no element type "
        "of the language describes\n  hint: element() tells its name and width"
    )
    assert mma_atom("SM80_8x8x4_F64F64F64F64_TN").d_dtype is F64


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("SM80_16x8x256_S32U1U1S32_TN_XORPOPC", (32, 1, 1, 32)),
        ("SM120_16x8x32_F32E2M1E3M2F32_TN", (32, 8, 8, 32)),
        ("SM120_16x8x64_F32E2M1E2M1F32_TN_VS16_UE4M3", (32, 4, 4, 32)),
        ("SM120_SPARSE_16x8x64_F16E4M3E5M2F16_TN", (16, 4, 8, 16)),
        ("SM90_SPARSE_64x8x32_F32F16F16_RS_KK", (32, 8, 16, 32)),
        ("SM100_MMA_TF32_TS_INTERLEAVED_CF32CTF32CTF32CF32_TN_128x256x4_F32CTF32CTF32_KK",
         (32, 64, 64, 32)),
    ],
)  # fmt: skip
def test_operand_bits(name: str, bits: tuple[int, ...]) -> None:
    """As stored: a 4-bit float in a byte takes 8, a value of a sparse A half of its type."""
    assert mma_atom(name).operand_bits == bits
