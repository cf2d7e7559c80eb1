"""Gives every shared-memory buffer its place in the block's dynamic shared memory.

Buffers are laid out in the order of their alignment, widest first, then of their allocation, so
that 1024-byte aligned tiles come first and no padding is needed between them.  All buffers live
for the whole kernel: nothing is overlaid.
"""

from __future__ import annotations

from tilewright.arch.target import Target
from tilewright.errors import ResourceError
from tilewright.ir.core import Func, Module
from tilewright.ir.ops.memory import AllocShared
from tilewright.numeric.dtypes import dtype


def shared_layout(module: Module, target: Target) -> None:
    """Sets `offset` of every allocation and `smem_bytes` of every kernel.

    Raises: ResourceError if a kernel needs more than the target has, with the largest buffers.
    """
    for func in module.kernels.values():
        _lay_out(func, target)


def _size(op: AllocShared) -> int:
    return dtype(op.dtype).bytes_for(op.count)


def _lay_out(func: Func, target: Target) -> None:
    buffers = [op for op in func.body.walk() if isinstance(op, AllocShared)]
    at = 0
    for op in sorted(buffers, key=lambda b: -b.align):
        at = -(-at // op.align) * op.align
        op.attrs["offset"] = at
        at += _size(op)
    func.smem_bytes = at
    if at > target.smem_per_block:
        largest = sorted(buffers, key=_size, reverse=True)[:3]
        shares = ", ".join(f"{b.label or 'unnamed'} {_size(b):,} B" for b in largest)
        raise ResourceError(
            f"{func.name}: shared memory {at:,} B > {target.smem_per_block:,} B on "
            f"{target.name}: {shares}",
            loc=largest[0].loc,
            hint="fewer stages, or a smaller tile",
        )
