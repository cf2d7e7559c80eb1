"""Proofs about layouts for *all* sizes that keep their facts, by z3 (the extra ``prove``).

Every question is put as a search for a counterexample.  Answers are values: a `Proof` that there is
none, or a `Counterexample` with sizes and coordinates, which has been checked by evaluation.  Where
z3 finds neither, the question is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, permutations, product
from typing import Any, TypeAlias

from tilewright.errors import LayoutError, ToolchainError
from tilewright.layout.int_tuple import flatten_tuple, fmt, unflatten
from tilewright.layout.layout import Layout
from tilewright.layout.modes import size
from tilewright.layout.swizzle import AnyLayout, ComposedLayout, Swizzle
from tilewright.layout.symbolic import Quotient, Size, Sym, specialise

try:
    import z3
except ImportError:
    z3 = None

BANKS, BANK_BYTES, WARP = 32, 4, 32


@dataclass(frozen=True)
class Proof:
    """The claim holds for all sizes that keep the facts about them."""

    claim: str
    holds: bool = field(default=True, init=False)

    def __str__(self) -> str:
        return f"proven: {self.claim}"


@dataclass(frozen=True)
class Counterexample:
    """The claim fails at `sizes`; `why` shows it in numbers."""

    claim: str
    sizes: dict[str, int]
    why: str
    holds: bool = field(default=False, init=False)

    def __str__(self) -> str:
        at = ", ".join(f"{name} = {number}" for name, number in self.sizes.items())
        return f"refuted: {self.claim}; {at + ': ' if at else ''}{self.why}"


Verdict: TypeAlias = Proof | Counterexample


def prove_in_bounds(layout: AnyLayout, bound: Any, seconds: float = 10) -> Verdict:
    """``0 <= layout(c) < bound`` for every coordinate of the domain.

    Raises: LayoutError if z3 decides neither way in `seconds`; ToolchainError without z3.
    """
    claim = f"0 <= {layout} < {bound}"
    search = _Search(claim, seconds)
    value, point = search.value(layout)
    limit = search.term(bound)
    model = search.find(search.solver.Or(value < 0, value >= limit))
    if model is None:
        return Proof(claim)
    sizes, at = search.sizes(model, layout, bound), search.point(model, layout, point)
    offset, end = specialise(layout, **sizes)(at), specialise(bound, **sizes)
    _confirm(not 0 <= offset < end, claim)
    return Counterexample(claim, sizes, f"coordinate {fmt(at)} gives {offset}, the bound is {end}")


def prove_injective(layout: AnyLayout, seconds: float = 10) -> Verdict:
    """Different coordinates give different offsets (a swizzle never changes that).

    Raises: LayoutError if z3 decides neither way in `seconds`; ToolchainError without z3.
    """
    claim = f"{layout} is injective"
    plain = _without_swizzle(layout)
    search = _Search(claim, seconds)
    if search.nests(plain):
        return Proof(claim)
    one, p = search.value(plain)
    two, q = search.value(plain)
    differ = search.solver.Or([x != y for x, y in zip(p, q, strict=True)])
    model = search.find(search.solver.And(one == two, differ), small=True)
    if model is None:
        return Proof(claim)
    sizes = search.sizes(model, plain)
    a, b = search.point(model, plain, p), search.point(model, plain, q)
    real = specialise(layout, **sizes)
    _confirm(a != b and real(a) == real(b), claim)
    return Counterexample(claim, sizes, f"coordinates {fmt(a)} and {fmt(b)} both give {real(a)}")


def prove_bijective(layout: AnyLayout, seconds: float = 10) -> Verdict:
    """The offsets are 0 .. size-1, each exactly once.

    Raises: LayoutError if z3 decides neither way in `seconds`; ToolchainError without z3.
    """
    claim = f"{layout} is a bijection onto [0, {size(layout)})"
    for verdict in (prove_in_bounds(layout, size(layout), seconds), prove_injective(layout, seconds)):
        if isinstance(verdict, Counterexample):
            return Counterexample(claim, verdict.sizes, verdict.why)
    # As many different offsets as numbers in the range.
    return Proof(claim)


def prove_bank_free(
    layout: AnyLayout,
    threads: Any = None,
    access_bytes: int = 4,
    element_bits: int = 32,
    seconds: float = 10,
) -> Verdict:
    """No two lanes of a phase want different words of one bank, and every access is aligned.

    Lane i accesses `access_bytes` at ``layout(threads(i))``; `threads` is None (lane i at index
    i), an int, a layout, or the coordinates of the lanes, which may be symbolic.
    Rule BANKS of `analysis`: 32 banks of 4 bytes; 32, 16 or 8 lanes a phase for accesses of up to
    4, of 8, of 16 bytes.

    Raises: LayoutError if z3 decides neither way in `seconds`; ToolchainError without z3.
    """
    if access_bytes not in (1, 2, 4, 8, 16):
        raise LayoutError(f"prove_bank_free: accesses of {access_bytes} bytes, expected 1 to 16")
    claim = f"{layout} is free of bank conflicts for accesses of {access_bytes} bytes"
    search = _Search(claim, seconds)
    lanes = list(_lanes(layout, threads))
    addresses = [search.swizzled(layout, c, element_bits) for c in lanes]
    bad: list[Any] = [address % access_bytes != 0 for address in addresses]
    lanes_per_phase = min(WARP, WARP * BANK_BYTES // access_bytes)
    words = [address / BANK_BYTES for address in addresses]
    for start in range(0, len(words), lanes_per_phase):
        for x, y in combinations(words[start : start + lanes_per_phase], 2):
            bad.append(search.solver.And(x != y, (x - y) % BANKS == 0))
    model = search.find(search.solver.Or(bad))
    if model is None:
        return Proof(claim)
    sizes = search.sizes(model, layout, *lanes)
    real = specialise(layout, **sizes)
    numbers = [real(specialise(c, **sizes)) * element_bits // 8 for c in lanes]
    why = _conflict(numbers, access_bytes, lanes_per_phase)
    _confirm(bool(why), claim)
    return Counterexample(claim, sizes, why)


def _conflict(addresses: list[int], access_bytes: int, lanes_per_phase: int) -> str:
    for lane, address in enumerate(addresses):
        if address % access_bytes:
            return f"lane {lane} accesses byte {address}, no multiple of {access_bytes}"
    for start in range(0, len(addresses), lanes_per_phase):
        stop = min(start + lanes_per_phase, len(addresses))
        for i, j in combinations(range(start, stop), 2):
            x, y = addresses[i] // BANK_BYTES, addresses[j] // BANK_BYTES
            if x != y and x % BANKS == y % BANKS:
                return f"lanes {i} and {j} want words {x} and {y}, both of bank {x % BANKS}"
    return ""


def _lanes(layout: AnyLayout, threads: Any) -> Iterable[Any]:
    if threads is None or isinstance(threads, int):
        count = size(layout) if threads is None else threads
        if type(count) is not int:
            raise LayoutError(
                f"prove_bank_free: {layout} has {count} elements; say which lane begins where"
            )
        return range(count)
    if isinstance(threads, (Layout, ComposedLayout)):
        return [threads(i) for i in range(size(threads))]
    return list(threads)


def _without_swizzle(layout: AnyLayout) -> Layout:
    """The layout behind its swizzles, which are bijections."""
    while isinstance(layout, ComposedLayout):
        if not isinstance(layout.inner, Swizzle):
            raise LayoutError(f"prove: {layout.inner} of {layout} is no swizzle")
        layout = layout.outer
    return layout


def _confirm(shown: bool, claim: str) -> None:
    if not shown:
        raise AssertionError(f"prove: the model found against '{claim}' does not hold up")


class _Search:
    """One search: the sizes and coordinates as z3 integers, and what is known about them."""

    def __init__(self, claim: str, seconds: float) -> None:
        if z3 is None:
            raise ToolchainError(
                "prove: proofs for all sizes need z3, which is not installed",
                hint="pip install 'tilewright[prove]'",
            )
        self.claim, self.seconds, self.solver = claim, seconds, z3
        self.units: dict[Size, Any] = {}
        self.known: list[Any] = []
        self.points = 0

    def term(self, x: Any) -> Any:
        """A number or an expression of sizes as a z3 integer."""
        if not isinstance(x, Sym):
            return z3.IntVal(x)
        total: Any = z3.IntVal(0)
        for monomial, coefficient in x.poly.items():
            value: Any = z3.IntVal(coefficient)
            for atom in monomial:
                value = value * self.atom(atom)
            total = total + value
        return total

    def atom(self, atom: Any) -> Any:
        if isinstance(atom, Quotient):
            return self.term(atom.top) / self.term(atom.bottom)
        unit = self.units.get(atom)
        if unit is None:
            unit = self.units[atom] = z3.Int(f"{atom.name}/{atom.divby}")
            self.known.append(unit >= atom.low)
            if atom.high is not None:
                self.known.append(unit <= atom.high)
        return unit

    def value(self, layout: AnyLayout) -> tuple[Any, list[Any]]:
        """The offset of any one coordinate, and that coordinate, leaf by leaf."""
        if isinstance(layout, ComposedLayout):
            outer, point = self.value(layout.outer)
            return self.inner(layout, outer), point
        offset: Any = z3.IntVal(0)
        point = []
        for s, d in zip(flatten_tuple(layout.shape), flatten_tuple(layout.stride), strict=True):
            c = z3.Int(f"c{self.points}")
            self.points += 1
            point.append(c)
            self.known += [c >= 0, c < self.term(s)]
            offset = offset + c * self.term(d)
        return offset, point

    def inner(self, layout: ComposedLayout, x: Any) -> Any:
        if not isinstance(layout.inner, Swizzle):
            raise LayoutError(f"prove: {layout.inner} of {layout} is no swizzle")
        x = x + self.term(layout.offset)
        swizzle, result = layout.inner, x
        for k in range(swizzle.bits):
            low = swizzle.base + k
            source, target = low + max(0, swizzle.shift), low + max(0, -swizzle.shift)
            flips = (x / (1 << source)) % 2 == 1
            is_set = (x / (1 << target)) % 2 == 1
            result = result + z3.If(flips, z3.If(is_set, -(1 << target), 1 << target), 0)
        return result

    def swizzled(self, layout: AnyLayout, coord: Any, element_bits: int) -> Any:
        """The byte address of one coordinate; a linear one is simplified before z3 sees it."""
        chain = []
        while isinstance(layout, ComposedLayout):
            chain.append(layout)
            layout = layout.outer
        offset = layout(coord)
        if not chain:
            return self.term(offset * element_bits // 8)
        x = self.term(offset)
        for composed in reversed(chain):
            x = self.inner(composed, x)
        return x * element_bits / 8

    def nests(self, layout: Layout) -> bool:
        """Whether in some order each stride exceeds all offsets of the modes before it."""
        modes = list(zip(flatten_tuple(layout.shape), flatten_tuple(layout.stride), strict=True))
        modes = [m for m in modes if m[0] != 1]
        if len(modes) > 5 or any(type(d) is int and d < 1 for _, d in modes):
            return False
        return any(self._nests_as(order) for order in permutations(modes))

    def _nests_as(self, order: tuple[tuple[Any, Any], ...]) -> bool:
        highest: Any = 0
        for s, d in order:
            if self.ask(self.term(d) <= self.term(highest), 1.0)[0] != z3.unsat:
                return False
            highest = highest + (s - 1) * d
        return True

    def ask(self, question: Any, seconds: float) -> tuple[Any, Any]:
        solver = z3.Solver()
        solver.set("timeout", int(1000 * seconds))
        solver.add(*self.known)
        solver.add(question)
        answer = solver.check()
        return answer, solver.model() if answer == z3.sat else None

    def find(self, question: Any, small: bool = False) -> Any:
        """A model of the question, or None if there is none; `small` tries small sizes first."""
        for fixed in self.small_sizes() if small and self.units else ():
            answer, model = self.ask(z3.And(question, *fixed), 1.0)
            if answer == z3.sat:
                return model
        answer, model = self.ask(question, self.seconds)
        if answer == z3.unknown:
            raise LayoutError(
                f"prove: z3 decides neither way in {self.seconds} s: {self.claim}",
                hint="more facts or a limit may help: sym('N', divby=8, most=8192)",
            )
        return model

    def small_sizes(self) -> Iterator[list[Any]]:
        units = list(self.units.items())
        for numbers in product(range(3), repeat=min(len(units), 3)):
            pairs = zip(units, numbers, strict=False)
            yield [unit == (atom.low or 1) + number for (atom, unit), number in pairs]

    def sizes(self, model: Any, *used: Any) -> dict[str, int]:
        """The named sizes of the model."""
        for t in used:
            self._meet(t)
        found = {}
        for atom, unit in self.units.items():
            found[atom.name] = model.eval(unit, model_completion=True).as_long() * atom.divby
        return dict(sorted(found.items()))

    def _meet(self, t: Any) -> None:
        """Sizes that the question never mentioned get a number too."""
        if isinstance(t, ComposedLayout):
            self._meet((t.offset, t.outer))
        elif isinstance(t, Layout):
            self._meet((t.shape, t.stride))
        elif isinstance(t, tuple):
            for x in t:
                self._meet(x)
        elif isinstance(t, Sym):
            self.term(t)

    def point(self, model: Any, layout: AnyLayout, point: list[Any]) -> Any:
        """The coordinate of the model, in the profile of the layout."""
        numbers = tuple(model.eval(c, model_completion=True).as_long() for c in point)
        return unflatten(numbers, layout.shape)
