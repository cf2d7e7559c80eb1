"""What a tile program computes with: tiles, arrays in memory, tiled views of them.

A tile is a value of Tile IR with an element type that knows its sign.  A Python bool, int or float
is a *loosely typed* constant: it takes the type of what it meets.  `ct.float32(1)` makes a
*strictly typed* constant: a tile that remembers its number, `Tile.const`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir.core import Value
from tilewright.ir.ops.tile.shape import Broadcast, Constant, Reshape
from tilewright.ir.tile_attrs import DenseAttr
from tilewright.ir.tile_types import PointerType, TileIrType, TileType, fault
from tilewright.lang.tile.dtypes import (
    DType,
    bool_,
    broadcasts_to,
    check_range,
    dtype_of_constant,
    float4_e2m1fn,
    float8_e5m3fnu,
    float8_e8m0fnu,
)
from tilewright.lang.tile.enums import PaddingMode, RoundingMode
from tilewright.lang.tile.errors import TileTypeError, TileValueError
from tilewright.lang.tile.state import AliasSet, api, value
from tilewright.numeric.encode import encode

Number = bool | int | float
Shape = tuple[int, ...]

METHODS: dict[str, Callable[..., Any]] = {}
"""What the methods of tiles and arrays do: filled by the files that define the functions."""


def method(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a function what the method `name` does."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        METHODS[name] = fn
        return fn

    return register


class Tile:
    """Elements of one type in a box of constant power-of-two extents; a scalar has no extent.

    Tiles are immutable.  All operators of `ct` work on them, elementwise and with broadcasting.
    """

    __slots__ = ("_value", "const", "dtype_", "shape_")

    def __init__(
        self, value: Value | None, dtype: DType, shape: Shape, const: Number | None = None
    ) -> None:
        self._value = value
        self.dtype_ = dtype
        self.shape_ = shape
        self.const = const

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.dtype_

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.shape_

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape_)

    @api
    def item(self) -> Any:
        """The only element, as a scalar."""
        return METHODS["reshape"](self, ())

    @api
    def extract(self, index: Any, shape: Any) -> Any:
        """`ct.extract`."""
        return METHODS["extract"](self, index, shape)

    @api
    def insert(self, index: Any, value: Any) -> Any:
        """`ct.insert`."""
        return METHODS["insert"](self, index, value)

    @api
    def reshape(self, shape: Any) -> Any:
        """`ct.reshape`."""
        return METHODS["reshape"](self, shape)

    @api
    def permute(self, axes: Any) -> Any:
        """`ct.permute`."""
        return METHODS["permute"](self, axes)

    @api
    def transpose(self, axis0: Any = None, axis1: Any = None) -> Any:
        """`ct.transpose`."""
        return METHODS["transpose"](self, axis0, axis1)

    @api
    def astype(self, dtype: Any, *, rounding_mode: RoundingMode | None = None) -> Any:
        """`ct.astype`."""
        return METHODS["astype"](self, dtype, rounding_mode=rounding_mode)

    @property
    def type(self) -> TileType:
        """The type in the kernel."""
        return TileType(self.shape_, self.dtype_.element)

    @property
    def ir(self) -> Value:
        """The value in the kernel; a constant is made where it is used."""
        if self._value is not None:
            return self._value
        assert self.const is not None, "a tile has a value, a number, or both"
        return constant_value(self.const, self.dtype_, self.shape_)

    def __repr__(self) -> str:
        return f"<tile[{self.dtype_}, {self.shape_}]>"


class Array:
    """An array in global memory.  It is only loaded from and stored to, tile by tile."""

    __slots__ = ("aliases", "base", "dtype_", "index_dtype", "shape_", "strides_", "view")

    def __init__(
        self,
        base: Value,
        dtype: DType,
        shape: tuple[int | Tile, ...],
        strides: tuple[int | Tile, ...],
        index_dtype: DType,
        aliases: AliasSet,
        view: Value,
    ) -> None:
        self.base = base
        self.dtype_ = dtype
        self.shape_ = shape
        self.strides_ = strides
        self.index_dtype = index_dtype
        self.aliases = aliases
        self.view = view

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.dtype_

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents; those known only at run time are scalar tiles."""
        return self.shape_  # type: ignore[return-value]

    @property
    def strides(self) -> tuple[int, ...]:
        """The distances from one element to the next along each dimension, in elements."""
        return self.strides_  # type: ignore[return-value]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape_)

    @property
    def foreign_pointer(self) -> Any:
        """The address of the first element."""
        return METHODS["foreign_pointer"](self)

    @staticmethod
    @api
    def from_foreign(pointer: Any, shape: Any, strides: Any) -> Any:
        """The array at an address that comes from outside of tile code."""
        return METHODS["from_foreign"](pointer, shape, strides)

    @api
    def slice(self, axis: Any, start: Any, stop: Any) -> Any:
        """The array of elements start to stop along `axis`: the same memory.

        `start` and `stop` may be known at run time only; 0 <= start <= stop <= extent.
        """
        return METHODS["slice"](self, axis, start, stop)

    @api
    def tiled_view(
        self,
        tile_shape: Any,
        *,
        padding_mode: PaddingMode = PaddingMode.UNDETERMINED,
        traversal_steps: Any = None,
    ) -> Any:
        """The array cut into tiles; `traversal_steps` lets tiles overlap or leave gaps."""
        return METHODS["tiled_view"](self, tile_shape, padding_mode, traversal_steps)

    @api
    def get_raw_memory(self) -> Any:
        """The array's memory without its shape."""
        return METHODS["get_raw_memory"](self)

    def __repr__(self) -> str:
        shape = ", ".join(str(e) if isinstance(e, int) else "?" for e in self.shape_)
        return f"<array[{self.dtype_}, ({shape})]>"


class ArrayList:
    """A list of arrays given to a kernel: element `i` is read from a table in memory."""

    __slots__ = ("base", "element", "length")

    def __init__(self, base: Value, length: Tile, element: Any) -> None:
        self.base = base
        self.length = length
        self.element = element

    def __repr__(self) -> str:
        return "<list of arrays>"


class Poison:
    """A variable that may not be read; `why` says what happened to it."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


def described(x: object) -> str:
    """A value's type as messages name it."""
    if isinstance(x, Tile):
        dims = "x".join(map(str, x.shape_))
        return f"{dims} tile of {x.dtype_}" if dims else f"{x.dtype_} scalar"
    if isinstance(x, Array):
        return f"{x.ndim}-D array of {x.dtype_}"
    if isinstance(x, tuple):
        return "tuple (" + ", ".join(map(described, x)) + ")"
    if isinstance(x, bool | int | float | str) or x is None:
        return repr(x)
    name = getattr(x, "__qualname__", None)
    return str(name) if name else type(x).__name__


def check_shape(shape: Shape, dtype: DType, what: str) -> TileType:
    """The tile type of a shape and an element type.

    Raises: TileTypeError for extents that no tile may have.
    """
    t = TileType(shape, dtype.element)
    if problem := fault(t):
        raise TileTypeError(f"{what}: {problem}")
    return t


def pattern_of(number: Number, dtype: DType) -> int:
    """The bits of a number as an element."""
    row = dtype.number.row
    if dtype in (float8_e8m0fnu, float8_e5m3fnu) and math.copysign(1.0, number) < 0:
        raise TileValueError(f"{number} is no {dtype}, which has no sign")
    if dtype is float4_e2m1fn and math.isnan(number):
        raise TileValueError(f"{dtype} has no NaN")
    if dtype.is_float:
        return int(encode(float(number), row, "rz" if dtype is float8_e8m0fnu else "rn"))
    if dtype is bool_:
        return int(bool(number))
    check_range(int(number), dtype)
    return int(number) & ((1 << dtype.bitwidth) - 1)


def constant_value(number: Number, dtype: DType, shape: Shape) -> Value:
    """A tile of one number."""
    t = check_shape(shape, dtype, "constant")
    return value(Constant, (), t, value=DenseAttr(t, (pattern_of(number, dtype),)))


def dense_value(numbers: Sequence[Number], dtype: DType, shape: Shape) -> Value:
    """A tile of these numbers in row-major order."""
    t = check_shape(shape, dtype, "constant")
    bits = tuple(pattern_of(n, dtype) for n in numbers)
    return value(Constant, (), t, value=DenseAttr(t, bits))


def strict(number: Number, dtype: DType, shape: Shape = ()) -> Tile:
    """A strictly typed constant."""
    if dtype.is_int:
        check_range(int(number), dtype)
        number = int(number)
    elif dtype is bool_:
        number = bool(number)
    else:
        number = float(number)
    return Tile(None, dtype, shape, number)


def is_number(x: object) -> bool:
    """Whether `x` is a loosely typed constant."""
    return isinstance(x, bool | int | float)


def as_tile(x: object, what: str = "operand") -> Tile:
    """A tile, or a constant as a scalar of its own type.

    Raises: TileTypeError for anything else.
    """
    if isinstance(x, Tile):
        return x
    if isinstance(x, bool | int | float):
        return strict(x, dtype_of_constant(x))
    raise TileTypeError(f"{what}: expected a tile or a number, got {described(x)}")


def constant_of(x: object) -> Number | None:
    """The number that `x` is known to be, or None."""
    if isinstance(x, bool | int | float):
        return x
    if isinstance(x, Tile) and not x.shape_:
        return x.const
    return None


def reshaped(x: Tile, shape: Shape, what: str = "reshape") -> Tile:
    """The same elements in row-major order."""
    if x.shape_ == shape:
        return x
    t = check_shape(shape, x.dtype_, what)
    if x.const is not None:
        return Tile(None, x.dtype_, shape, x.const)
    return Tile(value(Reshape, (x.ir,), t), x.dtype_, shape)


def broadcasted(x: Tile, shape: Shape, what: str = "broadcast") -> Tile:
    """Extents of 1 repeated, dimensions added in front."""
    if x.shape_ == shape:
        return x
    if not broadcasts_to(x.shape_, shape):
        raise TileTypeError(f"{what}: shape {x.shape_} does not broadcast to {shape}")
    t = check_shape(shape, x.dtype_, what)
    if x.const is not None:
        return Tile(None, x.dtype_, shape, x.const)
    x = reshaped(x, (1,) * (len(shape) - len(x.shape_)) + x.shape_)
    if x.shape_ == shape:
        return x
    return Tile(value(Broadcast, (x.ir,), t), x.dtype_, shape)


def scalar_type(dtype: DType) -> TileType:
    """A scalar of an element type."""
    return TileType((), dtype.element)


def pointer_to(dtype: DType, shape: Shape = ()) -> TileType:
    """Pointers to elements of a type."""
    element: TileIrType = dtype.element
    return TileType(shape, PointerType(element))
