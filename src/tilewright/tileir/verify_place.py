"""Where an operation may stand: its parent, and what surrounds it."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.ops.tile import control, module
from tilewright.ir.ops.tile.base import TileOp
from tilewright.ir.ops.tile.control import continues_fault, listed
from tilewright.ir.tile_attrs import TypeAttr
from tilewright.ir.tile_types import FunctionType, spelled

PARENTS: dict[type[TileOp], tuple[type[TileOp], ...]] = {
    control.Break: (control.If, control.Loop),
    control.Continue: (control.For, control.If, control.Loop),
    control.Return: (module.Entry, module.TestingFunc, control.If, control.Loop),
    control.Yield: (control.If, control.Reduce, control.Scan),
}
"""The operations that an operation must stand in directly."""

_FUNCTIONS = (module.Entry, module.TestingFunc)
_TOP = (module.Entry, module.TestingFunc, module.Global)


def place_fault(op: TileOp, parents: Sequence[TileOp]) -> str | None:
    """What is wrong with where `op` stands; `parents` from the outermost in."""
    allowed = PARENTS.get(type(op))
    if allowed and not (parents and isinstance(parents[-1], allowed)):
        names = ", ".join(kind.name for kind in allowed)
        one_of = "one of " if len(allowed) > 1 else ""
        return f"expects parent op to be {one_of}'{names}'"
    if isinstance(op, _TOP) and parents and not isinstance(parents[-1], module.Module):
        return f"expects parent op '{module.Module.name}'"
    if isinstance(op, control.Break):
        return _break_fault(op, parents)
    if isinstance(op, control.Continue):
        return _continue_fault(op, parents)
    if isinstance(op, control.Return):
        return _return_fault(op, parents)
    return None


def _through_ifs(parents: Sequence[TileOp]) -> TileOp | None:
    """The innermost parent that is not an `if`."""
    return next((p for p in reversed(parents) if not isinstance(p, control.If)), None)


def _break_fault(op: control.Break, parents: Sequence[TileOp]) -> str | None:
    loop = _through_ifs(parents)
    if not isinstance(loop, control.Loop):
        return (
            "can only be nested within a ancestor chain of 'cuda_tile.loop', 'cuda_tile.if' "
            "operations"
        )
    got, wanted = [v.type for v in op.operands], [v.type for v in loop.results]
    if got != wanted:
        return (
            "operand types must correspond to the parent loop result types: "
            f"({listed(got)}) vs ({listed(wanted)})"
        )
    return None


def _continue_fault(op: control.Continue, parents: Sequence[TileOp]) -> str | None:
    loop = _through_ifs(parents)
    if not isinstance(loop, control.For | control.Loop):
        return (
            "can only be nested within a ancestor chain of 'cuda_tile.for', 'cuda_tile.loop', "
            "'cuda_tile.if' operations"
        )
    if loop is parents[-1]:
        return None  # the loop's own rule compares the last operation of its body
    return continues_fault(
        loop.mnemonic, [v.type for v in op.operands], loop.types_of("initValues")
    )


def _return_fault(op: control.Return, parents: Sequence[TileOp]) -> str | None:
    function: TileOp | None = None
    for parent in reversed(parents):
        if isinstance(parent, _FUNCTIONS):
            function = parent
            break
        if not isinstance(parent, control.If | control.Loop):
            break
    if function is None or not isinstance(function, _FUNCTIONS):
        return "must be used within a cuda_tile.entry, cuda_tile.if, or cuda_tile.loop operation"
    signature = function.function_type
    assert isinstance(signature, TypeAttr), "the attribute is declared a type"
    assert isinstance(signature.type, FunctionType), "the parser builds a function type"
    wanted = signature.type.outputs
    if len(op.operands) != len(wanted):
        return (
            f"has {len(op.operands)} operands, but enclosing function (@{function.sym_name}) "
            f"returns {len(wanted)}"
        )
    for i, (value, t) in enumerate(zip(op.operands, wanted, strict=True)):
        if value.type != t:
            return (
                f"!type of return operand {i} ('{spelled(value.type)}') doesn't match function "
                f"result type ('{spelled(t)}') in function @{function.sym_name}"
            )
    return None
