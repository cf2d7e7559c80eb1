"""Reading what a person types: layouts, tilers and swizzles, in the notation that they print in."""

from __future__ import annotations

import re
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import ComposedLayout, Swizzle, parse_layout

_SWIZZLE = re.compile(r"\s*(?:Sw<)?\s*(\d+)\s*,\s*(\d+)\s*,\s*(-?\d+)\s*>?\s*\Z")


def read_layout(text: str, what: str = "layout") -> Layout | ComposedLayout:
    """The layout of a text; a bare shape is compact column-major, as in `make_layout`.

    Raises: LayoutError where the text is neither; `what` names its place.

    >>> print(read_layout("(4,8)"), read_layout("Sw<2,0,3> o (8,4):(4,1)"))
    (4,8):(1,4) Sw<2,0,3> o 0 o (8,4):(4,1)
    """
    value = parse_layout(_completed(text))
    if isinstance(value, (Layout, ComposedLayout)):
        return value
    if isinstance(value, Swizzle) or value is None or _has_wildcard(value):
        raise LayoutError(
            f"{what}: expected a layout like (4,8):(8,1), got {text!r}",
        )
    return Layout(value)


def _completed(text: str) -> str:
    """``Sw<..> o L`` is short for ``Sw<..> o 0 o L``; L may be a bare shape there too."""
    parts = re.split(r"\s+o\s+", text)
    if len(parts) > 1 and ":" not in parts[-1]:
        parts[-1] = str(read_layout(parts[-1]))
    return " o ".join([parts[0], "0", parts[1]]) if len(parts) == 2 else " o ".join(parts)


def _has_wildcard(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_has_wildcard(x) for x in value)
    return value is None


def read_swizzle(text: str) -> Swizzle:
    """``Sw<3,4,3>`` or ``3,4,3``.

    Raises: LayoutError for anything else.

    >>> read_swizzle("3,4,3")
    Swizzle(3, 4, 3)
    """
    match = _SWIZZLE.match(text)
    if match is None:
        raise LayoutError(
            f"swizzle: expected three numbers B,M,S as in Sw<3,4,3> or 3,4,3; got {text!r}"
        )
    bits, base, shift = (int(x) for x in match.groups())
    return Swizzle(bits, base, shift)


def read_tiler(text: str) -> Any:
    """A tiler: a layout, an int, a tuple of ints and ``_``, or ``<a, b, ..>`` mode by mode.

    A text with ``:`` is one layout over the linear index; in angle brackets each mode has its own
    tiler.  Raises: LayoutError for anything else.

    >>> read_tiler("(4,8):(1,4)"), read_tiler("(4,_)"), read_tiler("<4:2, 8:1>")
    (Layout((4, 8), (1, 4)), (4, None), (Layout(4, 2), Layout(8, 1)))
    """
    bare = text.strip()
    if bare.startswith("<"):
        if not bare.endswith(">"):
            raise LayoutError(f"tiler: expected '>' at the end of {text!r}")
        return tuple(read_tiler(part) for part in _split(bare[1:-1]))
    value = parse_layout(_completed(bare))
    if isinstance(value, (Swizzle, ComposedLayout)):
        raise LayoutError(f"tiler: expected a layout, an int or a tuple; got {text!r}")
    return value


def _split(text: str) -> list[str]:
    """The parts between the commas that are in no bracket."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "(<") - (c in ")>")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]
