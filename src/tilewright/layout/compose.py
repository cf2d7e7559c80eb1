"""Composition of layouts: ``R(c) = A(B(c))``, exact on the whole domain of B or refused.

Rule DIGITS.  A (coalesced) splits an index into digits, one per mode: ``x -> (x0, x1, ..)`` with
``x_j < s_j`` except the last, which is unbounded.  A mode ``n:t`` of B walks ``0, t, 2t, ..``.
Where t divides s_j (or all of n fits below s_j) the walk is a mode of digit j: ``ceil(s_j/t)``
steps of t there, the rest continues in digit j+1.

Rule CARRY.  The modes of B may each be exact and their sum still wrong, when two of them reach into
the same digit and add up to s_j or more.  So the reach of all modes is summed per digit; a sum
below s_j proves that no carry happens.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.coord import at_path
from tilewright.layout.int_tuple import IntTuple, flatten_tuple, fmt, leaves
from tilewright.layout.layout import Layout, trusted
from tilewright.layout.leaf import Leaf, mul
from tilewright.layout.modes import coalesce_flat, size
from tilewright.layout.swizzle import ComposedLayout, Swizzle, make_swizzle

_EXHAUSTIVE = 4096
"""Up to this many coordinates an unproven composition is decided by comparing every value."""


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
    >>> print(composition(Layout((4, 6, 8), (2, 3, 5)), Layout(6, 3)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tilewright.errors.LayoutError: composition: 6:3 of B does not walk mode 0 of A evenly: ...
    """
    if isinstance(a, ComposedLayout):
        return a.with_outer(composition(a.outer, b))
    if isinstance(a, Swizzle):
        return _after_swizzle(a, b)
    if not isinstance(a, Layout):
        raise LayoutError(f"composition: expected a layout on the left, got {type(a).__name__}")
    if isinstance(b, Layout):
        if a.is_static and b.is_static:
            return _compose_cached(a, b)
        return _compose(a, b)
    if b is None:
        return a
    if isinstance(b, (tuple, list)):
        return _compose_by_mode(a, tuple(b))
    if isinstance(b, Swizzle):
        return _before_swizzle(a, b)
    if isinstance(b, ComposedLayout):
        return _before_composed(a, b)
    return composition(a, Layout(b, 1))


def _compose_by_mode(a: Layout, tiler: tuple[Any, ...]) -> Layout:
    modes = list(a)
    if len(tiler) > len(modes):
        raise LayoutError(
            f"composition: tiler of {len(tiler)} modes for a layout of {len(modes)}",
            details={"A": a, "tiler": fmt(tiler)},
        )
    parts = [composition(m, t) for m, t in zip(modes, tiler, strict=False)]
    return trusted(tuple(p.shape for p in parts), tuple(p.stride for p in parts))


def _compose(a: Layout, b: Layout) -> Layout:
    if any(type(d) is ScaledBasis for d in leaves(b.stride)):
        return _compose_basis(a, b)
    walk = _Walk(a, b, a)
    shape, stride = walk.modes(b.shape, b.stride)
    walk.check_carry()
    return trusted(shape, stride, (a.is_static and b.is_static) or None)


_compose_cached = lru_cache(maxsize=8192)(_compose)


def _compose_basis(a: Layout, b: Layout) -> Layout:
    """B yields coordinates: each of its leaves walks the mode of A that its axis names."""
    walks: dict[tuple[int, ...], _Walk] = {}

    def build(s: IntTuple, d: IntTuple) -> tuple[IntTuple, IntTuple]:
        if type(s) is tuple:
            parts = [build(x, y) for x, y in zip(s, d, strict=True)]
            return tuple(p[0] for p in parts), tuple(p[1] for p in parts)
        if type(d) is not ScaledBasis:
            if type(d) is int and (d == 0 or (type(s) is int and s == 1)):
                return s, 0
            raise LayoutError(
                f"composition: B mixes offsets (stride {d}) with coordinates",
                details={"A": a, "B": b},
            )
        walk = walks.get(d.path)
        if walk is None:
            part = trusted(at_path(a.shape, d.path), at_path(a.stride, d.path))
            walk = walks[d.path] = _Walk(a, b, part)
        return walk.modes(s, d.basis_value)

    shape, stride = build(b.shape, b.stride)
    paths = sorted(walks)
    for p, q in pairwise(paths):
        if q[: len(p)] == p:
            raise LayoutError(
                f"composition: axes {fmt(p)} and {fmt(q)} of B contain one another",
                details={"A": a, "B": b},
            )
    for walk in walks.values():
        walk.check_carry()
    return trusted(shape, stride)


class _Walk:
    """The walk of B's modes over one coalesced layout, and how far each digit is reached."""

    __slots__ = ("a", "b", "low", "mixed", "part", "reach", "shapes", "sign", "strides")

    def __init__(self, a: Layout, b: Layout, part: Layout) -> None:
        self.a, self.b, self.part = a, b, part
        self.shapes, self.strides = coalesce_flat(
            flatten_tuple(part.shape), flatten_tuple(part.stride), keep_tail=True
        )
        self.reach = [0] * len(self.shapes)
        self.sign = 0
        self.mixed = False
        self.low = False

    def modes(self, s: IntTuple, d: IntTuple) -> tuple[IntTuple, IntTuple]:
        """Shape and stride of ``A o (s:d)``, leaf by leaf."""
        if type(s) is not tuple:
            return self.leaf(s, d)
        shapes, strides = [], []
        for x, y in zip(s, d, strict=True):
            shape, stride = self.modes(x, y)
            shapes.append(shape)
            strides.append(stride)
        return tuple(shapes), tuple(strides)

    def leaf(self, s: Leaf, d: Leaf) -> tuple[IntTuple, IntTuple]:
        """``A o (s:d)`` for one leaf; rule DIGITS."""
        last = len(self.shapes) - 1
        if last < 0:
            return s, 0
        if type(d) is int and d == 0:
            return s, 0
        if type(s) is int and s == 1:
            return 1, 0
        if last == 0:
            return s, mul(d, self.strides[0])
        if type(d) is not int:
            raise self.unproven(s, d, 0)
        sign = 1 if d > 0 else -1
        self.mixed |= self.sign == -sign
        self.sign = sign
        rest, step = s, abs(d)
        out_s: list[Leaf] = []
        out_d: list[Leaf] = []
        for j in range(last):
            extent = self.shapes[j]
            if type(extent) is not int:
                raise self.unproven(s, d, j)
            if extent == 0 or step % extent == 0:
                step //= extent or 1
                continue
            if type(rest) is not int:
                raise self.unproven(s, d, j)
            fits = -(-extent // step)
            if rest > fits and (extent % step != 0 or rest % fits != 0):
                raise self.uneven(s, d, j, rest, step)
            here = min(rest, fits)
            if here > 1:
                out_s.append(here)
                out_d.append(mul(sign * step, self.strides[j]))
                self.reach[j] += (here - 1) * step
                self.low = True
            rest, step = (1, 1) if rest <= fits else (rest // here, 1)
            if rest == 1:
                break
        if not (type(rest) is int and rest == 1):
            out_s.append(rest)
            out_d.append(mul(sign * step, self.strides[last]))
        if len(out_s) == 1:
            return out_s[0], out_d[0]
        return tuple(out_s), tuple(out_d)

    def check_carry(self) -> None:
        """Rule CARRY: prove that the digits of B's modes never add up to a carry, or refuse."""
        overflow = [j for j, reached in enumerate(self.reach[:-1]) if reached >= self.shapes[j]]
        if overflow or (self.mixed and self.low):
            self.compare_all(overflow[0] if overflow else 0)

    def compare_all(self, mode: int) -> None:
        whole = self.a is self.part and self.a.is_static and self.b.is_static
        total = size(self.b)
        if whole and total <= _EXHAUSTIVE:
            shape, stride = _Walk(self.a, self.b, self.a).modes(self.b.shape, self.b.stride)
            result = trusted(shape, stride)
            wrong = next((i for i in range(total) if result(i) != self.a(self.b(i))), None)
            if wrong is None:
                return
            why = f"A(B({wrong})) = {self.a(self.b(wrong))}, but by modes {result(wrong)}"
        else:
            why = "no carry between the modes can be excluded"
        raise LayoutError(
            f"composition: modes of B carry across mode {mode} of A (size {self.shapes[mode]}): "
            f"{why}",
            details=self.operands(),
        )

    def uneven(self, s: Leaf, d: Leaf, j: int, rest: int, step: int) -> LayoutError:
        extent = self.shapes[j]
        if step >= extent:
            need = f"expected {step} % {extent} == 0"
        elif extent % step:
            need = f"expected {extent} % {step} == 0"
        else:
            need = f"expected {rest} % {extent // step} == 0"
        return LayoutError(
            f"composition: {s}:{d} of B does not walk mode {j} of A evenly: {need}",
            details=self.operands(),
        )

    def unproven(self, s: Leaf, d: Leaf, j: int) -> LayoutError:
        return LayoutError(
            f"composition: cannot prove that {s}:{d} of B walks mode {j} of A evenly: "
            f"extent {self.shapes[j]}, stride {d} and count {s} must be static here",
            details=self.operands(),
            hint="compose by mode, with a tuple of tilers",
        )

    def operands(self) -> dict[str, object]:
        a: dict[str, object] = {"A": self.a, "B": self.b}
        merged = f"{fmt(tuple(self.shapes))}:{fmt(tuple(self.strides))}"
        if merged != str(self.a):
            a["A coalesced"] = merged
        return a


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
