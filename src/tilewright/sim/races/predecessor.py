"""The grid in front of one that is launched with `use_pdl`: it may still run beside it.

It is one more actor.  Its column of a cluster's vectors says whether it is known to have ended:
every `griddepcontrol.wait` acquires that, and what releases and acquires hands it on.
Source: PTX ISA, "griddepcontrol".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.core import Func, Op
from tilewright.ir.ops import sync
from tilewright.sim.memory import Window
from tilewright.sim.races.clocks import SEEN, Board, Rows, Team

ENDED = 1
"""The clock of everything that it did."""
PAST = {
    "read": ("read", "write it"),
    "write": ("written", "read or write it"),
    "atomic": ("changed atomically", "read or write it"),
}
"""What is done to the memory, and what the grid in front may still do."""
RULE = (
    "a grid launched with use_pdl may start before the grid in front of it in the stream has "
    "ended, and touches global memory only behind griddepcontrol.wait: let the thread call "
    "cute.arch.griddepcontrol_wait() first, or wait at a barrier behind a thread that does"
)


class Predecessor:
    """Which threads of one run know that the grid in front has ended."""

    def __init__(self, run: Any, kernel: Func) -> None:
        self._run = run
        self._launch = kernel.loc
        if not any(isinstance(op, sync.GridDependencyWait) for op in run.program.ops):
            run.log.add(
                "grid_wait",
                f"{kernel.name} is launched with use_pdl and has no griddepcontrol.wait: it may "
                "run, and end, while the grid in front of it still runs",
                place=kernel.name,
                loc=kernel.loc,
                rule="a kernel launched with use_pdl calls cute.arch.griddepcontrol_wait(), also "
                "for the grids behind it, which wait for this one alone; or launch it without "
                "use_pdl",
            )

    def waited(self, team: Team, rows: Rows) -> None:
        """Threads have executed `griddepcontrol.wait`."""
        board = Board(team.columns)
        board.vec[SEEN, team.predecessor] = ENDED
        team.acquire(rows, board)

    def access(self, cta: Any, team: Team, rows: Rows, window: Window, kind: str, op: Op) -> None:
        """Threads, or engines for them, touch a buffer in global memory."""
        early = [n for n in team.numbers(rows) if not self._ended(team, n)]
        if not early:
            return
        ids = team.ids[rows]
        position = int(np.argmax(np.isin(ids, early)))
        column = rows.start + position if type(rows) is slice else int(rows[position])
        rank, thread = divmod(column, team.stride)
        agent = cta.cluster.ctas[rank].thread_name(thread)
        done, danger = PAST[kind]
        launch = {"launch": str(self._launch)} if self._launch else {}
        self._run.log.add(
            "grid_wait",
            f"{window.name} is {done} by {op.name} of {agent}, and nothing orders that behind "
            f"griddepcontrol.wait: the grid in front may still {danger}",
            place=(op, kind),
            loc=op.loc,
            agent=agent,
            rule=RULE,
            **launch,
        )

    def _ended(self, team: Team, number: int) -> bool:
        """Whether a thread with that knowledge is behind a wait, of its own cluster or another."""
        known = team.known(number)
        at = team.predecessor  # of every cluster: all are of one size
        if known.vec[SEEN, at]:
            return True
        return any(bool(vec[SEEN, at]) for vec in known.far.values())
