"""Arrays of one element type to another: the meaning of the IR's casts.

A *storage array* is how this project holds elements in numpy, in simulated registers and at the
API: one numpy element per element, of `storage_dtype`.  tf32 lies in float32 with 13 zero bits;
4-bit types take a byte each (`packing` makes them dense).

>>> import numpy as np
>>> from tilewright.numeric.dtypes import BF16, F32
>>> convert(np.float32([1.00390625, 1.01171875, 3.4e38]), F32, BF16).tolist()  # ties to even
[1.0, 1.015625, inf]
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.errors import DTypeError
from tilewright.numeric.dtypes import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    I32,
    I64,
    TF32,
    TILE_DTYPES,
    U32,
    U64,
    DType,
)
from tilewright.numeric.encode import Array, Rounding, bits_dtype, decode, encode

# Where numpy's cast gives the bits of `encode` with "rn" (NaNs aside), and is faster.
# Not here: float64 to bfloat16 and fp8, which ml_dtypes rounds twice, by way of float32.
_NUMPY_ROUNDS_ONCE = frozenset(
    [(src, F32) for src in (F64, TF32, F16, BF16, I32, U32, I64, U64)]
    + [(src, F64) for src in (F32, TF32, I32, U32, I64, U64)]
    + [(src, dst) for src in (F32, TF32) for dst in (F16, BF16, E4M3, E5M2)]
    + [(F64, F16)]
)


@cache
def storage_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy dtype of a storage array of `dtype`.

    >>> from tilewright.numeric.dtypes import E2M1
    >>> storage_dtype(TF32), storage_dtype(E2M1).name
    (dtype('float32'), 'float4_e2m1fn')
    """
    if dtype in TILE_DTYPES:  # numpy has no such type: its patterns
        return bits_dtype(dtype)
    return np.dtype(getattr(ml_dtypes, dtype.numpy_name, dtype.numpy_name))


def storage_to_bits(array: Array, dtype: DType) -> Array:
    """The patterns of a storage array: the same memory, seen as unsigned integers."""
    if array.dtype != storage_dtype(dtype):
        raise DTypeError(
            f"storage of {dtype}: array of numpy dtype {array.dtype}, "
            f"expected {storage_dtype(dtype)}"
        )
    return array.view(bits_dtype(dtype))


def bits_to_storage(bits: Array, dtype: DType) -> Array:
    """The storage array that has these patterns: the same memory."""
    return bits.astype(bits_dtype(dtype), copy=False).view(storage_dtype(dtype))


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def convert(
    array: Array,
    src: DType,
    dst: DType,
    rounding: Rounding = "rn",
    saturate: bool = False,
) -> Array:
    """A new storage array of `dst`: each element of `array`, of `src`, by the rules of `encode`.

    Laws:   1 storage_to_bits(convert(a)) == encode(decode(storage_to_bits(a))), except that which
              of the NaNs a NaN becomes is not part of the contract.
            2 the result never shares memory with `array`.
    Raises: DTypeError if `array` is not a storage array of `src`, or `rounding` does not fit `dst`.

    >>> from tilewright.numeric.dtypes import E2M1
    >>> convert(np.float32([0.7, 2.5, 100.0]), F32, E2M1).astype(float).tolist()
    [0.5, 2.0, 6.0]
    """
    bits = storage_to_bits(array, src)
    if src is dst and not saturate:
        return array.copy()
    if rounding == "rn" and not saturate and (src, dst) in _NUMPY_ROUNDS_ONCE:
        return array.astype(storage_dtype(dst))
    if src.bits <= 16:
        return np.asarray(_table(src, dst, rounding, saturate)[bits & _mask(src)])
    values = array.astype(np.float64) if src.is_float else array
    return bits_to_storage(encode(values, dst, rounding, saturate, source=src), dst)


@cache
def _mask(src: DType) -> np.unsignedinteger[Any]:
    # A 4-bit element's upper nibble, and a bool's upper bits, carry nothing.
    return bits_dtype(src).type((1 << src.bits) - 1)  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def _table(src: DType, dst: DType, rounding: Rounding, saturate: bool) -> Array:
    """The result for every pattern of a type of at most 16 bits: any cast is then one lookup."""
    values = decode(np.arange(1 << src.bits), src)
    return bits_to_storage(encode(values, dst, rounding, saturate, source=src), dst)
