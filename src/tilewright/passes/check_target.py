"""Refuses an operation that the target does not have, at the user's own line."""

from __future__ import annotations

from tilewright.arch.mma.registry import mma_atom
from tilewright.arch.target import Target
from tilewright.errors import ResourceError, TargetError
from tilewright.ir.core import Module
from tilewright.ir.ops.mma import Mma


def check_target(module: Module, target: Target) -> None:
    """Raises TargetError for the first operation that needs a newer architecture."""
    for func in module.kernels.values():
        for op in func.body.walk():
            if op.feature:
                target.require(op.feature, op.name, op.loc)
            if isinstance(op, Mma):
                mma_atom(op.atom).check_target(target, op.loc)
            if op.min_arch > target.sm:
                raise TargetError(
                    f"{op.name}: needs sm_{op.min_arch} or newer, the target is {target.name}",
                    loc=op.loc,
                    hint=f"compile for sm_{op.min_arch}a, or use an older instruction here",
                )
        if func.max_threads > target.max_threads_per_block:
            raise ResourceError(
                f"{func.name}: {func.max_threads} threads per block > "
                f"{target.max_threads_per_block} on {target.name}; launch with a smaller block",
                loc=func.loc,
            )
