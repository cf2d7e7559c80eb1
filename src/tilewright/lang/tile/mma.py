"""Matrix products of tiles."""

from __future__ import annotations

from typing import Any

from tilewright.ir.ops.tile.mma import MmaF, MmaFScaled, MmaI
from tilewright.lang.tile.convert import converted
from tilewright.lang.tile.dtypes import (
    DType,
    bfloat16,
    broadcast,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e5m2,
    float8_e5m3fnu,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int8,
    int32,
    promote,
    tfloat32,
    uint8,
)
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.require import constant_bool, tile_of
from tilewright.lang.tile.state import api, value
from tilewright.lang.tile.values import Shape, Tile, broadcasted, described, reshaped, strict

ACCUMULATORS: dict[DType, tuple[DType, ...]] = {
    float8_e4m3fn: (float16, float32),
    float8_e5m2: (float16, float32),
    float16: (float16, float32),
    bfloat16: (float32,),
    float32: (float32,),
    tfloat32: (float32,),
    float64: (float64,),
    int8: (int32,),
    uint8: (int32,),
}
"""Operand type -> accumulator types; the first is what `matmul` accumulates in."""

SCALE_BLOCKS: dict[tuple[DType, DType], tuple[int, ...]] = {
    (float8_e4m3fn, float8_e8m0fnu): (32,),
    (float8_e5m2, float8_e8m0fnu): (32,),
    (float4_e2m1fn, float8_e8m0fnu): (16, 32),
    (float4_e2m1fn, float8_e4m3fn): (16,),
    (float4_e2m1fn, float8_e5m3fnu): (16, 32),
}
"""(operand, scale) -> how many elements along K share a scale."""


def _named(dtypes: Any) -> str:
    return ", ".join(str(t) for t in dtypes)


def _check_operands(x: Tile, y: Tile, acc: DType | None, what: str) -> None:
    pair = (x.dtype_, y.dtype_)
    if x.dtype_ is not y.dtype_ and any(t not in (int8, uint8) for t in pair):
        raise TileTypeError(f"{what}: expected operands of one type, got {pair[0]} and {pair[1]}")
    if x.dtype_ not in ACCUMULATORS:
        raise TileTypeError(
            f"{what}: {x.dtype_} is no operand type, expected {_named(ACCUMULATORS)}"
        )
    if acc is not None and acc not in ACCUMULATORS[x.dtype_]:
        raise TileTypeError(
            f"{what}: operands of {x.dtype_} accumulate in {_named(ACCUMULATORS[x.dtype_])}, "
            f"got {acc}"
        )


def _shapes(x: Shape, y: Shape, what: str) -> tuple[Shape, Shape, Shape]:
    """The batched shapes of both operands and of their product."""
    if x[-1] != y[-2]:
        raise TileTypeError(f"{what}: shapes {x} and {y} do not multiply: {x[-1]} is not {y[-2]}")
    try:
        batch = broadcast([x[:-2], y[:-2]])
    except TileTypeError as error:
        raise TileTypeError(f"{what}: the batches of shapes {x} and {y} do not match") from error
    return batch + x[-2:], batch + y[-2:], (*batch, x[-2], y[-1])


def _flat(tile: Tile) -> Tile:
    """All batch dimensions as one: Tile IR multiplies matrices of rank 2 or 3."""
    if tile.ndim <= 3:
        return tile
    rows, columns = tile.shape_[-2:]
    return reshaped(tile, (tile.type.size // (rows * columns), rows, columns))


def _product(x: Tile, y: Tile, acc: Tile, fast: bool) -> Tile:
    a, b, c = _flat(x), _flat(y), _flat(acc)
    if x.dtype_.is_int:
        made = value(
            MmaI,
            (a.ir, b.ir, c.ir),
            c.type,
            signedness_lhs=x.dtype_.signedness,
            signedness_rhs=y.dtype_.signedness,
        )
    else:
        made = value(MmaF, (a.ir, b.ir, c.ir), c.type, fast_acc=fast)
    return reshaped(Tile(made, acc.dtype_, c.shape_), acc.shape_)


def _at_least_2d(tile: Tile, what: str) -> None:
    if tile.ndim < 2:
        raise TileTypeError(f"{what}: expected at least two dimensions, got {described(tile)}")


@api
def mma(x: Any, y: Any, /, acc: Any, *, use_fast_acc: bool = False) -> Any:
    """x @ y + acc, with the accumulator in `acc`'s own type.  Batches broadcast.

    `use_fast_acc` lets Hopper accumulate fp8 operands with less precision.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y, z):
    ...     a = ct.load(x, (0, 0), (2, 4))
    ...     b = ct.load(y, (0, 0), (4, 2))
    ...     ct.store(z, (0, 0), ct.mma(a, b, ct.zeros((2, 2), ct.float32)))
    >>> x = np.ones((2, 4), np.float16)
    >>> y = np.ones((4, 2), np.float16)
    >>> z = np.zeros((2, 2), np.float32)
    >>> ct.launch(None, (1,), example, (x, y, z,)); z
    array([[4., 4.],
           [4., 4.]], dtype=float32)
    """
    a, b, c = (tile_of(t, f"mma: {n}") for t, n in ((x, "x"), (y, "y"), (acc, "acc")))
    fast = constant_bool(use_fast_acc, "mma: use_fast_acc")
    _at_least_2d(a, "mma: x")
    _at_least_2d(b, "mma: y")
    shape_a, shape_b, out = _shapes(a.shape_, b.shape_, "mma")
    if c.shape_ != out:
        raise TileTypeError(f"mma: expected an accumulator of shape {out}, got {c.shape_}")
    if fast and a.dtype_ not in (float8_e4m3fn, float8_e5m2):
        raise TileTypeError(f"mma: use_fast_acc is for fp8 operands, got {a.dtype_}")
    _check_operands(a, b, c.dtype_, "mma")
    return _product(broadcasted(a, shape_a), broadcasted(b, shape_b), c, fast)


@api
def matmul(x: Any, y: Any, /) -> Any:
    """x @ y, as NumPy's: 1-D operands are a row and a column, batches broadcast.

    The product has the common type of the operands.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, z):
    ...     a = ct.load(x, (0, 0), (2, 2))
    ...     ct.store(z, (0, 0), a @ a)
    >>> x, z = np.array([[1.0, 1], [0, 1]]), np.zeros((2, 2))
    >>> ct.launch(None, (1,), example, (x, z,)); z
    array([[1., 2.],
           [0., 1.]])
    """
    a, b = tile_of(x, "matmul: x"), tile_of(y, "matmul: y")
    if not a.shape_ or not b.shape_:
        raise TileTypeError(f"matmul: expected matrices, got {described(a)} and {described(b)}")
    dtype = promote(a.dtype_, b.dtype_)
    row, column = a.ndim == 1, b.ndim == 1
    a = reshaped(a, (1, *a.shape_)) if row else a
    b = reshaped(b, (*b.shape_, 1)) if column else b
    shape_a, shape_b, out = _shapes(a.shape_, b.shape_, "matmul")
    a = broadcasted(converted(a, dtype), shape_a)
    b = broadcasted(converted(b, dtype), shape_b)
    _check_operands(a, b, None, "matmul")
    found = _product(a, b, strict(0, ACCUMULATORS[dtype][0], out), False)
    kept = out[:-2] + (() if row else out[-2:-1]) + (() if column else out[-1:])
    return reshaped(converted(found, dtype), kept)


def _check_scale(name: str, x: Tile, scale: Tile, k: int) -> None:
    blocks = SCALE_BLOCKS[x.dtype_, scale.dtype_]
    k %= x.ndim
    same = len(scale.shape_) == x.ndim and all(
        e == s for i, (e, s) in enumerate(zip(x.shape_, scale.shape_, strict=True)) if i != k
    )
    if not same:
        raise TileTypeError(
            f"mma_scaled: {name}_scale of shape {scale.shape_} does not fit {name} of shape "
            f"{x.shape_}: they may differ in dimension {k} only"
        )
    block, rest = divmod(x.shape_[k], scale.shape_[k])
    if rest or block not in blocks:
        raise TileTypeError(
            f"mma_scaled: {name} of {x.dtype_} with scales of {scale.dtype_} has one scale per "
            f"{' or '.join(map(str, blocks))} elements along K, got {x.shape_[k]} elements and "
            f"{scale.shape_[k]} scales"
        )


@api
def mma_scaled(x: Any, x_scale: Any, y: Any, y_scale: Any, /, acc: Any) -> Any:
    """(x * x_scale) @ (y * y_scale) + acc: one scale per block of elements along K."""
    named = (("x", x), ("x_scale", x_scale), ("y", y), ("y_scale", y_scale), ("acc", acc))
    a, sa, b, sb, c = (tile_of(t, f"mma_scaled: {n}") for n, t in named)
    for (name, _), tile in zip(named, (a, sa, b, sb, c), strict=True):
        if tile.ndim not in (2, 3):
            raise TileTypeError(
                f"mma_scaled: expected {name} of 2 or 3 dimensions, got {described(tile)}"
            )
    if a.dtype_ is not b.dtype_ or sa.dtype_ is not sb.dtype_:
        raise TileTypeError(
            "mma_scaled: expected operands of one type and scales of one type, got "
            f"{_named((a.dtype_, b.dtype_, sa.dtype_, sb.dtype_))}"
        )
    if (a.dtype_, sa.dtype_) not in SCALE_BLOCKS:
        shown = "; ".join(f"{t} with {s}" for t, s in SCALE_BLOCKS)
        raise TileTypeError(
            f"mma_scaled: there is no product of {a.dtype_} with scales of {sa.dtype_}, "
            f"expected {shown}"
        )
    if c.dtype_ is not float32:
        raise TileTypeError(f"mma_scaled: it accumulates in float32, got {c.dtype_}")
    _check_scale("x", a, sa, -1)
    _check_scale("y", b, sb, -2)
    shape_a, shape_b, out = _shapes(a.shape_, b.shape_, "mma_scaled")
    if c.shape_ != out:
        raise TileTypeError(f"mma_scaled: expected an accumulator of shape {out}, got {c.shape_}")
    batch = out[:-2]
    operands = (
        broadcasted(a, shape_a).ir,
        broadcasted(b, shape_b).ir,
        c.ir,
        broadcasted(sa, batch + sa.shape_[-2:]).ir,
        broadcasted(sb, batch + sb.shape_[-2:]).ir,
    )
    return Tile(value(MmaFScaled, operands, c.type), float32, out)
