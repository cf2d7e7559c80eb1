"""Pictures of atoms agree with the maps that the simulator executes."""

from __future__ import annotations

import pytest

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.registry import every_copy_atom
from tilewright.arch.mma.atom import MmaAtom, Operand, operand_map
from tilewright.arch.mma.registry import every_mma_atom
from tilewright.layout.modes import size
from tilewright.viz.atom_pictures import (
    copy_cells,
    copy_figure,
    executor,
    mma_figure,
    operand_place,
)
from tilewright.viz.figure import Grid
from tilewright.viz.layout_command import find_atom


def distinct() -> list[MmaAtom]:
    """One atom for each set of layouts."""
    found = {}
    for atom in every_mma_atom():
        key = (atom.layout_a, atom.layout_b, atom.layout_c, atom.thr_id, atom.shape_mnk)
        found.setdefault(key, atom)
    small = [a for a in found.values() if a.shape_mnk[1] <= 32]
    return small + [a for a in found.values() if a.shape_mnk[1] > 32][::20]


@pytest.mark.parametrize("atom", distinct(), ids=str)
def test_mma_pictures(atom: MmaAtom) -> None:
    figure = mma_figure(atom)
    assert figure.rows[0][0] is None
    grids: dict[Operand, Grid | None] = {
        "A": figure.rows[1][0],
        "B": figure.rows[0][1],
        "C": figure.rows[1][1],
    }
    for which, grid in grids.items():
        assert grid is not None
        if all(c.shared for row in grid.cells for c in row):
            assert operand_place(atom, which)
            assert all(c.shared and not c.lines for row in grid.cells for c in row)
            continue
        for thread, values in enumerate(operand_map(atom, which)):
            name = atom.thr_id(thread)
            for value, (row, col) in enumerate(values):
                i, j = (col, row) if which == "B" else (row, col)
                if i < grid.num_rows and j < grid.num_cols:
                    cell = grid.cells[i][j]
                    assert cell.lines == (f"{executor(atom)}{name}", f"V{value}")


@pytest.mark.parametrize("atom", every_copy_atom(), ids=str)
def test_copy_pictures(atom: CopyAtom) -> None:
    figure = copy_figure(atom)
    source, destination = figure.grids()
    total, unit, row_units = copy_cells(atom)
    for grid, layout in ((source, atom.src_layout), (destination, atom.dst_layout)):
        assert grid.num_cols == min(row_units, 32)
        if total > 8192:
            continue
        held = {layout(i) // unit for i in range(size(layout))}
        for i, row in enumerate(grid.cells):
            for j, cell in enumerate(row):
                assert (cell.text != "-") == (i * row_units + j in held)


def test_ldmatrix_of_one_matrix_shares_its_rows() -> None:
    source = copy_figure(find_atom("SM75_U32x1_LDSM_N")).grids()[0]  # type: ignore[arg-type]
    assert source.cells[2][0].text == "T2 V0+3"


def test_where_shared_operands_lie() -> None:
    atom = find_atom("SM90_64x128x16_F32BF16BF16_SS_KN")
    assert isinstance(atom, MmaAtom)
    assert operand_place(atom, "A") == "in shared memory, K-major, through a descriptor"
    assert operand_place(atom, "B") == "in shared memory, MN-major, through a descriptor"
    assert operand_place(atom, "C") == ""
