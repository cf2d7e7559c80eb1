"""Copy instructions: matrix loads and stores, cp.async, and the bulk tensor engine (TMA)."""

from __future__ import annotations

from tilewright.ir.constraints import GMEM, INTEGER, RMEM, SMEM, TENSORMAP, pointer, scalar
from tilewright.ir.core import Effect, Op, attr, operand, variadic
from tilewright.ir.types import PtrType, Space
from tilewright.numeric.dtypes import BOOL, U16, U64

BARRIER = pointer(Space.SMEM, U64)


class LdMatrix(Op):
    """Loads `num` 8x8 matrices of 16-bit elements from shared memory into registers.

    Lane `8*i + r` gives the address of row `r` of matrix `i`; lane `l` receives elements
    `2*(l%4)` and `+1` of row `l//4` of each matrix, in `dst[2*i : 2*i+2]` (16-bit elements).
    `transpose` hands out columns instead.  Source: PTX ISA, `ldmatrix`.
    """

    name = "copy.ldmatrix"
    effect = Effect.WRITE
    min_arch = 75
    aligned = True
    src = operand(SMEM)
    dst = operand(RMEM)
    num = attr(int, choices=(1, 2, 4))
    transpose = attr(bool, False)

    def check(self) -> str | None:
        return _rows_aligned(self.src.type)


class StMatrix(Op):
    """The inverse of `ldmatrix`: stores `num` 8x8 matrices.  Source: PTX ISA, `stmatrix`."""

    name = "copy.stmatrix"
    effect = Effect.WRITE
    min_arch = 90
    aligned = True
    src = operand(RMEM)
    dst = operand(SMEM)
    num = attr(int, choices=(1, 2, 4))
    transpose = attr(bool, False)

    def check(self) -> str | None:
        return _rows_aligned(self.dst.type)


class CpAsync(Op):
    """Asynchronous copy of `bytes` from global to shared memory.

    With a predicate, threads for which it is false read nothing and write zeros (`src-size` 0).
    `cache`: 'ca' (all levels; 4, 8 or 16 bytes) or 'cg' (L2 only; 16 bytes).
    Source: PTX ISA, `cp.async`.
    """

    name = "copy.cp_async"
    effect = Effect.WRITE
    min_arch = 80
    src = operand(GMEM)
    dst = operand(SMEM)
    predicate = variadic(scalar(BOOL), at_most=1)
    bytes = attr(int, choices=(4, 8, 16))
    cache = attr(str, "cg", choices=("ca", "cg"))

    def check(self) -> str | None:
        if self.cache == "cg" and self.bytes != 16:
            return f"cache 'cg' copies 16 bytes, not {self.bytes}"
        for p in (self.src.type, self.dst.type):
            if isinstance(p, PtrType) and p.align % self.bytes:
                return f"{p} is aligned to {p.align} bytes, the copy needs {self.bytes}"
        return None


class CpAsyncCommit(Op):
    """Makes a group of all cp.async that this thread issued since the last commit."""

    name = "copy.cp_async_commit"
    effect = Effect.SYNC
    min_arch = 80


class CpAsyncWait(Op):
    """Waits until at most `pending` of this thread's newest groups are still in flight."""

    name = "copy.cp_async_wait"
    effect = Effect.SYNC
    min_arch = 80
    pending = attr(int)


class CpAsyncArrive(Op):
    """One arrival on `barrier` as soon as this thread's earlier cp.async have completed.

    It is one of the arrivals that the barrier was initialised for (`.noinc`).  The copies count,
    whether they were committed to a group or not.  Source: PTX ISA, `cp.async.mbarrier.arrive`.
    """

    name = "copy.cp_async_arrive"
    effect = Effect.SYNC
    min_arch = 80
    barrier = operand(BARRIER)


class TmaLoad(Op):
    """One box of a tensor, from global to shared memory; bytes are counted on `barrier`.

    `coords` are element coordinates of the box's corner, innermost dimension first.  Elements
    outside the tensor are filled (zero or NaN, by the tensor map) and counted all the same.
    Issued by one thread.  Source: PTX ISA, `cp.async.bulk.tensor`.
    """

    name = "tma.load"
    effect = Effect.WRITE
    min_arch = 90
    tensormap = operand(TENSORMAP)
    dst = operand(SMEM)
    barrier = operand(BARRIER)
    coords = variadic(INTEGER, at_most=5)
    cache_hint = attr(str, "", choices=("", "evict_first", "evict_last", "evict_normal"))


class TmaLoadMulticast(Op):
    """`tma.load` into the same offset of every CTA of the cluster whose bit is set in `mask`.

    Each receiver's own barrier, at the same offset, counts the bytes that arrive there.
    """

    name = "tma.load_multicast"
    effect = Effect.WRITE
    min_arch = 90
    tensormap = operand(TENSORMAP)
    dst = operand(SMEM)
    barrier = operand(BARRIER)
    mask = operand(scalar(U16))
    coords = variadic(INTEGER, at_most=5)
    cache_hint = attr(str, "", choices=("", "evict_first", "evict_last", "evict_normal"))


class TmaStore(Op):
    """One box from shared to global memory, in the issuing thread's current bulk group.

    Elements outside the tensor are not written, except that a row's last 16 bytes are written
    whole (measured on an H200).  Source: PTX ISA, `cp.async.bulk.tensor`.
    """

    name = "tma.store"
    effect = Effect.WRITE
    min_arch = 90
    tensormap = operand(TENSORMAP)
    src = operand(SMEM)
    coords = variadic(INTEGER, at_most=5)


class BulkCommit(Op):
    """Makes a bulk group of all bulk stores that this thread issued since the last commit."""

    name = "tma.commit"
    effect = Effect.SYNC
    min_arch = 90


class BulkWait(Op):
    """Waits until at most `pending` of this thread's newest bulk groups are in flight.

    `read`: wait only until their sources have been read (shared memory may be reused).
    """

    name = "tma.wait"
    effect = Effect.SYNC
    min_arch = 90
    pending = attr(int)
    read = attr(bool, True)


class PrefetchDescriptor(Op):
    """Brings a tensor map into the descriptor cache."""

    name = "tma.prefetch_descriptor"
    effect = Effect.SYNC
    min_arch = 90
    tensormap = operand(TENSORMAP)


def _rows_aligned(t: object) -> str | None:
    if isinstance(t, PtrType) and t.align % 16:
        return f"each row address must be a multiple of 16 bytes, {t} is known to {t.align}"
    return None
