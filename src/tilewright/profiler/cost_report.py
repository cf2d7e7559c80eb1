"""What the accesses of a launch cost, as a table with source lines and as JSON.

>>> from tilewright.errors import Loc
>>> place = Loc("kernels/mine.py", 12, 8)
>>> print(costs_text("k", [Cost("bank_conflict", "mem.load", place, "read", 4, 2, 64, 2, 32)]))
costs of k: 1 line wastes time
  mem.load, 4-byte read: 32-way bank conflict: 2 requests take 64 cycles instead of 2
    kernels/mine.py:12:9
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.profiler.check_report import loc_record, ordered
from tilewright.sim.costs import Cost

ROWS = 20


def costs_text(kernel: str, costs: Sequence[Cost]) -> str:
    """The table of one launch, the greatest waste first; at most `ROWS` rows."""
    if not costs:
        return f"costs of {kernel}: no bank conflicts, wasted sectors or needless barriers"
    some = f"{len(costs)} line wastes" if len(costs) == 1 else f"{len(costs)} lines waste"
    lines = [f"costs of {kernel}: {some} time"]
    for cost in costs[:ROWS]:
        lines += _rows(cost)
    if len(costs) > ROWS:
        lines.append(f"  and {len(costs) - ROWS} more with less waste; --json has all")
    return "\n".join(lines)


def _rows(cost: Cost) -> list[str]:
    lines = [f"  {cost.what}: {cost.text}"]
    for place in ordered(cost.loc)[:1]:
        inside = "  in " + place.function if place.function else ""
        lines.append(f"    {place.file}:{place.line}:{place.col + 1}{inside}")
        lines += [f"      {row}" for row in place.snippet()]
    return lines


def cost_record(cost: Cost) -> dict[str, Any]:
    """Everything about one cost, as plain values."""
    return {
        "kind": cost.kind,
        "op": cost.op,
        "access": cost.access,
        "size": cost.size,
        "count": cost.count,
        "actual": cost.actual,
        "ideal": cost.ideal,
        "unit": cost.unit,
        "worst": cost.worst,
        "text": cost.text,
        "loc": loc_record(cost.loc),
    }
