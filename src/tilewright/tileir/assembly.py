"""The language of `TileOp.assembly`: how a declaration says what its text looks like.

lhs              an operand, a group of operands, or an attribute
type(lhs)        its type; `types(args)` those of a group, with commas between
, : = ->         that punctuation; `[[` and `]]` are brackets
'dim'            that word
[ ... ]          all of it or nothing: there if its first word or operand is
@name  @name(x)  what `tileir/directives.py` reads and prints by that name

Attributes that no operation declares stand before the first `:`, or where `@attributes` is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.ir.ops.tile.base import TileOp


@dataclass(frozen=True, slots=True)
class Literal:
    text: str


@dataclass(frozen=True, slots=True)
class Field:
    label: str


@dataclass(frozen=True, slots=True)
class Types:
    label: str
    many: bool


@dataclass(frozen=True, slots=True)
class Directive:
    name: str
    argument: str


@dataclass(frozen=True, slots=True)
class Group:
    elements: tuple[Element, ...]

    @property
    def anchor(self) -> str:
        """The field that the group is there for."""
        for element in self.elements:
            if isinstance(element, Field | Types):
                return element.label
        return ""


Element = Literal | Field | Types | Directive | Group

_PIECE = re.compile(
    r"""\s*(?:
      '(?P<word>\w+)'
    | (?P<bracket>\[\[|\]\])
    | (?P<open>\[) | (?P<close>\])
    | (?P<type>types?)\((?P<of>\w+)\)
    | @(?P<directive>\w+)(?:\((?P<argument>\w+)\))?
    | (?P<field>\w+)
    | (?P<punct>->|[,:=])
    )\s*""",
    re.VERBOSE,
)


_CACHE: dict[str, tuple[Element, ...]] = {}


def elements_of(kind: type[TileOp]) -> tuple[Element, ...]:
    """The elements of a declaration's text."""
    found = _CACHE.get(kind.name)
    if found is None:
        found = _CACHE[kind.name] = _parsed(kind)
    return found


def _parsed(kind: type[TileOp]) -> tuple[Element, ...]:
    stack: list[list[Element]] = [[]]
    at = 0
    while at < len(kind.assembly):
        match = _PIECE.match(kind.assembly, at)
        assert match is not None, f"{kind.name}: {kind.assembly[at:]!r} is not assembly"
        at = match.end()
        if match["open"]:
            stack.append([])
        elif match["close"]:
            inner = tuple(stack.pop())
            stack[-1].append(Group(inner))
        else:
            stack[-1].append(_element(match))
    assert len(stack) == 1, f"{kind.name}: its assembly has an open group"
    return tuple(stack[0])


def _element(match: re.Match[str]) -> Element:
    if match["directive"]:
        return Directive(match["directive"], match["argument"] or "")
    if match["type"]:
        return Types(match["of"], match["type"] == "types")
    if match["field"]:
        return Field(match["field"])
    if match["bracket"]:
        return Literal(match["bracket"][0])
    return Literal(match["word"] or match["punct"])
