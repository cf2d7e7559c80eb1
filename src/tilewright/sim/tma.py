"""The bulk tensor engine: which bytes of a tensor a box names, and where they lie in shared memory.

Everything is computed from the fields of the tensor map and from absolute addresses.
Measured on an H200: loads fill exactly what is outside; a store writes the last 16-byte unit of a
row whole, so up to 15 bytes beyond the inner extent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tilewright.arch.swizzle_mode import swizzle_mode
from tilewright.numeric.convert import convert, storage_dtype
from tilewright.numeric.dtypes import F32, TF32, dtype
from tilewright.sim.memory import GlobalMemory, Window
from tilewright.sim.reductions import combiner
from tilewright.sim.tensormap import TensorMap
from tilewright.sim.values import Array

UNIT = 16
ALIGN = 128
REPEAT = 1024
"""Every swizzle pattern repeats within this many bytes."""


def map_problem(tensor: TensorMap, rank: int) -> str | None:
    """Why the engine cannot use a tensor map with `rank` coordinates, or None."""
    if rank != len(tensor.dims) or rank != len(tensor.box) or rank != len(tensor.strides) + 1:
        return (
            f"{rank} coordinates for a tensor map of {len(tensor.dims)} dimensions, "
            f"{len(tensor.strides)} outer strides and a box of {len(tensor.box)}"
        )
    inner = row_bytes(tensor)
    span = swizzle_mode(tensor.swizzle).span_bytes
    if any(not 1 <= b <= 256 for b in tensor.box):
        return f"box {tensor.box}: each extent must be 1 to 256"
    if inner % UNIT:
        return f"the box's row of {inner} bytes is not a multiple of {UNIT}"
    if tensor.swizzle != "none" and inner > span:
        return f"the box's row of {inner} bytes is wider than the {span} bytes of its swizzle"
    if tensor.base % UNIT or any(s % UNIT for s in tensor.strides):
        return f"base {tensor.base:#x} and strides {tensor.strides} must be multiples of {UNIT}"
    return None


def row_bytes(tensor: TensorMap) -> int:
    return tensor.box[0] * dtype(tensor.dtype).storage_bits // 8


def box_bytes(tensor: TensorMap) -> int:
    """Bytes that a copy moves, and that its barrier counts: outside elements are counted too."""
    total = row_bytes(tensor)
    for extent in tensor.box[1:]:
        total *= extent
    return total


def address_problem(tensor: TensorMap, address: int) -> str | None:
    """Why a shared address cannot be the box's, or None."""
    if address % ALIGN:
        return f"shared address {address:#x} of a TMA copy is not a multiple of {ALIGN}"
    repeat = swizzle_mode(tensor.swizzle).repeat_bytes
    if tensor.swizzle != "none" and address % repeat:
        return (
            f"shared address {address:#x} of a TMA copy with swizzle {tensor.swizzle} is not a "
            f"multiple of {repeat}, at which the pattern repeats"
        )
    return None


def coordinate_problem(tensor: TensorMap, coords: tuple[int, ...], *, load: bool) -> str | None:
    """Why a box cannot lie at its coordinates, or None.

    On an H200 a copy whose innermost coordinate is not a multiple of 16 bytes ends the kernel with
    an illegal instruction, whatever the swizzle; so does a store with a negative coordinate.
    """
    if not load and min(coords) < 0:
        return f"a TMA store to coordinates {coords}: a box that is stored begins at 0 or beyond"
    first = coords[0] * dtype(tensor.dtype).storage_bits // 8
    if first % UNIT == 0:
        return None
    return (
        f"the innermost coordinate of a TMA copy, {coords[0]}, is at byte {first} of the row: "
        f"expected a multiple of {UNIT} bytes"
    )


@lru_cache(maxsize=256)
def _unit_offsets(count: int, swizzle: str, start: int) -> Array:
    """Byte offsets of the box's 16-byte units, from the multiple of 1024 before its start."""
    linear = start + UNIT * np.arange(count, dtype=np.int64)
    mask = (1 << swizzle_mode(swizzle).bits) - 1
    return linear ^ ((linear >> 7 & mask) << 4)


def unit_rows(tensor: TensorMap, window: Window, address: int) -> Array | None:
    """Rows of ``window.rows(16)`` that the box's units take, in their order; None if outside."""
    size = box_bytes(tensor)
    if address < window.start or address + size > window.end:
        return None
    within = address % REPEAT
    offsets = _unit_offsets(size // UNIT, tensor.swizzle, within)
    rows = (offsets + (address - within - window.start)) >> 4
    return None if int(rows.min()) < 0 or int(rows.max()) * UNIT + UNIT > window.data.size else rows


OOB_NAN = np.array([0xF7, 0x7F], np.uint8)
"""What an H200 writes outside of f16, bf16, f32 and tf32 tensors: a NaN in each of them."""


@dataclass(frozen=True, slots=True)
class Box:
    """One copy of a box: where it lies in the tensor, and which shared units it takes."""

    tensor: TensorMap
    coords: tuple[int, ...]
    address: int
    rows: Array


@dataclass(frozen=True, slots=True)
class Inside:
    """The part of a box that lies inside its tensor: a box itself.

    `lo` and `extent` per dimension, innermost first; of dimension 0 in bytes.  `address` is that
    of its first byte.
    """

    lo: tuple[int, ...]
    extent: tuple[int, ...]
    address: int

    def end(self, tensor: TensorMap) -> int:
        return (
            self.address
            + self.extent[0]
            + sum((e - 1) * s for e, s in zip(self.extent[1:], tensor.strides, strict=True))
        )


def inside(tensor: TensorMap, coords: tuple[int, ...], *, store: bool) -> Inside | None:
    """What of the box at `coords` is inside; for a store, with the last unit of its rows whole."""
    bits = dtype(tensor.dtype).storage_bits
    lo, extent = [], []
    address = tensor.base
    strides = (0, *tensor.strides)
    for d, (c, b, n) in enumerate(zip(coords, tensor.box, tensor.dims, strict=True)):
        first, last = max(c, 0), min(c + b, n)
        if last <= first:
            return None
        if d == 0:
            end = -(-last * bits // 8)
            if store:
                end = min(-(-end // UNIT) * UNIT, (c + b) * bits // 8)
            lo.append((first - c) * bits // 8)
            extent.append(end - first * bits // 8)
            address += first * bits // 8
        else:
            lo.append(first - c)
            extent.append(last - first)
            address += first * strides[d]
    return Inside(tuple(lo), tuple(extent), address)


def _view(tensor: TensorMap, window: Window, part: Inside) -> Array:
    return as_strided(
        window.data[part.address - window.start :],
        part.extent[::-1],
        (*reversed(tensor.strides), 1),
    )


def _slices(part: Inside) -> tuple[slice, ...]:
    pairs = zip(part.lo, part.extent, strict=True)
    return tuple(slice(lo, lo + e) for lo, e in reversed(list(pairs)))


def _box_shape(tensor: TensorMap) -> tuple[int, ...]:
    return (*reversed(tensor.box[1:]), row_bytes(tensor))


def _find(memory: GlobalMemory, tensor: TensorMap, part: Inside) -> Window | str:
    window = memory.window(part.address)
    end = part.end(tensor)
    if window is None:
        return memory.describe(part.address)
    if end > window.end:
        return memory.describe(end - 1)
    return window


def load_box(
    memory: GlobalMemory, tensor: TensorMap, coords: tuple[int, ...]
) -> tuple[Array, str | None]:
    """The box's bytes, filled where it is outside the tensor; and what is wrong, if anything."""
    t = dtype(tensor.dtype)
    box = np.zeros(_box_shape(tensor), np.uint8)
    if tensor.oob_nan and t.is_float:
        box[...] = np.tile(OOB_NAN, box.shape[-1] // len(OOB_NAN))
    part = inside(tensor, coords, store=False)
    if part is None:
        return box.reshape(-1), None
    window = _find(memory, tensor, part)
    if isinstance(window, str):
        return box.reshape(-1), window
    box[_slices(part)] = _view(tensor, window, part)
    if t is TF32:  # the engine rounds f32 while copying
        rounded = convert(box.view(storage_dtype(F32)), F32, TF32)
        box = rounded.view(np.uint8)
    return box.reshape(-1), None


def is_written(tensor: TensorMap, coords: tuple[int, ...], init: Array) -> bool:
    """Whether all bytes that a store takes from the box are set in `init`, its bytes' flags."""
    part = inside(tensor, coords, store=False)
    return part is None or bool(init.reshape(_box_shape(tensor))[_slices(part)].all())


def store_box(
    memory: GlobalMemory, tensor: TensorMap, coords: tuple[int, ...], data: Array
) -> str | None:
    """Writes the box's bytes; what is wrong, if anything."""
    part = inside(tensor, coords, store=True)
    if part is None:
        return None
    window = _find(memory, tensor, part)
    problem = None
    if isinstance(window, str):
        problem = window
        part = inside(tensor, coords, store=False)
        assert part is not None, "the overrun only adds"
        window = _find(memory, tensor, part)
        if isinstance(window, str):
            return window
        problem += " (a TMA store writes the last 16 bytes of a row whole)"
    box = data.reshape(_box_shape(tensor))
    _view(tensor, window, part)[...] = box[_slices(part)]
    return problem


def reduce_box(
    memory: GlobalMemory, tensor: TensorMap, coords: tuple[int, ...], data: Array, kind: str
) -> str | None:
    """Reduces the box's bytes into the tensor, element by element; what is wrong, if anything."""
    part = inside(tensor, coords, store=False)
    if part is None:
        return None
    window = _find(memory, tensor, part)
    if isinstance(window, str):
        return window
    t = dtype(tensor.dtype)
    view = _view(tensor, window, part)
    box = np.ascontiguousarray(data.reshape(_box_shape(tensor))[_slices(part)])
    held = storage_dtype(t)
    view[...] = combiner(kind, t)(view.copy().view(held), box.view(held)).view(np.uint8)
    return None
