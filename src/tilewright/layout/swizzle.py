"""Swizzle: an XOR of address bits, and ComposedLayout: a layout seen through another function."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from tilewright.errors import LayoutError
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.int_tuple import Coord, Shape, Stride, fmt, same
from tilewright.layout.layout import Layout
from tilewright.layout.leaf import add


class Swizzle:
    """``x ^ ((x & Y) >> shift)``: B bits at M are XORed with the B bits that lie |shift| higher.

    Units:  bits of the offset: `bits` = B how many, `base` = M lowest bit kept in place below,
            `shift` = S distance; negative S moves the low bits up instead.
    Laws:   1 self-inverse: ``sw(sw(x)) == x``     2 blocks of 2**M stay contiguous
    Raises: LayoutError unless ``B, M >= 0`` and ``|S| >= B``.

    >>> sw = Swizzle(3, 4, 3)
    >>> print(sw, sw(455), sw(sw(455)))
    Sw<3,4,3> 503 455
    """

    __slots__ = ("base", "bits", "shift", "source_mask")

    bits: int
    base: int
    shift: int
    source_mask: int
    """Y: the bits that are read."""

    def __init__(self, bits: int, base: int, shift: int) -> None:
        if not all(isinstance(x, int) for x in (bits, base, shift)):
            raise LayoutError(f"Swizzle: expected three ints, got {(bits, base, shift)!r}")
        if bits < 0 or base < 0 or abs(shift) < bits:
            raise LayoutError(
                f"Swizzle<{bits},{base},{shift}>: expected bits >= 0, base >= 0 and |shift| >= bits"
            )
        object.__setattr__(self, "bits", bits)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "shift", shift)
        object.__setattr__(self, "source_mask", ((1 << bits) - 1) << (base + max(0, shift)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Swizzle is immutable: cannot set {name!r}")

    @property
    def num_bits(self) -> int:
        """B, the number of bits XORed."""
        return self.bits

    @property
    def num_base(self) -> int:
        """M, the number of low bits left alone."""
        return self.base

    @property
    def num_shift(self) -> int:
        """S, the distance of source and target bits."""
        return self.shift

    @property
    def target_mask(self) -> int:
        """Z: the bits that are changed."""
        return ((1 << self.bits) - 1) << (self.base + max(0, -self.shift))

    def __call__(self, x: Any) -> Any:
        """The swizzled offset; `x` may be a run-time value with ``& ^ >> <<``."""
        if self.bits == 0:
            return x
        shift = self.shift
        if shift >= 0:
            return x ^ ((x & self.source_mask) >> shift)
        return x ^ ((x & self.source_mask) << -shift)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Swizzle) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, int, int]:
        return self.bits, self.base, self.shift

    def __reduce__(self) -> tuple[type[Swizzle], tuple[int, int, int]]:
        return Swizzle, self._key()

    def __repr__(self) -> str:
        return f"Swizzle({self.bits}, {self.base}, {self.shift})"

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"


def make_swizzle(source_mask: int, target_mask: int) -> Swizzle:
    """The swizzle that XORs the bits of `target_mask` with those of `source_mask`.

    Raises: LayoutError unless both masks are runs of equally many bits that do not overlap.

    >>> print(make_swizzle(0b1110000000, 0b1110000))
    Sw<3,4,3>
    """
    bits = source_mask.bit_count()
    runs = [_lowest_bit(source_mask), _lowest_bit(target_mask)]
    for mask, low in zip((source_mask, target_mask), runs, strict=True):
        if mask.bit_count() != bits or mask != ((1 << bits) - 1) << low:
            raise LayoutError(
                f"make_swizzle: masks {source_mask:#b} and {target_mask:#b} are not runs of "
                "equally many bits"
            )
    if source_mask & target_mask:
        raise LayoutError(f"make_swizzle: masks {source_mask:#b} and {target_mask:#b} overlap")
    return Swizzle(bits, min(runs), runs[0] - runs[1])


def _lowest_bit(mask: int) -> int:
    return (mask & -mask).bit_length() - 1 if mask else 0


class ComposedLayout:
    """``R(c) = inner(offset + outer(c))``: `outer` seen through a Swizzle or another layout.

    Shapes: domain and profile are those of `outer`; every tiling operation acts on `outer` only.
    Units:  `offset` in outer's units (a coordinate where `outer` has basis strides).

    >>> R = ComposedLayout(Swizzle(2, 0, 3), 0, Layout((8, 4), (8, 1)))
    >>> print(R, R((1, 2)), R.shape)
    Sw<2,0,3> o 0 o (8,4):(8,1) 11 (8, 4)
    """

    __slots__ = ("inner", "offset", "outer")

    inner: Any
    offset: Any
    outer: Any

    def __init__(self, inner: Any, offset: Any, outer: Any) -> None:
        if not isinstance(inner, (Swizzle, Layout, ComposedLayout)):
            raise LayoutError(
                f"ComposedLayout: expected a Swizzle or a layout as inner, got "
                f"{type(inner).__name__}"
            )
        if not isinstance(outer, (Layout, ComposedLayout)):
            raise LayoutError(
                f"ComposedLayout: expected a layout as outer, got {type(outer).__name__}"
            )
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "outer", outer)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"ComposedLayout is immutable: cannot set {name!r}")

    @property
    def shape(self) -> Shape:
        """The shape of the outer layout."""
        return self.outer.shape

    @property
    def stride(self) -> Stride:
        """The strides of the outer layout, before the inner function."""
        return self.outer.stride

    @property
    def is_static(self) -> bool:
        """True iff no part holds a run-time value."""
        inner = isinstance(self.inner, Swizzle) or self.inner.is_static
        return bool(inner and self.outer.is_static and _static_offset(self.offset))

    def __call__(self, *coord: Coord) -> Any:
        """Offset of a coordinate; see `Layout.__call__`."""
        return self.inner(add(self.offset, self.outer(*coord)))

    def __getitem__(self, mode: int | tuple[int, ...] | list[int]) -> ComposedLayout:
        """The same function of one mode."""
        return self.with_outer(self.outer[mode])

    def __len__(self) -> int:
        return len(self.outer)

    def with_outer(self, outer: Any, offset: Any = 0) -> ComposedLayout:
        """The same inner function over another outer layout, `offset` further on."""
        return ComposedLayout(self.inner, add(self.offset, offset), outer)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ComposedLayout)
            and self.inner == other.inner
            and same(self.offset, other.offset)
            and self.outer == other.outer
        )

    def __hash__(self) -> int:
        offset = self.offset if _static_offset(self.offset) else id(self.offset)
        return hash((self.inner, offset, self.outer))

    def __reduce__(self) -> tuple[type[ComposedLayout], tuple[Any, Any, Any]]:
        return ComposedLayout, (self.inner, self.offset, self.outer)

    def __repr__(self) -> str:
        return f"ComposedLayout({self.inner!r}, {self.offset!r}, {self.outer!r})"

    def __str__(self) -> str:
        return f"{self.inner} o {fmt(self.offset)} o {self.outer}"


def _static_offset(offset: Any) -> bool:
    if type(offset) is tuple:
        return all(_static_offset(x) for x in offset)
    return type(offset) is int


def make_composed_layout(inner: Any, offset: Any, outer: Any) -> ComposedLayout:
    """``inner o offset o outer``."""
    return ComposedLayout(inner, offset, outer)


AnyLayout = Layout | ComposedLayout
LayoutT = TypeVar("LayoutT", Layout, ComposedLayout)


def parse_layout(text: str) -> Any:
    """The layout written in standard notation: ``parse_layout(str(L)) == L``.

    Also reads Swizzles, composed layouts and plain IntTuples; ``_`` is the wildcard None.

    Raises: LayoutError where the text is not of this form.

    >>> parse_layout("(4,(2,3)):(6,(3,1))")
    Layout((4, (2, 3)), (6, (3, 1)))
    >>> parse_layout("Sw<3,4,3> o 0 o (8,8):(1@0,8)")
    ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 8), (ScaledBasis(1, (0,)), 8)))
    """
    if not isinstance(text, str):
        raise LayoutError(f"parse_layout: expected text, got {type(text).__name__} {text!r}")
    reader = _Reader(text)
    result = reader.chain()
    if reader.next != "":
        raise reader.error("end of text")
    return result


_TOKEN = re.compile(r"\s*(Sw<-?\d+,-?\d+,-?\d+>|-?\d+(?:@\d+)*|\S)")
_VALUE = "a number, '(' or '_'"


class _Reader:
    """Recursive descent over the tokens of the notation; `next` is the token ahead, at `start`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.start = self.end = 0
        self.next = ""
        self.advance()

    def advance(self) -> str:
        taken = self.next
        match = _TOKEN.match(self.text, self.end)
        self.next = match.group(1) if match else ""
        self.start, self.end = match.span(1) if match else (len(self.text),) * 2
        return taken

    def error(self, expected: str) -> LayoutError:
        found = repr(self.next) if self.next else "the end"
        return LayoutError(
            f"parse_layout: expected {expected} before position {self.start} of {self.text!r}, "
            f"found {found}"
        )

    def chain(self) -> Any:
        head = self.layout()
        if self.next != "o":
            return head
        self.advance()
        offset = self.tuple()
        if self.next != "o":
            raise self.error("'o'")
        self.advance()
        return ComposedLayout(head, offset, self.chain())

    def layout(self) -> Any:
        if self.next.startswith("Sw"):
            bits, base, shift = (int(x) for x in self.advance()[3:-1].split(","))
            return Swizzle(bits, base, shift)
        shape = self.tuple()
        if self.next != ":":
            return shape
        self.advance()
        return Layout(shape, self.tuple())

    def tuple(self) -> Any:
        if self.next == "(":
            self.advance()
            items: list[Any] = []
            while self.next != ")":
                items.append(self.tuple())
                if self.next == ",":
                    self.advance()
                elif self.next != ")":
                    raise self.error("',' or ')'")
            self.advance()
            return tuple(items)
        if self.next == "_":
            self.advance()
            return None
        if not self.next.lstrip("-")[:1].isdigit():
            raise self.error(_VALUE if self.start else f"{_VALUE}, or a swizzle Sw<B,M,S>")
        value, *path = self.advance().split("@")
        axes = tuple(int(axis) for axis in reversed(path))
        return ScaledBasis(int(value), axes) if axes else int(value)
