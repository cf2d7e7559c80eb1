"""The state of a run: the run itself, its clusters, and the blocks in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.sim.actor import Actor
from tilewright.sim.barriers import ClusterBarrier, MBarrier, NamedBarrier
from tilewright.sim.counters import Counters
from tilewright.sim.findings import FindingLog
from tilewright.sim.inflight import BulkGroup, CpAsyncBatch, WgmmaPipe
from tilewright.sim.memory import RANK_SHIFT, SHARED_BASE, GlobalMemory, Window, shared_window
from tilewright.sim.options import SimOptions
from tilewright.sim.program import Program
from tilewright.sim.registers import RegisterArray
from tilewright.sim.schedule import Chooser, strategy
from tilewright.sim.values import Array, Val
from tilewright.sim.watch import Watch, Watcher

Dim3 = tuple[int, int, int]
REGISTERS = 65536
"""32-bit registers of an SM."""


class Run:
    """One simulation of one launch."""

    def __init__(
        self,
        program: Program,
        memory: GlobalMemory,
        options: SimOptions,
        grid: Dim3,
        block: Dim3,
        cluster: Dim3,
        smem_bytes: int,
        min_blocks: int = 1,
    ) -> None:
        self.program = program
        self.memory = memory
        self.options = options
        self.grid = grid
        self.block = block
        self.cluster = cluster
        self.smem_bytes = smem_bytes
        self.min_blocks = min_blocks
        """Blocks that share an SM at least, and its registers."""
        self.log = FindingLog(options.max_findings)
        self.counters = Counters()
        self.executed = [0] * len(program.steps)
        self.steps = 0
        self.printed: list[str] = []
        self.random = random.Random(options.seed)
        self.strategy = strategy(options.seed)
        self.eager = {"late": 0.0, "soon": 1.0}.get(self.strategy.engines, options.eager)
        self.chooser: Chooser | None = None
        """Makes every choice, if the run is one of an exploration."""
        self.watch: Watch | None = None
        """The race detector, or what else is told of everything; one of the watchers."""
        self.watchers: tuple[Watcher, ...] = ()
        self.clock: Callable[[Any], int] = self._tick
        """What a group reads from its clock: a count that grows, unless somebody models time."""
        self._ticks = 0
        self.recorded: dict[int, int] = {}
        """Events that each thread has recorded, by its share of the record buffer."""
        self.stopped = False
        """An `assert` of the kernel failed."""
        x, y, z = block
        linear = np.arange(x * y * z, dtype=np.int32)
        self.thread_idx = (linear % x, linear // x % y, linear // (x * y))

    def _tick(self, g: Any) -> int:
        """The instructions so far (as far as groups have told), plus the readings so far."""
        del g
        self._ticks += 1
        return self.steps + self._ticks


@dataclass(slots=True)
class Pending:
    """Something asynchronous that has been issued: `finish` makes it happen."""

    finish: Callable[[], None]
    delay: int
    """Scheduler rounds to let pass first."""
    cta: Cta
    what: str
    op: Op
    name: tuple[object, ...] = ()
    """Of an exploration: what tells it apart, in every order."""


class Cluster:
    """Blocks that run at the same time and see each other's shared memory."""

    def __init__(self, run: Run, index: Dim3, slots: list[Val]) -> None:
        self.run = run
        self.barrier = ClusterBarrier()
        self.pending: list[Pending] = []
        self.ctas: list[Cta] = []
        cx, cy, cz = run.cluster
        for rank in range(cx * cy * cz):
            inside = (rank % cx, rank // cx % cy, rank // (cx * cy))
            where = tuple(i * c + r for i, c, r in zip(index, run.cluster, inside, strict=True))
            self.ctas.append(Cta(self, rank, where, inside, slots))  # type: ignore[arg-type]

    def live(self) -> int:
        return sum(cta.live for cta in self.ctas)

    def issue(self, finish: Callable[[], None], cta: Cta, what: str, op: Op) -> None:
        """Hands an operation to an engine, which finishes it at once, soon, or late."""
        run = self.run
        if run.chooser is None and run.random.random() < run.eager:
            finish()
            return
        delay = run.random.randrange(1, 24)
        if run.strategy.engines == "late":
            delay += 100
        self.pending.append(Pending(finish, delay, cta, what, op))


class Cta:
    """One block: its threads' shared memory, register arrays and barriers."""

    def __init__(
        self, cluster: Cluster, rank: int, index: Dim3, inside: Dim3, slots: list[Val]
    ) -> None:
        self.cluster = cluster
        self.run: Run = cluster.run
        self.rank = rank
        self.index = index
        self.inside = inside
        self.args = slots
        """The initial slots: the kernel's arguments are in them."""
        x, y, z = self.run.block
        self.size = x * y * z
        self.live = self.size
        self.name = f"block {index}" + (f" (rank {rank})" if len_of(self.run.cluster) > 1 else "")
        self.smem: Window = shared_window(self.run.smem_bytes, rank)
        self.registers: list[RegisterArray | None] = [None] * self.run.program.register_arrays
        self.mbarriers: dict[int, MBarrier] = {}
        """By byte offset in shared memory."""
        self.named: dict[int, NamedBarrier] = {}
        self.copies: list[CpAsyncBatch] = []
        self.copy_groups: Array = np.zeros(self.size, np.int64)
        """cp.async groups that each thread has committed."""
        self.copies_issued = 0
        """Instructions of cp.async so far."""
        self.bulk: dict[int, list[BulkGroup]] = {}
        """Per thread, bulk store groups: the last one is open."""
        self.pipes: dict[int, WgmmaPipe] = {}
        """Per warpgroup."""
        entry = min(REGISTERS // (self.size * self.run.min_blocks) // 8 * 8, 256)
        self.register_pool = entry * 128 * (-(-self.size // 128))
        self.registers_of = [entry] * (-(-self.size // 128))

    def thread_name(self, thread: int) -> str:
        return f"{self.name}, thread {thread} (warp {thread >> 5}, lane {thread & 31})"

    def barrier_at(self, address: int) -> tuple[MBarrier | None, int]:
        """The mbarrier at a shared address (of any CTA of the cluster), and its offset."""
        offset = (address & ((1 << RANK_SHIFT) - 1)) - SHARED_BASE
        return self.mbarriers.get(offset), offset

    def place(self, offset: int) -> str:
        """The name of what lies at a byte offset of shared memory, as people know it."""
        return self.run.program.shared_place(offset)

    def exit(self, g: Actor) -> None:
        """The threads of `g` are done: barriers stop waiting for them."""
        self.live -= g.n
        for barrier in self.named.values():
            if barrier.count == 0:
                barrier.release(self.live)
        self.cluster.barrier.leave(self.rank, g.threads.tolist(), self.cluster.live())


def len_of(shape: Dim3) -> int:
    return shape[0] * shape[1] * shape[2]


class Wait:
    """Why a group is blocked.  `ready` is asked again and again; `finish` runs when it goes on."""

    timed = False
    """Gives up when nothing else in the cluster can run (try_wait)."""

    def __init__(self, op: Op) -> None:
        self.op = op

    def ready(self) -> bool:
        raise NotImplementedError

    def finish(self, g: Any, *, timed_out: bool) -> None:
        """Writes results, if the instruction has any."""

    def stuck(self, g: Any) -> None:
        """It is for ever: says why to the race detector, if that knows."""

    def describe(self) -> str:
        raise NotImplementedError

    def details(self) -> dict[str, Any]:
        return {}
