"""What the race detector keeps: running clusters, shadows of memories, records of accesses."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.core import Func, Op
from tilewright.sim.memory import Window
from tilewright.sim.races import engines
from tilewright.sim.races.atomics import Atomics
from tilewright.sim.races.check import Conflict, touch
from tilewright.sim.races.clocks import Clock, Rows, Team
from tilewright.sim.races.edges import ClusterWatch, Exits, MBarrierWatch
from tilewright.sim.races.predecessor import Predecessor
from tilewright.sim.races.protocol import Phases, Protocol
from tilewright.sim.races.records import Ledger, Record
from tilewright.sim.races.report import report_conflict
from tilewright.sim.races.shadow import UNIT_SHIFT, Shadow
from tilewright.sim.values import Array


class ClusterState:
    """What is known about one cluster while it runs."""

    def __init__(self, cluster: Any, number: int, clock: Clock) -> None:
        ctas = cluster.ctas
        self.team = Team(number, len(ctas), ctas[0].size, clock)
        self.ledger = Ledger()
        self.barrier = ClusterWatch(self.team)
        self.exits = Exits(self.team, len(ctas))
        self.waited: Array = np.empty(self.team.threads, object)
        """Per thread, the mbarrier that it last waited for."""
        self.unfenced: list[MBarrierWatch] = []
        """Barriers whose initialisation nobody has fenced."""
        self.landed: dict[bytes, dict[int, int]] = {}
        """By threads: columns of the barriers that have counted copies of theirs, and when."""


class Memories:
    """The state behind the hooks of one run."""

    def __init__(self, run: Any, *, check_global: bool, dependent: Func | None = None) -> None:
        """`dependent`: the kernel, if it is launched with `use_pdl`."""
        self.run = run
        self.check_global = check_global
        self.clock = Clock()
        self._states: dict[int, ClusterState] = {}
        self._clusters = 0
        self._ledger = Ledger()
        self._shadows: dict[int, Shadow] = {}
        self._shift = UNIT_SHIFT
        self._operands = engines.Operands()
        self._atomics = Atomics()
        self._muted = 0
        self._rules = Protocol(run)
        self._phases = Phases(run.log)
        self._predecessor = Predecessor(run, dependent) if dependent is not None else None

    def start(self, cluster: Any) -> None:
        self._states[id(cluster)] = ClusterState(cluster, self._clusters, self.clock)
        self._clusters += 1

    def end(self, cluster: Any) -> None:
        del self._states[id(cluster)]
        for cta in cluster.ctas:
            shadow = self._shadows.pop(id(cta.smem), None)
            if shadow is not None:
                self._shift = min(self._shift, shadow.shift)
        self._operands = engines.Operands()

    def _state(self, g: Any) -> ClusterState:
        return self._states[id(g.cta.cluster)]

    def _shadow(self, window: Window, owner: Any, ledger: Ledger) -> Shadow:
        found = self._shadows.get(id(window))
        if found is None:
            origin = window.start & ~15
            shift = self._shift if owner is not window else UNIT_SHIFT
            found = Shadow(origin, window.end - origin, owner, shift)
            self._shadows[id(window)] = found
            ledger.shadows.append(found)
        return found

    def _smem(self, cta: Any, state: ClusterState) -> Shadow:
        return self._shadow(cta.smem, cta, state.ledger)

    def _global(self, g: Any, rows: Rows, address: int, kind: str, op: Op) -> None:
        """Threads, or engines for them, touch the buffer that an address lies in."""
        if self._predecessor is None:
            return
        window = self.run.memory.window(address)
        if window is not None:
            self._predecessor.access(g.cta, self._state(g).team, rows, window, kind, op)

    def _touch(self, ledger: Ledger, record: Record) -> None:
        touch(ledger, record, self._conflict)

    def _conflict(self, conflict: Conflict) -> None:
        first, second = conflict.first, conflict.second
        same = first.kind == second.kind == "write" and not first.engine
        if same and not conflict.fence and second.changes_nothing():
            return  # several threads store one value: whoever is last, the result is the same
        note = self._phases.explain(conflict)
        report_conflict(self.run.log, conflict, note)

    def _reach(self, g: Any, cta: Any, rows: Rows, what: Record | int, op: Op, lane: int) -> None:
        """Threads, or engines for them, reach into the shared memory of `cta`."""
        agent = g.cta.thread_name(int(g.threads[lane]))
        self._state(g).exits.reach(cta.rank, rows, what, op, agent)
        if cta.live == 0:
            self._rules.early_exit(cta, op, agent)
