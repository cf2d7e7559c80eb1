"""Pictures of layouts, swizzles, thread-value layouts and bank conflicts, as figures.

Colours repeat every eight numbers (`palette`); what they count is said in the caption.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.analysis import BANK_BYTES, BANKS, Threads, bank_conflicts, lane_addresses
from tilewright.layout.coord import idx2crd
from tilewright.layout.int_tuple import fmt, product, wrap
from tilewright.layout.layout import Layout
from tilewright.layout.modes import size
from tilewright.layout.swizzle import AnyLayout, ComposedLayout, Swizzle
from tilewright.viz.drawing import Drawing
from tilewright.viz.figure import Cell, Figure, Grid, make_grid

_MAX_SLICES = 8


def draw(thing: AnyLayout | Swizzle) -> Drawing:
    """The picture of a layout or a swizzle.

    >>> print(draw(Swizzle(1, 2, 3)))
    Sw<1,2,3>: where blocks of 4 elements go
    row: offset bits 5 to 5; column: bits 2 to 2; cell: the column that the block moves to
          rows source, columns target
           0   1
         +---+---+
       0 | 0 | 1 |
         +---+---+
       1 | 1 | 0 |
         +---+---+
    """
    if isinstance(thing, Swizzle):
        return Drawing(swizzle_figure(thing))
    return Drawing(layout_figure(thing))


def draw_tv(layout: Layout, tile: tuple[int, int]) -> Drawing:
    """The picture of a thread-value layout over a tile; see `tv_figure`."""
    return Drawing(tv_figure(layout, tile))


def draw_banks(
    layout: AnyLayout, threads: Threads, access_bytes: int = 4, element_bits: int | None = None
) -> Drawing:
    """The picture of an access to shared memory; see `bank_figure`."""
    return Drawing(bank_figure(layout, threads, access_bytes, element_bits))


def layout_figure(layout: AnyLayout) -> Figure:
    """The table of offsets: mode 0 down, mode 1 across, a grid for each coordinate of the others.

    Raises: LayoutError for a layout with run-time sizes.
    """
    shape = _static_shape(layout)
    rows = product(shape[0])
    cols = product(shape[1]) if len(shape) > 1 else 1
    step, captions = _colour_step(layout)
    slices = product(shape[2:])
    grids = []
    for k in range(min(slices, _MAX_SLICES)):
        rest = wrap(idx2crd(k, shape[2:])) if len(shape) > 2 else ()
        title = "" if not rest else "(" + ",".join(["_", "_", *(fmt(c) for c in rest)]) + ")"

        def cell(i: int, j: int, rest: tuple[Any, ...] = rest) -> Cell:
            return _offset_cell(layout((i, j, *rest) if len(shape) > 1 else i), step)

        grids.append(make_grid(title, rows, cols, cell))
    if slices > _MAX_SLICES:
        captions = (*captions, f"slices {_MAX_SLICES} to {slices - 1} are not shown")
    return Figure(str(layout), tuple((grid,) for grid in grids), captions)


def _static_shape(layout: AnyLayout) -> tuple[Any, ...]:
    if not layout.is_static:
        raise LayoutError(f"cannot draw {layout}: it has sizes that are only known at run time")
    return wrap(layout.shape)


def _colour_step(layout: AnyLayout) -> tuple[int, tuple[str, ...]]:
    """Colours count blocks that a swizzle keeps together, so that its pattern shows."""
    if isinstance(layout, ComposedLayout) and isinstance(layout.inner, Swizzle):
        block = 1 << layout.inner.base
        if block > 1:
            return block, (f"colour: offset // {block}, the blocks that the swizzle moves",)
    return 1, ()


def _offset_cell(offset: Any, step: int) -> Cell:
    if isinstance(offset, tuple):
        return Cell((fmt(offset),))
    return Cell((str(offset),), offset // step)


def swizzle_figure(swizzle: Swizzle) -> Figure:
    """Where a swizzle moves blocks: source bits down, target bits across.

    The bits between and below them stay as they are.
    """
    count, base = 1 << swizzle.bits, swizzle.base
    low = base + max(0, -swizzle.shift)
    high = base + max(0, swizzle.shift)
    bits = swizzle.bits

    def cell(source: int, target: int) -> Cell:
        moved = swizzle(source << high | target << low)
        column = (moved & swizzle.target_mask) >> low if bits else 0
        return Cell((str(column),), column)

    what = f"{swizzle}: where blocks of {1 << low} elements go"
    if not bits:
        return Figure(f"{swizzle}: the identity", ((make_grid("", 1, 1, cell),),))
    caption = (
        f"row: offset bits {high} to {high + bits - 1}; column: bits {low} to {low + bits - 1}; "
        "cell: the column that the block moves to"
    )
    grid = make_grid("", count, count, cell, row_name="source", col_name="target")
    return Figure(what, ((grid,),), (caption,))


def tv_figure(layout: Layout, tile: tuple[int, int]) -> Figure:
    """Who holds what: cell (row, column) names thread and value of ``layout(thread, value) ==
    row + column * rows``.

    Raises: LayoutError unless `layout` has two modes, or if an index lies outside the tile.
    """
    grid = tv_grid(layout, tile, "")
    return Figure(f"{layout} over {tile[0]}x{tile[1]}", ((grid,),), (TV_CAPTION,))


TV_CAPTION = "T thread, V value; colour: thread; +n: n more hold the element"


def tv_grid(
    layout: Layout,
    tile: tuple[int, int],
    title: str,
    *,
    thread_names: Layout | None = None,
    prefix: str = "T",
    transpose: bool = False,
    row_name: str = "",
    col_name: str = "",
    max_rows: int = 64,
    max_cols: int = 64,
    notes: tuple[str, ...] = (),
) -> Grid:
    """The grid of `tv_figure`; `thread_names` maps threads to the numbers that are printed."""
    rows, cols = tile
    owners = _owners(layout, rows * cols)

    def cell(i: int, j: int) -> Cell:
        index = j + i * rows if transpose else i + j * rows
        held = owners.get(index)
        if not held:
            return Cell(("-",))
        thread, value = held[0]
        name = thread if thread_names is None else thread_names(thread)
        more = f"+{len(held) - 1}" if len(held) > 1 else ""
        return Cell((f"{prefix}{name}", f"V{value}{more}"), name)

    shown = (cols, rows) if transpose else (rows, cols)
    return make_grid(
        title,
        *shown,
        cell,
        row_name=row_name,
        col_name=col_name,
        max_rows=max_rows,
        max_cols=max_cols,
        notes=notes,
    )


def _owners(layout: Layout, count: int) -> dict[int, list[tuple[int, int]]]:
    if len(layout) != 2:
        raise LayoutError(
            f"a thread-value layout has two modes (thread, value), {layout} has {len(layout)}"
        )
    owners: dict[int, list[tuple[int, int]]] = {}
    for value in range(size(layout[1])):
        for thread in range(size(layout[0])):
            index = layout((thread, value))
            if not isinstance(index, int) or not 0 <= index < count:
                raise LayoutError(
                    f"thread {thread}, value {value} of {layout} is at {fmt(index)}, outside a "
                    f"tile of {count} elements"
                )
            owners.setdefault(index, []).append((thread, value))
    return owners


def bank_figure(
    layout: AnyLayout, threads: Threads, access_bytes: int = 4, element_bits: int | None = None
) -> Figure:
    """One access to shared memory: banks across, rows of 128 bytes down, lanes in the cells.

    A grid per phase; a bank that has to serve several rows has its cells framed and marked ``!``.
    """
    report = bank_conflicts(layout, threads, access_bytes, element_bits)
    addresses = lane_addresses(layout, threads, access_bytes, element_bits)
    grids = []
    for number, phase in enumerate(report.phases[:_MAX_SLICES]):
        title = f"phase {number}, lanes {_span(phase.lanes)}: {phase.ways}-way"
        grids.append(_phase_grid(title, addresses, phase.lanes, access_bytes))
    captions = [str(report), "colour and text: lane; !: one of several words of its bank"]
    if len(report.phases) > _MAX_SLICES:
        captions.append(f"phases {_MAX_SLICES} to {len(report.phases) - 1} are not shown")
    title = f"{layout}: {access_bytes} bytes a lane"
    return Figure(title, tuple((grid,) for grid in grids), tuple(captions))


def _phase_grid(
    title: str, addresses: Sequence[int | None], lanes: Sequence[int], access_bytes: int
) -> Grid:
    words: dict[int, list[int]] = {}
    for lane in lanes:
        address = addresses[lane]
        if address is not None:
            first = address // BANK_BYTES
            for word in range(first, (address + access_bytes - 1) // BANK_BYTES + 1):
                words.setdefault(word, []).append(lane)
    lines = sorted({word // BANKS for word in words})
    load = [sum(1 for w in words if w % BANKS == b) for b in range(BANKS)]

    def cell(i: int, bank: int) -> Cell:
        held = words.get(lines[i] * BANKS + bank)
        if held is None:
            return Cell()
        more = f"+{len(held) - 1}" if len(held) > 1 else ""
        alarm = load[bank] > 1
        return Cell((f"{held[0]}{more}" + "!" * alarm,), held[0], alarm=alarm)

    labels = [str(line * BANKS * BANK_BYTES) for line in lines]
    return make_grid(
        title, len(lines), BANKS, cell, row_name="byte", col_name="bank", row_labels=labels
    )


def _span(lanes: Sequence[int]) -> str:
    first, last = lanes[0], lanes[-1]
    whole = last - first + 1 == len(lanes)
    if len(lanes) == 1:
        return str(first)
    return f"{first} to {last}" if whole else ", ".join(map(str, lanes))
