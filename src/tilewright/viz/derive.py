"""Derivations: how a result of the algebra comes about, step by step.

Each step is the value of a smaller, public operation, so that a reader can check it alone; the
explorer page computes the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.compose import composition
from tilewright.layout.divide import (
    ceil_div,
    flat_divide,
    logical_divide,
    tiled_divide,
    zipped_divide,
)
from tilewright.layout.int_tuple import fmt, leaves, product
from tilewright.layout.inverse import complement, left_inverse, right_inverse
from tilewright.layout.layout import Layout, make_layout
from tilewright.layout.modes import coalesce, cosize, filter, size
from tilewright.layout.multiply import (
    blocked_product,
    flat_product,
    logical_product,
    raked_product,
    tiled_product,
    zipped_product,
)
from tilewright.layout.swizzle import AnyLayout, ComposedLayout, Swizzle

DIVIDES = {
    "logical": logical_divide,
    "zipped": zipped_divide,
    "tiled": tiled_divide,
    "flat": flat_divide,
}
PRODUCTS = {
    "logical": logical_product,
    "zipped": zipped_product,
    "tiled": tiled_product,
    "flat": flat_product,
    "blocked": blocked_product,
    "raked": raked_product,
}
INVERSES = {"right": right_inverse, "left": left_inverse}


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a derivation: what it says, and the value."""

    says: str
    value: str


@dataclass(frozen=True, slots=True)
class Derivation:
    """The steps to `result`."""

    steps: tuple[Step, ...]
    result: Any

    def __str__(self) -> str:
        width = max((len(step.says) for step in self.steps), default=0)
        return "\n".join(f"{step.says:<{width}}  {step.value}" for step in self.steps)


def tiler_text(tiler: Any) -> str:
    """A tiler as it is typed: ``<..>`` around layouts mode by mode.

    >>> tiler_text((Layout(4, 2), 8)), tiler_text((4, None)), tiler_text(Layout(4, 2))
    ('<4:2,8>', '(4,_)', '4:2')
    """
    if isinstance(tiler, tuple) and _holds_layout(tiler):
        return "<" + ",".join(tiler_text(t) for t in tiler) + ">"
    return fmt(tiler) if isinstance(tiler, tuple) or tiler is None else str(tiler)


def _holds_layout(tiler: Any) -> bool:
    if isinstance(tiler, tuple):
        return any(_holds_layout(t) for t in tiler)
    return isinstance(tiler, (Layout, ComposedLayout))


def _plain(layout: AnyLayout) -> Layout:
    while isinstance(layout, ComposedLayout):
        layout = layout.outer
    return layout


def derive_composition(a: AnyLayout, b: Any) -> Derivation:
    """``A o B``, leaf by leaf of B; a tuple of tilers mode by mode of A.

    >>> print(derive_composition(Layout((6, 2), (8, 3)), Layout((4, 3), (3, 1))))
    A                   (6,2):(8,3)
    B                   (4,3):(3,1)
    A coalesced         (6,2):(8,3)
    A o 4:3             (2,2):(24,3)
    A o 3:1             3:8
    side by side A o B  ((2,2),3):((24,3),8)
    """
    result = composition(a, b)
    steps = [Step("A", str(a)), Step("B", tiler_text(b))]
    if isinstance(b, tuple):
        pairs = zip(_plain(a), b, strict=False)
        steps += [
            Step(f"mode {i} of A o {tiler_text(t)}", str(composition(mode, t)))
            for i, (mode, t) in enumerate(pairs)
        ]
    else:
        steps.append(Step("A coalesced", str(coalesce(_plain(a)))))
        if isinstance(b, Layout) and isinstance(b.shape, tuple):
            parts = zip(leaves(b.shape), leaves(b.stride), strict=True)
            for leaf in (Layout(s, d) for s, d in parts):
                steps.append(Step(f"A o {leaf}", str(composition(_plain(a), leaf))))
    return Derivation((*steps, Step("side by side A o B", str(result))), result)


def derive_complement(a: AnyLayout, extent: Any = None) -> Derivation:
    """The complement of A in an extent: the holes below each stride, then the rest.

    >>> print(derive_complement(Layout((2, 2), (1, 6)), 24))
    A                                     (2,2):(1,6)
    sorted by stride                      (2,2):(1,6)
    mode 2:1 begins at 1 where 1 is free  hole 1
    mode 2:6 begins at 6 where 2 is free  hole 3:2
    after the last mode, 24 / 12          repeats 2:12
    complement                            (3,2):(2,12)
    """
    result = complement(a, extent)
    kept = filter(_plain(a))
    modes = sorted(
        (
            (s, d)
            for s, d in zip(leaves(kept.shape), leaves(kept.stride), strict=True)
            if s != 1 and d != 0
        ),
        key=lambda mode: mode[1],
    )
    steps = [Step("A", str(a))]
    if modes:
        order = make_layout(*(Layout(s, d) for s, d in modes))
        steps.append(Step("sorted by stride", str(order)))
    free = 1
    for s, d in modes:
        hole = d // free
        value = f"hole {hole}:{free}" if hole > 1 else "hole 1"
        steps.append(Step(f"mode {s}:{d} begins at {d} where {free} is free", value))
        free = s * d
    if extent is not None:
        count = product(ceil_div(extent, free))
        says = f"after the last mode, {size(extent)} / {free}"
        steps.append(Step(says, f"repeats {count}:{free}"))
    return Derivation((*steps, Step("complement", str(result))), result)


def derive_divide(a: Any, tiler: Any, form: str = "logical") -> Derivation:
    """A divided by a tiler: the complement of the tile, then one composition.

    Raises: LayoutError for an unknown form, and as the divides.

    >>> print(derive_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)))
    A                     (4,2,3):(2,1,8)
    tile B                4:2
    shape of A coalesced  24 in (4,2,3)
    complement B*         (2,3):(1,8)
    (B, B*)               (4,(2,3)):(2,(1,8))
    logical divide        ((2,2),(2,3)):((4,1),(2,8))
    """
    result = _named(DIVIDES, "divide", form)(a, tiler)
    steps = [Step("A", str(a))]
    if isinstance(tiler, tuple):
        steps.append(Step("tiler", tiler_text(tiler)))
        pairs = zip(_plain(a), tiler, strict=False)
        steps += [
            Step(f"mode {i} / {tiler_text(t)}", str(logical_divide(mode, t)))
            for i, (mode, t) in enumerate(pairs)
        ]
    elif tiler is not None:
        steps += _divide_steps(_plain(a), tiler)
    if form != "logical":
        steps.append(Step("logical divide", str(logical_divide(a, tiler))))
    return Derivation((*steps, Step(f"{form} divide", str(result))), result)


def _divide_steps(a: Layout, tiler: Any) -> Iterable[Step]:
    tile = tiler if isinstance(tiler, Layout) else Layout(tiler, 1)
    merged = coalesce(a)
    rest = complement(tile, merged.shape)
    yield Step("tile B", str(tile))
    yield Step("shape of A coalesced", f"{size(a)} in {fmt(merged.shape)}")
    yield Step("complement B*", str(rest))
    yield Step("(B, B*)", str(make_layout(tile, rest)))


def derive_product(a: Any, tiler: Any, form: str = "logical") -> Derivation:
    """A repeated by a tiler: the free offsets of A, then one composition.

    Raises: LayoutError for an unknown form, and as the products.

    >>> print(derive_product(Layout((2, 5), (5, 1)), Layout((3, 4)), "blocked"))
    A                                      (2,5):(5,1)
    tiler B                                (3,4):(1,3)
    free offsets of A, cosize 10 times 12  12:10
    copies A* o B                          (3,4):(10,30)
    blocked product                        ((2,3),(5,4)):((5,10),(1,30))
    """
    result = _named(PRODUCTS, "product", form)(a, tiler)
    steps = [Step("A", str(a)), Step("tiler B", tiler_text(tiler))]
    if isinstance(tiler, (Layout, int)):
        pattern = tiler if isinstance(tiler, Layout) else Layout(tiler, 1)
        plain = _plain(a)
        reach = int(size(plain)) * int(cosize(pattern))
        free = complement(plain, reach)
        says = f"free offsets of A, cosize {cosize(plain)} times {cosize(pattern)}"
        steps.append(Step(says, str(free)))
        copies = logical_product(plain, pattern)[1]
        steps.append(Step("copies A* o B", str(copies)))
    elif isinstance(tiler, tuple):
        pairs = zip(_plain(a), tiler, strict=False)
        steps += [
            Step(f"mode {i} * {tiler_text(t)}", str(logical_product(mode, t)))
            for i, (mode, t) in enumerate(pairs)
        ]
    return Derivation((*steps, Step(f"{form} product", str(result))), result)


def derive_inverse(a: AnyLayout, form: str = "right") -> Derivation:
    """The right or left inverse of A.

    >>> print(derive_inverse(Layout((2, 4, 6), (4, 1, 8))))
    A              (2,4,6):(4,1,8)
    A coalesced    (2,4,6):(4,1,8)
    right inverse  (4,2,6):(2,1,8)
    """
    result = _named(INVERSES, "inverse", form)(a)
    steps = (
        Step("A", str(a)),
        Step("A coalesced", str(coalesce(_plain(a)))),
        Step(f"{form} inverse", str(result)),
    )
    return Derivation(steps, result)


def derive_swizzle(swizzle: Swizzle, a: AnyLayout) -> Derivation:
    """``Sw o A``: which bits are XORed into which.

    >>> print(derive_swizzle(Swizzle(2, 1, 3), Layout((8, 8), (8, 1))))
    A              (8,8):(8,1)
    swizzle        Sw<2,1,3>
    source bits    4 to 5, mask 0b110000
    target bits    1 to 2, mask 0b110
    kept together  blocks of 2 elements
    Sw o A         Sw<2,1,3> o 0 o (8,8):(8,1)
    """
    result = composition(swizzle, a)
    steps = [Step("A", str(a)), Step("swizzle", str(swizzle))]
    if swizzle.bits:
        for name, mask in (("source", swizzle.source_mask), ("target", swizzle.target_mask)):
            low = (mask & -mask).bit_length() - 1
            steps.append(Step(f"{name} bits", f"{low} to {low + swizzle.bits - 1}, mask {mask:#b}"))
    steps.append(Step("kept together", f"blocks of {1 << swizzle.base} elements"))
    return Derivation((*steps, Step("Sw o A", str(result))), result)


def _named(table: Any, what: str, form: str) -> Any:
    if form not in table:
        raise LayoutError(f"{what}: no form {form!r}, expected one of {', '.join(table)}")
    return table[form]
