"""What an epilogue computes: a tree of nodes over the accumulators.

    D = activation(alpha * acc + beta * C + bias)

    Accumulator()        what the main loop computed
    Load(i)              the elements of the i-th given tensor, of D's shape
    Scalar(i)            the i-th given number
    Compute(name, ...)   a function of other nodes, elementwise

The tree is compiled in; tensors and numbers are run-time arguments.  A tensor that is the same for
all rows (a bias of the columns), all columns or all batches has stride 0 there, and each of its
elements is loaded once.  `linear_combination` makes the trees that a GEMM has; another tree needs
no other kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.errors import LaunchError
from tilewright.lang import cute
from tilewright.lang.cute import elementary
from tilewright.lang.cute.facts import divisor
from tilewright.lang.cute.transfer import MAX_BYTES
from tilewright.lang.ranges import range_constexpr
from tilewright.lang.values import Float32
from tilewright.layout.int_tuple import flatten_tuple

_LOG2_E = 1.4426950408889634
_GELU_CUBIC, _GELU_SCALE = 0.044715, 0.7978845608028654
_SQRT_HALF = 0.7071067811865476


def relu(x: Any) -> Any:
    """max(x, 0)."""
    return elementary.maximum(x, 0.0)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), by the hardware's exp2 and reciprocal."""
    return elementary.rcp_approx(elementary.exp2(x * -_LOG2_E, fastmath=True) + 1.0)


def gelu(x: Any) -> Any:
    """x times the normal distribution function."""
    return 0.5 * x * (elementary.erf(x * _SQRT_HALF, fastmath=True) + 1.0)


def gelu_tanh(x: Any) -> Any:
    """GELU by tanh: 0.5 x (1 + tanh u) = x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3)."""
    return x * sigmoid(x * (x * x * (2 * _GELU_SCALE * _GELU_CUBIC) + 2 * _GELU_SCALE))


def silu(x: Any) -> Any:
    """x sigmoid(x)."""
    return x * sigmoid(x)


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    **ACTIVATIONS,
}


@dataclass(frozen=True, slots=True)
class Accumulator:
    """What the main loop computed, in f32."""

    def __str__(self) -> str:
        return "acc"


@dataclass(frozen=True, slots=True)
class Load:
    """The elements of tensor `index`, in f32."""

    index: int

    def __str__(self) -> str:
        return f"tensor{self.index}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """Number `index`."""

    index: int

    def __str__(self) -> str:
        return f"scalar{self.index}"


@dataclass(frozen=True, slots=True)
class Compute:
    """A function of `FUNCTIONS`, applied to other nodes."""

    function: str
    inputs: tuple[Node, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.inputs))})"


Node = Accumulator | Load | Scalar | Compute


def linear_combination(with_c: bool = False, bias: bool = False, activation: str = "") -> Node:
    """The tree of `activation(alpha * acc + beta * C + bias)`.

    Numbers: alpha, then beta if there is a C.  Tensors: C if there is one, then the bias.
    Raises: LaunchError for an activation that does not exist.

    >>> str(linear_combination(bias=True, activation="relu"))
    'relu(add(multiply(acc, scalar0), tensor0))'
    """
    tree: Node = Compute("multiply", (Accumulator(), Scalar(0)))
    if with_c:
        tree = Compute("add", (tree, Compute("multiply", (Load(0), Scalar(1)))))
    if bias:
        tree = Compute("add", (tree, Load(1 if with_c else 0)))
    if activation in ("", "identity"):
        return tree
    if activation not in ACTIVATIONS:
        raise LaunchError(
            f"activation {activation!r} does not exist, expected identity, {', '.join(ACTIVATIONS)}"
        )
    return Compute(activation, (tree,))


class Fusion:
    """A tree with its arguments, inside a kernel: tensors (M,N,L) and numbers."""

    def __init__(self, tree: Any, tensors: tuple[Any, ...], scalars: tuple[Any, ...]) -> None:
        self.tree = tree
        self.tensors = tensors
        self.scalars = scalars

    def tile(
        self,
        thr_mma: Any,
        shape: tuple[int, int],
        place: tuple[Any, Any, Any],
        extent: Any,
        order: Any = None,
        columns: tuple[int, int] | None = None,
    ) -> FusionTile:
        """The fusion of one tile, or of some of its `columns`: see `part_of`.

        `thr_mma` says which elements the thread has, `extent` is (M, N); `order` as in `in_order`.
        """
        identity = cute.make_identity_tensor(extent)
        coords = thr_mma.partition_C(part_of(identity, shape, place[:2], columns))
        parts = [thr_mma.partition_C(part_of(t, shape, place, columns)) for t in self.tensors]
        ordered = tuple(in_order(part, order) for part in parts)
        return FusionTile(self, ordered, in_order(coords, order), extent)


class FusionTile:
    """A fusion with what a thread has of one tile: its elements of each tensor, and where."""

    def __init__(self, fusion: Fusion, parts: tuple[Any, ...], coords: Any, extent: Any) -> None:
        self.fusion, self.parts, self.coords, self.extent = fusion, parts, coords, extent

    def apply(self, acc: Any, first: int) -> Any:
        """The output's elements, in f32: as many as `acc`, from the thread's `first` one on."""

        def visit(node: Node) -> Any:
            match node:
                case Accumulator():
                    return acc
                case Scalar(index):
                    return self.fusion.scalars[index]
                case Load(index):
                    return load_inside(
                        self.parts[index], self.coords, self.extent, first, cute.size(acc.shape)
                    )
                case Compute(function, inputs):
                    return FUNCTIONS[function](*map(visit, inputs))

        return visit(self.fusion.tree)


def part_of(
    tensor: Any, shape: tuple[int, int], place: Any, columns: tuple[int, int] | None = None
) -> Any:
    """The tile of `shape` at `place` (tile row, tile column, batch) of (M,N,L), or a part of it.

    `columns` are the first one and how many.
    """
    tile = cute.local_tile(tensor, shape, place)  # (ROWS, COLUMNS)
    if columns is None or columns == (0, shape[1]):
        return tile
    start, width = columns
    return cute.local_tile(cute.domain_offset((0, start), tile), (shape[0], width), (0, 0))


def in_order(tensor: Any, order: Any = None) -> Any:
    """A thread's values as one mode, in their own order or in that of the layout `order`."""
    flat = cute.flatten(tensor)
    values = cute.group_modes(flat, 0, cute.rank(flat))
    return values if order is None else cute.composition(values, order)


def neighbours(part: Any, count: int) -> int:
    """How many of a thread's elements, of every `count` in order, one access takes: 1, 2, 4 or 8.

    They follow each other in memory, and all of their addresses are known to be aligned.
    """
    leaves = zip(flatten_tuple(part.layout.shape), flatten_tuple(part.layout.stride), strict=True)
    (run, step), *rest = [leaf for leaf in leaves if leaf[0] != 1] or [(1, 0)]
    if not (type(step) is int and step == 1):
        return 1
    nbytes = part.element_type.width // 8
    width = math.gcd(run, count, MAX_BYTES // nbytes)
    known = math.gcd(part.iterator.alignment, *(nbytes * divisor(step) for _, step in rest))
    while width > 1 and known % (width * nbytes):
        width //= 2
    return width


@cute.jit
def load_inside(part: Any, coords: Any, extent: Any, first: Any, count: Any) -> Any:
    """`count` elements of a thread, in f32; zero outside of the tensor."""
    same, width = same_places(part.layout, first, count), neighbours(part, count)
    found = cute.make_rmem_tensor(count, Float32)
    found.fill(0.0)
    for i in range_constexpr(0, count, width):
        if same[i] < i:
            for x in range_constexpr(i, i + width):
                found[x] = found[same[x]]
        elif width > 1:
            # Neighbours lie along one index: if the last one is inside, all are.
            whole = cute.elem_less(coords[first + i + width - 1], extent)
            if whole:
                run = cute.local_tile(part, (width,), ((first + i) // width,))
                cute.local_tile(found, (width,), (i // width,)).store(run.load().to(Float32))
            for x in range_constexpr(i, i + may_be_cut(coords, extent, width)):
                if not whole and cute.elem_less(coords[first + x], extent):
                    found[x] = part[first + x].to(Float32)
        elif cute.elem_less(coords[first + i], extent):
            found[i] = part[first + i].to(Float32)
    return found.load()


def may_be_cut(coords: Any, extent: Any, width: int) -> int:
    """How many elements of a run of `width` neighbours may be inside of `extent` without the rest.

    None where `width` is known to divide the extent along them, else all but the last.

    >>> may_be_cut(cute.make_identity_tensor((4, 8)), (4, 8), 2)
    0
    """
    layout = coords.layout
    leaves = zip(flatten_tuple(layout.shape), flatten_tuple(layout.stride), strict=True)
    along = next((stride.path[0] for n, stride in leaves if n != 1), 0)
    return 0 if divisor(extent[along]) % width == 0 else width - 1


def same_places(layout: Any, first: int, count: int) -> tuple[int, ...]:
    """For each of a thread's elements the first one that lies at the same place.

    >>> same_places(cute.make_layout((2, 2, 2), stride=(1, 0, 8)), 0, 8)
    (0, 1, 0, 1, 4, 5, 4, 5)
    """
    shape, stride = flatten_tuple(layout.shape), flatten_tuple(layout.stride)
    if not any(type(step) is int and step == 0 for step in stride):
        return tuple(range(count))
    seen: dict[tuple[int, ...], int] = {}
    found = []
    for i in range_constexpr(count):
        rest, place = first + i, []
        for extent, step in zip(shape, stride, strict=True):
            still = type(step) is int and step == 0
            place.append(0 if still else rest % extent)
            rest //= extent
        found.append(seen.setdefault(tuple(place), i))
    return tuple(found)
