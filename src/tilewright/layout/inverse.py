"""Inverses and kernel of a layout, and what two layouts share."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import gcd
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.complement import Mode, by_axis, flat_modes, from_flat
from tilewright.layout.complement import complement as complement
from tilewright.layout.compose import composition
from tilewright.layout.int_tuple import flatten_tuple
from tilewright.layout.layout import Layout, trusted
from tilewright.layout.leaf import Leaf, exact_div, mul, provably_equal
from tilewright.layout.modes import coalesce, coalesce_flat, size
from tilewright.layout.static import Coordinates, left_chain, merge, pack, right_chain
from tilewright.layout.swizzle import AnyLayout, ComposedLayout, Swizzle


def right_inverse(layout: AnyLayout) -> AnyLayout:
    """The largest R with ``layout(R(i)) == i`` for all ``i < size(R)``.

    Follows the modes of stride 1, then of the size reached, and so on, until none continues the
    chain; run-time modes take part where they provably continue it.  With basis strides R maps
    coordinates back to the index.

    Raises: LayoutError for a composed layout whose offset is not 0.
    Source: CuTe layout algebra, "right inverse".

    >>> print(right_inverse(Layout((2, 4, 6), (4, 1, 8))))
    (4,2,6):(2,1,8)
    """
    if type(layout) is Layout and layout.is_static:
        try:
            return trusted(*pack(*right_chain(*merge(layout.shape, layout.stride))), True)
        except Coordinates:
            return _invert(layout, "right_inverse", _right)
    return _invert(layout, "right_inverse", _right)


def left_inverse(layout: AnyLayout) -> AnyLayout:
    """R with ``layout(R(layout(i))) == layout(i)``; ``R(layout(i)) == i`` if `layout` is injective.

    Raises: LayoutError unless the static strides nest (each a multiple of the one before, at least
            extent times it), for run-time strides, and for composed layouts with an offset.
    Source: CuTe layout algebra, "left inverse".

    >>> print(left_inverse(Layout((4, 3), (3, 1))), left_inverse(Layout(4, 2)))
    (3,4):(4,1) (2,4):(0,1)
    """
    if type(layout) is Layout and layout.is_static:
        found = left_chain(*merge(layout.shape, layout.stride))
        if found is not None:
            return trusted(*pack(*found), True)
    return _invert(layout, "left_inverse", _left)


_Chain = Callable[[str, Layout, list[Any]], Layout]


def _invert(layout: Any, name: str, chain: _Chain) -> AnyLayout:
    if isinstance(layout, ComposedLayout):
        if not (type(layout.offset) is int and layout.offset == 0):
            raise LayoutError(f"{name}: {layout} has offset {layout.offset}, expected 0")
        outer = _invert(layout.outer, name, chain)
        if isinstance(layout.inner, Swizzle):
            inverse: AnyLayout = composition(outer, layout.inner)
        else:
            inverse = composition(outer, _invert(layout.inner, name, chain))
        return inverse
    if not isinstance(layout, Layout):
        raise LayoutError(f"{name}: expected a layout, got {type(layout).__name__}")
    if layout.is_static:
        sizes, strides = merge(layout.shape, layout.stride)
    else:
        sizes, strides = coalesce_flat(
            flatten_tuple(layout.shape), flatten_tuple(layout.stride), keep_tail=False
        )
    triples: list[Any] = []
    prefix: Leaf = 1
    for s, d in zip(sizes, strides, strict=True):
        triples.append((s, d, prefix))
        prefix = mul(prefix, s)
    basis = [t for t in triples if type(t[1]) is ScaledBasis]
    if not basis:
        return chain(name, layout, triples)

    def axis(own: list[Mode], path: tuple[int, ...], extent: Any) -> Layout:
        del own, extent
        return chain(name, layout, [(s, d.basis_value, p) for s, d, p in basis if d.path == path])

    axes = 1 + max(d.path[0] for _, d, _ in basis)
    return by_axis(layout, [(s, d) for s, d, _ in basis], (), axes, axis)


def _right(name: str, layout: Layout, modes: list[Any]) -> Layout:
    del name, layout
    left = [m for m in modes if not (type(m[0]) is int and m[0] == 1)]
    sizes: list[Leaf] = []
    strides: list[Leaf] = []
    end: Leaf = 1
    while left:
        # The first of that stride: a later one would repeat its offsets.
        at = next((i for i, m in enumerate(left) if provably_equal(m[1], end)), None)
        if at is None:
            break
        s, _, prefix = left.pop(at)
        if sizes and provably_equal(mul(sizes[-1], strides[-1]), prefix):
            sizes[-1] = mul(sizes[-1], s)
        else:
            sizes.append(s)
            strides.append(prefix)
        end = mul(end, s)
    return trusted(*pack(sizes, strides))


def _left(name: str, layout: Layout, modes: list[Any]) -> Layout:
    kept = [m for m in modes if not _is(m[0], 1) and not _is(m[1], 0)]
    sign = 1
    if all(type(d) is int for _, d, _ in kept):
        signs = {1 if d > 0 else -1 for _, d, _ in kept}
        if len(signs) > 1:
            raise LayoutError(f"{name}: {layout} mixes positive and negative strides")
        sign = signs.pop() if signs else 1
        kept = sorted(((s, sign * d, p) for s, d, p in kept), key=lambda m: m[1])
        _check_digits(name, layout, kept)
    else:
        kept = _nested(name, layout, kept)
    shapes: list[Leaf] = []
    strides: list[Leaf] = []
    before: Leaf = 1
    prefix: Leaf = 0
    for _, d, p in kept:
        shapes.append(exact_div(d, before))
        strides.append(mul(sign, prefix))
        before, prefix = d, p
    if kept:
        shapes.append(kept[-1][0])
        strides.append(mul(sign, prefix))
    return from_flat(shapes, strides)


def _nested(name: str, layout: Layout, kept: list[Any]) -> list[Any]:
    """The modes in the order in which each stride is a multiple of where the mode before ends."""
    order: list[Any] = []
    for mode in kept:
        at = len(order)
        while at and exact_div(mode[1], mul(order[at - 1][0], order[at - 1][1])) is None:
            at -= 1
        order.insert(at, mode)
    for (s, d, _), (_, above, _) in pairwise(order):
        if exact_div(above, mul(s, d)) is None:
            raise LayoutError(
                f"{name}: {layout} has run-time strides; expected static ones, or facts that show "
                f"that {above} is a multiple of {mul(s, d)}"
            )
    return order


def _check_digits(name: str, layout: Layout, kept: list[Any]) -> None:
    """The left inverse reads an offset as digits, one per stride: each must be one that `layout`
    can produce, ``digit_i < s_i``, for every offset in the image."""
    highest = 0
    for i, (s, d, p) in enumerate(kept):
        last = i == len(kept) - 1
        if not last and kept[i + 1][1] % d != 0:
            raise LayoutError(
                f"{name}: stride {kept[i + 1][1]} of {layout} is not a multiple of stride {d}"
            )
        if type(s) is not int:
            # A run-time extent is safe only on top, where nothing can overrun it.
            if last and highest < d:
                return
            raise LayoutError(f"{name}: cannot prove {layout} injective: extent {s} is run-time")
        highest += (s - 1) * d
        digit = highest // d if last else min(kept[i + 1][1] // d - 1, highest // d)
        if digit >= s and not (last and _continues(layout, s, d, p)):
            raise LayoutError(
                f"{name}: {layout} reaches digit {digit} of stride {d}, whose extent is {s}"
            )


def _continues(layout: Layout, s: int, d: int, prefix: Leaf) -> bool:
    """True iff the mode s:d is the last one of `layout`, which has no end."""
    if not _is(mul(prefix, s), size(layout)):
        return False
    beyond = layout(mul(prefix, s))
    return type(beyond) is int and abs(beyond) == s * d


def _is(leaf: Leaf, value: int) -> bool:
    return type(leaf) is int and leaf == value


def nullspace(layout: AnyLayout) -> Layout:
    """The kernel: the largest R with ``layout(R(i)) == 0``, the stride-0 modes of `layout`.

    >>> print(nullspace(Layout((7, 5, 16), (3, 1, 0))))
    16:35
    """
    if isinstance(layout, ComposedLayout):
        return nullspace(layout.outer)
    shapes: list[Leaf] = []
    strides: list[Leaf] = []
    prefix: Leaf = 1
    for s, d in zip(flatten_tuple(layout.shape), flatten_tuple(layout.stride), strict=True):
        if _is(d, 0) and not _is(s, 1):
            shapes.append(s)
            strides.append(prefix)
        prefix = mul(prefix, s)
    if len(shapes) > 1:
        return trusted(tuple(shapes), tuple(strides))
    return from_flat(shapes, strides)


def max_common_layout(a: AnyLayout, b: AnyLayout) -> Layout:
    """The largest R with ``a(R(i)) == b(R(i)) == i``: where both are the same contiguous run.

    A swizzled layout counts by its outer layout, up to the block of ``2**base`` elements that the
    swizzle moves as one; its offset must be a multiple of the run.  Static offsets limit the run
    accordingly; run-time offsets are taken to be such multiples.

    >>> print(max_common_layout(Layout((8, 4), (1, 8)), Layout((8, 4), (1, 16))))
    8:1
    """
    limit = gcd(_block(a), _block(b))
    plain_a, plain_b = _plain_outer(a), _plain_outer(b)
    if plain_a is None or plain_b is None:
        return trusted(1, 0)
    common = _common_run(plain_a, plain_b)
    if limit == 0:
        return common
    whole = size(common)
    if type(whole) is int:
        try:
            run: Layout = composition(common, Layout(gcd(whole, limit), 1))
            return coalesce(run)
        except LayoutError:
            pass  # The block ends inside a later mode: the first mode alone is still a run.
    first = common[0]
    width = gcd(first.shape, limit) if type(first.shape) is int else 1
    return trusted(width, first.stride) if width > 1 else trusted(1, 0)


def _block(layout: AnyLayout) -> int:
    """Elements that the layout keeps together; 0 stands for no limit."""
    if not isinstance(layout, ComposedLayout) or not isinstance(layout.inner, Swizzle):
        return 0
    block = 1 << layout.inner.base if layout.inner.bits else 0
    return gcd(block, layout.offset) if type(layout.offset) is int else block


def _plain_outer(layout: AnyLayout) -> Layout | None:
    if isinstance(layout, Layout):
        return layout
    known = isinstance(layout.inner, Swizzle) and isinstance(layout.outer, Layout)
    outer: Layout | None = layout.outer if known else None
    return outer


def _common_run(a: Layout, b: Layout) -> Layout:
    inverse = right_inverse(b)
    modes = list(inverse) if isinstance(inverse, Layout) else []
    while modes:
        candidate = trusted(tuple(m.shape for m in modes), tuple(m.stride for m in modes))
        try:
            shared = coalesce(composition(a, candidate))
        except LayoutError:
            modes.pop()
            continue
        first = shared[0]
        if provably_equal(first.stride, 1):
            common: Layout = composition(inverse, Layout(first.shape, 1))
            return coalesce(common)
        return trusted(1, 0)
    return trusted(1, 0)


def max_common_vector(a: AnyLayout, b: AnyLayout) -> Leaf:
    """Elements that a vectorised copy between `a` and `b` may move at once: the size of
    `max_common_layout`.

    >>> max_common_vector(Layout((4, 8)), Layout((4, 8), (1, 16)))
    4
    """
    return size(max_common_layout(a, b))


def max_alignment(layout: AnyLayout) -> int:
    """The largest N for which the image falls into whole aligned blocks of N offsets.

    >>> max_alignment(Layout((2, 2), (1, 4))), max_alignment(Layout((4, 3), (3, 1)))
    (2, 12)
    """
    if isinstance(layout, ComposedLayout):
        own = max_alignment(layout.outer)
        if isinstance(layout.inner, Swizzle) and layout.inner.bits:
            own = gcd(own, 1 << layout.inner.base)
        return gcd(own, layout.offset) if type(layout.offset) is int else 1
    modes = [m for m in flat_modes(layout) if type(m[1]) is int]
    if len(modes) < len(flat_modes(layout)):
        return 1
    run = 1
    ordered = sorted(modes, key=lambda m: abs(m[1]))
    while ordered and ordered[0][1] == run and type(ordered[0][0]) is int:
        run *= ordered.pop(0)[0]
    for _, d in ordered:
        run = gcd(run, d)
    return run
