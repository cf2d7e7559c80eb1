"""Values to bit patterns and back, bit for bit, for every row of `dtypes`.

One algorithm rounds to every float format: split the source into sign and integer significand,
drop the bits below the destination's last place, round on what was dropped.  The source is exact
(float64 or a 64-bit integer) and is rounded once, so nothing is rounded twice on the way.

>>> from tilewright.numeric.dtypes import E4M3, F16
>>> [hex(b) for b in encode([1.0, -0.5, 448.0], E4M3)]
['0x38', '0xb0', '0x7e']
>>> decode([0x3C00, 0xFC00, 0x0001], F16).tolist()
[1.0, -inf, 5.960464477539063e-08]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tilewright.errors import DTypeError
from tilewright.numeric.dtypes import E8M0, F64, DType

if TYPE_CHECKING:
    import numpy.typing as npt  # slow to import, and only type checkers read it

Array = np.ndarray[Any, np.dtype[Any]]
Rounding = Literal["rn", "rz", "rp", "rm", "rna", "rni", "rzi", "rpi", "rmi"]

# PTX's words.  To floats: nearest even, toward zero, up, down, nearest with ties away from zero.
_TO_FLOAT = ("rn", "rz", "rp", "rm", "rna")
# To integers PTX appends an i.  "rn", our default where no rounding was asked for, is C's cast.
_TO_INTEGER: dict[str, Callable[[Array], Array]] = {
    "rn": np.trunc,
    "rz": np.trunc,
    "rni": np.rint,
    "rzi": np.trunc,
    "rpi": np.ceil,
    "rmi": np.floor,
}


def bits_dtype(dtype: DType) -> np.dtype[Any]:
    """The unsigned numpy integer that holds one pattern of `dtype`, in its low bits."""
    return np.dtype(f"uint{max(dtype.storage_bits, 8)}")


def decode(bits: npt.ArrayLike, dtype: DType) -> Array:
    """The exact values of patterns: float64, or int64 (uint64 for u64; bool is 0 or 1).

    Bits above `dtype.bits`, and tf32's 13 low ones, are ignored, as the hardware does.

    >>> from tilewright.numeric.dtypes import I4
    >>> decode([0x7, 0x8, 0xF], I4).tolist(), decode([0x7F, 0xFF], E8M0).tolist()
    ([7, -8, -1], [1.0, nan])
    """
    raw = np.asarray(bits).astype(np.uint64)
    if dtype.is_float:
        if dtype.bits <= 8:
            return np.asarray(_value_table(dtype)[raw & np.uint64((1 << dtype.bits) - 1)])
        return raw.view(np.float64) if dtype is F64 else _decode_float(raw, dtype)
    if dtype.kind == "int":
        unused = np.int64(64 - dtype.bits)
        return np.asarray((raw.view(np.int64) << unused) >> unused)
    raw = raw & np.uint64(dtype.max_code)
    return raw if dtype.bits == 64 else raw.view(np.int64)


@cache
def _value_table(dtype: DType) -> Array:
    """Value of every pattern of a float of at most 8 bits."""
    return _decode_float(np.arange(1 << dtype.bits, dtype=np.uint64), dtype)


def _decode_float(raw: Array, dtype: DType) -> Array:
    mantissa_bits, bias = dtype.mantissa_bits, dtype.bias
    raw = raw >> np.uint64(dtype.pad_bits)
    magnitude = (raw & np.uint64((1 << (dtype.exponent_bits + mantissa_bits)) - 1)).view(np.int64)
    exponent = magnitude >> mantissa_bits
    mantissa = magnitude & ((1 << mantissa_bits) - 1)
    # e8m0 has no subnormals: its hidden bit is there at exponent 0 too.
    normal = exponent >= (1 if mantissa_bits else 0)
    significand = mantissa + (normal.astype(np.int64) << mantissa_bits)
    exponent = np.where(normal, exponent, 1) - bias - mantissa_bits
    values = np.ldexp(significand.astype(np.float64), exponent)
    if dtype.has_nan:
        infinite = (magnitude == dtype.max_code + 1) & dtype.has_inf
        values = np.where(magnitude > dtype.max_code, np.nan, values)
        values = np.where(infinite, np.inf, values)
    if dtype.is_signed:
        values = np.where(raw >> np.uint64(dtype.bits - dtype.pad_bits - 1) != 0, -values, values)
    return np.asarray(values)


@np.errstate(invalid="ignore")  # a signalling NaN is only a NaN here
def encode(
    values: npt.ArrayLike,
    dtype: DType,
    rounding: Rounding = "rn",
    saturate: bool = False,
    *,
    source: DType | None = None,
) -> Array:
    """Patterns (see `bits_dtype`) of values given as floats or as integers of at most 64 bits.

    To floats:   rounded once, from the exact value.  Beyond the range, `saturate` gives the largest
                 finite value, from infinity too; else the rounding says infinity or largest finite.
                 Formats without infinity give NaN for it (e4m3, e8m0) or the largest (e2m1).
                 NaN is PTX's canonical one, all ones below a clear sign; e2m1 gives +6.
    To e8m0:     of |x|, `rounding` "rz" or "rp"; |x| below 2^-127, and 0, become 2^-127.
    To integers: from integers wraps, or clamps if `saturate`.  From floats truncates (C's cast;
                 "rni" "rpi" "rmi" round otherwise) and always clamps.  NaN is 0, but 1 << (bits-1)
                 to 64-bit types or if `source` is F64 (the type the values came from).
    To bool:     x != 0, so NaN is True.

    Raises: DTypeError if `rounding` has no meaning for `dtype`, or `values` are not numbers.
    Source: PTX ISA, "cvt" (tests/numeric/test_cvt_on_gpu.py runs it); OCP Microscaling Formats 1.0.

    >>> from tilewright.numeric.dtypes import E4M3, U8
    >>> [hex(b) for b in encode([1e6, 464.0, 465.0], E4M3)]
    ['0x7f', '0x7e', '0x7f']
    >>> encode([300.7, -1.5, float("nan")], U8).tolist(), encode([300, -1], U8).tolist()
    ([255, 0, 0], [44, 255])
    """
    _check_rounding(dtype, rounding)
    array = np.asarray(values)
    if array.dtype.kind not in "biufV":
        raise DTypeError(
            f"encode: values of numpy dtype {array.dtype}, expected floats or integers of "
            f"at most 64 bits"
        )
    wide = {"u": np.uint64, "i": np.int64, "b": np.int64}.get(array.dtype.kind, np.float64)
    flat = array.reshape(-1).astype(wide)
    if dtype.kind == "bool":
        pattern = (flat != 0).astype(np.uint8)
    elif dtype.is_float:
        pattern = _encode_float(flat, dtype, rounding, saturate)
    elif wide is not np.float64:
        pattern = _wrap_or_clamp(flat, dtype, saturate)
    else:
        nan_is_top_bit = dtype.bits == 64 or source is F64
        nan_pattern = 1 << (dtype.bits - 1) if nan_is_top_bit else 0
        pattern = _float_to_integer(flat, dtype, rounding, nan_pattern)
    return np.asarray(pattern).reshape(array.shape)


def _check_rounding(dtype: DType, rounding: str) -> None:
    allowed = ("rz", "rp") if dtype is E8M0 else _TO_FLOAT if dtype.is_float else tuple(_TO_INTEGER)
    if rounding not in allowed:
        raise DTypeError(
            f"encode: rounding {rounding!r} to {dtype}, expected one of {', '.join(allowed)}"
        )


def _wrap_or_clamp(array: Array, dtype: DType, saturate: bool) -> Array:
    if saturate:
        own = np.iinfo(array.dtype)
        array = np.clip(array, max(int(dtype.min), own.min), min(int(dtype.max), own.max))
    pattern = array.astype(np.uint64) & np.uint64((1 << dtype.bits) - 1)
    return pattern.astype(bits_dtype(dtype))


def _float_to_integer(array: Array, dtype: DType, rounding: str, nan_pattern: int) -> Array:
    whole = _TO_INTEGER[rounding](array)
    # Both bounds are powers of two (or 0), so exact in float64; `max` of 64 bits would not be.
    above, below = whole >= float(int(dtype.max) + 1), whole < float(dtype.min)
    inside = np.where(above | below | np.isnan(whole), 0.0, whole)
    exact = inside.astype(np.uint64) if dtype.bits == 64 and dtype.kind == "uint" else None
    pattern = inside.astype(np.int64).view(np.uint64) if exact is None else exact
    pattern = np.where(above, np.uint64(dtype.max_code), pattern)
    pattern = np.where(below, np.uint64(int(dtype.min) % (1 << 64)), pattern)
    pattern = np.where(np.isnan(whole), np.uint64(nan_pattern), pattern)
    return (pattern & np.uint64((1 << dtype.bits) - 1)).astype(bits_dtype(dtype))


def _encode_float(array: Array, dtype: DType, rounding: str, saturate: bool) -> Array:
    negative, significand, exponent = _split(array)
    if not dtype.is_signed:
        negative = np.zeros_like(negative)
    code = _round(negative, significand, exponent, dtype, rounding)
    # One past the largest finite code is infinity (ieee) or NaN (fn).
    largest, beyond = dtype.max_code, dtype.max_code + dtype.has_nan
    if saturate or rounding == "rz":
        limit: Array | int = largest
    elif rounding in ("rp", "rm"):
        limit = np.where(negative == (rounding == "rp"), largest, beyond)
    else:
        limit = beyond
    code = np.where(code > largest, limit, code)
    if array.dtype.kind == "f":
        code = np.where(np.isinf(array), largest if saturate else beyond, code)
        nan_code = (1 << (dtype.exponent_bits + dtype.mantissa_bits)) - 1
        code = np.where(np.isnan(array), nan_code, code)
        negative = negative & ~np.isnan(array)
    pattern = code.astype(np.uint64)
    if dtype.is_signed:
        pattern |= negative.astype(np.uint64) << np.uint64(dtype.bits - dtype.pad_bits - 1)
    return (pattern << np.uint64(dtype.pad_bits)).astype(bits_dtype(dtype))


def _split(array: Array) -> tuple[Array, Array, Array]:
    """(negative, significand uint64, exponent int64), |x| = significand · 2^exponent exactly.

    Infinities and NaNs give significand 0; the caller replaces their result.
    """
    if array.dtype.kind != "f":
        negative = array < 0
        magnitude = array.astype(np.uint64)
        magnitude = np.where(negative, ~magnitude + np.uint64(1), magnitude)
        return negative, magnitude, np.zeros(array.shape, np.int64)
    raw = array.view(np.uint64)
    field = ((raw >> np.uint64(52)) & np.uint64(0x7FF)).view(np.int64)
    hidden = (field > 0).astype(np.uint64) << np.uint64(52)
    significand = (raw & np.uint64((1 << 52) - 1)) | hidden
    significand = np.where(field == 0x7FF, np.uint64(0), significand)
    return np.signbit(array), significand, np.maximum(field, 1) - 1075


def _round(
    negative: Array, significand: Array, exponent: Array, dtype: DType, rounding: str
) -> Array:
    """Code (pattern without sign) of the rounded magnitude; it may lie beyond `max_code`.

    Codes count magnitudes in order, so a carry out of the mantissa lands in the exponent, and
    out of the subnormals in the smallest normal, by plain addition.
    """
    mantissa_bits, bias = dtype.mantissa_bits, dtype.bias
    lowest = (1 if mantissa_bits else 0) - bias
    # float64 takes 2^k - 1 for 2^k if k > 53, a place too high.  Nothing is lost: the bits kept
    # are all ones, and ones of the place above are the same code.  Past 64 there is no place.
    length = np.minimum(np.frexp(significand.astype(np.float64))[1].astype(np.int64), 64)
    top = length - 1 + exponent
    place = np.where(significand == 0, lowest, np.maximum(top, lowest))
    shift = place - mantissa_bits - exponent
    # Beyond 63, all of a 53-bit significand is dropped and lies below half: so it does at 63.
    drop = np.clip(shift, 0, 63).astype(np.uint64)
    lift = np.clip(-shift, 0, 63).astype(np.uint64)
    kept = significand >> drop
    rest = significand - (kept << drop)
    half = (np.uint64(1) << drop) >> np.uint64(1)
    if rounding == "rn":
        up = (rest > half) | ((rest == half) & (rest > 0) & ((kept & np.uint64(1)) != 0))
    elif rounding == "rna":
        up = (rest >= half) & (rest > 0)
    elif rounding == "rz":
        up = np.zeros(negative.shape, np.bool_)
    else:
        up = (rest > 0) & (negative if rounding == "rm" else ~negative)
    steps = (kept << lift).astype(np.int64) + up
    code = steps + ((place + (bias - 1)) << mantissa_bits)
    return np.asarray(np.maximum(code, 0))  # e8m0 has no zero: what rounds to it is 2^-127
