"""How objects that hold run-time values take part in arguments, loops and branches.

An object lists its values and is rebuilt from new ones:

* numbers, tuples, lists, dicts and named tuples do so by themselves;
* a class may say how, with ``__tw_values__(self) -> list[ir.Value]`` and
  ``__tw_with_values__(self, values) -> Self`` (immutable things such as tensors);
* any other object takes part through its attributes.

Modules, functions, classes, enums, strings and the like hold no values.
"""

from __future__ import annotations

import copy
import enum
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar, cast

from tilewright.errors import TypeMismatchError
from tilewright.ir.core import Block, Func, Module, Op, Value
from tilewright.lang.scalar import Scalar, describe

T = TypeVar("T")

_ATOMS: tuple[type, ...] = (
    *(int, float, complex, bool, str, bytes, type(None), type, enum.Enum, range, slice),
    *(FunctionType, BuiltinFunctionType, MethodType, ModuleType, property),
    *(Op, Block, Func, Module),
)
_FOREIGN = sys.stdlib_module_names | {"numpy", "torch", "cupy", "jax", "jaxlib", "ml_dtypes"}
_opaque: dict[type, bool] = {}
_slots: dict[type, tuple[str, ...]] = {}


def is_opaque(x: object) -> bool:
    """Whether `x` can hold no run-time values: numbers and strings, functions, foreign objects."""
    kind = type(x)
    known = _opaque.get(kind)
    if known is None:
        known = issubclass(kind, _ATOMS) or not (
            _is_listed(kind) or (_has_state(kind) and not _is_foreign(kind))
        )
        _opaque[kind] = known
    return known


def _is_foreign(kind: type) -> bool:
    """Whether the class is one of Python's own or of an array library."""
    package = kind.__module__.partition(".")[0]
    return package in _FOREIGN and package != "types"


def _is_listed(kind: type) -> bool:
    return issubclass(kind, Scalar | Value | tuple | list | dict) or speaks_protocol(kind)


def _has_state(kind: type) -> bool:
    return bool(getattr(kind, "__dictoffset__", 0)) or bool(slots_of(kind))


def speaks_protocol(kind: type) -> bool:
    """Whether the class lists its values itself."""
    return hasattr(kind, "__tw_values__")


def slots_of(kind: type) -> tuple[str, ...]:
    """The names of the slots of a class and its bases."""
    found = _slots.get(kind)
    if found is None:
        names: list[str] = []
        for base in kind.__mro__:
            own = base.__dict__.get("__slots__", ())
            names += [own] if isinstance(own, str) else list(own)
        found = tuple(n for n in names if n not in ("__dict__", "__weakref__"))
        _slots[kind] = found
    return found


def attributes(x: object) -> dict[str, Any]:
    """The attributes that an object stores, by name (slots included, unset ones left out)."""
    found = {n: getattr(x, n) for n in slots_of(type(x)) if hasattr(x, n)}
    found.update(getattr(x, "__dict__", {}))
    return found


def set_attribute(x: object, name: str, value: object) -> None:
    """Stores an attribute, also of frozen dataclasses."""
    object.__setattr__(x, name, value)


def is_named_tuple(x: object) -> bool:
    return isinstance(x, tuple) and hasattr(x, "_fields")


def rebuild_tuple(like: tuple[Any, ...], items: Sequence[Any]) -> tuple[Any, ...]:
    """A tuple of the class of `like` with other items."""
    if type(like) is tuple:
        return tuple(items)
    make = getattr(type(like), "_make", type(like))
    return cast(tuple[Any, ...], make(items))


def values_of(obj: object) -> list[Value]:
    """The run-time values that `obj` holds, in a fixed order; the same one may occur twice."""
    found: list[Value] = []
    _collect(obj, found.append, {})
    return found


def _collect(x: Any, add: Callable[[Value], None], seen: dict[int, object]) -> None:
    if isinstance(x, Scalar):
        if isinstance(x.raw, Value):
            add(x.raw)
    elif isinstance(x, Value):
        add(x)
    elif is_opaque(x):
        return
    elif isinstance(x, tuple | list):
        for item in x:
            _collect(item, add, seen)
    elif isinstance(x, dict):
        for item in x.values():
            _collect(item, add, seen)
    elif speaks_protocol(type(x)):
        for v in x.__tw_values__():
            add(v)
    elif id(x) not in seen:
        seen[id(x)] = x
        for item in attributes(x).values():
            _collect(item, add, seen)


def with_values(obj: T, values: Sequence[Value]) -> T:
    """`obj` with its run-time values replaced, in the order of `values_of`.

    Laws: ``values_of(with_values(obj, vs)) == vs``; an object without values comes back itself.

    Raises: TypeMismatchError if the number of values differs.
    """
    source = iter(values)
    try:
        made = _replace(obj, source, {})
    except StopIteration:
        made = None
    if (made is None and obj is not None) or next(source, None) is not None:
        raise TypeMismatchError(
            f"{describe(obj)} holds {len(values_of(obj))} run-time values, got {len(values)} to"
            " replace them"
        )
    return cast(T, made)


def _replace(x: Any, source: Iterator[Value], seen: dict[int, Any]) -> Any:
    if isinstance(x, Scalar):
        return type(x)._of(next(source)) if isinstance(x.raw, Value) else x
    if isinstance(x, Value):
        return next(source)
    if is_opaque(x):
        return x
    if isinstance(x, tuple):
        items = [_replace(item, source, seen) for item in x]
        return x if _same(items, x) else rebuild_tuple(x, items)
    if isinstance(x, list):
        items = [_replace(item, source, seen) for item in x]
        return x if _same(items, x) else type(x)(items)
    if isinstance(x, dict):
        made = {key: _replace(item, source, seen) for key, item in x.items()}
        return x if _same(made.values(), x.values()) else type(x)(made)
    if speaks_protocol(type(x)):
        count = len(x.__tw_values__())
        return x.__tw_with_values__([next(source) for _ in range(count)]) if count else x
    return _replace_attributes(x, source, seen)


def _same(a: Iterable[Any], b: Iterable[Any]) -> bool:
    return all(p is q for p, q in zip(a, b, strict=True))


def _replace_attributes(x: Any, source: Iterator[Value], seen: dict[int, Any]) -> Any:
    if id(x) in seen:
        return seen[id(x)]
    if not values_of(x):
        seen[id(x)] = x
        return x
    twin = copy.copy(x)
    seen[id(x)] = twin
    for name, item in attributes(x).items():
        new = _replace(item, source, seen)
        if new is not item:
            set_attribute(twin, name, new)
    return twin
