"""Statements: the evaluator as a whole."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilewright.ir.ops.tile.control import Return
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.frames import Flow, Frame, Manager
from tilewright.lang.tile.functions import leaves_block
from tilewright.lang.tile.loops import Loops
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


class Evaluator(Loops):
    """Evaluates the functions of a tile program, emitting Tile IR on the way."""

    def block(self, body: list[ast.stmt], rest: tuple[list[ast.stmt], ...] = ()) -> Flow:
        """Evaluates statements.  `rest` are those that follow the enclosing ones."""
        for i, statement in enumerate(body):
            self.node = statement
            if isinstance(statement, ast.If):
                flow = self._if(statement, (body[i + 1 :], *rest))
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
            emit(Return)
            return Flow.LEFT
        frame.result = value
        return Flow.RETURNED

    def _leave(self, _: ast.Break) -> Flow:
        self._break()
        return Flow.LEFT

    def _again(self, _: ast.Continue) -> Flow:
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

    def _with(self, node: ast.With) -> Flow:
        """`with`: the generator's statements up to its `yield`, the body, the rest of them."""
        if leaves_block(node.body):
            raise self.syntax(node, "return, break and continue cannot leave a with statement")
        opened: list[tuple[Frame, list[ast.stmt]]] = []
        for item in node.items:
            manager = self.eval(item.context_expr)
            self.node = item.context_expr
            if not isinstance(manager, Manager) or manager.used:
                raise TileTypeError(
                    f"with takes a call of a function decorated by contextlib.contextmanager, "
                    f"once, got {described(manager)}"
                )
            manager.used = True
            before, what, after = self._split(manager.frame)
            value = self._inside(manager.frame, before, what)
            opened.append((manager.frame, after))
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value)
        flow = self.block(node.body)
        for frame, after in reversed(opened):
            self._inside(frame, after, None)
        return flow

    def _split(self, frame: Frame) -> tuple[list[ast.stmt], ast.expr | None, list[ast.stmt]]:
        """A generator's statements before its `yield`, what it yields, the statements after."""
        body = frame.info.body
        found = [
            i
            for i, s in enumerate(body)
            if isinstance(s, ast.Expr) and isinstance(s.value, ast.Yield)
        ]
        count = sum(isinstance(n, ast.Yield) for s in body for n in ast.walk(s))
        if len(found) != 1 or count != 1:
            raise self.syntax(
                frame.info.node,
                f"{frame.info.name} must have one yield, as a statement of its own",
            )
        (at,) = found
        statement = body[at]
        assert isinstance(statement, ast.Expr), "found above"
        assert isinstance(statement.value, ast.Yield), "found above"
        return body[:at], statement.value.value, body[at + 1 :]

    def _inside(self, frame: Frame, body: list[ast.stmt], result: ast.expr | None) -> Any:
        """Evaluates statements, and then an expression, in another frame."""
        outer, node = self.frame, self.node
        self.frame = frame
        self.block(body)
        value = None if result is None else self.eval(result)
        self.frame, self.node = outer, node
        return value

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
    ast.With: Evaluator._with,
}
