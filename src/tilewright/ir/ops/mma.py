"""Matrix multiply-accumulate: `mma.sync` (a warp) and `wgmma` (a warpgroup, asynchronous).

`atom` names a row of `arch.mma`: shape, element types, which lane holds what, and the PTX text.
Operand fragments are register arrays in the order of the row's value layout.
"""

from __future__ import annotations

from tilewright.ir.constraints import RMEM, scalar
from tilewright.ir.core import Effect, Op, attr, operand
from tilewright.numeric.dtypes import BOOL, U64


class Mma(Op):
    """`d = a * b + c` on register fragments, by all lanes of a warp (or one thread, for FMA)."""

    name = "mma.sync"
    effect = Effect.WRITE
    aligned = True
    d = operand(RMEM)
    a = operand(RMEM)
    b = operand(RMEM)
    c = operand(RMEM)
    atom = attr(str)


class Wgmma(Op):
    """`d = a * b + (accumulate ? d : 0)`, both factors in shared memory, asynchronous.

    `a` and `b` are 64-bit shared-memory matrix descriptors.  `d` may not be touched until a
    `wgmma.wait` that covers the group.  Source: PTX ISA, `wgmma.mma_async`.
    """

    name = "wgmma.mma"
    effect = Effect.WRITE
    min_arch = 90
    feature = "wgmma"
    aligned = True
    d = operand(RMEM)
    a = operand(scalar(U64))
    b = operand(scalar(U64))
    accumulate = operand(scalar(BOOL))
    atom = attr(str)


class WgmmaRs(Op):
    """`wgmma.mma` with the factor `a` in registers."""

    name = "wgmma.mma_rs"
    effect = Effect.WRITE
    min_arch = 90
    feature = "wgmma"
    aligned = True
    d = operand(RMEM)
    a = operand(RMEM)
    b = operand(scalar(U64))
    accumulate = operand(scalar(BOOL))
    atom = attr(str)


class WgmmaFence(Op):
    """Orders earlier register and shared-memory accesses before the next wgmma."""

    name = "wgmma.fence"
    effect = Effect.SYNC
    min_arch = 90
    feature = "wgmma"
    aligned = True


class WgmmaCommit(Op):
    """Makes a group of the wgmmas issued since the last commit."""

    name = "wgmma.commit"
    effect = Effect.SYNC
    min_arch = 90
    feature = "wgmma"
    aligned = True


class WgmmaWait(Op):
    """Waits until at most `pending` of the newest groups are in flight."""

    name = "wgmma.wait"
    effect = Effect.SYNC
    min_arch = 90
    feature = "wgmma"
    aligned = True
    pending = attr(int)
