"""IntTuple: an int or a tuple of IntTuples; the shapes, strides and tilers of the algebra.

The *profile* of an IntTuple is its nesting, its *leaves* are read left to right.  Leaves may be
run-time values (see `leaf`); no function here asks one for its truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from tilewright.errors import LayoutError
from tilewright.layout.leaf import (
    Leaf,
    add,
    as_leaf,
    ceil_div_leaf,
    floordiv,
    is_static,
    mul,
    provably_equal,
)

IntTuple: TypeAlias = Any
"""int | run-time value | ScaledBasis | tuple of IntTuples (recursive)."""
Shape: TypeAlias = IntTuple
Stride: TypeAlias = IntTuple
Coord: TypeAlias = IntTuple


def fmt(t: IntTuple) -> str:
    """Standard notation: ``(4,(2,_))``; a rank-1 tuple keeps its comma, ``(4,)``.

    >>> fmt((4, (2, None))), fmt((4,))
    ('(4,(2,_))', '(4,)')
    """
    if isinstance(t, tuple):
        return "(" + ",".join(fmt(x) for x in t) + (",)" if len(t) == 1 else ")")
    return "_" if t is None else str(t)


def normalise(t: Any, what: str) -> IntTuple:
    """`t` with lists and tuple subclasses as tuples and foreign integers as int."""
    if isinstance(t, (tuple, list)):
        return tuple(normalise(x, what) for x in t)
    return as_leaf(t, what)


def leaves(t: IntTuple) -> Iterator[Leaf]:
    """The leaves, left to right."""
    if type(t) is tuple:
        for x in t:
            yield from leaves(x)
    else:
        yield t


def flatten_tuple(t: IntTuple) -> tuple[Leaf, ...]:
    """The leaves as a flat tuple; an int becomes a 1-tuple.

    >>> flatten_tuple((2, (3, (4,)))), flatten_tuple(5)
    ((2, 3, 4), (5,))
    """
    if type(t) is not tuple:
        return (t,)
    return tuple(leaves(t))


def unflatten(flat: tuple[Any, ...], profile: IntTuple) -> IntTuple:
    """The values of `flat` arranged in `profile`: ``unflatten(flatten_tuple(t), t) == t``.

    Raises: LayoutError if the counts differ.

    >>> unflatten((1, 2, 3), (0, (0, 0)))
    (1, (2, 3))
    """
    values = iter(flat)
    count = len(flatten_tuple(profile))
    if count != len(flat):
        raise LayoutError(f"unflatten: {len(flat)} values for {count} leaves of {fmt(profile)}")

    def build(p: IntTuple) -> IntTuple:
        return tuple(build(x) for x in p) if type(p) is tuple else next(values)

    return build(profile)


def wrap(t: IntTuple) -> tuple[IntTuple, ...]:
    """`t` itself if it is a tuple, else ``(t,)``."""
    return t if type(t) is tuple else (t,)


def unwrap(t: IntTuple) -> IntTuple:
    """`t` without its tuples of one element: ``((3,),) -> 3``."""
    while type(t) is tuple and len(t) == 1:
        t = t[0]
    return t


def transform_leaf(fn: Callable[..., Any], *ts: IntTuple) -> IntTuple:
    """`fn` applied to the leaves of congruent tuples, in their profile.

    Raises: LayoutError if the profiles differ.

    >>> transform_leaf(max, (1, (8, 3)), (4, (5, 6)))
    (4, (8, 6))
    """
    first = ts[0]
    if type(first) is not tuple:
        if any(type(t) is tuple for t in ts):
            raise LayoutError(f"transform_leaf: profiles differ: {', '.join(map(fmt, ts))}")
        return fn(*ts)
    if any(type(t) is not tuple or len(t) != len(first) for t in ts):
        raise LayoutError(f"transform_leaf: profiles differ: {', '.join(map(fmt, ts))}")
    return tuple(transform_leaf(fn, *xs) for xs in zip(*ts, strict=True))


def tuple_rank(t: IntTuple) -> int:
    """Number of top-level modes; an int has one."""
    return len(t) if type(t) is tuple else 1


def tuple_depth(t: IntTuple) -> int:
    """Levels of nesting: 0 for an int, 1 for a flat tuple."""
    if type(t) is not tuple:
        return 0
    return 1 + max((tuple_depth(x) for x in t), default=0)


def product(t: IntTuple) -> Leaf:
    """Product of all leaves; ``product(()) == 1``.

    >>> product((2, (3, 4)))
    24
    """
    if type(t) is not tuple:
        return t
    result: Leaf = 1
    for x in t:
        result = mul(result, product(x) if type(x) is tuple else x)
    return result


def product_each(t: IntTuple) -> tuple[Leaf, ...]:
    """The product of each top-level mode; an int becomes a 1-tuple.

    >>> product_each((2, (3, 4))), product_each(5)
    ((2, 12), (5,))
    """
    return tuple(product(x) for x in wrap(t))


def product_like(t: IntTuple, guide: IntTuple) -> IntTuple:
    """Products of the parts of `t` that lie under the leaves of `guide`.

    Raises: LayoutError if `guide` is deeper than `t`.

    >>> product_like((2, (3, 4), (5, (6, 7))), (0, 0, (0, 0)))
    (2, 12, (5, 42))
    """
    if type(guide) is not tuple:
        return product(t)
    if type(t) is not tuple or len(t) != len(guide):
        raise LayoutError(f"product_like: {fmt(t)} has no parts at the leaves of {fmt(guide)}")
    return tuple(product_like(x, g) for x, g in zip(t, guide, strict=True))


def inner_product(a: IntTuple, b: IntTuple) -> Any:
    """Sum over leaves of ``a * b``.

    Raises: LayoutError unless `a` and `b` are congruent.

    >>> inner_product((1, 2), (3, 2))
    7
    """
    if type(a) is not tuple and type(b) is not tuple:
        return mul(a, b)
    if tuple_rank(a) != tuple_rank(b) or (type(a) is tuple) != (type(b) is tuple):
        raise LayoutError(f"inner_product: profiles differ: {fmt(a)} and {fmt(b)}")
    total: Any = 0
    for x, y in zip(a, b, strict=True):
        total = add(total, inner_product(x, y))
    return total


def tuple_max(t: IntTuple) -> int:
    """The largest leaf (static leaves only)."""
    return max(int(x) for x in leaves(t))


def shape_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """`a` divided by `b`, mode by mode; a scalar `b` is used up from the left.

    Leaves: ``ceil(a/b)`` where one divides the other; run-time leaves divide by floor and are taken
    to divide exactly.

    Raises: LayoutError where neither divides the other.

    >>> shape_div((3, 6, 2, 8), 72), shape_div((8, 6), (4, 3))
    ((1, 1, 1, 4), (2, 2))
    """
    if type(a) is tuple:
        if type(b) is tuple:
            if len(a) != len(b):
                raise LayoutError(f"shape_div: ranks of {fmt(a)} and {fmt(b)} differ")
            return tuple(shape_div(x, y) for x, y in zip(a, b, strict=True))
        parts = []
        for x in a:
            parts.append(shape_div(x, b))
            b = shape_div(b, product(x))
        return tuple(parts)
    if type(b) is tuple:
        return shape_div(a, product(b))
    if type(a) is int and type(b) is int:
        if a == 0 or b == 0 or (a % b != 0 and b % a != 0):
            raise LayoutError(f"shape_div: neither of {a} and {b} divides the other")
        return -(-a // b)
    return 1 if provably_equal(a, b) else floordiv(a, b)


def ceil_div_tuple(a: IntTuple, b: IntTuple) -> IntTuple:
    """``ceil(a / b)`` by mode; modes that `b` lacks count as 1; a scalar is used up from the left.

    Raises: LayoutError if `b` has more modes than `a`, or holds a zero.

    >>> ceil_div_tuple((10, 7), (4, 3)), ceil_div_tuple((4, 8), 2), ceil_div_tuple((7, 5), (2,))
    ((3, 3), (2, 8), (4, 5))
    """
    if type(a) is tuple:
        if type(b) is tuple:
            if len(b) > len(a):
                raise LayoutError(f"ceil_div: {fmt(b)} has more modes than {fmt(a)}")
            head = tuple(ceil_div_tuple(x, y) for x, y in zip(a, b, strict=False))
            return head + a[len(b) :]
        parts = []
        for x in a:
            parts.append(ceil_div_tuple(x, b))
            b = ceil_div_leaf(b, product(x))
        return tuple(parts)
    if type(b) is tuple:
        return ceil_div_tuple(a, product(b))
    return ceil_div_leaf(a, b)


def round_up(a: IntTuple, b: IntTuple) -> IntTuple:
    """The smallest multiple of `b` that is >= `a`, by mode; modes that `b` lacks stay.

    >>> round_up((10, 7), (4, 3))
    (12, 9)
    """
    if type(a) is tuple:
        if type(b) is not tuple or len(b) > len(a):
            raise LayoutError(f"round_up: {fmt(b)} is not a prefix of the modes of {fmt(a)}")
        head = tuple(round_up(x, y) for x, y in zip(a, b, strict=False))
        return head + a[len(b) :]
    return mul(ceil_div_tuple(a, b), product(b))


def elem_scale(a: IntTuple, b: IntTuple) -> IntTuple:
    """``a * size(b)`` at the leaves of `a`.

    >>> elem_scale((2, 3), ((4, 2), 5))
    (16, 15)
    """
    if type(a) is not tuple:
        return mul(a, product(b))
    if type(b) is not tuple or len(a) != len(b):
        raise LayoutError(f"elem_scale: {fmt(a)} is not a prefix of the profile of {fmt(b)}")
    return tuple(elem_scale(x, y) for x, y in zip(a, b, strict=True))


def same(a: IntTuple, b: IntTuple) -> bool:
    """True iff `a` and `b` are provably equal leaf by leaf, in the same profile."""
    if type(a) is tuple:
        return (
            type(b) is tuple
            and len(a) == len(b)
            and all(same(x, y) for x, y in zip(a, b, strict=True))
        )
    return type(b) is not tuple and provably_equal(a, b)


def all_static(t: IntTuple) -> bool:
    """True iff no leaf is a run-time value."""
    return all(leaf is None or is_static(leaf) for leaf in leaves(t))


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """Same profile.

    >>> congruent((1, (2, 3)), (4, (5, 6))), congruent(4, (2, 2))
    (True, False)
    """
    if type(a) is not tuple or type(b) is not tuple:
        return type(a) is not tuple and type(b) is not tuple
    return len(a) == len(b) and all(congruent(x, y) for x, y in zip(a, b, strict=True))


def weakly_congruent(a: IntTuple, b: IntTuple) -> bool:
    """The profile of `a` is the profile of `b` with some subtrees cut off to leaves.

    >>> weakly_congruent((1, 2), (1, (2, 3))), weakly_congruent((1,), 1)
    (True, False)
    """
    if type(a) is not tuple:
        return True
    if type(b) is not tuple or len(a) != len(b):
        return False
    return all(weakly_congruent(x, y) for x, y in zip(a, b, strict=True))


def compatible(a: IntTuple, b: IntTuple) -> bool:
    """Every coordinate of shape `a` is one of shape `b`: leaves of `a` are the sizes of b's modes.

    >>> compatible(24, (4, 6)), compatible((4, 6), 24), compatible((24,), 24)
    (True, False, False)
    """
    if type(a) is not tuple:
        return provably_equal(a, product(b))
    if type(b) is not tuple or len(a) != len(b):
        return False
    return all(compatible(x, y) for x, y in zip(a, b, strict=True))


def select_modes(t: IntTuple, modes: list[int] | tuple[int, ...]) -> tuple[IntTuple, ...]:
    """The top-level modes named, in that order.

    Raises: LayoutError for a mode out of range.
    """
    top = wrap(t)
    for mode in modes:
        if not 0 <= mode < len(top):
            raise LayoutError(f"select: mode {mode} is not in [0, {len(top)}) of {fmt(t)}")
    return tuple(top[mode] for mode in modes)


def get_mode(t: IntTuple, path: list[int] | tuple[int, ...]) -> IntTuple:
    """The element at `path`, outermost index first.

    Raises: LayoutError where an index is out of range or goes below a leaf.
    """
    here = t
    for depth, mode in enumerate(path):
        count = len(here) if type(here) is tuple else 0
        if count == 0 and mode == 0 and type(here) is not tuple and len(path) == 1:
            return here
        if not 0 <= mode < count:
            raise LayoutError(
                f"mode {mode} at depth {depth} of {fmt(t)} is not in [0, {count})",
            )
        here = here[mode]
    return here


def group(t: IntTuple, begin: int, end: int) -> IntTuple:
    """Modes [begin, end) wrapped into one; `end` is exclusive.

    Raises: LayoutError unless ``0 <= begin < end <= rank``.

    >>> group((4, 5, 6), 1, 3)
    (4, (5, 6))
    """
    top = wrap(t)
    if not 0 <= begin < end <= len(top):
        raise LayoutError(f"group_modes: [{begin}, {end}) is not a range of modes of {fmt(t)}")
    return (*top[:begin], top[begin:end], *top[end:])


def repeat_like(t: IntTuple, value: Any) -> IntTuple:
    """`value` at every leaf of the profile of `t`.

    >>> repeat_like((2, (3, 4)), 1)
    (1, (1, 1))
    """
    return tuple(repeat_like(x, value) for x in t) if type(t) is tuple else value


def repeat(value: Any, count: int) -> tuple[Any, ...]:
    """A tuple of `count` times `value`."""
    return (value,) * count


def zip_tuples(*ts: IntTuple) -> tuple[IntTuple, ...]:
    """Transpose of top-level modes: ``((a,b),(c,d)) -> ((a,c),(b,d))``.

    Raises: LayoutError if the ranks differ.
    """
    if len({tuple_rank(t) for t in ts}) > 1:
        raise LayoutError(f"zip: ranks differ: {', '.join(map(fmt, ts))}")
    return tuple(zip(*(wrap(t) for t in ts), strict=True))


def lex_less(a: IntTuple, b: IntTuple) -> bool:
    """`a` comes before `b` when the *first* differing leaf decides (static leaves)."""
    return flatten_tuple(a) < flatten_tuple(b)


def colex_less(a: IntTuple, b: IntTuple) -> bool:
    """`a` comes before `b` when the *last* differing leaf decides (static leaves)."""
    return flatten_tuple(a)[::-1] < flatten_tuple(b)[::-1]


def elem_less(a: IntTuple, b: IntTuple) -> Any:
    """Every leaf of `a` is less than its partner in `b`: the bounds test of a coordinate.

    A scalar of one side meets the whole mode of the other by size.  With run-time leaves the result
    is the run-time conjunction (``&``) of the leaf comparisons.

    >>> elem_less((3, 4), (4, 5)), elem_less((3, 5), (4, 5))
    (True, False)
    """
    if type(a) is tuple:
        if type(b) is not tuple or len(a) > len(b):
            raise LayoutError(f"elem_less: coordinate {fmt(a)} does not fit shape {fmt(b)}")
        result: Any = True
        for x, y in zip(a, b, strict=False):
            one = elem_less(x, y)
            if one is False or result is False:
                return False
            result = one if result is True else (result if one is True else result & one)
        return result
    return a < (product(b) if type(b) is tuple else b)
