"""Copies of runs of bytes by the bulk engine, reductions into global memory, stores to other CTAs.

Bulk instructions are issued by one thread and belong to the async proxy: generic writes of what
they read need `fence.proxy_async` first.  `bytes` and both addresses are multiples of 16.
Sources: PTX ISA, `cp.async.bulk`, `cp.reduce.async.bulk`, `cp.reduce.async.bulk.tensor`,
`st.async`.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.constraints import (
    DSMEM,
    GMEM,
    INTEGER,
    SMEM,
    TENSORMAP,
    VECTOR,
    pointer,
    scalar,
)
from tilewright.ir.core import Effect, Op, Value, attr, operand, variadic
from tilewright.ir.ops.arith import Constant
from tilewright.ir.types import PtrType, Space, VecType
from tilewright.numeric.dtypes import U16, U32, U64

BARRIER = pointer(Space.SMEM, U64)
REMOTE_BARRIER = pointer(Space.DSMEM, U64)
UNIT = 16
"""Bytes that divide sizes and addresses of bulk copies."""
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_INTEGERS = {
    "add": ("i32", "u32", "i64", "u64"),
    "min": ("i32", "u32", "i64", "u64"),
    "max": ("i32", "u32", "i64", "u64"),
    "inc": ("u32",),
    "dec": ("u32",),
    **dict.fromkeys(("and", "or", "xor"), ("i32", "u32", "i64", "u64")),
}
_FLOATS = {
    "add": ("f16", "bf16", "f32", "f64"),
    "min": ("f16", "bf16"),
    "max": ("f16", "bf16"),
}
REDUCIBLE = {kind: (*_INTEGERS[kind], *_FLOATS.get(kind, ())) for kind in REDUCTIONS}
"""The element types of each reduction into global memory."""


class BulkLoad(Op):
    """Copies `bytes` from global to shared memory; they are counted on `barrier`."""

    name = "bulk.load"
    effect = Effect.WRITE
    min_arch = 90
    src = operand(GMEM)
    dst = operand(SMEM)
    barrier = operand(BARRIER)
    bytes = operand(scalar(U32))

    def check(self) -> str | None:
        return _check_run(self.bytes, self.src, self.dst)


class BulkLoadMulticast(Op):
    """`bulk.load` to the same offset of every CTA of the cluster whose bit is set in `mask`.

    Each receiver's own barrier, at the same offset, counts the bytes that arrive there.
    """

    name = "bulk.load_multicast"
    effect = Effect.WRITE
    min_arch = 90
    src = operand(GMEM)
    dst = operand(SMEM)
    barrier = operand(BARRIER)
    bytes = operand(scalar(U32))
    mask = operand(scalar(U16))

    def check(self) -> str | None:
        return _check_run(self.bytes, self.src, self.dst)


class BulkStore(Op):
    """Copies `bytes` from shared to global memory, in the thread's current bulk group."""

    name = "bulk.store"
    effect = Effect.WRITE
    min_arch = 90
    src = operand(SMEM)
    dst = operand(GMEM)
    bytes = operand(scalar(U32))

    def check(self) -> str | None:
        return _check_run(self.bytes, self.src, self.dst)


class BulkReduce(Op):
    """``dst[i] = kind(dst[i], src[i])`` for `bytes` of shared memory, in the current bulk group.

    Each element is updated atomically (relaxed, at the scope of the GPU).
    """

    name = "bulk.reduce"
    effect = Effect.WRITE
    min_arch = 90
    src = operand(SMEM)
    dst = operand(GMEM)
    bytes = operand(scalar(U32))
    kind = attr(str, choices=REDUCTIONS)

    def check(self) -> str | None:
        src, dst = _pointer(self.src), _pointer(self.dst)
        if src.dtype != dst.dtype:
            return f"elements of {src} and {dst} differ"
        if src.dtype.name not in REDUCIBLE[self.kind]:
            known = " ".join(REDUCIBLE[self.kind])
            return f"{self.kind} reduces {known}, not {src.dtype.name}"
        return _check_run(self.bytes, self.src, self.dst)


class BulkSend(Op):
    """Copies `bytes` of shared memory into another CTA's, whose `barrier` counts them.

    `barrier` lies in the same CTA as `dst`.
    """

    name = "bulk.send"
    effect = Effect.WRITE
    min_arch = 90
    src = operand(SMEM)
    dst = operand(DSMEM)
    barrier = operand(REMOTE_BARRIER)
    bytes = operand(scalar(U32))

    def check(self) -> str | None:
        return _check_run(self.bytes, self.src, self.dst)


class StoreAsync(Op):
    """Writes a vector of 4, 8 or 16 bytes to another CTA, whose `barrier` counts the bytes.

    Each thread's own store; `barrier` lies in the same CTA as `dst`.  Performed in the generic
    proxy.  Source: PTX ISA, `st.async`.
    """

    name = "bulk.store_async"
    effect = Effect.WRITE
    min_arch = 90
    dst = operand(DSMEM)
    value = operand(VECTOR)
    barrier = operand(REMOTE_BARRIER)

    @property
    def size(self) -> int:
        """Bytes of one store."""
        t = self.value.type
        assert isinstance(t, VecType), "constraint VECTOR"
        return t.dtype.storage_bits * t.count // 8

    def check(self) -> str | None:
        dst, t = _pointer(self.dst), self.value.type
        assert isinstance(t, VecType), "constraint VECTOR"
        if t.dtype != dst.dtype:
            return f"value of {t.dtype.name} does not fit {dst}"
        if self.size not in (4, 8, 16):
            return f"an asynchronous store writes 4, 8 or 16 bytes, not {self.size}"
        if dst.align % self.size:
            return f"{dst} is aligned to {dst.align} bytes, the store needs {self.size}"
        return None


class TmaReduce(Op):
    """Reduces one box from shared memory into a tensor, in the thread's current bulk group.

    Elements outside the tensor are left alone.  Each element is updated atomically (relaxed, at
    the scope of the GPU).
    """

    name = "tma.reduce"
    effect = Effect.WRITE
    min_arch = 90
    tensormap = operand(TENSORMAP)
    src = operand(SMEM)
    coords = variadic(INTEGER, at_most=5)
    kind = attr(str, choices=REDUCTIONS)


def _pointer(value: Value) -> PtrType:
    t = value.type
    assert isinstance(t, PtrType), "constrained to be a pointer"
    return t


def _check_run(size: Value, *sides: Value) -> str | None:
    """What keeps `size` bytes from being a bulk copy between `sides`, or None."""
    owner: Any = size.owner
    if isinstance(owner, Constant) and (owner.value <= 0 or int(owner.value) % UNIT):
        return f"a bulk copy moves a positive multiple of {UNIT} bytes, not {owner.value}"
    for side in map(_pointer, sides):
        if side.align % UNIT:
            return f"{side} is aligned to {side.align} bytes, a bulk copy needs {UNIT}"
    return None
