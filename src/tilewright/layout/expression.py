"""Integer expressions of sizes that are not known yet; `symbolic.sym` makes them.

A `Sym` is an integer expression in canonical form: a polynomial with integer coefficients over
*atoms*, which are named sizes and rounded-down quotients.  Equal expressions are equal objects.

Rule UNITS.  A size with the fact ``divby=8`` is held as ``8*u``, u a whole number.  So ``N // 8``
is exact, ``N % 8`` is 0, and what divides what is read off the coefficients.
Rule SHOWN.  A comparison is answered only where it holds, or fails, for every size that keeps the
facts; otherwise it is refused.  The algebra asks through `exact_div` and `provably_below`, and
leaves alone, or refuses, what is not shown.

Values are numbers >= 0 (sizes, strides, coordinates); quotients round down.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any, TypeAlias

from tilewright.errors import LayoutError

Monomial: TypeAlias = "tuple[Atom, ...]"
"""Its factors in order of their names, a power as a repetition; () is the number 1."""
Poly: TypeAlias = dict[Any, int]
"""Coefficient of each monomial; none is 0."""


@dataclass(frozen=True)
class Size:
    """The unit u of a named size ``name = divby * u``, with ``least <= name <= most``."""

    name: str
    divby: int
    least: int
    most: int | None

    @cached_property
    def low(self) -> int:
        """The least unit."""
        return -(-self.least // self.divby)

    @cached_property
    def high(self) -> int | None:
        """The greatest unit, if there is one."""
        return None if self.most is None else self.most // self.divby

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    """``top // bottom``, where that is no polynomial."""

    top: Sym
    bottom: Sym

    @cached_property
    def low(self) -> int | None:
        """A bound from below."""
        low, most = _low(self.top.poly), _high(self.bottom.poly)
        if low is None or low < 0:
            return None
        return 0 if most is None else low // most

    @cached_property
    def high(self) -> int | None:
        """A bound from above."""
        most, low = _high(self.top.poly), _low(self.bottom.poly)
        return None if most is None or low is None or most < 0 else most // max(low, 1)

    def __str__(self) -> str:
        return f"({_grouped(self.top)}//{_grouped(self.bottom)})"


@dataclass(frozen=True)
class Remainder:
    """``top % bottom``; only while bounds are computed, see `_low`."""

    top: Sym
    bottom: Sym
    low: int
    high: int | None

    def __str__(self) -> str:
        return f"({self.top}%{self.bottom})"


Atom: TypeAlias = Size | Quotient | Remainder


class Sym:
    """An integer expression of sizes; made by `symbolic.sym`, and by ``+ - * // %``.

    Laws:   1 equal expressions compare equal and hash alike   2 ``x.at(**numbers)`` is the number
            that the same arithmetic gives on ints, where divisors are positive
    Raises: LayoutError where Python asks for a truth that is not shown: ``<``, ``bool``, ``int``.

    >>> from tilewright.layout.symbolic import sym
    >>> N, M = sym("N", divby=8), sym("M")
    >>> print(24 * N // 16, N % 8, (N + 7) // 8, (M + 3) // 7, N // 8 * 8 == N, M % 4 < 4)
    3*N/2 0 N/8 ((M+3)//7) True True
    """

    __slots__ = ("poly",)

    poly: Poly

    def __init__(self, poly: Poly) -> None:
        self.poly = poly

    def at(self, /, **sizes: int) -> Any:
        """The value at these sizes: an int if all are given, else a simpler expression.

        Raises: LayoutError if a number breaks a fact.

        >>> from tilewright.layout.symbolic import sym
        >>> N, M = sym("N", divby=8), sym("M")
        >>> (N // 8 * M).at(N=64), str((N // 8 * M).at(M=5))
        (Sym(8*M), '5*N/8')
        """
        total: Any = 0
        for monomial, coefficient in self.poly.items():
            value: Any = coefficient
            for atom in monomial:
                value = value * _atom_at(atom, sizes)
            total = total + value
        return total

    def exact_div(self, divisor: Any) -> Any:
        """``self / divisor`` if the facts show that it is whole, else None.

        >>> from tilewright.layout.symbolic import sym
        >>> N = sym("N", divby=8)
        >>> (16 * N).exact_div(N), N.exact_div(4), N.exact_div(3)
        (16, Sym(N/4), None)
        """
        bottom = _poly(divisor)
        return None if bottom is None else _divided(self.poly, bottom)

    def provably_equal(self, other: object) -> bool:
        """The same number at every size."""
        poly = _poly(other)
        return poly is not None and poly == self.poly

    def provably_below(self, other: object) -> bool:
        """``self < other`` at every size that keeps the facts."""
        return _is_below(self.poly, _poly(other))

    def provably_above(self, other: object) -> bool:
        """``self > other`` at every size that keeps the facts."""
        return _is_below(_poly(other), self.poly)

    def names(self) -> set[str]:
        """The sizes that occur."""
        found: set[str] = set()
        for atom in self.atoms():
            found |= {atom.name} if isinstance(atom, Size) else atom.top.names()
            found |= set() if isinstance(atom, Size) else atom.bottom.names()
        return found

    def atoms(self) -> set[Atom]:
        """The atoms that occur, those inside quotients left out."""
        return {atom for monomial in self.poly for atom in monomial}

    def __add__(self, other: Any) -> Any:
        return _binary(self, other, _plus)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return _made(_scaled(self.poly, -1))

    def __sub__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: _plus(a, _scaled(b, -1)))

    def __rsub__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: _plus(b, _scaled(a, -1)))

    def __mul__(self, other: Any) -> Any:
        return _binary(self, other, _times)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return _binary(self, other, _quotient)

    def __rfloordiv__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: _quotient(b, a))

    def __mod__(self, other: Any) -> Any:
        return _binary(self, other, _remainder)

    def __rmod__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: _remainder(b, a))

    def __lshift__(self, bits: int) -> Any:
        return self * (1 << bits)

    def __rshift__(self, bits: int) -> Any:
        return self // (1 << bits)

    def __and__(self, mask: int) -> Any:
        if self.exact_div(1 << mask.bit_length()) is not None:
            return 0
        raise LayoutError(
            f"cannot show which of the bits {mask:#b} of {self} are set",
            hint=f"they are known where it is a multiple of {1 << mask.bit_length()}",
        )

    def __xor__(self, bits: Any) -> Any:
        if type(bits) is int and bits == 0:
            return self
        raise LayoutError(f"cannot exclusive-or the symbolic value {self} with {bits}")

    def __lt__(self, other: Any) -> bool:
        return _shown(self, "<", other, self.poly, _poly(other))

    def __gt__(self, other: Any) -> bool:
        return _shown(self, ">", other, _poly(other), self.poly)

    def __le__(self, other: Any) -> bool:
        return not _shown(self, "<=", other, _poly(other), self.poly)

    def __ge__(self, other: Any) -> bool:
        return not _shown(self, ">=", other, self.poly, _poly(other))

    def __eq__(self, other: object) -> bool:
        return self.provably_equal(other)

    def __hash__(self) -> int:
        return hash(frozenset(self.poly.items()))

    def __bool__(self) -> bool:
        return _shown(self, "!=", 0, {}, self.poly)

    def __index__(self) -> int:
        raise LayoutError(
            f"{self} is no number yet: it depends on {', '.join(sorted(self.names()))}",
            hint="x.at(N=..), or specialise(layout, N=..)",
        )

    def __repr__(self) -> str:
        return f"Sym({self})"

    def __str__(self) -> str:
        parts = [_term(m, c) for m, c in sorted(self.poly.items(), key=_reading_order)]
        return "+".join(parts).replace("+-", "-")


# ---------------------------------------------------------------- polynomials


def _poly(x: object) -> Poly | None:
    if isinstance(x, Sym):
        return x.poly
    if type(x) is int:
        return {(): x} if x else {}
    return None


def _made(poly: Poly) -> Any:
    """An int where no size is left."""
    if not poly:
        return 0
    return poly[()] if len(poly) == 1 and () in poly else Sym(poly)


def _binary(x: Sym, other: Any, fn: Any) -> Any:
    poly = _poly(other)
    return NotImplemented if poly is None else _made(fn(x.poly, poly))


def _plus(a: Poly, b: Poly) -> Poly:
    total = dict(a)
    for monomial, coefficient in b.items():
        value = total.get(monomial, 0) + coefficient
        if value:
            total[monomial] = value
        else:
            del total[monomial]
    return total


def _scaled(a: Poly, factor: int) -> Poly:
    return {m: c * factor for m, c in a.items()}


def _times(a: Poly, b: Poly) -> Poly:
    total: Poly = {}
    for m, c in a.items():
        for n, d in b.items():
            total = _plus(total, {tuple(sorted(m + n, key=str)): c * d})
    return total


def _divided(a: Poly, b: Poly) -> Any:
    """The exact quotient, by long division in a fixed order of monomials; None with a rest."""
    if not b:
        return None
    lead = max(b, key=_order)
    quotient: Poly = {}
    rest = a
    while rest:
        top = max(rest, key=_order)
        left = _without(top, lead)
        if left is None or rest[top] % b[lead]:
            return None
        term = {left: rest[top] // b[lead]}
        quotient = _plus(quotient, term)
        rest = _plus(rest, _scaled(_times(term, b), -1))
    return _made(quotient)


def _order(monomial: Monomial) -> tuple[int, tuple[str, ...]]:
    return len(monomial), tuple(str(atom) for atom in monomial)


def _reading_order(term: tuple[Monomial, int]) -> tuple[int, tuple[str, ...]]:
    degree, names = _order(term[0])
    return -degree, names


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _quotient(a: Poly, b: Poly) -> Poly:
    exact = _divided(a, b)
    if exact is not None:
        return _poly(exact) or {}
    low = _low(b)
    if low is None or low < 1:
        raise LayoutError(f"cannot show that the divisor {_made(b)} is positive")
    # Terms that b divides come out whole; the rest is below b, or stays a quotient.
    whole: Poly = {}
    rest: Poly = {}
    for m, c in a.items():
        part = _divided({m: c}, b)
        if part is not None:
            whole = _plus(whole, _poly(part) or {})
        elif len(b) == 1 and () in b:
            whole = _plus(whole, {m: c // b[()]} if c // b[()] else {})
            rest = _plus(rest, {m: c % b[()]} if c % b[()] else {})
        else:
            rest = _plus(rest, {m: c})
    rest, b = _reduced(rest, b)
    low, most = _low(rest), _high(rest)
    if low is not None and low >= 0 and _is_below(rest, b):
        return whole
    if most is not None and most < 0 and _is_below(_scaled(rest, -1), _plus(b, {(): 1})):
        return _plus(whole, {(): -1})
    return _plus(whole, {(Quotient(Sym(rest), Sym(b)),): 1})


def _reduced(a: Poly, b: Poly) -> tuple[Poly, Poly]:
    """``(g*x + c) // (g*y) == (x + c//g) // y``."""
    common = gcd(*b.values(), *(c for m, c in a.items() if m != ()))
    if common == 1:
        return a, b
    small = {m: c // common for m, c in a.items() if c // common}
    return small, {m: c // common for m, c in b.items()}


def _remainder(a: Poly, b: Poly) -> Poly:
    return _plus(a, _scaled(_times(_quotient(a, b), b), -1))


# ---------------------------------------------------------------- bounds


def _low(poly: Poly) -> int | None:
    """A number that the polynomial is never below; None if none is found.

    With every atom written as its least value plus something >= 0, terms with a positive
    coefficient only add; those with a negative one take away at most what their highest values
    give.
    """
    found = [_low_as_written(poly)]
    if any(isinstance(m[0], Quotient) for m in poly if m):
        found.append(_low_as_written(_with_remainders(poly)))
    return max((low for low in found if low is not None), default=None)


def _low_as_written(poly: Poly) -> int | None:
    shifted: Poly = {}
    for monomial, coefficient in poly.items():
        term: Poly = {(): coefficient}
        for atom in monomial:
            if atom.low is None:
                return None
            term = _times(term, _plus({(atom,): 1}, {(): atom.low} if atom.low else {}))
        shifted = _plus(shifted, term)
    bound = shifted.pop((), 0)
    for monomial, coefficient in shifted.items():
        if coefficient < 0:
            for atom in monomial:
                if atom.high is None:
                    return None
                coefficient *= atom.high - (atom.low or 0)
            bound += coefficient
    return bound


def _with_remainders(poly: Poly) -> Poly:
    """``-k*b*(a//b)`` as ``k*(a%b) - k*a``: a remainder has bounds of its own."""
    result = dict(poly)
    for monomial, coefficient in poly.items():
        atom = monomial[0] if len(monomial) == 1 else None
        bottom = atom.bottom.poly if isinstance(atom, Quotient) else {}
        if isinstance(atom, Quotient) and len(bottom) == 1 and () in bottom:
            times, left = divmod(coefficient, bottom[()])
            if left == 0:
                del result[monomial]
                rest = Remainder(atom.top, atom.bottom, 0, bottom[()] - 1)
                result = _plus(result, _scaled(atom.top.poly, times))
                result = _plus(result, {(rest,): -times})
    return result


def _high(poly: Poly) -> int | None:
    low = _low(_scaled(poly, -1))
    return None if low is None else -low


def _is_below(a: Poly | None, b: Poly | None) -> bool:
    if a is None or b is None:
        return False
    gap = _low(_plus(b, _scaled(a, -1)))
    return gap is not None and gap > 0


def _shown(x: Sym, sign: str, other: Any, a: Poly | None, b: Poly | None) -> bool:
    """Whether ``a < b``, where facts decide it either way; `sign` is what the user wrote."""
    if a is not None and b is not None:
        if _is_below(a, b):
            return True
        gap = _low(_plus(a, _scaled(b, -1)))
        if gap is not None and gap >= 0:
            return False
    names = sorted(x.names() | (other.names() if isinstance(other, Sym) else set()))
    raise LayoutError(
        f"cannot show whether {x} {sign} {other}: the facts about {', '.join(names)} do not "
        "decide it",
        hint="give more facts: sym('N', divby=8, least=64, most=8192)",
    )


def _atom_at(atom: Atom, sizes: dict[str, int]) -> Any:
    if isinstance(atom, Size):
        number = sizes.get(atom.name)
        if number is None:
            return Sym({(atom,): 1})
        if number % atom.divby or number < atom.least or number > (atom.most or number):
            upper = "" if atom.most is None else f", at most {atom.most}"
            raise LayoutError(
                f"{atom.name} = {number} breaks the facts about {atom.name}: a multiple of "
                f"{atom.divby}, at least {atom.least}{upper}"
            )
        return number // atom.divby
    return atom.top.at(**sizes) // atom.bottom.at(**sizes)


def _term(monomial: Monomial, coefficient: int) -> str:
    """``3*N/2``: units as fractions of their sizes."""
    under = 1
    for atom in monomial:
        under *= atom.divby if isinstance(atom, Size) else 1
    common = gcd(coefficient, under)
    over, under = coefficient // common, under // common
    factors = [str(atom) for atom in monomial]
    if abs(over) != 1 or not factors:
        factors.insert(0, str(over))
    elif over == -1:
        factors[0] = "-" + factors[0]
    return "*".join(factors) + (f"/{under}" if under != 1 else "")


def _grouped(x: Sym) -> str:
    text = str(x)
    return text if text.isidentifier() or text.isdigit() else f"({text})"
