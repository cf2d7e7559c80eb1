"""Calls: public functions as they are, Python's own by their tile meaning, all others inlined."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import types
from collections.abc import Callable
from typing import Any

from tilewright.lang.tile import arith, elementary, printing, static
from tilewright.lang.tile.carried import is_dataclass_value
from tilewright.lang.tile.convert import construct
from tilewright.lang.tile.dtypes import DType
from tilewright.lang.tile.errors import (
    TileTypeError,
    TileValueError,
)
from tilewright.lang.tile.expressions import register
from tilewright.lang.tile.frames import BoundMethod, Frame, Manager, RangeValue
from tilewright.lang.tile.functions import Closure, FunctionInfo, info_of
from tilewright.lang.tile.objects import Objects
from tilewright.lang.tile.operators import divmod as tile_divmod
from tilewright.lang.tile.state import is_api
from tilewright.lang.tile.strings import format_piece, joined_strings
from tilewright.lang.tile.values import (
    ArrayList,
    as_tile,
    constant_of,
    described,
)


def _length(x: Any) -> Any:
    if isinstance(x, tuple | str):
        return len(x)
    if isinstance(x, ArrayList):
        return x.length
    raise TileTypeError(f"{described(x)} has no length")


def _number(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    def convert(x: Any = 0) -> Any:
        known = constant_of(x)
        if known is None and not isinstance(x, str):
            raise TileTypeError(
                f"{kind.__name__}() converts constants, got {described(x)}",
                hint="convert a tile with ct.astype",
            )
        try:
            return kind(x if known is None else known)
        except (ValueError, OverflowError) as error:
            raise TileValueError(f"{kind.__name__}({described(x)}): {error}") from error

    return convert


def _truth(x: Any = False) -> Any:
    return elementary.truth(x, "bool()")


def _extremum(name: str) -> Callable[..., Any]:
    def choose(*items: Any) -> Any:
        values = items[0] if len(items) == 1 and isinstance(items[0], tuple) else items
        if len(values) < 1 or (len(values) == 1 and not isinstance(items[0], tuple)):
            raise TileTypeError(f"{name}() takes two values or more", hint=f"reduce with ct.{name}")
        found = values[0]
        for item in values[1:]:
            found = arith.binary(name, found, item)
        return found

    return choose


def _range(*ends: Any) -> RangeValue:
    if not 1 <= len(ends) <= 3:
        raise TileTypeError(f"range() takes one to three integers, got {len(ends)}")
    for end in ends:
        tile = as_tile(end, "range()")
        if tile.shape_ or not tile.dtype_.is_int:
            raise TileTypeError(f"range() takes integer scalars, got {described(end)}")
    start, stop, step = (0, *ends, 1) if len(ends) == 1 else (*ends, 1)[:3]
    known = constant_of(step)
    if known is not None and known <= 0:
        raise TileTypeError(f"range(): the step must be positive, got {known}")
    return RangeValue(start, stop, step)


def _tuple(x: Any = ()) -> Any:
    if isinstance(x, tuple):
        return x
    raise TileTypeError(f"tuple() takes a tuple, got {described(x)}")


def _text(x: Any = "") -> Any:
    return joined_strings(format_piece(x))


_BUILTINS: dict[Any, Callable[..., Any]] = {
    len: _length,
    int: _number(int),
    float: _number(float),
    bool: _truth,
    abs: elementary.magnitude,
    min: _extremum("min"),
    max: _extremum("max"),
    divmod: tile_divmod,
    range: _range,
    tuple: _tuple,
    str: _text,
    repr: _text,
    print: printing.print,
    slice: slice,
}


class Calls(Objects):
    """Evaluates calls."""

    def _call_node(self, node: ast.Call) -> Any:
        fn = self.eval(node.func)
        self.node = node
        if fn is static.static_eval:
            return self._static_eval(node)
        if fn is static.static_assert:
            return self._static_assert(node)
        if fn is static.static_iter:
            raise self.syntax(node, "static_iter(...) stands only as what a 'for' iterates over")
        if fn is static.static_exception:
            raise self.syntax(node, "static_exception(...) stands only after 'raise'")
        if fn is tuple and len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
            return self._comprehension(node.args[0])
        args: list[Any] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                items = self.eval(arg.value)
                if not isinstance(items, tuple):
                    raise TileTypeError(f"* takes a tuple, got {described(items)}")
                args += items
            else:
                args.append(self.eval(arg))
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, dict):
                kwargs.update(value)
            else:
                raise TileTypeError(f"** takes the dict of a ** parameter, got {described(value)}")
        self.node = node
        return self.call(fn, args, kwargs)

    def call(self, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The value of `fn(*args, **kwargs)`."""
        if isinstance(fn, BoundMethod):
            return self.call(fn.function, [fn.self, *args], kwargs)
        if isinstance(fn, DType):
            return self._plain(lambda x=0: construct(fn, x), str(fn), args, kwargs)
        if is_api(fn):
            return self._plain(fn, getattr(fn, "__name__", "function"), args, kwargs)
        if isinstance(fn, Closure):
            return self._inline(fn.info, None, fn.frame, fn.defaults, args, kwargs)
        found = _BUILTINS.get(fn) if isinstance(fn, type | types.BuiltinFunctionType) else None
        if found is _length and len(args) == 1 and is_dataclass_value(args[0]):
            return self.length(args[0])
        if found is not None:
            return self._plain(found, fn.__name__, args, kwargs)
        if fn is dataclasses.replace:
            return self.replaced(args, kwargs)
        if fn is getattr:
            return self.named(args, kwargs)
        if isinstance(fn, type):
            return self._construct(fn, args, kwargs)
        if isinstance(fn, types.MethodType):
            return self.call(fn.__func__, [fn.__self__, *args], kwargs)
        if isinstance(fn, types.FunctionType):
            return self._function(fn, args, kwargs)
        made = self.special(fn, "__call__", args, kwargs)
        if made is not NotImplemented:
            return made
        word = getattr(fn, "__qualname__", None) or described(fn)
        raise TileTypeError(
            f"{word} cannot be called in tile code",
            hint="if all of its arguments are constants, wrap the call in ct.static_eval(...)",
        )

    def _plain(
        self, fn: Callable[..., Any], name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Calls a function of ours.  A wrong number of arguments is the user's error."""
        try:
            return fn(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is not None and _is_ours(error.__traceback__):
                raise
            text = str(error)
            shown = text if text.startswith(f"{name}(") else f"{name}: {text}"
            raise TileTypeError(shown) from error

    def _construct(self, cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if issubclass(cls, enum.Enum):
            try:
                return cls(*args)
            except (ValueError, TypeError) as error:
                raise TileValueError(str(error)) from error
        if is_api(cls) or cls.__module__.startswith("tilewright.lang.tile"):
            return self._plain(cls, cls.__name__, args, kwargs)
        return self.construct(cls, args, kwargs)

    def _function(self, fn: types.FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if getattr(fn, "_tile_function", True) is False:
            raise TileTypeError(f"{fn.__name__} is host code: @ct.function(tile=False)")
        inner = fn
        while hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        info = info_of(inner)
        defaults = _defaults_of(inner, info)
        if fn is not inner and fn.__code__.co_filename == contextlib.__file__:
            return Manager(self._bound_frame(info, inner, None, defaults, args, kwargs))
        return self._inline(info, inner, None, defaults, args, kwargs)

    def _inline(
        self,
        info: FunctionInfo,
        fn: Any,
        parent: Frame | None,
        defaults: tuple[Any, ...],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Evaluates the body of a function in a frame of its own."""
        frame = self._bound_frame(info, fn, parent, defaults, args, kwargs)
        outer, node = self.frame, self.node
        self.frame = frame
        self.block(info.body)
        frame.ended = True
        self.frame, self.node = outer, node
        return frame.result

    def _bound_frame(
        self,
        info: FunctionInfo,
        fn: Any,
        parent: Frame | None,
        defaults: tuple[Any, ...],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Frame:
        """A frame in which the parameters have their values."""
        try:
            bound = info.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TileTypeError(f"{info.name}(): {error}") from error
        frame = self.frame_for(info, fn, parent)
        for name, parameter in info.signature.parameters.items():
            if name in bound.arguments:
                frame.locals[name] = bound.arguments[name]
            elif parameter.default is not parameter.empty:
                frame.locals[name] = defaults[parameter.default]
            else:
                empty = parameter.kind is parameter.VAR_POSITIONAL
                frame.locals[name] = () if empty else {}
        return frame


def _is_ours(trace: types.TracebackType) -> bool:
    """Whether an error was raised inside of the called function, not by the call itself."""
    following = trace.tb_next
    if following is None:
        return False
    if following.tb_frame.f_code.co_name == "guarded":
        following = following.tb_next
    return following is not None


def _defaults_of(fn: types.FunctionType, info: FunctionInfo) -> tuple[Any, ...]:
    """The default values of a Python function, in the order of its signature."""
    found: list[Any] = list(fn.__defaults__ or ())
    keywords = fn.__kwdefaults__ or {}
    for name, parameter in info.signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and name in keywords:
            found.append(keywords[name])
    return tuple(found)


register(ast.Call, Calls._call_node)
