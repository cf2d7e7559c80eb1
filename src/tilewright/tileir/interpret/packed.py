"""Memory of 4-bit elements, two to a byte, the lower index in the low nibble.

Addresses here count elements: byte `a // 2` of memory, its high nibble if `a` is odd.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.numeric.convert import bits_to_storage, storage_to_bits
from tilewright.numeric.dtypes import U8, DType
from tilewright.tileir.interpret import access
from tilewright.tileir.interpret.memory import Array
from tilewright.tileir.interpret.scope import Run

_LOW = np.uint8(0xF)


def load_packed(run: Run, op: Op, addresses: Any, mask: Any, row: DType, padding: Any) -> Array:
    """As `access.load`."""
    data = access.load(run, op, addresses >> 1, mask, U8)
    nibbles = np.where(addresses & 1, data >> np.uint8(4), data & _LOW)
    out = bits_to_storage(nibbles, row)
    return out if mask is None else np.where(mask, out, np.asarray(padding, out.dtype))


def store_packed(run: Run, op: Op, addresses: Any, values: Any, mask: Any, row: DType) -> None:
    """As `access.store`; the other nibble of a byte stays."""
    nibbles = storage_to_bits(np.asarray(values), row) & _LOW
    active = np.ones(addresses.shape, np.bool_) if mask is None else mask
    for odd in (0, 1):
        lanes = active & ((addresses & 1) == odd)
        where = addresses >> 1
        old = access.load(run, op, where, lanes, U8)
        shift = np.uint8(4 * odd)
        kept = old & (np.uint8(0xF0) if odd == 0 else _LOW)
        access.store(run, op, where, kept | (nibbles << shift), lanes, U8)
