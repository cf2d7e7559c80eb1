"""Changing the element type: `astype`, `bitcast`, packing into bytes, implicit conversion."""

from __future__ import annotations

import math
from typing import Any

from tilewright.ir.ops.tile.convert import (
    LATE_ROUNDING,
    Bitcast,
    ExtI,
    FToF,
    FToI,
    IToF,
    TruncI,
    late_modes,
)
from tilewright.ir.ops.tile.shape import Pack, Unpack
from tilewright.ir.tile_types import NUMBERS, TileType
from tilewright.lang.tile import compare
from tilewright.lang.tile.dtypes import (
    DType,
    Kind,
    bool_,
    float8_e8m0fnu,
    implicit_fault,
    int32,
    require_dtype,
    uint8,
)
from tilewright.lang.tile.enums import RoundingMode
from tilewright.lang.tile.errors import (
    TileTypeError,
    TileValueError,
)
from tilewright.lang.tile.require import optional_enum, require_version, tile_of
from tilewright.lang.tile.state import api, value
from tilewright.lang.tile.values import (
    Number,
    Shape,
    Tile,
    broadcasted,
    check_shape,
    constant_of,
    described,
    is_number,
    method,
    reshaped,
    strict,
)


def _as_python(number: Number, dtype: DType, wrap: bool = False) -> Number:
    """A number as `dtype` holds it; integers may wrap, as the conversion of a tile does."""
    if dtype is bool_:
        return bool(number)
    if not dtype.is_int:
        return float(number)
    if isinstance(number, float) and not math.isfinite(number):
        raise TileValueError(f"{number} is no {dtype}")
    low = dtype.int_range()[0]
    return (int(number) - low) % (1 << dtype.bitwidth) + low if wrap else int(number)


def converted(x: Tile, dtype: DType, rounding: str = "") -> Tile:
    """`x` with another element type, each element converted."""
    source = x.dtype_
    if source is dtype:
        return x
    if Kind.POINTER in (source.kind, dtype.kind):
        raise TileTypeError(f"{source} does not convert to {dtype}: use ct.bitcast for pointers")
    if x.const is not None and not rounding:
        number = _as_python(x.const, dtype, wrap=True)
        return strict(number, dtype, x.shape_)
    out = check_shape(x.shape_, dtype, "astype")
    if dtype is bool_:
        return compare.unequal_to_zero(x)
    if source.is_float and dtype.is_float:
        mode = rounding or "nearest_even"
        return Tile(value(FToF, (x.ir,), out, rounding_mode=mode), dtype, x.shape_)
    if source.is_float:
        made = value(FToI, (x.ir,), out, signedness=dtype.signedness)
        return Tile(made, dtype, x.shape_)
    if dtype.is_float:
        if dtype is float8_e8m0fnu:
            raise TileTypeError(f"{source} does not convert to {dtype}", hint="go by float32")
        made = value(IToF, (x.ir,), out, signedness=source.signedness)
        return Tile(made, dtype, x.shape_)
    return Tile(_int_to_int(x, dtype, out), dtype, x.shape_)


def _int_to_int(x: Tile, dtype: DType, out: TileType) -> Any:
    have = 1 if x.dtype_ is bool_ else x.dtype_.bitwidth
    if have == dtype.bitwidth:
        return x.ir
    if have < dtype.bitwidth:
        return value(ExtI, (x.ir,), out, signedness=x.dtype_.signedness)
    return value(TruncI, (x.ir,), out)


def implicit(x: object, dtype: DType, what: str) -> Tile:
    """`x` as `dtype` where that loses no category, as an operand that adapts.

    Raises: TileTypeError if it would; TileValueError for an integer out of range.
    """
    tile = tile_of(x, what)
    loose = x if isinstance(x, bool | int | float) else None
    if fault := implicit_fault(loose, tile.dtype_, dtype):
        raise TileTypeError(f"{what}: {fault}", hint="convert it with ct.astype")
    if loose is not None:
        return strict(loose, dtype)
    return converted(tile, dtype)


def promoted(x: object, dtype: DType, shape: Shape, what: str) -> Tile:
    """An operand in the common type and shape."""
    if isinstance(x, bool | int | float):
        return broadcasted(strict(_as_python(x, dtype), dtype), shape, what)
    return broadcasted(converted(tile_of(x, what), dtype), shape, what)


def _rounding_name(source: DType, dtype: DType, mode: RoundingMode | None) -> str:
    """The Tile IR name of a float conversion's rounding mode; empty for the default."""
    if dtype is float8_e8m0fnu:
        if mode not in (RoundingMode.RZ, RoundingMode.RP):
            raise TileTypeError(
                f"astype: {source} to {dtype} is rounded by RoundingMode.RZ or RoundingMode.RP, "
                f"got {mode}"
            )
        return str(mode.value)
    if mode in (None, RoundingMode.RN):
        return ""
    names, _ = late_modes(source.tile_ir, dtype.tile_ir)
    if mode.value not in names:
        listed = ", ".join(str(RoundingMode(name)) for name in names)
        raise TileTypeError(
            f"astype: {mode} does not round {source} to {dtype}, expected one of {listed}"
        )
    require_version(LATE_ROUNDING, f"astype: {mode} from {source} to {dtype}")
    return str(mode.value)


@method("astype")
@api
def astype(x: Any, dtype: Any, /, *, rounding_mode: RoundingMode | None = None) -> Any:
    """Each element of `x` converted to `dtype`.

    Floats become integers by truncation; what does not fit is undefined.  Integers wrap.  Only a
    float to float conversion has a `rounding_mode`; float8_e8m0fnu needs RZ or RP.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     ct.store(y, 0, ct.astype(ct.load(x, 0, 2), ct.int32))
    >>> x, y = np.array([1.9, -1.9]), np.zeros(2, np.int32)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([ 1, -1], dtype=int32)
    """
    target = require_dtype(dtype, "astype")
    mode = optional_enum(rounding_mode, RoundingMode, "astype: rounding_mode")
    tile = tile_of(x, "astype")
    both_float = tile.dtype_.is_float and target.is_float
    if mode is not None and not both_float:
        raise TileTypeError(
            f"astype: rounding_mode is for conversions of floats to floats, not of {tile.dtype_} "
            f"to {target}"
        )
    if tile.dtype_ is target:
        return tile
    rounding = _rounding_name(tile.dtype_, target, mode) if both_float else ""
    return converted(tile, target, rounding)


@api
def bitcast(x: Any, /, dtype: Any) -> Any:
    """The bits of `x`, read as another type of the same width.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     ct.store(y, 0, ct.bitcast(ct.load(x, 0, 2), ct.int32))
    >>> x, y = np.array([0, 1], np.float32), np.zeros(2, np.int32)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([         0, 1065353216], dtype=int32)
    """
    target, tile = require_dtype(dtype, "bitcast"), tile_of(x, "bitcast")
    if bool_ in (tile.dtype_, target):
        raise TileTypeError(f"bitcast: bool_ has no bit pattern ({tile.dtype_} to {target})")
    if tile.dtype_.bitwidth != target.bitwidth:
        raise TileTypeError(
            f"bitcast: {tile.dtype_} has {tile.dtype_.bitwidth} bits and {target} has "
            f"{target.bitwidth}"
        )
    return bits_as(tile, target)


def bits_as(tile: Tile, target: DType) -> Tile:
    """The bits of a tile as another type of the same width."""
    if tile.dtype_ is target:
        return tile
    out = check_shape(tile.shape_, target, "bitcast")
    if tile.dtype_.element == target.element:
        return Tile(tile.ir, target, tile.shape_)
    return Tile(value(Bitcast, (tile.ir,), out), target, tile.shape_)


@api
def pack_to_bytes(x: Any, /) -> Any:
    """The bytes of `x` in row-major order, least significant first: a 1-D tile of uint8.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(x, y):
    ...     ct.store(y, 0, ct.pack_to_bytes(ct.load(x, 0, 1)))
    >>> x, y = np.array([0x01020304], np.int32), np.zeros(4, np.uint8)
    >>> ct.launch(None, (1,), example, (x, y,)); y
    array([4, 3, 2, 1], dtype=uint8)
    """
    tile = tile_of(x, "pack_to_bytes")
    if tile.dtype_ is bool_:
        raise TileTypeError("pack_to_bytes: bool_ has no bit pattern")
    tile = reshaped(tile, (math.prod(tile.shape_),))
    if tile.dtype_.bitwidth == 8:
        return bits_as(tile, uint8)
    count = tile.shape_[0] * tile.dtype_.bitwidth // 8
    out = TileType((count,), NUMBERS["i8"])
    return Tile(value(Pack, (tile.ir,), out), uint8, (count,))


@api
def unpack_from_bytes(x: Any, /, dtype: Any) -> Any:
    """The elements of type `dtype` whose bytes are the 1-D tile `x`."""
    target, tile = require_dtype(dtype, "unpack_from_bytes"), tile_of(x, "unpack_from_bytes")
    if tile.dtype_ is not uint8 or tile.ndim != 1:
        raise TileTypeError(
            f"unpack_from_bytes: expected a 1-D tile of uint8, got {described(tile)}"
        )
    if target is bool_:
        raise TileTypeError("unpack_from_bytes: bool_ has no bit pattern")
    if target.bitwidth == 8:
        return bits_as(tile, target)
    bits = tile.shape_[0] * 8
    if bits % target.bitwidth:
        raise TileTypeError(f"unpack_from_bytes: {bits} bits are no whole number of {target}")
    shape = (bits // target.bitwidth,)
    out = check_shape(shape, target, "unpack_from_bytes")
    return Tile(value(Unpack, (tile.ir,), out), target, shape)


def construct(dtype: DType, x: object) -> Tile:
    """`dtype(x)`: a strictly typed scalar."""
    known = constant_of(x)
    if known is not None:
        return strict(_as_python(known, dtype), dtype)
    if not isinstance(x, Tile) or x.shape_:
        raise TileTypeError(f"{dtype}: expected a scalar, got {described(x)}")
    return converted(x, dtype)


def index_scalar(x: object, dtype: DType, what: str) -> Tile:
    """A scalar integer index."""
    tile = tile_of(x, what)
    if tile.shape_ or not tile.dtype_.is_int:
        raise TileTypeError(f"{what}: expected an integer scalar, got {described(tile)}")
    if is_number(x):
        return strict(int(tile.const or 0), dtype)
    if dtype is int32 and tile.dtype_.bitwidth == 64 and not is_number(x):
        return tile
    return converted(tile, dtype)
