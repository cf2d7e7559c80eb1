"""Rules of use that are no races: allocations, barriers, descriptors, exits, old phases."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.core import Op, Value
from tilewright.ir.ops import bulk, copy, memory
from tilewright.sim import tma
from tilewright.sim.findings import FindingLog
from tilewright.sim.races.check import Conflict
from tilewright.sim.races.clocks import Rows
from tilewright.sim.races.edges import MBarrierWatch
from tilewright.sim.races.engines import pattern_problem
from tilewright.sim.races.provenance import Provenance
from tilewright.sim.races.records import Record
from tilewright.sim.races.report import access_info
from tilewright.sim.values import Array, Val

BARRIER_BYTES = 8
Bounds = tuple[int, int, str] | None


def _pointer(op: Any, kind: str) -> Value:
    """The operand through which an instruction reads or writes shared memory."""
    if isinstance(op, memory.Load | memory.Store | memory.Atomic):
        return op.base
    value: Value = op.src if kind == "read" else op.dst
    return value


class Protocol:
    """Checks that need the run's state, and report on their own."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self._provenance = Provenance(run.program.body)
        self._bounds: dict[tuple[Op, str], Bounds] = {}
        self._barriers: dict[int, tuple[int, int]] = {}
        """By CTA: the first byte of its barriers, and the byte behind the last."""

    # -- allocations and barriers in shared memory ------------------------------------------------

    def shared_access(
        self,
        g: Any,
        cta: Any,
        kind: str,
        op: Op,
        address: Val,
        bounds: tuple[int, int],
        size: int,
    ) -> None:
        """A valid access of threads to a CTA: does it stay in its allocation, off the barriers?"""
        key = (op, kind)
        if key not in self._bounds:
            self._bounds[key] = self._provenance.bounds(_pointer(op, kind))
        limits = self._bounds[key]
        start = cta.smem.start
        lo, hi = bounds[0] - start, bounds[1] + size - start
        if limits is not None and (lo < limits[0] or hi > limits[1]):
            offsets = np.atleast_1d(np.asarray(address)) - start
            bad = (offsets < limits[0]) | (offsets + size > limits[1])
            lane = int(np.argmax(bad)) if len(offsets) == g.n else 0
            self._overflow(g, lane, op, kind, int(offsets[int(np.argmax(bad))]), size, limits)
        if kind == "write":
            self._barriers_hit(g, cta, op, address, lo, hi, size)

    def _overflow(
        self, g: Any, lane: int, op: Op, kind: str, at: int, size: int, limits: tuple[int, int, str]
    ) -> None:
        first, end, name = limits
        past = f"{at + size - end} bytes behind its end" if at >= first else "before its start"
        verb = "written" if kind == "write" else "read"
        g.report(
            "overflow",
            f"{size} bytes through a pointer into {name} ({end - first} bytes) are {verb} {past}, "
            f"at {g.cta.place(at)}",
            op,
            lane,
            hint=f"make {name} larger, or correct the index",
        )

    def _barriers_hit(
        self, g: Any, cta: Any, op: Op, address: Val, lo: int, hi: int, size: int
    ) -> None:
        span = self._barriers.get(id(cta))
        if span is None or hi <= span[0] or lo >= span[1]:
            return
        offsets = np.atleast_1d(np.asarray(address)) - cta.smem.start
        for at in cta.mbarriers:
            hit = (offsets < at + BARRIER_BYTES) & (offsets + size > at)
            if hit.any():
                lane = int(np.argmax(hit)) if len(offsets) == g.n else 0
                self._clobbered(g, lane, op, at)
                return

    def _clobbered(self, g: Any, lane: int, op: Op, at: int) -> None:
        g.report(
            "barrier",
            f"{op.name} writes over the mbarrier {g.cta.place(at)}, which is in use; only mbarrier "
            "instructions may touch it",
            op,
            lane,
        )

    def shared_box(self, g: Any, lane: int, op: Op, pointer: Value, box: tma.Box) -> None:
        """A TMA copy: does its box stay in the allocation, and off the barriers?"""
        at = (box.address & 0xFFFFFF) - (g.cta.smem.start & 0xFFFFFF)
        kind = "read" if isinstance(op, copy.TmaStore | bulk.TmaReduce) else "write"
        self._one_run(g, lane, op, g.cta, pointer, at, tma.box_bytes(box.tensor), kind)

    def shared_run(
        self, g: Any, lane: int, op: Any, cta: Any, address: int, size: int, kind: str
    ) -> None:
        """A side of a bulk copy: does it stay in its allocation, and off the barriers?"""
        pointer = op.src if kind == "read" else op.dst
        self._one_run(g, lane, op, cta, pointer, address - cta.smem.start, size, kind)

    def _one_run(
        self, g: Any, lane: int, op: Op, cta: Any, pointer: Value, at: int, size: int, kind: str
    ) -> None:
        key = (op, f"{kind} run")
        if key not in self._bounds:
            self._bounds[key] = self._provenance.bounds(pointer)
        limits = self._bounds[key]
        if limits is not None and not limits[0] <= at <= limits[1] - size:
            self._overflow(g, lane, op, kind, at, size, limits)
        if kind == "write":
            for barrier in cta.mbarriers:
                if at - BARRIER_BYTES < barrier < at + size:
                    self._clobbered(g, lane, op, barrier)
                    return

    def operand(
        self, g: Any, warpgroup: int, op: Op, record: Record, bits: int, value: Value
    ) -> None:
        """An operand of wgmma: its swizzle pattern, and its allocation."""
        lane = int(np.searchsorted(g.threads, warpgroup * 128))
        problem = pattern_problem(bits)
        if problem:
            g.report("descriptor", problem, op, lane)
        key = (op, "ab"[value is op.operands[1]])
        if key not in self._bounds:
            self._bounds[key] = self._provenance.bounds(value)
        limits = self._bounds[key]
        if limits is None:
            return
        skip = g.cta.smem.start - record.shadow.origin
        lo = int(record.offsets.min()) - skip
        hi = int(record.offsets.max()) + record.size - skip
        if lo < limits[0] or hi > limits[1]:
            self._overflow(g, lane, op, "read", lo, hi - lo, limits)

    def overrun(self, g: Any, lane: int, op: Op, box: tma.Box) -> None:
        """A store whose row ends between two multiples of 16 bytes (measured on an H200)."""
        kept = tma.inside(box.tensor, box.coords, store=False)
        done = tma.inside(box.tensor, box.coords, store=True)
        if kept is None or done is None or done.extent[0] == kept.extent[0]:
            return
        g.report(
            "overrun",
            f"a TMA store of {box.tensor.dtype} at {box.coords} writes "
            f"{done.extent[0] - kept.extent[0]} bytes behind the inner extent {box.tensor.dims[0]}:"
            " the last 16 bytes of a row are written whole",
            op,
            lane,
            hint="make the row a multiple of 16 bytes, or store its end with predicated stores",
        )

    def same_address(self, record: Record, data: Array) -> None:
        """Lanes of one store that write different values to one place."""
        offsets = record.offsets
        if type(offsets) is np.ndarray:
            order = np.argsort(offsets, kind="stable")
            twins = np.flatnonzero(np.diff(offsets[order]) == 0)
            pairs = zip(order[twins].tolist(), order[twins + 1].tolist(), strict=True)
        else:
            pairs = zip(range(len(data) - 1), range(1, len(data)), strict=True)
        for a, b in pairs:
            if data[a : a + 1].tobytes() != data[b : b + 1].tobytes():
                columns = record.columns()
                infos = tuple(access_info(record, int(columns[i])) for i in (a, b))
                self.run.log.add(
                    "race",
                    "lanes of one store write different values to the same address: "
                    f"{infos[0].agent}, and {infos[1].agent}",
                    place=(record.op, "lanes"),
                    loc=record.op.loc,
                    agent=infos[0].agent,
                    accesses=infos,
                    rule="of several stores to one address any may be the last; let one lane store",
                )
                return

    # -- barriers ---------------------------------------------------------------------------------

    def barrier_init(self, g: Any, lane: int, offset: int, old: Any, barrier: Any, op: Op) -> None:
        span = self._barriers.get(id(g.cta), (offset, offset))
        end = offset + BARRIER_BYTES
        self._barriers[id(g.cta)] = (min(span[0], offset), max(span[1], end))
        if old is not None:
            g.report(
                "barrier",
                f"mbarrier {barrier.name} is initialised again; it is {old.state()}",
                op,
                lane,
                hint="initialise each mbarrier once, by one thread",
            )

    def barrier_use(
        self, g: Any, lane: int, watch: MBarrierWatch, rows: Rows, op: Op, *, to_engine: bool
    ) -> None:
        """Threads use an mbarrier: may they know that it is initialised?"""
        if watch.visible(rows, to_engine=to_engine):
            return
        if watch.visible(rows, to_engine=False):
            g.report(
                "proxy_fence",
                f"{op.name} uses the mbarrier {watch.barrier.name}, whose initialisation was not "
                "made visible to the async proxy",
                op,
                lane,
                initialised=str(watch.init_op.loc or "?"),
                hint="the thread that initialises it executes mbarrier_init_fence() afterwards, "
                "before the barrier that all wait at",
            )
            return
        g.report(
            "race",
            f"{op.name} uses the mbarrier {watch.barrier.name}, and nothing orders that behind "
            "its initialisation",
            op,
            lane,
            initialised=str(watch.init_op.loc or "?"),
            hint="let all threads wait (sync_threads, or the cluster barrier) behind mbarrier_init",
        )

    def named_barrier(self, g: Any, barrier: Any, problem: str, op: Op) -> None:
        g.report("barrier", f"barrier {barrier.id}: {problem}", op, 0)

    def copy_in_flight(self, cta: Any, op: Op) -> None:
        if isinstance(op, bulk.BulkSend):
            text = f"{cta.name} exits while {op.name} may still read its shared memory"
        else:
            what = "a TMA load" if op.name.startswith("tma") else op.name
            text = f"{cta.name} exits while {what} into its shared memory is in flight"
        self.run.log.add(
            "in_flight",
            f"{text}: nobody waited for it",
            place=op,
            loc=op.loc,
            agent=cta.name,
        )

    def early_exit(self, cta: Any, op: Op, agent: str) -> None:
        self.run.log.add(
            "exit",
            f"{cta.name} may exit before {op.name} of {agent} reaches its shared memory",
            place=op,
            loc=op.loc,
            agent=agent,
            rule="a block of a cluster stays until all that others send it has arrived: wait for "
            "the last arrivals, or end with a cluster barrier",
        )


class Phases:
    """Waits for mbarriers that a phase satisfied which the thread cannot have meant."""

    def __init__(self, log: FindingLog) -> None:
        self._log = log

    def explain(self, conflict: Conflict) -> str:
        """Whether a wait let a thread through too early to a race; reports the wait if so."""
        for record, column in (
            (conflict.first, conflict.second_column),
            (conflict.second, conflict.first_column),
        ):
            watch = record.barrier
            found = watch.misled(column, record.phase) if watch is not None else None
            if found is not None:
                op, phase = found
                self.reused(watch, op, column, phase)
                return f"the wait at {op.loc or op.name} was satisfied by an old phase"
        return ""

    def reused(self, watch: MBarrierWatch, op: Op, column: int, phase: int) -> None:
        which = "the phase before its first" if phase < 0 else f"phase {phase}"
        again = "" if phase < 0 else ", which the thread had already used"
        self._report(
            watch,
            op,
            column,
            f"the wait for {watch.barrier.name} was satisfied by {which}{again}: it has parity "
            f"{phase & 1}, like the one that was waited for",
        )

    def missed(self, watch: MBarrierWatch, op: Op, column: int) -> None:
        """A thread that waits for ever: did it miss the phase that it wanted?"""
        phase = watch.unseen(column)
        if phase is None:
            return
        self._report(
            watch,
            op,
            column,
            f"the wait for {watch.barrier.name} is for parity {(phase + 1) & 1}, but the thread "
            f"has never waited for phase {phase} (parity {phase & 1}), which is complete",
        )

    def _report(self, watch: MBarrierWatch, op: Op, column: int, message: str) -> None:
        rank, thread = divmod(column, watch.team.stride)
        self._log.add(
            "stale_phase",
            message,
            place=op,
            loc=op.loc,
            agent=watch.cta.cluster.ctas[rank].thread_name(thread),
            rule="the parity to wait for belongs to the barrier: use-count & 1, flipped each time "
            "the barrier is used again",
        )
