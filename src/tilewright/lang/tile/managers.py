"""`with`: the statements of a context manager before its `yield`, the body, those after it.

FLAT     a `with` is evaluated as the statements `Enter`, its body, `Exit`: what follows a branch
         of the body is then known as everywhere else
LEAVE    `return`, `break` and `continue` run what follows the `yield` of every manager that they
         leave, innermost first; other paths run it again, from the same variables
"""

from __future__ import annotations

import ast
from typing import Any

from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.frames import Flow, Manager
from tilewright.lang.tile.functions import returns_inside, yields_inside
from tilewright.lang.tile.loops import Loops
from tilewright.lang.tile.values import described


class Enter(ast.stmt):
    """The beginning of a `with`: one of its items."""

    def __init__(self, item: ast.withitem) -> None:
        super().__init__()
        self.item = item
        ast.copy_location(self, item.context_expr)


class Exit(ast.stmt):
    """The end of a `with`, of the manager opened last."""

    def __init__(self, like: ast.With) -> None:
        super().__init__()
        ast.copy_location(self, like.items[0].context_expr)


def flat(node: ast.With) -> list[ast.stmt]:
    """Rule FLAT."""
    return [*map(Enter, node.items), *node.body, *(Exit(node) for _ in node.items)]


class Managers(Loops):
    """Evaluates `with`."""

    def _with(self, node: ast.With, rest: tuple[list[ast.stmt], ...]) -> Flow:
        return self.block(flat(node), rest)

    def _enter(self, node: Enter) -> Flow:
        item = node.item
        manager = self.eval(item.context_expr)
        self.node = item.context_expr
        if not isinstance(manager, Manager) or manager.used:
            raise TileTypeError(
                f"with takes a call of a function decorated by contextlib.contextmanager, "
                f"once, got {described(manager)}"
            )
        manager.used = True
        before, what, manager.after = self._split(manager)
        value = self._inside(manager, before, what)
        self.here.managers = (*self.here.managers, manager)
        if item.optional_vars is not None:
            self.bind(item.optional_vars, value)
        return Flow.NEXT

    def _exit(self, _: Exit) -> Flow:
        *kept, manager = self.here.managers
        self._inside(manager, manager.after)
        manager.frame.ended = True
        self.here.managers = tuple(kept)
        return Flow.NEXT

    def leave_managers(self, kept: int) -> None:
        """Rule LEAVE, for all managers of this function but the first `kept`."""
        for manager in reversed(self.here.managers[kept:]):
            frame = manager.frame
            variables, managers = dict(frame.locals), frame.managers
            self._inside(manager, manager.after)
            frame.locals, frame.managers = variables, managers

    def _split(self, manager: Manager) -> tuple[list[ast.stmt], ast.expr | None, list[ast.stmt]]:
        """A generator's statements before its `yield`, what it yields, the statements after."""
        info = manager.frame.info
        assert isinstance(info.node, ast.FunctionDef), "a lambda cannot be decorated"
        found = sorted(yields_inside(info.body), key=lambda node: node.lineno)
        if not found:
            raise TileTypeError(
                f"{info.name} has no yield: a context manager is a generator with one"
            )
        outer, self.frame = self.frame, manager.frame
        if len(found) > 1:
            self.node = found[1]
            line = found[0].lineno
            raise TileTypeError(f"{info.name} has a second yield, the first is in line {line}")
        for node in returns_inside(info.body):
            raise self.syntax(node, "return cannot stand in a context manager")
        before: list[ast.stmt] = []
        after = info.body
        while after:
            statement, after = after[0], after[1:]
            if isinstance(statement, ast.With) and yields_inside(statement.body):
                after = [*flat(statement), *after]
                continue
            value = getattr(statement, "value", None)
            if isinstance(value, ast.Yield) and isinstance(statement, ast.Expr | ast.Assign):
                self.frame = outer
                if isinstance(statement, ast.Assign):
                    none = ast.copy_location(ast.Constant(None), value)
                    sent = ast.Assign(statement.targets, none)
                    after = [ast.copy_location(sent, statement), *after]
                return before, value.value, after
            before.append(statement)
        self.node = found[0]
        raise TileTypeError(
            "the yield of a context manager must stand outside of loops and branches, as a "
            "statement of its own"
        )

    def _inside(
        self, manager: Manager, body: list[ast.stmt], result: ast.expr | None = None
    ) -> Any:
        """Evaluates statements, and then an expression, in a manager's frame."""
        outer, node = self.frame, self.node
        self.frame = manager.frame
        self.block(body)
        value = None if result is None else self.eval(result)
        self.frame, self.node = outer, node
        return value
