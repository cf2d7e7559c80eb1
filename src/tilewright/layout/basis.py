"""Scaled basis vectors: strides whose layout returns coordinates instead of offsets.

``E(i)`` is the unit vector of axis i; ``E(i, j)`` that of axis j inside axis i.  A layout
``(M,K):(E(0),E(1))`` maps the coordinate (m, k) to itself: this is how identity tensors and TMA
coordinate tensors are written.  In print, ``v@j@i`` stands for ``v*E(i, j)``.
"""

from __future__ import annotations

from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.leaf import Leaf, as_leaf, mul, provably_equal


class ScaledBasis:
    """``value * E(*path)``: `value` steps along the axis that `path` names, outermost first.

    Law:    ``k * ScaledBasis(v, p) == ScaledBasis(k*v, p)``.
    Raises: LayoutError if the path is empty or holds anything but axis numbers >= 0.

    >>> 2 * E(0), 4 * E(0, 1)
    (ScaledBasis(2, (0,)), ScaledBasis(4, (0, 1)))
    >>> print(4 * E(0, 1), E(1).at(7))
    4@1@0 (0, 7)
    """

    __slots__ = ("basis_value", "path")

    basis_value: Leaf
    path: tuple[int, ...]

    def __init__(self, value: Leaf, path: tuple[int, ...] | int) -> None:
        axes = (path,) if isinstance(path, int) else tuple(path)
        if not axes or not all(type(axis) is int and axis >= 0 for axis in axes):
            raise LayoutError(f"ScaledBasis: expected axis numbers >= 0 as path, got {path!r}")
        self.basis_value = as_leaf(value, "ScaledBasis value")
        self.path = axes

    @property
    def value(self) -> Leaf:
        """The scale: steps along the axis, in elements of that axis."""
        return self.basis_value

    @property
    def mode(self) -> tuple[int, ...]:
        """The axis path, outermost first."""
        return self.path

    def at(self, coord: Leaf) -> tuple[Any, ...]:
        """The coordinate ``coord * value * E(*path)``, zeros on the axes before it."""
        point: Any = mul(coord, self.basis_value)
        for axis in reversed(self.path):
            point = (0,) * axis + (point,)
        return point  # type: ignore[no-any-return]

    def scaled(self, value: Leaf) -> ScaledBasis:
        """The same axis with another scale."""
        return ScaledBasis(value, self.path)

    def provably_equal(self, other: object) -> bool:
        """Same axis, and certainly the same scale."""
        return (
            isinstance(other, ScaledBasis)
            and self.path == other.path
            and provably_equal(self.basis_value, other.basis_value)
        )

    def __mul__(self, factor: Leaf) -> ScaledBasis:
        return ScaledBasis(mul(self.basis_value, factor), self.path)

    def __rmul__(self, factor: Leaf) -> ScaledBasis:
        return ScaledBasis(mul(factor, self.basis_value), self.path)

    def __eq__(self, other: object) -> bool:
        return self.provably_equal(other)

    def __hash__(self) -> int:
        return hash((self.basis_value, self.path))

    def __repr__(self) -> str:
        return f"ScaledBasis({self.basis_value!r}, {self.path})"

    def __str__(self) -> str:
        return f"{self.basis_value}" + "".join(f"@{axis}" for axis in reversed(self.path))


def E(*path: int | list[int] | tuple[int, ...]) -> ScaledBasis:
    """The unit vector of the axis at `path`; ``E(0, 1) == E([0, 1])``.

    >>> print(E(1), E(0, 1))
    1@1 1@1@0
    """
    axes = path[0] if len(path) == 1 and isinstance(path[0], (list, tuple)) else path
    return ScaledBasis(1, tuple(axes))  # type: ignore[arg-type]
