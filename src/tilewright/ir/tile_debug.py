"""Debug information of the tile vocabulary: where an operation comes from, and in which scope.

The text forms are those of MLIR locations and of Tile IR's `#cuda_tile.di_*` attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tilewright.ir.core import Attribute


@dataclass(frozen=True, slots=True)
class DIFile(Attribute):
    name: str
    directory: str


@dataclass(frozen=True, slots=True)
class DICompileUnit(Attribute):
    file: DIFile


@dataclass(frozen=True, slots=True)
class DISubprogram(Attribute):
    """A function: its name in the source, and (`linkage`) that of its entry here."""

    file: DIFile
    line: int
    name: str
    linkage: str
    unit: DICompileUnit
    scope_line: int


@dataclass(frozen=True, slots=True)
class DILexicalBlock(Attribute):
    """A block inside a function or another block."""

    scope: DISubprogram | DILexicalBlock
    file: DIFile
    line: int
    column: int


Scope = DISubprogram | DILexicalBlock


@dataclass(frozen=True, slots=True)
class UnknownLoc(Attribute):
    pass


@dataclass(frozen=True, slots=True)
class FileLoc(Attribute):
    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class NameLoc(Attribute):
    name: str
    child: Attribute


@dataclass(frozen=True, slots=True)
class CallSiteLoc(Attribute):
    callee: Attribute
    caller: Attribute


@dataclass(frozen=True, slots=True)
class FusedLoc(Attribute):
    """Several places of one operation; `metadata` says why they are one."""

    parts: tuple[Attribute, ...]
    metadata: Any = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class DILoc(Attribute):
    """A place inside a scope."""

    loc: Attribute
    scope: Scope


def scopes(location: Attribute | None) -> Iterator[DILoc]:
    """The scoped places of a location: of a call site, those of the outermost caller."""
    if isinstance(location, DILoc):
        yield location
    elif isinstance(location, NameLoc):
        yield from scopes(location.child)
    elif isinstance(location, FusedLoc):
        for part in location.parts:
            yield from scopes(part)
    elif isinstance(location, CallSiteLoc):
        yield from scopes(location.caller)


def subprogram(scope: Scope) -> DISubprogram:
    """The function that a scope lies in."""
    while isinstance(scope, DILexicalBlock):
        scope = scope.scope
    return scope
