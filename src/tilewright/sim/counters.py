"""What a run counted: the raw material of a performance report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.ir.core import Op
from tilewright.ir.ops import arith
from tilewright.ir.types import ScalarType, VecType

WARP = 32
_FLOPS: dict[type[Op], int] = {arith.Fma: 2, arith.Add: 1, arith.Sub: 1, arith.Mul: 1, arith.Div: 1}


def flops_of(op: Op) -> int:
    """Floating-point operations of one warp that executes `op` with all its lanes."""
    t = op.results[0].type if op.results else None
    if not isinstance(t, ScalarType | VecType) or not t.dtype.is_float:
        return 0
    return _FLOPS.get(type(op), 0) * WARP * (t.count if isinstance(t, VecType) else 1)


class Counters:
    """Plain integers, bumped by the executors; `report` names them."""

    __slots__ = (
        "barrier_waits",
        "flops",
        "global_read",
        "global_written",
        "shared_read",
        "shared_written",
        "tma_loaded",
        "tma_stored",
    )

    def __init__(self) -> None:
        self.global_read = self.global_written = 0
        self.shared_read = self.shared_written = 0
        self.tma_loaded = self.tma_stored = 0
        self.flops = self.barrier_waits = 0

    def report(self, executed: Sequence[int], ops: Sequence[Op | None]) -> dict[str, int]:
        """Bytes, flops, waits, and warp instructions: in all, and by family.

        `flops` are those of the MMA atoms and of float arithmetic, a warp's at a time.
        """
        found: Counter[str] = Counter()
        arithmetic = 0
        for count, op in zip(executed, ops, strict=True):
            if op is not None and count:
                found[f"instructions.{op.name.split('.')[0]}"] += count
                arithmetic += count * flops_of(op)
        found["instructions"] = sum(found.values())
        for name in self.__slots__:
            unit = "_bytes" if name.split("_")[0] in ("global", "shared", "tma") else ""
            found[name + unit] = getattr(self, name)
        found["flops"] += arithmetic
        return dict(found)
