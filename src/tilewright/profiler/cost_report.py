"""What the accesses of a launch cost, as a table with source lines and as JSON.

>>> from tilewright.errors import Loc
>>> place = Loc("kernels/mine.py", 12, 8)
>>> print(waste_text("k", [Cost("bank_conflict", "mem.load", place, "read", 4, 2, 64, 2, 32)]))
costs of k: 1 line wastes time
  mem.load, 4-byte read: 32-way bank conflict: 2 requests take 64 cycles instead of 2
    kernels/mine.py:12:9
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tilewright.profiler.check_report import full_place, loc_record
from tilewright.profiler.checker import Checked
from tilewright.profiler.ptxas_figures import ptxas_figures
from tilewright.runtime.compile_log import KernelResources
from tilewright.sim.costs import Cost
from tilewright.sim.findings import ordered
from tilewright.sim.resources import Resources, resources_of

ROWS = 20


def costs_text(one: Checked) -> str:
    """What one launch wastes, and what its kernel takes of an SM."""
    costs = one.report.costs if one.report is not None else ()
    lines = [waste_text(one.kernel, costs)]
    if one.func is not None:
        figures = ptxas_figures(one.func, one.sm)
        lines.append(resources_text(one.kernel, resources_of(one.func), figures))
    return "\n".join(lines)


def cost_records(one: Checked) -> dict[str, Any]:
    """The same as plain values."""
    made: dict[str, Any] = {"costs": []}
    if one.report is not None:
        made["costs"] = [cost_record(cost) for cost in one.report.costs]
    if one.func is not None:
        figures = ptxas_figures(one.func, one.sm)
        made["resources"] = resources_record(resources_of(one.func), figures)
    return made


def waste_text(kernel: str, costs: Sequence[Cost]) -> str:
    """The table of one launch, the greatest waste first; at most `ROWS` rows."""
    if not costs:
        return (
            f"costs of {kernel}: "
            "no bank conflicts, wasted sectors, needless barriers, narrow copies"
        )
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
        lines.append(f"    {full_place(place)}{inside}")
        lines += [f"      {row}" for row in place.snippet()]
    return lines


def resources_text(kernel: str, used: Resources, ptxas: KernelResources | None) -> str:
    """What a block and its threads take, in one line; `ptxas`: from a cubin, if there is one.

    >>> print(resources_text("k", Resources(97, None, 8192, (("sA", 8192),)), None))
    resources of k: about 97 registers per thread, 8,192 bytes of shared memory (sA 8,192)
    """
    exact = f" (ptxas: {ptxas.registers})" if ptxas is not None else ""
    peak = next(iter(ordered(used.peak)), None)
    where = f", most of them at {peak}" if peak is not None else ""
    buffers = ", ".join(f"{label} {size:,}" for label, size in used.buffers)
    held = f" ({buffers})" if buffers else ""
    return (
        f"resources of {kernel}: about {used.registers} registers per thread{exact}{where}, "
        f"{used.shared_bytes:,} bytes of shared memory{held}"
    )


def resources_record(used: Resources, ptxas: KernelResources | None) -> dict[str, Any]:
    """The same as plain values; `ptxas` is None without a cubin."""
    return {
        "registers_estimate": used.registers,
        "peak": loc_record(used.peak),
        "ptxas": asdict(ptxas) if ptxas is not None else None,
        "shared_bytes": used.shared_bytes,
        "shared_buffers": dict(used.buffers),
    }


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
