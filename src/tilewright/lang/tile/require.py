"""Arguments of the public functions that must be constants: shapes, axes, enums, flags."""

from __future__ import annotations

import enum
from typing import Any, TypeVar

from tilewright.ir.ops.tile.base import Version
from tilewright.lang.tile.errors import (
    TileTypeError,
    TileUnsupportedFeatureError,
    TileValueError,
)
from tilewright.lang.tile.state import trace
from tilewright.lang.tile.values import Array, Shape, Tile, as_tile, constant_of, described

E = TypeVar("E", bound=enum.Enum)


def require_version(since: Version, what: str) -> None:
    """Raises: TileUnsupportedFeatureError if the kernel is captured for an older Tile IR."""
    if trace().version < since:
        raise TileUnsupportedFeatureError(
            f"{what} needs Tile IR {since[0]}.{since[1]} or later, this is "
            f"{'.'.join(map(str, trace().version))}"
        )


def constant_int(x: object, what: str) -> int:
    """Raises: TileTypeError if `x` is no integer known at compile time."""
    found = constant_of(x)
    if isinstance(found, bool) or not isinstance(found, int):
        raise TileTypeError(f"{what}: expected a constant integer, got {described(x)}")
    return found


def constant_bool(x: object, what: str) -> bool:
    found = constant_of(x)
    if not isinstance(found, bool):
        raise TileTypeError(f"{what}: expected True or False, got {described(x)}")
    return found


def constant_enum(x: object, kind: type[E], what: str) -> E:
    """A member, or its name."""
    if isinstance(x, kind):
        return x
    if isinstance(x, str) and x in kind.__members__:
        return kind.__members__[x]
    raise TileTypeError(f"{what}: expected a {kind.__name__}, got {described(x)}")


def optional_enum(x: object, kind: type[E], what: str) -> E | None:
    return None if x is None else constant_enum(x, kind, what)


def constant_ints(x: object, what: str) -> tuple[int, ...]:
    """A tuple of constant integers; a single one stands for a tuple of one."""
    items: tuple[Any, ...] = x if isinstance(x, tuple) else (x,)
    return tuple(constant_int(item, what) for item in items)


def tile_shape(x: object, what: str, rank: int | None = None) -> Shape:
    """The extents of a tile: constant powers of two.

    Raises: TileTypeError otherwise.
    """
    shape = constant_ints(x, what)
    for i, extent in enumerate(shape):
        if extent <= 0 or extent & (extent - 1):
            raise TileTypeError(
                f"{what}: the extents of a tile are powers of two, got {extent} at position {i} "
                f"of {shape}"
            )
    if rank is not None and len(shape) != rank:
        raise TileTypeError(f"{what}: expected {rank} extents, got {shape}")
    return shape


def axis_of(x: object, rank: int, what: str) -> int:
    """A dimension of `rank`, counted from the end if negative."""
    axis = constant_int(x, what)
    if not -rank <= axis < rank:
        raise TileTypeError(f"{what}: axis {axis} does not exist in rank {rank}")
    return axis % rank if rank else 0


def axis_order(x: object, rank: int, what: str) -> tuple[int, ...]:
    """A permutation of the axes; 'C' is the identity and 'F' its reverse."""
    if x == "C":
        return tuple(range(rank))
    if x == "F":
        return tuple(reversed(range(rank)))
    if isinstance(x, str):
        raise TileTypeError(f"{what}: expected 'C', 'F' or a tuple of axes, got {x!r}")
    order = tuple(axis_of(item, rank, what) for item in constant_ints(x, what))
    if sorted(order) != list(range(rank)):
        raise TileTypeError(f"{what}: {order} is no permutation of {rank} axes")
    return order


def array_of(x: object, what: str) -> Array:
    """Raises: TileTypeError if `x` is no array."""
    if not isinstance(x, Array):
        raise TileTypeError(f"{what}: expected an array, got {described(x)}")
    return x


def tile_of(x: object, what: str) -> Tile:
    """A tile; a number is a scalar tile."""
    return as_tile(x, what)


def index_items(x: object) -> tuple[Any, ...]:
    """The items of an index: a tuple, or one item that stands for a tuple of one."""
    return x if isinstance(x, tuple) else (x,)


def latency_of(x: object) -> int | None:
    """A latency hint: 1 to 10, or None."""
    if x is None:
        return None
    latency = constant_int(x, "latency")
    if not 1 <= latency <= 10:
        raise TileValueError(f"latency: expected 1 to 10, got {latency}")
    return latency
