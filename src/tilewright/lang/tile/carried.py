"""Values that branches and loops hand on: taken apart into Tile IR values, and put together.

A value is a *spec*, which says what it is, and *leaves*, the run-time values in it.  Two values of
one spec can be merged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tilewright.ir.core import Value
from tilewright.ir.tile_types import PointerType, TileIrType, TileType
from tilewright.lang.tile.arrays import make_array
from tilewright.lang.tile.dtypes import DType, dtype_of_constant
from tilewright.lang.tile.enums import PaddingMode
from tilewright.lang.tile.functions import Closure
from tilewright.lang.tile.raw_memory import RawArrayMemory
from tilewright.lang.tile.state import AliasSet
from tilewright.lang.tile.values import (
    Array,
    Number,
    Tile,
    constant_value,
    described,
    scalar_type,
    strict,
)
from tilewright.lang.tile.views import Slice, TiledView

Dims = tuple[int | None, ...]


@dataclasses.dataclass(frozen=True)
class TileSpec:
    dtype: DType
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return described(Tile(None, self.dtype, self.shape))


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    dtype: DType
    index_dtype: DType
    shape: Dims
    strides: Dims
    aliases: AliasSet

    def __str__(self) -> str:
        return f"{len(self.shape)}-D array of {self.dtype}"

    def build(self, leaves: Sequence[Value]) -> Array:
        values = iter(leaves[1:])
        shape, strides = (
            tuple(e if e is not None else Tile(next(values), self.index_dtype, ()) for e in extents)
            for extents in (self.shape, self.strides)
        )
        return make_array(leaves[0], self.dtype, shape, strides, self.index_dtype, self.aliases)


@dataclasses.dataclass(frozen=True)
class ViewSpec:
    array: ArraySpec
    shape: tuple[int, ...]
    padding: PaddingMode
    steps: tuple[int, ...]

    def __str__(self) -> str:
        return f"tiled view of {self.array}"


@dataclasses.dataclass(frozen=True)
class RawSpec:
    dtype: DType
    aliases: AliasSet

    def __str__(self) -> str:
        return f"raw memory of {self.dtype}"


@dataclasses.dataclass(frozen=True)
class GroupSpec:
    """A tuple (`kind` is tuple), a Slice, or a frozen dataclass of this class."""

    kind: type[Any]
    items: tuple[Any, ...]

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.items))
        return f"({inner})" if self.kind is tuple else f"{self.kind.__name__}({inner})"


@dataclasses.dataclass(frozen=True)
class ClosureSpec:
    """A function of tile code whose frame has ended: what it sees there, then its defaults."""

    closure: Closure
    names: tuple[str, ...]
    items: tuple[Any, ...]

    def __str__(self) -> str:
        return f"function {self.closure.__name__}"

    def build(self, values: Sequence[Any]) -> Closure:
        frame, seen = self.closure.frame, values[: len(self.names)]
        own = {**frame.locals, **dict(zip(self.names, seen, strict=True))}
        defaults = tuple(values[len(self.names) :])
        return Closure(self.closure.info, dataclasses.replace(frame, locals=own), defaults)


@dataclasses.dataclass(frozen=True)
class StaticSpec:
    """A compile-time object: it does not change."""

    value: Any

    def __str__(self) -> str:
        return described(self.value)


Spec = TileSpec | ArraySpec | ViewSpec | RawSpec | GroupSpec | ClosureSpec | StaticSpec


def is_group(x: object) -> bool:
    """Whether `x` has parts: a tuple, a Slice or a frozen dataclass."""
    return isinstance(x, tuple | Slice) or is_dataclass_value(x)


def is_dataclass_value(x: object) -> bool:
    """Whether `x` is an instance of a dataclass of the user's."""
    return dataclasses.is_dataclass(x) and not isinstance(x, type | Closure)


def _seen(x: Closure) -> tuple[str, ...]:
    """The variables of its frame that a closure sees; closures of that frame do not change."""
    known = x.frame.locals
    return tuple(
        sorted(
            name
            for name in x.info.free_names & known.keys()
            if not (isinstance(known[name], Closure) and known[name].frame is x.frame)
        )
    )


def parts(x: Any) -> tuple[Any, ...]:
    """The parts of a tuple, Slice or dataclass."""
    if isinstance(x, tuple):
        return x
    if isinstance(x, Slice):
        return (x.start, x.length)
    return tuple(getattr(x, f.name) for f in dataclasses.fields(x))


def assembled(kind: type[Any], items: Iterable[Any]) -> Any:
    """A tuple, Slice or dataclass of these parts."""
    if kind is tuple:
        return tuple(items)
    if kind is Slice:
        return Slice(*items)
    made = object.__new__(kind)
    for f, item in zip(dataclasses.fields(kind), items, strict=True):
        object.__setattr__(made, f.name, item)
    return made


def _array_spec(x: Array) -> ArraySpec:
    shape, strides = (
        tuple(e if isinstance(e, int) else None for e in extents)
        for extents in (x.shape_, x.strides_)
    )
    return ArraySpec(x.dtype_, x.index_dtype, shape, strides, x.aliases)


def spec_of(x: object) -> Spec:
    """What a value is; a Python number counts as the tile that it would become."""
    if isinstance(x, Tile):
        return TileSpec(x.dtype_, x.shape_)
    if isinstance(x, bool | int | float):
        return TileSpec(dtype_of_constant(x), ())
    if isinstance(x, Array):
        return _array_spec(x)
    if isinstance(x, TiledView):
        return ViewSpec(_array_spec(x.array), x.shape_, x.padding, x.steps)
    if isinstance(x, RawArrayMemory):
        return RawSpec(x.dtype_, x.aliases)
    if is_group(x):
        kind = tuple if isinstance(x, tuple) else type(x)
        return GroupSpec(kind, tuple(spec_of(p) for p in parts(x)))
    if isinstance(x, Closure) and x.frame.ended:
        return ClosureSpec(x, _seen(x), tuple(map(spec_of, _inside(x))))
    return StaticSpec(x)


def _inside(x: Closure) -> tuple[Any, ...]:
    return (*(x.frame.locals[name] for name in _seen(x)), *x.defaults)


def leaves_of(x: object) -> list[Value]:
    """The run-time values of a value; constants are made."""
    if isinstance(x, Tile):
        return [x.ir]
    if isinstance(x, bool | int | float):
        return [strict(x, dtype_of_constant(x)).ir]
    if isinstance(x, Array):
        return [x.base, *(e.ir for e in (*x.shape_, *x.strides_) if isinstance(e, Tile))]
    if isinstance(x, TiledView):
        return leaves_of(x.array)
    if isinstance(x, RawArrayMemory):
        return [x.base]
    if is_group(x):
        return [leaf for p in parts(x) for leaf in leaves_of(p)]
    if isinstance(x, Closure) and x.frame.ended:
        return [leaf for p in _inside(x) for leaf in leaves_of(p)]
    return []


def leaf_types(spec: Spec) -> list[TileIrType]:
    """The types of a spec's leaves."""
    if isinstance(spec, TileSpec):
        return [TileType(spec.shape, spec.dtype.element)]
    if isinstance(spec, ArraySpec):
        count = sum(e is None for e in (*spec.shape, *spec.strides))
        pointer = TileType((), PointerType(spec.dtype.element))
        return [pointer, *([scalar_type(spec.index_dtype)] * count)]
    if isinstance(spec, ViewSpec):
        return leaf_types(spec.array)
    if isinstance(spec, RawSpec):
        return [TileType((), PointerType(spec.dtype.element))]
    if isinstance(spec, GroupSpec | ClosureSpec):
        return [t for item in spec.items for t in leaf_types(item)]
    return []


def build(spec: Spec, leaves: Iterator[Value]) -> Any:
    """The value of a spec made of these leaves."""
    if isinstance(spec, TileSpec):
        return Tile(next(leaves), spec.dtype, spec.shape)
    if isinstance(spec, ArraySpec):
        return spec.build([next(leaves) for _ in leaf_types(spec)])
    if isinstance(spec, ViewSpec):
        return TiledView(build(spec.array, leaves), spec.shape, spec.padding, spec.steps)
    if isinstance(spec, RawSpec):
        return RawArrayMemory(next(leaves), spec.dtype, spec.aliases)
    if isinstance(spec, GroupSpec):
        return assembled(spec.kind, [build(item, leaves) for item in spec.items])
    if isinstance(spec, ClosureSpec):
        return spec.build([build(item, leaves) for item in spec.items])
    return spec.value


def same_value(a: object, b: object) -> bool:
    """Whether two values are one: the same object, or equal constants of one type."""
    if a is b:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, Tile) and isinstance(b, Tile):
        known = a.const is not None and a.const == b.const and type(a.const) is type(b.const)
        return known and a.dtype_ is b.dtype_ and a.shape_ == b.shape_
    plain = isinstance(a, bool | int | float | str) and type(a) is type(b)
    return plain and a == b and str(a) == str(b)


def unify(a: Spec, b: Spec) -> Spec | None:
    """The spec of a value that is either; None if there is none."""
    if isinstance(a, ArraySpec) and isinstance(b, ArraySpec):
        merged = dataclasses.replace(a, aliases=a.aliases | b.aliases)
        return merged if dataclasses.replace(b, aliases=merged.aliases) == merged else None
    if isinstance(a, RawSpec) and isinstance(b, RawSpec):
        return RawSpec(a.dtype, a.aliases | b.aliases) if a.dtype is b.dtype else None
    if isinstance(a, ViewSpec) and isinstance(b, ViewSpec):
        array = unify(a.array, b.array)
        if not isinstance(array, ArraySpec):
            return None
        merged_view = dataclasses.replace(a, array=array)
        return merged_view if dataclasses.replace(b, array=array) == merged_view else None
    if isinstance(a, GroupSpec) and isinstance(b, GroupSpec):
        if a.kind is not b.kind or len(a.items) != len(b.items):
            return None
        items = [unify(x, y) for x, y in zip(a.items, b.items, strict=True)]
        return None if None in items else GroupSpec(a.kind, tuple(items))
    if isinstance(a, ClosureSpec) and isinstance(b, ClosureSpec):
        return _unify_closures(a, b)
    if isinstance(a, StaticSpec) and isinstance(b, StaticSpec):
        return a if a.value is b.value or a.value == b.value else None
    return a if a == b else None


def _unify_closures(a: ClosureSpec, b: ClosureSpec) -> ClosureSpec | None:
    x, y = a.closure, b.closure
    if x.info is not y.info or x.frame.parent is not y.frame.parent or a.names != b.names:
        return None
    items = [unify(p, q) for p, q in zip(a.items, b.items, strict=True)]
    return None if None in items else ClosureSpec(x, a.names, tuple(items))


def dummy_leaves(spec: Spec) -> list[Value] | None:
    """Values that stand where a variable has none; None if the spec has no such values."""
    out: list[Value] = []
    for t in _tile_specs(spec):
        if t is None:
            return None
        zero: Number = 0
        out.append(constant_value(zero, t.dtype, t.shape))
    return out


def _tile_specs(spec: Spec) -> list[TileSpec | None]:
    if isinstance(spec, TileSpec):
        return [spec]
    if isinstance(spec, GroupSpec | ClosureSpec):
        return [t for item in spec.items for t in _tile_specs(item)]
    return [] if isinstance(spec, StaticSpec) else [None]
