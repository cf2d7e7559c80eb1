"""Fences, the warp's barrier, and the registers that a warpgroup owns."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Op
from tilewright.ir.ops import sync
from tilewright.sim.exec_sync import NAMED_BARRIERS, NamedWait, named_barrier, tell
from tilewright.sim.exec_warp import WARP, check_full
from tilewright.sim.group import Group
from tilewright.sim.state import Wait
from tilewright.sim.step import Context, Step, executes


class RegisterWait(Wait):
    def __init__(self, op: Op, g: Group, count: int) -> None:
        super().__init__(op)
        self.cta, self.groups, self.count = g.cta, list(g.warpgroups), count

    def ready(self) -> bool:
        mine = sum(self.cta.registers_of[w] for w in self.groups)
        taken = 128 * (sum(self.cta.registers_of) - mine + self.count * len(self.groups))
        if taken > self.cta.register_pool:
            return False
        for w in self.groups:
            self.cta.registers_of[w] = self.count
        return True

    def describe(self) -> str:
        return (
            f"{self.count} registers per thread; the block has {self.cta.register_pool}, its "
            f"warpgroups hold {self.cta.registers_of} per thread"
        )


@executes(sync.SetMaxRegister)
def set_max_register(op: sync.SetMaxRegister, context: Context) -> Step:
    del context
    count, increase = op.count, op.increase

    def step(g: Group) -> Wait | None:
        check_full(g, op)
        if g.n % 128 or g.n != 128 * len(g.warpgroups):
            g.report(
                "aligned_divergence",
                f"setmaxnreg is executed by {g.n} threads; all four warps of a warpgroup must "
                "execute it",
                op,
                0,
            )
        held = [g.cta.registers_of[w] for w in g.warpgroups]
        wrong = [h for h in held if (h > count if increase else h < count)]
        if wrong:
            word = "increase" if increase else "decrease"
            g.report(
                "registers",
                f"setmaxnreg asks to {word} the registers per thread from {wrong[0]} to {count}",
                op,
                0,
            )
            return None
        if increase:
            return RegisterWait(op, g, count)
        for w in g.warpgroups:
            g.cta.registers_of[w] = count
        return None

    return step


@executes(sync.SyncWarp)
def sync_warp(op: sync.SyncWarp, context: Context) -> Step:
    """Lanes of `mask` that have parted from the group are waited for; whole warps just go on."""
    del context
    mask = op.mask
    wanted = mask.bit_count()

    def step(g: Group) -> Any:
        tell(g, "fence", op.name, op)
        watch = g.run.watch
        if g.full:
            if watch is not None:
                watch.sync_warp(g)
            return None
        warps = g.threads >> 5
        if warps[0] != warps[-1]:
            return g.split_by(warps)
        first = int(warps[0]) * WARP
        live = min(wanted, g.cta.size - first)
        if g.n == live:
            if watch is not None:
                watch.sync_warp(g)
            return None
        barrier = named_barrier(g, NAMED_BARRIERS + int(warps[0]))
        generation = barrier.generation
        token = watch.named_arrive(g, None, barrier, op) if watch is not None else None
        barrier.arrive(g.n, live, live)
        if barrier.generation == generation:
            return NamedWait(op, g.cta, barrier, generation, token)
        if watch is not None:
            watch.named_wait(g, token)
        return None

    return step


@executes(
    sync.FenceMBarrierInit,
    sync.FenceProxyAsync,
    sync.FenceAcqRel,
    sync.GridDependencyWait,
    sync.GridDependencyLaunch,
)
def fence(op: Op, context: Context) -> Step:
    """The machine runs each group's accesses in order: only the sanitizer needs to know."""
    del context

    def step(g: Group) -> None:
        tell(g, "fence", op.name, op)
        if g.run.watch is not None:
            g.run.watch.fence(g, op)

    return step
