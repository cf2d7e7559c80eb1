"""Checks that IR obeys its own declarations: the last word before code is generated or run.

Rules, cited where they are checked:

    DOMINANCE   an operand is defined before its use, in the same block or an enclosing one
    ARITY       the number of operands, regions and results is what the declaration says
    TYPE        each operand meets its constraint, each result has the inferred type
    ATTRIBUTE   each attribute has the declared kind and one of the declared choices
    TERMINATOR  a block ends in a terminator, and only there
    OWN         the rule that the operation's `check` states
"""

from __future__ import annotations

from tilewright.errors import VerifyError
from tilewright.ir.core import Block, Func, Module, Op, Value, operand, variadic


def verify_module(module: Module) -> None:
    """Verifies every function; raises VerifyError at the first broken rule."""
    for func in (*module.kernels.values(), *([module.host] if module.host else [])):
        verify_func(func)


def verify_func(func: Func) -> None:
    """Verifies one function.

    >>> from tilewright.ir.core import Block
    >>> verify_func(Func("f", Block()))
    Traceback (most recent call last):
        ...
    tilewright.errors.VerifyError: f: a block has no terminator (rule TERMINATOR)
    """
    _verify_block(func.name, func.body, set())


def _verify_block(where: str, block: Block, outer: set[Value]) -> None:
    seen = set(outer)
    seen.update(block.args)
    if not block.ops:
        raise VerifyError(f"{where}: a block has no terminator (rule TERMINATOR)")
    for i, op in enumerate(block.ops):
        if op.terminator != (i == len(block.ops) - 1):
            what = "is a terminator in mid-block" if op.terminator else "ends a block"
            raise _error(op, f"{what} (rule TERMINATOR)")
        _verify_op(op, seen)
        for inner in op.regions:
            _verify_block(where, inner, seen)
        seen.update(op.results)


def _error(op: Op, problem: str) -> VerifyError:
    return VerifyError(f"{op.name}: {problem}", loc=op.loc)


def _verify_op(op: Op, seen: set[Value]) -> None:
    for v in op.operands:
        if v not in seen:
            raise _error(op, f"operand {v} is used before it is defined (rule DOMINANCE)")
    _verify_operands(op)
    _verify_attributes(op)
    if len(op.regions) != len(op.REGIONS):
        raise _error(op, f"takes {len(op.REGIONS)} regions, got {len(op.regions)} (rule ARITY)")
    for block in op.regions:
        if not block.ops:
            raise _error(op, "a region is empty (rule TERMINATOR)")
    types = list(op.infer_types())
    if [v.type for v in op.results] != types:
        got = ", ".join(str(v.type) for v in op.results)
        want = ", ".join(map(str, types))
        raise _error(op, f"results have types ({got}), expected ({want}) (rule TYPE)")
    problem = op.check()
    if problem:
        raise _error(op, f"{problem} (rule OWN)")


def _verify_operands(op: Op) -> None:
    rest: variadic | None = type(op).VARIADIC
    fixed, extra = len(op.OPERANDS), len(op.operands) - len(op.OPERANDS)
    most = 0 if rest is None else rest.at_most
    if extra < 0 or (most is not None and extra > most):
        raise _error(op, f"takes {fixed} operands, got {len(op.operands)} (rule ARITY)")
    for i, v in enumerate(op.operands):
        field: operand | variadic | None = op.OPERANDS[i] if i < fixed else rest
        assert field is not None, "checked by rule ARITY"
        if not field.constraint.accepts(v.type):
            raise _error(
                op, f"{field.label} is {v.type}, expected {field.constraint.text} (rule TYPE)"
            )


def _verify_attributes(op: Op) -> None:
    for label, declared in op.ATTRS.items():
        value = op.attrs[label]
        kind = float if declared.kind is int and isinstance(value, bool) else declared.kind
        if not isinstance(value, kind):
            raise _error(
                op,
                f"attribute {label} = {value!r}, expected {declared.kind.__name__} "
                "(rule ATTRIBUTE)",
            )
        if declared.choices and value not in declared.choices:
            names = ", ".join(map(repr, declared.choices))
            raise _error(op, f"attribute {label} = {value!r}, expected {names} (rule ATTRIBUTE)")
