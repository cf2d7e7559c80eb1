"""Structured control flow, reductions and scans."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.core import (
    Block,
    Effect,
    Op,
    attr,
    operand,
    region,
    results,
    variadic,
)
from tilewright.ir.ops.tile.base import (
    ANYTHING,
    I1_0,
    I1S,
    INT0,
    TILES,
    TileOp,
    flag,
    int_attr,
    is_view,
)
from tilewright.ir.tile_attrs import TypedAttr
from tilewright.ir.tile_types import TileIrType, TileType, spelled
from tilewright.ir.types import Type

_CARRIED = "@attributes [ operands_ : types(operands_) ]"


def listed(types: Sequence[Type | TileIrType]) -> str:
    """Types as diagnostics list them."""
    return ", ".join(f"'{spelled(t)}'" for t in types)


def _types(op: Op) -> list[Type]:
    return [v.type for v in op.operands]


def view_fault(what: str, types: Sequence[Type]) -> str | None:
    """Views are compile-time values: they may not be carried."""
    for i, t in enumerate(types):
        if kind := is_view(t):
            return f"{what} {i} is a {kind}, which is not supported"
    return None


class _Terminator(TileOp):
    effect = Effect.CONTROL
    terminator = True
    operands_ = variadic(ANYTHING)
    assembly = _CARRIED


class Yield(_Terminator):
    """What a branch, or a combination step, results in."""

    name = "cuda_tile.yield"
    opcode = 0x6D


class Break(_Terminator):
    """Leaves the innermost `loop` with its results."""

    name = "cuda_tile.break"
    opcode = 0x0A


class Continue(_Terminator):
    """Begins the next iteration of the innermost `for` or `loop`, with its carried values."""

    name = "cuda_tile.continue"
    opcode = 0x11


class Return(_Terminator):
    name = "cuda_tile.return"
    opcode = 0x5C


class If(TileOp):
    """One branch or the other; yields only if it has results."""

    name = "cuda_tile.if"
    opcode = 0x32
    effect = Effect.CONTROL
    condition = operand(I1_0)
    out = results(ANYTHING)
    then_region = region()
    else_region = region()
    assembly = "@if"

    def check(self) -> str | None:
        for number, block in enumerate(self.regions):
            if block.args:
                return f"region #{number} should have no arguments"
        return view_fault("result type", [v.type for v in self.results])

    def check_regions(self) -> str | None:
        wanted = [v.type for v in self.results]
        if wanted and not self.else_region.ops:
            return "has non-empty return type, must define else branch"
        for name, block in (("then", self.then_region), ("else", self.else_region)):
            if fault := _branch_fault(name, block, wanted):
                return fault
        return None


def _branch_fault(name: str, block: Block, wanted: Sequence[Type]) -> str | None:
    last = block.ops[-1] if block.ops else None
    if not isinstance(last, Yield):
        return None
    got = _types(last)
    if not wanted and got:
        return f"does not return a value, but {name} branch yields {listed(got)}"
    if wanted and not got:
        return f"has return type of {listed(wanted)} but {name} branch does not yield anything"
    if wanted != got:
        return (
            f"type does not match yield type, {name} branch yields {listed(got)} but op result "
            f"type is {listed(wanted)}"
        )
    return None


def _carried_fault(init: Sequence[Type], inside: Sequence[Type]) -> str | None:
    if len(inside) != len(init):
        return (
            "mismatch in number of region iterator values and loop iterator inits: "
            f"{len(inside)} vs {len(init)}"
        )
    for i, (a, b) in enumerate(zip(init, inside, strict=True)):
        if a != b:
            return (
                f"init value {i} and region iter_value {i} have different type: "
                f"'{spelled(a)}' != '{spelled(b)}'"
            )
    return view_fault("loop-carried value", init)


class For(TileOp):
    """Iterates over [lowerBound, upperBound) by step > 0, compared as signed unless `unsigned`."""

    name = "cuda_tile.for"
    opcode = 0x29
    effect = Effect.CONTROL
    lowerBound = operand(INT0)
    upperBound = operand(INT0)
    step = operand(INT0)
    initValues = variadic(ANYTHING)
    out = results(ANYTHING)
    body = region()
    unsignedCmp = flag("unsigned", since=(13, 2))
    assembly = "@for"
    alike = (("lowerBound", "upperBound", "step"),)

    def check(self) -> str | None:
        init, args = self.types_of("initValues"), self.body.args
        bounds = self.lowerBound.type
        if not args:
            return "expected the body to have an induction variable"
        if args[0].type != bounds:
            return (
                "expected induction variable to be same type as bounds and step: "
                f"'{spelled(args[0].type)}' vs '{spelled(bounds)}'"
            )
        fault = _carried_fault(init, [v.type for v in args[1:]])
        outputs = [v.type for v in self.results]
        if not fault and outputs != list(init):
            fault = (
                f"expected results to have the types of the loop-carried values: "
                f"({listed(init)}) vs ({listed(outputs)})"
            )
        return fault

    def check_regions(self) -> str | None:
        return _continues_fault("for", self.body, self.types_of("initValues"))


class Loop(TileOp):
    """Iterates until a `break`, whose operands are the results."""

    name = "cuda_tile.loop"
    opcode = 0x41
    effect = Effect.CONTROL
    initValues = variadic(ANYTHING)
    out = results(ANYTHING)
    body = region()
    assembly = "@loop"

    def check(self) -> str | None:
        inside = [v.type for v in self.body.args]
        return _carried_fault(self.types_of("initValues"), inside) or view_fault(
            "result type", [v.type for v in self.results]
        )

    def check_regions(self) -> str | None:
        return _continues_fault("loop", self.body, self.types_of("initValues"))


def _continues_fault(name: str, body: Block, carried: Sequence[Type]) -> str | None:
    last = body.ops[-1] if body.ops else None
    return continues_fault(name, _types(last), carried) if isinstance(last, Continue) else None


def continues_fault(name: str, got: Sequence[Type], carried: Sequence[Type]) -> str | None:
    """Whether a `continue` with operands of types `got` fits the loop that it continues."""
    if list(got) == list(carried):
        return None
    return (
        f"!`{name}` is missing a valid terminator. `continue` op should have operand types "
        f"that match the parent loop iter_values: ({listed(carried)}), but found: "
        f"({listed(got)})"
    )


class _Combine(TileOp):
    """What reduce and scan share: a pure region over pairs of scalars, one pair per operand."""

    operands_ = variadic(TILES)
    out = results(TILES)
    body = region()

    def check(self) -> str | None:
        operands = [t for t in _types(self) if isinstance(t, TileType)]
        identities, dim = self.attrs["identities"], self.attrs["dim"]
        assert isinstance(identities, tuple), "the attribute is declared a tuple"
        assert isinstance(dim, int), "the attribute is declared an int"
        if fault := self._identity_fault(operands, identities):
            return fault
        if not 0 <= dim < operands[0].rank:
            return f"dimension ({dim}) is out of bound [0, {operands[0].rank})"
        return self._result_fault(operands)

    def _identity_fault(
        self, operands: Sequence[TileType], identities: Sequence[TypedAttr]
    ) -> str | None:
        if not operands:
            return "expect at least one operand"
        if len(operands) != len(self.results):
            return "expect same number of operands and results"
        if len(identities) != len(operands):
            return (
                "expect identities to match the number of operands but got: "
                f"{len(operands)} operands and {len(identities)} identities"
            )
        if len({t.shape for t in operands}) > 1:
            return "requires the same shape for all operands"
        for i, (t, identity) in enumerate(zip(operands, identities, strict=True)):
            if t.element != identity.type:
                return (
                    f"expect same type for operand at index: {i} and identity at index: {i} but "
                    f"got: '{t.element}' and '{identity.type}'"
                )
        return None

    def _result_fault(self, operands: Sequence[TileType]) -> str | None:
        del operands
        return None

    def check_regions(self) -> str | None:
        operands = [t for t in _types(self) if isinstance(t, TileType)]
        args = [v.type for v in self.body.args]
        if len(args) != 2 * len(operands):
            return (
                f"expect {2 * len(operands)} block arguments, two per operand, but got: {len(args)}"
            )
        return _pairs_fault(operands, args) or _yield_fault(operands, self.body)


def _pairs_fault(operands: Sequence[TileType], args: Sequence[Type]) -> str | None:
    elements = []
    for i, t in enumerate(args):
        if not isinstance(t, TileType) or t.rank:
            return f"expect 0-rank tile type at index: {i} but got: '{spelled(t)}'"
        elements.append(t.element)
    for i in range(0, len(elements), 2):
        if elements[i] != elements[i + 1]:
            return (
                f"expect same element type for block argument at index: {i} and {i + 1} but got: "
                f"'{elements[i]}' and '{elements[i + 1]}'"
            )
    for i, t in enumerate(operands):
        if t.element != elements[2 * i]:
            return (
                f"expect same type for operand at index: {i} and block argument at index: {i} but "
                f"got: '{t.element}' and '{elements[2 * i]}'"
            )
    return None


def _yield_fault(operands: Sequence[TileType], body: Block) -> str | None:
    last = body.ops[-1] if body.ops else None
    got = _types(last) if isinstance(last, Yield) else []
    if len(got) != len(operands):
        return (
            f"expect number of terminators operands ({len(got)}) to match number of operands "
            f"({len(operands)})"
        )
    for i, (t, out) in enumerate(zip(operands, got, strict=True)):
        found = out.element if isinstance(out, TileType) else out
        if t.element != found:
            return (
                f"expect same type for operand at index: {i} and terminator argument at index: "
                f"{i} but got: '{t.element}' and '{found}'"
            )
    return None


class Reduce(_Combine):
    """Combines all elements along `dim`, which disappears.  The order is unspecified."""

    name = "cuda_tile.reduce"
    opcode = 0x58
    dim = int_attr(32, 0)
    identities: attr[tuple[TypedAttr, ...]] = attr(tuple)
    assembly = "@combine"

    def _result_fault(self, operands: Sequence[TileType]) -> str | None:
        wanted = [
            TileType(t.shape[: self.dim] + t.shape[self.dim + 1 :], t.element) for t in operands
        ]
        got = [v.type for v in self.results]
        if wanted != got:
            return (
                f"inferred type(s) {listed(wanted)} are incompatible with return type(s) of "
                f"operation {listed(got)}"
            )
        return None


class Scan(_Combine):
    """Combines every prefix (suffix, if `reverse`) along `dim`, itself included."""

    name = "cuda_tile.scan"
    opcode = 0x5E
    dim = int_attr(32, 0)
    reverse: attr[bool] = attr(bool, False)
    identities: attr[tuple[TypedAttr, ...]] = attr(tuple)
    assembly = "@combine"

    def _result_fault(self, operands: Sequence[TileType]) -> str | None:
        for i, (t, out) in enumerate(zip(operands, self.results, strict=True)):
            if t != out.type:
                return f"expect same type for operand at index: {i} and result at index: {i}"
        return None


class Assert(TileOp):
    """Reports `message` for every false element; the kernel may go on."""

    name = "cuda_tile.assert"
    opcode = 0x05
    effect = Effect.WRITE
    message = attr(str)
    condition = operand(I1S)
    assembly = "condition , message : type(condition)"
