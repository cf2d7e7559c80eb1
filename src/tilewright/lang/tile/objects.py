"""Dataclasses in tile code: made field by field, with the methods that they define."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from tilewright.lang.tile.carried import assembled, is_dataclass_value
from tilewright.lang.tile.compile_time import CompileTime
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.strings import method_of
from tilewright.lang.tile.values import described

_GENERATED = "<string>"
"""The file of the methods that `dataclasses` writes."""


def check_class(cls: type) -> None:
    """Raises: TileTypeError for a class whose objects tile code cannot make."""
    name = cls.__qualname__
    if not dataclasses.is_dataclass(cls):
        raise TileTypeError(
            f"objects of {name} cannot be made in tile code: only frozen dataclasses and enums can"
        )
    base = next(c for c in cls.__mro__ if "__dataclass_fields__" in vars(c))
    if base is not cls:
        raise TileTypeError(f"{name} is no dataclass, though {base.__qualname__} is")
    if not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise TileTypeError(f"{name} is not frozen: use @dataclass(frozen=True)")
    if cls.__new__ is not object.__new__:
        raise TileTypeError(f"{name} has a __new__ of its own: it is not supported")
    code = getattr(cls.__init__, "__code__", None)
    if code is None or code.co_filename != _GENERATED:
        raise TileTypeError(f"{name} has an __init__ of its own: it is not supported")
    for f in dataclasses.fields(cls):
        if f.default_factory is not dataclasses.MISSING:
            raise TileTypeError(f"{name}.{f.name} has a default_factory: it is not supported")
        if not f.init:
            raise TileTypeError(f"{name}.{f.name} has init=False: it is not supported")


class Objects(CompileTime):
    """Makes dataclasses and calls their special methods."""

    def construct(self, cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`cls(*args, **kwargs)`; a `__post_init__` is tile code."""
        check_class(cls)
        try:
            bound = inspect.signature(cls).bind(*args, **kwargs)
        except TypeError as error:
            raise TileTypeError(f"{cls.__qualname__}(): {error}") from error
        bound.apply_defaults()
        fields = dataclasses.fields(cls)
        made = assembled(cls, [bound.arguments[f.name] for f in fields])
        if post := method_of(cls, "__post_init__"):
            self.call(post, [made], {})
        return made

    def replaced(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`dataclasses.replace(object, field=value)`."""
        if len(args) != 1 or not is_dataclass_value(args[0]):
            raise TileTypeError("dataclasses.replace() takes a dataclass object")
        old = args[0]
        fields = {f.name: getattr(old, f.name) for f in dataclasses.fields(old)}
        for name in kwargs:
            if name not in fields:
                raise TileTypeError(f"{type(old).__qualname__} has no field {name}")
        return self.construct(type(old), [], {**fields, **kwargs})

    def special(self, x: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What the method `name` of a dataclass gives; NotImplemented if there is none."""
        found = method_of(type(x), name) if is_dataclass_value(x) else None
        return NotImplemented if found is None else self.call(found, [x, *args], kwargs)

    def named(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`getattr(x, name)`, perhaps with a default."""
        if kwargs or not 2 <= len(args) <= 3 or not isinstance(args[1], str):
            raise TileTypeError("getattr() takes an object, a constant name, perhaps a default")
        if len(args) == 2:
            return self.attribute(args[0], args[1])
        try:
            return self.attribute(args[0], args[1])
        except TileTypeError:
            return args[2]

    def length(self, x: Any) -> Any:
        """`len(x)` of a dataclass.  Raises: TileTypeError if it says nothing of it."""
        found = self.special(x, "__len__", [], {})
        if found is NotImplemented:
            raise TileTypeError(f"{described(x)} has no length")
        return found
