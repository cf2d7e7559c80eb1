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
from tilewright.layout.expression import Quotient, Size, Sym
from tilewright.layout.int_tuple import flatten_tuple, fmt, unflatten
from tilewright.layout.layout import Layout
from tilewright.layout.leaf import exact_div
from tilewright.layout.modes import size
from tilewright.layout.swizzle import AnyLayout, ComposedLayout, Swizzle
from tilewright.layout.symbolic import specialise

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
    search = _Search(claim, seconds, layout, bound)
    plain = _unswizzled_within(layout, bound)
    value, point = search.value(plain)
    limit = search.term(bound)
    model = search.find(z3.Or(value < 0, value >= limit))
    if model is None:
        return Proof(claim)
    sizes, at = search.sizes(model), search.point(model, layout, point)
    offset, end = specialise(plain, **sizes)(at), specialise(bound, **sizes)
    _confirm(not 0 <= offset < end, claim)
    return Counterexample(claim, sizes, f"coordinate {fmt(at)} gives {offset}, the bound is {end}")


def prove_injective(layout: AnyLayout, seconds: float = 10) -> Verdict:
    """Different coordinates give different offsets (a swizzle never changes that).

    Raises: LayoutError if z3 decides neither way in `seconds`; ToolchainError without z3.
    """
    claim = f"{layout} is injective"
    plain = _without_swizzle(layout)
    search = _Search(claim, seconds, plain)
    if search.nests(plain):
        return Proof(claim)
    one, p = search.value(plain)
    two, q = search.value(plain)
    differ = z3.Or([x != y for x, y in zip(p, q, strict=True)])
    model = search.find(z3.And(one == two, differ))
    if model is None:
        return Proof(claim)
    sizes = search.sizes(model)
    a, b = search.point(model, plain, p), search.point(model, plain, q)
    real = specialise(layout, **sizes)
    _confirm(a != b and real(a) == real(b), claim)
    return Counterexample(claim, sizes, f"coordinates {fmt(a)} and {fmt(b)} both give {real(a)}")


def prove_bijective(layout: AnyLayout, seconds: float = 10) -> Verdict:
    """The offsets are 0 .. size-1, each exactly once.

    Raises: LayoutError if z3 decides neither way in `seconds`; ToolchainError without z3.
    """
    claim = f"{layout} is a bijection onto [0, {size(layout)})"
    for verdict in (
        prove_in_bounds(layout, size(layout), seconds),
        prove_injective(layout, seconds),
    ):
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
    lanes = list(_lanes(layout, threads))
    per_phase = min(WARP, WARP * BANK_BYTES // access_bytes)
    search = _Search(claim, seconds, layout, tuple(lanes))
    access = _Access(layout, tuple(lanes), access_bytes, element_bits, per_phase)
    model, low_bits = None, search.low_bits(access)
    if low_bits is not None:
        model = search.find(low_bits)
        if model is None:
            return Proof(claim)
    for found in (model, None):
        # The low bits may conflict where the facts or the whole addresses do not.
        found = found or search.find(search.whole_addresses(access))
        if found is None:
            return Proof(claim)
        sizes = search.sizes(found)
        why = _conflict(access.at(sizes), access_bytes, per_phase)
        if why:
            return Counterexample(claim, sizes, why)
    raise AssertionError(f"prove: the model found against '{claim}' does not hold up")


@dataclass(frozen=True)
class _Access:
    """The arguments of `prove_bank_free`, with the coordinate of every lane."""

    layout: AnyLayout
    lanes: tuple[Any, ...]
    access_bytes: int
    element_bits: int
    per_phase: int

    def at(self, sizes: dict[str, int]) -> list[int]:
        """Byte addresses at these sizes."""
        real = specialise(self.layout, **sizes)
        return [real(specialise(c, **sizes)) * self.element_bits // 8 for c in self.lanes]

    def swizzles(self) -> list[ComposedLayout]:
        """The compositions around the plain layout, innermost function last."""
        chain, layout = [], self.layout
        while isinstance(layout, ComposedLayout):
            if not isinstance(layout.inner, Swizzle):
                raise LayoutError(f"prove: {layout.inner} of {layout} is no swizzle")
            chain.append(layout)
            layout = layout.outer
        return chain[::-1]

    def offsets(self) -> list[Any]:
        """Before any swizzle, in elements."""
        return [_without_swizzle(self.layout)(c) for c in self.lanes]

    def pairs(self) -> Iterator[tuple[int, int]]:
        """The lanes that share a phase."""
        for start in range(0, len(self.lanes), self.per_phase):
            yield from combinations(range(start, min(start + self.per_phase, len(self.lanes))), 2)


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


def _unswizzled_within(layout: AnyLayout, bound: Any) -> AnyLayout:
    """Without the swizzles that cannot leave [0, bound): each permutes aligned blocks of offsets,
    and the bound is a multiple of them."""
    while isinstance(layout, ComposedLayout) and isinstance(layout.inner, Swizzle):
        inner = layout.inner
        block = 1 << (inner.base + inner.bits + max(0, -inner.shift))
        if exact_div(bound, block) is None or not (
            type(layout.offset) is int and not layout.offset
        ):
            break
        layout = layout.outer
    return layout


def _swizzled_bits(swizzle: Swizzle, x: Any) -> Any:
    chosen = x & swizzle.source_mask
    if swizzle.shift >= 0:
        return x ^ z3.LShR(chosen, swizzle.shift)
    return x ^ (chosen << -swizzle.shift)


class _Search:
    """One search: the sizes and coordinates as z3 integers, and what is known about them."""

    def __init__(self, claim: str, seconds: float, *operands: Any) -> None:
        if z3 is None:
            raise ToolchainError(
                "prove: proofs for all sizes need z3, which is not installed",
                hint="pip install 'tilewright[prove]'",
            )
        self.claim, self.seconds = claim, seconds
        self.units: dict[Size, Any] = {}
        self.bits: dict[Any, Any] = {}
        self.known: list[Any] = []
        self.points = 0
        for operand in operands:
            self.meet(operand)

    def meet(self, t: Any) -> None:
        """Every size that occurs in `t` gets its facts."""
        if isinstance(t, ComposedLayout):
            self.meet((t.offset, t.outer))
        elif isinstance(t, Layout):
            self.meet((t.shape, t.stride))
        elif isinstance(t, tuple):
            for x in t:
                self.meet(x)
        elif isinstance(t, Sym):
            self.term(t)

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

    def whole_addresses(self, access: _Access) -> Any:
        """A misaligned access, or two lanes with different words of one bank."""
        addresses = []
        for offset in access.offsets():
            x = offset if access.swizzles() else offset * access.element_bits // 8
            value = self.term(x)
            for composed in access.swizzles():
                value = self.inner(composed, value)
            addresses.append(value * access.element_bits / 8 if access.swizzles() else value)
        bad = [address % access.access_bytes != 0 for address in addresses]
        words = [address / BANK_BYTES for address in addresses]
        for i, j in access.pairs():
            bad.append(z3.And(words[i] != words[j], (words[i] - words[j]) % BANKS == 0))
        return z3.Or(bad)

    def low_bits(self, access: _Access) -> Any:
        """The same on the low bits of addresses, in which all sizes may be taken modulo 2**k.

        Exact for lanes a fixed distance apart; any others are taken to want different words.  None
        where elements are smaller than a byte, or a swizzle cuts words.
        """
        chain, width = access.swizzles(), 12
        shift = (access.element_bits // 8).bit_length() - 1
        if access.element_bits not in (8, 16, 32, 64, 128):
            return None
        for composed in chain:
            inner = composed.inner
            width = max(width, inner.base + abs(inner.shift) + inner.bits + shift + 1)
            if inner.bits and inner.base + shift < 2:
                return None
        offsets = access.offsets()
        addresses = []
        for offset in offsets:
            x = self.bit_term(offset, width)
            for composed in chain:
                x = x + self.bit_term(composed.offset, width)
                x = _swizzled_bits(composed.inner, x)
            addresses.append(x << shift)
        low = access.access_bytes - 1
        bad = [(address & low) != 0 for address in addresses]
        for i, j in access.pairs():
            x, y = addresses[i], addresses[j]
            same_bank = z3.Extract(6, 2, x) == z3.Extract(6, 2, y)
            apart = offsets[i] - offsets[j]
            if type(apart) is int and abs(apart) << shift < 1 << (width - 1):
                same_bank = z3.And(same_bank, z3.Extract(width - 1, 2, x ^ y) != 0)
            bad.append(same_bank)
        return z3.And(*self.bits_known(width), z3.Or(bad))

    def bit_term(self, x: Any, width: int) -> Any:
        """The low bits of an expression; a quotient may be anything."""
        total: Any = z3.BitVecVal(0, width)
        for monomial, coefficient in (x.poly if isinstance(x, Sym) else {(): x}).items():
            value: Any = z3.BitVecVal(coefficient, width)
            for atom in monomial:
                if atom not in self.bits:
                    self.bits[atom] = z3.BitVec(f"low bits of {atom}", width)
                value = value * self.bits[atom]
            total = total + value
        return total

    def bits_known(self, width: int) -> Iterator[Any]:
        """Facts that low bits can keep."""
        for atom, value in self.bits.items():
            if atom.high is not None and atom.high < 1 << (width - 1):
                yield z3.ULE(value, atom.high)
                yield z3.UGE(value, atom.low or 0)

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

    def find(self, question: Any) -> Any:
        """A model of the question, of small sizes where there is one, or None if there is none."""
        answer, model = self.ask(question, self.seconds)
        if answer == z3.unsat:
            return None
        for fixed in self.small_sizes() if self.units else ():
            small, found = self.ask(z3.And(question, *fixed), 1.0)
            if small == z3.sat:
                return found
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

    def sizes(self, model: Any) -> dict[str, int]:
        """The named sizes of the model; where it gives low bits only, the least size with them."""
        found = {}
        for atom, unit in self.units.items():
            number = model.eval(unit, model_completion=True).as_long()
            if atom in self.bits and model[self.bits[atom]] is not None:
                number = model[self.bits[atom]].as_long()
                if number < atom.low:
                    number += 1 << self.bits[atom].size()
            number = max(number, atom.low) if atom.high is None else number
            found[atom.name] = number * atom.divby
        return dict(sorted(found.items()))

    def point(self, model: Any, layout: AnyLayout, point: list[Any]) -> Any:
        """The coordinate of the model, in the profile of the layout."""
        numbers = tuple(model.eval(c, model_completion=True).as_long() for c in point)
        return unflatten(numbers, layout.shape)
