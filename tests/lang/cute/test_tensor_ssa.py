"""TensorSSA: operators, broadcasting, reductions, functions, refusals."""

import pytest
from traced import kernel

from tilewright.errors import DTypeError, LayoutError, TypeMismatchError
from tilewright.ir.ops import arith
from tilewright.lang.cute import elementary as math
from tilewright.lang.cute.tensor import make_rmem_tensor
from tilewright.lang.cute.tensor_ssa import (
    ReductionOp,
    TensorSSA,
    all_,
    any_,
    full,
    full_like,
    ones_like,
    where,
    zeros_like,
)
from tilewright.lang.values import BFloat16, Boolean, Float32, Int32


def values(shape=(4, 2), dtype=Float32) -> TensorSSA:
    t = make_rmem_tensor(shape, dtype)
    t.fill(1)
    return t.load()


def test_operators_meet_types_as_numbers_do() -> None:
    with kernel() as k:
        x, h, i = values(), values(dtype=BFloat16), values(dtype=Int32)
        assert (x + 1).dtype is Float32
        assert (2 * h).dtype is BFloat16
        assert (h + x).dtype is Float32
        assert (i + 1.5).dtype is Float32
        assert (i / 2).dtype is Float32
        assert (i // 2).dtype is Int32
        assert ((i % 3) ^ (i << 1) | i & 1).dtype is Int32
        assert (x < 0.5).dtype is Boolean
        assert (x == i).dtype is Boolean
        assert (1 - x).shape == (4, 2)
        assert (-x).size == 8
        assert abs(x).dtype is Float32
        assert abs(i).dtype is Int32
        assert (3.0 / x).dtype is Float32
        k.verify()


def test_swapped_operands_keep_their_order() -> None:
    with kernel() as k:
        x = values()
        result = (1 - x).ir_value().owner
        assert isinstance(result, arith.Sub)
        assert result.b is x.ir_value()
        assert len(k.all(arith.Splat)) == 2


def test_indexing_and_slices() -> None:
    with kernel() as k:
        x = values((4, (2, 3)))
        assert x[3, (1, 2)].ir_value().owner.index == 23
        assert x[5].ir_value().owner.index == 5
        assert x[None, 1].ir_value().owner.indices == (4, 5, 6, 7)
        assert x[None, (None, 2)].shape == (4, 2)
        assert x.reshape((8, 3)).shape == (8, 3)
        with pytest.raises(TypeMismatchError, match=r"the coordinate must be a compile-time one"):
            x[k.number("i")]
        with pytest.raises(LayoutError, match=r"8 values do not fill shape \(3,3\)"):
            values().reshape((3, 3))


def test_broadcast() -> None:
    with kernel():
        row = values((1, 4))
        wide = row.broadcast_to((3, 4))
        assert wide.ir_value().owner.indices == (0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3)
        assert (values((3, 4)) + row).shape == (3, 4)
        assert (values((3, 1)).broadcast_to((3, 2))).ir_value().owner.indices == (0, 1, 2, 0, 1, 2)
        with pytest.raises(LayoutError, match=r"shape \(3,4\) cannot be broadcast to \(2,4\)"):
            values((3, 4)).broadcast_to((2, 4))


def test_reductions() -> None:
    with kernel() as k:
        x = values((4, 2))
        assert type(x.reduce(ReductionOp.ADD, 0.0, 0)) is Float32
        assert [op.kind for op in k.all(arith.Reduce)] == ["add"]
        assert not k.all(arith.Add)
        x.reduce(ReductionOp.MAX, 3.0, 0)
        assert len(k.all(arith.Max)) == 1
        rows = x.reduce(ReductionOp.MAX, -float("inf"), (None, 1))
        assert rows.shape == (4,)
        shuffles = [op.indices for op in k.all(arith.Shuffle)]
        assert shuffles == [(0, 4), (1, 5), (2, 6), (3, 7)]
        assert type(any_(x > 0)) is Boolean
        assert type(all_(x > 0)) is Boolean
        text = "reduce: expected ReductionOp.ADD, MUL, MAX or MIN, got str"
        with pytest.raises(TypeMismatchError, match=text):
            x.reduce("sum")
        k.verify()


def test_making_and_choosing() -> None:
    with kernel() as k:
        x = values()
        assert full_like(x, 2).dtype is Float32
        assert zeros_like(x, Int32).dtype is Int32
        assert ones_like(x).shape == (4, 2)
        assert full((2, 2), 1.0, BFloat16).size == 4
        chosen = where(x > 0, x, 0.0)
        assert chosen.shape == (4, 2)
        assert chosen.dtype is Float32
        flag = Boolean(k.number("p", "bool"))
        assert where(flag, x, -1).shape == (4, 2)
        assert type(where(flag, 1.0, k.number("y", "f32"))) is Float32
        assert where(True, 1, 2) == 1
        k.verify()


def test_functions() -> None:
    with kernel() as k:
        x = values()
        for fn in (math.exp, math.exp2, math.log, math.log2, math.sqrt, math.rsqrt, math.tanh):
            assert fn(x).shape == (4, 2)
        math.exp2(x, fastmath=True)
        assert [op.fast for op in k.all(arith.Math)] == [False] * 7 + [True]
        y = k.number("y", "f32")
        assert type(math.sin(y)) is Float32
        assert type(math.fma(y, 2.0, y)) is Float32
        assert type(math.maximum(y, 0.0)) is Float32
        assert math.maximum(x, 0.0).size == 8
        assert type(math.fmax(y, 1, 2)) is Float32
        assert len(math.mul_packed_f32x2((y, y), (y, 2.0))) == 2
        with pytest.raises(DTypeError, match=r"exp: expected a float, got Int32"):
            math.exp(values(dtype=Int32))
        k.verify()


def test_wrong_use_is_refused() -> None:
    with kernel():
        x = values()
        with pytest.raises(TypeMismatchError, match=r"a TensorSSA has no truth value"):
            bool(x)
        with pytest.raises(TypeMismatchError, match=r"expected a number or a TensorSSA as operand"):
            x + "1"
        with pytest.raises(TypeMismatchError, match=r"t.load\(\)"):
            x + make_rmem_tensor((4, 2), Float32)
