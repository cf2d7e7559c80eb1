"""Statements: the evaluator as a whole."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilewright.ir.ops.tile.control import Return
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.frames import Flow
from tilewright.lang.tile.managers import Enter, Exit, Managers
from tilewright.lang.tile.state import emit
from tilewright.lang.tile.values import described

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Global: ("global variables cannot be assigned", "return the value"),
    ast.Nonlocal: ("variables of an outer function cannot be assigned", "return the value"),
    ast.Try: ("exceptions are not supported", ""),
    ast.ClassDef: ("classes are not defined in tile code", "define the dataclass outside"),
    ast.Assert: ("assert is not supported", "use ct.assert_ or ct.static_assert"),
    ast.Delete: ("del is not supported", ""),
    ast.Import: ("import is not supported", "import at the top of the file"),
    ast.ImportFrom: ("import is not supported", "import at the top of the file"),
    ast.Match: ("match is not supported", "use if and elif"),
    ast.AsyncFor: ("async is not supported", ""),
    ast.AsyncWith: ("async is not supported", ""),
    ast.AsyncFunctionDef: ("async is not supported", ""),
}


class Evaluator(Managers):
    """Evaluates the functions of a tile program, emitting Tile IR on the way."""

    def block(self, body: list[ast.stmt], rest: tuple[list[ast.stmt], ...] = ()) -> Flow:
        """Evaluates statements.  `rest` are those that follow the enclosing ones."""
        for i, statement in enumerate(body):
            self.node = statement
            if isinstance(statement, ast.If):
                flow = self._if(statement, (body[i + 1 :], *rest))
            elif isinstance(statement, ast.With):
                flow = self._with(statement, (body[i + 1 :], *rest))
            else:
                handler = _STATEMENTS.get(type(statement))
                if handler is None:
                    word, hint = _REFUSED.get(
                        type(statement), (f"{type(statement).__name__} is not supported", "")
                    )
                    raise self.syntax(statement, f"{word} in tile code", hint)
                flow = handler(self, statement)
            if flow is not Flow.NEXT:
                return flow
        return Flow.NEXT

    def _assign(self, node: ast.Assign) -> Flow:
        value = self.eval(node.value)
        for target in node.targets:
            self.node = target
            self.bind(target, value)
        return Flow.NEXT

    def _annotated(self, node: ast.AnnAssign) -> Flow:
        if node.value is not None:
            value = self.eval(node.value)
            self.node = node.target
            self.bind(node.target, value)
        return Flow.NEXT

    def _augmented(self, node: ast.AugAssign) -> Flow:
        if not isinstance(node.target, ast.Name):
            self.bind(node.target, None)
        assert isinstance(node.target, ast.Name), "bind refuses other targets"
        self.node = node.target
        old = self.load(node.target.id)
        value = self.eval(node.value)
        self.node = node
        self.here.locals[node.target.id] = self.operate(node.op, old, value)
        return Flow.NEXT

    def _expression(self, node: ast.Expr) -> Flow:
        if not isinstance(node.value, ast.Constant):
            self.eval(node.value)
        return Flow.NEXT

    def _return(self, node: ast.Return) -> Flow:
        frame = self.here
        value = None if node.value is None else self.eval(node.value)
        self.node = node
        if frame.loops and frame.loops[-1] is None:
            raise self.syntax(node, "return cannot leave a loop over static_iter(...)")
        if frame.kernel:
            if value is not None:
                raise TileTypeError(f"a kernel returns nothing, got {described(value)}")
            self.leave_managers(0)
            emit(Return)
            return Flow.LEFT
        self.leave_managers(0)
        frame.result = value
        return Flow.RETURNED

    def _leave(self, _: ast.Break) -> Flow:
        self.leave_managers(self._loop("break").managers)
        self._break()
        return Flow.LEFT

    def _again(self, _: ast.Continue) -> Flow:
        self.leave_managers(self._loop("continue").managers)
        self._continue()
        return Flow.LEFT

    def _pass(self, _: ast.Pass) -> Flow:
        return Flow.NEXT

    def _define(self, node: ast.FunctionDef) -> Flow:
        if node.decorator_list:
            raise self.syntax(
                node.decorator_list[0], "a function inside of tile code has no decorators"
            )
        self.here.locals[node.name] = self.closure(node, node.name)
        return Flow.NEXT

    def _raise(self, node: ast.Raise) -> Flow:
        self.static_raise(node)
        return Flow.LEFT

    def run_kernel(self, body: list[ast.stmt]) -> None:
        """Evaluates a kernel's statements and ends its entry."""
        flow = self.block(body)
        if flow is Flow.NEXT:
            emit(Return)
        else:
            self.close_block()


_STATEMENTS: dict[type[ast.AST], Callable[[Any, Any], Flow]] = {
    ast.Assign: Evaluator._assign,
    ast.AnnAssign: Evaluator._annotated,
    ast.AugAssign: Evaluator._augmented,
    ast.Expr: Evaluator._expression,
    ast.For: Evaluator._for,
    ast.While: Evaluator._while,
    ast.Return: Evaluator._return,
    ast.Break: Evaluator._leave,
    ast.Continue: Evaluator._again,
    ast.Pass: Evaluator._pass,
    ast.FunctionDef: Evaluator._define,
    ast.Raise: Evaluator._raise,
    Enter: Evaluator._enter,
    Exit: Evaluator._exit,
}
