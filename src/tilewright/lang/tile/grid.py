"""Where a block is in its grid, and promises about scalars."""

from __future__ import annotations

from typing import Any

from tilewright.ir.ops.tile.memory import GdcLaunchDependentsTko, GdcWaitTko
from tilewright.ir.ops.tile.module import Assume, GetNumTileBlocks, GetTileBlockId
from tilewright.ir.tile_attrs import DivBy
from tilewright.ir.tile_types import NUMBERS, TOKEN, TileType
from tilewright.lang.tile.dtypes import int32
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.require import constant_int, require_version, tile_of
from tilewright.lang.tile.state import EVERYTHING, api, emit, value
from tilewright.lang.tile.values import Tile, described

_I32 = TileType((), NUMBERS["i32"])


def _axis(axis: object, what: str) -> int:
    found = constant_int(axis, f"{what}: axis")
    if found not in (0, 1, 2):
        raise TileTypeError(f"{what}: a grid has the axes 0, 1 and 2, got {found}")
    return found


@api
def bid(axis: Any) -> Any:
    """Which block of the grid this is, along `axis` (0, 1 or 2).

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     ct.store(y, (ct.bid(0), ct.bid(1)), ct.bid(0) * 10 + ct.bid(1))
    >>> y = np.zeros((2, 3), np.int32)
    >>> ct.launch(None, (2, 3), example, (y,)); y
    array([[ 0,  1,  2],
           [10, 11, 12]], dtype=int32)
    """
    at = _axis(axis, "bid")
    return Tile(emit(GetTileBlockId, (), (_I32,) * 3).results[at], int32, ())


@api
def num_blocks(axis: Any) -> Any:
    """How many blocks the grid has along `axis` (0, 1 or 2).

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     for i in range(ct.bid(0), 6, ct.num_blocks(0)):
    ...         ct.store(y, i, ct.bid(0))
    >>> y = np.zeros(6, np.int32)
    >>> ct.launch(None, (2,), example, (y,)); y
    array([0, 1, 0, 1, 0, 1], dtype=int32)
    """
    at = _axis(axis, "num_blocks")
    return Tile(emit(GetNumTileBlocks, (), (_I32,) * 3).results[at], int32, ())


@api
def assume_divisible_by(x: Any, divisor: Any) -> Any:
    """`x`, with the promise that `divisor` divides it: a power of two is told to the compiler.

    A broken promise is undefined behaviour.
    """
    by = constant_int(divisor, "assume_divisible_by: divisor")
    tile = tile_of(x, "assume_divisible_by")
    if tile.shape_ or not tile.dtype_.is_int:
        raise TileTypeError(
            f"assume_divisible_by: expected an integer scalar, got {described(tile)}"
        )
    if by <= 0:
        raise TileTypeError(f"assume_divisible_by: expected a positive divisor, got {by}")
    if tile.const is not None:
        if int(tile.const) % by:
            raise TileTypeError(f"assume_divisible_by: {by} does not divide {tile.const}")
        return x
    power = by & -by
    if power == 1:
        return tile
    return Tile(value(Assume, (tile.ir,), tile.type, predicate=DivBy(power)), tile.dtype_, ())


@api
def grid_dependency_control_wait() -> None:
    """Waits for the grids that this one was launched after."""
    require_version(GdcWaitTko.since, "grid_dependency_control_wait")
    emit(GdcWaitTko, (), (TOKEN,), segments=(0,), aliases=EVERYTHING)


@api
def grid_dependency_control_launch_dependents() -> None:
    """Lets the grids that were launched after this one begin."""
    require_version(GdcLaunchDependentsTko.since, "grid_dependency_control_launch_dependents")
    emit(GdcLaunchDependentsTko, (), (TOKEN,), segments=(0,), aliases=EVERYTHING)
