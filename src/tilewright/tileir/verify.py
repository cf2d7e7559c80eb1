"""The verifier of the tile vocabulary.

Each operation is checked in this order, its nested operations before step 6:

    1 attributes      their ranges
    2 types           each operand and result meets its constraint
    3 agreement       `alike` fields have one type, and the declaration's `rules` hold
    4 place           its parent, its position, what it may stand in
    5 own             what the declaration's `check` says
    6 regions         what `check_regions` says, terminators, purity

The first broken rule is raised as VerifyError; what is only doubtful comes back as warnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.errors import Loc, VerifyError
from tilewright.ir.core import Block, Constraint, Effect, Op, Value, results, variadic
from tilewright.ir.ops.tile import control, module
from tilewright.ir.ops.tile.base import Rule, TileOp, int_attr, same_type
from tilewright.ir.tile_attrs import DenseAttr
from tilewright.ir.tile_types import DIALECT, PointerType, TileType, spelled
from tilewright.tileir.foreign import ForeignOp, shown_name
from tilewright.tileir.hints import hint_fault
from tilewright.tileir.verify_debug import verify_debug
from tilewright.tileir.verify_place import place_fault


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """`testing` admits `testing$func`; hints that nobody knows can be warnings or errors.

    `version` is the dialect's: 13.4 admits what 13.3 refuses (`FToF.check_in`).
    """

    testing: bool = False
    warn_hints: bool = False
    error_hints: bool = False
    version: tuple[int, int] = (13, 3)


DEFAULT = VerifyOptions()


@dataclass(frozen=True, slots=True)
class Warning_:
    """Something doubtful that is no fault."""

    message: str
    loc: Loc | None


@dataclass
class _State:
    options: VerifyOptions
    warnings: list[Warning_] = field(default_factory=list)
    parents: list[TileOp] = field(default_factory=list)
    globals: dict[str, module.Global] = field(default_factory=dict)
    seen: set[Value] = field(default_factory=set)


def verify(block: Block, options: VerifyOptions = DEFAULT) -> list[Warning_]:
    """Verifies the operations at the top of a text; the warnings.

    Raises: VerifyError at the first broken rule, with the operation's place as `loc`.
    """
    state = _State(options)
    _verify_block(block, state)
    return state.warnings


def _error(op: Op, problem: str) -> VerifyError:
    if problem.startswith("!"):
        return VerifyError(problem[1:], loc=op.loc)
    return VerifyError(f"'{shown_name(op)}' op {problem}", loc=op.loc)


def _verify_block(block: Block, state: _State) -> None:
    state.seen.update(block.args)
    for i, op in enumerate(block.ops):
        assert isinstance(op, TileOp), f"{op.name} is not of the tile vocabulary"
        for number, value in enumerate(op.operands):
            if value not in state.seen:
                raise _error(op, f"operand #{number} does not dominate this use")
        if op.terminator and i != len(block.ops) - 1:
            raise _error(op, "must be the last operation in the parent block")
        _verify_op(op, state)
        state.seen.update(op.results)
    state.seen.difference_update(block.args, *(op.results for op in block.ops))


def _verify_op(op: TileOp, state: _State) -> None:
    if not isinstance(op, ForeignOp):
        _verify_declared(op, state)
    outside, known = state.seen, state.globals
    if isinstance(op, module.Module | module.Entry | module.TestingFunc):
        state.seen = set()
    if isinstance(op, module.Module):
        held = (inner for inner in op.body.ops if isinstance(inner, module.Global))
        state.globals = {inner.sym_name: inner for inner in held}
    state.parents.append(op)
    for block in op.regions:
        _verify_block(block, state)
    state.parents.pop()
    state.seen, state.globals = outside, known
    if not isinstance(op, ForeignOp):
        _verify_regions(op)


def _verify_declared(op: TileOp, state: _State) -> None:
    if op.testing and not state.options.testing:
        raise _error(op, "is for NVIDIA's own tests only; --testing admits it")
    if isinstance(op, control.Reduce | control.Scan) and not op.body.ops and not op.body.args:
        raise _error(op, "region #0 ('body') failed to verify constraint: region with 1 blocks")
    problem = (
        _attribute_fault(op)
        or _operand_fault(op)
        or _result_fault(op)
        or _agreement_fault(op)
        or place_fault(op, state.parents)
        or op.check_in(state.options.version)
    )
    if problem:
        raise _error(op, problem)
    if isinstance(op, module.GetGlobal):
        _verify_symbol(op, state)
    _verify_hints(op, state)


def _attribute_fault(op: TileOp) -> str | None:
    for label, declared in op.ATTRS.items():
        value = op.attrs[label]
        if isinstance(declared, int_attr) and isinstance(value, int):
            if fault := declared.fault(value):
                return f"attribute '{label.rstrip('_')}' failed to satisfy constraint: {fault}"
        elif declared.choices and value is not None and value not in declared.choices:
            listed = ", ".join(map(str, declared.choices))
            return f"attribute '{label.rstrip('_')}' is {value!r}, expected one of {listed}"
    return None


def _operand_fault(op: TileOp) -> str | None:
    number = 0
    for index, group in enumerate(op.GROUPS):
        if op.segments is not None:
            values: Sequence[Value] = op.group(index)
        elif isinstance(group, variadic):
            values = op.operands[index:]
        else:
            values = op.operands[index : index + 1]
        many = "variadic of " if isinstance(group, variadic) else ""
        for value in values:
            if not group.constraint.accepts(value.type):
                return (
                    f"operand #{number} must be {many}{group.constraint.text}, but got "
                    f"'{spelled(value.type)}'"
                )
            number += 1
    return None


def _constraint(
    fixed: Sequence[Constraint | None], number: int, more: results | None
) -> Constraint | None:
    if number < len(fixed):
        return fixed[number]
    return more.constraint if more is not None else None


def _result_fault(op: TileOp) -> str | None:
    fixed = [out.constraint for out in op.RESULTS]
    more = type(op).MORE_RESULTS
    for number, value in enumerate(op.results):
        constraint = _constraint(fixed, number, more)
        if constraint is not None and not constraint.accepts(value.type):
            many = "variadic of " if number >= len(fixed) else ""
            return (
                f"result #{number} must be {many}{constraint.text}, but got '{spelled(value.type)}'"
            )
    return None


_ALIKE: dict[tuple[str, ...], Rule] = {}


def _agreement_fault(op: TileOp) -> str | None:
    for labels in op.alike:
        rule = _ALIKE.get(labels)
        if rule is None:
            rule = _ALIKE[labels] = same_type(*labels)
        if not rule.holds(op):
            everything = len(labels) == len(op.GROUPS) + len(op.RESULTS) and len(labels) > 2
            return (
                "requires the same type for all operands and results" if everything else rule.text
            )
    return next((rule.text for rule in op.rules if not rule.holds(op)), None)


def _verify_symbol(op: module.GetGlobal, state: _State) -> None:
    if not any(isinstance(parent, module.Module) for parent in state.parents):
        return
    found = state.globals.get(op.name_)
    if found is None:
        raise _error(op, f"'{op.name_}' does not reference a valid global")
    value, pointer = found.value, op.result.type
    assert isinstance(value, DenseAttr), "the attribute is declared dense"
    assert isinstance(pointer, TileType), "a constraint admits only tiles"
    assert isinstance(pointer.element, PointerType), "a constraint admits only pointers"
    element = value.type.element if isinstance(value.type, TileType) else value.type
    if pointer.element.pointee != element:
        raise _error(
            op,
            f"pointee type of result type '{spelled(pointer.element)}' does not match type "
            f"'{element}' of the global @{op.name_}",
        )


def _verify_hints(op: TileOp, state: _State) -> None:
    options = state.options
    if not (options.warn_hints or options.error_hints):
        return
    if problem := hint_fault(op):
        state.warnings.append(Warning_(problem, op.loc))
        if options.error_hints:
            raise _error(op, f"!Optimization hints verification failed: {problem}")


def _verify_regions(op: TileOp) -> None:
    if isinstance(op, module.Module):
        _verify_module(op)
    if isinstance(op, control.Reduce | control.Scan):
        for inner in op.body.walk():
            if inner.effect is not Effect.PURE and not isinstance(inner, control.Yield):
                raise _error(inner, f"only pure operations are allowed inside '{op.name}'")
    for block in op.regions:
        optional_region = isinstance(op, module.Module) or (
            isinstance(op, control.If) and block is op.else_region
        )
        absent = optional_region and (not block.ops or isinstance(op, module.Module))
        if not absent and not (block.ops and block.ops[-1].terminator):
            raise _error(op, "expects its region to end in a terminator")
    if problem := op.check_regions():
        raise _error(op, problem)


def _verify_module(op: module.Module) -> None:
    names: dict[str, TileOp] = {}
    for inner in op.body.ops:
        if isinstance(inner, module.Entry | module.TestingFunc | module.Global):
            if inner.sym_name in names:
                raise _error(inner, f"!redefinition of symbol named '{inner.sym_name}'")
            names[inner.sym_name] = inner
    verify_debug(op)


def bytecode_fault(block: Block) -> Warning_ | None:
    """What keeps a verified text from being written as bytecode, if something does."""
    for top in block.ops:
        if not isinstance(top, module.Module):
            continue
        for op in top.body.walk():
            if isinstance(op, ForeignOp):
                text = f"only ops from the '{DIALECT}' dialect are allowed in bytecode"
                return Warning_(f"{text}, got '{op.operation}'", op.loc)
        for op in top.body.ops:
            if not isinstance(op, module.Entry | module.Global):
                text = "only function and global ops are allowed in the body of a bytecode module"
                return Warning_(f"{text}, got '{op.name}'", op.loc)
    return None
