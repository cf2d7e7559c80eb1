"""Coordinates: index <-> coordinate, compact strides, slicing by coordinate.

Linearisation is colexicographic (the first mode varies fastest).  The last mode is never wrapped,
so an index beyond the size continues in it.
"""

from __future__ import annotations

from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.int_tuple import (
    Coord,
    IntTuple,
    Shape,
    Stride,
    fmt,
    get_mode,
    normalise,
    product,
    tuple_rank,
    unflatten,
    weakly_congruent,
    wrap,
)
from tilewright.layout.leaf import Leaf, add, as_leaf, floordiv, mod, mul


def compact_col_major(shape: Shape, start: Leaf = 1) -> Stride:
    """Strides of the compact layout whose first leaf varies fastest, beginning at `start`.

    Static size-1 leaves get stride 0.

    >>> compact_col_major((4, (1, 8), 2))
    (1, (0, 4), 32)
    """
    return _compact(shape, start)[0]


def _compact(shape: Shape, current: Leaf) -> tuple[Stride, Leaf]:
    if type(shape) is tuple:
        strides = []
        for mode in shape:
            stride, current = _compact(mode, current)
            strides.append(stride)
        return tuple(strides), current
    if type(shape) is int and shape == 1:
        return 0, current
    return current, mul(current, shape)


def compact_row_major(shape: Shape, start: Leaf = 1) -> Stride:
    """Strides of the compact layout whose last leaf varies fastest, beginning at `start`.

    >>> compact_row_major((4, (1, 8), 2))
    (16, (0, 2), 1)
    """
    return _mirror(compact_col_major(_mirror(shape), start))


def _mirror(t: IntTuple) -> IntTuple:
    return tuple(_mirror(x) for x in reversed(t)) if type(t) is tuple else t


def compact_order(shape: Shape, order: IntTuple, start: Leaf = 1) -> Stride:
    """Compact strides, the modes in the sequence that `order` gives: smallest first, ties from the
    left.  A leaf of `order` may stand for a whole mode, which is then column-major inside.

    Raises: LayoutError unless `order` is weakly congruent to `shape`.

    >>> compact_order((2, (2, 2), 2), (2, (0, 1), 3))
    (4, (1, 2), 8)
    """
    keys: list[Any] = []
    parts: list[Shape] = []

    def collect(s: Shape, o: IntTuple) -> None:
        if type(o) is not tuple:
            keys.append(o)
            parts.append(s)
        elif type(s) is tuple and len(s) == len(o):
            for x, y in zip(s, o, strict=True):
                collect(x, y)
        else:
            raise LayoutError(f"order {fmt(order)} does not fit shape {fmt(shape)}")

    collect(shape, order)
    # Run-time order entries come last, in place.
    rank = [(0, k) if type(k) is int else (1, 0) for k in keys]
    strides: list[Stride] = [0] * len(parts)
    current = start
    for i in sorted(range(len(parts)), key=lambda i: rank[i]):
        strides[i], current = _compact(parts[i], current)
    return unflatten(tuple(strides), order)


def make_basis_like(shape: Shape) -> Stride:
    """Unit basis strides: ``shape:make_basis_like(shape)`` is the identity on coordinates.

    >>> print(*make_basis_like((4, 8)))
    1@0 1@1
    """
    if type(shape) is not tuple:
        return 1
    return _basis_below(shape, ())


def _basis_below(shape: Shape, path: tuple[int, ...]) -> Stride:
    if type(shape) is tuple:
        return tuple(_basis_below(mode, (*path, i)) for i, mode in enumerate(shape))
    return ScaledBasis(1, path)


def crd2idx(coord: Coord, shape: Any, stride: Stride | None = None) -> Any:
    """Inner product of the natural coordinate with `stride`: ``sum(c_i * d_i)``.

    `shape` may be a layout instead (then without `stride`); without `stride`, compact column-major.
    An index in place of a (sub)coordinate is split colexicographically.  With basis strides the
    result is a coordinate.

    Raises: LayoutError if the coordinate does not fit the shape.

    >>> crd2idx((1, 2), (4, 8)), crd2idx(9, (4, 8)), crd2idx((1, (3, 5)), (2, (4, 6)), (1, (2, 8)))
    (9, 9, 47)
    """
    own = getattr(shape, "shape", None)
    if own is not None and stride is None and hasattr(shape, "stride"):
        return _dot(coord, own, shape.stride)
    if hasattr(coord, "shape") or own is not None:
        raise LayoutError(
            "crd2idx: expected crd2idx(coord, shape, stride) or crd2idx(coord, layout), "
            f"got {type(coord).__name__} as coord and {type(shape).__name__} as shape"
        )
    try:
        return _dot(coord, shape, compact_col_major(shape) if stride is None else stride)
    except LayoutError as error:
        if type(coord) is tuple and weakly_congruent(shape, coord):
            error.hint = f"the coordinate comes first: crd2idx({fmt(shape)}, {fmt(coord)})"
        raise


def dot(coord: Coord, shape: Shape, stride: Stride) -> Any:
    """`crd2idx` with everything given and congruent shape and stride."""
    return _dot(coord, shape, stride)


def _dot(coord: Coord, shape: Shape, stride: Stride) -> Any:
    if type(shape) is not tuple:
        if type(coord) is not int:
            if type(coord) is tuple:
                raise _misfit(coord, shape)
            coord = as_leaf(coord, "coordinate")
        return stride.at(coord) if type(stride) is ScaledBasis else mul(coord, stride)
    total: Any = 0
    if type(coord) is tuple:
        if len(coord) != len(shape):
            raise _misfit(coord, shape)
        for c, s, d in zip(coord, shape, stride, strict=True):
            total = add(total, _dot(c, s, d))
        return total
    if type(coord) is not int:
        coord = as_leaf(coord, "coordinate")
    last = len(shape) - 1
    for i, (s, d) in enumerate(zip(shape, stride, strict=True)):
        if i == last:
            return add(total, _dot(coord, s, d))
        extent = product(s)
        total = add(total, _dot(mod(coord, extent), s, d))
        coord = floordiv(coord, extent)
    return total


def _misfit(coord: Coord, shape: Shape) -> LayoutError:
    return LayoutError(
        f"crd2idx: coordinate {fmt(coord)} does not fit shape {fmt(shape)}: "
        f"rank {tuple_rank(coord)} against {tuple_rank(shape)}"
    )


def idx2crd(index: Any, shape: Shape, stride: Stride | None = None) -> Coord:
    """The natural coordinate of `index`: ``crd2idx(idx2crd(i, s), s) == i``.

    With `stride` (of a compact layout): ``(index // d) % s`` at every leaf; leaves of size 1 or
    stride 0 give 0.  A tuple of indices is taken mode by mode.

    >>> idx2crd(11, (5, 4)), idx2crd(7, (1, (2, 2)), (0, (1, 2)))
    ((1, 2), (0, (1, 1)))
    """
    if stride is not None:
        if type(shape) is tuple:
            if type(index) is tuple:
                trio = zip(index, shape, stride, strict=True)
                return tuple(idx2crd(i, s, d) for i, s, d in trio)
            return tuple(idx2crd(index, s, d) for s, d in zip(shape, stride, strict=True))
        if (type(shape) is int and shape == 1) or (type(stride) is int and stride == 0):
            return 0
        return mod(floordiv(index, stride), shape)
    if type(index) is tuple:
        if type(shape) is not tuple or len(index) != len(shape):
            raise LayoutError(
                f"idx2crd: index {fmt(index)} does not fit shape {fmt(shape)}",
                hint="the index comes first: idx2crd(index, shape)",
            )
        return tuple(idx2crd(i, s) for i, s in zip(index, shape, strict=True))
    if type(shape) is not tuple:
        return as_leaf(index, "idx2crd index")
    parts: list[Coord] = []
    for mode in shape[:-1]:
        extent = product(mode)
        parts.append(idx2crd(mod(index, extent), mode))
        index = floordiv(index, extent)
    return (*parts, idx2crd(index, shape[-1])) if shape else ()


def crd2crd(coord: Coord, source: Shape, target: Shape) -> Coord:
    """The coordinate of shape `target` with the same index as `coord` in shape `source`.

    >>> crd2crd((1, (2, 3)), (2, (3, 4)), 24), crd2crd(5, 12, (3, 4))
    (23, (2, 1))
    """
    both = type(coord) is tuple and type(source) is tuple and type(target) is tuple
    if both and len(coord) == len(source) == len(target):
        trio = zip(coord, source, target, strict=True)
        return tuple(crd2crd(c, s, t) for c, s, t in trio)
    return idx2crd(crd2idx(coord, source), target)


def increment(coord: Coord, shape: Shape) -> Coord:
    """The next coordinate in colexicographic order; the last mode runs past its end (static).

    >>> increment((3, 2), (4, 8))
    (0, 3)
    """
    return _step(coord, shape, last=True)[0]


def _step(coord: Coord, shape: Shape, last: bool) -> tuple[Coord, bool]:
    """The next coordinate, and whether it carries into the mode after; the last never carries."""
    if type(coord) is not tuple:
        return (coord + 1, False) if last or coord + 1 < product(shape) else (0, True)
    parts = list(coord)
    for i, (c, s) in enumerate(zip(coord, shape, strict=True)):
        parts[i], carry = _step(c, s, last and i == len(parts) - 1)
        if not carry:
            return tuple(parts), False
    return tuple(parts), True


def has_underscore(coord: Coord) -> bool:
    """True iff some element is None, the wildcard `_`."""
    if type(coord) is tuple:
        return any(has_underscore(c) for c in coord)
    return coord is None


def slice_tuple(coord: Coord, t: IntTuple) -> IntTuple:
    """The elements of `t` under the wildcards (None) of `coord`; nested results are spliced.

    >>> slice_tuple((None, 1, None, (None, 2)), (2, 3, 4, (5, 6)))
    (2, 4, 5)
    """
    if type(coord) is tuple:
        kept: list[IntTuple] = []
        for c, x in _paired(coord, t):
            if c is None:
                kept.append(x)
            elif type(c) is tuple:
                kept.extend(slice_tuple(c, x))
        return tuple(kept)
    return t if coord is None else ()


def dice_tuple(coord: Coord, t: IntTuple) -> IntTuple:
    """The elements of `t` *not* under the wildcards of `coord`: the complement of slicing.

    >>> dice_tuple((None, 1, None, (1, 2)), (2, 3, 4, (5, 6)))
    (3, 5, 6)
    """
    if type(coord) is tuple:
        kept: list[IntTuple] = []
        for c, x in _paired(coord, t):
            if type(c) is tuple:
                kept.extend(dice_tuple(c, x))
            elif c is not None:
                kept.append(x)
        return tuple(kept)
    return () if coord is None else t


def _paired(coord: tuple[Coord, ...], t: IntTuple) -> Any:
    if type(t) is not tuple or len(t) != len(coord):
        raise LayoutError(
            f"slice: coordinate {fmt(coord)} does not fit {fmt(t)}: "
            f"rank {len(coord)} against {tuple_rank(t)}"
        )
    return zip(coord, t, strict=True)


def slice_offset(coord: Coord, shape: Shape, stride: Stride) -> Any:
    """What `coord` contributes with its wildcards at 0: the offset that a slice begins at.

    >>> slice_offset((None, 2), (4, 3), (3, 1))
    2
    """
    if coord is None:
        return 0
    if type(coord) is tuple:
        total: Any = 0
        for c, (s, d) in zip(coord, _paired(shape, stride), strict=True):
            total = add(total, slice_offset(c, s, d))
        return total
    return _dot(coord, shape, stride)


def at_path(t: IntTuple, path: Any) -> IntTuple:
    """The element of `t` at `path`: None or () is `t`, an int one step, a list several.

    Raises: LayoutError where the path leaves `t`.
    """
    if path is None:
        return t
    return get_mode(t, (path,) if isinstance(path, int) else tuple(path))


def checked_shape(shape: Any) -> Shape:
    """`shape` normalised, every static extent >= 1.

    Raises: LayoutError otherwise.
    """
    clean = normalise(shape, "shape")
    for extent in wrap(clean) if type(clean) is not tuple else _all_leaves(clean):
        if type(extent) is int and extent == 0:
            raise LayoutError(
                f"shape {fmt(clean)}: an extent of 0 leaves no coordinate; expected extents >= 1",
                hint="an extent that may be 0 at run time can be a run-time value",
            )
        if isinstance(extent, ScaledBasis) or (type(extent) is int and extent < 0):
            raise LayoutError(f"shape {fmt(clean)}: expected extents >= 1, got {extent}")
    return clean


def _all_leaves(t: tuple[Any, ...]) -> list[Leaf]:
    return [y for x in t for y in (_all_leaves(x) if type(x) is tuple else [x])]
