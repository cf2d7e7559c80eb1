"""Findings: what the machine saw go wrong, as values.

A run does not stop at the first fault: the faulty lanes are left out, the fault is noted once per
kind and line (repetitions are counted), and the run goes on as the hardware might.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilewright.errors import Loc, SimulationError

_PACKAGE = Path(__file__).resolve().parents[1]

KINDS = {
    "out_of_bounds": "an access outside every mapped buffer or outside shared memory",
    "misaligned": "an address that is not a multiple of the access size",
    "uninitialised": "a read of shared memory or registers that nothing has written",
    "register_index": "an index outside a register array",
    "in_flight": "registers or memory that an asynchronous operation still owns",
    "fence": "a missing wgmma.fence",
    "barrier": "an mbarrier or named barrier used against its rules",
    "registers": "setmaxnreg outside its budget",
    "aligned_divergence": "an instruction for whole warps, executed by a part of one",
    "descriptor": "a matrix descriptor, tensor map or coordinate that the unit cannot use",
    "assertion": "an `assert` of the kernel that does not hold",
    "deadlock": "threads that wait for what can never happen",
    "livelock": "more instructions than `SimOptions.max_steps`",
    # Those below are found only with `SimOptions.check_races`.
    "race": "two accesses to the same bytes, one of them a write, that nothing orders",
    "proxy_fence": "generic writes that the async proxy reads without a fence between",
    "stale_phase": "a wait for an mbarrier that an old phase satisfied",
    "overflow": "an access outside of the shared allocation that its pointer comes from",
    "grid_wait": "global memory touched by a grid launched with use_pdl before griddepcontrol.wait",
    "overrun": "a TMA store that writes the rest of the last 16 bytes of a row",
    "exit": "a block that exits while others of its cluster may still reach into it",
}


@dataclass(frozen=True, slots=True)
class AccessInfo:
    """One side of a race.  `kind`: read, write or atomic; `proxy`: generic or async."""

    agent: str
    kind: str
    proxy: str
    op: str
    loc: Loc | None = None

    def __str__(self) -> str:
        where = f" at {self.loc}" if self.loc else ""
        return f"{self.kind} ({self.op}, {self.proxy} proxy) by {self.agent}{where}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault.  `agent` says who ("block (0, 0, 0), thread 5"), `loc` where in the source."""

    kind: str
    message: str
    loc: Loc | None = None
    agent: str = ""
    details: Mapping[str, object] = field(default_factory=dict, hash=False)
    count: int = 1
    """How often it happened (same kind, same place)."""
    accesses: tuple[AccessInfo, ...] = ()
    """Of a race: the earlier access and the later one."""
    rule: str = ""
    """What would have made it right."""

    @property
    def lines(self) -> frozenset[int]:
        """Every source line that the report names: its own, the accesses', and their callers'."""
        places = [self.loc, *(a.loc for a in self.accesses)]
        return frozenset(at.line for place in places if place for at in place.chain())

    def text(self, shown: Callable[[Loc], str] = str) -> str:
        """The whole report; `shown` says how a place is written."""
        lines = [f"{self.kind}: {self.message}"]
        if self.agent:
            lines.append(f"  by {self.agent}")
        lines += [f"  {name} = {value}" for name, value in self.details.items()]
        lines += place_lines(self.loc, shown)
        for access in self.accesses[:1]:
            lines += [f"  and before that: {access}", *place_lines(access.loc, shown)]
        if self.rule:
            lines.append(f"  rule: {self.rule}")
        if self.count > 1:
            lines.append(f"  ({self.count} times)")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def place_lines(loc: Loc | None, shown: Callable[[Loc], str] = str) -> list[str]:
    """The chain of calls with its source lines, as `ordered`."""
    lines = []
    for place in ordered(loc):
        lines.append(f"  {shown(place)}" + (f"  in {place.function}" if place.function else ""))
        lines += [f"    {row}" for row in place.snippet()]
    return lines


def ordered(loc: Loc | None) -> list[Loc]:
    """The places of a chain, the user's before those inside of Tilewright; else innermost first."""
    return sorted(loc.chain() if loc else (), key=is_ours)


def is_ours(place: Loc) -> bool:
    """Whether a place lies inside of the package."""
    return Path(place.file).is_relative_to(_PACKAGE)


class FindingLog:
    """Findings of one run, one per kind and place."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._found: dict[tuple[str, object], Finding] = {}

    def add(
        self,
        kind: str,
        message: str,
        *,
        place: object = None,
        loc: Loc | None = None,
        agent: str = "",
        accesses: tuple[AccessInfo, ...] = (),
        rule: str = "",
        **details: object,
    ) -> None:
        """`place` tells two findings of one kind apart (an op); the first message is kept."""
        assert kind in KINDS, f"finding kind {kind} is not listed in KINDS"
        key = (kind, place)
        old = self._found.get(key)
        if old is not None:
            self._found[key] = replace(old, count=old.count + 1)
        elif len(self._found) < self._limit:
            self._found[key] = Finding(
                kind, message, loc, agent, details, accesses=accesses, rule=rule
            )

    def all(self) -> tuple[Finding, ...]:
        return tuple(self._found.values())


def simulation_error(
    kernel: str, findings: tuple[Finding, ...], again: str = ""
) -> SimulationError:
    """The error that reports `findings`: the first in its headline, all of them below.

    `again`: the options that reproduce the run.
    """
    first = findings[0]
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    text = "\n".join(str(f) for f in findings[:20])
    if again:
        text += f"\nreproduce with options={again}"
    return SimulationError(
        f"simulate {kernel}: {first.kind}: {first.message.splitlines()[0]}{more}\n{text}",
        findings=findings,
    )
