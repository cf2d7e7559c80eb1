"""What Python sees of a kernel's values while it evaluates `static_eval`.

A symbol has a type and a shape.  What is computed with it becomes operations of the kernel, by the
functions of `SAFE`; what needs its value, and every other tile function, is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.lang.tile import elementary, operators
from tilewright.lang.tile.carried import assembled, is_dataclass_value, is_group, parts
from tilewright.lang.tile.dtypes import find_dtype
from tilewright.lang.tile.errors import TileStaticEvalError
from tilewright.lang.tile.functions import Closure
from tilewright.lang.tile.state import is_api, trace
from tilewright.lang.tile.values import Array, Tile, constant_of, described, strict

_PROPERTIES = ("dtype", "ndim", "shape", "strides")
_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operators.add,
    "sub": operators.sub,
    "mul": operators.mul,
    "truediv": operators.truediv,
    "floordiv": operators.floordiv,
    "mod": operators.mod,
    "divmod": operators.divmod,
    "pow": operators.pow,
    "and": operators.bitwise_and,
    "or": operators.bitwise_or,
    "xor": operators.bitwise_xor,
    "lshift": operators.bitwise_lshift,
    "rshift": operators.bitwise_rshift,
}
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "eq": operators.equal,
    "ne": operators.not_equal,
    "lt": operators.less,
    "le": operators.less_equal,
    "gt": operators.greater,
    "ge": operators.greater_equal,
}
_SIGNS: dict[str, Callable[..., Any]] = {
    "neg": elementary.negative,
    "invert": elementary.bitwise_not,
    "abs": elementary.abs,
}
SAFE = frozenset(
    fn.__name__ for table in (_OPERATORS, _COMPARISONS, _SIGNS) for fn in table.values()
) | {"minimum", "maximum", "cdiv", "matmul"}
"""The tile functions that Python may call."""


class Symbol:
    """A tile or an array."""

    __slots__ = ("value",)

    def __init__(self, value: Tile | Array) -> None:
        self.value = value

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.value, name, None)
        if is_api(found):
            return Function(found, name)
        if name not in _PROPERTIES or found is None:
            raise AttributeError(f"{described(self.value)} has no attribute {name!r}")
        return viewed(found)

    def __bool__(self) -> bool:
        raise ValueError(f"{described(self.value)} is known at run time only")

    __int__ = __index__ = __float__ = __len__ = __iter__ = __bool__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.value)


class Function:
    """A function of tile code, or a method of a tile or an array: only tile code may call it."""

    __slots__ = ("name", "value")

    def __init__(self, value: Any, name: str) -> None:
        self.value, self.name = value, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        raise TileStaticEvalError(f"{self.name}() cannot be called inside static_eval()")


def _define(name: str, fn: Callable[..., Any], reflected: bool = False) -> None:
    def method(self: Symbol, *others: Any) -> Any:
        return static_call(fn, (*others, self) if reflected else (self, *others), {})

    method.__name__ = f"__{'r' * reflected}{name}__"
    setattr(Symbol, method.__name__, method)


for _name, _fn in (*_OPERATORS.items(), *_COMPARISONS.items(), *_SIGNS.items()):
    _define(_name, _fn)
    if _name in _OPERATORS:
        _define(_name, _fn, reflected=True)


def static_call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a tile function from Python.  Raises: TileStaticEvalError if it is not safe."""
    if fn.__name__ not in SAFE:
        verb = "used" if fn.__name__.startswith("static_") else "called"
        raise TileStaticEvalError(f"{fn.__name__}() cannot be {verb} inside static_eval()")
    current = trace()
    outer, current.static = current.static, None
    try:
        given = {name: unwrapped(x) for name, x in kwargs.items()}
        return viewed(fn(*map(unwrapped, args), **given))
    finally:
        current.static = outer


def viewed(x: Any) -> Any:
    """A value of tile code as Python sees it: constants as they are, others as symbols."""
    known = constant_of(x)
    if known is not None:
        return known
    if isinstance(x, Tile | Array):
        return Symbol(x)
    if isinstance(x, Closure):
        return Function(x, x.__name__)
    if isinstance(x, tuple) or is_dataclass_value(x):
        return assembled(tuple if isinstance(x, tuple) else type(x), map(viewed, parts(x)))
    return x


def unwrapped(x: Any) -> Any:
    """What Python has made, as a value of tile code."""
    if isinstance(x, Symbol | Function):
        return x.value
    if isinstance(x, tuple | list):
        return tuple(map(unwrapped, x))
    if is_dataclass_value(x) and any(isinstance(p, Symbol) or is_group(p) for p in parts(x)):
        return assembled(type(x), map(unwrapped, parts(x)))
    dtype = find_dtype(getattr(x, "dtype", None))
    if dtype is not None and getattr(x, "shape", None) == () and hasattr(x, "item"):
        return strict(x.item(), dtype)  # a scalar of NumPy
    return x
