"""Constant index lists as arithmetic: what lets one loop read or write scattered elements."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.cuda.expr import Expr, binary, number
from tilewright.codegen.cuda.operands import plus, times


class IndexFormula:
    """`indices[i]` as arithmetic on `i`: digits of a mixed radix, each with a stride.

    >>> IndexFormula.of((4, 5, 6, 7))(Expr("i")).text
    'i + 4'
    >>> IndexFormula.of((0, 1, 8, 9))(Expr("i")).text
    'i % 2 + i / 2 * 8'
    >>> IndexFormula.of((0, 1, 3)) is None
    True
    """

    def __init__(self, start: int, digits: Sequence[tuple[int, int]]) -> None:
        self.start = start
        self.digits = digits

    @staticmethod
    def of(indices: Sequence[int]) -> IndexFormula | None:
        digits: list[tuple[int, int]] = []
        level = list(indices)
        while len(level) > 1:
            step = level[1] - level[0]
            run = 1
            while run < len(level) and level[run] == level[0] + step * run:
                run += 1
            blocks, rest = divmod(len(level), run)
            if rest or any(
                level[b * run + r] != level[b * run] + step * r
                for b in range(blocks)
                for r in range(run)
            ):
                return None
            digits.append((run, step))
            level = level[::run]
        return IndexFormula(indices[0], digits)

    def __call__(self, i: Expr) -> Expr:
        total = number(self.start)
        weight = 1
        for n, (size, step) in enumerate(self.digits):
            digit = i if weight == 1 else binary("/", i, number(weight))
            if n + 1 < len(self.digits):
                digit = binary("%", digit, number(size))
            weight *= size
            if step:
                total = plus(total, times(digit, step))
        return total


class Picked:
    """Elements of an array in some order: all of them from the first on if `indices` is None."""

    def __init__(self, indices: Sequence[int] | None = None) -> None:
        self.indices = indices
        self.formula = None if indices is None else IndexFormula.of(indices)

    @property
    def symbolic(self) -> bool:
        """Whether a loop variable may stand for the position."""
        return self.indices is None or self.formula is not None

    @property
    def pairs(self) -> bool:
        """Whether positions 2i and 2i+1 are side by side in the array, the first one even."""
        if self.indices is None:
            return True
        evens, odds = self.indices[::2], self.indices[1::2]
        return len(evens) == len(odds) and all(
            a % 2 == 0 and b == a + 1 for a, b in zip(evens, odds, strict=True)
        )

    def __call__(self, position: Expr) -> Expr:
        """The index of the element at a position."""
        if self.indices is None:
            return position
        if position.literal:
            return number(self.indices[int(position.text)])
        assert self.formula is not None, "only asked for symbolic positions if there is a formula"
        return self.formula(position)
