"""What a launch is given, as the values of the entry's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import LaunchError
from tilewright.ir.core import Value
from tilewright.ir.ops.tile.base import tile_type
from tilewright.ir.tile_types import PointerType
from tilewright.numeric.convert import bits_to_storage, storage_dtype
from tilewright.numeric.dtypes import BOOL, DType
from tilewright.numeric.encode import encode
from tilewright.tileir.interpret.memory import Memory
from tilewright.tileir.interpret.values import pointee_row, row_of


def bound(
    entry: str, parameters: Sequence[Value], args: Sequence[Any], memory: Memory
) -> list[Any]:
    """One value per parameter; arrays are mapped into `memory`.

    Raises: LaunchError, naming the parameter, if an argument does not fit.
    """
    if len(args) != len(parameters):
        raise LaunchError(
            f"interpret {entry}: {len(args)} arguments, expected {len(parameters)}: "
            + ", ".join(f"%{p.name or i}: {p.type}" for i, p in enumerate(parameters))
        )
    return [
        _pointer(entry, i, p, arg, memory)
        if isinstance(tile_type(p.type).element, PointerType)
        else _scalar(entry, i, p, arg)
        for i, (p, arg) in enumerate(zip(parameters, args, strict=True))
    ]


def _refuse(entry: str, i: int, p: Value, got: str, hint: str = "") -> LaunchError:
    name = f"%{p.name}" if p.name else f"number {i}"
    return LaunchError(f"interpret {entry}: argument {name} is {got}, expected {p.type}", hint=hint)


def _scalar(entry: str, i: int, p: Value, arg: Any) -> Any:
    row = row_of(p.type)
    plain = arg.item() if isinstance(arg, np.generic | np.ndarray) and arg.size == 1 else arg
    if (
        isinstance(arg, np.generic | np.ndarray)
        and arg.dtype == storage_dtype(row)
        and arg.size == 1
    ):
        return np.asarray(arg).reshape(())[()]
    if row is BOOL:
        if not isinstance(plain, bool) and plain not in (0, 1):
            raise _refuse(entry, i, p, repr(arg))
        return np.bool_(plain)
    if row.is_float:
        if isinstance(plain, bool) or not isinstance(plain, int | float):
            raise _refuse(entry, i, p, repr(arg))
        rounding = "rn" if row.mantissa_bits else "rz"
        return bits_to_storage(encode([float(plain)], row, rounding), row)[0]  # type: ignore[arg-type]
    if not isinstance(plain, int):
        raise _refuse(entry, i, p, repr(arg))
    if not -(1 << (row.bits - 1)) <= plain < 1 << row.bits:
        raise _refuse(entry, i, p, f"{plain}, which does not fit {row.bits} bits")
    return bits_to_storage(np.array([plain % (1 << row.bits)], np.uint64), row)[0]


def _pointer(entry: str, i: int, p: Value, arg: Any, memory: Memory) -> np.int64:
    row = pointee_row(p.type)
    if isinstance(arg, np.ndarray):
        if not _fits(arg, row):
            raise _refuse(
                entry,
                i,
                p,
                f"an array of {arg.dtype}",
                f"make it an array of {_wanted(row)}, or view its bytes as uint8",
            )
        return np.int64(memory.map_array(arg, p.name or f"argument {i}"))
    if isinstance(arg, int | np.integer) and not isinstance(arg, bool):
        return np.int64(int(arg))
    raise _refuse(entry, i, p, f"{type(arg).__name__} {arg!r}", "pass a NumPy array")


def _wanted(row: DType) -> str:
    return "uint8, two elements to a byte" if row.bits == 4 else str(storage_dtype(row))


def _fits(array: Any, row: DType) -> bool:
    if array.dtype == np.uint8:
        return True
    if row.bits == 4:
        return False
    if array.dtype == storage_dtype(row):
        return True
    same_size = array.dtype.itemsize * 8 == row.storage_bits
    return same_size and array.dtype.kind in "iub" and not row.is_float
