"""The vocabulary of type constraints that operation declarations use."""

from __future__ import annotations

from tilewright.ir.core import Constraint
from tilewright.ir.types import (
    PtrType,
    ScalarType,
    Space,
    TensorMapType,
    Type,
    VecType,
    is_value,
)
from tilewright.numeric.dtypes import DType


def scalar(*dtypes: DType) -> Constraint:
    """A scalar of one of the given element types."""
    names = " or ".join(d.name for d in dtypes)
    return Constraint(
        f"a scalar {names}", lambda t: isinstance(t, ScalarType) and t.dtype in dtypes
    )


def pointer(space: Space, *dtypes: DType) -> Constraint:
    """A pointer into `space`, to one of the given element types (to any, if none is given)."""
    names = " or ".join(d.name for d in dtypes) or "any type"
    return Constraint(
        f"a pointer to {names} in {space.value}",
        lambda t: isinstance(t, PtrType) and t.space is space and (not dtypes or t.dtype in dtypes),
    )


def _is_int(t: Type) -> bool:
    return isinstance(t, ScalarType | VecType) and not t.dtype.is_float


def _is_float(t: Type) -> bool:
    return isinstance(t, ScalarType | VecType) and t.dtype.is_float


ANY = Constraint("any value", lambda _: True)
VALUE = Constraint("a scalar or vector", is_value)
SCALAR = Constraint("a scalar", lambda t: isinstance(t, ScalarType))
VECTOR = Constraint("a vector", lambda t: isinstance(t, VecType))
INTEGER = Constraint(
    "an integer or bool scalar", lambda t: _is_int(t) and isinstance(t, ScalarType)
)
INTEGERS = Constraint("an integer or bool scalar or vector", _is_int)
FLOATS = Constraint("a float scalar or vector", _is_float)
POINTER = Constraint("a pointer", lambda t: isinstance(t, PtrType))
MEMORY = Constraint(
    "a pointer into gmem, smem or dsmem",
    lambda t: isinstance(t, PtrType) and t.space is not Space.RMEM,
)
GMEM = pointer(Space.GMEM)
SMEM = pointer(Space.SMEM)
DSMEM = pointer(Space.DSMEM)
RMEM = pointer(Space.RMEM)
TENSORMAP = Constraint("a tensor map", lambda t: isinstance(t, TensorMapType))
