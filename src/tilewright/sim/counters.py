"""What a run counted: the raw material of a performance report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.ir.core import Op


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
        """Bytes, flops, waits, and warp instructions: in all, and by family."""
        found: Counter[str] = Counter()
        for count, op in zip(executed, ops, strict=True):
            if op is not None and count:
                found[f"instructions.{op.name.split('.')[0]}"] += count
        found["instructions"] = sum(found.values())
        for name in self.__slots__:
            unit = "_bytes" if name.split("_")[0] in ("global", "shared", "tma") else ""
            found[name + unit] = getattr(self, name)
        return dict(found)
