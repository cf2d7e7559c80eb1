"""Pictures of MMA and copy atoms: which thread holds which element of each operand.

An MMA is drawn as it is multiplied: A left of C, B (transposed, K x N) above it.
"""

from __future__ import annotations

from math import gcd

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.mma.atom import MmaAtom, Operand
from tilewright.arch.thread_value import is_broadcast
from tilewright.layout.int_tuple import flatten_tuple
from tilewright.layout.layout import Layout
from tilewright.layout.modes import coalesce, cosize, size
from tilewright.viz.drawing import Drawing
from tilewright.viz.figure import Cell, Figure, Grid, make_grid
from tilewright.viz.pictures import TV_CAPTION, tv_grid

_MAX_COLS = 32
_COPY_UNIT_BITS = 32


def draw_atom(atom: MmaAtom | CopyAtom) -> Drawing:
    """The picture of an MMA or copy atom."""
    return Drawing(mma_figure(atom) if isinstance(atom, MmaAtom) else copy_figure(atom))


def mma_figure(atom: MmaAtom) -> Figure:
    """A, B and C with thread and value in every cell; wide atoms show their first columns."""
    a = _operand_grid(atom, "A", "m", "k")
    b = _operand_grid(atom, "B", "k", "n", transpose=True)
    c = _operand_grid(atom, "C", "m", "n")
    return Figure(atom.name, ((None, b), (a, c)), (_caption(atom),))


_PLACES = {"smem": "in shared memory", "tmem": "in tensor memory"}


def operand_place(atom: MmaAtom, which: Operand) -> str:
    """Where an operand lies that no thread holds alone; empty for one in the threads' registers."""
    source = atom.source(which)
    if source == "smem":
        return f"{_PLACES[source]}, {atom.major(which)}-major, through a descriptor"
    return _PLACES.get(source, "")


def operand_title(atom: MmaAtom, which: Operand) -> str:
    """``A: 16x8 bf16``; B as it is drawn, K x N."""
    rows, cols = atom.matrix_shape(which)
    if which == "B":
        rows, cols = cols, rows
    name = "C, D" if which == "C" else which
    return f"{name}: {rows}x{cols} {atom.element('D' if which == 'C' else which)}"


def executor(atom: MmaAtom | CopyAtom) -> str:
    """What the numbers in the picture count: T for threads, CTA where CTAs work together.

    >>> from tilewright.arch.mma.registry import mma_atom
    >>> executor(mma_atom("SM80_8x8x4_F64F64F64F64_TN"))
    'T'
    """
    if isinstance(atom, MmaAtom):
        return "CTA" if atom.kind == "umma" else "T"
    return "CTA" if atom.is_bulk or atom.kind == "tmem_copy" else "T"


def _caption(atom: MmaAtom | CopyAtom) -> str:
    if executor(atom) == "T":
        return TV_CAPTION
    return "CTA n, V its value; colour: CTA; +n: n more hold the element"


def _operand_grid(
    atom: MmaAtom, which: Operand, row: str, col: str, transpose: bool = False
) -> Grid:
    rows, cols = atom.matrix_shape(which)
    layout, place = atom.layout(which), operand_place(atom, which)
    title = operand_title(atom, which)
    if place and (size(layout[0]) == 1 or is_broadcast(layout)):
        return make_grid(
            title,
            *((cols, rows) if transpose else (rows, cols)),
            lambda _i, _j: Cell(shared=True),
            row_name=row,
            col_name=col,
            max_cols=_MAX_COLS,
            notes=(place,),
        )
    return tv_grid(
        layout,
        (rows, cols),
        title,
        thread_names=_thread_names(atom.thr_id),
        prefix=executor(atom),
        transpose=transpose,
        row_name=row,
        col_name=col,
        max_cols=_MAX_COLS,
        notes=(place,) if place else (),
    )


def _thread_names(thr_id: Layout) -> Layout | None:
    """None where threads are simply numbered."""
    plain = coalesce(thr_id)
    return None if plain.stride in (0, 1) else thr_id


def copy_figure(atom: CopyAtom) -> Figure:
    """Source and destination: the pieces of the data that each thread addresses or holds."""
    _, unit, row_units = copy_cells(atom)
    src = _side_grid(atom, atom.src_layout, "source")
    dst = _side_grid(atom, atom.dst_layout, "destination")
    if atom.is_bulk:
        caption = "one thread starts the copy of a whole box; the TMA engine moves it"
    else:
        caption = f"a cell is {unit} bits, a row {unit * row_units}; V counts a thread's cells"
    return Figure(atom.name, ((src, dst),), (caption, _caption(atom)))


def copy_cells(atom: CopyAtom) -> tuple[int, int, int]:
    """How a copy is drawn: bits in all, bits of a cell, cells of a row.

    >>> from tilewright.arch.copy.registry import copy_atom
    >>> copy_cells(copy_atom("SM75_U32x4_LDSM_N"))
    (4096, 32, 4)
    """
    total = max(cosize(atom.src_layout), cosize(atom.dst_layout))
    unit = _unit_bits(atom)
    return total, unit, _row_units(atom, total, unit)


def _unit_bits(atom: CopyAtom) -> int:
    """The piece that is contiguous on both sides, at most a register (a byte for one thread)."""
    runs = [_run(layout) for layout in (atom.src_layout, atom.dst_layout)]
    most = _COPY_UNIT_BITS if atom.num_threads > 1 else 8
    return gcd(*runs, most)


def _run(layout: Layout) -> int:
    """Bits that every thread holds contiguously, aligned to their number."""
    flat = coalesce(layout[1])
    extents, steps = flatten_tuple(flat.shape), flatten_tuple(flat.stride)
    run = extents[0] if steps[0] == 1 else 1
    for step in (*steps[1:], *flatten_tuple(layout.stride[0])):
        run = gcd(run, step)
    return run


def _row_units(atom: CopyAtom, total: int, unit: int) -> int:
    """Cells of a row: what one thread addresses, where that is more than a cell."""
    held = min(size(atom.src_layout[1]), size(atom.dst_layout[1]))
    per_thread = int(atom.access_bits if atom.num_matrices else held)
    return max(min(per_thread, total) // unit, 1)


def _side_grid(atom: CopyAtom, layout: Layout, title: str) -> Grid:
    """The grid of one side; value v of a thread is its v-th piece."""
    total, unit, row_units = copy_cells(atom)
    prefix = executor(atom)
    cells: dict[int, list[tuple[int, int]]] = {}
    for thread in range(size(layout[0])):
        name = atom.thr_id(thread)
        for value in range(size(layout[1]) // unit):
            cells.setdefault(layout((thread, value * unit)) // unit, []).append((name, value))

    def cell(i: int, j: int) -> Cell:
        held = cells.get(i * row_units + j)
        if not held:
            return Cell(("-",))
        thread, value = held[0]
        more = f"+{len(held) - 1}" if len(held) > 1 else ""
        return Cell((f"{prefix}{thread}", f"V{value}{more}"), thread)

    rows = -(-total // (unit * row_units))
    return make_grid(f"{title} {layout}", rows, row_units, cell, row_name="row", max_cols=_MAX_COLS)
