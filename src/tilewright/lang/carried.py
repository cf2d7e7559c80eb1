"""What a run-time region changes: names and places, compared leaf by leaf.

A *cell* is where the program keeps a value: a name, or a slot of a mutable object (an attribute,
a list item, a dict entry).  A *leaf* is a number or an IR value somewhere inside a cell's value,
found by its path.  Two values of a cell (before and after a loop's body, or after either arm of a
branch) are compared by `pair_leaves`; everything but their leaves must agree.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from tilewright.ir.core import Value
from tilewright.ir.ops import memory
from tilewright.ir.types import PtrType, ScalarType, Space, Type
from tilewright.lang import protocol, trace
from tilewright.lang.operations import common_type
from tilewright.lang.scalar import Scalar, as_numeric, is_number
from tilewright.lang.source_loc import is_core_file, is_library_file

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


def cell_contents(cell: CellType) -> Any:
    """What a closure's cell holds; None while it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


_foreign_code: dict[int, tuple[bool, CodeType]] = {}


def is_foreign_code(code: CodeType) -> bool:
    """Whether code is Python's, an installed package's, or one of Tilewright's core rooms."""
    known = _foreign_code.get(id(code))
    if known is None:
        file = code.co_filename
        known = _foreign_code[id(code)] = (is_core_file(file) or is_library_file(file), code)
    return known[0]


def may_reach_objects(x: Any) -> bool:
    """Whether `x` is a mutable object, or something through which code reaches one."""
    if isinstance(x, FunctionType):
        return not is_foreign_code(x.__code__)
    return isinstance(x, MethodType | partial) or not protocol.is_opaque(x)


class Places:
    """The mutable objects that can be reached from some roots, and what they hold now."""

    def __init__(self, roots: Iterable[object]) -> None:
        self.objects: list[Any] = []
        self.saved: list[dict[Any, Any]] = []
        self._seen: set[int] = set()
        for root in roots:
            self._visit(root)

    def _visit(self, x: Any) -> None:
        if isinstance(x, FunctionType | MethodType | partial):
            self._visit_function(x)
            return
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
            self._visit(getattr(x, "__wrapped__", None))  # A @jit function.
            return
        held = contents(x)
        if is_place(x):
            self.objects.append(x)
            self.saved.append(held)
        for item in held.values():
            self._visit(item)

    def _visit_function(self, f: Any) -> None:
        """What a function can reach without being given it: its closure, and global objects."""
        if isinstance(f, MethodType):
            self._visit(f.__self__)
            self._visit(f.__func__)
        elif isinstance(f, partial):
            for x in (f.func, *f.args, *f.keywords.values()):
                self._visit(x)
        elif id(f) not in self._seen and not is_foreign_code(f.__code__):
            self._seen.add(id(f))
            for cell in f.__closure__ or ():
                self._visit(cell_contents(cell))
            for name in f.__code__.co_names:
                self._visit(f.__globals__.get(name))

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
    if isinstance(a, Value) and isinstance(b, Value) and common_ir_type(a.type, b.type) is not None:
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


def common_ir_type(p: Type, q: Type) -> Type | None:
    """The type that holds values of either of two IR types.

    Pointers may differ in their alignment.  Which registers an array is in cannot be chosen at run
    time, so that pointers to registers have no common type.
    """
    if isinstance(p, PtrType) and isinstance(q, PtrType):
        if p.space is Space.RMEM or (p.dtype, p.space) != (q.dtype, q.space):
            return None
        return p if p.align == q.align else PtrType(p.dtype, p.space, math.gcd(p.align, q.align))
    return p if p == q else None


def leaf_kind(a: Any, b: Any) -> type[Scalar] | Type:
    """What two leaves become together: a numeric type, or the common type of two IR values."""
    if isinstance(a, Value):
        common = common_ir_type(a.type, b.type)
        assert common is not None, f"{a} and {b} were paired without a common type"
        return common
    return common_type(a, b)


def generalised(x: Any) -> Any:
    """`x` with compile-time parts made run-time values, where its class offers that.

    A class does so with ``__tw_general__(self) -> Self``, which may emit operations; two values
    that differ in such parts only then have a common form.
    """
    if protocol.is_opaque(x) or isinstance(x, Scalar | Value | Undefined):
        return x
    general = getattr(type(x), "__tw_general__", None)
    if general is not None:
        return general(x)
    if isinstance(x, tuple):
        parts = [generalised(item) for item in x]
        same = all(p is q for p, q in zip(parts, x, strict=True))
        return x if same else protocol.rebuild_tuple(x, parts)
    return x


def join_kind(kind: type[Scalar] | Type, leaf: Any) -> type[Scalar] | Type:
    """The kind that holds a carried value of `kind` as well as another leaf."""
    if isinstance(kind, type):
        return common_type(kind._of(0), leaf)
    return leaf_kind(Value(kind), leaf)


def ir_type(kind: type[Scalar] | Type) -> Type:
    return ScalarType(kind._row) if isinstance(kind, type) else kind


def to_ir(leaf: Any, kind: type[Scalar] | Type) -> Value:
    """The leaf as an IR value of `kind`, made in the current block."""
    if isinstance(kind, type):
        return kind(as_numeric(leaf)).ir_value()
    assert isinstance(leaf, Value), f"{leaf!r} is no IR value"
    if leaf.type != kind:
        assert isinstance(kind, PtrType), f"{leaf} cannot become {kind}"
        return trace.value(memory.CastPointer, leaf, dtype=kind.dtype.name, align=kind.align)
    return leaf


def from_ir_value(value: Value, kind: type[Scalar] | Type) -> Any:
    """The leaf that holds an IR value."""
    return kind._of(value) if isinstance(kind, type) else value


def is_run_time(leaf: Any) -> bool:
    """Whether a leaf is known only at run time."""
    return isinstance(leaf, Value) or (isinstance(leaf, Scalar) and isinstance(leaf.raw, Value))


def is_register(leaf: Any) -> bool:
    """Whether a leaf is a pointer to registers, which no loop can carry."""
    return (
        isinstance(leaf, Value)
        and isinstance(leaf.type, PtrType)
        and (leaf.type.space is Space.RMEM)
    )
