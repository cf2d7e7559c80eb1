"""Arguments on their way into a captured function.

Each argument of a host function is one of three things:

* an **array**: its element type, rank, alignment and which strides are 1 are compiled in; its
  address, shape and other strides are run-time leaves;
* a **number**: one run-time leaf;
* anything else is **static**: it is compiled in, and each value compiles anew.

`read_arguments` separates the two sides: a hashable `key` (what is compiled in) and `leaves` (the
numbers that change from call to call).  `make_arguments` builds, for a trace, the values of the
language that stand for them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.errors import LaunchError
from tilewright.ir.evaluate import Number
from tilewright.ir.types import PtrType, ScalarType, Space, Type
from tilewright.lang.arguments import Signature
from tilewright.lang.cute.facts import assume
from tilewright.lang.cute.pointer import Pointer, row_of
from tilewright.lang.cute.tensor import Tensor
from tilewright.lang.jit import HostTrace
from tilewright.lang.values import (
    Boolean,
    Float32,
    Int32,
    Int64,
    Numeric,
    from_ir,
    static_number,
)
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import I32, I64, DType, dtype
from tilewright.runtime.arrays import ArrayView, as_array

MAX_ALIGN = 16
"""The widest access is 16 bytes: more alignment than that is of no use, and would split keys."""


@dataclass(frozen=True, slots=True)
class ArrayKey:
    """What is compiled in of an array.

    `strides` has for each mode 0 or 1 where the stride is that, else None; `divisors` the number
    of elements that divides each stride, as far as it matters for a 16-byte access; `runs` the
    number that divides the extent of each mode of stride 1 and all of those strides, so that whole
    accesses fill it; `wide` says which extents do not fit 32 bits.
    """

    dtype: DType
    align: int
    strides: tuple[int | None, ...]
    divisors: tuple[int, ...]
    runs: tuple[int, ...]
    wide: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class NumberKey:
    """What is compiled in of a number: its type."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class StaticKey:
    """A value that is compiled in whole.  Values that cannot be hashed are told apart by identity.

    `value` takes no part in the comparison where `identity` stands for it.
    """

    identity: Hashable
    value: Any = field(compare=False)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A tuple or list of arguments."""

    kind: type
    items: tuple[Any, ...]


Key = ArrayKey | NumberKey | StaticKey | GroupKey


@dataclass(slots=True)
class Arguments:
    """One call, taken apart."""

    key: dict[str, Key] = field(default_factory=dict)
    leaves: list[Number] = field(default_factory=list)
    arrays: dict[int, ArrayView] = field(default_factory=dict)
    """The array behind each leaf that is an address."""
    stream: Any = None

    @property
    def hashable_key(self) -> tuple[Any, ...]:
        return tuple(self.key.items())

    @property
    def device(self) -> str:
        """The device that all arrays are on ('cpu' if there are none)."""
        return next((view.device for view in self.arrays.values()), "cpu")


def read_arguments(signature: Signature, bound: Mapping[str, Any]) -> Arguments:
    """Takes a call apart.  `bound` are the arguments by parameter name.

    Raises: LaunchError for arrays on different devices, naming them.
    """
    taken = Arguments()
    for name, value in bound.items():
        parameter = signature.parameters[name]
        if name == "stream" or hasattr(value, "cuda_stream") or hasattr(value, "__cuda_stream__"):
            taken.stream = value
            taken.key[name] = StaticKey(None, None)
        elif parameter.is_constexpr:
            taken.key[name] = _static(value)
        else:
            taken.key[name] = _read(value, parameter.annotation, name, taken)
    places = {view.device for view in taken.arrays.values()}
    if len(places) > 1:
        raise LaunchError(
            f"{signature.name}: arrays on different devices: {', '.join(sorted(places))}",
            hint="move them to one device first",
        )
    return taken


def _read(value: Any, annotation: Any, name: str, taken: Arguments) -> Key:
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        items = tuple(_read(v, None, f"{name}[{i}]", taken) for i, v in enumerate(value))
        return GroupKey(type(value), items)
    if isinstance(value, Numeric):
        number = static_number(value)
        if number is None:
            raise LaunchError(f"argument {name}: {value} is known only inside a kernel")
        taken.leaves.append(number)
        return NumberKey(row_of(type(value)))
    if isinstance(value, bool | int | float | np.number):
        kind = _number_type(value, annotation)
        taken.leaves.append(value if isinstance(value, bool | int | float) else value.item())
        return NumberKey(row_of(kind))
    if _is_array(value):
        return _read_array(as_array(value, f"argument {name}"), taken)
    return _static(value)


def _number_type(value: Any, annotation: Any) -> type[Numeric]:
    typed = isinstance(annotation, type) and issubclass(annotation, Numeric)
    if typed and annotation is not Numeric:
        kind: type[Numeric] = annotation
        return kind
    if isinstance(value, bool):
        return Boolean
    if isinstance(value, int | np.integer):
        return Int32 if -(2**31) <= int(value) < 2**31 else Int64
    return Float32


def _is_array(value: Any) -> bool:
    if isinstance(value, type):
        return False
    if isinstance(value, ArrayView | np.ndarray) or "__cuda_array_interface__" in _own(value):
        return True
    # The class is asked, not the object: torch's own interface raises for its fp8 tensors.
    names = ("data_ptr", "__dlpack__", "__cuda_array_interface__")
    return any(hasattr(type(value), name) for name in names)


def _own(value: Any) -> Mapping[str, Any]:
    return getattr(value, "__dict__", {})


def _static(value: Any) -> StaticKey:
    try:
        hash(value)
    except TypeError:
        return StaticKey(("id", id(value)), value)
    return StaticKey((type(value), value), value)


def _read_array(view: ArrayView, taken: Arguments) -> ArrayKey:
    row = dtype(view.dtype)
    taken.arrays[len(taken.leaves)] = view
    taken.leaves.append(view.pointer)
    taken.leaves.extend(view.shape)
    per_access = max(MAX_ALIGN * 8 // row.storage_bits, 1)
    strides: list[int | None] = []
    for stride in view.strides:
        known = stride if stride in (0, 1) else None
        strides.append(known)
        if known is None:
            taken.leaves.append(stride)
    align = math.gcd(view.pointer, MAX_ALIGN) if view.size else MAX_ALIGN
    divisors = tuple(math.gcd(s, per_access) or 1 for s in view.strides)
    # Without another stride every extent may come, and one program is to serve them all.
    pitch = math.gcd(*(d for d, known in zip(divisors, strides, strict=True) if known is None))
    return ArrayKey(
        dtype=row,
        align=max(align, row.bytes_for(1)),
        strides=tuple(strides),
        divisors=divisors,
        runs=tuple(
            math.gcd(extent, pitch) if known == 1 and pitch else 1
            for extent, known in zip(view.shape, strides, strict=True)
        ),
        wide=tuple(extent >= 2**31 for extent in view.shape),
    )


def make_arguments(host: HostTrace, key: Mapping[str, Key]) -> dict[str, Any]:
    """The language's values for a call with this key; adds the leaves as arguments of `host`."""
    return {name: _make(host, name, part) for name, part in key.items()}


def _make(host: HostTrace, name: str, key: Key) -> Any:
    if isinstance(key, StaticKey):
        return key.value
    if isinstance(key, NumberKey):
        return from_ir(host.add_argument(name, ScalarType(key.dtype)))
    if isinstance(key, GroupKey):
        return key.kind(_make(host, f"{name}_{i}", item) for i, item in enumerate(key.items))
    return _make_tensor(host, name, key)


def _make_tensor(host: HostTrace, name: str, key: ArrayKey) -> Tensor:
    def leaf(label: str, type: Type) -> Any:
        return from_ir(host.add_argument(label, type))

    pointer = host.add_argument(name, PtrType(key.dtype, Space.GMEM, key.align))
    shape = tuple(
        assume(leaf(f"{name}_shape{i}", ScalarType(I64 if wide else I32)), divby=key.runs[i])
        for i, wide in enumerate(key.wide)
    )
    stride = tuple(
        assume(leaf(f"{name}_stride{i}", ScalarType(I64)), divby=key.divisors[i])
        if known is None
        else known
        for i, known in enumerate(key.strides)
    )
    if not shape:  # a tensor of rank 0 is one element
        return Tensor(Pointer(pointer), Layout(1, 0))
    return Tensor(Pointer(pointer), Layout(shape, stride))


def leaf_count(key: Key) -> int:
    """How many leaves `make_arguments` adds for this key."""
    if isinstance(key, NumberKey):
        return 1
    if isinstance(key, GroupKey):
        return sum(leaf_count(item) for item in key.items)
    if isinstance(key, ArrayKey):
        return 1 + len(key.wide) + sum(known is None for known in key.strides)
    return 0
