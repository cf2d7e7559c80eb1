"""The rules of debug information, cited where they are checked.

RULE 1  a function's scope, if it has one, is a subprogram
RULE 2  whose linkage name is the function's name
RULE 3  in a function without scope no operation has one
RULE 4  an operation's scope lies in its function's subprogram
RULE 5  nothing beside the functions of a module has a scope
"""

from __future__ import annotations

from tilewright.errors import VerifyError
from tilewright.ir.core import Op
from tilewright.ir.ops.tile.base import TileOp
from tilewright.ir.ops.tile.module import Entry, Module, TestingFunc
from tilewright.ir.tile_debug import DILexicalBlock, DISubprogram, Scope, scopes, subprogram
from tilewright.ir.tile_types import DIALECT
from tilewright.tileir.foreign import shown_name

_FUNCTION = "invalid function debug info scope"
_OPERATION = "invalid operation debug info scope"


def verify_debug(module: Module) -> None:
    """Checks the debug information of everything in a module; raises VerifyError."""
    for op in module.body.ops:
        if isinstance(op, Entry | TestingFunc):
            _verify_function(op)
        elif isinstance(op, TileOp):
            for place in scopes(op.location):  # RULE 5
                raise _error(op, _OPERATION, place.scope, "Global variables must not have scope")


def _shown(scope: Scope) -> str:
    if isinstance(scope, DILexicalBlock):
        inside = subprogram(scope).name
        return (
            f"#{DIALECT}.di_lexical_block at line {scope.line}, column {scope.column} of {inside}"
        )
    return f'#{DIALECT}.di_subprogram "{scope.name}", linkage name "{scope.linkage}"'


def _error(op: Op, what: str, scope: Scope, why: str) -> VerifyError:
    return VerifyError(f"'{shown_name(op)}' op {what}: {why}: {_shown(scope)}", loc=op.loc)


def _verify_function(function: Entry | TestingFunc) -> None:
    own: DISubprogram | None = None
    for place in scopes(function.location):
        scope = place.scope
        if not isinstance(scope, DISubprogram):  # RULE 1
            why = f"Function location must have {DIALECT}.di_subprogram debug info scope"
            raise _error(function, _FUNCTION, scope, why)
        if scope.linkage != function.sym_name:  # RULE 2
            why = (
                f'Function name "{function.sym_name}" does not match subprogram scope linkage '
                f'name "{scope.linkage}"'
            )
            raise _error(function, _FUNCTION, scope, why)
        own = scope
    for op in function.body.walk():
        if not isinstance(op, TileOp):
            continue
        for place in scopes(op.location):
            if own is None:  # RULE 3
                why = "Operation has debug info scope, but function debug info scope is undefined"
                raise _error(op, _OPERATION, place.scope, why)
            if subprogram(place.scope) != own:  # RULE 4
                why = "Operation debug info scope does not match function debug info scope"
                raise _error(op, _OPERATION, place.scope, why)
