"""Values by name: definitions, uses and the scopes between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import VerifyError
from tilewright.ir.core import Attribute, Block, Value
from tilewright.ir.ops.tile.base import Argument, TileOp
from tilewright.ir.tile_types import TileIrType, spelled
from tilewright.tileir.draft import Use
from tilewright.tileir.read_attrs import AttrReader
from tilewright.tileir.source import Source


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of a region as the text declares it."""

    name: str
    type: TileIrType
    location: Attribute | None = None
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Names:
    """The names of one module or function, region by region, and uses that none explains yet."""

    regions: list[dict[str, tuple[Value, ...]]] = field(default_factory=lambda: [{}])
    pending: list[Use] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)


class ValueReader(AttrReader):
    """Reads uses of values, and knows what they are."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.source = source
        self.names: list[_Names] = [_Names()]

    # --- scopes ---------------------------------------------------------------------------------

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """A scope that sees no names from outside; what it uses it must define."""
        self.names.append(_Names(regions=[]))
        yield
        self.close_scope()

    def close_scope(self) -> None:
        """Refuses the first use that no definition explains."""
        names = self.names.pop()
        if not names.pending:
            return
        use = names.pending[0]
        place = names.places.get(use.name)
        if place is not None and place > use.at:
            line, column = self.source.place(place)
            raise self.source.error(
                use.at,
                f"operand {use.name} does not dominate this use, it is defined at {line}:{column}",
            )
        raise self.source.error(use.at, f"use of undeclared SSA value name {use.name}")

    @contextmanager
    def region_scope(self) -> Iterator[None]:
        """A scope whose names end with it."""
        self.names[-1].regions.append({})
        yield
        scope = self.names[-1]
        ended = scope.regions.pop()
        if scope.regions:  # the outermost region's names still explain its uses
            for name in ended:
                scope.places.pop(name, None)

    def define(self, name: str, values: Sequence[Value], at: int) -> None:
        """Lets a name stand for values from here on."""
        scope = self.names[-1]
        if any(name in region for region in scope.regions):
            raise self.source.error(at, f"redefinition of SSA value '{name}'")
        scope.regions[-1][name] = tuple(values)
        scope.places.setdefault(name, at)
        for value in values:
            value.name = "" if name[1:].isdigit() else name[1:]

    def resolve(self, use: Use, t: TileIrType) -> Value:
        """The value that a use means, which must have type `t`."""
        scope = self.names[-1]
        name, _, number = use.name.partition("#")
        for region in reversed(scope.regions):
            if name not in region:
                continue
            index = int(number or 0)
            if index >= len(region[name]):
                raise self.cursor.error("reference to invalid result number", use.at)
            value = region[name][index]
            if value.type != t:
                raise self.cursor.error(
                    f"use of value '{use.name}' expects different type than prior uses: "
                    f"'{spelled(t)}' vs '{spelled(value.type)}'",
                    use.at,
                )
            return value
        scope.pending.append(Use(name, use.at))
        return Value(t)

    # --- tokens ---------------------------------------------------------------------------------

    def use(self) -> Use:
        """`%x`, or `%x#1`."""
        token = self.cursor.take("value", "SSA operand")
        after = self.cursor.peek()
        if after.kind == "attr" and after.at == token.end and after.text[1:].isdigit():
            self.cursor.next()
            return Use(token.text + after.text, token.at)
        return Use(token.text, token.at)

    def uses(self) -> list[Use]:
        """Zero or more uses, with commas between."""
        found: list[Use] = []
        if self.cursor.peek().kind != "value":
            return found
        found.append(self.use())
        while self.cursor.is_next(",") and self.cursor.peek_after().kind == "value":
            self.cursor.next()
            found.append(self.use())
        return found

    def parameters(self, attributed: bool = False) -> list[Parameter]:
        """`(%a: type loc(...), ...)`; those of functions may have attributes after the type."""
        cursor = self.cursor
        cursor.expect("(")
        found: list[Parameter] = []
        while not cursor.is_next(")") or found:
            name = cursor.take("value", "SSA identifier").text
            cursor.expect(":")
            t = self.types.type()
            attrs = self.dictionary() if attributed and cursor.is_next("{") else {}
            found.append(Parameter(name, t, self.optional_location(), attrs))
            if not cursor.accept(","):
                break
        cursor.expect(")")
        return found

    def optional_location(self) -> Attribute | None:
        """`loc(...)`, or nothing."""
        return self.location() if self.cursor.is_next("loc") else None

    def declare(self, block: Block, parameters: Sequence[Parameter], at: int) -> None:
        """Gives a block its arguments."""
        for parameter in parameters:
            value = Argument(parameter.type, block, parameter.location)
            block.args.append(value)
            self.define(parameter.name, [value], at)

    def region(self, parameters: Sequence[Parameter], owner: type[TileOp]) -> Block:
        """`{ operations }` with the given block arguments."""
        raise NotImplementedError("OpReader reads operations")

    def fault(self, message: str, at: int | None = None) -> VerifyError:
        """The error of a fault at an offset, or at the next token."""
        return self.cursor.error(message, at)
