"""The words of the public API: padding, rounding, memory order and scope, hints by target."""

from __future__ import annotations

import enum
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PaddingMode(enum.Enum):
    """What a load yields outside of the array."""

    UNDETERMINED = "undetermined"
    ZERO = "zero"
    NEG_ZERO = "neg_zero"
    NAN = "nan"
    POS_INF = "pos_inf"
    NEG_INF = "neg_inf"


class RoundingMode(enum.Enum):
    """How a float result is rounded; FULL and APPROX choose the precision of a function."""

    RN = "nearest_even"
    RZ = "zero"
    RM = "negative_inf"
    RP = "positive_inf"
    RA = "nearest_away"
    FULL = "full"
    APPROX = "approx"
    RZI = "nearest_int_to_zero"


class MemoryOrder(enum.Enum):
    """How an access orders the accesses around it, for other blocks."""

    WEAK = "weak"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"


class MemoryScope(enum.Enum):
    """For which threads an access is ordered."""

    NONE = "none"
    BLOCK = "block"
    CLUSTER = "cluster"
    DEVICE = "device"
    SYS = "sys"


class _Unspecified:
    def __repr__(self) -> str:
        return "UNSPECIFIED"


UNSPECIFIED = _Unspecified()


class ByTarget(Generic[T]):
    """A hint whose value depends on the GPU: `ByTarget(default=1, sm_90=2)`.

    >>> ByTarget(default=1, sm_90=2).value_for("sm_90")
    2
    """

    def __init__(self, *, default: T | _Unspecified = UNSPECIFIED, **value_by_target: T) -> None:
        for target in value_by_target:
            if not target.startswith("sm_"):
                raise TypeError(f"ByTarget: expected targets such as sm_90, got {target!r}")
        self.default = default
        self.value_by_target = dict(value_by_target)

    def value_for(self, target: str) -> T | None:
        """The value for `target`, else the default, else None."""
        found: Any = self.value_by_target.get(target, self.default)
        return None if found is UNSPECIFIED else found

    def __repr__(self) -> str:
        shown = [] if self.default is UNSPECIFIED else [f"default={self.default!r}"]
        shown += [f"{target}={value!r}" for target, value in self.value_by_target.items()]
        return f"ByTarget({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ByTarget):
            return NotImplemented
        return (self.default, self.value_by_target) == (other.default, other.value_by_target)

    def __hash__(self) -> int:
        return hash((self.default, tuple(sorted(self.value_by_target.items()))))
