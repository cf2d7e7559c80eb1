"""Arithmetic of one leaf: folded when static, forwarded when it is a run-time value.

A leaf is a Python int (static), a `ScaledBasis`, or a *run-time value*: any other object with
``+ - * // %`` and their reflected forms.  The algebra never asks a run-time value for its truth, so
every question here that may involve one is answered structurally: yes only where it is provable.

The folds ``1*x -> x``, ``0*x -> 0``, ``x+0 -> x``, ``x//1 -> x``, ``x%1 -> 0`` keep the expressions
that a kernel traces small.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, TypeAlias

from tilewright.errors import LayoutError

Leaf: TypeAlias = Any
"""int, ScaledBasis, or a run-time value."""

_NEVER_LEAVES = (float, complex, str, bytes, list, dict, set)


def is_static(leaf: Leaf) -> bool:
    """True iff the leaf is a Python int, or a basis vector scaled by one."""
    if type(leaf) is int:
        return True
    scale = getattr(leaf, "basis_value", None)
    return scale is not None and is_static(scale)


def as_leaf(value: Any, what: str) -> Leaf:
    """`value` as a leaf; integers of other libraries become int.

    Raises: LayoutError if it can be neither an int nor a run-time value; `what` names its place.
    """
    if type(value) is int:
        return value
    if isinstance(value, Integral):
        return int(value)
    if value is None or isinstance(value, _NEVER_LEAVES) or not hasattr(value, "__mul__"):
        raise LayoutError(
            f"{what}: expected an int or a run-time integer, got {type(value).__name__} {value!r}"
        )
    return value


def provably_equal(a: Leaf, b: Leaf) -> bool:
    """True iff `a` and `b` are certainly the same value: same int, same object, or same structure.

    A run-time value may offer ``provably_equal(other) -> bool`` to compare expressions.
    """
    if a is b:
        return True
    if type(a) is int and type(b) is int:
        return a == b
    for one, other in ((a, b), (b, a)):
        known = getattr(one, "provably_equal", None)
        if known is not None:
            return bool(known(other))
    return False


def exact_div(a: Leaf, b: Leaf) -> Leaf | None:
    """``a / b`` where b provably divides a; None where it does not, or where that is not known.

    A run-time value may offer ``exact_div(divisor) -> quotient or None``.
    """
    if type(a) is int:
        if type(b) is int:
            return a // b if b and a % b == 0 else None
        if a == 0:
            return 0
    elif type(b) is int and b == 1:
        return a
    if provably_equal(a, b):
        return 1
    known = getattr(a, "exact_div", None)
    return None if known is None else known(b)


def provably_below(a: Leaf, b: Leaf) -> bool:
    """True iff ``a < b`` is certain.

    A run-time value may offer ``provably_above(other) -> bool`` and ``provably_below(other)``.
    """
    if type(a) is int and type(b) is int:
        return a < b
    above, below = getattr(b, "provably_above", None), getattr(a, "provably_below", None)
    return bool((above is not None and above(a)) or (below is not None and below(b)))


def mul(a: Leaf, b: Leaf) -> Leaf:
    """``a * b``, where 1 and 0 cost nothing."""
    if type(a) is int:
        if a == 1:
            return b
        if a == 0:
            return 0
    if type(b) is int:
        if b == 1:
            return a
        if b == 0:
            return 0
    return a * b


def add(a: Any, b: Any) -> Any:
    """``a + b`` of leaves or of coordinates, where 0 costs nothing.

    Coordinates add mode by mode; the shorter one is padded with zeros, and a scalar 0 is the zero
    of every profile.

    Raises: LayoutError if a nonzero scalar meets a tuple.

    >>> add((3, 4), (1, (2, 5), 7))
    Traceback (most recent call last):
    tilewright.errors.LayoutError: add: cannot add scalar 4 to coordinate (2, 5)
    >>> add((3, 4), (1, 2, 7)), add(0, (3, 4))
    ((4, 6, 7), (3, 4))
    """
    if type(a) is int and a == 0:
        return b
    if type(b) is int and b == 0:
        return a
    if type(a) is tuple or type(b) is tuple:
        return _add_coords(a, b)
    return a + b


def _add_coords(a: Any, b: Any) -> tuple[Any, ...]:
    if type(a) is not tuple or type(b) is not tuple:
        scalar, coord = (b, a) if type(a) is tuple else (a, b)
        raise LayoutError(f"add: cannot add scalar {scalar} to coordinate {coord}")
    common = min(len(a), len(b))
    return tuple(add(x, y) for x, y in zip(a, b, strict=False)) + a[common:] + b[common:]


def sub(a: Any, b: Any) -> Any:
    """``a - b`` of leaves or of coordinates; the shorter coordinate is padded with zeros.

    Raises: LayoutError if a scalar meets a tuple (except ``coordinate - 0``).
    """
    if type(b) is int and b == 0:
        return a
    if type(a) is tuple and type(b) is tuple:
        common = min(len(a), len(b))
        head = tuple(sub(x, y) for x, y in zip(a, b, strict=False))
        return head + a[common:] + b[common:]
    if type(a) is tuple or type(b) is tuple:
        raise LayoutError(f"sub: cannot subtract {b} from {a}: one is a scalar, one a coordinate")
    return a - b


def floordiv(a: Leaf, b: Leaf) -> Leaf:
    """``a // b``; static operands divide towards zero, as coordinates do.

    Raises: LayoutError on a static division by zero.
    """
    if type(b) is int:
        if b == 1:
            return a
        if b == 0:
            raise LayoutError(f"division of {a} by a mode of size 0")
    if type(a) is int:
        if a == 0:
            return 0
        if a < 0 and type(b) is int:
            return -(-a // b)
    return a // b


def mod(a: Leaf, b: Leaf) -> Leaf:
    """``a % b``; static operands keep the sign of `a`, so ``a == b*floordiv(a,b) + mod(a,b)``.

    Raises: LayoutError on a static division by zero.
    """
    if type(b) is int:
        if b == 1:
            return 0
        if b == 0:
            raise LayoutError(f"remainder of {a} by a mode of size 0")
    if type(a) is int:
        if a == 0:
            return 0
        if a < 0 and type(b) is int:
            return -(-a % b)
    return a % b


def ceil_div_leaf(a: Leaf, b: Leaf) -> Leaf:
    """``(a + b - 1) // b``: how many pieces of `b` cover `a`.

    Raises: LayoutError on a static division by zero.
    """
    if type(b) is int:
        if b == 1:
            return a
        if b == 0:
            raise LayoutError(f"ceil_div: {a} cannot be divided into pieces of size 0")
        if type(a) is int:
            return -(-a // b)
    if provably_equal(a, b):
        return 1
    return add(a, sub(b, 1)) // b
