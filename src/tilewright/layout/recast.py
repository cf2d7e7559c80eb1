"""Layouts counted in wider or narrower elements."""

from __future__ import annotations

from math import gcd
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.int_tuple import IntTuple, leaves
from tilewright.layout.layout import Layout, trusted
from tilewright.layout.leaf import Leaf, floordiv, mul
from tilewright.layout.swizzle import ComposedLayout, Swizzle


def upcast(x: Any, n: int) -> Any:
    """`x` counted in elements `n` times as wide: ``R(c) == x(first coordinate of group c) / n``.

    A stride that is a multiple of n shrinks; a mode of stride d < n gives n/d of its steps to one
    wide element.  Run-time strides are taken to be multiples of n; run-time extents divide by
    floor.

    Raises: LayoutError if a stride and n do not divide one another, an extent does not fill whole
            elements, or a swizzle moves parts of an element.

    >>> print(upcast(Layout((8, (4, 2)), (4, (1, 32))), 4), upcast(Swizzle(3, 4, 3), 8))
    (8,(1,2)):(1,(1,8)) Sw<3,1,3>
    """
    _check_count("upcast", n)
    if isinstance(x, Swizzle):
        return _move_base(x, -_log2(n), n)
    if isinstance(x, ComposedLayout):
        return ComposedLayout(upcast(x.inner, n), _scale_offset(x, n), upcast(x.outer, n))
    if n == 1:
        return x
    shape, stride = _leafwise(x, x.shape, x.stride, n, _widen)
    return trusted(shape, stride)


def downcast(x: Any, n: int) -> Any:
    """`x` counted in elements `n` times as narrow: the stride-1 mode grows by n, other strides too.

    Raises: LayoutError if `x` has no mode of stride 1 or -1 to grow.

    >>> print(downcast(Layout((4, 8), (8, 1)), 2))
    (4,16):(16,1)
    """
    _check_count("downcast", n)
    if isinstance(x, Swizzle):
        return _move_base(x, _log2(n), n)
    if isinstance(x, ComposedLayout):
        return ComposedLayout(downcast(x.inner, n), _times(x.offset, n), downcast(x.outer, n))
    if n == 1:
        return x
    if not any(type(d) is int and abs(d) == 1 for d in leaves(x.stride)):
        raise LayoutError(f"downcast: {x} has no mode of stride 1 that could grow by {n}")
    shape, stride = _leafwise(x, x.shape, x.stride, n, _narrow)
    return trusted(shape, stride)


def recast_layout(new_type_bits: int, old_type_bits: int, layout: Any) -> Any:
    """The layout of the same memory seen as elements of `new_type_bits` bits.

    Where neither width divides the other, the layout goes through their common part.

    Raises: LayoutError for coordinate strides, and as `upcast` and `downcast` do.

    >>> print(recast_layout(32, 16, Layout((8, 4))), recast_layout(8, 32, Layout((2, 16), (16, 1))))
    (4,4):(1,4) (2,64):(64,1)
    """
    if new_type_bits % old_type_bits == 0:
        return upcast(layout, new_type_bits // old_type_bits)
    if old_type_bits % new_type_bits == 0:
        return downcast(layout, old_type_bits // new_type_bits)
    small = gcd(new_type_bits, old_type_bits)
    return upcast(downcast(layout, old_type_bits // small), new_type_bits // small)


def _check_count(name: str, n: int) -> None:
    if type(n) is not int or n < 1:
        raise LayoutError(f"{name}: expected a number of elements >= 1, got {n!r}")


def _leafwise(x: Layout, s: IntTuple, d: IntTuple, n: int, fn: Any) -> tuple[IntTuple, IntTuple]:
    if type(s) is tuple:
        parts = [_leafwise(x, a, b, n, fn) for a, b in zip(s, d, strict=True)]
        return tuple(p[0] for p in parts), tuple(p[1] for p in parts)
    if type(d) is ScaledBasis:
        raise LayoutError(f"recast: {x} has coordinate strides; expected integer strides")
    result: tuple[IntTuple, IntTuple] = fn(x, s, d, n)
    return result


def _widen(x: Layout, s: Leaf, d: Leaf, n: int) -> tuple[Leaf, Leaf]:
    if type(d) is not int:
        return s, floordiv(d, n)
    if d % n == 0 or (type(s) is int and s == 1):
        return s, d // n if d % n == 0 else 0
    if n % d != 0:
        raise LayoutError(f"upcast: stride {d} of {x} and {n} do not divide one another")
    per = n // abs(d)
    if type(s) is not int:
        return floordiv(s, per), 1 if d > 0 else -1
    if s % per != 0 and per % s != 0:
        raise LayoutError(f"upcast: mode {s}:{d} of {x} does not fill elements of {n}")
    return -(-s // per), 1 if d > 0 else -1


def _narrow(x: Layout, s: Leaf, d: Leaf, n: int) -> tuple[Leaf, Leaf]:
    del x
    if type(d) is int and abs(d) == 1:
        return mul(s, n), d
    return s, mul(d, n)


def _move_base(sw: Swizzle, by: int, n: int) -> Swizzle:
    base = sw.base + by
    if base >= 0:
        return Swizzle(sw.bits, base, sw.shift)
    if sw.bits == 0:
        return Swizzle(0, 0, sw.shift)
    raise LayoutError(
        f"upcast: {sw} moves blocks of {1 << sw.base} elements, fewer than the {n} of a new one"
    )


def _log2(n: int) -> int:
    if n < 1 or n & (n - 1):
        raise LayoutError(f"recast of a swizzle: expected a power of two, got {n}")
    return n.bit_length() - 1


def _scale_offset(x: ComposedLayout, n: int) -> Any:
    def shrink(offset: Any) -> Any:
        if type(offset) is tuple:
            return tuple(shrink(o) for o in offset)
        if type(offset) is int and offset % n:
            raise LayoutError(f"upcast: offset {offset} of {x} is not a multiple of {n}")
        return floordiv(offset, n)

    return shrink(x.offset)


def _times(offset: Any, n: int) -> Any:
    if type(offset) is tuple:
        return tuple(_times(o, n) for o in offset)
    return mul(offset, n)
