"""The inner loops of the algebra for static layouts: plain ints and lists, no objects inside.

Rule DIGITS.  A layout, its modes merged, splits an index into digits, one per mode:
``x -> (x0, x1, ..)`` with ``x_j < s_j`` except the last, which is unbounded.  A mode ``n:t`` walks
``0, t, 2t, ..``.  Where t divides s_j the walk is ``s_j/t`` steps of t in digit j, and the rest
continues in digit j+1; where all of it stays below s_j it is one mode of digit j.
Rule CARRY.  Modes that are each exact may together reach past the end of a digit and carry.  So
the reach of all modes is summed per digit; a sum below s_j proves that none does.

Callers turn what is raised here into errors that name the user's layouts.
"""

from __future__ import annotations

from typing import Any

POSITIVE, NEGATIVE = 1, 2


class Uneven(Exception):
    """Rule DIGITS fails: `rest` steps of `step` do not walk mode `mode` evenly."""

    def __init__(self, s: int, d: int, mode: int, rest: int, step: int) -> None:
        super().__init__(s, d, mode, rest, step)
        self.s, self.d, self.mode, self.rest, self.step = s, d, mode, rest, step


class Coordinates(Exception):
    """A basis stride where only ints are handled."""


def merge(shape: Any, stride: Any) -> tuple[list[int], list[Any]]:
    """Modes of the same function, beyond the domain too: size 1 dropped except at the very end,
    ``(s0,s1):(d,s0*d)`` joined."""
    sizes: list[int] = []
    strides: list[Any] = []
    if type(shape) is not tuple:
        return [shape], [stride]
    merge_into(shape, stride, sizes, strides)
    while type(shape) is tuple and shape:
        shape, stride = shape[-1], stride[-1]
    if type(shape) is int and shape == 1 and not (sizes and sizes[-1] * strides[-1] == stride):
        sizes.append(1)
        strides.append(stride)
    return sizes, strides


def merge_into(
    shape: Any, stride: Any, sizes: list[int], strides: list[Any], zeros: bool = True
) -> None:
    """Appends the leaves of two congruent tuples, merging; size 1 is dropped, and stride 0 unless
    `zeros`."""
    for s, d in zip(shape, stride):  # noqa: B905 - congruent, and this is the hottest loop
        if type(s) is tuple:
            merge_into(s, d, sizes, strides, zeros)
        elif s != 1 and (zeros or type(d) is not int or d != 0):
            if sizes and sizes[-1] * strides[-1] == d:
                sizes[-1] *= s
            else:
                sizes.append(s)
                strides.append(d)


def pack(sizes: list[int], strides: list[Any]) -> tuple[Any, Any]:
    """Shape and stride of flat modes: a scalar for one, ``1:0`` for none."""
    if len(sizes) > 1:
        return tuple(sizes), tuple(strides)
    return (sizes[0], strides[0]) if sizes else (1, 0)


def offset(index: int, shape: Any, stride: Any) -> Any:
    """The offset of an index >= 0; the last leaf is unbounded."""
    total = 0
    while type(shape) is tuple:
        if not shape:
            return total
        for s, d in zip(shape[:-1], stride):  # noqa: B905 - the last mode is left for after
            if type(s) is tuple:
                part, index = _bounded(index, s, d)
                total += part
            elif index < s:
                return total + index * d
            else:
                total += index % s * d
                index //= s
        shape, stride = shape[-1], stride[-1]
    return total + index * stride


def _bounded(index: int, shape: Any, stride: Any) -> tuple[Any, int]:
    """What a mode takes of an index, and the index that is left for the modes after it."""
    total = 0
    for s, d in zip(shape, stride):  # noqa: B905 - congruent
        if type(s) is tuple:
            part, index = _bounded(index, s, d)
            total += part
        else:
            total += index % s * d
            index //= s
    return total, index


def inner(coord: Any, shape: Any, stride: Any) -> Any:
    """The offset of a coordinate of ints >= 0 whose nesting fits the shape.

    Raises: TypeError for everything else, which the general path then names.
    """
    total = 0
    if len(coord) != len(shape):
        raise TypeError
    for c, s, d in zip(coord, shape, stride):  # noqa: B905 - congruent
        if type(c) is int:
            if type(s) is int:
                total += c * d
            elif c >= 0:
                total += offset(c, s, d)
            else:
                raise TypeError
        elif type(c) is tuple and type(s) is tuple:
            total += inner(c, s, d)
        else:
            raise TypeError
    return total


def walk(s: Any, d: Any, sizes: list[int], strides: list[Any], reach: list[int]) -> tuple[Any, Any]:
    """Shape and stride of ``A o (s:d)`` for A in merged modes; rule DIGITS.

    Adds to `reach` how far each digit is reached; its last entry collects the signs met.
    Raises: Uneven, Coordinates.
    """
    if type(s) is tuple:
        shapes, steps = [], []
        for x, y in zip(s, d):  # noqa: B905 - congruent
            one, two = walk(x, y, sizes, strides, reach)
            shapes.append(one)
            steps.append(two)
        return tuple(shapes), tuple(steps)
    if type(d) is not int:
        raise Coordinates
    if d == 0:
        return s, 0
    if s == 1:
        return 1, 0
    last = len(sizes) - 1
    if d > 0:
        reach[last] |= POSITIVE
        if last == 0:
            return s, d * strides[0]
        sign = 1
    else:
        reach[last] |= NEGATIVE
        sign = -1
    rest, step = s, sign * d
    out_s: list[int] = []
    out_d: list[Any] = []
    for j in range(last):
        extent = sizes[j]
        if step >= extent:
            if step % extent:
                raise Uneven(s, d, j, rest, step)
            step //= extent
            continue
        top = (rest - 1) * step
        if top < extent:
            reach[j] += top
            break
        fits = extent // step
        if extent % step or rest % fits:
            raise Uneven(s, d, j, rest, step)
        reach[j] += extent - step
        out_s.append(fits)
        out_d.append(sign * step * strides[j])
        rest //= fits
        step = 1
    else:
        j = last
    if not out_s:
        return rest, sign * step * strides[j]
    out_s.append(rest)
    out_d.append(sign * step * strides[j])
    return tuple(out_s), tuple(out_d)


def right_chain(sizes: list[int], strides: list[Any]) -> tuple[list[int], list[int]]:
    """Merged modes of the right inverse: from the mode of stride 1 to the one that begins where
    it ends, and so on.  Of equal strides the first counts: a later one repeats its offsets.

    Raises: Coordinates.
    """
    known: dict[int, tuple[int, int]] = {}
    prefix = 1
    for s, d in zip(sizes, strides):  # noqa: B905 - congruent
        if type(d) is not int:
            raise Coordinates
        if s != 1 and d not in known:
            known[d] = (s, prefix)
        prefix *= s
    out_s: list[int] = []
    out_d: list[int] = []
    end = 1
    while end in known:
        s, prefix = known[end]
        if out_s and out_s[-1] * out_d[-1] == prefix:
            out_s[-1] *= s
        else:
            out_s.append(s)
            out_d.append(prefix)
        end *= s
    return out_s, out_d


def left_chain(sizes: list[int], strides: list[Any]) -> tuple[list[int], list[int]] | None:
    """Merged modes of the left inverse, where each stride is a multiple of where the smaller ones
    end; None where it is not, or where a stride is negative or no int."""
    modes: list[tuple[int, int, int]] = []
    prefix = 1
    for s, d in zip(sizes, strides):  # noqa: B905 - congruent
        if type(d) is not int or d < 0:
            return None
        if d and s != 1:
            modes.append((d, s, prefix))
        prefix *= s
    modes.sort()
    out_s: list[int] = []
    out_d: list[int] = []
    before, end, place = 1, 1, 0
    for d, s, prefix in [*modes, (0, 1, 0)]:
        # The digit between two strides counts in steps of the lower one's place.
        size = d // before if d else end // before
        if d % end:
            return None
        if size != 1:
            if out_s and out_s[-1] * out_d[-1] == place:
                out_s[-1] *= size
            else:
                out_s.append(size)
                out_d.append(place)
        before, end, place = d, d * s, prefix
    return out_s, out_d


def carries(sizes: list[int], reach: list[int]) -> int:
    """The first digit in which rule CARRY is not shown to hold; -1 if it holds everywhere.

    Modes of both signs count as a carry as soon as one reaches a bounded digit."""
    mixed = reach[-1] == POSITIVE | NEGATIVE
    for j in range(len(sizes) - 1):
        if reach[j] >= sizes[j] or (mixed and reach[j]):
            return j
    return -1


def gaps(shape: Any, stride: Any) -> tuple[list[int], list[int], int, bool]:
    """Modes that fill the holes below each stride, the offset where the pattern ends, and whether
    the strides nest: each a multiple of where the one before ends.

    Raises: Uneven (with the stride, and the end before it) if a stride lies below that end;
            Coordinates.
    """
    modes: list[tuple[int, int]] = []
    if type(shape) is tuple:
        _proper_modes(shape, stride, modes)
    elif type(stride) is not int:
        raise Coordinates
    elif shape != 1 and stride != 0:
        modes.append((stride, shape))
    modes.sort()
    sizes: list[int] = []
    strides: list[int] = []
    end, nested = 1, True
    for i, (d, s) in enumerate(modes):
        if d != end:
            hole = d // end
            if hole < 1:
                raise Uneven(s, d, i, s, end)
            nested = nested and d == hole * end
            if hole > 1:
                sizes.append(hole)
                strides.append(end)
        end = s * d
    return sizes, strides, end, nested


def _proper_modes(shape: Any, stride: Any, modes: list[tuple[int, int]]) -> None:
    for s, d in zip(shape, stride):  # noqa: B905 - congruent
        if type(s) is tuple:
            _proper_modes(s, d, modes)
        elif type(d) is not int:
            raise Coordinates
        elif s != 1 and d != 0:
            modes.append((d, s))


def repeats(target: Any, end: int) -> int:
    """How often a pattern of length `end` repeats to cover the shape `target`, whose modes round
    up one by one."""
    if type(target) is int:
        return -(-target // end)
    count = 1
    for extent in target:
        if type(extent) is tuple:
            count *= repeats(extent, end)
            for x in _leaves(extent):
                end = -(-end // x)
        else:
            count *= -(-extent // end)
            end = -(-end // extent)
    return count


def _leaves(t: Any) -> list[int]:
    return [y for x in t for y in _leaves(x)] if type(t) is tuple else [t]
