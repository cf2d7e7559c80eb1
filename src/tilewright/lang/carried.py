"""What a run-time region changes: names and places, compared leaf by leaf.

A *cell* is where the program keeps a value: a name, or a slot of a mutable object (an attribute,
a list item, a dict entry).  A *leaf* is a number or an IR value somewhere inside a cell's value,
found by its path.  Two values of a cell (before and after a loop's body, or after either arm of a
branch) are compared by `pair_leaves`; everything but their leaves must agree.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.ir.core import Value
from tilewright.ir.types import ScalarType, Type
from tilewright.lang import protocol
from tilewright.lang.operations import common_type
from tilewright.lang.scalar import Scalar, as_numeric, is_number, numeric_of

Key = str | tuple[int, Any]
"""A cell: a name, or (number of the mutable object, its attribute, index or key)."""
Path = tuple[Any, ...]
State = dict[Key, Any]


class Undefined:
    """What a name holds that is not defined on every path; `control` refuses to read it."""

    def __repr__(self) -> str:
        return "undefined"


UNDEF = Undefined()


class Mismatch(Exception):
    """Two values of one cell that cannot become one run-time value."""

    def __init__(self, a: object, b: object, path: Path) -> None:
        super().__init__(a, b, path)
        self.a, self.b, self.path = a, b, path


# Mutable places.

_RIGID_ROOMS = ("tilewright.layout.", "tilewright.ir.", "tilewright.numeric.", "tilewright.arch.")
_place_kinds: dict[type, bool] = {}


def is_rigid(x: object) -> bool:
    """Whether the Python numbers inside `x` are compile-time facts, never promoted."""
    kind = type(x)
    return (
        protocol.speaks_protocol(kind)
        or kind.__module__.startswith(_RIGID_ROOMS)
        or _is_frozen(kind)
    )


def _is_frozen(kind: type) -> bool:
    params = getattr(kind, "__dataclass_params__", None)
    return params is not None and bool(params.frozen)


def is_place(x: object) -> bool:
    """Whether `x` is a mutable object whose content the program may change in place."""
    kind = type(x)
    known = _place_kinds.get(kind)
    if known is None:
        known = not (
            protocol.is_opaque(x)
            or issubclass(kind, Scalar | Value | tuple | Undefined)
            or kind.__module__.startswith(_RIGID_ROOMS)
            or getattr(kind, "__tw_immutable__", False)
            or _is_frozen(kind)
        )
        _place_kinds[kind] = known
    return known


def contents(x: Any) -> dict[Any, Any]:
    """What a place holds, by attribute, index or key."""
    if isinstance(x, list):
        return dict(enumerate(x))
    if isinstance(x, dict):
        return dict(x)
    return protocol.attributes(x)


def store(x: Any, new: Mapping[Any, Any]) -> None:
    """Makes a place hold exactly `new`."""
    if isinstance(x, list):
        x[:] = new.values()
    elif isinstance(x, dict):
        x.clear()
        x.update(new)
    else:
        old = protocol.attributes(x)
        for name in old.keys() - new.keys():
            object.__delattr__(x, name)
        for name, item in new.items():
            if old.get(name, UNDEF) is not item:
                protocol.set_attribute(x, name, item)


class Places:
    """The mutable objects that can be reached from some roots, and what they hold now."""

    def __init__(self, roots: Iterable[object]) -> None:
        self.objects: list[Any] = []
        self.saved: list[dict[Any, Any]] = []
        self._seen: set[int] = set()
        for root in roots:
            self._visit(root)

    def _visit(self, x: Any) -> None:
        if protocol.is_opaque(x) or isinstance(x, Scalar | Value):
            return
        if isinstance(x, tuple):
            for item in x:
                self._visit(item)
            return
        if id(x) in self._seen or type(x).__module__.startswith(_RIGID_ROOMS):
            return
        self._seen.add(id(x))
        if getattr(type(x), "__tw_immutable__", False):
            return
        held = contents(x)
        if is_place(x):
            self.objects.append(x)
            self.saved.append(held)
        for item in held.values():
            self._visit(item)

    def read(self) -> State:
        """The cells of all places."""
        return {
            (number, key): item
            for number, x in enumerate(self.objects)
            for key, item in contents(x).items()
        }

    def write(self, state: Mapping[Key, Any]) -> None:
        """Stores the cells in `state`; those that hold `UNDEF` disappear."""
        new: list[dict[Any, Any]] = [{} for _ in self.objects]
        for key, item in state.items():
            if not isinstance(key, str) and item is not UNDEF:
                new[key[0]][key[1]] = item
        for x, held in zip(self.objects, new, strict=True):
            store(x, held)

    def restore(self) -> None:
        """Puts back what the places held when this snapshot was taken."""
        for x, held in zip(self.objects, self.saved, strict=True):
            store(x, held)

    def describe(self, key: Key) -> str:
        """How messages call a cell."""
        if isinstance(key, str):
            return key
        x = self.objects[key[0]]
        kind = type(x).__name__
        return f"item {key[1]!r} of a {kind}" if isinstance(x, list | dict) else f"{kind}.{key[1]}"


# Leaves.


def children(x: Any) -> list[tuple[Any, Any]] | None:
    """The parts of a value by path step; None for leaves and for what holds nothing."""
    if isinstance(x, Scalar | Value) or is_number(x) or protocol.is_opaque(x):
        return None
    if isinstance(x, tuple | list):
        return list(enumerate(x))
    if isinstance(x, dict):
        return [(("key", key), item) for key, item in x.items()]
    if isinstance(x, Undefined):
        return None
    if protocol.speaks_protocol(type(x)):
        return [(("value", i), v) for i, v in enumerate(x.__tw_values__())]
    return [(("attr", name), item) for name, item in protocol.attributes(x).items()]


def rebuilt(x: Any, parts: list[Any]) -> Any:
    """`x` with other parts, in the order of `children`."""
    if isinstance(x, tuple):
        return protocol.rebuild_tuple(x, parts)
    if isinstance(x, list):
        return type(x)(parts)
    if isinstance(x, dict):
        return type(x)(zip(x, parts, strict=True))
    if protocol.speaks_protocol(type(x)):
        return x.__tw_with_values__(parts)
    twin = copy.copy(x)
    for name, item in zip(protocol.attributes(x), parts, strict=True):
        protocol.set_attribute(twin, name, item)
    return twin


def map_leaves(
    x: Any, change: Callable[[Path, Any], Any], path: Path = (), *, into_places: bool = True
) -> Any:
    """`x` with each leaf replaced by ``change(path, leaf)``; the same object if none changes."""
    if isinstance(x, Scalar | Value) or is_number(x):
        return change(path, x)
    if not into_places and is_place(x):
        return x
    parts = children(x)
    if not parts:
        return x
    new = [map_leaves(p, change, (*path, step), into_places=into_places) for step, p in parts]
    if all(p is q for (_, p), q in zip(parts, new, strict=True)):
        return x
    return rebuilt(x, new)


def substitute(key: Key, x: Any, new: Mapping[tuple[Key, Path], Any]) -> Any:
    """The value `x` of cell `key` with the leaves in `new` replaced."""
    return map_leaves(x, lambda path, leaf: new.get((key, path), leaf))


@dataclass(frozen=True, slots=True)
class LeafPair:
    """One leaf in the two values that were compared."""

    path: Path
    a: Any
    b: Any

    def agree(self) -> bool:
        """Whether both are the same value, known to be so at compile time."""
        return same_leaf(self.a, self.b)


def same_leaf(a: Any, b: Any) -> bool:
    """The same IR value, or the same number of the same type."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Scalar):
        if isinstance(a.raw, Value) or isinstance(b.raw, Value):
            return a.raw is b.raw
        a, b = a.raw, b.raw
    if isinstance(a, Value):
        return False
    return bool(a == b) or (a != a and b != b)


def pair_leaves(a: Any, b: Any) -> list[LeafPair]:
    """The leaves of two values that differ in nothing else.

    Raises: Mismatch with the parts that differ otherwise.
    """
    found: list[LeafPair] = []
    _pair(a, b, (), found, rigid=False)
    return found


def _pair(a: Any, b: Any, path: Path, found: list[LeafPair], *, rigid: bool) -> None:
    if a is b:
        return
    numbers = is_number(a) and is_number(b)
    if numbers and not (rigid and _is_fixed(a, b)):
        found.append(LeafPair(path, a, b))
        return
    if isinstance(a, Value) and isinstance(b, Value) and a.type == b.type:
        found.append(LeafPair(path, a, b))
        return
    if numbers or type(a) is not type(b):
        if numbers and same_leaf(a, b):
            return
        raise Mismatch(a, b, path)
    mine, other = children(a), children(b)
    if mine is None or other is None:
        if not _equal(a, b):
            raise Mismatch(a, b, path)
        return
    if [step for step, _ in mine] != [step for step, _ in other]:
        raise Mismatch(a, b, path)
    inside = rigid or is_rigid(a)
    if protocol.speaks_protocol(type(a)):
        _check_static_parts(a, b, path)
    for (step, p), (_, q) in zip(mine, other, strict=True):
        _pair(p, q, (*path, step), found, rigid=inside)


def _is_fixed(a: Any, b: Any) -> bool:
    """Whether one of two numbers inside a rigid object is known at compile time."""
    return not all(isinstance(x, Scalar) and isinstance(x.raw, Value) for x in (a, b))


def _check_static_parts(a: Any, b: Any, path: Path) -> None:
    """Refuses two objects that list their values if what they do not list differs."""
    p, q = protocol.attributes(a), protocol.attributes(b)
    if p.keys() != q.keys():
        raise Mismatch(a, b, path)
    for name, item in p.items():
        try:
            _pair(item, q[name], (), [], rigid=True)
        except Mismatch:
            raise Mismatch(a, b, path) from None


def _equal(a: Any, b: Any) -> bool:
    answer = a == b
    return answer is True


# Types.


def leaf_kind(a: Any, b: Any) -> type[Scalar] | Type:
    """What two leaves become together: a numeric type, or the type of both IR values."""
    if isinstance(a, Value):
        return a.type
    return common_type(a, b)


def join_kind(kind: type[Scalar] | Type, leaf: Any) -> type[Scalar] | Type:
    """The kind that holds a carried value of `kind` as well as another leaf."""
    if isinstance(kind, type):
        return common_type(kind._of(0), leaf)
    return kind


def ir_type(kind: type[Scalar] | Type) -> Type:
    return ScalarType(kind._row) if isinstance(kind, type) else kind


def to_ir(leaf: Any, kind: type[Scalar] | Type) -> Value:
    """The leaf as an IR value of `kind`, made in the current block."""
    if isinstance(kind, type):
        return kind(as_numeric(leaf)).ir_value()
    assert isinstance(leaf, Value)
    return leaf


def from_ir_value(value: Value, kind: type[Scalar] | Type) -> Any:
    """The leaf that holds an IR value."""
    return kind._of(value) if isinstance(kind, type) else value


def is_run_time(leaf: Any) -> bool:
    """Whether a leaf is known only at run time."""
    return isinstance(leaf, Value) or (isinstance(leaf, Scalar) and isinstance(leaf.raw, Value))


def python_kind(x: Any) -> type[Scalar]:
    """The numeric type that a Python number takes when it becomes a run-time value."""
    return numeric_of(as_numeric(x).dtype.dtype)
