"""The complement of a layout: what it leaves uncovered."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from sys import maxsize
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.coord import checked_shape
from tilewright.layout.decide import EXHAUSTIVE
from tilewright.layout.int_tuple import ceil_div_tuple, flatten_tuple, fmt, leaves, product
from tilewright.layout.layout import Layout, trusted
from tilewright.layout.leaf import Leaf, ceil_div_leaf, exact_div, mul
from tilewright.layout.modes import coalesce_flat, filter, shape, size
from tilewright.layout.static import Coordinates, Uneven, gaps, pack, repeats
from tilewright.layout.swizzle import AnyLayout, ComposedLayout

Mode = tuple[Leaf, Leaf]
"""Extent and stride of one flat mode."""


def complement(layout: AnyLayout, cotarget: Any = None) -> Layout:
    """Layout of the offsets that `layout` leaves uncovered in ``[0, size(cotarget))``.

    `cotarget` is an int, a shape (rounded up mode by mode, as `ceil_div` does) or a layout; by
    default the cosize of `layout`.  With basis strides each axis is completed on its own.

    Laws:   1 ordered: ``R(i-1) < R(i)``     2 disjoint: ``R(i) != layout(j)`` for i >= 1, all j
            3 bounded: ``cosize(R) <= round_up(size(cotarget), end)``, end = the largest stride
            of `layout` times its extent
            4 where the strides nest (each a multiple of where the smaller ones end): every offset
            below size(cotarget) is ``layout(j) + R(i)`` exactly once.  Where they do not, no layout
            can do that; the holes are rounded down, as CuTe does, and laws 1-3 still hold.
    Units:  offsets in elements.
    Raises: LayoutError if `layout` is not injective, has negative strides, or run-time strides in
            more than one mode.
    Source: CuTe layout algebra, "complement".

    >>> print(complement(Layout(4, 2), 24), complement(Layout(6, 4), 24))
    (2,3):(1,8) 4:1
    """
    if isinstance(layout, ComposedLayout):
        return complement(layout.outer, cotarget)
    if not isinstance(layout, Layout):
        raise LayoutError(f"complement: expected a layout, got {type(layout).__name__} {layout!r}")
    target = cotarget
    if cotarget is not None and not (type(cotarget) is int and cotarget > 0):
        target = checked_shape(shape(cotarget))
    if layout.is_static and _hashable(target):
        return _complement_cached(layout, target)
    return _complement(layout, target)


def _hashable(target: Any) -> bool:
    if type(target) is tuple:
        return all(map(_hashable, target))
    return type(target) is int or target is None


def _complement_static(layout: Layout, target: Any) -> Layout:
    try:
        sizes, strides, end, _ = gaps(layout.shape, layout.stride)
    except Uneven as why:
        raise not_injective(layout, why) from None
    except Coordinates:
        return _complement(layout, target)
    if target is not None:
        rest = repeats(target, end)
        if rest != 1:
            sizes.append(rest)
            strides.append(end)
    return trusted(*pack(sizes, strides), True)


_complement_cached = lru_cache(maxsize=4096)(_complement_static)


def not_injective(layout: Layout, why: Uneven) -> LayoutError:
    """What stops the complement: the layout repeats offsets, runs backwards, or interleaves."""
    at = f"stride {why.d} (sorted mode {why.mode})"
    if why.d < 0:
        return LayoutError(
            f"complement: {layout} has a negative stride: {at}; expected strides >= 0",
            hint="reverse that mode first: the offsets are the same, counted from their lowest",
        )
    below = f"{at} lies below {why.step}, where the modes before it end"
    total = size(layout)
    if total <= EXHAUSTIVE and len(set(map(layout, range(total)))) == _distinct(layout):
        return LayoutError(
            f"complement: the modes of {layout} interleave: {below}; no pattern of copies fills "
            "the offsets between them"
        )
    return LayoutError(f"complement: {layout} is not injective: {below}")


def _distinct(layout: Layout) -> int:
    """How many offsets the layout has if it is injective but for its stride-0 modes."""
    pairs = zip(leaves(layout.shape), leaves(layout.stride), strict=True)
    return product(tuple(s for s, d in pairs if d != 0))  # type: ignore[no-any-return]


def _complement(layout: Layout, target: Any) -> Layout:
    if any(type(d) is ScaledBasis for d in leaves(layout.stride)):
        if target is not None:
            raise LayoutError(
                f"complement: {layout} has coordinate strides; a cotarget is only defined for "
                "integer strides"
            )
        return complement_basis(layout, None)
    modes = flat_modes(layout)
    shapes, strides, end = _gaps(layout, modes)
    if target is not None:
        shapes.append(_rest(target, end))
        strides.append(end)
    return from_flat(shapes, strides)


def flat_modes(layout: Layout) -> list[Mode]:
    """The flat modes with stride-0 and size-1 ones dropped, coalesced."""
    plain = filter(layout)
    pairs = zip(flatten_tuple(plain.shape), flatten_tuple(plain.stride), strict=True)
    return [(s, d) for s, d in pairs if not (type(s) is int and s == 1)]


def _gaps(layout: Layout, modes: list[Mode]) -> tuple[list[Leaf], list[Leaf], Leaf]:
    """Modes that fill the holes below each stride, and the offset where the pattern ends."""
    if all(type(d) is int for _, d in modes):
        # A run-time extent sorts last among modes of its stride.
        order = sorted(modes, key=lambda m: (m[1], m[0] if type(m[0]) is int else maxsize))
    else:
        order = _by_divisibility(layout, modes)
    shapes: list[Leaf] = []
    strides: list[Leaf] = []
    end: Leaf = 1
    for i, (s, d) in enumerate(order):
        hole = d // end if type(d) is int and type(end) is int else exact_div(d, end)
        if hole is None:
            raise LayoutError(
                f"complement: cannot show that stride {d} of {layout} is a multiple of {end}, "
                "where the modes before it end"
            )
        if type(hole) is int and hole < 1:
            raise not_injective(layout, Uneven(s, d, i, s, end))
        if not (type(hole) is int and hole == 1):
            shapes.append(hole)
            strides.append(end)
        end = mul(s, d)
    return shapes, strides, end


def _by_divisibility(layout: Layout, modes: list[Mode]) -> list[Mode]:
    """The modes so that each stride divides the next, as far as facts show it."""
    order: list[Mode] = []
    for mode in modes:
        at = len(order)
        while at and exact_div(mode[1], order[at - 1][1]) is None:
            at -= 1
        order.insert(at, mode)
    for (_, low), (_, high) in pairwise(order):
        if exact_div(high, low) is None:
            raise LayoutError(
                f"complement: {layout} has run-time strides in {len(modes)} modes; cannot show "
                f"that {low} divides {high}"
            )
    return order


def _rest(target: Any, end: Leaf) -> Leaf:
    """How often a pattern of length `end` repeats to cover the shape `target`."""
    if type(target) is not tuple:
        return ceil_div_leaf(target, end)
    if all(type(x) is int for x in leaves(target)) and type(end) is int:
        return product(ceil_div_tuple(target, end))
    flat = flatten_tuple(target)
    count: Leaf = 1
    for i, extent in enumerate(flat):
        if type(end) is int and end == 1:
            return mul(count, product(flat[i:]))
        if type(end) is int and type(extent) is int:
            count = mul(count, ceil_div_leaf(extent, end))
            end = ceil_div_leaf(end, extent)
        else:
            return mul(count, ceil_div_leaf(product(flat[i:]), end))
    return count


def from_flat(shapes: list[Leaf], strides: list[Leaf]) -> Layout:
    merged_s, merged_d = coalesce_flat(tuple(shapes), tuple(strides), keep_tail=False)
    if not merged_s:
        return trusted(1, 0)
    if len(merged_s) == 1:
        return trusted(merged_s[0], merged_d[0])
    return trusted(tuple(merged_s), tuple(merged_d))


def open_complement(layout: Layout) -> Layout:
    """The complement whose last mode ``1:end`` is kept: composing with it repeats `layout` without
    bound.  This is what products need."""
    if layout.is_static:
        try:
            sizes, steps, top, _ = gaps(layout.shape, layout.stride)
            return trusted((*sizes, 1), (*steps, top), True)
        except Uneven as why:
            raise not_injective(layout, why) from None
        except Coordinates:
            return complement_basis(layout, None)
    if any(type(d) is ScaledBasis for d in leaves(layout.stride)):
        return complement_basis(layout, None)
    shapes, strides, end = _gaps(layout, flat_modes(layout))
    return trusted((*shapes, 1), (*strides, end))


def complement_basis(layout: Layout, target: Any) -> Layout:
    """Complement axis by axis; `target` (or None) gives the extents of the axes."""
    modes = flat_modes(layout)
    axes = 1 + max((d.path[0] for _, d in modes), default=-1)
    if type(target) is tuple:
        axes = max(axes, len(target))

    def complete(own: list[Mode], path: tuple[int, ...], extent: Any) -> Layout:
        if not own and extent is None:
            return trusted(1, ScaledBasis(1, path))
        shapes, strides, end = _gaps(layout, own)
        rest = 1 if extent is None else _rest(extent, end)
        steps = tuple(ScaledBasis(d, path) for d in (*strides, end))
        return trusted((*shapes, rest), steps)

    return by_axis(layout, modes, (), axes, complete, target)


def by_axis(
    layout: Layout,
    modes: list[Mode],
    path: tuple[int, ...],
    axes: int,
    leaf: Callable[[list[Mode], tuple[int, ...], Any], Layout],
    target: Any = None,
) -> Layout:
    """`leaf` of the modes of each axis, in the profile of the coordinates; axis values as ints."""
    parts: list[Layout] = []
    depth = len(path)
    for axis in range(axes):
        here = (*path, axis)
        own = [(s, d) for s, d in modes if d.path[: depth + 1] == here]
        below = [d.path[depth + 1] for _, d in own if len(d.path) > depth + 1]
        extent = target[axis] if type(target) is tuple and axis < len(target) else None
        if not below:
            parts.append(leaf([(s, d.basis_value) for s, d in own], here, extent))
        elif len(below) == len(own):
            parts.append(by_axis(layout, own, here, 1 + max(below), leaf, extent))
        else:
            raise LayoutError(f"strides of {layout} name axis {fmt(here)} and an axis inside it")
    return trusted(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
