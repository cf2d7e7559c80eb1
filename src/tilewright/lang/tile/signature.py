"""What a kernel is compiled for: a constraint for each parameter, and how it is passed."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilewright.lang.tile.carried import is_dataclass_value
from tilewright.lang.tile.dtypes import DType, Kind, int32, int64, uint32


@dataclasses.dataclass(frozen=True, slots=True)
class CallingConvention:
    """How the parameters of a compiled kernel are passed."""

    code: str
    name: str

    @staticmethod
    def cutile_python_v1() -> CallingConvention:
        """Arrays as pointer, extents, strides; scalars by value; constants not at all."""
        return _V1

    @staticmethod
    def cutile_python_v2() -> CallingConvention:
        """As v1; extents of arrays may be constants."""
        return _V2

    @staticmethod
    def from_code(code: str) -> CallingConvention:
        """The convention of a mangled name's code.

        >>> CallingConvention.from_code("t1").name
        'cutile_python_v1'
        """
        for found in (_V1, _V2):
            if found.code == code:
                return found
        raise ValueError(f"no calling convention has the code {code!r}, expected t1 or t2")

    def __repr__(self) -> str:
        return f"<CallingConvention '{self.name}'>"


_V1 = CallingConvention("t1", "cutile_python_v1")
_V2 = CallingConvention("t2", "cutile_python_v2")


@dataclasses.dataclass(frozen=True, init=False)
class ScalarConstraint:
    """A number that is known when the kernel is launched."""

    dtype: DType

    def __init__(self, dtype: DType) -> None:
        if not isinstance(dtype, DType) or dtype.kind is Kind.POINTER:
            raise TypeError(f"ScalarConstraint: expected a number's dtype, got {dtype!r}")
        object.__setattr__(self, "dtype", dtype)


@dataclasses.dataclass(eq=False)
class ConstantConstraint:
    """A number that is known when the kernel is compiled."""

    value: Any

    def __post_init__(self) -> None:
        plain = isinstance(self.value, bool | int | float | str | DType) or self.value is None
        if not plain and not hasattr(type(self.value), "__members__"):
            raise TypeError(f"ConstantConstraint: {self.value!r} is no constant of tile code")

    def _key(self) -> tuple[Any, ...]:
        value = self.value
        return (type(value), struct.pack("=d", value) if isinstance(value, float) else value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConstantConstraint):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def _per_axis(what: str, given: Any, rank: int, default: Any, least: int | None) -> tuple[Any, ...]:
    """One value for each axis; None or a number stands for all."""
    if given is None:
        return (default,) * rank
    if isinstance(given, int):
        given = (given,) * rank
    found = tuple(given)
    if len(found) != rank:
        raise ValueError(f"{what}: expected {rank} values, got {found}")
    for x in found:
        if x is None and default is None:
            continue
        if isinstance(x, bool) or not isinstance(x, int):
            raise TypeError(f"{what}: expected integers, got {x!r}")
        if least is not None and x < least:
            raise ValueError(f"{what}: expected at least {least}, got {x}")
    return found


def _without_known(what: str, known: tuple[Any, ...], by: tuple[Any, ...]) -> tuple[int, ...]:
    """Divisors of what is not a constant; a constant must have its divisor."""
    for k, d in zip(known, by, strict=True):
        if k is not None and k % d:
            raise ValueError(f"{what}: {d} does not divide the constant {k}")
    return tuple(1 if k is not None else d for k, d in zip(known, by, strict=True))


def _groups(groups: Sequence[str]) -> tuple[str, ...]:
    if isinstance(groups, str) or not all(isinstance(g, str) for g in groups):
        raise TypeError(f"alias_groups: expected a sequence of strings, got {groups!r}")
    if len(set(groups)) != len(tuple(groups)):
        raise ValueError(f"alias_groups: a group is named twice in {tuple(groups)}")
    return tuple(groups)


@dataclasses.dataclass(frozen=True, init=False)
class ArrayConstraint:
    """An array, and what may be assumed of it.

    Units: strides, extents and their divisors in elements; `base_addr_divisible_by` in bytes.
    `None` for an axis: nothing is known.  Arrays without a common alias group never overlap.
    """

    dtype: DType
    ndim: int
    index_dtype: DType
    stride_lower_bound_incl: tuple[int | None, ...]
    alias_groups: tuple[str, ...]
    may_alias_internally: bool
    stride_constant: tuple[int | None, ...]
    shape_constant: tuple[int | None, ...]
    stride_divisible_by: tuple[int, ...]
    shape_divisible_by: tuple[int, ...]
    base_addr_divisible_by: int

    def __init__(
        self,
        dtype: DType,
        ndim: int,
        *,
        index_dtype: DType,
        stride_lower_bound_incl: Sequence[int | None] | int | None,
        alias_groups: Sequence[str],
        may_alias_internally: bool,
        stride_constant: Sequence[int | None] | None = None,
        shape_constant: Sequence[int | None] | None = None,
        stride_divisible_by: Sequence[int] | int = 1,
        shape_divisible_by: Sequence[int] | int = 1,
        base_addr_divisible_by: int = 1,
    ) -> None:
        if not isinstance(dtype, DType):
            raise TypeError(f"ArrayConstraint: expected a dtype, got {dtype!r}")
        if not isinstance(ndim, int):
            raise TypeError(f"ArrayConstraint: expected an integer ndim, got {ndim!r}")
        if ndim < 0:
            raise ValueError(f"ArrayConstraint: ndim is {ndim}, expected 0 or more")
        if index_dtype not in (int32, uint32, int64):
            raise ValueError(f"ArrayConstraint: index_dtype is int32 or int64, got {index_dtype}")
        if not isinstance(base_addr_divisible_by, int):
            raise TypeError("ArrayConstraint: base_addr_divisible_by is an integer")
        if base_addr_divisible_by <= 0:
            raise ValueError(
                f"ArrayConstraint: base_addr_divisible_by is {base_addr_divisible_by}, expected 1 "
                "or more"
            )
        strides = _per_axis("stride_constant", stride_constant, ndim, None, None)
        shape = _per_axis("shape_constant", shape_constant, ndim, None, 0)
        lower = _per_axis("stride_lower_bound_incl", stride_lower_bound_incl, ndim, None, None)
        for known, bound in zip(strides, lower, strict=True):
            if known is not None and bound is not None and known < bound:
                raise ValueError(f"stride_constant: {known} is below the lower bound {bound}")
        values = {
            "dtype": dtype,
            "ndim": ndim,
            "index_dtype": index_dtype,
            "stride_lower_bound_incl": tuple(
                None if known is not None else bound
                for known, bound in zip(strides, lower, strict=True)
            ),
            "alias_groups": _groups(alias_groups),
            "may_alias_internally": bool(may_alias_internally),
            "stride_constant": strides,
            "shape_constant": shape,
            "stride_divisible_by": _without_known(
                "stride_divisible_by",
                strides,
                _per_axis("stride_divisible_by", stride_divisible_by, ndim, 1, 1),
            ),
            "shape_divisible_by": _without_known(
                "shape_divisible_by",
                shape,
                _per_axis("shape_divisible_by", shape_divisible_by, ndim, 1, 1),
            ),
            "base_addr_divisible_by": base_addr_divisible_by,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclasses.dataclass(frozen=True, init=False)
class ListConstraint:
    """A list of arrays that are all alike."""

    element: ArrayConstraint
    alias_groups: tuple[str, ...]
    elements_may_alias: bool

    def __init__(
        self, element: ArrayConstraint, *, alias_groups: Sequence[str], elements_may_alias: bool
    ) -> None:
        if not isinstance(element, ArrayConstraint):
            raise TypeError(f"ListConstraint: expected an ArrayConstraint, got {element!r}")
        object.__setattr__(self, "element", element)
        object.__setattr__(self, "alias_groups", _groups(alias_groups))
        object.__setattr__(self, "elements_may_alias", bool(elements_may_alias))


@dataclasses.dataclass(frozen=True, init=False)
class TupleConstraint:
    """A tuple: a constraint for each item."""

    items: tuple[Any, ...]

    def __init__(self, items: Sequence[Any]) -> None:
        object.__setattr__(self, "items", tuple(as_constraint(x) for x in items))


@dataclasses.dataclass(frozen=True)
class DataclassConstraint:
    """A frozen dataclass: a constraint for each field."""

    cls: type
    fields: tuple[Any, ...]


ParameterConstraint = (
    ScalarConstraint
    | ArrayConstraint
    | ListConstraint
    | TupleConstraint
    | ConstantConstraint
    | DataclassConstraint
)
ConstantValue = bool | int | float


def as_constraint(x: Any) -> ParameterConstraint:
    """A constraint; a number stands for itself as a constant, a tuple for its items.

    Raises: TypeError for anything else.
    """
    if isinstance(x, ParameterConstraint):
        return x
    if isinstance(x, tuple):
        return TupleConstraint(x)
    if is_dataclass_value(x):
        names = [f.name for f in dataclasses.fields(x)]
        return DataclassConstraint(type(x), tuple(as_constraint(getattr(x, n)) for n in names))
    return ConstantConstraint(x)


def alias_groups_of(constraints: Sequence[Any]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The arrays and lists among constraints with their alias groups."""
    for c in constraints:
        if isinstance(c, ArrayConstraint):
            yield c, c.alias_groups
        elif isinstance(c, ListConstraint):
            yield c, c.alias_groups
            yield c.element, c.element.alias_groups
        elif isinstance(c, TupleConstraint):
            yield from alias_groups_of(c.items)
        elif isinstance(c, DataclassConstraint):
            yield from alias_groups_of(c.fields)


HOOKS: dict[str, Callable[..., Any]] = {}
"""What signatures need from above: "mangle" makes names, "read" the constraints of arguments."""


@dataclasses.dataclass(frozen=True, init=False)
class KernelSignature:
    """The constraints of all parameters.  `symbol`: the entry's name, None: made from the rest."""

    parameters: tuple[ParameterConstraint, ...]
    calling_convention: CallingConvention
    symbol: str | None

    def __init__(
        self,
        parameters: Sequence[Any],
        calling_convention: CallingConvention,
        symbol: str | None = None,
    ) -> None:
        if symbol is not None and not isinstance(symbol, str):
            raise TypeError(f"KernelSignature: expected a string as symbol, got {symbol!r}")
        if not isinstance(calling_convention, CallingConvention):
            raise TypeError(f"KernelSignature: {calling_convention!r} is no calling convention")
        found = tuple(as_constraint(p) for p in parameters)
        _check_groups(found)
        if calling_convention is _V1 and any(_has_constant_shape(p) for p in found):
            raise ValueError("shape_constant needs the calling convention cutile_python_v2")
        object.__setattr__(self, "parameters", found)
        object.__setattr__(self, "calling_convention", calling_convention)
        object.__setattr__(self, "symbol", symbol)

    def with_symbol(self, symbol: str | None) -> KernelSignature:
        """The same signature under another name."""
        return KernelSignature(self.parameters, self.calling_convention, symbol)

    def with_mangled_symbol(self, function_name: str) -> KernelSignature:
        """The same signature, named by a function's name and itself."""
        return self.with_symbol(HOOKS["mangle"](function_name, self))

    @staticmethod
    def from_kernel_args(
        kernel: Any,
        kernel_args: Sequence[Any],
        calling_convention: CallingConvention,
        *,
        symbol: str | None = None,
    ) -> KernelSignature:
        """The signature that a launch with these arguments compiles for.

        What these arguments happen to have, such as an aligned address, is assumed of all later
        ones: state constraints yourself for what is shipped.
        """
        constraints = HOOKS["read"](kernel, tuple(kernel_args))
        found = KernelSignature(constraints, calling_convention, symbol)
        return found if symbol is not None else found.with_mangled_symbol(kernel.__name__)


def _has_constant_shape(p: Any) -> bool:
    arrays = [c for c, _ in alias_groups_of([p]) if isinstance(c, ArrayConstraint)]
    return any(e is not None for a in arrays for e in a.shape_constant)


def _check_groups(parameters: Sequence[Any]) -> None:
    users: dict[str, list[type]] = {}
    for c, groups in alias_groups_of(parameters):
        for g in groups:
            users.setdefault(g, []).append(type(c))
    for g, kinds in users.items():
        if len(kinds) == 1:
            raise ValueError(
                f"alias group {g!r} has one member only: leave it out where nothing overlaps"
            )
        if len(set(kinds)) > 1:
            raise ValueError(f"alias group {g!r} has both arrays and lists: they never overlap")
