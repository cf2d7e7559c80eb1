"""Which run-time values objects hold, and objects rebuilt from other values."""

import collections
import dataclasses
import enum
import types
from typing import NamedTuple

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError
from tilewright.ir.core import Value
from tilewright.ir.types import ScalarType
from tilewright.lang.protocol import is_opaque, values_of, with_values
from tilewright.lang.values import Int32
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.layout import make_layout
from tilewright.numeric.dtypes import I32


class Colour(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: object
    y: object


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object
    b: object = 3


class Slotted:
    __slots__ = ("inner", "unset")

    def __init__(self, inner):
        self.inner = inner


class Speaks:
    def __init__(self, base, note):
        self.base, self.note = base, note

    def __tw_values__(self):
        return [self.base]

    def __tw_with_values__(self, values):
        return Speaks(values[0], self.note)


def fresh(count):
    return [Value(ScalarType(I32), name=f"v{i}") for i in range(count)]


def examples(v):
    number = Int32(v)
    return [
        v,
        number,
        (1, number),
        [number, None],
        {"k": number, "s": "text"},
        Point(2, number),
        Frozen(number),
        Slotted((number,)),
        Speaks(v, "note"),
        types.SimpleNamespace(x=number),
        collections.OrderedDict(a=number),
        make_layout((4, number), stride=(1, 4)),
        ScaledBasis(number, (0,)),
    ]


@pytest.mark.parametrize("index", range(13))
def test_round_trip(index):
    old, new = fresh(2)
    x = examples(old)[index]
    assert values_of(x) == [old]
    made = with_values(x, [new])
    assert type(made) is type(x)
    assert values_of(made) == [new]
    assert values_of(x) == [old]


def test_objects_without_values_come_back_themselves():
    for x in (
        3,
        "s",
        None,
        Int32,
        Colour.RED,
        (1, (2,)),
        [1],
        {},
        Frozen(1),
        Slotted(2),
        len,
        enum,
    ):
        assert values_of(x) == []
        assert with_values(x, []) is x


def test_shared_objects_stay_shared():
    v, w = fresh(2)
    shared = types.SimpleNamespace(n=Int32(v))
    pair = types.SimpleNamespace(a=shared, b=shared)
    pair.me = pair
    assert values_of(pair) == [v]
    made = with_values(pair, [w])
    assert made.a is made.b
    assert made.a.n.raw is w
    assert shared.n.raw is v


def test_wrong_counts():
    v, w = fresh(2)
    with pytest.raises(TypeMismatchError, match="a list holds 1 run-time values, got 2 to replace"):
        with_values([v], [v, w])
    with pytest.raises(TypeMismatchError, match="got 0 to replace them"):
        with_values((Int32(v),), [])


def test_opaque():
    assert all(map(is_opaque, (1, 2.0, "s", None, np.zeros(3), open, Colour.RED, Int32)))
    assert not any(map(is_opaque, ((), [], {}, Int32(1), Frozen(1), Slotted(1))))
