"""The roofline of a run's counters: bytes and FLOPs per level, and which level bounds the kernel.

>>> counters = {"tma_loaded_bytes": 1 << 20, "flops": 1 << 24, "instructions.wgmma": 8}
>>> print(roofline_text("k", counters))
roofline of k (modelled, one SM): 16.8 MFLOP
  level          bytes      FLOP/byte   clocks
  global         1.0 MiB         16.0     54,050
  shared         1.0 MiB         16.0      8,192
  tensor cores         -            -      4,096
  bound by global memory
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.profiler.cost_model import H200, CostModel


@dataclass(frozen=True, slots=True)
class Level:
    """One level: the bytes that it moves, and the clocks that this takes at least."""

    name: str
    bytes: int
    clocks: float
    intensity: float | None


def levels(counters: Mapping[str, int], model: CostModel = H200) -> list[Level]:
    """Global and shared memory, and the units that compute, of all blocks on one SM."""

    def count(*names: str) -> int:
        return sum(counters.get(f"{name}_bytes", 0) for name in names)

    flops = counters.get("flops", 0)
    tma = count("tma_loaded", "tma_stored")
    outer = count("global_read", "global_written") + tma
    inner = count("shared_read", "shared_written") + tma
    tensor = counters.get("instructions.wgmma", 0) + counters.get("instructions.mma", 0)
    simt = 0 if tensor else flops
    rate = model.simt_flops if simt else model.tensor_flops
    return [
        Level("global", outer, outer / model.global_bytes, flops / outer if outer else None),
        Level("shared", inner, inner / model.shared_bytes, flops / inner if inner else None),
        Level("CUDA cores" if simt else "tensor cores", 0, flops / rate, None),
    ]


def roofline_text(kernel: str, counters: Mapping[str, int], model: CostModel = H200) -> str:
    """The table of one launch's counters."""
    rows = levels(counters, model)
    lines = [
        f"roofline of {kernel} (modelled, one SM): {counters.get('flops', 0) / 1e6:.1f} MFLOP",
        "  level          bytes      FLOP/byte   clocks",
    ]
    for row in rows:
        moved = "-" if row is rows[-1] else size_text(row.bytes)
        intensity = "-" if row.intensity is None else f"{row.intensity:.1f}"
        lines.append(f"  {row.name:<13}{moved:>9} {intensity:>12} {row.clocks:>10,.0f}")
    slowest = max(rows, key=lambda row: row.clocks)
    unit = "" if slowest is rows[-1] else " memory"
    lines.append(f"  bound by {slowest.name}{unit}" if slowest.clocks else "  nothing was moved")
    return "\n".join(lines)


def size_text(count: int) -> str:
    """
    >>> size_text(512), size_text(1536), size_text(3 << 20)
    ('512 B', '1.5 KiB', '3.0 MiB')
    """
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
