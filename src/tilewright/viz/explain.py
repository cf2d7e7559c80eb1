"""What there is to say about a layout, as values and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.coverage import is_injective
from tilewright.layout.int_tuple import flatten_tuple, fmt
from tilewright.layout.inverse import max_alignment, right_inverse
from tilewright.layout.layout import Layout
from tilewright.layout.modes import coalesce, cosize, depth, rank, size
from tilewright.layout.swizzle import AnyLayout, ComposedLayout


@dataclass(frozen=True, slots=True)
class Facts:
    """The answers about one layout; `is_injective` is None where it was too large to decide.

    `is_contiguous`: the offsets are ``[0, size)``, each once.  `run`: aligned runs of so many
    consecutive offsets make up the image.
    """

    layout: str
    shape: str
    stride: str
    size: int
    cosize: str
    rank: int
    depth: int
    coalesced: str
    is_injective: bool | None
    is_contiguous: bool | None
    run: int
    modes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def layout_facts(layout: AnyLayout) -> Facts:
    """All `Facts` of a static layout.

    Raises: LayoutError for run-time sizes.

    >>> facts = layout_facts(Layout(((2, 2), 2), ((1, 4), 2)))
    >>> facts.size, facts.cosize, facts.coalesced, facts.is_contiguous
    (8, '8', '(2,2,2):(1,4,2)', True)
    """
    if not layout.is_static:
        raise LayoutError(f"cannot explain {layout}: it has sizes that are only known at run time")
    injective = is_injective(layout)
    plain = outermost(layout)
    seen: Any = layout
    merged = coalesce(seen)
    return Facts(
        layout=str(layout),
        shape=fmt(layout.shape),
        stride=fmt(plain.stride),
        size=size(layout),
        cosize=fmt(_cosize(layout)),
        rank=rank(layout),
        depth=depth(layout),
        coalesced=str(merged),
        is_injective=injective,
        is_contiguous=_is_contiguous(layout, injective),
        run=max_alignment(layout) if _plain_offsets(plain) else 1,
        modes=tuple(_mode_words(i, mode) for i, mode in enumerate(plain)),
    )


def outermost(layout: AnyLayout) -> Layout:
    """The plain layout under the swizzles: the one that reads coordinates."""
    while isinstance(layout, ComposedLayout):
        layout = layout.outer
    return layout


def _plain_offsets(layout: Layout) -> bool:
    return all(type(d) is int for d in flatten_tuple(layout.stride))


def _cosize(layout: AnyLayout) -> Any:
    if isinstance(layout, ComposedLayout) and size(layout) <= 1 << 16:
        offsets = [layout(i) for i in range(size(layout))]
        if all(type(o) is int for o in offsets):
            return 1 + max(offsets, default=-1)
    return cosize(layout)


def _is_contiguous(layout: AnyLayout, injective: bool | None) -> bool | None:
    if injective is not True:
        return injective
    if not _plain_offsets(outermost(layout)):
        return False
    if isinstance(layout, Layout):
        return bool(size(right_inverse(layout)) == size(layout))
    if size(layout) > 1 << 16:
        return None
    offsets = {layout(i) for i in range(size(layout))}
    return offsets == set(range(int(size(layout))))


def _mode_words(index: int, mode: Layout) -> str:
    """One mode in words: each step and how often."""
    parts = [
        f"{s} steps of {d}" if s != 1 else "1 step"
        for s, d in zip(flatten_tuple(mode.shape), flatten_tuple(mode.stride), strict=True)
    ]
    return f"mode {index} ({mode}): size {size(mode)}; " + ", then ".join(parts)


def explain(layout: AnyLayout) -> str:
    """The facts, a line each, in words.

    >>> print(explain(Layout((4, 2), (2, 1))))
    layout      (4,2):(2,1)
    shape       (4,2)     stride (2,1)
    size        8 coordinates, rank 2, depth 1
    cosize      8: the smallest buffer that holds every offset
    coalesced   (4,2):(2,1)
    injective   yes: no offset is used twice
    contiguous  yes: the offsets are 0 to 7, each once
    run         8: vectors of up to 8 elements are legal
    mode 0 (4:2): size 4; 4 steps of 2
    mode 1 (2:1): size 2; 2 steps of 1
    """
    f = layout_facts(layout)
    lines = [
        f"layout      {f.layout}",
        f"shape       {f.shape}     stride {f.stride}",
        f"size        {f.size} coordinates, rank {f.rank}, depth {f.depth}",
        f"cosize      {f.cosize}: the smallest buffer that holds every offset",
        f"coalesced   {f.coalesced}",
        f"injective   {_INJECTIVE[f.is_injective]}",
        f"contiguous  {_contiguous_words(f)}",
        f"run         {f.run}: {_run_words(f.run)}",
        *f.modes,
    ]
    return "\n".join(lines)


_INJECTIVE = {
    True: "yes: no offset is used twice",
    False: "no: several coordinates share an offset",
    None: "not decided: too large to try",
}


def _contiguous_words(facts: Facts) -> str:
    if facts.is_contiguous:
        return f"yes: the offsets are 0 to {facts.size - 1}, each once"
    return "not decided: too large to try" if facts.is_contiguous is None else "no"


def _run_words(run: int) -> str:
    widest = run & -run
    return (
        f"vectors of up to {widest} elements are legal"
        if widest > 1
        else "only single elements can be moved"
    )
