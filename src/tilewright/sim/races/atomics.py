"""Synchronisation through memory: atomics with semantics and scopes, and fences around them.

Per address, what was released there stays for whoever acquires it later: the release sequence goes
on through other read-modify-writes.  A fence before a relaxed atomic makes it a release, a fence
behind one an acquire.  Source: PTX ISA, "Memory Consistency Model".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.sim.races.clocks import GLOBAL, Board, Far, Rows, Team, cached, far_join
from tilewright.sim.values import Array

_ORDER = ("cta", "cluster", "gpu", "sys")


@dataclass(slots=True, eq=False)
class _Release:
    """Something released, and how far it reaches."""

    team: Team
    cta: Any
    scope: str
    board: Board

    def reaches(self, team: Team, cta: Any, scope: str) -> bool:
        """Whether an acquire of `cta` at `scope` sees it: each scope must include the other."""
        if cta is self.cta:
            return True
        narrow = min(_ORDER.index(scope), _ORDER.index(self.scope))
        return narrow >= 2 or (narrow == 1 and team is self.team)


@dataclass(slots=True)
class _Place:
    releases: list[_Release] = field(default_factory=list)


class Atomics:
    """The addresses that atomics synchronise through, and the fences that threads have executed."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int], _Place] = {}
        self._fenced: dict[tuple[int, int], _Release] = {}
        """Per thread, what its last fence would release."""
        self._pending: dict[tuple[int, int], list[tuple[str, _Release]]] = {}
        """Per thread, what relaxed atomics have read and a later fence would acquire."""

    def fence(self, team: Team, cta: Any, rows: Rows, scope: str) -> None:
        """`fence.acq_rel`: of earlier atomics an acquire, of later ones a release."""
        for column in _each(rows):
            row = slice(column, column + 1)
            for narrow, release in self._pending.pop((team.number, column), []):
                wide = min(narrow, scope, key=_ORDER.index)
                if release.reaches(team, cta, wide):
                    team.acquire(row, _for_team(release, team))
            board = Board(team.columns)
            team.release(row, board)
            self._fenced[team.number, column] = _Release(team, cta, scope, board)

    def shown_to_cluster(self, team: Team, rows: Rows) -> Iterator[Board]:
        """What the last fences of some threads, of the cluster or wider, have released.

        Who waits for their arrivals has to look at global memory anew: its lines may be in the L1.
        """
        for column in _each(rows) if self._fenced else ():
            fenced = self._fenced.get((team.number, column))
            if fenced is not None and fenced.scope != "cta":
                board = fenced.board.copy()
                board.vec[GLOBAL] = 0
                board.far = cached(board.far)
                yield board

    def atomic(
        self, team: Team, g: Any, space: int, addresses: Array, columns: Array, op: Any
    ) -> None:
        """Read-modify-writes of some threads, one address each."""
        semantics, scope = op.semantics, op.scope
        acquires = semantics in ("acquire", "acq_rel")
        releases = semantics in ("release", "acq_rel")
        fences = bool(self._fenced) or bool(self._places)
        if not acquires and not releases and not fences:
            return
        for address in np.unique(addresses).tolist():
            here = columns[addresses == address] if len(columns) > 1 else columns
            self._one(team, g.cta, (space, address), here, (acquires, releases), scope)

    def _one(
        self,
        team: Team,
        cta: Any,
        key: tuple[int, int],
        columns: Array,
        semantics: tuple[bool, bool],
        scope: str,
    ) -> None:
        place = self._places.get(key)
        acquires, releases = semantics
        for release in list(place.releases) if place else []:
            if acquires and release.reaches(team, cta, scope):
                team.acquire(columns, _for_team(release, team))
            elif not acquires:
                for column in columns.tolist():
                    read = self._pending.setdefault((team.number, column), [])
                    if all(held is not release for _, held in read):
                        read.append((scope, release))
        made: list[_Release] = []
        if releases:
            board = Board(team.columns)
            team.release(columns, board)
            made.append(_Release(team, cta, scope, board))
        elif self._fenced:
            fenced = [self._fenced.get((team.number, c)) for c in columns.tolist()]
            made += [
                _Release(team, cta, min(f.scope, scope, key=_ORDER.index), f.board)
                for f in fenced
                if f is not None
            ]
        if made:
            place = self._places.setdefault(key, _Place())
            for release in made:
                _merge(place.releases, release)


def _merge(releases: list[_Release], new: _Release) -> None:
    """Keeps one release for each block and scope."""
    for old in releases:
        if old.cta is new.cta and old.scope == new.scope:
            board = old.board.copy()
            board.add(new.board.vec, new.board.far)
            old.board = board
            return
    releases.append(new)


def _for_team(release: _Release, team: Team) -> Board:
    """What was released, in the columns of the acquiring cluster."""
    if release.team is team:
        return release.board
    board = Board(team.columns)
    far: Far = {release.team.number: release.board.vec}
    board.far = far_join(release.board.far, far)
    return board


def _each(rows: Rows) -> list[int]:
    return list(range(rows.start, rows.stop)) if type(rows) is slice else rows.tolist()
