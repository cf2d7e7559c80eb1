"""The cost model behind modelled timelines and rooflines: one SM of a Hopper GPU, in clocks.

It is simple on purpose, and every number in it is listed here.  What it says:

* A warp instruction takes an issue slot: four warps issue per clock, so an instruction of 4 warps
  takes 1 clock, of 12 warps 3.
* A shared-memory access moves 128 bytes per clock; its result is there `shared_latency` later.
* A global access moves `global_bytes` per clock, the SM's share of the memory's bandwidth; its
  result is there `global_latency` later.  A warp goes on until it needs the result.
* TMA moves one box after the other at the same rate, each `tma_latency` after its issue.
* A wgmma m64nNk32B keeps the tensor cores busy for N/2 clocks; those of all warpgroups queue up.
* mma.sync runs at half of that rate.
* A barrier costs `barrier_latency` after the last arrival; an mbarrier `mbarrier_latency`.

Blocks are alone on their SM.  Caches, bank conflicts, power and clocks are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.arch.mma.registry import mma_atom
from tilewright.ir.core import Effect, Op
from tilewright.ir.ops import mma

NO_ISSUE = frozenset(
    {
        "arith.constant",
        "mem.alloc_shared",
        "mem.alloc_registers",
        "mem.offset",
        "mem.cast",
        "mem.shared_address",
        "mem.global_address",
        "mem.gather",
        "mem.scatter",
        "vec.splat",
        "vec.extract",
        "vec.pack",
        "vec.shuffle",
        "arith.bitcast",
        "special",
        "record.start",
        "record.span",
        "yield",
        "return",
    }
)
"""Operations of the IR for which no instruction, or only address arithmetic, is issued."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """The constants.  Source: `reference/PLAYBOOK.md` 1.1 for rates; latencies are round figures.

    Units: clocks, bytes per clock and SM, FLOP per clock and SM, GHz.
    """

    clock_ghz: float = 1.755
    warps_per_clock: int = 4
    shared_bytes: float = 128.0
    shared_latency: float = 29.0
    global_bytes: float = 19.4
    """4.5 TB/s, the measured read ceiling of an H200, over 132 SMs at 1.755 GHz."""
    global_latency: float = 600.0
    tma_latency: float = 700.0
    tma_issue: float = 10.0
    wgmma_clocks_per_column: float = 0.5
    wgmma_latency: float = 60.0
    mma_flops: float = 2048.0
    barrier_latency: float = 20.0
    mbarrier_latency: float = 20.0
    tensor_flops: float = 4096.0
    """Dense 16-bit FLOP per clock, of the tensor cores."""
    simt_flops: float = 256.0
    """f32 FLOP per clock: 128 fused multiply-adds."""

    def issue(self, op: Op, warps: int) -> float:
        """Clocks for which an instruction of `warps` warps keeps the issue slots."""
        if op.name in NO_ISSUE or op.effect is Effect.CONTROL:
            return 0.0
        if isinstance(op, mma.Mma):
            atom = mma_atom(op.atom)
            if atom.kind == "mma":
                m, n, k = atom.shape_mnk
                return warps * 2 * m * n * k / self.mma_flops
        return warps / self.warps_per_clock

    def wgmma(self, op: mma.Wgmma | mma.WgmmaRs) -> float:
        """Clocks of the tensor cores for one wgmma of one warpgroup."""
        return mma_atom(op.atom).shape_mnk[1] * self.wgmma_clocks_per_column

    def microseconds(self, clocks: float) -> float:
        """
        >>> CostModel(clock_ghz=2.0).microseconds(1000)
        0.5
        """
        return clocks / (self.clock_ghz * 1000)


H200 = CostModel()
