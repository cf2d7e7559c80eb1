"""A kernel as a flat list of steps with jump targets: what the scheduler runs."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.core import Block, Op
from tilewright.ir.ops import memory
from tilewright.ir.types import Type
from tilewright.numeric.dtypes import dtype
from tilewright.sim.step import Step
from tilewright.sim.values import Val


@dataclass(eq=False)
class Program:
    """What the scheduler runs.  `ops[i]` is the operation behind `steps[i]`, None for joins."""

    func_name: str
    body: Block
    steps: list[Step]
    ops: list[Op | None]
    template: list[Val]
    """The slots of a new group: constants are there, the rest is None."""
    args: list[int]
    arg_types: list[Type]
    register_arrays: int
    allocations: list[memory.AllocShared]
    waits_for_copies: bool
    """Whether threads wait for groups of cp.async."""
    visible: list[bool]
    """Whether a step synchronises: where an exploration may interrupt a group."""
    unit: int
    """Threads that must stay together: those of a warp, or of a warpgroup."""

    def shared_place(self, offset: int) -> str:
        """Which `mem.alloc_shared` a byte offset lies in, and at which index.

        The text is that of reports: ``full[2]``.
        """
        for op in self.allocations:
            size = dtype(op.dtype).bytes_for(op.count)
            if op.offset <= offset < op.offset + size:
                step = max(dtype(op.dtype).storage_bits // 8, 1)
                label = op.label or op.results[0].name or "shared buffer"
                return f"{label}[{(offset - op.offset) // step}]"
        return f"shared memory + {offset}"
