"""How a group of threads holds an SSA value.

    uniform   a Python number: every thread of the group has it.  Costs no NumPy.
    scalar    an array [threads] of the type's storage dtype (addresses: int64)
    vector    an array [threads, count]; [1, count] if every thread has the same
    register pointer   the pair (array, element offset); the offset is uniform or [threads]

Values are immutable: an operation makes new arrays and never writes into its operands.
Float numbers are kept rounded to their type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import SimulationError
from tilewright.ir.types import PtrType, ScalarType, Space, TensorMapType, Type, VecType
from tilewright.numeric.convert import storage_dtype

Array = np.ndarray[Any, np.dtype[Any]]
Val = Any
"""A value as described above."""

Rows = slice | Array
"""Which threads: a slice if they are consecutive, else their numbers."""

INT64 = np.dtype(np.int64)
OBJECT = np.dtype(object)


def storage(t: Type) -> np.dtype[Any]:
    """The dtype of an array that holds one value of type `t` per thread."""
    if isinstance(t, ScalarType | VecType):
        return storage_dtype(t.dtype)
    return OBJECT if isinstance(t, TensorMapType) else INT64


def is_array(v: Val) -> bool:
    return type(v) is np.ndarray


def take(v: Val, where: Rows) -> Val:
    """The value as held by some of the threads of a group of at least two."""
    if type(v) is np.ndarray:
        return v[where] if v.shape[0] != 1 else v
    if type(v) is tuple:
        return (v[0], take(v[1], where))
    return v


def narrow(v: Val) -> Val:
    """The same value, as a Python number if all threads agree (or there is only one)."""
    if type(v) is tuple:
        return (v[0], narrow(v[1]))
    if type(v) is not np.ndarray or v.ndim != 1:
        return v
    if v.shape[0] == 1:
        return v.item()
    if v.dtype.kind in "iub" and bool((v == v[0]).all()):
        return v[0].item()
    return v


def spread(v: Val, t: Type, n: int) -> Array:
    """The value of type `t` as one row per thread (a read-only view if it is uniform)."""
    dt = storage(t)
    shape = (n, t.count) if isinstance(t, VecType) else (n,)
    if type(v) is np.ndarray:
        return v if v.shape == shape else np.broadcast_to(v, shape)
    if dt is OBJECT:
        filled = np.empty(n, object)
        filled[:] = [v] * n
        return filled
    return np.broadcast_to(np.array(v, dt), shape)


def merge(parts: Sequence[tuple[Val, Rows]], t: Type, n: int) -> Val:
    """One value for `n` threads out of the values that its parts hold.

    Raises: SimulationError if the parts point into different register arrays.
    """
    first = parts[0][0]
    if len(parts) == 1:
        return first
    if isinstance(t, PtrType) and t.space is Space.RMEM:
        return _merge_register_pointers(parts, n)
    if type(first) is not np.ndarray and all(
        type(v) is not np.ndarray and _same(v, first) for v, _ in parts[1:]
    ):
        return first
    shape = (n, t.count) if isinstance(t, VecType) else (n,)
    out = np.empty(shape, storage(t))
    for v, rows in parts:
        out[rows] = v
    return out


def _same(a: Val, b: Val) -> bool:
    return a is b or bool(a == b and not (a == 0 and isinstance(a, float)))


def _merge_register_pointers(parts: Sequence[tuple[Val, Rows]], n: int) -> Val:
    array = parts[0][0][0]
    if any(v[0] is not array for v, _ in parts):
        names = " and ".join(dict.fromkeys(v[0].state.label or "(unnamed)" for v, _ in parts))
        raise SimulationError(
            f"threads chose different register arrays at run time ({names}); registers have no "
            "addresses, so choose between the values, not between the arrays"
        )
    offsets = [v[1] for v, _ in parts]
    if all(type(o) is int and o == offsets[0] for o in offsets):
        return parts[0][0]
    out = np.empty(n, np.int64)
    for (_, rows), offset in zip(parts, offsets, strict=True):
        out[rows] = offset
    return (array, out)
