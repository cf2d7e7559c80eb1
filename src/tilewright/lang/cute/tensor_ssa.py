"""TensorSSA: the values of a tensor in registers, as one immutable value for elementwise work.

A TensorSSA is an IR vector and the shape that its elements are numbered by (colexicographically).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, cast

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.core import Op, Value
from tilewright.ir.ops import arith
from tilewright.ir.types import VecType
from tilewright.lang import trace
from tilewright.lang.cute.pointer import row_of, static_int
from tilewright.lang.values import (
    Boolean,
    Float32,
    Int32,
    as_numeric,
    common_type,
    describe,
    from_ir,
    is_number,
    numeric_of,
)
from tilewright.layout.coord import crd2idx, has_underscore, slice_tuple
from tilewright.layout.int_tuple import Shape, fmt, product
from tilewright.layout.layout import Layout
from tilewright.layout.modes import slice_and_offset

_NARROW = {"e4m3", "e5m2", "e8m0", "e2m1", "i4", "u4", "tf32"}


class ReductionOp(enum.Enum):
    """How elements are combined."""

    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"
    INC = "inc"
    """Counts up to the operand, then starts at 0: only in reductions into memory."""
    DEC = "dec"
    """Counts down from the operand, again and again: only in reductions into memory."""
    AND = "and"
    OR = "or"
    XOR = "xor"


_COMBINE: dict[str, type[Op]] = {
    "add": arith.Add,
    "mul": arith.Mul,
    "max": arith.Max,
    "min": arith.Min,
}


class TensorSSA:
    """The elements of a tensor of static `shape`, all in this thread's registers.

    Operators work element by element; scalars are broadcast; types meet as for numbers.
    """

    __slots__ = ("_shape", "_value")
    __tw_immutable__ = True
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Value, shape: Shape) -> None:
        assert isinstance(value.type, VecType), f"TensorSSA of {value.type}"
        if value.type.count != product(shape):
            raise LayoutError(
                f"TensorSSA: {value.type.count} values do not fill shape {fmt(shape)}",
                loc=trace.loc(),
            )
        self._value = value
        self._shape = shape

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def dtype(self) -> Any:
        return numeric_of(cast(VecType, self._value.type).dtype)

    element_type = dtype

    @property
    def size(self) -> int:
        return cast(VecType, self._value.type).count

    def ir_value(self) -> Value:
        """The IR vector."""
        return self._value

    def to(self, dtype: Any) -> TensorSSA:
        """Every element converted (rounded to nearest even, truncated or wrapped)."""
        row = row_of(dtype)
        if row is self.dtype._row:
            return self
        return TensorSSA(trace.value(arith.Cast, self._value, dtype=row.name), self._shape)

    def reshape(self, shape: Shape) -> TensorSSA:
        """The same elements, numbered by another shape of the same size."""
        return TensorSSA(self._value, shape)

    def broadcast_to(self, shape: Shape) -> TensorSSA:
        """Repeated along the modes of size 1.

        Raises: LayoutError where a mode is neither 1 nor that of `shape`.
        """
        return self._gathered(_broadcast(self._shape, shape), shape)

    def _gathered(self, indices: tuple[int, ...], shape: Shape) -> TensorSSA:
        if indices == tuple(range(self.size)):
            return TensorSSA(self._value, shape)
        return TensorSSA(trace.value(arith.Shuffle, self._value, indices=indices), shape)

    def __getitem__(self, coord: Any) -> Any:
        """The element at a compile-time coordinate, or with None the elements along those modes."""
        layout = Layout(self._shape)
        if coord is not None and not has_underscore(coord):
            index = static_int(crd2idx(coord, self._shape))
            if index is None or not 0 <= index < self.size:
                raise TypeMismatchError(
                    f"TensorSSA: the coordinate must be a compile-time one inside "
                    f"{fmt(self._shape)}, got {describe(coord)}",
                    loc=trace.loc(),
                    hint="loop with range_constexpr, or keep the values in an rmem tensor",
                )
            return from_ir(trace.value(arith.Extract, self._value, index=index))
        sub, offset = slice_and_offset(coord, layout)
        indices = tuple(offset + sub(i) for i in range(product(sub.shape)))
        return self._gathered(indices, slice_tuple(coord, self._shape))

    def reduce(self, op: ReductionOp, init_val: Any = None, reduction_profile: Any = 0) -> Any:
        """The elements combined, first to last, then with `init_val`.

        `reduction_profile`: 0 reduces everything to a scalar; a tuple keeps the modes where it
        has None.
        """
        kind = op.value if isinstance(op, ReductionOp) else str(op)
        if kind not in _COMBINE:
            raise TypeMismatchError(
                f"reduce: expected ReductionOp.ADD, MUL, MAX or MIN, got {describe(op)}",
                loc=trace.loc(),
            )
        if not isinstance(reduction_profile, tuple):
            total = from_ir(reduced(self._value, kind))
            if init_val is None or _neutral(kind, init_val):
                return total
            return combine(kind, total, init_val)
        kept = slice_tuple(reduction_profile, self._shape)
        layout = Layout(self._shape)
        outer, _ = slice_and_offset(reduction_profile, layout)
        other = tuple(0 if p is None else None for p in reduction_profile)
        inner, _ = slice_and_offset(other, layout)
        rows = []
        for i in range(product(outer.shape)):
            picked = tuple(outer(i) + inner(j) for j in range(product(inner.shape)))
            row = trace.value(arith.Shuffle, self._value, indices=picked)
            total = from_ir(reduced(row, kind))
            if not (init_val is None or _neutral(kind, init_val)):
                total = combine(kind, total, init_val)
            rows.append(total.ir_value())
        return TensorSSA(trace.value(arith.Pack, *rows), kept)

    def _binary(self, op: type[Op], other: Any, swapped: bool = False) -> TensorSSA:
        kind = common_type(_sample(self), _sample(other))
        if op is arith.Div and not kind._row.is_float:
            kind = Float32
        if kind is Boolean and op not in (arith.And, arith.Or, arith.Xor):
            kind = Int32
        a, b, shape = _matched(self, other, kind)
        x, y = (b, a) if swapped else (a, b)
        return TensorSSA(trace.value(op, x, y), shape)

    def _compare(self, predicate: str, other: Any) -> TensorSSA:
        kind = common_type(_sample(self), _sample(other))
        if kind._row.name in _NARROW:
            kind = Float32
        a, b, shape = _matched(self, other, kind)
        return TensorSSA(trace.value(arith.Cmp, a, b, predicate=predicate), shape)

    def __add__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Add, other)

    def __radd__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Add, other, swapped=True)

    def __sub__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Sub, other)

    def __rsub__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Sub, other, swapped=True)

    def __mul__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Mul, other)

    def __rmul__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Mul, other, swapped=True)

    def __truediv__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Div, other)

    def __rtruediv__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Div, other, swapped=True)

    def __floordiv__(self, other: Any) -> TensorSSA:
        return self._binary(arith.FloorDiv, other)

    def __mod__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Mod, other)

    def __and__(self, other: Any) -> TensorSSA:
        return self._binary(arith.And, other)

    def __or__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Or, other)

    def __xor__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Xor, other)

    def __lshift__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Shl, other)

    def __rshift__(self, other: Any) -> TensorSSA:
        return self._binary(arith.Shr, other)

    def __neg__(self) -> TensorSSA:
        return TensorSSA(trace.value(arith.Neg, self._value), self._shape)

    def __abs__(self) -> TensorSSA:
        if self.dtype.is_float:
            return TensorSSA(trace.value(arith.Math, self._value, function="abs"), self._shape)
        return self._binary(arith.Max, -self)

    def __eq__(self, other: object) -> Any:
        return self._compare("eq", other)

    def __ne__(self, other: object) -> Any:
        return self._compare("ne", other)

    def __lt__(self, other: Any) -> TensorSSA:
        return self._compare("lt", other)

    def __le__(self, other: Any) -> TensorSSA:
        return self._compare("le", other)

    def __gt__(self, other: Any) -> TensorSSA:
        return self._compare("gt", other)

    def __ge__(self, other: Any) -> TensorSSA:
        return self._compare("ge", other)

    def __bool__(self) -> bool:
        raise TypeMismatchError(
            "a TensorSSA has no truth value",
            loc=trace.loc(),
            hint="reduce it to a scalar, or choose elementwise with cute.where",
        )

    def __tw_values__(self) -> list[Value]:
        return [self._value]

    def __tw_with_values__(self, values: list[Value]) -> TensorSSA:
        return TensorSSA(values[0], self._shape)

    def __repr__(self) -> str:
        return f"TensorSSA({self.dtype}, {fmt(self._shape)})"


def reduced(vector: Value, kind: str) -> Value:
    """The elements of an IR vector combined, first to last."""
    return trace.value(arith.Reduce, vector, kind=kind)


def _sample(x: Any) -> Any:
    """A stand-in number of the same type, for the rules of promotion."""
    return x.dtype(0) if isinstance(x, TensorSSA) else x


def _neutral(kind: str, init: Any) -> bool:
    neutral = {"add": 0, "mul": 1, "max": -float("inf"), "min": float("inf")}
    return isinstance(init, int | float) and init == neutral[kind]


def combine(kind: str, a: Any, b: Any) -> Any:
    """``a + b``, ``a * b``, ``max(a, b)`` or ``min(a, b)`` of two numbers, in their common type."""
    t = common_type(a, b)
    op = _COMBINE[kind]
    return from_ir(trace.value(op, t(a).ir_value(), t(b).ir_value()))


def _matched(a: TensorSSA, b: Any, kind: Any) -> tuple[Value, Value, Shape]:
    """Both operands as vectors of one type and shape."""
    x = a.to(kind)
    if not isinstance(b, TensorSSA):
        if not is_number(b):
            raise TypeMismatchError(
                f"TensorSSA: expected a number or a TensorSSA as operand, got {describe(b)}",
                loc=trace.loc(),
                hint="load a tensor's values first: t.load()" if hasattr(b, "load") else "",
            )
        return x.ir_value(), splat(b, kind, x.size), x.shape
    y = b.to(kind)
    if x.shape != y.shape and x.size != y.size:
        shape = x.shape if x.size > y.size else y.shape
        x, y = x.broadcast_to(shape), y.broadcast_to(shape)
    return x.ir_value(), y.ir_value(), x.shape


def splat(number: Any, kind: Any, count: int) -> Value:
    """A vector of `count` equal elements."""
    return trace.value(arith.Splat, kind(as_numeric(number)).ir_value(), count=count)


def _broadcast(old: Shape, new: Shape) -> tuple[int, ...]:
    """For every index of `new`, the index in `old` that it is a copy of."""

    def strides(s: Any, t: Any, step: int) -> tuple[Any, int]:
        if type(s) is tuple and type(t) is tuple and len(s) == len(t):
            parts = []
            for x, y in zip(s, t, strict=True):
                d, step = strides(x, y, step)
                parts.append(d)
            return tuple(parts), step
        if type(s) is int and s == 1:
            return Layout(t, _zeros(t)).stride, step
        if product(s) != product(t):
            raise LayoutError(
                f"TensorSSA: shape {fmt(old)} cannot be broadcast to {fmt(new)}", loc=trace.loc()
            )
        return Layout(t, None).stride if step == 1 else _scaled(Layout(t).stride, step), (
            step * product(t)
        )

    stride, _ = strides(old, new, 1)
    layout = Layout(new, stride)
    return tuple(layout(i) for i in range(product(new)))


def _zeros(t: Any) -> Any:
    return tuple(_zeros(x) for x in t) if type(t) is tuple else 0


def _scaled(t: Any, by: int) -> Any:
    return tuple(_scaled(x, by) for x in t) if type(t) is tuple else t * by


def elementwise(fn: Callable[[Value], Value], x: Any) -> Any:
    """`fn` of the IR value of a number or TensorSSA, rewrapped."""
    if isinstance(x, TensorSSA):
        return TensorSSA(fn(x.ir_value()), x.shape)
    return from_ir(fn(as_numeric(x).ir_value()))


def full(shape: Shape, fill_value: Any, dtype: Any) -> TensorSSA:
    """`shape` filled with one value."""
    kind = numeric_of(row_of(dtype))
    return TensorSSA(splat(fill_value, kind, product(shape)), shape)


def full_like(a: Any, fill_value: Any, dtype: Any = None) -> TensorSSA:
    """The shape (and element type) of `a`, filled with one value."""
    return full(a.shape, fill_value, a.element_type if dtype is None else dtype)


def zeros_like(a: Any, dtype: Any = None) -> TensorSSA:
    return full_like(a, 0, dtype)


def ones_like(a: Any, dtype: Any = None) -> TensorSSA:
    return full_like(a, 1, dtype)


def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds, else `y`, element by element; both are evaluated.

    >>> where(True, 1, 2)
    1
    """
    if isinstance(condition, bool):
        return x if condition else y
    parts = [p for p in (condition, x, y) if isinstance(p, TensorSSA)]
    if not parts:
        kind = common_type(x, y)
        chosen = trace.value(
            arith.Select, Boolean(condition).ir_value(), kind(x).ir_value(), kind(y).ir_value()
        )
        return from_ir(chosen)
    model = max(parts, key=lambda p: p.size)
    kind = common_type(_sample(x), _sample(y))

    def vector(p: Any, t: Any) -> Value:
        if isinstance(p, TensorSSA):
            same = p.size == model.size
            return (p if same else p.broadcast_to(model.shape)).to(t).ir_value()
        return splat(p, t, model.size)

    c = (
        vector(condition, Boolean)
        if isinstance(condition, TensorSSA)
        else Boolean(condition).ir_value()
    )
    return TensorSSA(trace.value(arith.Select, c, vector(x, kind), vector(y, kind)), model.shape)


def any_(x: TensorSSA) -> Any:
    """Whether any element is not zero."""
    return Boolean((x != 0).to(Int32).reduce(ReductionOp.MAX))


def all_(x: TensorSSA) -> Any:
    """Whether every element is not zero."""
    return Boolean((x != 0).to(Int32).reduce(ReductionOp.MIN))
