"""Which offsets a layout hits: each exactly once, or which never, repeatedly or outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.coord import crd2idx, idx2crd
from tilewright.layout.int_tuple import flatten_tuple, fmt, product
from tilewright.layout.modes import coshape, size
from tilewright.layout.swizzle import AnyLayout, ComposedLayout, Swizzle


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often each element of an extent is hit: `missing` never, `repeated` more than once (with
    the count), `outside` hits beyond the extent."""

    extent: Any
    missing: tuple[Any, ...]
    repeated: tuple[tuple[Any, int], ...]
    outside: tuple[Any, ...]

    @property
    def is_exact(self) -> bool:
        """Each element exactly once, and nothing else."""
        return not (self.missing or self.repeated or self.outside)

    def __str__(self) -> str:
        if self.is_exact:
            return f"each of the {product(self.extent)} elements exactly once"
        repeated = [f"{fmt(at)} ({n} times)" for at, n in self.repeated]
        parts = [
            f"{name}: {_some(items)}"
            for name, items in (
                ("missing", [fmt(x) for x in self.missing]),
                ("repeated", repeated),
                ("outside", [fmt(x) for x in self.outside]),
            )
            if items
        ]
        return "; ".join(parts)


def coverage(layout: AnyLayout, extent: Any = None) -> Coverage:
    """Which offsets of ``[0, extent)`` the layout hits once, never, or repeatedly.

    `extent` is by default the cosize; with basis strides it is a shape, and elements are
    coordinates.

    >>> from tilewright.layout.layout import Layout
    >>> print(coverage(Layout((4, 2), (1, 4))))
    each of the 8 elements exactly once
    >>> print(coverage(Layout((2, 3), (2, 2)), 6))
    missing: 1, 3, 5; repeated: 2 (2 times), 4 (2 times); outside: 6
    """
    box = _coshape(layout) if extent is None else extent
    count, nested = product(box), isinstance(box, tuple)
    hits: Counter[int] = Counter()
    outside = set()
    for i in range(size(layout)):
        at = layout(i)
        index = _index_in(at, box)
        if index is None:
            outside.add(at)
        else:
            hits[index] += 1

    def name(index: int) -> Any:
        return idx2crd(index, box) if nested else index

    missing = tuple(name(i) for i in range(count) if i not in hits)
    repeated = tuple((name(i), n) for i, n in sorted(hits.items()) if n > 1)
    return Coverage(box, missing, repeated, tuple(sorted(outside)))


def _coshape(layout: AnyLayout) -> Any:
    if isinstance(layout, ComposedLayout):
        return 1 + max((layout(i) for i in range(size(layout))), default=-1)
    return coshape(layout)


def _index_in(at: Any, box: Any) -> int | None:
    """The index of offset or coordinate `at` in `box`, None outside."""
    if not isinstance(at, tuple):
        return at if 0 <= at < product(box) else None
    if not isinstance(box, tuple) or len(at) > len(box):
        raise LayoutError(f"coverage: coordinate {fmt(at)} has no place in the extent {fmt(box)}")
    at = (*at, *(0,) * (len(box) - len(at)))
    inside = all(_index_in(c, s) is not None for c, s in zip(at, box, strict=True))
    if not inside:
        return None
    index: int = crd2idx(at, box)
    return index


def is_injective(layout: AnyLayout, limit: int = 1 << 16) -> bool | None:
    """Whether no two coordinates share an offset; None if more than `limit` would have to be tried.

    >>> from tilewright.layout.layout import Layout
    >>> is_injective(Layout((4, 3), (3, 1))), is_injective(Layout((4, 2), (1, 0)))
    (True, False)
    """
    while isinstance(layout, ComposedLayout) and isinstance(layout.inner, Swizzle):
        layout = layout.outer  # a swizzle is a bijection
    if size(layout) <= limit:
        return len({layout(i) for i in range(size(layout))}) == int(size(layout))
    if isinstance(layout, ComposedLayout):
        return None
    shapes, strides = flatten_tuple(layout.shape), flatten_tuple(layout.stride)
    if not all(type(d) is int for d in strides):
        return None
    modes = sorted((abs(d), s) for s, d in zip(shapes, strides, strict=True) if s != 1)
    reach = 0
    for d, s in modes:
        if d == 0:
            return False
        if d <= reach:
            return None
        reach += (s - 1) * d
    return True


def _some(items: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(items[:most])
    return shown + (f", and {len(items) - most} more" if len(items) > most else "")
