"""Conversions between element types, bit for bit by `numeric`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops.tile import convert as ops
from tilewright.ir.ops.tile.base import TileOp
from tilewright.numeric.convert import bits_to_storage, convert, storage_dtype, storage_to_bits
from tilewright.numeric.dtypes import BOOL, E2M1, E4M3, E5M2, F32, F64, I64, TF32, U64, DType
from tilewright.numeric.encode import encode
from tilewright.tileir.interpret.int_ops import first
from tilewright.tileir.interpret.memory import Array
from tilewright.tileir.interpret.rounding import MODES
from tilewright.tileir.interpret.scope import Compile, Run, Scope, Step, computed, watched
from tilewright.tileir.interpret.values import as_signed, as_unsigned, from_integers, row_of

Fn = Callable[..., Any]

_TF32_BITS = np.uint32(0xFFFF_E000)


def as_tf32(array: Any) -> Array:
    """f32 patterns as tf32 reads them: the low 13 bits carry nothing."""
    return np.asarray((np.asarray(array).view(np.uint32) & _TF32_BITS).view(np.float32))


SATURATING = frozenset([E4M3, E5M2, E2M1])
"""Types that a value beyond their range, or infinity, becomes the largest finite value of.

Hardware has no other conversion to them (PTX ISA, "cvt": `.satfinite`); tileiras compiles to it.
"""


def floats(source: DType, target: DType, rounding: str = "nearest_even") -> Fn:
    """ftof of arrays."""
    mode = "rna" if rounding == "nearest_away" else MODES[rounding]
    largest = float(target.max)
    clipped = target in SATURATING and source in (F32, F64, TF32)
    saturate = target in SATURATING and not clipped

    def fn(a: Any) -> Array:
        array = as_tf32(a) if source is TF32 else np.asarray(a)
        if clipped:  # as saturating does, and NumPy's conversion is left to be the fast one
            array = np.clip(array, -largest, largest)
        return convert(array, source, target, mode, saturate)

    return fn


def _bitcast(op: Any) -> Fn:
    source, target = row_of(op.source.type), row_of(op.result.type)
    if source is target:
        return lambda a: a
    if BOOL in (source, target):
        return lambda a: a  # the only element type of one bit
    if source.bits == 4:
        return lambda a: bits_to_storage(storage_to_bits(np.asarray(a), source), target)
    wanted = storage_dtype(target)
    return lambda a: a.view(wanted)


def _extend(op: Any) -> Fn:
    source, wanted = row_of(op.from_.type), storage_dtype(row_of(op.to.type))
    read = as_signed if op.signedness == "signed" else as_unsigned
    return lambda a: read(a, source).astype(wanted)


def _truncate(op: Any, scope: Scope) -> Step | None:
    source, target = row_of(op.from_.type), row_of(op.to.type)
    if op.overflow == "none":
        return computed(lambda _: lambda a: from_integers(a, target))(op, scope)
    wanted: list[tuple[Fn, str]] = []
    if op.overflow in ("no_signed_wrap", "no_wrap"):
        wanted.append((as_signed, "signed"))
    if op.overflow in ("no_unsigned_wrap", "no_wrap"):
        wanted.append((as_unsigned, "unsigned"))

    def fn(run: Run, a: Any) -> Any:
        r = from_integers(a, target)
        for read, how in wanted:
            fault = read(r, target) != read(a, source)
            if fault.any():
                run.report(
                    "overflow",
                    op,
                    f"trunci to {op.to.type.element} loses {how} bits, though it promises "
                    f"{op.overflow}: operand {first(fault, read(a, source))}",
                )
        return r

    return watched(lambda _: fn)(op, scope)


def _ftof(op: Any) -> Fn:
    return floats(row_of(op.from_.type), row_of(op.to.type), op.rounding_mode)


def _ftoi(op: Any) -> Fn:
    source, target = row_of(op.from_.type), row_of(op.to.type)
    signed = op.signedness == "signed"
    low = -(1 << (target.bits - 1)) if signed else 0
    high = (1 << (target.bits - signed)) - 1
    widen = floats(source, F64) if source is not F64 else np.asarray

    def fn(run: Run, a: Any) -> Any:
        wide = np.trunc(widen(a))
        # Both bounds are exact in float64 as powers of two.
        inside = (wide >= float(low)) & (wide < float(high + 1))
        if not op.saturating and not inside.all():
            run.report(
                "conversion",
                op,
                f"ftoi: {first(~inside, wide)} is no {op.signedness} {op.to.type.element}, "
                "and the operation does not saturate",
            )
        patterns = encode(wide, I64 if signed else U64, "rz", source=F64)
        integers = patterns.view(np.int64) if signed else patterns
        clamped = np.clip(integers, integers.dtype.type(low), integers.dtype.type(high))
        clamped = np.where(np.isnan(wide), integers.dtype.type(0), clamped)
        return from_integers(clamped, target)

    return fn


def _itof(op: Any) -> Fn:
    source, target = row_of(op.from_.type), row_of(op.to.type)
    signed = op.signedness == "signed"
    read, wide = (as_signed, np.int64) if signed else (as_unsigned, np.uint64)
    mode = MODES[op.rounding_mode]
    return lambda a: convert(
        np.asarray(read(a, source)).astype(wide),
        I64 if signed else U64,
        target,
        mode,
        target in SATURATING,
    )


def _same(_: Op) -> Fn:
    return lambda a: a


TABLE: dict[type[TileOp], Compile] = {
    ops.Bitcast: computed(_bitcast),
    ops.ExtI: computed(_extend),
    ops.TruncI: _truncate,
    ops.FToF: computed(_ftof),
    ops.FToI: watched(_ftoi),
    ops.IToF: computed(_itof),
    # Addresses are int64 in both forms.
    ops.IntToPtr: computed(_same),
    ops.PtrToInt: computed(_same),
    ops.PtrToPtr: computed(_same),
}
