"""C's printf on tiles: a tile with dimensions is printed as nested lists of formatted elements."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.numeric.dtypes import BOOL, F64, DType
from tilewright.tileir.interpret.convert_ops import floats
from tilewright.tileir.interpret.values import as_signed, as_unsigned

_SPEC = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\d*)(?:\.(?P<precision>\d*))?[^%a-zA-Z]*(?:[hljztLqw]*)"
    r"(?P<letter>[diouxXeEfFgGaAcspn%])"
)
_UNSIGNED = "uxXopc"
_FLOAT = "eEfFgGaA"


def formatted(text: str, args: Sequence[Any], rows: Sequence[DType]) -> str:
    """`text` with the tiles `args`, whose elements are of `rows`, in place of its conversions.

    >>> from tilewright.numeric.dtypes import F32, I8
    >>> formatted("%5.2f|%u|%%\\n", [np.float32([0.5, 2]), np.int8(-1)], [F32, I8])
    '[ 0.50,  2.00]|255|%\\n'
    """
    waiting = list(zip(args, rows, strict=True))

    def replace(match: re.Match[str]) -> str:
        if match["letter"] == "%":
            return "%"
        value, row = waiting.pop(0)
        if match["letter"] == "n":
            return ""
        return _nested(_numbers(value, row, match["letter"]), _formatter(match))

    return _SPEC.sub(replace, text)


def _numbers(value: Any, row: DType, letter: str) -> Any:
    """Elements as the conversion reads them."""
    array = np.asarray(value)
    if row.is_float:
        return (array if row is F64 else floats(row, F64)(array)).tolist()
    read = as_unsigned if row is BOOL or letter in _UNSIGNED else as_signed
    return read(array, row).tolist()


def _nested(value: Any, show: Callable[[Any], str]) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_nested(v, show) for v in value) + "]"
    return show(value)


def _formatter(match: re.Match[str]) -> Callable[[Any], str]:
    letter = match["letter"]
    precision = "" if match["precision"] is None else "." + match["precision"]
    python = f"%{match['flags']}{match['width']}{precision}"

    def show(value: Any) -> str:
        if letter in _FLOAT:
            return _float(python, letter, float(value))
        if letter == "c":
            return (python + "c") % chr(int(value) & 0xFF)
        if letter == "s":
            return str((python + "s") % value)
        if isinstance(value, float) and not np.isfinite(value):
            return str(value)
        kind = {"i": "d", "u": "d", "p": "x"}.get(letter, letter)
        shown = (python + kind) % int(value)
        return shown.replace("0o", "0") if letter == "o" else shown

    return show


def _float(python: str, letter: str, value: float) -> str:
    if letter in "aA" and np.isfinite(value):
        shown = value.hex()
        return shown.upper() if letter == "A" else shown
    shown = (python + (letter if letter not in "aA" else "f")) % value
    return shown.upper() if letter in "FEGA" else shown
