"""Copy rows: what moves where, against the PTX ISA, and the errors."""

import dataclasses

import pytest

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.registry import ALL_COPY_ATOMS, copy_atom, find_copy_atom
from tilewright.arch.target import target
from tilewright.arch.thread_value import tv_table
from tilewright.errors import LayoutError, TargetError
from tilewright.layout.layout import Layout

MATRIX = [a for a in ALL_COPY_ATOMS if a.num_matrices]


def registers(atom: CopyAtom) -> Layout:
    return atom.dst_layout if atom.kind == "ldmatrix" else atom.src_layout


def memory(atom: CopyAtom) -> Layout:
    return atom.src_layout if atom.kind == "ldmatrix" else atom.dst_layout


@pytest.mark.parametrize("atom", ALL_COPY_ATOMS, ids=str)
def test_both_sides_name_the_same_bits(atom: CopyAtom) -> None:
    src, dst = (
        {x for row in tv_table(layout) for x in row}
        for layout in (atom.src_layout, atom.dst_layout)
    )
    assert src == dst == set(range(len(src)))
    held = [x for row in tv_table(atom.ref_layout) for x in row]
    assert len(held) == len(src), "each thread of the reference side holds its own bits"


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
    assert all(copy_atom(a.name) is a and copy_atom(a) is a for a in ALL_COPY_ATOMS)


def test_a_tma_atom_takes_the_size_of_its_box() -> None:
    sized = copy_atom("SM90_TMA_LOAD").sized(64 * 64 * 16)
    assert sized.ref_bits == 65536
    assert sized.is_bulk
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
