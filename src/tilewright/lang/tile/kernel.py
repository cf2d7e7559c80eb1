"""Kernels and tile functions: the decorators and the annotations of parameters."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from types import FunctionType
from typing import Annotated, Any, TypeVar

from tilewright.lang.tile.dtypes import DType, int32, int64
from tilewright.lang.tile.enums import ByTarget
from tilewright.lang.tile.errors import TileSyntaxError
from tilewright.lang.tile.state import capturing

T = TypeVar("T")


class ConstantAnnotation:
    """Marks a parameter whose value is part of the compiled kernel."""

    def __repr__(self) -> str:
        return "ConstantAnnotation()"


@dataclass(frozen=True, kw_only=True)
class ArrayAnnotation:
    """How an array parameter is compiled: its index type, and which extents are constants."""

    index_dtype: DType = int32
    static_shape_dims: tuple[int, ...] = ()
    static_stride_dims: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ListAnnotation:
    """How a list parameter is compiled: the annotation of its elements."""

    element: Any


@dataclass(frozen=True)
class ScalarAnnotation:
    """The type of a scalar parameter."""

    dtype: DType


class ScalarProtocol(typing.Protocol):
    """What a scalar of tile code can do: everything that a number can."""


Constant = Annotated[T, ConstantAnnotation()]
Scalar = int | float | ScalarProtocol
ScalarInt64 = Annotated[int, ScalarAnnotation(int64)]
IndexedWithInt64 = Annotated[T, ArrayAnnotation(index_dtype=int64)]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel and what its annotation says.

    Of a tuple, `items` are its parts, or `each` is any of them.
    """

    name: str
    constant: bool = False
    array: ArrayAnnotation = ArrayAnnotation()
    element: ArrayAnnotation = ArrayAnnotation()
    scalar: DType | None = None
    items: tuple[Parameter, ...] | None = None
    each: Parameter | None = None

    @property
    def is_tuple(self) -> bool:
        """Whether the annotation says what is in a tuple."""
        return self.items is not None or self.each is not None

    def inside(self, count: int) -> tuple[Parameter, ...]:
        """The parts of a tuple of `count` items; one that is not annotated has parts like it."""
        return self.items if self.items is not None else (self.each or self,) * count


def _parameter(name: str, annotation: Any, constant: bool = False) -> Parameter:
    marks = getattr(annotation, "__metadata__", ())
    constant = constant or any(isinstance(mark, ConstantAnnotation) for mark in marks)
    found = Parameter(name, constant)
    plain = annotation.__origin__ if marks else annotation
    if typing.get_origin(plain) is tuple:
        args = typing.get_args(plain)
        if len(args) == 2 and args[1] is ...:
            return replace(found, each=_parameter(name, args[0], constant))
        return replace(found, items=tuple(_parameter(name, one, constant) for one in args))
    for mark in marks:
        if isinstance(mark, ArrayAnnotation):
            found = replace(found, array=mark)
        elif isinstance(mark, ListAnnotation):
            inner = mark.element
            inner = next(
                (m for m in getattr(inner, "__metadata__", ()) if isinstance(m, ArrayAnnotation)),
                inner,
            )
            if isinstance(inner, ArrayAnnotation):
                found = replace(found, element=inner)
        elif isinstance(mark, ScalarAnnotation):
            found = replace(found, scalar=mark.dtype)
    return found


def _annotations(fn: FunctionType) -> dict[str, Any]:
    raw = dict(fn.__annotations__)
    if not any(isinstance(a, str) for a in raw.values()):
        return raw
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return _resolved_one_by_one(fn, raw)


def _resolved_one_by_one(fn: FunctionType, raw: dict[str, Any]) -> dict[str, Any]:
    """Annotations that can be evaluated; one that cannot says nothing."""
    found: dict[str, Any] = {}
    for name, text in raw.items():
        try:
            found[name] = eval(text, fn.__globals__) if isinstance(text, str) else text
        except (NameError, TypeError, AttributeError):
            found[name] = None
    return found


def parameters_of(fn: FunctionType) -> tuple[Parameter, ...]:
    """A kernel's parameters.

    Raises: TileSyntaxError for *args and **kwargs.
    """
    hints = _annotations(fn)
    found = []
    for name, p in inspect.signature(fn).parameters.items():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TileSyntaxError(
                f"{fn.__name__}: a kernel has a fixed number of parameters, got {p}"
            )
        found.append(_parameter(name, hints.get(name)))
    return tuple(found)


@dataclass(frozen=True)
class Hints:
    """Hints for the compiler; each may depend on the target."""

    num_ctas: Any = None
    occupancy: Any = None
    opt_level: Any = 3
    num_worker_warps: Any = None

    def __post_init__(self) -> None:
        _check("num_ctas", self.num_ctas, 1, 16, power=True)
        _check("occupancy", self.occupancy, 1, 32)
        _check("opt_level", self.opt_level, 0, 3)
        _check("num_worker_warps", self.num_worker_warps, 1, 32, power=True)

    def value(self, name: str, target: str) -> int | None:
        """One hint for a target."""
        found = getattr(self, name)
        return found.value_for(target) if isinstance(found, ByTarget) else found


def _check(name: str, value: Any, low: int, high: int, power: bool = False) -> None:
    if isinstance(value, ByTarget):
        for found in (value.default, *value.value_by_target.values()):
            if isinstance(found, int):
                _check(name, found, low, high, power)
        return
    if value is None:
        return
    fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    if not fits or (power and value & (value - 1)):
        kind = "a power of two" if power else "an integer"
        raise ValueError(f"{name}: expected {kind} from {low} to {high}, got {value!r}")


class kernel:
    """A function that each block of a grid executes: `ct.launch` starts it.

    Hints, each an int or a `ByTarget`: `num_ctas` (blocks that share a cluster, a power of two up
    to 16), `occupancy` (blocks per SM, up to 32), `opt_level` (0 to 3), `num_worker_warps`.

    Parameters are arrays, numbers, tuples and frozen dataclasses of them, and lists of arrays;
    what is annotated `Constant` is part of the compiled kernel.
    Raises: TileSyntaxError for *args; ValueError for a hint out of range.

    >>> @kernel(occupancy=2)
    ... def nothing(x, n: Constant[int]):
    ...     pass
    >>> nothing, nothing.replace_hints(occupancy=4).hints.occupancy
    (<kernel nothing>, 4)
    """

    def __new__(cls, function: FunctionType | None = None, /, **kwargs: Any) -> Any:
        if function is None:
            return lambda fn: kernel(fn, **kwargs)
        return super().__new__(cls)

    def __init__(self, function: FunctionType | None = None, /, **kwargs: Any) -> None:
        if not isinstance(function, FunctionType):
            raise TypeError(f"kernel: expected a Python function, got {function!r}")
        self.function = function
        self.hints = Hints(**kwargs)
        self.parameters = parameters_of(function)
        self.constants = tuple(p.constant for p in self.parameters)
        self.programs: dict[Any, Any] = {}
        """What was compiled, by signature: filled by `compiler.tile`."""
        self.prepared: dict[Any, Any] = {}
        """Launches that can be repeated, by fast key: filled by `compiler.tile`."""
        self.repeats: list[Any] = []
        """Those that compare their arguments themselves, the latest first."""
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__

    def replace_hints(self, **hints: Any) -> kernel:
        """A kernel of the same function with other hints; it is compiled anew."""
        changed = replace(self.hints, **hints)
        made = kernel(self.function)
        assert isinstance(made, kernel), "a function was given"
        made.hints = changed
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        raise TypeError(f"{self.__name__} is a kernel: start it with ct.launch(...)")

    def __repr__(self) -> str:
        return f"<kernel {self.__name__}>"


def function(
    func: Callable[..., Any] | None = None, /, *, host: bool = False, tile: bool = True
) -> Any:
    """Marks a function of tile code; with `host=True` host code may call it too.

    Kernels call functions without the mark as well: it says who else may.

    >>> @function(host=True)
    ... def twice(x):
    ...     return x * 2
    >>> twice(4)
    8
    """

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        if host:
            fn._tile_function = tile  # type: ignore[attr-defined]
            return fn

        @wraps(fn)
        def only_tile(*args: Any, **kwargs: Any) -> Any:
            if not capturing():
                raise RuntimeError(f"{fn.__name__} can only be called from tile code")
            return fn(*args, **kwargs)

        only_tile._tile_function = tile  # type: ignore[attr-defined]
        return only_tile

    return decorate if func is None else decorate(func)
