"""Is ``A o B`` a layout of B's profile, and which?  Asked where the fast path finds no answer.

Two procedures, on a static A in merged modes:

Rule STEPS.  A mode ``n:t`` of B adds the digits of t at every step.  Up to the first step q at
which some digit overflows, the values are equally spaced; so its first mode is q long, and the rest
walks on in steps of ``q*t``.  If then no digit can overflow in the sum of all modes, the result is
exact, however the sizes divide: ``(2,8,6):(1,12,2) o 6:3`` steps through two digits at once.
Rule VALUES.  The longest equally spaced beginning of a list of offsets is the first mode of the
only merged layout that it can be.  So a list of values decides, for small sizes, what rule STEPS
leaves open: overflows that cancel, and modes that walk in opposite directions.
"""

from __future__ import annotations

from typing import Any

from tilewright.layout.static import offset, pack

EXHAUSTIVE = 4096
"""Up to this many coordinates a composition is decided by its values."""

Modes = tuple[Any, Any]
"""Shape and stride, congruent."""


class Carry(Exception):
    """The modes of B do not add up: at `index` A(B) is `value`, their sum `by_modes`."""

    def __init__(self, index: int, value: Any, by_modes: Any) -> None:
        super().__init__(index, value, by_modes)
        self.index, self.value, self.by_modes = index, value, by_modes


def decide(sizes: list[int], strides: list[Any], shape: Any, stride: Any) -> Modes | None:
    """The layout ``A o (shape:stride)``; None where it is none, or where nothing is proven.

    Raises: Carry with a witness, if every mode of B is exact and their sum is not.
    """
    return _by_steps(sizes, strides, shape, stride) or _by_values(sizes, strides, shape, stride)


def _by_steps(sizes: list[int], strides: list[Any], shape: Any, stride: Any) -> Modes | None:
    """Rule STEPS."""
    last = len(sizes) - 1
    up, down = [0] * len(sizes), [0] * len(sizes)
    # Steps along two axes at once are no basis stride.
    plain = all(type(d) is int for d in strides)

    def build(s: Any, d: Any) -> Modes | None:
        if type(s) is tuple:
            parts = [build(x, y) for x, y in zip(s, d, strict=True)]
            if None in parts:
                return None
            return tuple(p[0] for p in parts if p), tuple(p[1] for p in parts if p)
        if d == 0 or s == 1:
            return s, 0
        sign, step, rest = (1, d, s) if d > 0 else (-1, -d, s)
        reach = up if d > 0 else down
        out_s: list[int] = []
        out_d: list[Any] = []
        while rest > 1:
            steps = _digits(step, sizes)
            if not (plain or len([n for n in steps if n]) == 1):
                return None
            free = min((-(-sizes[j] // steps[j]) for j in range(last) if steps[j]), default=rest)
            here = min(free, rest)
            if rest % here:
                return None
            for j, digit in enumerate(steps):
                reach[j] += (here - 1) * digit
            out_s.append(here)
            out_d.append(sign * _dot(steps, strides))
            rest //= here
            step *= here
        return pack(out_s, out_d)

    built = build(shape, stride)
    touched = [j for j in range(last + 1) if up[j] or down[j]]
    if any(up) and any(down) and len(touched) > 1:
        return None
    return built if all(max(up[j], down[j]) < sizes[j] for j in range(last)) else None


def _digits(index: int, sizes: list[int]) -> list[int]:
    found = []
    for extent in sizes[:-1]:
        found.append(index % extent)
        index //= extent
    return [*found, index]


def _dot(steps: list[int], strides: list[Any]) -> Any:
    moved = [n * d for n, d in zip(steps, strides, strict=True) if n]
    total = moved[0]
    for other in moved[1:]:
        total = total + other
    return total


def _by_values(sizes: list[int], strides: list[Any], shape: Any, stride: Any) -> Modes | None:
    """Rule VALUES."""
    flat = list(_flat(shape, stride))
    total = 1
    for s, _ in flat:
        total *= s
    if total > EXHAUSTIVE or not all(type(d) is int for d in strides):
        return None
    shape_a, stride_a = tuple(sizes), tuple(strides)

    def value(x: int) -> int:
        return int(offset(x, shape_a, stride_a) if x >= 0 else -offset(-x, shape_a, stride_a))

    walks = [[value(i * d) for i in range(s)] for s, d in flat]
    found = {}
    for (s, d), offsets in zip(flat, walks, strict=True):
        modes = layout_of(offsets)
        if modes is None:
            return None
        found[s, d] = modes
    points, sums = [0], [0]
    for (s, d), offsets in zip(flat, walks, strict=True):
        points = [x + i * d for i in range(s) for x in points]
        sums = [y + offsets[i] for i in range(s) for y in sums]
    for index, (x, by_modes) in enumerate(zip(points, sums, strict=True)):
        if value(x) != by_modes:
            raise Carry(index, value(x), by_modes)

    def build(s: Any, d: Any) -> Modes:
        if type(s) is tuple:
            parts = [build(x, y) for x, y in zip(s, d, strict=True)]
            return tuple(p[0] for p in parts), tuple(p[1] for p in parts)
        return found[s, d]

    return build(shape, stride)


def _flat(shape: Any, stride: Any) -> Any:
    if type(shape) is tuple:
        for s, d in zip(shape, stride, strict=True):
            yield from _flat(s, d)
    else:
        yield shape, stride


def layout_of(offsets: list[int]) -> Modes | None:
    """Shape and stride of the merged layout that has these values, or None: rule VALUES.

    >>> layout_of([0, 13, 36, 49, 72, 85]), layout_of([0, 6, 7, 8])
    (((2, 3), (13, 36)), None)
    """
    if offsets and offsets[0] != 0:
        return None
    sizes: list[int] = []
    strides: list[int] = []
    while len(offsets) > 1:
        step = offsets[1]
        run = next((i for i, x in enumerate(offsets) if x != i * step), len(offsets))
        starts = offsets[::run]
        if len(offsets) % run:
            return None
        if any(x != starts[i // run] + i % run * step for i, x in enumerate(offsets)):
            return None
        sizes.append(run)
        strides.append(step)
        offsets = starts
    return pack(sizes, strides)
