"""Typed numbers: promotion, arithmetic known now and at run time, and what Python may ask."""

import itertools
import operator

import numpy as np
import pytest
from evaluator import Captured, run
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import CaptureError, DTypeError, TypeMismatchError
from tilewright.ir.core import Value
from tilewright.ir.ops import arith
from tilewright.ir.types import ScalarType
from tilewright.lang import values
from tilewright.lang.operations import adopted, promoted
from tilewright.lang.values import (
    NUMERICS,
    BFloat16,
    Boolean,
    Float8E4M3FN,
    Float16,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint32,
    Uint64,
    as_numeric,
    describe,
    from_ir,
    numeric_of,
)
from tilewright.numeric.dtypes import ALL_DTYPES, I32


def test_there_is_a_type_for_every_row():
    assert {k.dtype for k in NUMERICS} == set(ALL_DTYPES)
    for kind in NUMERICS:
        assert kind.__name__ == kind.dtype.cute_name
        assert numeric_of(kind.dtype) is kind
        assert getattr(values, kind.__name__) is kind


def test_what_a_type_knows():
    assert (Int32.width, Int32.is_integer, Int32.is_float, Int32.signed) == (32, True, False, True)
    assert (Boolean.width, Boolean.is_integer) == (1, False)
    assert (Float32.zero, Int32.zero, Float32.inf) == (0.0, 0, float("inf"))
    assert BFloat16.is_same_kind(Float32)
    assert not BFloat16.is_same_kind(Int32)
    assert repr(BFloat16) == "BFloat16"
    assert Int32(3).dtype is Int32
    with pytest.raises(DTypeError, match="Int32 has no infinity: it is not a float type"):
        Int32.inf  # noqa: B018


PROMOTIONS = [
    (Int32, Int64, Int64),
    (Int32, Uint32, Uint32),
    (Int64, Uint32, Int64),
    (Int8, Uint64, Uint64),
    (Int64, Float16, Float16),
    (BFloat16, Float32, Float32),
    (BFloat16, Float16, Float32),
    (Float32, Float64, Float64),
    (Boolean, Int8, Int8),
]


@pytest.mark.parametrize(("a", "b", "c"), PROMOTIONS)
def test_promotion(a, b, c):
    assert promoted(a, b) is c
    assert promoted(b, a) is c
    assert (a(1) + b(1)).dtype is c


def test_promotion_commutes():
    for a, b in itertools.product(NUMERICS, repeat=2):
        assert promoted(a, b) is promoted(b, a)
        assert promoted(a, a) is a


def test_literals_take_the_type_of_the_other_side():
    assert adopted(1, Int8) is Int8
    assert adopted(300, Uint8) is Int32
    assert adopted(1 << 40, Int32) is Int64
    assert adopted(-1, Uint32) is Uint32
    assert adopted(1, BFloat16) is BFloat16
    assert adopted(1.5, BFloat16) is BFloat16
    assert adopted(1.5, Int32) is Float32
    assert (Int32(3) / 2).dtype is Float32
    assert (Boolean(True) + 1).dtype is Int32


ints = st.integers(-50, 50)
OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.and_,
    operator.or_,
    operator.xor,
    operator.lt,
    operator.le,
    operator.eq,
    operator.ne,
    operator.gt,
    operator.ge,
]
DIVISIONS = [operator.floordiv, operator.mod, divmod]


@given(ints, ints)
def test_compile_time_arithmetic_is_pythons(a, b):
    for op in OPERATORS + (DIVISIONS if b else []):
        expected = op(a, b)
        for left, right in ((Int32(a), Int32(b)), (Int32(a), b), (a, Int32(b))):
            result = op(left, right)
            if isinstance(expected, tuple):
                assert tuple(x.raw for x in result) == expected
            else:
                assert result.raw == expected
                assert result.dtype is (Boolean if isinstance(expected, bool) else Int32)


def test_run_time_arithmetic_is_pythons():
    def f(a, b):
        return [
            *(a + b, a - b, a * b, a // b, a % b, a & b, a | b, a ^ b),
            *(a + 3, 3 - a, 2 * a, 7 // b, a % 5, a << 2, a >> 1, 1 << (b & 7)),
            *(-a, +a, abs(a), ~a, a**3, divmod(a, b), a / b),
            *(a == b, a != b, a < b, a <= b, a > b, a >= b, a > 2),
        ]

    made = Captured(f, 1, 2)
    for a, b in itertools.product((-7, -1, 0, 4, 9), (-3, -1, 2, 5)):
        assert made(a, b) == f(a, b)


def test_floats():
    def f(x):
        return [x // 2, x % 3.0, abs(x), x**2, 1 - x, x > 1, -x]

    for x in (-7.5, 0.25, 9.0):
        assert run(f, x) == f(x)


def test_conversions():
    def f(a, x):
        return [a.to(Int64), Float32(a), Int32(x), Int8(a + 300), Boolean(a), Int32(a > 1)]

    made = Captured(f, 1, 2.0)
    assert [v.dtype for v in made.result] == [Int64, Float32, Int32, Int8, Boolean, Int32]
    assert made(3, 2.75) == [3, 3.0, 2, 47, True, 1]
    assert made(0, -2.75) == [0, 0.0, -2, 44, False, 0]
    assert Int32(np.int64(5)).raw == 5
    assert Float32(np.float32(1.5)).raw == 1.5
    assert Uint32(-1).raw == 2**32 - 1
    assert Int32(2.9).raw == 2
    value = Value(ScalarType(I32))
    assert Int32(value).raw is value
    assert from_ir(value).raw is value


def test_constants_fold():
    def f(a):
        zero = a * 0
        return zero + 5, a + zero

    made = Captured(f, 1)
    assert not made.ops(arith.Add)
    assert made(9) == (5, 9)


def test_python_may_ask_for_known_numbers():
    x = Int32(3)
    assert [10, 11, 12, 13][x] == 13
    assert (int(x), float(x), bool(x), f"{x:03d}", str(x)) == (3, 3.0, True, "003", "3")
    assert {x: 1}[3] == 1
    assert repr(Float32(1.5)) == "Float32(1.5)"
    assert hash(Int32(3)) == hash(3)
    with pytest.raises(TypeMismatchError, match=r"an int is needed here, got Float32\(1.5\)"):
        [1, 2][Float32(1.5)]


def test_python_may_not_ask_for_run_time_numbers():
    for ask, need, hint in (
        (operator.index, "Python needs it as an int here", "range_constexpr"),
        (lambda a: int.__call__(a), "int() needs the number", "Int32(x)"),
        (lambda a: complex(a), "float() needs the number", "Float32(x)"),
        (operator.truth, "its truth decides what Python does next", "branch on it"),
    ):
        with pytest.raises(CaptureError) as e:
            run(asking(ask), 1)
        assert need in e.value.message
        assert hint in e.value.hint


def asking(ask):
    def g(a):
        return ask(a)

    return g


def test_provably_equal():
    def f(a, b):
        return [
            (a + b).provably_equal(a + b),
            (a * 4).provably_equal(a * 4),
            (a + b).provably_equal(a - b),
            a.provably_equal(3),
            Int32(3).provably_equal(3),
            Int32(3).provably_equal("3"),
        ]

    assert run(f, 1, 2) == [True, True, False, False, True, False]


def test_what_has_no_arithmetic():
    with pytest.raises(DTypeError) as e:
        Float8E4M3FN(1) + Float8E4M3FN(1)
    assert e.value.message == "add: Float8E4M3FN is a storage type without arithmetic"
    assert e.value.hint == "convert first, such as x.to(Float32)"
    with pytest.raises(DTypeError, match="or: expected integers or Booleans, got Float32"):
        Float32(1) | 1
    with pytest.raises(DTypeError, match=r"shift: expected integers, got Int32 1 and float 1\.5"):
        Int32(1) << 1.5
    with pytest.raises(TypeError, match="unsupported operand"):
        Int32(1) + "1"
    assert Int32(1) != "1"
    assert Float8E4M3FN(1) < Float8E4M3FN(2)


def test_wrong_numbers():
    with pytest.raises(TypeMismatchError, match="Uint8: 256 does not fit into 8 bits"):
        Uint8(256)
    with pytest.raises(TypeMismatchError, match="Int32: expected a number, got a list"):
        Int32([1])
    with pytest.raises(TypeMismatchError, match="Int32: inf has no integer"):
        Int32(float("inf"))
    with pytest.raises(TypeMismatchError, match="expected a number, got str 'x'"):
        as_numeric("x")
    with pytest.raises(TypeMismatchError) as e:
        Int32(2) ** 0.5
    assert e.value.message == "**: the exponent must be a compile-time int in 0..64, got float 0.5"


def test_bitcast():
    def f(x):
        return x.bitcast(Int32)

    made = Captured(f, 1.0)
    assert made.result.dtype is Int32


def test_describe():
    assert describe(Value(ScalarType(I32))) == "a run-time i32"
    assert describe(Int32(Value(ScalarType(I32)))) == "a run-time Int32"
    assert describe(Int32) == "Int32"
    assert describe([1]) == "a list"
    assert describe((1, None)) == "(int 1, None)"
    assert describe(Int16(4)) == "Int16 4"
