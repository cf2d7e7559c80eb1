"""Copy rows: what moves where, against the PTX ISA, and the errors."""

import dataclasses
import math
from collections import Counter

import pytest

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.registry import (
    ALL_COPY_ATOMS,
    copy_atom,
    every_copy_atom,
    find_copy_atom,
)
from tilewright.arch.target import target
from tilewright.arch.thread_value import (
    is_broadcast,
    is_compact,
    num_threads,
    num_values,
    tv_table,
)
from tilewright.errors import LayoutError, TargetError
from tilewright.layout.int_tuple import flatten_tuple
from tilewright.layout.layout import Layout

MATRIX = [a for a in ALL_COPY_ATOMS if a.num_matrices]


def registers(atom: CopyAtom) -> Layout:
    return atom.dst_layout if atom.kind == "ldmatrix" else atom.src_layout


def memory(atom: CopyAtom) -> Layout:
    return atom.src_layout if atom.kind == "ldmatrix" else atom.dst_layout


def image(layout: Layout) -> set[int]:
    return {x for row in set(tv_table(layout)) for x in row}


def moves_its_own_numbers(layout: Layout) -> bool:
    """Every bit from 0 on is named, by one thread each or by all."""
    shape, stride = (flatten_tuple(x) for x in (layout.shape, layout.stride))
    pairs = [(s, d) for s, d in zip(shape, stride, strict=True) if d]
    size = math.prod(s for s, _ in pairs)
    return is_compact(tuple(s for s, _ in pairs), tuple(d for _, d in pairs), size)


@pytest.mark.parametrize("atom", every_copy_atom(), ids=str)
def test_both_sides_name_the_same_bits(atom: CopyAtom) -> None:
    if "4dp256bit" in atom.name:  # four lanes, each 32 lanes apart
        assert atom.src_layout == atom.dst_layout
        return
    sides = (atom.src_layout, atom.dst_layout)
    assert all(moves_its_own_numbers(side) for side in sides)
    sizes = [math.prod(s for s, d in _modes(side) if d) for side in sides]
    assert sizes[0] * atom.multiplicity == sizes[1]
    if max(sizes) <= 8192:
        assert image(atom.src_layout) == set(range(sizes[0]))
        assert image(atom.dst_layout) == set(range(sizes[1]))


def _modes(layout: Layout) -> list[tuple[int, int]]:
    return list(zip(flatten_tuple(layout.shape), flatten_tuple(layout.stride), strict=True))


@pytest.mark.parametrize("atom", every_copy_atom(), ids=str)
def test_registers_are_not_shared(atom: CopyAtom) -> None:
    """A register holds a bit that no other thread has; shared and tensor memory are seen by all."""
    if atom.kind in ("ldmatrix", "tmem_load"):
        sides = [atom.dst_layout]
    elif atom.kind in ("stmatrix", "tmem_store"):
        sides = [atom.src_layout]
    elif atom.kind in ("shuffle", "movmatrix"):
        sides = [atom.src_layout, atom.dst_layout]
    else:
        return
    for side in sides:
        size = num_threads(side) * num_values(side)
        assert is_compact(side.shape, side.stride, size)


@pytest.mark.parametrize("x", [1, 4])
def test_a_shuffle_transposes_pairs(x: int) -> None:
    """Lane l + b*x gets as register j what lane l + j*x had as register b."""
    atom = copy_atom(f"SM50_Shuffle_U32_2x2Trans_XOR{x}")
    had, has = tv_table(atom.src_layout), tv_table(atom.dst_layout)
    for lane in range(32):
        second = bool(lane & x)
        first = lane - x * second
        for j in (0, 1):
            source = had[first + j * x][32 * second : 32 * second + 32]
            assert has[lane][32 * j : 32 * j + 32] == source


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_tensor_memory_loads(n: int) -> None:
    """Lane and 32-bit column of each register.

    Source: PTX ISA, "tcgen05.ld", data movement shapes; the order within 16dp64b is CuTe's.
    """
    formulas = {
        "32dp32b": lambda t, i: (t, i),
        "16dp32b": lambda t, i: (t % 16, i + n * (t // 16)),
        "16dp64b": lambda t, i: (t // 4 + 8 * (t & 1), 2 * i + (t >> 1 & 1)),
        "16dp128b": lambda t, i: (t // 4 + 8 * (i & 1), t % 4 + 4 * (i >> 1)),
        "16dp256b": lambda t, i: (t // 4 + 8 * (i >> 1 & 1), 2 * (t % 4) + (i & 1) + 8 * (i >> 2)),
    }
    for shape, formula in formulas.items():
        for suffix in ("", "_16b"):
            load = copy_atom(f"SM100_TMEM_LOAD_{shape}{n}x{suffix}")
            store = copy_atom(f"SM100_TMEM_STORE_{shape}{n}x{suffix}")
            assert (load.src_layout, load.dst_layout) == (store.dst_layout, store.src_layout)
            assert is_broadcast(load.src_layout)
            lanes = int(shape[:2])
            columns = num_values(load.src_layout) // (32 * lanes)
            for thread, bits in enumerate(tv_table(load.dst_layout)):
                for i in range(len(bits) // 32):
                    lane, column = divmod(bits[32 * i] // 32, columns)
                    assert (lane, column) == formula(thread, i), (shape, thread, i)


def test_the_largest_tensor_memory_load_fills_128_registers() -> None:
    for shape, x in (("16dp256b", 32), ("16dp128b", 64), ("16dp64b", 128), ("32dp32b", 128)):
        assert num_values(copy_atom(f"SM100_TMEM_LOAD_{shape}{x}x").dst_layout) == 32 * 128
        with pytest.raises(LayoutError, match="is not a copy atom"):
            copy_atom(f"SM100_TMEM_LOAD_{shape}{2 * x}x")


@pytest.mark.parametrize(("name", "groups"), [("U8x8_LDSM_T", 2), ("U8x16_LDSM_T", 4)])
def test_transposing_loads_of_bytes(name: str, groups: int) -> None:
    """`ldmatrix.m16n16`: lane 4g + t gets, of columns g and g + 8, the rows of lanes 4t .. 4t+3.

    CuTe then exchanges bytes between the two registers, to hold of each eight rows two.
    Source: PTX ISA, `ldmatrix`, fragment layout of one 16x16 matrix with 8-bit elements.
    """
    atom = copy_atom(f"SM100_{name}")
    addressed = [bits[0] // 128 for bits in tv_table(atom.src_layout)]
    for lane, bits in enumerate(tv_table(atom.dst_layout)):
        g, t = lane // 4, lane % 4
        for matrix in range(groups // 2):
            mine = [bits[i] // 8 for i in range(64 * matrix, 64 * matrix + 64, 8)]
            rows = [addressed[16 * matrix + 4 * t + i] for i in range(4)]
            loaded = [[16 * row + column for row in rows] for column in (g, g + 8)]
            first, second = loaded
            assert mine == [*first[:2], *second[:2], *first[2:], *second[2:]]


@pytest.mark.parametrize("name", ["4x32dp128bit", "2x64dp128bitlw0213", "2x64dp128bitlw0123"])
@pytest.mark.parametrize("ctas", [1, 2])
def test_copies_into_several_lanes(name: str, ctas: int) -> None:
    atom = copy_atom(f"SM100_UTCCP_{name}_{ctas}cta")
    assert atom.num_threads == ctas
    (source, *_), (target, *_) = tv_table(atom.src_layout), tv_table(atom.dst_layout)
    assert len(source) == len(target) == 128 * 128
    assert set(Counter(source).values()) == {atom.multiplicity}


@pytest.mark.parametrize("atom", MATRIX, ids=str)
def test_lane_addresses_are_rows(atom: CopyAtom) -> None:
    """Lane 8*i + r addresses row r of matrix i; lanes past the last repeat."""
    for lane, bits in enumerate(tv_table(memory(atom))):
        row = lane % (8 * atom.num_matrices)
        assert bits == tuple(range(128 * row, 128 * row + 128))


@pytest.mark.parametrize("atom", MATRIX, ids=str)
def test_registers_hold_pairs_of_a_row_or_a_column(atom: CopyAtom) -> None:
    """Lane 4*g + t: elements 2t, 2t+1 of row g of each matrix; of column g when transposed.

    Source: PTX ISA, `ldmatrix`, fragment layout figure.
    """
    table = tv_table(registers(atom))
    for lane, bits in enumerate(table):
        g, t = lane // 4, lane % 4
        elements = [bits[i] // 16 for i in range(0, len(bits), 16)]
        assert [b % 16 for b in bits] == list(range(16)) * len(elements)
        expected = []
        for matrix in range(atom.num_matrices):
            for i in (2 * t, 2 * t + 1):
                row, column = (i, g) if atom.transpose else (g, i)
                expected.append(64 * matrix + 8 * row + column)
        assert elements == expected


def test_ptx() -> None:
    load = copy_atom("SM75_U16x8_LDSM_T").ptx.format(regs="{a, b, c, d}", address="%r")
    assert load == "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {a, b, c, d}, [%r];"
    store = copy_atom("SM90_U32x2_STSM_N").ptx.format(regs="{a, b}", address="%r")
    assert store == "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r], {a, b};"
    fill = copy_atom("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL_128b").ptx
    assert (
        fill.format(dst="d", src="s", src_size="n") == "cp.async.cg.shared.global [d], [s], 16, n;"
    )
    box = {"rank": 2, "hinted": "", "tensormap": "m", "coords": "x, y", "hint": ""}
    assert copy_atom("SM90_TMA_LOAD").ptx.format(dst="d", barrier="b", **box) == (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[d], [m, {x, y}], [b];"
    )
    box |= {"hinted": ".L2::cache_hint", "hint": ", h"}
    assert copy_atom("SM90_TMA_LOAD_MULTICAST").ptx.format(
        dst="d", barrier="b", mask="k", **box
    ) == (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster.L2::cache_hint [d], [m, {x, y}], [b], k, h;"
    )
    assert copy_atom("SM90_TMA_STORE").ptx.format(src="s", **box) == (
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint "
        "[m, {x, y}], [s], h;"
    )


def test_find() -> None:
    assert find_copy_atom("universal").name == "UniversalCopy_128b"
    assert find_copy_atom("universal", bits=16).access_bytes == 2
    assert find_copy_atom("ldmatrix", num_matrices=2).name == "SM75_U32x2_LDSM_N"
    assert find_copy_atom("cp_async", bits=128, cache="cg").cache == "cg"
    assert find_copy_atom("tma_load", multicast=True).name == "SM90_TMA_LOAD_MULTICAST"
    assert all(copy_atom(a.name) is a and copy_atom(a) is a for a in every_copy_atom())
    assert len({a.name for a in every_copy_atom()}) == 239


def test_a_tma_atom_takes_the_size_of_its_box() -> None:
    sized = copy_atom("SM90_TMA_LOAD").sized(64 * 64 * 16)
    assert sized.ref_bits == 65536
    assert sized.is_bulk
    pair = copy_atom("SM100_TMA_2SM_LOAD").sized(512)
    assert (str(pair.src_layout), pair.num_threads) == ("(2,512):(512,1)", 2)
    assert copy_atom("SM90_BULK_COPY_G2S").sized(128).ref_bits == 128
    with pytest.raises(LayoutError) as error:
        copy_atom("UniversalCopy_32b").sized(64)
    assert str(error.value) == (
        "copy atom UniversalCopy_32b: always moves 32 bits per thread; "
        "only a TMA atom can be sized, here to 64"
    )


def test_errors() -> None:
    with pytest.raises(LayoutError) as error:
        find_copy_atom("cp_async", bits=32, cache="cg", zero_fill=True)
    assert str(error.value).startswith(
        "find_copy_atom: no cp_async atom with bits=32, cache=cg, zero_fill=True\n"
        "  has = SM80_CP_ASYNC_CACHEALWAYS_32b, "
    )
    with pytest.raises(LayoutError, match="copy_atom: 'LDSM' is not a copy atom; known names: "):
        copy_atom("LDSM")
    with pytest.raises(LayoutError, match="near names: SM75_U32x4_LDSM_N"):
        copy_atom("SM75_U32x4_LDSM")
    with pytest.raises(LayoutError, match="layout of dst is over 2 threads, the atom has 1"):
        dataclasses.replace(copy_atom("UniversalCopy_8b"), dst_layout=Layout((2, 4), (4, 1)))


def test_targets() -> None:
    assert copy_atom("UniversalCopy_8b").available_on(target("sm_80"))
    assert copy_atom("SM75_U32x4_LDSM_N").available_on(target("sm_80"))
    with pytest.raises(TargetError) as error:
        copy_atom("SM90_U32x4_STSM_N").check_target(target("sm_89"))
    assert str(error.value) == (
        "copy atom SM90_U32x4_STSM_N: needs stmatrix, which sm_89 does not have\n"
        "  targets with stmatrix = sm_90a, sm_100a"
    )


def test_a_row_without_an_emitter_says_so() -> None:
    assert tuple(atom for atom in every_copy_atom() if atom.has_emitter) == ALL_COPY_ATOMS
    atom = copy_atom("SM100_TMEM_LOAD_32dp32b1x")
    assert not atom.has_emitter
    assert not atom.available_on(target("sm_100a"))
    with pytest.raises(TargetError) as error:
        atom.check_target(target("sm_100a"))
    assert str(error.value) == (
        "copy atom SM100_TMEM_LOAD_32dp32b1x: the code generator does not write this instruction; "
        "its row only says which thread moves what"
    )
