"""Composition where sizes or strides are run-time values: rules DIGITS and CARRY of `static`, with
every question answered by proof (`exact_div`, `provably_below`) instead of by a number."""

from __future__ import annotations

from tilewright.errors import LayoutError
from tilewright.layout.int_tuple import IntTuple, flatten_tuple, fmt
from tilewright.layout.layout import Layout
from tilewright.layout.leaf import Leaf, add, exact_div, mul, provably_below, sub
from tilewright.layout.modes import coalesce_flat


class Walk:
    """The walk of B's modes over the merged modes of A, and how far each digit is reached."""

    __slots__ = ("a", "b", "reach", "shapes", "sign", "strides")

    def __init__(self, a: Layout, b: Layout) -> None:
        self.a, self.b = a, b
        self.shapes, self.strides = coalesce_flat(
            flatten_tuple(a.shape), flatten_tuple(a.stride), keep_tail=True
        )
        self.reach: list[list[Leaf]] = [[] for _ in self.shapes]
        self.sign = 0

    def modes(self, s: IntTuple, d: IntTuple) -> tuple[IntTuple, IntTuple]:
        """Shape and stride of ``A o (s:d)``, leaf by leaf."""
        if type(s) is not tuple:
            return self.leaf(s, d)
        parts = [self.modes(x, y) for x, y in zip(s, d, strict=True)]
        return tuple(p[0] for p in parts), tuple(p[1] for p in parts)

    def leaf(self, s: Leaf, d: Leaf) -> tuple[IntTuple, IntTuple]:
        """``A o (s:d)`` for one leaf; rule DIGITS."""
        last = len(self.shapes) - 1
        if last < 0 or (type(d) is int and d == 0):
            return s, 0
        if type(s) is int and s == 1:
            return 1, 0
        if last == 0:
            return s, mul(d, self.strides[0])
        sign = -1 if type(d) is int and d < 0 else 1
        if self.sign == -sign:
            raise self.unproven(s, d, 0)
        self.sign = sign
        rest, step = s, mul(sign, d)
        out_s: list[Leaf] = []
        out_d: list[Leaf] = []
        j = 0
        while j < last:
            extent = self.shapes[j]
            over = exact_div(step, extent)
            if over is not None:
                step, j = over, j + 1
                continue
            if provably_below(mul(sub(rest, 1), step), extent):
                self.reach[j].append(mul(sub(rest, 1), step))
                break
            fits = exact_div(extent, step)
            beyond = None if fits is None else exact_div(rest, fits)
            if beyond is None:
                raise self.unproven(s, d, j)
            self.reach[j].append(sub(extent, step))
            out_s.append(fits)
            out_d.append(mul(sign, mul(step, self.strides[j])))
            rest, step, j = beyond, 1, j + 1
        out_s.append(rest)
        out_d.append(mul(sign, mul(step, self.strides[j])))
        return (out_s[0], out_d[0]) if len(out_s) == 1 else (tuple(out_s), tuple(out_d))

    def check_carry(self) -> None:
        """Rule CARRY; a digit that one mode alone reaches holds by rule DIGITS."""
        for j, reached in enumerate(self.reach[:-1]):
            total: Leaf = 0
            for reach in reached:
                total = add(total, reach)
            if len(reached) > 1 and not provably_below(total, self.shapes[j]):
                raise LayoutError(
                    f"composition: modes of B carry across mode {j} of A (size {self.shapes[j]}): "
                    "no carry between the modes can be excluded",
                    details=self.operands(),
                )

    def unproven(self, s: Leaf, d: Leaf, j: int) -> LayoutError:
        return LayoutError(
            f"composition: cannot prove that {s}:{d} of B walks mode {j} of A evenly: "
            f"extent {self.shapes[j]}, stride {d} and count {s} must be static here, or carry "
            "facts that show it",
            details=self.operands(),
            hint="compose by mode, with a tuple of tilers; or give sizes facts: sym('N', divby=8)",
        )

    def operands(self) -> dict[str, object]:
        operands: dict[str, object] = {"A": self.a, "B": self.b}
        merged = f"{fmt(tuple(self.shapes))}:{fmt(tuple(self.strides))}"
        if merged != str(self.a):
            operands["A coalesced"] = merged
        return operands
