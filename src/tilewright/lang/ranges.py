"""What `for` statements of captured functions run over."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from tilewright.errors import CaptureError, TypeMismatchError
from tilewright.lang import trace
from tilewright.lang.operations import common_type
from tilewright.lang.scalar import Scalar, describe, numeric_of, static_number
from tilewright.numeric.dtypes import I32


class LoopRange:
    """``range(start, stop, step)`` as the range of an IR loop, and how it is to be unrolled.

    `unroll`: -1 leaves it to the compiler, 0 unrolls fully, n by n (1 keeps the loop).
    """

    __slots__ = ("bounds", "unroll")

    def __init__(self, bounds: tuple[Any, ...], unroll: int = -1) -> None:
        if not 1 <= len(bounds) <= 3:
            raise TypeMismatchError(
                f"range: expected 1 to 3 bounds, got {len(bounds)}", loc=trace.loc()
            )
        for b in bounds:
            if not _is_integer(b):
                raise TypeMismatchError(
                    f"range: expected integers, got {describe(b)}", loc=trace.loc()
                )
        start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        kind = numeric_of(I32)
        for b in (start, stop, step):
            kind = common_type(kind._of(0), b)
        self.bounds: tuple[Scalar, Scalar, Scalar] = (kind(start), kind(stop), kind(step))
        if static_number(self.bounds[2]) == 0:
            raise TypeMismatchError("range: the step must not be 0", loc=trace.loc())
        self.unroll = unroll

    def static_range(self) -> builtins.range | None:
        """The Python range, if all bounds are known at compile time."""
        known = [static_number(b) for b in self.bounds]
        if any(n is None for n in known):
            return None
        return builtins.range(*(int(n) for n in known if n is not None))

    def __iter__(self) -> Iterator[int]:
        """Python's own iteration, where nothing is captured."""
        known = self.static_range()
        if known is None:
            raise CaptureError(
                "a range with run-time bounds can only be looped over by a `for` statement",
                loc=trace.loc(),
                hint="write `for i in range(n):` directly in a @kernel or @jit function",
            )
        return iter(known)


def _is_integer(x: object) -> bool:
    if isinstance(x, Scalar):
        return not type(x).is_float
    return isinstance(x, int)


def range_(
    *bounds: Any,
    unroll: int | None = None,
    unroll_full: bool = False,
    prefetch_stages: int | None = None,
    pipelining: int | None = None,
    vectorize: bool | None = None,
) -> LoopRange:
    """A loop at run time over ``range(*bounds)``, whose bounds may be run-time values.

    `unroll` asks the compiler to unroll by that factor, `unroll_full` completely.
    `prefetch_stages`, `pipelining` and `vectorize` are accepted for CuTe's sake; they change
    nothing that a kernel computes.
    """
    del prefetch_stages, pipelining, vectorize
    if unroll is not None and unroll < 1:
        raise TypeMismatchError(f"range: unroll must be at least 1, got {unroll}", loc=trace.loc())
    return LoopRange(bounds, 0 if unroll_full else -1 if unroll is None else unroll)


def range_constexpr(*bounds: Any) -> builtins.range:
    """Python's own range: the loop is unrolled, and its index is a Python int.

    Raises: CaptureError if a bound is known only at run time.
    """
    known = [static_number(b) for b in bounds]
    for given, number in zip(bounds, known, strict=True):
        if not isinstance(number, int):
            raise CaptureError(
                f"range_constexpr: expected bounds known at compile time, got {describe(given)}",
                loc=trace.loc(),
                hint="loop with range(...), or pass the bound as a Constexpr argument",
            )
    return builtins.range(*(int(n) for n in known if n is not None))
