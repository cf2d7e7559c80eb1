"""Printing from a kernel: `printf`, and whole tensors."""

from __future__ import annotations

import re
from typing import Any

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.ops.control import Printf
from tilewright.lang import trace
from tilewright.lang.cute.tensor import Tensor
from tilewright.lang.cute.tensor_ssa import TensorSSA
from tilewright.lang.cute.transfer import static_size
from tilewright.lang.values import Float32, Int32, as_numeric, describe, is_number
from tilewright.layout.int_tuple import fmt, leaves
from tilewright.layout.modes import rank, size

MAX_ARGUMENTS = 32
"""What one device printf takes."""
MAX_ELEMENTS = 4096
_CONVERSION = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z)?([a-zA-Z%])")


def printf(format: Any, *args: Any) -> None:
    """Prints from the device: C's conversions, or ``{}`` for each value; tuples print in full.

    Without a format the values are separated by spaces.
    Raises: TypeMismatchError if conversions and values do not match, or a value is no number.
    """
    if not isinstance(format, str):
        args = (format, *args)
        format = " ".join("{}" for _ in args) + "\n"
    if "{}" in format:
        format, values = _braces(format, args)
    else:
        values = [_number(a) for a in args]
    wanted = [c for c in _CONVERSION.findall(format) if c != "%"]
    if len(wanted) != len(values):
        raise TypeMismatchError(
            f"printf: {format!r} has {len(wanted)} conversions for {len(values)} values",
            loc=trace.loc(),
        )
    if len(values) > MAX_ARGUMENTS:
        raise TypeMismatchError(
            f"printf: {len(values)} values, the device prints at most {MAX_ARGUMENTS} at once",
            loc=trace.loc(),
        )
    trace.emit(Printf, *(v.ir_value() for v in values), format=format)


def _braces(format: str, args: tuple[Any, ...]) -> tuple[str, list[Any]]:
    pieces = format.split("{}")
    if len(pieces) - 1 != len(args):
        raise TypeMismatchError(
            f"printf: {format!r} has {len(pieces) - 1} places for {len(args)} values",
            loc=trace.loc(),
        )
    text, values = pieces[0], []
    for piece, arg in zip(pieces[1:], args, strict=True):
        shown, more = _shown(arg)
        text += shown + piece
        values += more
    return text, values


def _shown(arg: Any) -> tuple[str, list[Any]]:
    """How a value prints: its conversions, and the numbers that fill them."""
    if isinstance(arg, str):
        return arg.replace("%", "%%"), []
    if isinstance(arg, tuple | list):
        parts = [_shown(a) for a in arg]
        return "(" + ",".join(p[0] for p in parts) + ")", [n for p in parts for n in p[1]]
    if not is_number(arg):
        return str(arg).replace("%", "%%"), []
    if not isinstance(arg, int | float) and not arg.is_static:
        number = _number(arg)
        return _conversion(number), [number]
    return str(arg).replace("%", "%%"), []


def _number(x: Any) -> Any:
    if not is_number(x):
        raise TypeMismatchError(f"printf: expected a number, got {describe(x)}", loc=trace.loc())
    n = as_numeric(x)
    if type(n).is_float:
        return n if n.dtype.width == 64 else Float32(n)
    return n if n.dtype.width >= 32 else Int32(n)


def _conversion(number: Any) -> str:
    kind = type(number)
    if kind.is_float:
        return "%f"
    letter = "d" if kind.signed else "u"
    return f"%ll{letter}" if kind.width == 64 else f"%{letter}"


def print_tensor(tensor: Tensor | TensorSSA, *, verbose: bool = False) -> None:
    """Prints every element, one line for each index of the modes beyond the first.

    Raises: LayoutError for tensors whose shape is not known at compile time, or too large.
    """
    if isinstance(tensor, TensorSSA):
        _print_values(f"{tensor}", [tensor[i] for i in range(tensor.size)], tensor.size)
        return
    count = static_size(tensor.layout, "print_tensor")
    if count > MAX_ELEMENTS:
        raise LayoutError(
            f"print_tensor: {count} elements, at most {MAX_ELEMENTS} are printed",
            details={"tensor": tensor},
            loc=trace.loc(),
            hint="print a tile of it",
        )
    row = size(tensor.layout, [0]) if rank(tensor.layout) > 1 else count
    head = f"{tensor}" if verbose else f"tensor {fmt(tensor.shape)}"
    elements: list[Any] = [tensor[i] for i in range(count)]
    _print_values(head, elements, row)


def _print_values(head: str, elements: list[Any], row: int) -> None:
    printf(head.replace("%", "%%").replace("{}", "") + "\n")
    for start in range(0, len(elements), row):
        line = elements[start : start + row]
        width = len(list(leaves(line[0]))) if isinstance(line[0], tuple) else 1
        step = max(MAX_ARGUMENTS // width, 1)
        for at in range(0, len(line), step):
            chunk = line[at : at + step]
            end = "\n" if at + step >= len(line) else " "
            printf(" ".join("{}" for _ in chunk) + end, *chunk)
