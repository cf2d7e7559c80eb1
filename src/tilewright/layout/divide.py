"""Division by a tile, and the views of a divided layout that kernels use.

A *tiler* is: a layout (one tile over the linear index), an int n (``n:1``), None (the whole mode),
or a tuple of tilers (mode by mode; modes that it lacks are left whole).

Rule PADDING.  A tile that does not divide its mode is counted up: the result covers more than the
source, and the coordinates past the end are for the kernel to predicate.  This happens only where
one stride walks the mode; a divide that would run over a mode's end *inside* another is refused.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.complement import complement, complement_basis, from_flat
from tilewright.layout.compose import composition
from tilewright.layout.coord import dice_tuple
from tilewright.layout.int_tuple import (
    Coord,
    IntTuple,
    ceil_div_tuple,
    flatten_tuple,
    fmt,
    leaves,
    product,
    product_each,
    wrap,
)
from tilewright.layout.layout import Layout, make_layout, trusted
from tilewright.layout.leaf import Leaf, as_leaf, ceil_div_leaf, mul, provably_equal
from tilewright.layout.modes import coalesce, shape, size, slice_and_offset
from tilewright.layout.static import (
    Coordinates,
    Uneven,
    carries,
    gaps,
    merge,
    pack,
    repeats,
    walk,
)
from tilewright.layout.swizzle import ComposedLayout, LayoutT

Tiler = Any
"""Layout | int | None | tuple of Tilers."""


def logical_divide(layout: LayoutT, tiler: Tiler) -> LayoutT:
    """``layout o (B, B*)`` with B* the complement of the tile B in the shape of `layout`.

    Shapes: layout tiler: (tile, rest).  Tuple tiler: ((tile0, rest0), (tile1, rest1), other..).
    Laws:   ``R((i, j)) == layout(B(i) + B*(j))``; where the tile divides, size(R) == size(layout).
            Otherwise see rule PADDING.
    Raises: LayoutError if a tile does not walk the layout evenly.
    Source: CuTe layout algebra, "logical divide".

    >>> print(logical_divide(Layout((12, 32)), Layout((4, 8), (1, 4))))
    ((4,8),12):((1,4),32)
    >>> print(logical_divide(Layout((12, 32)), (4, 8)))
    ((4,3),(8,4)):((1,4),(12,96))
    """
    if isinstance(layout, ComposedLayout):
        return layout.with_outer(logical_divide(layout.outer, tiler))
    _check_layout(layout, "logical_divide")
    if tiler is None:
        return layout
    if isinstance(tiler, (tuple, list)):
        if layout.is_static and _static_tiler(tiler):
            return _by_mode_cached(layout, tuple(tiler))
        return make_layout(*by_mode(layout, tuple(tiler), "logical_divide", logical_divide))
    return _divide(layout, tiler)


def _check_layout(layout: Any, name: str) -> None:
    if type(layout) is not Layout:
        raise LayoutError(
            f"{name}: expected a layout to divide, got {type(layout).__name__} {layout!r}",
            hint=f"{name}(layout, tiler): the layout comes first",
        )


def _by_mode_static(layout: Layout, tiler: tuple[Tiler, ...]) -> Layout:
    shapes, strides = wrap(layout.shape), wrap(layout.stride)
    if len(tiler) > len(shapes):
        raise _too_many(layout, tiler, "logical_divide")
    out_s, out_d = [], []
    for s, d, t in zip(shapes, strides, tiler):  # noqa: B905 - modes without a tile follow
        if type(t) is int and t > 0 and type(s) is int:
            out_s.append((t, -(-s // t)))
            out_d.append((d, t * d))
        else:
            part = logical_divide(trusted(s, d, True), t)
            out_s.append(part.shape)
            out_d.append(part.stride)
    rest = len(tiler)
    return trusted((*out_s, *shapes[rest:]), (*out_d, *strides[rest:]), True)


_by_mode_cached = lru_cache(maxsize=4096)(_by_mode_static)


def by_mode(layout: Layout, tiler: tuple[Tiler, ...], name: str, fn: Any) -> list[Layout]:
    """`fn` of each mode and its tiler; modes without one stay."""
    modes = list(layout)
    if len(tiler) > len(modes):
        raise _too_many(layout, tiler, name)
    done = [fn(m, t) for m, t in zip(modes, tiler, strict=False)]
    return done + modes[len(tiler) :]


def _too_many(layout: Layout, tiler: tuple[Tiler, ...], name: str) -> LayoutError:
    return LayoutError(
        f"{name}: tiler {_show(tiler)} has {len(tiler)} modes, the layout only {len(layout)}",
        details={"layout": layout},
    )


def _show(tiler: Tiler) -> str:
    if isinstance(tiler, tuple):
        return "(" + ",".join(map(_show, tiler)) + (",)" if len(tiler) == 1 else ")")
    return fmt(tiler)


def _divide(layout: Layout, tile: Any) -> Layout:
    """(tile, rest) for a layout or int tile."""
    if type(tile) is not Layout:
        if type(tile) is int and tile < 1:
            raise LayoutError(
                f"divide: a tile of {tile} elements, expected at least 1",
                details={"layout": layout},
            )
        tile = as_leaf(tile, "tile")
        if type(layout.shape) is not tuple:
            # One stride walks the mode: tile and rest are exact for every extent, even run-time.
            rest = ceil_div_leaf(layout.shape, tile)
            d = layout.stride
            static = layout.is_static and type(tile) is int
            return trusted((tile, rest), (d, mul(tile, d)), static or None)
        tile = Layout(tile, 1)
    if layout.is_static and tile.is_static:
        return _divide_cached(layout, tile)
    return _divide_by_layout(layout, tile)


def _divide_static(layout: Layout, tile: Layout) -> Layout:
    """The complement and both compositions in one walk over `layout`."""
    try:
        holes, steps, end, nested = gaps(tile.shape, tile.stride)
        sizes, strides = merge(layout.shape, layout.stride)
        if nested and sizes:
            holes.append(repeats(tuple(sizes), end))
            steps.append(end)
            holes, steps = pack(holes, steps) if holes[-1] != 1 else pack(holes[:-1], steps[:-1])
            reach = [0] * len(sizes)
            s0, d0 = walk(tile.shape, tile.stride, sizes, strides, reach)
            s1, d1 = walk(holes, steps, sizes, strides, reach)
            if carries(sizes, reach) < 0:
                return trusted((s0, s1), (d0, d1), True)
    except (Uneven, Coordinates):
        return _divide_by_layout(layout, tile)
    return _divide_by_layout(layout, tile)


def _divide_by_layout(layout: Layout, tile: Layout) -> Layout:
    target = coalesce(layout).shape
    if any(type(d) is ScaledBasis for d in leaves(tile.stride)):
        rest = complement_basis(tile, layout.shape)
        rest = coalesce(rest, (1,) * len(rest))
    else:
        try:
            rest = complement(tile, target)
        except LayoutError as error:
            raise LayoutError(
                f"divide: {layout} cannot be cut into tiles {tile}: {error.message}"
            ) from None
        _check_tiles(layout, tile)
    try:
        divided: Layout = composition(layout, make_layout(tile, rest))
    except LayoutError as error:
        raise LayoutError(
            f"divide: {layout} cannot be cut into tiles {tile} (rest {rest}): {error.message}",
            details=error.details,
        ) from None
    return divided


def _check_tiles(layout: Layout, tile: Layout) -> None:
    """Copies of `tile` fill the index range only if its strides nest: else elements are lost."""
    end = 1
    pairs = zip(flatten_tuple(tile.stride), flatten_tuple(tile.shape), strict=True)
    modes = [(d, s) for d, s in pairs if type(d) is int and type(s) is int and d != 0 and s != 1]
    for d, s in sorted(modes):
        if d % end != 0:
            raise LayoutError(
                f"divide: copies of tile {tile} cannot fill {layout}: stride {d} is not a multiple "
                f"of {end}, where its smaller modes end"
            )
        end = d * s


_divide_cached = lru_cache(maxsize=4096)(_divide_static)


def zipped_divide(layout: LayoutT, tiler: Tiler) -> LayoutT:
    """`logical_divide` regrouped as ((tile0, tile1, ..), (rest0, rest1, .., other..)).

    None leaves its mode as it is: a pair counts as (tile, rest), a scalar as the tile itself.

    >>> print(zipped_divide(Layout((12, 32)), (4, 8)))
    ((4,8),(3,4)):((1,12),(4,96))
    """
    if isinstance(layout, ComposedLayout):
        return layout.with_outer(zipped_divide(layout.outer, tiler))
    _check_layout(layout, "zipped_divide")
    if not isinstance(tiler, (tuple, list)):
        return _split(layout, tiler)
    if layout.is_static and _static_tiler(tiler):
        return _zipped_cached(layout, tuple(tiler))
    return _zipped(layout, tuple(tiler))


def _static_tiler(tiler: Tiler) -> bool:
    """True iff `tiler` is hashable and free of run-time values: then a divide may be remembered."""
    if type(tiler) is tuple:
        return all(type(t) is int or _static_tiler(t) for t in tiler)
    return tiler is None or type(tiler) is int or (type(tiler) is Layout and tiler.is_static)


def _zipped(layout: Layout, tiler: tuple[Tiler, ...]) -> Layout:
    if not tiler:
        return make_layout(trusted((), (), True), layout)
    parts = by_mode(layout, tiler, "zipped_divide", zipped_divide)[: len(tiler)]
    rests = [p[1] for p in parts] + list(layout)[len(tiler) :]
    return make_layout(make_layout(*(p[0] for p in parts)), make_layout(*rests))


def _zipped_static(layout: Layout, tiler: tuple[Tiler, ...]) -> Layout:
    shapes, strides = wrap(layout.shape), wrap(layout.stride)
    if not tiler or len(tiler) > len(shapes):
        return _zipped(layout, tiler)
    tile_s, tile_d, rest_s, rest_d = [], [], [], []
    for s, d, t in zip(shapes, strides, tiler):  # noqa: B905 - modes without a tile follow
        if type(t) is int and t > 0 and type(s) is int:
            tile_s.append(t)
            tile_d.append(d)
            rest_s.append(-(-s // t))
            rest_d.append(t * d)
        else:
            part = zipped_divide(trusted(s, d, True), t)
            (one, two), (step, leap) = part.shape, part.stride
            tile_s.append(one)
            tile_d.append(step)
            rest_s.append(two)
            rest_d.append(leap)
    n = len(tiler)
    return trusted(
        (tuple(tile_s), (*rest_s, *shapes[n:])), (tuple(tile_d), (*rest_d, *strides[n:])), True
    )


_zipped_cached = lru_cache(maxsize=4096)(_zipped_static)


def _split(layout: Layout, tiler: Tiler) -> Layout:
    if tiler is not None:
        return _divide(layout, tiler)
    if type(layout.shape) is not tuple:
        return make_layout(layout, trusted(1, 0, True))
    if len(layout.shape) == 2:
        return layout
    raise LayoutError(
        f"divide: None needs a scalar mode, or a pair (tile, rest); this mode is {layout}"
    )


def tiled_divide(layout: LayoutT, tiler: Tiler) -> LayoutT:
    """`zipped_divide` with the rest spliced: ((tile..), rest0, rest1, ..).

    >>> print(tiled_divide(Layout((12, 32)), (4, 8)))
    ((4,8),3,4):((1,12),4,96)
    """
    if isinstance(layout, ComposedLayout):
        return layout.with_outer(tiled_divide(layout.outer, tiler))
    return splice_rest(zipped_divide(layout, tiler))


def flat_divide(layout: LayoutT, tiler: Tiler) -> LayoutT:
    """`zipped_divide` with tile and rest spliced: (tile0, .., rest0, ..).

    >>> print(flat_divide(Layout((12, 32)), (4, 8)))
    (4,8,3,4):(1,12,4,96)
    """
    if isinstance(layout, ComposedLayout):
        return layout.with_outer(flat_divide(layout.outer, tiler))
    return splice_both(zipped_divide(layout, tiler))


def splice_rest(zipped: Layout) -> Layout:
    """((a..), (b0, b1, ..)) -> ((a..), b0, b1, ..)."""
    (s0, s1), (d0, d1) = zipped.shape, zipped.stride
    return trusted((s0, *wrap(s1)), (d0, *wrap(d1)), zipped.is_static)


def splice_both(zipped: Layout) -> Layout:
    """((a0, ..), (b0, ..)) -> (a0, .., b0, ..)."""
    (s0, s1), (d0, d1) = zipped.shape, zipped.stride
    return trusted((*wrap(s0), *wrap(s1)), (*wrap(d0), *wrap(d1)), zipped.is_static)


def inner_partition(layout: LayoutT, tiler: Tiler, coord: Coord) -> tuple[LayoutT, Any]:
    """Tile number `coord`: the tile modes kept, the rest modes indexed.

    Shapes: (tile0, tile1, .., rest modes under a wildcard or beyond `coord`).
    Returns the layout and its offset (0 for a composed layout, which takes it in).
    """
    zipped = zipped_divide(layout, tiler)
    return slice_and_offset(_pick(zipped, coord, tile_kept=True), zipped)


def outer_partition(layout: LayoutT, tiler: Tiler, coord: Coord) -> tuple[LayoutT, Any]:
    """Element `coord` of every tile: the tile modes indexed, the rest modes kept.

    Shapes: (tile modes under a wildcard or beyond `coord`, rest0, rest1, ..).
    """
    zipped = zipped_divide(layout, tiler)
    return slice_and_offset(_pick(zipped, coord, tile_kept=False), zipped)


def _pick(zipped: Any, coord: Coord, tile_kept: bool) -> Coord:
    tile_shape, rest_shape = zipped.shape
    kept, indexed = (tile_shape, rest_shape) if tile_kept else (rest_shape, tile_shape)
    wild: Coord = (None,) * len(kept) if type(kept) is tuple else None
    if isinstance(coord, (tuple, list)):
        rank = len(wrap(indexed))
        if len(coord) > rank:
            raise LayoutError(
                f"partition: coordinate {fmt(tuple(coord))} has {len(coord)} modes, expected at "
                f"most {rank}",
                details={"divided layout": zipped},
            )
        coord = (*coord, *(None,) * (rank - len(coord)))
        if type(indexed) is not tuple:
            coord = coord[0]
    return (wild, coord) if tile_kept else (coord, wild)


def local_tile(
    layout: LayoutT, tiler: Tiler, coord: Coord, proj: Coord | None = None
) -> tuple[LayoutT, Any]:
    """The tile at tile-coordinate `coord`, and its offset; None in `coord` keeps all tiles there.

    `proj` names with None the modes of `tiler` and `coord` to leave out (for A of an MNK tiler:
    ``(1, None, 1)``).

    Shapes: (M,K) by (128,64) at (m, None): (128, 64, K/64).
    Units:  offset in elements (a coordinate with basis strides).
    Raises: LayoutError if `coord` has more modes than there are tiles.

    >>> tile, offset = local_tile(Layout((128, 64), (64, 1)), (32, 16), (1, None))
    >>> print(tile, offset)
    (32,16,4):(64,1,16) 2048
    """
    if proj is not None:
        tiler, coord = dice_tuple(proj, tiler), dice_tuple(proj, coord)
    return inner_partition(layout, tiler, coord)


def local_partition(
    layout: LayoutT, tile: LayoutT | Any, index: Any, proj: Coord | None = None
) -> tuple[LayoutT, Any]:
    """The elements of thread `index`, threads laid out by `tile`, repeated over the layout.

    Shapes: (M,N) by threads (8,4): (M/8, N/4).
    Raises: LayoutError if the strides of `tile` do not nest (then no thread coordinate exists).

    >>> part, offset = local_partition(Layout((128, 64), (64, 1)), Layout((8, 4), (4, 1)), 5)
    >>> print(part, offset)
    (16,16):(512,4) 65
    """
    threads = tile if isinstance(tile, Layout) else Layout(tile)
    tiler: Tiler = product_each(threads.shape)
    coord = wrap(threads.get_flat_coord(index))
    if proj is not None:
        tiler, coord = dice_tuple(proj, tiler), dice_tuple(proj, coord)
    return outer_partition(layout, tiler, coord)


def ceil_div(a: IntTuple, b: Any) -> IntTuple:
    """``ceil(a / b)`` by mode: how many tiles of `b` cover `a`.

    Modes that `b` lacks count as 1; a scalar `b` is used up from the left; a layout `b` tiles the
    linear index.

    Raises: LayoutError if `b` has more modes than `a`, or holds a zero.

    >>> ceil_div((10, 7), (4, 3)), ceil_div((16, 32), Layout((4, 8), (1, 4)))
    ((3, 3), 16)
    """
    if isinstance(b, (Layout, ComposedLayout)):
        return complement(b, a).shape
    return ceil_div_tuple(a, tuple(b) if isinstance(b, list) else b)


def evenly_divides(a: IntTuple, b: Any) -> bool:
    """Tiles `b` (a shape, a layout, or a tuple of these) cover shape `a` without remainder.

    >>> evenly_divides((4, 6), (2, 3)), evenly_divides((32, 64), 128), evenly_divides((4, 6), 5)
    (True, True, False)
    """
    if isinstance(b, (tuple, list)):
        modes = wrap(a)
        if len(b) > len(modes):
            return False
        return all(evenly_divides(x, y) for x, y in zip(modes, b, strict=False))
    return provably_equal(product(a), mul(size(b), product(ceil_div(a, b))))


def domain_distribute(domain: IntTuple, count: int) -> Layout:
    """A layout of at most `count` items that splits `domain` from the left by common divisors.

    >>> print(domain_distribute((192, (8, 8)), 128))
    (64,2):(1,192)
    """
    shapes: list[Leaf] = []
    strides: list[Leaf] = []
    prefix: Leaf = 1
    for extent in leaves(shape(domain)):
        part = gcd(extent, count)
        shapes.append(part)
        strides.append(prefix)
        count //= part
        prefix = mul(prefix, extent)
    return from_flat(shapes, strides)
