"""What the layout tests share: a reference evaluator, random layouts, a symbolic run-time value."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tilewright.layout import Layout

# ---------------------------------------------------------------- reference semantics


def flat(t: Any) -> list[Any]:
    return [y for x in t for y in flat(x)] if isinstance(t, tuple) else [t]


def extent(layout: Any) -> int:
    n = 1
    for s in flat(layout.shape):
        n *= s
    return n


def value(layout: Any, index: int) -> int:
    """The offset of a linear index, straight from the definition: split colexicographically over
    the flattened shape, last leaf unbounded, dot with the strides."""
    shape, stride = flat(layout.shape), flat(layout.stride)
    total = 0
    for k, (s, d) in enumerate(zip(shape, stride, strict=True)):
        last = k == len(shape) - 1
        digit = index if last else index % s
        index = index // s
        total += digit * d
    return total


def values(layout: Any, count: int | None = None) -> list[int]:
    return [value(layout, i) for i in range(extent(layout) if count is None else count)]


# ---------------------------------------------------------------- random layouts

extents = st.sampled_from([1, 1, 2, 2, 3, 4, 4, 5, 6, 8])


@st.composite
def shapes(draw: Any, max_rank: int = 3, max_size: int = 512) -> Any:
    """A shape of depth <= 2 and bounded size."""
    modes: list[Any] = []
    size = 1
    for _ in range(draw(st.integers(1, max_rank))):
        leaves = []
        for _ in range(draw(st.integers(1, 2))):
            s = draw(extents)
            if size * s > max_size:
                s = 1
            size *= s
            leaves.append(s)
        modes.append(leaves[0] if len(leaves) == 1 else tuple(leaves))
    if len(modes) == 1 and draw(st.booleans()):
        return modes[0]
    return tuple(modes)


def _arrange(values_: list[Any], profile: Any) -> Any:
    if isinstance(profile, tuple):
        return tuple(_arrange(values_, p) for p in profile)
    return values_.pop(0)


@st.composite
def layouts(draw: Any, max_size: int = 512) -> Layout:
    """Any layout: compact in a random order, padded, broadcast, or with arbitrary strides."""
    shape = draw(shapes(max_size=max_size))
    sizes = flat(shape)
    kind = draw(st.sampled_from(["compact", "compact", "padded", "free"]))
    if kind == "free":
        strides = [draw(st.integers(0, 24)) for _ in sizes]
    else:
        strides = [0] * len(sizes)
        step = 1
        for k in draw(st.permutations(range(len(sizes)))):
            strides[k] = step
            step *= sizes[k]
            if kind == "padded":
                step = step * draw(st.integers(1, 2)) + draw(st.integers(0, 1))
        if draw(st.integers(0, 3)) == 0:
            strides[draw(st.integers(0, len(sizes) - 1))] = 0
    return Layout(shape, _arrange(strides, shape))


@st.composite
def injective_layouts(draw: Any, max_size: int = 256) -> Layout:
    """Injective layouts whose strides nest: each a multiple of the extent before it."""
    shape = draw(shapes(max_size=max_size))
    sizes = flat(shape)
    strides = [0] * len(sizes)
    step = 1
    for k in draw(st.permutations(range(len(sizes)))):
        strides[k] = step
        step *= sizes[k] * draw(st.sampled_from([1, 1, 1, 2, 3]))
    return Layout(shape, _arrange(strides, shape))


# ---------------------------------------------------------------- a run-time value


class Sym:
    """A run-time integer: records expressions, refuses to be a truth value, evaluates on demand."""

    __hash__ = object.__hash__

    def __init__(self, op: str, *args: Any) -> None:
        self.op, self.args = op, args

    def __bool__(self) -> bool:
        raise TypeError(f"run-time value {self} has no truth at trace time")

    def __str__(self) -> str:
        if self.op == "var":
            return str(self.args[0])
        return f"({self.args[0]}{self.op}{self.args[1]})"

    __repr__ = __str__

    def at(self, **env: int) -> int:
        """The number this is when the variables have these values."""
        if self.op == "var":
            return env[self.args[0]]
        a, b = (x.at(**env) if isinstance(x, Sym) else x for x in self.args)
        return {
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "//": lambda: a // b,
            "%": lambda: a % b,
            "<": lambda: a < b,
            "==": lambda: a == b,
            "&": lambda: a & b,
            "^": lambda: a ^ b,
            ">>": lambda: a >> b,
            "<<": lambda: a << b,
        }[self.op]()

    def nodes(self) -> int:
        """Operations in the expression."""
        return (self.op != "var") + sum(x.nodes() for x in self.args if isinstance(x, Sym))

    def provably_equal(self, other: object) -> bool:
        return isinstance(other, Sym) and str(self) == str(other)


def _install(op: str, name: str) -> None:
    setattr(Sym, f"__{name}__", lambda self, other: Sym(op, self, other))
    setattr(Sym, f"__r{name}__", lambda self, other: Sym(op, other, self))


for _op, _name in {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "//": "floordiv",
    "%": "mod",
    "&": "and",
    "^": "xor",
    ">>": "rshift",
    "<<": "lshift",
}.items():
    _install(_op, _name)
Sym.__lt__ = lambda self, other: Sym("<", self, other)  # type: ignore[method-assign,assignment]
Sym.__eq__ = lambda self, other: Sym("==", self, other)  # type: ignore[method-assign,assignment]


def var(name: str) -> Sym:
    return Sym("var", name)


def specialise(t: Any, **env: int) -> Any:
    """`t` with every run-time value replaced by its number."""
    if isinstance(t, tuple):
        return tuple(specialise(x, **env) for x in t)
    if isinstance(t, Layout):
        return Layout(specialise(t.shape, **env), specialise(t.stride, **env))
    if hasattr(t, "basis_value"):
        return t.scaled(specialise(t.basis_value, **env))
    return t.at(**env) if isinstance(t, Sym) else t
