"""Sizes that are not known yet, with facts about them: ``N = sym("N", divby=8)``.

They stand wherever an int may stand in shapes, strides, tiles and coordinates.  What the facts show
(that one size divides another, that an index stays below an extent) the algebra uses; what they do
not show it leaves alone, or refuses.  `specialise` puts numbers in.
"""

from __future__ import annotations

from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.expression import Size, Sym
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import ComposedLayout


def sym(name: str, divby: int = 1, least: int = 1, most: int | None = None) -> Sym:
    """A size called `name`: a multiple of `divby`, from `least` to `most` (None: no limit).

    One name stands for one size: give it the same facts wherever it occurs.

    Raises: LayoutError for a name that is no identifier, or facts that no number keeps.

    >>> from tilewright.layout.modes import coalesce
    >>> print(coalesce(Layout((192, sym("N")), (1, 192))))
    192*N:1
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise LayoutError(f"sym: expected a name like 'N', got {name!r}")
    if type(divby) is not int or divby < 1:
        raise LayoutError(f"sym: {name} has divby={divby!r}, expected an int >= 1")
    unit = Size(name, divby, least, most)
    if least < 0 or (unit.high is not None and unit.high < unit.low):
        raise LayoutError(
            f"sym: no size {name} >= 0 is a multiple of {divby} from {least} to {most}"
        )
    return Sym({(unit,): divby})


def specialise(t: Any, /, **sizes: int) -> Any:
    """`t` (a value, a tuple, a layout) with these sizes put in.

    Law:    whatever the algebra answers for symbols is, specialised, what it answers for numbers
            (as a function; the split of a mode may differ).
    Raises: LayoutError if a number breaks a fact.

    >>> N = sym("N", divby=8)
    >>> print(specialise(Layout((N // 8, 8), (8, 1)), N=64))
    (8,8):(8,1)
    """
    if isinstance(t, tuple):
        return tuple(specialise(x, **sizes) for x in t)
    if isinstance(t, Sym):
        return t.at(**sizes)
    if isinstance(t, ScaledBasis):
        return t.scaled(specialise(t.basis_value, **sizes))
    if isinstance(t, Layout):
        return Layout(specialise(t.shape, **sizes), specialise(t.stride, **sizes))
    if isinstance(t, ComposedLayout):
        inner, offset = specialise(t.inner, **sizes), specialise(t.offset, **sizes)
        return ComposedLayout(inner, offset, specialise(t.outer, **sizes))
    return t
