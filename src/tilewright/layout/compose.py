"""Composition of layouts: ``R(c) = A(B(c))``, exact on the whole domain of B or refused.

Static layouts take the fast path of `static`; what it cannot answer, `decide` does.  Layouts with
run-time values take `runtime_walk`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.coord import at_path
from tilewright.layout.decide import Carry, decide
from tilewright.layout.int_tuple import IntTuple, fmt, leaves
from tilewright.layout.layout import Layout, trusted
from tilewright.layout.leaf import Leaf
from tilewright.layout.modes import size
from tilewright.layout.runtime_walk import Walk
from tilewright.layout.static import Coordinates, Uneven, carries, merge, walk
from tilewright.layout.swizzle import ComposedLayout, Swizzle, make_swizzle


def composition(a: Any, b: Any) -> Any:
    """``R(c) == A(B(c))`` for every coordinate c of B.

    `b` is a layout, a Swizzle, or a tiler: an int n stands for ``n:1``, None for "all of A", and a
    tuple of tilers acts mode by mode (modes of A beyond it are dropped).  A basis stride ``v@i`` of
    B walks mode i of A.

    Shapes: the profile of B, each leaf possibly split: ``compatible(B.shape, R.shape)``.
    Raises: LayoutError if the function is not a layout of that profile, or (with run-time values)
            cannot be proven to be one.
    Source: CuTe layout algebra, "composition".

    >>> print(composition(Layout((6, 2), (8, 3)), Layout((4, 3), (3, 1))))
    ((2,2),3):((24,3),8)
    >>> print(composition(Layout((2, 8, 6), (1, 12, 2)), Layout(6, 3)))
    (2,3):(13,36)
    >>> print(composition(Layout((4, 6, 8), (2, 3, 5)), Layout(6, 3)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tilewright.errors.LayoutError: composition: 6:3 of B does not walk mode 0 of A evenly: ...
    """
    if type(a) is Layout:
        if type(b) is Layout:
            return _compose_cached(a, b) if a.is_static and b.is_static else _compose(a, b)
        if b is None:
            return a
        if isinstance(b, (tuple, list)):
            return _compose_by_mode(a, tuple(b))
        if isinstance(b, Swizzle):
            return _before_swizzle(a, b)
        if isinstance(b, ComposedLayout):
            return _before_composed(a, b)
        return composition(a, Layout(b, 1))
    if isinstance(a, ComposedLayout):
        return a.with_outer(composition(a.outer, b))
    if isinstance(a, Swizzle):
        return _after_swizzle(a, b)
    raise LayoutError(
        f"composition: expected a layout on the left, got {type(a).__name__}",
        hint="composition(A, B) is A o B: the layout A, seen at the places that B names",
    )


def _compose_by_mode(a: Layout, tiler: tuple[Any, ...]) -> Layout:
    modes = list(a)
    if len(tiler) > len(modes):
        raise LayoutError(
            f"composition: tiler of {len(tiler)} modes for a layout of {len(modes)}",
            details={"A": a, "tiler": fmt(tiler)},
        )
    parts = [composition(m, t) for m, t in zip(modes, tiler, strict=False)]
    return trusted(tuple(p.shape for p in parts), tuple(p.stride for p in parts))


def _compose_static(a: Layout, b: Layout) -> Layout:
    sizes, strides = merge(a.shape, a.stride)
    if not sizes:  # A is ():(), whose only offset is 0
        sizes, strides = [1], [0]
    reach = [0] * len(sizes)
    try:
        shape, stride = walk(b.shape, b.stride, sizes, strides, reach)
    except Uneven as why:
        return _decide(a, b, sizes, strides, why)
    except Coordinates:
        return _compose_basis(a, b)
    mode = carries(sizes, reach)
    if mode >= 0:
        return _decide(a, b, sizes, strides, mode)
    return trusted(shape, stride, True)


_compose_cached = lru_cache(maxsize=8192)(_compose_static)


def _decide(
    a: Layout, b: Layout, sizes: list[int], strides: list[Any], why: Uneven | int
) -> Layout:
    """The composition that the fast path did not find, or the refusal with its reason."""
    operands: dict[str, object] = {"A": a, "B": b}
    merged = f"{fmt(tuple(sizes))}:{fmt(tuple(strides))}"
    if merged != str(a):
        operands["A coalesced"] = merged
    try:
        found = decide(sizes, strides, b.shape, b.stride)
    except Carry as carry:
        reason = f"A(B({carry.index})) = {carry.value}, but by modes {carry.by_modes}"
        mode = why if isinstance(why, int) else why.mode
        raise _carry(mode, sizes, reason, operands) from None
    if found is not None:
        return trusted(*found, True)
    if isinstance(why, Uneven):
        raise _uneven(why, sizes, operands)
    raise _carry(why, sizes, "no carry between the modes can be excluded", operands)


def _uneven(why: Uneven, sizes: list[int], operands: dict[str, object]) -> LayoutError:
    extent, step = sizes[why.mode], why.step
    if step >= extent:
        need = f"expected {step} % {extent} == 0"
    elif extent % step:
        need = f"expected {extent} % {step} == 0"
    else:
        need = f"expected {why.rest} % {extent // step} == 0"
    return LayoutError(
        f"composition: {why.s}:{why.d} of B does not walk mode {why.mode} of A evenly: {need}",
        details=operands,
    )


def _carry(mode: int, sizes: list[int], reason: str, operands: dict[str, object]) -> LayoutError:
    return LayoutError(
        f"composition: modes of B carry across mode {mode} of A (size {sizes[mode]}): {reason}",
        details=operands,
    )


def _compose(a: Layout, b: Layout) -> Layout:
    """With run-time values."""
    if any(type(d) is ScaledBasis for d in leaves(b.stride)):
        return _compose_basis(a, b)
    steps = Walk(a, b)
    shape, stride = steps.modes(b.shape, b.stride)
    steps.check_carry()
    return trusted(shape, stride)


def _compose_basis(a: Layout, b: Layout) -> Layout:
    """B yields coordinates: the leaves that walk one axis are composed with that mode of A."""
    operands = {"A": a, "B": b}
    axes: dict[tuple[int, ...], tuple[list[Leaf], list[Leaf]]] = {}
    for s, d in zip(leaves(b.shape), leaves(b.stride), strict=True):
        if type(d) is ScaledBasis:
            sizes, steps = axes.setdefault(d.path, ([], []))
            sizes.append(s)
            steps.append(d.basis_value)
        elif not (type(d) is int and (d == 0 or (type(s) is int and s == 1))):
            raise LayoutError(
                f"composition: B mixes offsets (stride {d}) with coordinates", details=operands
            )
    for p, q in pairwise(sorted(axes)):
        if q[: len(p)] == p:
            raise LayoutError(
                f"composition: axes {fmt(p)} and {fmt(q)} of B contain one another",
                details=operands,
            )
    found: dict[tuple[int, ...], Iterator[Layout]] = {}
    for path, (sizes, steps) in axes.items():
        mode = trusted(at_path(a.shape, path), at_path(a.stride, path))
        try:
            part: Layout = composition(mode, trusted(tuple(sizes), tuple(steps)))
        except LayoutError as error:
            raise LayoutError(error.message, details={**error.details, **operands}) from None
        found[path] = iter(part)

    def build(s: IntTuple, d: IntTuple) -> tuple[IntTuple, IntTuple]:
        if type(s) is tuple:
            parts = [build(x, y) for x, y in zip(s, d, strict=True)]
            return tuple(p[0] for p in parts), tuple(p[1] for p in parts)
        if type(d) is not ScaledBasis:
            return s, 0
        part = next(found[d.path])
        return part.shape, part.stride

    return trusted(*build(b.shape, b.stride))


def _after_swizzle(a: Swizzle, b: Any) -> Any:
    """``Sw o B``: a composed layout; two swizzles merge where one swizzle can say it."""
    if isinstance(b, (Layout, ComposedLayout)):
        return ComposedLayout(a, 0, b)
    if isinstance(b, Swizzle):
        if a.bits == 0 or b.bits == 0:
            return b if a.bits == 0 else a
        if a.shift == b.shift and not (a.source_mask ^ b.source_mask):
            return Swizzle(0, a.base, a.shift)
        if a.shift == b.shift and not a.source_mask & (b.source_mask | b.target_mask):
            return make_swizzle(a.source_mask | b.source_mask, a.target_mask | b.target_mask)
        raise LayoutError(f"composition: {a} o {b} is not one swizzle")
    raise LayoutError(f"composition: expected a layout after {a}, got {type(b).__name__}")


def _before_swizzle(a: Layout, sw: Swizzle) -> Any:
    """``A o Sw == Sw' o A``, where A moves the swizzled bits as single bits."""
    if sw.bits == 0:
        return ComposedLayout(Swizzle(0, sw.base, sw.shift), 0, a)
    moved = make_swizzle(a(sw.source_mask), a(sw.target_mask)) if _moves_bits(a, sw) else None
    if moved is None:
        raise LayoutError(
            f"composition: {a} does not move the bits of {sw} as bits; the composition is no "
            "swizzled layout",
            details={"A": a, "B": sw},
        )
    return ComposedLayout(moved, 0, a)


def _moves_bits(a: Layout, sw: Swizzle) -> bool:
    """True iff A permutes the bits of its index: powers of two, each offset bit hit once."""
    seen = 0
    for s, d in zip(leaves(a.shape), leaves(a.stride), strict=True):
        if type(s) is not int or type(d) is not int or s & (s - 1) or s < 1:
            return False
        if s == 1:
            continue
        mask = (s - 1) * d
        if d < 1 or d & (d - 1) or mask & seen:
            return False
        seen |= mask
    return bool(max(sw.source_mask, sw.target_mask) < size(a))


def _before_composed(a: Layout, b: ComposedLayout) -> Any:
    """``A o (f o k o L)``."""
    if isinstance(b.inner, Swizzle):
        moved = _before_swizzle(a, b.inner)
        if type(b.offset) is int and b.offset == 0:
            outer = composition(a, b.outer)
            return moved.with_outer(outer)
        return ComposedLayout(moved.inner, 0, ComposedLayout(a, b.offset, b.outer))
    if isinstance(b.inner, Layout):
        return ComposedLayout(composition(a, b.inner), b.offset, b.outer)
    return ComposedLayout(a, 0, b)
