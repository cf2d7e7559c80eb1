"""The short way through a launch whose like has been launched before.

A *fast key* is what Python can read off the arguments in a microsecond or two: of an array its
element type, extents, strides, its address modulo 16, its device; of a number its type;
of a constant its value.  Equal keys differ in addresses and numbers only, which are the *values*.
Arguments with parts (tuples, lists, dataclasses) have no fast key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.lang.tile.kernel import kernel

Key = tuple[Any, ...]
_NUMBERS = (int, float, bool)
_CONSTANTS = (*_NUMBERS, str)
_TENSOR_METHODS = ("data_ptr", "stride", "dtype", "shape", "get_device")
_is_tensor: dict[type, bool] = {}


def fast_key(k: kernel, args: Sequence[Any]) -> tuple[Key, list[Any]] | None:
    """The fast key of a launch's arguments and their values, or None.

    >>> @kernel
    ... def scale(x, by, n):
    ...     pass
    >>> fast_key(scale, (2, 0.5, True))
    ((<class 'int'>, <class 'float'>, <class 'bool'>), [2, 0.5, True])
    """
    constants = k.constants
    if len(args) != len(constants):
        return None
    key: list[Any] = []
    values: list[Any] = []
    for constant, x in zip(constants, args):  # noqa: B905 (as long as each other, and it costs)
        kind = type(x)
        if constant:
            if kind not in _CONSTANTS:
                return None
            key += (kind, x)
        elif _is_tensor.get(kind):
            address = x.data_ptr()
            values.append(address)
            key.append((x.dtype, x.shape, x.stride(), address & 15, x.get_device()))
        elif kind in _NUMBERS:
            values.append(x)
            key.append(kind)
        elif kind not in _is_tensor:
            _is_tensor[kind] = all(hasattr(kind, name) for name in _TENSOR_METHODS)
            return None
        else:
            return None
    return tuple(key), values


def value_positions(k: kernel, args: Sequence[Any]) -> list[int | None]:
    """The leaf that each argument is, a pointer or a scalar; None for constants.

    Without the constants, these are the values of `fast_key`.
    """
    found: list[int | None] = []
    at = 0
    for parameter, x in zip(k.parameters, args, strict=True):
        found.append(None if parameter.constant else at)
        if not parameter.constant:
            at += 1 + 2 * len(x.shape) if hasattr(x, "shape") else 1
    return found
