"""Division by a number that is chosen once and used often."""

from __future__ import annotations

from typing import Any

from tilewright.lang.cute.tensor import plain


class FastDivmodDivisor:
    """A divisor: ``divmod(x, d)`` and ``x // d``, ``x % d`` with it.

    The quotients are those of integer division; the name is CuTe's.
    """

    __slots__ = ("divisor",)
    __tw_immutable__ = True

    def __init__(self, divisor: Any) -> None:
        self.divisor = plain(divisor)

    def __rdivmod__(self, dividend: Any) -> tuple[Any, Any]:
        return self.divmod(dividend)

    def __rfloordiv__(self, dividend: Any) -> Any:
        return dividend // self.divisor

    def __rmod__(self, dividend: Any) -> Any:
        return dividend % self.divisor

    def divmod(self, dividend: Any) -> tuple[Any, Any]:
        """Quotient and remainder."""
        quotient = dividend // self.divisor
        return quotient, dividend - quotient * self.divisor
