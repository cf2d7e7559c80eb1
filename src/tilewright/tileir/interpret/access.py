"""Reading and writing elements at addresses, with every fault found and left out.

Elements are in the storage dtype of their row; `mask` is None or says which ones take part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.numeric.dtypes import BOOL, DType
from tilewright.tileir.interpret.findings import shown
from tilewright.tileir.interpret.memory import Array, Buffer
from tilewright.tileir.interpret.scope import Run
from tilewright.tileir.interpret.values import carrier, unspecified


def from_memory(array: Array, row: DType) -> Array:
    """Elements as they lie in memory, as tiles hold them: a copy, only where it must be."""
    return array != 0 if row is BOOL else array


def load(run: Run, op: Op, addresses: Any, mask: Any, row: DType, padding: Any = None) -> Array:
    """The elements at addresses; `padding` (by default, unspecified) where there is none."""
    addresses = np.asarray(addresses)
    dtype = carrier(row)
    whole = _whole(run, addresses, dtype.itemsize) if mask is None else None
    if whole is not None:
        base, elements = whole.typed(dtype)
        return from_memory(elements[(addresses - base) // dtype.itemsize], row)
    out = np.empty(addresses.shape, from_memory(np.zeros(0, dtype), row).dtype)
    out[...] = unspecified(row) if padding is None else padding
    for buffer, lanes, indices in _pieces(run, op, addresses, mask, row):
        out[lanes] = from_memory(buffer.typed(dtype)[1][indices], row)
    return out


def store(run: Run, op: Op, addresses: Any, values: Any, mask: Any, row: DType) -> None:
    """Writes elements; of several for one address, the last in row-major order stays."""
    addresses, values = np.asarray(addresses), np.asarray(values)
    dtype = carrier(row)
    whole = _whole(run, addresses, dtype.itemsize) if mask is None else None
    if whole is not None and whole.writable:
        base, elements = whole.typed(dtype)
        elements[(addresses - base) // dtype.itemsize] = values
        return
    for buffer, lanes, indices in _pieces(run, op, addresses, mask, row):
        if _writable(run, op, buffer):
            buffer.typed(dtype)[1][indices] = values[lanes]


def _whole(run: Run, addresses: Array, size: int) -> Buffer | None:
    """The buffer that holds all of the elements, aligned; None if there is no such one."""
    if not addresses.size:
        return None
    low, high = int(addresses.min()), int(addresses.max())
    buffer = run.memory.find(low)
    if buffer is None or high + size > buffer.end or (addresses & (size - 1)).any():
        return None
    return buffer


def _writable(run: Run, op: Op, buffer: Buffer) -> bool:
    if not buffer.writable:
        run.report("read_only", op, f"{shown(op)} writes to {buffer.name}, which is read-only")
    return buffer.writable


def _pieces(
    run: Run, op: Op, addresses: Array, mask: Any, row: DType
) -> list[tuple[Buffer, Array, Array]]:
    """Per buffer: the lanes (a mask) with an element in it, and that element's index."""
    size = carrier(row).itemsize
    active = np.ones(addresses.shape, np.bool_) if mask is None else np.asarray(mask).copy()
    misaligned = active & ((addresses & (size - 1)) != 0)
    if misaligned.any():
        run.report(
            "misaligned",
            op,
            f"{shown(op)} of {row}: address {_first(misaligned, addresses):#x}"
            f"{_at(misaligned)} is no multiple of {size}",
        )
        active &= ~misaligned
    at = run.memory.locate(addresses, size)
    lost = active & (at < 0)
    if lost.any():
        start = _first(lost, addresses)
        count = f" ({np.count_nonzero(lost)} of {lost.size} elements)" if lost.ndim else ""
        run.report(
            "out_of_bounds",
            op,
            f"{shown(op)} of {row} at {start:#x}{_at(lost)}: {run.memory.describe(start)}{count}",
        )
    found: list[tuple[Buffer, Array, Array]] = []
    for index in np.unique(at[active & ~lost]):
        buffer, here = run.memory.buffer(int(index)), active & (at == index)
        base = buffer.typed(carrier(row))[0]
        found.append((buffer, here, (addresses[here] - base) // size))
    return found


def _first(mask: Array, values: Array) -> int:
    return int(values[mask][0]) if values.ndim else int(values)


def _at(mask: Array) -> str:
    if not mask.ndim:
        return ""
    return f", element {tuple(map(int, np.argwhere(mask)[0]))},"
