"""Findings that somebody has looked at and allowed: what, where, and why.

A suppression names a kind of finding and a place, and gives its reason.  It stands either in the
kernel, as a comment on a line that the finding names,

    flag[0] = 1  # tilewright: allow race: every thread writes the same value

or outside, as `kind@place: reason`, where the place is a function, a file, or `file.py:line`.
A suppression without a reason is refused.
"""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.errors import Loc, TilewrightError
from tilewright.sim.findings import KINDS, Finding

_COMMENT = re.compile(r"#\s*tilewright:\s*allow\s+([a-z_]+)\s*(?::\s*(.*))?$")
_OUTSIDE = re.compile(r"([a-z_]+)@([^:\s]+(?::\d+)?)\s*(?::\s*(.*))?$")


@dataclass(frozen=True, slots=True)
class Suppression:
    """Allows findings of one kind at one place."""

    kind: str
    place: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        """Whether the finding is of this kind and names this place.

        >>> s = Suppression("race", "gemm.py:7", "known")
        >>> s.covers(Finding("race", "", Loc("/a/gemm.py", 7))), s.covers(Finding("race", ""))
        (True, False)
        """
        if finding.kind != self.kind:
            return False
        names = set()
        for loc in places(finding):
            file = os.path.basename(loc.file)
            names |= {file, f"{file}:{loc.line}", loc.function}
        return self.place in names


def parse(text: str) -> Suppression:
    """`kind@place: reason`.

    Raises: TilewrightError for another form, a kind that does not exist, or a missing reason.

    >>> parse("race@reduce: every thread writes the same value").place
    'reduce'
    """
    found = _OUTSIDE.match(text.strip())
    if found is None:
        raise TilewrightError(
            f"suppression {text!r}: expected kind@place: reason",
            hint="as in race@gemm.py:41: every thread writes the same value",
        )
    return _checked(found[1], found[2], found[3] or "", text)


def allowed(finding: Finding, listed: Iterable[Suppression]) -> str:
    """The reason why a finding is allowed, or ''.

    Raises: TilewrightError for a comment in the kernel that gives no reason.
    """
    for suppression in (*listed, *comments(finding)):
        if suppression.covers(finding):
            return suppression.reason
    return ""


def split(
    findings: Sequence[Finding], listed: Sequence[Suppression]
) -> tuple[tuple[Finding, ...], tuple[tuple[Finding, str], ...]]:
    """(findings that count, findings that are allowed with their reasons)."""
    reasons = [(f, allowed(f, listed)) for f in findings]
    return tuple(f for f, r in reasons if not r), tuple((f, r) for f, r in reasons if r)


def places(finding: Finding) -> Iterator[Loc]:
    """Every place that a finding names: its own, those of its accesses, and their callers'."""
    for loc in (finding.loc, *(access.loc for access in finding.accesses)):
        if loc is not None:
            yield from loc.chain()


def comments(finding: Finding) -> Iterator[Suppression]:
    """The suppressions that stand on the lines which a finding names."""
    for loc in places(finding):
        line = linecache.getline(loc.file, loc.line).rstrip()
        found = _COMMENT.search(line)
        if found is not None:
            place = f"{os.path.basename(loc.file)}:{loc.line}"
            yield _checked(found[1], place, found[2] or "", line.strip())


def _checked(kind: str, place: str, reason: str, text: str) -> Suppression:
    if kind not in KINDS:
        raise TilewrightError(
            f"suppression {text!r}: {kind} is not a kind of finding, expected one of "
            f"{', '.join(KINDS)}"
        )
    if not reason.strip():
        raise TilewrightError(
            f"suppression {text!r} of {kind} at {place} gives no reason",
            hint=f"say why it is allowed: {kind}: <reason>",
        )
    return Suppression(kind, place, reason.strip())
