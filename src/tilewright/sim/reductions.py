"""What atomics and reductions make of the value in memory and their operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.numeric.dtypes import DType
from tilewright.sim.exec_arith import array_rounder
from tilewright.sim.values import Array


def _exchange(old: Array, new: Array) -> Array:
    del old
    return new


def _wrap_up(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, 0, old + 1).astype(old.dtype)


def _wrap_down(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - 1).astype(old.dtype)


def combiner(kind: str, dtype: DType) -> Callable[[Array, Array], Array]:
    """What an atomic or a reduction makes of the old value and the operand.

    `inc` and `dec` count up to the operand, or down from it, and start again.
    """
    functions: dict[str, Callable[[Any, Any], Any]] = {
        "add": np.add,
        "min": np.fmin if dtype.is_float else np.minimum,
        "max": np.fmax if dtype.is_float else np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "exch": _exchange,
        "inc": _wrap_up,
        "dec": _wrap_down,
    }
    f = functions[kind]
    finish = array_rounder(dtype)
    if finish is None or kind == "exch":
        return f
    rounded = finish
    return lambda old, v: rounded(f(old.astype(np.float32), v.astype(np.float32)))
