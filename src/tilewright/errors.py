"""What went wrong, where, and what to do: the one family of errors that users see.

Every error renders the same way (see `TilewrightError.__str__`)::

    composition: stride 4 of B does not divide shape 6 of A's mode 0
      A = (6,2):(1,8)
      B = 4:4
      gemm.py:41:18  in make_tiles
        tA = composition(gA.layout, tiler)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      hint: B = 4:3 is admissible

The first line stands alone: what, which value, what was expected.  Then the operands, then the
user's own source line, then a hint, only where it is truly a fix.  Each class says who must act.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loc:
    """A place in the user's Python source, and the chain of calls that led there.

    `line` counts from 1; `col` and `end_col` count characters from 0, as Python's own code
    objects do.  `caller` is the next frame outwards (None at the kernel itself).

    >>> str(Loc("kernels/gemm.py", 41, 18, 48, "mainloop"))
    'gemm.py:41:19'
    """

    file: str
    line: int
    col: int = 0
    end_col: int = 0
    function: str = ""
    caller: Loc | None = None

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}:{self.col + 1}"

    def chain(self) -> Iterator[Loc]:
        """This location, then its callers outwards."""
        at: Loc | None = self
        while at is not None:
            yield at
            at = at.caller

    def snippet(self) -> list[str]:
        """The source line and a line of carets under the columns; empty if there is no source."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text.strip():
            return []
        body = text.lstrip()
        start = max(self.col - (len(text) - len(body)), 0)
        # A construct that runs over several lines is underlined to the end of its first.
        end = self.end_col if self.end_col > self.col else len(text)
        width = max(min(end - (len(text) - len(body)), len(body)) - start, 1)
        return [body, " " * start + "^" * width]


class TilewrightError(Exception):
    """Base of the family.  Catch this to catch them all.

    `details` are the operands in standard notation, `loc` the user's own line, `hint` a fix.
    """

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, object] | None = None,
        loc: Loc | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = dict(details or {})
        self.loc = loc
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.message]
        lines += [f"  {name} = {value}" for name, value in self.details.items()]
        for place in self.loc.chain() if self.loc else ():
            lines.append(f"  {place}" + (f"  in {place.function}" if place.function else ""))
            lines += [f"    {row}" for row in place.snippet()]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class LayoutError(TilewrightError):
    """Layout algebra was asked for something that is not a layout.  The caller must act."""


class DTypeError(TilewrightError):
    """An element type does not exist, or an operation has no form for it.  The caller must act."""


class CaptureError(TilewrightError):
    """This Python cannot be captured into a kernel.  The kernel's author must act."""


class TypeMismatchError(TilewrightError):
    """A value has the wrong type, rank or shape for its place.  The kernel's author must act."""


class VerifyError(TilewrightError):
    """The IR breaks a rule of the dialect.  Who built the IR must act (from a kernel: us)."""


class TargetError(TilewrightError):
    """The chosen GPU architecture does not have what the kernel uses.  The caller must act."""


class ResourceError(TilewrightError):
    """A budget is exceeded: shared memory, registers, threads.  Whoever chose the config."""


class ToolchainError(TilewrightError):
    """An external tool is missing, or refused our code.  Install it, or report the kept source."""


class LaunchError(TilewrightError):
    """Arguments or machine do not fit the kernel; nothing was launched.  The caller must act."""


class SimulationError(TilewrightError):
    """The simulator found a fault in the kernel; `findings` holds them.  The kernel's author."""

    def __init__(
        self, message: str, *, findings: tuple[object, ...] = (), loc: Loc | None = None
    ) -> None:
        super().__init__(message, loc=loc)
        self.findings = findings
