"""Findings: what an interpreted launch did that Tile IR leaves undefined, as values.

A run goes on after a finding, with some value that no program may rely on.  A fault is noted once
per kind and operation; repetitions are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.errors import Loc, SimulationError
from tilewright.ir.core import Attribute, Op
from tilewright.ir.tile_debug import CallSiteLoc, DILoc, FileLoc, FusedLoc, NameLoc, subprogram

KINDS = {
    "out_of_bounds": "an access through a pointer or view outside every buffer",
    "misaligned": "an address that is not a multiple of the element's size",
    "read_only": "a store to a buffer that cannot be written",
    "index_space": "a view's index outside its index space, or outside what `inbounds` promises",
    "subtile": "an extract or insert index outside the tile",
    "division": "an integer divided by zero, or the lowest divided by -1",
    "overflow": "a wrap that the operation promises not to happen",
    "conversion": "a float without an integer of the wanted type",
    "assume": "a promise of `assume` that does not hold",
    "assertion": "an `assert` that does not hold",
    "unordered": "two accesses of one block to the same bytes, one a write, that no token orders",
    "loop_step": "a `for` whose step is not positive",
    "livelock": "more iterations of a loop than `Options.max_iterations`",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault.  `block` says in which tile block it was first seen, `loc` where in the source."""

    kind: str
    message: str
    loc: Loc | None = None
    op: str = ""
    block: tuple[int, int, int] | None = None
    count: int = 1
    """How often it happened (same kind, same operation)."""
    other: str = ""
    """Of `unordered`: the operation of the access that came first here."""
    other_loc: Loc | None = None

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.message}"]
        if self.block is not None:
            lines.append(f"  by {self.op} in block {self.block}")
        lines += _places(self.loc)
        if self.other:
            lines += [f"  and before that: {self.other}", *_places(self.other_loc)]
        if self.count > 1:
            lines.append(f"  ({self.count} times)")
        return "\n".join(lines)


def _places(loc: Loc | None) -> list[str]:
    lines = []
    for place in loc.chain() if loc else ():
        lines.append(f"  {place}" + (f"  in {place.function}" if place.function else ""))
        lines += [f"    {row}" for row in place.snippet()]
    return lines


def place_of(op: Op) -> Loc | None:
    """Where an operation stands in the text that was read, or what its debug information says."""
    return op.loc or _debug_place(getattr(op, "location", None))


def _debug_place(location: Attribute | None) -> Loc | None:
    if isinstance(location, FileLoc):
        return Loc(location.file, location.line, max(location.column - 1, 0))
    if isinstance(location, NameLoc):
        return _debug_place(location.child)
    if isinstance(location, FusedLoc):
        return next(filter(None, map(_debug_place, location.parts)), None)
    if isinstance(location, CallSiteLoc):
        callee = _debug_place(location.callee)
        return callee and replace(callee, caller=_debug_place(location.caller))
    if isinstance(location, DILoc):
        place = _debug_place(location.loc)
        function = subprogram(location.scope)
        return place and replace(place, function=function.name)
    return None


def shown(op: Op) -> str:
    """An operation's name as messages say it."""
    return op.name.partition(".")[2]


class FindingLog:
    """Findings of one run, one per kind and operation (per pair of them, of `unordered`)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._found: dict[tuple[str, Op, Op | None], Finding] = {}

    def add(
        self,
        kind: str,
        op: Op,
        message: str,
        block: tuple[int, int, int] | None,
        other: Op | None = None,
    ) -> None:
        """Notes a fault; of repetitions the first message is kept."""
        assert kind in KINDS, f"finding kind {kind} is not listed in KINDS"
        key = (kind, op, other)
        old = self._found.get(key)
        if old is not None:
            self._found[key] = replace(old, count=old.count + 1)
        elif len(self._found) < self._limit:
            names = (shown(other), place_of(other)) if other is not None else ("", None)
            self._found[key] = Finding(kind, message, place_of(op), shown(op), block, 1, *names)

    def all(self) -> tuple[Finding, ...]:
        return tuple(self._found.values())


def findings_error(entry: str, findings: tuple[Finding, ...], again: str = "") -> SimulationError:
    """The error that reports `findings`: the first in its headline, all of them below.

    `again`: the options that reproduce the run.
    """
    first = findings[0]
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    text = "\n".join(str(f) for f in findings[:20])
    if again:
        text += f"\nreproduce with {again}"
    return SimulationError(
        f"interpret {entry}: {first.kind}: {first.message.splitlines()[0]}{more}\n{text}",
        findings=findings,
    )
