"""The arguments of a tile kernel's launch: what is compiled for, and what is passed.

A *key* says what a compiled kernel depends on: element types, ranks, the strides that are 1, what
16 divides, constants.  *Leaves* are the run-time numbers, one for each entry parameter.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Hashable, Sequence
from typing import Any

from tilewright.lang.tile.carried import is_dataclass_value
from tilewright.lang.tile.dtypes import (
    ROW_NAMES,
    DType,
    bool_,
    find_dtype,
    float32,
    int32,
)
from tilewright.lang.tile.errors import TileArgumentError, TileValueError
from tilewright.lang.tile.kernel import ArrayAnnotation, Parameter, kernel
from tilewright.lang.tile.signature import (
    HOOKS,
    ArrayConstraint,
    ConstantConstraint,
    DataclassConstraint,
    ListConstraint,
    ScalarConstraint,
    TupleConstraint,
)
from tilewright.runtime.arrays import ArrayView, as_array

ASSUMED = 16
"""Divisor that is assumed of base addresses (bytes), extents and strides (elements) that have it.

It is what TMA needs of an address, and of strides of at least one byte per element.
"""


@dataclasses.dataclass
class Arguments:
    """What a launch's arguments come to."""

    constraints: list[Any] = dataclasses.field(default_factory=list)
    leaves: list[Any] = dataclasses.field(default_factory=list)
    views: list[tuple[int, ArrayView]] = dataclasses.field(default_factory=list)
    """(the number of its pointer among the leaves, the array)."""
    lists: list[tuple[int, list[ArrayView]]] = dataclasses.field(default_factory=list)

    @property
    def device(self) -> str:
        """Where the arrays lie; "cpu" if there is none.

        Raises: TileValueError for arrays in several places.
        """
        views = [v for _, v in self.views] + [v for _, vs in self.lists for v in vs]
        found = sorted({v.device for v in views})
        if len(found) > 1:
            raise TileValueError(f"launch: the arrays lie on {' and '.join(found)}")
        return found[0] if found else "cpu"


def is_array(x: Any) -> bool:
    """Whether an argument is an array of any library."""
    if isinstance(x, ArrayView):
        return True
    return hasattr(x, "__dlpack__") or hasattr(type(x), "__cuda_array_interface__")


def array_constraint(view: ArrayView, annotation: ArrayAnnotation, what: str) -> ArrayConstraint:
    """What a kernel is compiled for, given this array."""
    dtype = ROW_NAMES.get(view.dtype)
    if dtype is None:
        raise TileArgumentError(f"{what}: tile code has no element type {view.dtype}")
    if view.element_bits != dtype.bitwidth:
        raise TileArgumentError(f"{what}: {dtype} elements must be packed, two in a byte")
    fixed = set(annotation.static_shape_dims)
    strides = tuple(
        s if s == 1 or i in annotation.static_stride_dims else None
        for i, s in enumerate(view.strides)
    )
    return ArrayConstraint(
        dtype,
        view.rank,
        index_dtype=_index_dtype(view, annotation, what),
        stride_lower_bound_incl=[0 if s >= 0 else None for s in view.strides],
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=strides,
        shape_constant=[e if i in fixed else None for i, e in enumerate(view.shape)],
        stride_divisible_by=[
            ASSUMED if k is None and s % ASSUMED == 0 else 1
            for k, s in zip(strides, view.strides, strict=True)
        ],
        shape_divisible_by=[
            ASSUMED if i not in fixed and e % ASSUMED == 0 else 1 for i, e in enumerate(view.shape)
        ],
        base_addr_divisible_by=ASSUMED if view.pointer % ASSUMED == 0 else 1,
    )


def _index_dtype(view: ArrayView, annotation: ArrayAnnotation, what: str) -> DType:
    large = max((*view.shape, *map(abs, view.strides)), default=0)
    if annotation.index_dtype is int32 and large >= 1 << 31:
        raise TileValueError(
            f"{what}: an extent or stride of {large} does not fit int32",
            hint="annotate the parameter with ct.IndexedWithInt64",
        )
    return annotation.index_dtype


def read_arguments(k: kernel, args: Sequence[Any]) -> Arguments:
    """The constraints and leaves of a launch.

    Raises: TileArgumentError for a wrong number of arguments, or one that is no kernel argument.
    """
    if len(args) != len(k.parameters):
        raise TileArgumentError(
            f"{k.__name__} takes {len(k.parameters)} arguments "
            f"({', '.join(p.name for p in k.parameters)}), got {len(args)}"
        )
    found = Arguments()
    for number, (parameter, x) in enumerate(zip(k.parameters, args, strict=True)):
        what = f"argument {number} ({parameter.name})"
        found.constraints.append(_read(x, parameter, what, found))
    return found


def _read(x: Any, p: Parameter, what: str, out: Arguments) -> Any:
    if p.is_tuple:
        pairs = enumerate(tuple_items(x, p, what))
        return TupleConstraint([_read(item, q, f"{what}[{i}]", out) for i, (item, q) in pairs])
    if p.constant:
        return _constant(x, what)
    if is_array(x) and not isinstance(x, numbers.Number):
        view = as_array(x, what)
        constraint = array_constraint(view, p.array, what)
        out.views.append((len(out.leaves), view))
        out.leaves += [view.pointer, *view.shape, *view.strides]
        return constraint
    if isinstance(x, list):
        return _list(x, p, what, out)
    if isinstance(x, tuple):
        return TupleConstraint([_read(item, p, f"{what}[{i}]", out) for i, item in enumerate(x)])
    if is_dataclass_value(x):
        names = [f.name for f in dataclasses.fields(x)]
        items = [_read(getattr(x, n), p, f"{what}.{n}", out) for n in names]
        return DataclassConstraint(type(x), tuple(items))
    return _scalar(x, p, what, out)


def tuple_items(x: Any, p: Parameter, what: str) -> list[tuple[Any, Parameter]]:
    """The items of a tuple, each with what its annotation says.

    Raises: TileArgumentError if the annotation is of another tuple, or `x` is none.
    """
    if not isinstance(x, tuple):
        kind = type(x).__name__
        raise TileArgumentError(f"{what}: expected a tuple, as it is annotated, got {kind}")
    parts = p.inside(len(x))
    if len(parts) != len(x):
        raise TileArgumentError(f"{what}: a tuple of {len(x)}, annotated as one of {len(parts)}")
    return list(zip(x, parts, strict=True))


def _scalar(x: Any, p: Parameter, what: str, out: Arguments) -> Any:
    if isinstance(x, bool):
        out.leaves.append(x)
        return ScalarConstraint(bool_)
    if isinstance(x, numbers.Integral):
        dtype = p.scalar or int32
        low, high = dtype.int_range()
        if not low <= int(x) <= high:
            raise TileValueError(
                f"{what}: {x} does not fit {dtype}",
                hint="annotate the parameter with ct.ScalarInt64" if dtype is int32 else "",
            )
        out.leaves.append(int(x))
        return ScalarConstraint(dtype)
    if isinstance(x, numbers.Real):
        out.leaves.append(float(x))
        return ScalarConstraint(float32)
    if x is None or isinstance(x, str) or find_dtype(x) or hasattr(type(x), "__members__"):
        return _constant(x, what)
    raise TileArgumentError(
        f"{what}: expected an array, a number, a list of arrays or a tuple, got {type(x).__name__}"
    )


def _constant(x: Any, what: str) -> Any:
    if isinstance(x, tuple):
        return TupleConstraint([_constant(item, what) for item in x])
    if is_dataclass_value(x):
        names = [f.name for f in dataclasses.fields(x)]
        return DataclassConstraint(type(x), tuple(_constant(getattr(x, n), what) for n in names))
    dtype = find_dtype(x)
    if dtype is not None:
        return ConstantConstraint(dtype)
    if isinstance(x, numbers.Integral) and not isinstance(x, bool):
        x = int(x)
    elif isinstance(x, numbers.Real) and not isinstance(x, bool | int):
        x = float(x)
    try:
        return ConstantConstraint(x)
    except TypeError as error:
        raise TileArgumentError(
            f"{what}: {type(x).__name__} is no constant of tile code"
        ) from error


def _list(x: list[Any], p: Parameter, what: str, out: Arguments) -> Any:
    if not x or not all(map(is_array, x)):
        raise TileArgumentError(f"{what}: expected a list of arrays, not empty")
    views = [as_array(item, f"{what}[{i}]") for i, item in enumerate(x)]
    kinds = [array_constraint(v, p.element, f"{what}[{i}]") for i, v in enumerate(views)]
    first = kinds[0]
    if any((k.dtype, k.ndim) != (first.dtype, first.ndim) for k in kinds):
        raise TileArgumentError(f"{what}: the arrays of a list have one element type and rank")
    common = ArrayConstraint(
        first.dtype,
        first.ndim,
        index_dtype=first.index_dtype,
        stride_lower_bound_incl=[
            _all(k.stride_lower_bound_incl[i] for k in kinds) for i in range(first.ndim)
        ],
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[_all(k.stride_constant[i] for k in kinds) for i in range(first.ndim)],
        stride_divisible_by=[
            _all_or_one(k.stride_divisible_by[i] for k in kinds) for i in range(first.ndim)
        ],
        shape_divisible_by=[
            _all_or_one(k.shape_divisible_by[i] for k in kinds) for i in range(first.ndim)
        ],
        base_addr_divisible_by=_all_or_one(k.base_addr_divisible_by for k in kinds),
    )
    out.lists.append((len(out.leaves), views))
    out.leaves += [0, len(views)]
    return ListConstraint(common, alias_groups=(), elements_may_alias=False)


def _all(values: Any) -> int | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _all_or_one(values: Any) -> int:
    return _all(values) or 1


def table_of(views: Sequence[ArrayView], addresses: Sequence[int]) -> list[int]:
    """The table of a list in memory: address, extents and strides of each array, 64 bits each."""
    return [
        word
        for view, address in zip(views, addresses, strict=True)
        for word in (address, *view.shape, *view.strides)
    ]


def hashable(c: Any) -> Hashable:
    """A constraint as part of a key."""
    if isinstance(c, TupleConstraint):
        return ("tuple", *map(hashable, c.items))
    if isinstance(c, DataclassConstraint):
        return (c.cls, *map(hashable, c.fields))
    return c  # type: ignore[no-any-return]


def _constraints(k: kernel, args: Sequence[Any]) -> list[Any]:
    return read_arguments(k, args).constraints


HOOKS["read"] = _constraints
