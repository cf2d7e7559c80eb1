"""Printing and assertions of kernels."""

from __future__ import annotations

import re
from typing import Any

from tilewright.ir.ops.tile.control import Assert
from tilewright.ir.ops.tile.memory import PrintTko
from tilewright.ir.tile_types import TOKEN
from tilewright.lang.tile.convert import converted
from tilewright.lang.tile.dtypes import DType, Kind, bool_, float32, int32
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.frames import FormattedString
from tilewright.lang.tile.require import tile_of
from tilewright.lang.tile.state import api, emit
from tilewright.lang.tile.strings import format_piece, joined_strings
from tilewright.lang.tile.values import Tile, described

_INTS, _FLOATS = "diouxX", "eEfFgGaA"
_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\d*)(?P<precision>(?:\.\d*)?)"
    r"(?P<length>hh|h|ll|l|j|z|t|L)?(?P<letter>[a-zA-Z])"
)
_PYTHON = re.compile(
    r"(?P<align>[<>])?(?P<sign>[-+ ])?(?P<alt>#)?(?P<zero>0)?(?P<width>\d+)?"
    r"(?P<precision>\.\d+)?(?P<letter>[diouxXeEfFgGaA])?"
)


def default_format(dtype: DType) -> str:
    """The printf conversion of an element type."""
    if dtype.is_float:
        return "lf" if dtype.bitwidth == 64 else "f"
    letter = "d" if dtype is bool_ or dtype.signed else "u"
    return f"ll{letter}" if dtype.bitwidth == 64 else letter


def _fits(dtype: DType, letter: str) -> bool:
    return letter in (_FLOATS if dtype.is_float else _INTS)


def _from_python(spec: str, dtype: DType) -> str:
    """Python's format of a value as printf's."""
    match = _PYTHON.fullmatch(spec)
    if match is None:
        raise TileTypeError(f"print: the format {spec!r} has no printf form")
    got = match.groupdict(default="")
    letter = got["letter"] or default_format(dtype)
    if got["letter"] and not _fits(dtype, letter):
        raise TileTypeError(f"print: the format {spec!r} does not fit {dtype}")
    if got["letter"] and not dtype.is_float and dtype.bitwidth == 64:
        letter = f"ll{letter}"
    left = got["align"] == "<"
    flags = ("-" if left else "") + got["sign"].replace("-", "") + got["alt"]
    flags += got["zero"] if not left else ""
    return f"%{flags}{got['width']}{got['precision']}{letter}"


def _printable(tile: Tile) -> Tile:
    if tile.dtype_.kind is Kind.POINTER:
        raise TileTypeError(f"{described(tile)} cannot be printed")
    if tile.dtype_.kind is Kind.RESTRICTED:
        return converted(tile, float32)
    return converted(tile, int32) if tile.dtype_ is bool_ else tile


def _emit(text: str, tiles: list[Tile]) -> None:
    emit(
        PrintTko,
        [t.ir for t in tiles],
        (TOKEN,),
        segments=(len(tiles), 0),
        aliases=frozenset({"print"}),
        str_=text,
    )


@api
def printf(format: Any, *args: Any) -> None:
    """Prints as C's printf: once for each block, all elements of a tile.

    The format is constant; each conversion must fit the element type of its argument.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(n):
    ...     ct.printf("block %d of %d\\n", ct.bid(0), n)
    >>> n = 2
    >>> ct.launch(None, (2,), example, (n,))
    block 0 of 2
    block 1 of 2
    """
    if not isinstance(format, str):
        raise TileTypeError(f"printf: the format is a constant string, got {described(format)}")
    tiles = [tile_of(a, f"printf: argument {i}") for i, a in enumerate(args)]
    used = 0
    rest = format.replace("%%", "")
    for match in _CONVERSION.finditer(rest):
        if used == len(tiles):
            raise TileTypeError(f"printf: {format!r} takes more than {len(tiles)} values")
        dtype = tiles[used].dtype_
        if not _fits(dtype, match["letter"]):
            raise TileTypeError(f"printf: {match[0]} does not fit argument {used} of {dtype}")
        used += 1
    if _CONVERSION.sub("", rest).count("%"):
        raise TileTypeError(f"printf: {format!r} has an unknown conversion")
    if used < len(tiles):
        raise TileTypeError(f"printf: {format!r} takes {used} values, got {len(tiles)}")
    _emit(format, tiles)


@api
def print(*args: Any, sep: str = " ", end: str = "\n") -> None:
    """Prints values as Python's print: f-strings, numbers, tiles, tuples.

    Formats of f-strings are those that C's printf has too.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(n):
    ...     ct.print("n is", n, f"{n / 3:.2f}")
    >>> n = 5
    >>> ct.launch(None, (1,), example, (n,))
    n is 5 1.67
    """
    for what, text in (("sep", sep), ("end", end)):
        if not isinstance(text, str):
            raise TileTypeError(f"print: {what} is a constant string, got {described(text)}")
    pieces: list[Any] = []
    for i, arg in enumerate(args):
        pieces += ([sep] if i else []) + format_piece(arg)
    form, tiles = "", []
    whole = joined_strings([*pieces, end])
    for piece in whole.pieces if isinstance(whole, FormattedString) else (whole,):
        if isinstance(piece, str):
            form += piece.replace("%", "%%")
        else:
            tile, spec = piece
            shown = _printable(tile)
            form += _from_python(spec, shown.dtype_)
            tiles.append(shown)
    _emit(form, tiles)


@api
def assert_(cond: Any, /, message: Any = None) -> None:
    """Reports `message` if any element of `cond`, a tile of bools, is false at run time."""
    if isinstance(cond, bool):
        cond = Tile(None, bool_, (), cond)
    if not isinstance(cond, Tile) or cond.dtype_ is not bool_:
        raise TileTypeError(f"assert_: a condition is a tile of bool_, got {described(cond)}")
    if message is not None and not isinstance(message, str):
        raise TileTypeError(f"assert_: a message is a constant string, got {described(message)}")
    emit(Assert, (cond.ir,), (), message=message or "")
