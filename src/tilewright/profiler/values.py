"""The grammar of the profiler's arguments, which is CUTLASS's: lists, ranges, types and layouts.

integers      16  |  16,32  |  64:256:64 (both ends included)  |  any list of those
operands      f16:row  |  f16:row,bf16:column  |  *:row  |  f16:*  |  f16 (any layout)
distribution  gaussian,mean:0,stddev:1  |  uniform,min:-4,max:4,scale:0  |  sequential,start:0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tilewright.errors import DTypeError, TilewrightError
from tilewright.numeric.dtypes import dtype

_Value = TypeVar("_Value")

MAX_VALUES = 100_000
"""Values that one argument may stand for: more is a slip of the pen."""

_LAYOUTS = {"row": "row", "t": "row", "column": "column", "col": "column", "n": "column", "*": "*"}


@dataclass(frozen=True, slots=True)
class OperandPattern:
    """Which element types and layouts an operand may have; `*` is any.

    >>> operands("bf16:col", "--B")[0]
    OperandPattern(dtype='bf16', layout='column')
    """

    dtype: str = "*"
    layout: str = "*"

    def matches(self, dtype: str, layout: str) -> bool:
        return self.dtype in ("*", dtype) and self.layout in ("*", layout)

    def __str__(self) -> str:
        return f"{self.dtype}:{self.layout}"


@dataclass(frozen=True, slots=True)
class Distribution:
    """How inputs are drawn: `kind` and its parameters.

    gaussian: `first` mean, `second` standard deviation.  uniform: from `first` to `second`.
    sequential: starts at `first`, grows by `second`.  With `scale` >= 0, values keep that many
    binary digits after the point, so that 0 gives integers.
    """

    kind: str = "gaussian"
    first: float = 0.0
    second: float = 1.0
    scale: int = -1


def integers(text: str, flag: str) -> tuple[int, ...]:
    """The integers that `text` stands for, in its order.

    Raises: TilewrightError for what is not a list of integers and ranges.

    >>> integers("8,64:256:64", "--m")
    (8, 64, 128, 192, 256)
    """
    found: list[int] = []
    for item in _items(text, flag):
        parts = item.split(":")
        try:
            numbers = [int(part) for part in parts]
        except ValueError:
            numbers = []
        if not 1 <= len(numbers) <= 3:
            raise TilewrightError(
                f"{flag}: {item!r} is not an integer or a range, expected 256 or start:end[:step]"
            )
        if len(numbers) == 1:
            found += numbers
            continue
        start, end, step = (*numbers, 1)[:3]
        if step < 1 or end < start:
            raise TilewrightError(
                f"{flag}: range {item!r} is empty, expected start <= end and a step of 1 or more"
            )
        if (end - start) // step >= MAX_VALUES:
            raise TilewrightError(
                f"{flag}: range {item!r} has {(end - start) // step + 1:,} values, the limit is "
                f"{MAX_VALUES:,}",
                hint=f"give it a step: {start}:{end}:{max((end - start) // 8, 1)}",
            )
        found += range(start, end + 1, step)
    return tuple(found)


def sizes(text: str, flag: str) -> tuple[int, ...]:
    """`integers` that count something.  Raises: TilewrightError for a negative one."""
    return _checked(integers(text, flag), flag, lambda n: n >= 0, "0 or more")


def counts(text: str, flag: str) -> tuple[int, ...]:
    """`integers` of which there is at least one.  Raises: TilewrightError for 0 or less."""
    return _checked(integers(text, flag), flag, lambda n: n >= 1, "1 or more")


def numbers(text: str, flag: str) -> tuple[float, ...]:
    """A list of finite numbers, such as `--alpha=1,0.5`.

    Raises: TilewrightError for anything else.
    """
    found: list[float] = []
    for item in _items(text, flag):
        try:
            found.append(float(item))
        except ValueError:
            raise TilewrightError(f"{flag}: {item!r} is not a number") from None
        if not math.isfinite(found[-1]):
            raise TilewrightError(f"{flag}: {item!r}, expected a finite number")
    return tuple(found)


def operands(text: str, flag: str) -> tuple[OperandPattern, ...]:
    """The patterns of one operand.

    Raises: TilewrightError for an element type or a layout that does not exist.

    >>> [str(p) for p in operands("half:t,*:n,f32", "--A")]
    ['f16:row', '*:column', 'f32:*']
    """
    return tuple(_operand(item, flag) for item in _items(text, flag))


def types(text: str, flag: str) -> tuple[str, ...]:
    """A list of element types by our names, or `*`.

    >>> types("float,bfloat16", "--accum")
    ('f32', 'bf16')
    """
    return tuple(_type(item, flag) for item in _items(text, flag))


def choices(text: str, flag: str, known: Mapping[str, _Value]) -> tuple[_Value, ...]:
    """A list of words, each one of `known`.  Raises: TilewrightError naming those."""
    found = []
    for item in _items(text, flag):
        if item.lower() not in known:
            raise TilewrightError(f"{flag}: {item!r}, expected {', '.join(known)}")
        found.append(known[item.lower()])
    return tuple(found)


def tags(text: str, flag: str) -> tuple[tuple[str, str], ...]:
    """Extra columns of the report.

    >>> tags("machine:h200,run:7", "--tags")
    (('machine', 'h200'), ('run', '7'))
    """
    found = []
    for item in _items(text, flag):
        column, separator, value = item.partition(":")
        if not separator or not column:
            raise TilewrightError(f"{flag}: {item!r}, expected column:value")
        found.append((column, value))
    return tuple(found)


# kind -> the names of `first` and `second`, and their defaults.
_DISTRIBUTIONS = {
    "gaussian": (("mean", 0.0), ("stddev", 1.0)),
    "uniform": (("min", -1.0), ("max", 1.0)),
    "sequential": (("start", 0.0), ("delta", 1.0)),
}


def distribution(text: str, flag: str) -> Distribution:
    """How to draw inputs.

    Raises: TilewrightError for a kind or a parameter that does not exist.

    >>> distribution("uniform,min:-3,max:3,scale:0", "--dist")
    Distribution(kind='uniform', first=-3.0, second=3.0, scale=0)
    """
    kind, *parameters = _items(text, flag)
    if kind not in _DISTRIBUTIONS:
        raise TilewrightError(f"{flag}: {kind!r}, expected {', '.join(_DISTRIBUTIONS)}")
    values = {**dict(_DISTRIBUTIONS[kind]), "scale": -1.0}
    for item in parameters:
        name, _, value = item.partition(":")
        if name not in values:
            raise TilewrightError(f"{flag}: {kind} has no {name!r}, expected {', '.join(values)}")
        values[name] = numbers(value, f"{flag}: {name}")[0]
    first, second = (values[name] for name, _ in _DISTRIBUTIONS[kind])
    return Distribution(kind, first, second, int(values["scale"]))


def _items(text: str, flag: str) -> list[str]:
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise TilewrightError(f"{flag}: {text!r} has an empty entry")
    return items


def _operand(item: str, flag: str) -> OperandPattern:
    name, separator, layout = item.partition(":")
    layout = layout.strip().lower() if separator else "*"
    if layout not in _LAYOUTS:
        raise TilewrightError(
            f"{flag}: {item!r} has layout {layout!r}, expected row or column (t or n, * for any)"
        )
    return OperandPattern(_type(name.strip(), flag), _LAYOUTS[layout])


def _type(name: str, flag: str) -> str:
    if name == "*":
        return name
    try:
        return dtype(name).name
    except DTypeError as error:
        raise TilewrightError(f"{flag}: {error.message.removeprefix('dtype: ')}") from error


def _checked(
    found: tuple[int, ...], flag: str, fits: Callable[[int], bool], expected: str
) -> tuple[int, ...]:
    for value in found:
        if not fits(value):
            raise TilewrightError(f"{flag}: {value}, expected {expected}")
    return found
