"""Python's builtins for run-time values: what `min`, `print`, ... mean in captured functions."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any

from tilewright.ir.ops import arith
from tilewright.lang import trace
from tilewright.lang.operations import binary, select, truth
from tilewright.lang.scalar import Scalar, as_numeric, is_number, numeric_of
from tilewright.numeric.dtypes import BOOL, F32, I32


def _extreme(python: Callable[..., Any], op: type[arith.Min | arith.Max]) -> Callable[..., Any]:
    def chosen(*args: Any, **options: Any) -> Any:
        items = list(args[0]) if len(args) == 1 and not isinstance(args[0], Scalar) else list(args)
        numbers = all(is_number(x) for x in items)
        if options or not numbers or not any(isinstance(x, Scalar) for x in items):
            return python(*args, **options)
        result = items[0]
        for item in items[1:]:
            result = binary(op, result, item)
        return result

    chosen.__name__ = python.__name__
    chosen.__doc__ = f"Python's `{python.__name__}`, also of run-time numbers."
    return chosen


min = _extreme(builtins.min, arith.Min)
max = _extreme(builtins.max, arith.Max)


def all(items: Iterable[Any]) -> Any:
    """Python's `all`, also of run-time numbers; every item is evaluated."""
    result: Any = True
    for item in items:
        result = _both(arith.And, result, item)
        if result is False:
            return False
    return result


def any(items: Iterable[Any]) -> Any:
    """Python's `any`, also of run-time numbers; every item is evaluated."""
    result: Any = False
    for item in items:
        result = _both(arith.Or, result, item)
        if result is True:
            return True
    return result


def _both(op: type[arith.And | arith.Or], a: Any, b: Any) -> Any:
    neutral = op is arith.And
    for x, other in ((a, b), (b, a)):
        known = x if not isinstance(x, Scalar) else x.raw if x.is_static else None
        if known is not None:
            if bool(known) != neutral:
                return not neutral
            return other if isinstance(other, Scalar) else bool(other)
    return binary(op, truth(a), truth(b))


def bool_(x: Any = False) -> Any:
    """Python's `bool`; of a run-time number, a Boolean."""
    return truth(x) if isinstance(x, Scalar) and not x.is_static else bool(x)


def int_(x: Any = 0, *base: Any) -> Any:
    """Python's `int`; a run-time float is truncated to Int32, run-time integers stay."""
    if isinstance(x, Scalar) and not x.is_static:
        return x if type(x).is_integer else numeric_of(I32)(x)
    return int(x, *base)


def float_(x: Any = 0.0) -> Any:
    """Python's `float`; of a run-time number, Float32 (floats stay)."""
    if isinstance(x, Scalar) and not x.is_static:
        return x if type(x).is_float else numeric_of(F32)(x)
    return float(x)


def print_(*items: Any, sep: str = " ", end: str = "\n", **options: Any) -> None:
    """Prints while the function is captured; run-time values show as their IR names."""
    active = trace.current()
    if active is None or options:
        print(*items, sep=sep, end=end, **options)
    else:
        active.print(sep.join(str(x) for x in items) + end)


def contains(x: Any, items: Any) -> Any:
    """``x in items``; for run-time numbers, whether any item of a tuple or list equals x."""
    if not isinstance(items, tuple | list | set | frozenset | range):
        return x in items
    run_time = isinstance(x, Scalar) and not x.is_static
    if not run_time and not builtins.any(isinstance(i, Scalar) for i in items):
        return x in items
    return any(item is x or item == x for item in items)


def choose(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`; both are evaluated (CuTe's `select_`)."""
    return select(condition, a, b)


REPLACED: dict[object, Callable[..., Any]] = {
    builtins.min: min,
    builtins.max: max,
    builtins.all: all,
    builtins.any: any,
    builtins.bool: bool_,
    builtins.int: int_,
    builtins.float: float_,
    builtins.print: print_,
}
"""The builtins that captured functions call in another form."""


def boolean(x: Any) -> Any:
    """`x` as a Boolean."""
    return numeric_of(BOOL)(truth(as_numeric(x)))
