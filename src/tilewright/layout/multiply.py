"""Products: a block repeated in the pattern of a tiler."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.complement import open_complement
from tilewright.layout.compose import composition
from tilewright.layout.divide import Tiler, by_mode, ceil_div, splice_both, splice_rest
from tilewright.layout.int_tuple import IntTuple, product_each
from tilewright.layout.layout import Layout, make_layout, make_ordered_layout, trusted
from tilewright.layout.modes import pad_rank, rank, shape, zip_layout
from tilewright.layout.static import Coordinates, Uneven, carries, gaps, walk
from tilewright.layout.swizzle import ComposedLayout, LayoutT


def logical_product(block: LayoutT, tiler: Tiler) -> LayoutT:
    """``(block, block* o tiler)``: `block`, and copies of it where `tiler` says, never overlapping.

    Shapes: layout tiler: (block, tiler).  Tuple tiler: mode by mode, ((b0, t0), (b1, t1), other..).
    Laws:   1 R[0] == block     2 compatible(tiler.shape, R[1].shape)
            3 the copies are disjoint if `block` and `tiler` are injective
    Raises: LayoutError if `block` is not injective or the tiler does not fit its gaps.
    Source: CuTe layout algebra, "logical product".

    >>> print(logical_product(Layout((32, 8)), Layout((4, 1))))
    ((32,8),(4,1)):((1,32),(256,0))
    """
    if isinstance(block, ComposedLayout):
        return block.with_outer(logical_product(block.outer, tiler))
    if tiler is None:
        return block
    if isinstance(tiler, (tuple, list)):
        return make_layout(*by_mode(block, tuple(tiler), "logical_product", logical_product))
    return _multiply(block, tiler)


def _multiply(block: Layout, tiler: Any) -> Layout:
    if type(tiler) is int and tiler < 1:
        raise LayoutError(f"product: {tiler} copies, expected at least 1", details={"block": block})
    pattern = tiler if isinstance(tiler, Layout) else Layout(tiler, 1)
    if block.is_static and pattern.is_static:
        return _multiply_cached(block, pattern)
    return _multiply_by_layout(block, pattern)


def _multiply_static(block: Layout, pattern: Layout) -> Layout:
    """The complement of `block` and the walk of `pattern` over it, at once."""
    try:
        sizes, strides, end, _ = gaps(block.shape, block.stride)
        sizes.append(1)
        strides.append(end)
        reach = [0] * len(sizes)
        shape, stride = walk(pattern.shape, pattern.stride, sizes, strides, reach)
        if carries(sizes, reach) < 0:
            return trusted((block.shape, shape), (block.stride, stride), True)
    except (Uneven, Coordinates):
        return _multiply_by_layout(block, pattern)
    return _multiply_by_layout(block, pattern)


_multiply_cached = lru_cache(maxsize=4096)(_multiply_static)


def _multiply_by_layout(block: Layout, pattern: Layout) -> Layout:
    try:
        free = open_complement(block)
    except LayoutError as error:
        raise LayoutError(f"product: {block} cannot be repeated: {error.message}") from None
    try:
        return make_layout(block, composition(free, pattern))
    except LayoutError as error:
        raise LayoutError(
            f"product: copies of {block} cannot be placed at {pattern} (free offsets {free}): "
            f"{error.message}",
            details=error.details,
        ) from None


def zipped_product(block: LayoutT, tiler: Tiler) -> LayoutT:
    """`logical_product` regrouped as ((block0, block1, ..), (tiler0, tiler1, .., other..)).

    >>> print(zipped_product(Layout((2, 5), (5, 1)), (Layout(3, 5), Layout(4, 6))))
    ((2,5),(3,4)):((5,1),(10,30))
    """
    if isinstance(block, ComposedLayout):
        return block.with_outer(zipped_product(block.outer, tiler))
    if not isinstance(tiler, (tuple, list)):
        return make_layout(block, trusted(1, 0, True)) if tiler is None else _multiply(block, tiler)
    parts = by_mode(block, tuple(tiler), "zipped_product", zipped_product)[: len(tiler)]
    rests = [p[1] for p in parts] + list(block)[len(tiler) :]
    return make_layout(make_layout(*(p[0] for p in parts)), make_layout(*rests))


def tiled_product(block: LayoutT, tiler: Tiler) -> LayoutT:
    """`zipped_product` with the tiler spliced: ((block..), tiler0, tiler1, ..).

    >>> print(tiled_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((2,5),3,4):((5,1),10,30)
    """
    if isinstance(block, ComposedLayout):
        return block.with_outer(tiled_product(block.outer, tiler))
    return splice_rest(zipped_product(block, tiler))


def flat_product(block: LayoutT, tiler: Tiler) -> LayoutT:
    """`zipped_product` with both spliced: (block0, .., tiler0, ..).

    >>> print(flat_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    (2,5,3,4):(5,1,10,30)
    """
    if isinstance(block, ComposedLayout):
        return block.with_outer(flat_product(block.outer, tiler))
    return splice_both(zipped_product(block, tiler))


def blocked_product(block: LayoutT, tiler: Layout) -> LayoutT:
    """Copies of `block` side by side: mode i is (block mode i, tiler mode i).

    Shapes: block (M,N), tiler (R,S): ((M,R),(N,S)).  The shorter is padded with ``1:0``.

    >>> print(blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((2,3),(5,4)):((5,10),(1,30))
    """
    return _woven(block, tiler, raked=False)


def raked_product(block: LayoutT, tiler: Layout) -> LayoutT:
    """Copies of `block` interleaved: mode i is (tiler mode i, block mode i).

    >>> print(raked_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((3,2),(4,5)):((10,5),(30,1))
    """
    return _woven(block, tiler, raked=True)


def _woven(block: LayoutT, tiler: Layout, raked: bool) -> LayoutT:
    if isinstance(block, ComposedLayout):
        return block.with_outer(_woven(block.outer, tiler, raked))
    if not isinstance(tiler, Layout):
        raise LayoutError(
            f"blocked_product: expected a layout as tiler, got {type(tiler).__name__} {tiler!r}"
        )
    modes = max(len(block), len(tiler))
    both = _multiply(pad_rank(block, modes), pad_rank(tiler, modes))
    return zip_layout(both[1], both[0]) if raked else zip_layout(both[0], both[1])


def tile_to_shape(block: LayoutT, trg_shape: IntTuple, order: IntTuple = None) -> LayoutT:
    """`block` repeated until it covers `trg_shape`; the copies in the sequence `order`.

    `order` as in `make_ordered_layout`, by default from the left.  Where the block does not divide
    the target the count is rounded up.

    Raises: LayoutError if `block` has more modes than the target.

    >>> print(tile_to_shape(Layout((8, 8), (8, 1)), (64, 32), (2, 1)))
    ((8,8),(8,4)):((8,256),(1,64))
    """
    target = product_each(shape(trg_shape))
    if rank(block) > len(target):
        raise LayoutError(
            f"tile_to_shape: block {block} has {rank(block)} modes, target {trg_shape} only "
            f"{len(target)}"
        )
    padded = pad_rank(block, len(target))
    counts = ceil_div(target, product_each(shape(padded)))
    sequence = tuple(range(len(target))) if order is None else order
    return blocked_product(padded, make_ordered_layout(counts, sequence))
