"""Lines of C++ with indentation, and `#line` directives that lead back to the Python source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.errors import Loc


class Writer:
    """Collects lines.  `at` says which Python line the statements that follow come from."""

    def __init__(self, line_info: bool) -> None:
        self._line_info = line_info
        self._lines: list[str] = []
        self._depth = 0
        self._wanted: tuple[str, int] | None = None
        self._implied: tuple[str, int] | None = None
        """Where the compiler believes that the next line comes from."""
        self._joined = False

    def at(self, loc: Loc | None) -> None:
        if loc is not None and self._line_info:
            self._wanted = (os.path.basename(loc.file), loc.line)

    def line(self, text: str) -> None:
        self._mark()
        self._lines.append("  " * self._depth + text)
        if self._implied is not None:
            self._implied = (self._implied[0], self._implied[1] + 1)

    def directive(self, text: str) -> None:
        """A `#pragma`: nothing, not even a `#line`, may come between it and the next line."""
        self.line(text)
        self._joined = True

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextmanager
    def aside(self) -> Iterator[list[str]]:
        """Collects what is written inside, instead of appending it."""
        kept, self._lines = self._lines, []
        implied, self._implied = self._implied, None
        try:
            yield self._lines
        finally:
            self._lines = kept
            self._implied = implied

    def splice(self, lines: list[str]) -> None:
        """Appends lines that were collected by `aside`."""
        self._lines += lines
        if lines:
            self._implied = None

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def _mark(self) -> None:
        joined, self._joined = self._joined, False
        if joined or self._wanted is None or self._wanted == self._implied:
            return
        file, line = self._wanted
        self._lines.append(f'#line {line} "{file}"')
        self._implied = self._wanted
