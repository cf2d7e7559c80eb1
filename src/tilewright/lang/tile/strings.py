"""Strings of tile code: what Python would print, with run-time values in it."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
from typing import Any

from tilewright.lang.tile.carried import is_dataclass_value
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.frames import FormattedString
from tilewright.lang.tile.state import host_api, trace
from tilewright.lang.tile.values import Array, ArrayList, Tile, described

_HOLE = "\0"


def method_of(cls: type, name: str) -> Any:
    """A method that a class defines itself, or None."""
    for base in cls.__mro__[:-1]:
        found = vars(base).get(name)
        if isinstance(found, types.FunctionType) and not _generated(found):
            return found
    return None


def _generated(fn: types.FunctionType) -> bool:
    """Whether `dataclass` wrote the method."""
    inner = inspect.unwrap(fn)
    return isinstance(inner, types.FunctionType) and inner.__code__.co_filename == "<string>"


def format_piece(x: Any, spec: str = "", quoted: bool = False) -> list[Any]:
    """A value in a string: its text, or the value and its format if it is known at run time.

    A tile with dimensions prints element by element, its number known or not.  `quoted` is for the
    items of tuples and the fields of dataclasses, which Python shows by their `repr`.
    """
    if isinstance(x, Tile) and (x.const is None or x.shape_):
        return [(x, spec)]
    if isinstance(x, FormattedString):
        return _quoted(x) if quoted else list(x.pieces)
    if isinstance(x, tuple):
        out: list[Any] = ["("]
        for i, item in enumerate(x):
            out += [", "] * (i > 0) + format_piece(item, quoted=True)
        return [*out, ",)" if len(x) == 1 else ")"]
    if is_dataclass_value(x):
        return _object(x, quoted)
    if isinstance(x, Array | ArrayList):
        raise TileTypeError(f"{described(x)} cannot be printed", hint="load a tile first")
    plain = x.const if isinstance(x, Tile) else x
    return [repr(plain) if quoted and isinstance(plain, str | enum.Enum) else format(plain, spec)]


def _quoted(x: FormattedString) -> list[Any]:
    """The `repr` of a string with holes."""
    values = [p for p in x.pieces if not isinstance(p, str)]
    texts = repr("".join(p if isinstance(p, str) else _HOLE for p in x.pieces))
    first, *rest = texts.split(repr(_HOLE)[1:-1])
    return [first, *(part for pair in zip(values, rest, strict=True) for part in pair)]


def _object(x: Any, quoted: bool) -> list[Any]:
    """A dataclass, by its own `__str__` or `__repr__` or by its fields."""
    own = None if quoted else method_of(type(x), "__str__")
    own = own or method_of(type(x), "__repr__")
    if own is not None:
        call = trace().call
        assert call is not None, "the evaluator sets it"
        return format_piece(call(own, [x]))
    out: list[Any] = [f"{type(x).__qualname__.rpartition('.')[2]}("]
    shown = [f for f in dataclasses.fields(x) if f.repr]
    for i, f in enumerate(shown):
        out += [", "] * (i > 0) + [f"{f.name}="] + format_piece(getattr(x, f.name), quoted=True)
    return [*out, ")"]


def joined_strings(items: Any) -> Any:
    """Strings one after the other: a str if all of it is known."""
    pieces: list[Any] = []
    for item in items:
        for piece in item.pieces if isinstance(item, FormattedString) else (item,):
            if isinstance(piece, str) and pieces and isinstance(pieces[-1], str):
                pieces[-1] += piece
            elif piece != "":
                pieces.append(piece)
    if not pieces:
        return ""
    if len(pieces) == 1 and isinstance(pieces[0], str):
        return pieces[0]
    return FormattedString(pieces)


@host_api
def join_strings(separator: Any, items: Any) -> Any:
    """`separator.join(items)`."""
    if not isinstance(items, tuple):
        raise TileTypeError(f"join takes a tuple of strings, got {described(items)}")
    out: list[Any] = []
    for i, item in enumerate(items):
        if not isinstance(item, str | FormattedString):
            raise TileTypeError(f"join takes strings, item {i} is {described(item)}")
        out += [separator] * (i > 0) + [item]
    return joined_strings(out)
