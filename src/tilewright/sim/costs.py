"""What instructions cost: bank conflicts, sectors of global memory, needless barriers, and copies
that could be wider.

Measured on request (`SimOptions.measure_costs`) from the addresses of every warp, by the rules of
`layout.analysis`.

Rule BANKS.  Shared memory has 32 banks of 4 bytes, and a bank serves one word a cycle, to any
number of lanes.  Accesses of up to 4 bytes are served 32 lanes at a time, of 8 bytes 16 lanes, of
16 bytes (and rows of ldmatrix and stmatrix) 8 lanes: a *phase*.  A phase takes as many cycles
(*ways*) as its busiest bank has different words; one would be ideal.
Rule SECTORS.  Global memory moves whole aligned sectors of 32 bytes; as many as the different
bytes would fill, packed, are ideal.
Rule BARRIERS.  A barrier of all threads is needless where, since the one before it, the block has
executed nothing but arithmetic, branches and accesses to registers.
Rules THREAD and WARP of copies that could be wider: see `vectors`.
Source: CUDA C++ Programming Guide, "Shared Memory", "Global Memory".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.errors import Loc
from tilewright.ir.core import Effect, Op
from tilewright.ir.ops import control, memory, sync
from tilewright.ir.types import PtrType, Space
from tilewright.sim.barriers import NamedBarrier
from tilewright.sim.group import Group
from tilewright.sim.memory import Window
from tilewright.sim.values import Array, Val
from tilewright.sim.vectors import Run, Runs

BANKS, SECTOR, CYCLE_BYTES = 32, 32, 128
BARRIER_CYCLES = 20
"""Of one barrier, to weigh its waste against that of accesses; a model, as that of timelines."""
KEPT = 1024
"""Patterns of addresses whose cost is remembered."""
UNITS = {
    "bank_conflict": "cycles",
    "uncoalesced": "bytes",
    "redundant_barrier": "barriers",
    "non_vectorised": "requests",
}
"""What `actual` and `ideal` count, by kind."""
WEIGHTS = {
    "cycles": CYCLE_BYTES,
    "bytes": 1,
    "barriers": BARRIER_CYCLES * CYCLE_BYTES,
    "requests": CYCLE_BYTES // 4,
}
"""In bytes of shared memory; an SM issues 4 instructions per clock."""
_HIGH = 48
"""Bits of an address, relative to the lowest one."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Accesses of one instruction and line that cost more than they need to.

    `kind`: 'bank_conflict' (`actual` and `ideal` are cycles), 'uncoalesced' (they are bytes of
    sectors) or 'non_vectorised' (they are requests).  `access`: 'read' or 'write', of `size` bytes
    a lane.  `count`: requests, one for each warp and execution.  `worst`: ways of the worst phase,
    sectors of the worst request, or the bytes a lane that a request could have.
    Of a 'redundant_barrier', `count`, `actual` and `ideal` are barriers; all of a launch were
    needless (`ideal` is 0), and it has no `size`.
    """

    kind: str
    op: str
    loc: Loc | None
    access: str
    size: int
    count: int
    actual: int
    ideal: int
    worst: int

    @property
    def unit(self) -> str:
        return UNITS[self.kind]

    @property
    def what(self) -> str:
        """The instruction and, of an access, its width and direction."""
        return f"{self.op}, {self.size}-byte {self.access}" if self.size else self.op

    @property
    def wasted_bytes(self) -> int:
        """What could have moved in vain: a cycle of shared memory moves 128 bytes."""
        return (self.actual - self.ideal) * WEIGHTS[self.unit]

    @property
    def text(self) -> str:
        """
        >>> print(Cost("bank_conflict", "mem.load", None, "read", 4, 2, 64, 2, 32).text)
        32-way bank conflict: 2 requests take 64 cycles instead of 2
        """
        if self.kind == "redundant_barrier":
            times = f"{self.count:,} times" if self.count > 1 else "once"
            return f"executed {times}, and no memory was accessed since the barrier before"
        requests = f"{self.count:,} request{'s' if self.count > 1 else ''}"
        some = "s" if self.count == 1 else ""
        if self.kind == "bank_conflict":
            return (
                f"{self.worst}-way bank conflict: {requests} take{some} {self.actual:,} cycles "
                f"instead of {self.ideal:,}"
            )
        if self.kind == "non_vectorised":
            return (
                f"neighbours are accessed one by one, {self.size} bytes at a time: {requests} "
                f"could be {self.ideal:,} of up to {self.worst} bytes"
            )
        return (
            f"up to {self.worst} sectors at once: {requests} move{some} {self.actual:,} bytes "
            f"instead of {self.ideal:,}"
        )

    def __str__(self) -> str:
        return f"{self.loc or 'no line'}: {self.what}: {self.text}"


def merged(costs: Iterable[Cost]) -> tuple[Cost, ...]:
    """Costs of one kind, instruction and line as one; the greatest waste first.

    >>> one = Cost("uncoalesced", "mem.load", None, "read", 4, 1, 1024, 128, 32)
    >>> [(c.count, c.actual, c.ideal) for c in merged([one, one])]
    [(2, 2048, 256)]
    """
    found: dict[tuple[object, ...], Cost] = {}
    for cost in costs:
        key = (cost.kind, cost.op, cost.loc, cost.access, cost.size)
        old = found.get(key)
        found[key] = cost if old is None else _sum(old, cost)
    return tuple(sorted(found.values(), key=lambda cost: -cost.wasted_bytes))


def _sum(a: Cost, b: Cost) -> Cost:
    return replace(
        a,
        count=a.count + b.count,
        actual=a.actual + b.actual,
        ideal=a.ideal + b.ideal,
        worst=max(a.worst, b.worst),
    )


@dataclass(slots=True)
class _BarrierState:
    """Of one block's barrier: the work done when it last opened (-1: never), and who waits."""

    barrier: NamedBarrier
    work: int
    arrived: dict[int, Op]


def _is_quiet(op: Op) -> bool:
    """Whether the instruction gives a barrier nothing to order."""
    if isinstance(op, sync.SyncThreads) or op.effect is Effect.PURE:
        return True
    if op.name.startswith("mem."):
        pointers = [v.type for v in op.operands if isinstance(v.type, PtrType)]
        return all(t.space is Space.RMEM for t in pointers)
    return isinstance(op, control.For | control.While | control.If | control.Yield)


class CostMeter:
    """Told of every access without fault while a kernel runs.  Atomics are not measured.

    `executed`: how often each of `ops` has been, up to now.
    """

    def __init__(self, ops: Sequence[Op | None], executed: Sequence[int]) -> None:
        self._executed = executed
        self._busy = [i for i, op in enumerate(ops) if op is not None and not _is_quiet(op)]
        self._barriers: dict[int, _BarrierState] = {}
        self._costs: dict[tuple[int, bool, str], Cost] = {}
        """By instruction, memory and direction; the program keeps the instructions alive."""
        self._known: dict[tuple[bool, int, bytes, bytes], tuple[int, int, int, int]] = {}
        self._runs = Runs()
        self._narrow: list[Cost] = []

    def access(
        self,
        g: Group,
        window: Window,
        kind: str,
        address: Val,
        bounds: tuple[int, int],
        size: int,
        op: Op,
        lanes: Array | None,
        data: Array | None,
    ) -> None:
        """`address` uniform, or one for each of `lanes` (positions in the group; None: all)."""
        del bounds, data
        if isinstance(op, memory.Atomic):
            return
        shared = window.init is not None  # that of another block has the same banks
        threads = g.threads if lanes is None else g.threads[lanes]
        addresses = np.broadcast_to(np.asarray(address, np.int64), threads.shape)
        requests, actual, ideal, worst = self._measure(shared, size, threads, addresses)
        key = (id(op), shared, kind)
        name = "bank_conflict" if shared else "uncoalesced"
        new = Cost(name, op.name, op.loc, kind, size, requests, actual, ideal, worst)
        old = self._costs.get(key)
        self._costs[key] = new if old is None else _sum(old, new)
        run = self._runs.access(g, shared, kind, addresses, size, op, threads)
        if run is not None:
            self._end(run)

    def _end(self, run: Run) -> None:
        """A run of accesses to neighbours is over."""
        wider = run.wider()
        if wider is not None:
            width, left = wider
            op, now = run.op, run.length * run.warps
            counts = (now, now, left * run.warps, width)
            self._narrow.append(
                Cost("non_vectorised", op.name, op.loc, run.kind, run.size, *counts)
            )

    def _measure(
        self, shared: bool, size: int, threads: Array, addresses: Array
    ) -> tuple[int, int, int, int]:
        """Remembers patterns: whole rounds of the banks, or sectors, further on cost the same."""
        unit = CYCLE_BYTES if shared else SECTOR
        relative = addresses - int(addresses.min()) // unit * unit
        numbers = threads - (threads[0] & ~31)
        key = (shared, size, numbers.tobytes(), relative.tobytes())
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            wide = numbers.astype(np.int64)
            found = (bank_cycles if shared else sectors)(wide, relative, size)
            self._known[key] = found
        return found

    def sync(self, g: Group, kind: str, what: object, op: Op) -> None:
        """Threads arrive at the barrier of all threads; of 'wait', they were the last."""
        if kind != "fence":
            for run in self._runs.end(g):
                self._end(run)
        if not isinstance(op, sync.SyncThreads) or not isinstance(what, NamedBarrier):
            return
        state = self._barriers.setdefault(id(what), _BarrierState(what, -1, {}))
        state.arrived[id(op)] = op
        if kind != "wait":
            return
        work = sum(self._executed[i] for i in self._busy)
        needed = int(work != state.work)
        for one in state.arrived.values():
            key = (id(one), True, "sync")
            new = Cost("redundant_barrier", one.name, one.loc, "sync", 0, 1, 1, needed, 1)
            old = self._costs.get(key)
            self._costs[key] = new if old is None else _sum(old, new)
        state.work = work
        state.arrived.clear()

    def costs(self) -> tuple[Cost, ...]:
        """The instructions that waste anything, the worst first."""
        for run in self._runs.end():
            self._end(run)
        found = merged((*self._costs.values(), *self._narrow))
        return tuple(c for c in found if c.actual > c.ideal and not (c.size == 0 and c.ideal))

    def counters(self) -> dict[str, int]:
        """Sums over all accesses, also those that waste nothing."""
        made = {"bank_cycles": 0, "bank_cycles_ideal": 0, "sectors": 0, "sectors_ideal": 0}
        for cost in self._costs.values():
            if cost.unit == "barriers":
                continue
            name, unit = ("bank_cycles", 1) if cost.unit == "cycles" else ("sectors", SECTOR)
            made[name] += cost.actual // unit
            made[f"{name}_ideal"] += cost.ideal // unit
        return made


def bank_cycles(threads: Array, addresses: Array, size: int) -> tuple[int, int, int, int]:
    """(requests, cycles, phases, ways of the worst phase) by rule BANKS.

    >>> lanes = np.arange(32)
    >>> bank_cycles(lanes, lanes * 128, 4), bank_cycles(lanes, lanes * 16, 16)
    ((1, 32, 1, 32), (1, 4, 4, 1))
    """
    words = max(size // 4, 1)
    phase = threads >> (6 - words.bit_length())
    touched = (addresses >> 2)[:, None] + np.arange(words)
    different = np.unique((phase[:, None] << _HIGH) | touched)
    phases, where = np.unique(different >> _HIGH, return_inverse=True)
    in_bank = np.bincount(where * BANKS + different % BANKS, minlength=len(phases) * BANKS)
    ways = in_bank.reshape(-1, BANKS).max(axis=1)
    return len(np.unique(threads >> 5)), int(ways.sum()), len(phases), int(ways.max())


def sectors(threads: Array, addresses: Array, size: int) -> tuple[int, int, int, int]:
    """(requests, bytes of sectors, bytes of ideal sectors, sectors of the worst request).

    >>> lanes = np.arange(32)
    >>> sectors(lanes, lanes * 4, 4), sectors(lanes, lanes * 32, 4)
    ((1, 128, 128, 4), (1, 1024, 128, 32))
    """
    warp = threads >> 5
    moved = np.unique((warp << _HIGH) | (addresses // SECTOR))
    asked = np.unique((warp << _HIGH) | addresses)
    warps, per_warp = np.unique(moved >> _HIGH, return_counts=True)
    used = np.unique(asked >> _HIGH, return_counts=True)[1] * size
    ideal = int((-(-used // SECTOR)).sum()) * SECTOR
    return len(warps), len(moved) * SECTOR, ideal, int(per_warp.max())
