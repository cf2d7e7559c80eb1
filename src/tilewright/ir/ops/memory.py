"""Pointers, allocation, loads and stores, and plain copies between memories.

Offsets are in elements of the pointer's type.  `align` is in bytes; an access of `n` bytes needs
an address that is a multiple of `n` (PTX ISA, "Alignment").  Register arrays (`rmem`) are
addressed like memory, but their indices must be constants once loops are unrolled, so that the
compiler can keep them in registers.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.ir.constraints import (
    GMEM,
    INTEGER,
    MEMORY,
    POINTER,
    RMEM,
    SCALAR,
    SMEM,
    VALUE,
    VECTOR,
    scalar,
)
from tilewright.ir.core import Effect, Op, attr, operand, result, variadic
from tilewright.ir.ops.arith import Constant
from tilewright.ir.types import PtrType, ScalarType, Space, Type, VecType
from tilewright.numeric.dtypes import BOOL, I64, U32, dtype


def _ptr(op: Any) -> PtrType:
    t = op.operands[0].type
    assert isinstance(t, PtrType), f"{op.name}: operand 0 is a pointer"
    return t


class AllocShared(Op):
    """`count` elements of the block's dynamic shared memory.

    `offset` (bytes from the start of dynamic shared memory) is -1 until the layout pass sets it;
    `label` names the buffer in generated code and in reports.
    """

    name = "mem.alloc_shared"
    effect = Effect.SYNC
    dtype = attr(str)
    count = attr(int)
    align = attr(int, 16)
    label = attr(str, "")
    offset = attr(int, -1)
    result = result(lambda op: PtrType(dtype(op.dtype), Space.SMEM, op.align))


class AllocRegisters(Op):
    """An uninitialised array of `count` elements in each thread's registers."""

    name = "mem.alloc_registers"
    effect = Effect.SYNC
    dtype = attr(str)
    count = attr(int)
    label = attr(str, "")
    result = result(lambda op: PtrType(dtype(op.dtype), Space.RMEM, 16))


def _offset_type(op: Any) -> Type:
    base, index = _ptr(op), op.operands[1]
    owner = index.owner
    known = owner.value if isinstance(owner, Constant) else op.divisor
    step = (base.dtype.storage_bits // 8 or 1) * int(known)
    return PtrType(base.dtype, base.space, math.gcd(base.align, step) or base.align)


class Offset(Op):
    """`base + index` elements.  `divisor` is known to divide `index` (for the alignment)."""

    name = "mem.offset"
    base = operand(POINTER)
    index = operand(INTEGER)
    divisor = attr(int, 1)
    result = result(_offset_type)


class CastPointer(Op):
    """The same address, seen as elements of `dtype`, known to be a multiple of `align` bytes."""

    name = "mem.cast"
    base = operand(POINTER)
    dtype = attr(str)
    align = attr(int)
    result = result(lambda op: PtrType(dtype(op.dtype), _ptr(op).space, op.align))


class MapShared(Op):
    """The same place in the shared memory of CTA `rank` of the cluster.

    Source: PTX ISA, `mapa`.
    """

    name = "mem.map_shared"
    min_arch = 90
    base = operand(SMEM)
    rank = operand(scalar(U32))
    result = result(lambda op: PtrType(_ptr(op).dtype, Space.DSMEM, _ptr(op).align))


class SharedAddress(Op):
    """The shared-window byte address of a pointer: what PTX instructions and descriptors take."""

    name = "mem.shared_address"
    base = operand(SMEM)
    result = result(lambda _: ScalarType(U32))


class GlobalAddress(Op):
    """The byte address of a pointer into global memory, as i64."""

    name = "mem.global_address"
    base = operand(GMEM)
    result = result(lambda _: ScalarType(I64))


def _loaded(op: Any) -> Type:
    elem = _ptr(op).dtype
    return VecType(elem, op.count) if op.count else ScalarType(elem)


class Load(Op):
    """The element at `base`, or the vector of `count` contiguous ones (one access of that size)."""

    name = "mem.load"
    effect = Effect.READ
    base = operand(POINTER)
    count = attr(int, 0)
    result = result(_loaded)

    def check(self) -> str | None:
        return _check_access(_ptr(self), self.count or 1)


class Store(Op):
    """Writes a scalar, or a vector to contiguous elements, at `base`."""

    name = "mem.store"
    effect = Effect.WRITE
    base = operand(POINTER)
    value = operand(VALUE)

    def check(self) -> str | None:
        t = self.value.type
        assert isinstance(t, ScalarType | VecType), "constraint VALUE"
        if t.dtype != _ptr(self).dtype:
            return f"value of {t.dtype.name} does not fit {self.base.type}"
        return _check_access(_ptr(self), t.count if isinstance(t, VecType) else 1)


class Gather(Op):
    """The elements `indices` (constants) of a register array, as a vector."""

    name = "mem.gather"
    effect = Effect.READ
    base = operand(RMEM)
    indices = attr(tuple)
    result = result(lambda op: VecType(_ptr(op).dtype, len(op.indices)))


class Scatter(Op):
    """Writes a vector to the elements `indices` (constants) of a register array."""

    name = "mem.scatter"
    effect = Effect.WRITE
    base = operand(RMEM)
    value = operand(VECTOR)
    indices = attr(tuple)

    def check(self) -> str | None:
        t = self.value.type
        assert isinstance(t, VecType), "constraint VECTOR"
        if t.dtype != _ptr(self).dtype or t.count != len(self.indices):
            return f"{t} does not fit {len(self.indices)} elements of {self.base.type}"
        return None


class Copy(Op):
    """Copies `bytes` contiguous bytes (1, 2, 4, 8 or 16) from `src` to `dst` in one access each.

    With a predicate, threads for which it is false neither read nor write.
    """

    name = "mem.copy"
    effect = Effect.WRITE
    src = operand(POINTER)
    dst = operand(POINTER)
    predicate = variadic(scalar(BOOL), at_most=1)
    bytes = attr(int, choices=(1, 2, 4, 8, 16))

    def check(self) -> str | None:
        src, dst = self.src.type, self.dst.type
        assert isinstance(src, PtrType), "constraint POINTER"
        assert isinstance(dst, PtrType), "constraint POINTER"
        if src.dtype.storage_bits != dst.dtype.storage_bits:
            return f"elements of {src} and {dst} differ in size"
        for p in (src, dst):
            if p.space is not Space.RMEM and p.align % self.bytes:
                return f"{p} is aligned to {p.align} bytes, the access needs {self.bytes}"
        return None


class Atomic(Op):
    """Atomic read-modify-write at `base`; the result is the old value.

    `semantics` and `scope` are PTX's (ISA, "Memory Consistency Model").
    """

    name = "mem.atomic"
    effect = Effect.WRITE
    base = operand(MEMORY)
    value = operand(SCALAR)
    kind = attr(str, choices=("add", "min", "max", "and", "or", "xor", "exch"))
    semantics = attr(str, "relaxed", choices=("relaxed", "acquire", "release", "acq_rel"))
    scope = attr(str, "gpu", choices=("cta", "cluster", "gpu", "sys"))
    result = result(lambda op: ScalarType(_ptr(op).dtype))


def _check_access(p: PtrType, count: int) -> str | None:
    size = p.dtype.storage_bits * count // 8 or 1
    if p.space is Space.RMEM:
        return None
    if size not in (1, 2, 4, 8, 16):
        return f"an access is 1, 2, 4, 8 or 16 bytes, not {size}"
    if p.align % size:
        return f"{p} is aligned to {p.align} bytes, the access needs {size}"
    return None
