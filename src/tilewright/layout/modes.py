"""Questions about a layout, and changes of its modes that keep the function.

Everything here takes a Layout or a ComposedLayout (then it acts on the outer layout), and where it
makes sense an IntTuple.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout import int_tuple as it
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.coord import at_path, dice_tuple, dot, slice_offset, slice_tuple
from tilewright.layout.int_tuple import Coord, IntTuple, Shape, fmt, transform_leaf, wrap
from tilewright.layout.layout import Layout, trusted
from tilewright.layout.leaf import Leaf, add, mul, provably_equal, sub
from tilewright.layout.static import merge_into, pack
from tilewright.layout.swizzle import AnyLayout, ComposedLayout, LayoutT

Path = int | list[int] | tuple[int, ...] | None
"""Which mode: None is all, an int a top-level mode, a list the way down."""

_LAYOUTS = (Layout, ComposedLayout)


def shape(x: Any, mode: Path = None) -> Shape:
    """The shape of a layout (or of one mode); an IntTuple is its own shape."""
    return at_path(x.shape if hasattr(x, "shape") else x, mode)


def stride(layout: AnyLayout, mode: Path = None) -> IntTuple:
    """The strides of a layout, or of one mode."""
    return at_path(layout.stride, mode)


def size(x: Any, mode: Path = None) -> Leaf:
    """Number of coordinates in the domain: the product of the shape.

    >>> size(Layout((4, (2, 3)))), size((4, (2, 3)), mode=[1])
    (24, 6)
    """
    return it.product(shape(x, mode))


def rank(x: Any, mode: Path = None) -> int:
    """Number of top-level modes; a scalar has one."""
    return it.tuple_rank(shape(x, mode))


def depth(x: Any, mode: Path = None) -> int:
    """Levels of nesting: 0 for a scalar, 1 for a flat tuple."""
    return it.tuple_depth(shape(x, mode))


def is_static(x: Any) -> bool:
    """True iff `x` holds no run-time value."""
    known = getattr(x, "is_static", None)
    return bool(known) if known is not None else it.all_static(x)


def coshape(x: AnyLayout, mode: Path = None) -> Any:
    """Extent of the codomain: ``1 + sum((s-1)*|d|)``, per axis with basis strides.

    Run-time strides are taken to be >= 0.

    >>> from tilewright.layout.layout import make_identity_layout
    >>> coshape(Layout((4, 3), (3, 1))), coshape(make_identity_layout((4, 3)))
    (12, (4, 3))
    """
    plain = _outer(x)
    total: Any = 0
    shapes = it.flatten_tuple(at_path(plain.shape, mode))
    steps = it.flatten_tuple(at_path(plain.stride, mode))
    for s, d in zip(shapes, steps, strict=True):
        d = abs(d) if type(d) is int else d
        total = add(total, dot(sub(s, 1), s, d))
    return transform_leaf(lambda last: add(last, 1), total)


def cosize(x: AnyLayout, mode: Path = None) -> Leaf:
    """Size of the codomain, in elements: the smallest buffer that holds every offset.

    >>> cosize(Layout((4, 3), (8, 1)))
    27
    """
    return it.product(coshape(x, mode))


def get(x: Any, mode: Path) -> Any:
    """The mode of a layout, or the element of a tuple, at a path.

    Raises: LayoutError for an index out of range.
    """
    if isinstance(x, _LAYOUTS):
        outer = _outer(x)
        part = trusted(at_path(outer.shape, mode), at_path(outer.stride, mode))
        return _seen(x, part)
    return at_path(x, mode)


def select(x: Any, mode: list[int] | tuple[int, ...]) -> Any:
    """The top-level modes named, in that order.

    Raises: LayoutError for an index out of range.

    >>> print(select(Layout((4, 8, 2)), [2, 0]))
    (2,4):(32,1)
    """
    return _per_tuple(x, lambda t: it.select_modes(t, mode))


def take(x: Any, begin: int, end: int) -> Any:
    """The top-level modes [begin, end).

    >>> print(take(Layout((2, 3, 5, 7)), 1, 3))
    (3,5):(2,6)
    """
    return select(x, list(range(begin, end)))


def group_modes(x: Any, begin: int, end: int | None = None) -> Any:
    """Modes [begin, end) wrapped into one; `end` is exclusive, by default the rank.

    Raises: LayoutError unless ``0 <= begin < end <= rank``.

    >>> print(group_modes(Layout((4, 5, 6)), 1, 3))
    (4,(5,6)):(1,(4,20))
    """
    stop = rank(x) if end is None else end
    return _per_tuple(x, lambda t: it.group(t, begin, stop))


def append(x: Any, element: Any, up_to_rank: int | None = None) -> Any:
    """`x` with one more mode at the end, or padded with `element` up to a rank.

    >>> print(append(Layout((2, 3)), Layout(4, 6)))
    (2,3,4):(1,2,6)
    """
    return _extend(x, element, up_to_rank, front=False)


def prepend(x: Any, element: Any, up_to_rank: int | None = None) -> Any:
    """`x` with one more mode in front, or padded with `element` up to a rank."""
    return _extend(x, element, up_to_rank, front=True)


def pad_rank(x: LayoutT, to: int) -> LayoutT:
    """`x` with modes ``1:0`` appended up to rank `to`; a scalar layout becomes a tuple."""
    plain = _outer(x)
    missing = max(to - len(wrap(plain.shape)), 0)
    padded = trusted(
        wrap(plain.shape) + (1,) * missing, wrap(plain.stride) + (0,) * missing, plain.is_static
    )
    return _rewrap(x, padded)


def _extend(x: Any, element: Any, up_to_rank: int | None, front: bool) -> Any:
    count = 1 if up_to_rank is None else up_to_rank - rank(x)
    if count < 0:
        raise LayoutError(f"append: {x} already has more than {up_to_rank} modes")
    if not isinstance(x, _LAYOUTS):
        extra = (element,) * count
        return (*extra, *wrap(x)) if front else (*wrap(x), *extra)
    outer = _outer(x)
    shapes, strides = (element.shape,) * count, (element.stride,) * count
    old_s, old_d = wrap(outer.shape), wrap(outer.stride)
    if front:
        return _seen(x, trusted(shapes + old_s, strides + old_d))
    return _seen(x, trusted(old_s + shapes, old_d + strides))


def flatten(x: Any) -> Any:
    """All leaves as top-level modes; a scalar stays a scalar.

    >>> print(flatten(Layout((4, (2, 3)), (6, (3, 1)))))
    (4,2,3):(6,3,1)
    """
    return _per_tuple(x, lambda t: it.flatten_tuple(t) if type(t) is tuple else t)


def unflatten(x: Any, profile: IntTuple) -> Any:
    """The flat modes of `x` arranged in `profile`."""
    return _per_tuple(x, lambda t: it.unflatten(it.flatten_tuple(t), profile))


def zip_layout(*layouts: Layout) -> Layout:
    """Mode i of the result is the pair (triple ..) of the modes i of the arguments.

    >>> print(zip_layout(Layout((2, 3)), Layout((4, 5), (6, 24))))
    ((2,4),(3,5)):((1,6),(2,24))
    """
    return trusted(
        it.zip_tuples(*(a.shape for a in layouts)), it.zip_tuples(*(a.stride for a in layouts))
    )


def filter_zeros(layout: LayoutT) -> LayoutT:
    """The same layout with every stride-0 leaf shrunk to size 1.

    >>> print(filter_zeros(Layout((4, 4, 4), (1, 0, 4))))
    (4,1,4):(1,0,4)
    """
    plain = _outer(layout)

    def shrink(s: Shape, d: IntTuple) -> Shape:
        if type(s) is tuple:
            return tuple(shrink(x, y) for x, y in zip(s, d, strict=True))
        return 1 if type(d) is int and d == 0 else s

    return _rewrap(layout, trusted(shrink(plain.shape, plain.stride), plain.stride))


def filter(layout: LayoutT, profile: IntTuple = None) -> LayoutT:
    """The image of `layout` counted once: stride-0 and size-1 modes dropped, then coalesced.

    >>> print(filter(Layout((2, 1, (3, 1)), (32, 2, (16, 0)))))
    (2,3):(32,16)
    """
    if type(layout) is Layout and profile is None and layout.is_static:
        sizes: list[int] = []
        steps: list[Any] = []
        merge_into((layout.shape,), (layout.stride,), sizes, steps, zeros=False)
        return trusted(*pack(sizes, steps), True)
    return coalesce(filter_zeros(layout), profile)


def coalesce_flat(
    shapes: tuple[Leaf, ...], strides: tuple[Leaf, ...], keep_tail: bool
) -> tuple[list[Leaf], list[Leaf]]:
    """Merged modes of the same function: size 1 dropped, ``(s0,s1):(d,s0*d)`` joined.

    `keep_tail` keeps the last mode even of size 1, and with it the values beyond the domain.
    """
    out_s: list[Leaf] = []
    out_d: list[Leaf] = []
    last = len(shapes) - 1
    for i, s in enumerate(shapes):
        d = strides[i]
        if type(s) is int and s == 1 and not (keep_tail and i == last):
            continue
        if out_s and provably_equal(mul(out_s[-1], out_d[-1]), d):
            out_s[-1] = mul(out_s[-1], s)
        else:
            out_s.append(s)
            out_d.append(d)
    return out_s, out_d


def coalesce(layout: LayoutT, profile: IntTuple = None) -> LayoutT:
    """The simplest layout that is the same function of the linear index, inside the domain.

    With `profile`, each mode under a leaf of it is coalesced on its own (and stays a mode); modes
    that `profile` lacks are left alone.  Run-time modes merge where that is provable.

    Laws:   1 size(R) == size(L)     2 R(i) == L(i) for i < size     3 depth(R) <= 1
    Raises: LayoutError if `profile` has more modes than the layout.

    >>> print(coalesce(Layout((2, (1, 6)), (1, (6, 2)))), coalesce(Layout((2, (1, 6))), (1, 1)))
    12:1 (2,6):(1,2)
    """
    if profile is None and type(layout) is Layout:
        return _coalesce_static(layout) if layout.is_static else _coalesce(layout)
    plain = _outer(layout)
    if profile is None:
        merged = _coalesce_static(plain) if plain.is_static else _coalesce(plain)
    else:
        merged = _coalesce_by(plain, profile)
    return _rewrap(layout, merged)


def _coalesce(layout: Layout) -> Layout:
    if type(layout.shape) is not tuple or not layout.shape:
        return layout
    if layout.is_static:
        sizes: list[int] = []
        steps: list[Any] = []
        merge_into(layout.shape, layout.stride, sizes, steps)
        return trusted(*pack(sizes, steps), True)
    shapes, strides = coalesce_flat(
        it.flatten_tuple(layout.shape), it.flatten_tuple(layout.stride), keep_tail=False
    )
    if len(shapes) == 1:
        return trusted(shapes[0], strides[0])
    if not shapes:
        return trusted(1, 0)
    return trusted(tuple(shapes), tuple(strides))


_coalesce_static = lru_cache(maxsize=4096)(_coalesce)


def _coalesce_by(layout: Layout, profile: IntTuple) -> Layout:
    if type(profile) is not tuple:
        return _coalesce(layout)
    modes = list(layout)
    if len(profile) > len(modes):
        raise LayoutError(
            f"coalesce: profile {fmt(profile)} has {len(profile)} modes, {layout} only {len(modes)}"
        )
    merged = [_coalesce_by(m, p) for m, p in zip(modes, profile, strict=False)]
    merged += modes[len(profile) :]
    return trusted(tuple(m.shape for m in merged), tuple(m.stride for m in merged))


def slice_(coord: Coord, x: Any) -> Any:
    """The modes of `x` under the wildcards (None) of `coord`; the offset is *not* included.

    NOTE: a slice of a layout starts at `slice_and_offset(coord, x)[1]`, not at 0.

    >>> print(slice_((None, 1), Layout((4, 3), (3, 1))))
    (4,):(3,)
    """
    return _per_tuple(x, lambda t: slice_tuple(coord, t))


def dice(coord: Coord, x: Any) -> Any:
    """The modes of `x` that are *not* under wildcards of `coord`.

    >>> dice((None, 1, (1, None)), (2, 3, (4, 5)))
    (3, 4)
    """
    return _per_tuple(x, lambda t: dice_tuple(coord, t))


def slice_and_offset(coord: Coord, layout: LayoutT) -> tuple[LayoutT, Any]:
    """The sublayout under the wildcards of `coord`, and the offset it starts at.

    Law:    ``L(coord with c at the wildcards) == offset + sub(c)``.  A composed layout takes the
            offset into itself (its inner function is not linear) and returns 0.
    Raises: LayoutError if `coord` does not fit.

    >>> sub, offset = slice_and_offset((1, None), Layout(((2, 2), (2, 2)), ((1, 8), (4, 16))))
    >>> print(sub, offset)
    ((2,2),):((4,16),) 1
    """
    plain = _outer(layout)
    sub = trusted(
        slice_tuple(coord, plain.shape), slice_tuple(coord, plain.stride), plain.is_static or None
    )
    offset = slice_offset(coord, plain.shape, plain.stride)
    if isinstance(layout, ComposedLayout):
        return _into(layout, sub, offset), 0
    return sub, offset


def domain_offset(coord: Coord, layout: LayoutT) -> tuple[LayoutT, Any]:
    """The same layout with its origin moved to `coord`, and the offset of that origin."""
    offset = dot(coord, layout.shape, _outer(layout).stride)
    if isinstance(layout, ComposedLayout):
        return _into(layout, _outer(layout), offset), 0
    return layout, offset


def _outer(layout: Any) -> Layout:
    """The innermost-argument layout of a chain of compositions: what tiling acts on."""
    while isinstance(layout, ComposedLayout):
        layout = layout.outer
    if not isinstance(layout, Layout):
        raise LayoutError(f"expected a Layout, got {type(layout).__name__} {layout!r}")
    return layout


def _rewrap(like: LayoutT, outer: Layout) -> LayoutT:
    """`outer` seen through the same inner functions as `like`."""
    seen: LayoutT = _seen(like, outer)
    return seen


def _seen(like: Any, outer: Layout) -> Any:
    return _into(like, outer, 0) if isinstance(like, ComposedLayout) else outer


def _into(like: ComposedLayout, outer: Layout, offset: Any) -> Any:
    if isinstance(like.outer, ComposedLayout):
        return like.with_outer(_into(like.outer, outer, offset))
    return like.with_outer(outer, offset)


def _per_tuple(x: Any, fn: Any) -> Any:
    """`fn` on a tuple, or on the shape and the strides of a layout."""
    if isinstance(x, _LAYOUTS):
        outer = _outer(x)
        return _seen(x, trusted(fn(outer.shape), fn(outer.stride)))
    if isinstance(x, ScaledBasis):
        return x
    return fn(x)
