"""Compile-time evaluation in the evaluator: `static_eval` and its relatives, unpacking."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from tilewright.lang.tile import elementary, static
from tilewright.lang.tile.carried import is_dataclass_value
from tilewright.lang.tile.errors import (
    StaticException,
    TileError,
    TileStaticAssertionError,
    TileStaticEvalError,
    TileTypeError,
    TileValueError,
)
from tilewright.lang.tile.expressions import Expressions
from tilewright.lang.tile.frames import Frame
from tilewright.lang.tile.strings import method_of
from tilewright.lang.tile.symbols import static_call, unwrapped, viewed
from tilewright.lang.tile.values import Array, constant_of, described

MAX_STATIC_ITEMS = 1000
"""The most items of a `static_iter`."""


class CompileTime(Expressions):
    """Evaluates in Python itself."""

    def python(self, node: ast.expr, what: str) -> Any:
        """The value of an expression in Python itself.

        Raises: StaticException if Python raises.
        """
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        inner = {
            n.id
            for c in ast.walk(node)
            if isinstance(c, ast.comprehension)
            for n in ast.walk(c.target)
            if isinstance(n, ast.Name)
        }
        inner |= {a.arg for f in ast.walk(node) if isinstance(f, ast.Lambda) for a in f.args.args}
        table = {name: viewed(self.load(name)) for name in names - inner if self._is_local(name)}
        scope = {**vars(builtins), **self._globals(), **table}
        tree = ast.fix_missing_locations(ast.Expression(node))
        self.node = node
        outer, self.trace.static = self.trace.static, static_call
        try:
            return eval(compile(tree, self.here.info.file, "eval"), scope)
        except TileError:
            raise
        except Exception as error:
            kind = type(error).__name__
            raise StaticException(f"{what}: {kind}: {error}") from error
        finally:
            self.trace.static = outer

    def _globals(self) -> dict[str, Any]:
        frame: Frame | None = self.here
        while frame is not None and frame.parent is not None:
            frame = frame.parent
        return {} if frame is None else frame.globals

    def _is_local(self, name: str) -> bool:
        frame: Frame | None = self.here
        while frame is not None:
            if name in frame.info.local_names or name in frame.cells:
                return True
            frame = frame.parent
        return False

    def _static_eval(self, node: ast.Call) -> Any:
        if len(node.args) != 1 or node.keywords:
            raise self.syntax(node, "static_eval() takes one expression")
        return self.admit(unwrapped(self.python(node.args[0], "static_eval()")), "static_eval()")

    def _static_assert(self, node: ast.Call) -> None:
        if not 1 <= len(node.args) <= 2 or node.keywords:
            raise self.syntax(node, "static_assert() takes a condition and a message")
        condition = self._condition(node.args[0])
        self.node = node
        if not isinstance(condition, bool):
            raise TileTypeError("static_assert(): the condition is a constant bool")
        if not condition:
            message = self.eval(node.args[1]) if len(node.args) == 2 else None
            self.node = node
            raise TileStaticAssertionError("" if message is None else str(message))

    def _condition(self, node: ast.expr) -> Any:
        """A condition by Python itself, or else as tile code, which knows its own functions."""
        try:
            found = self.python(node, "static_assert()")
        except TileError:
            found = None
        return found if isinstance(found, bool) else constant_of(self.eval(node))

    def static_items(self, node: ast.Call) -> list[Any]:
        """The items of a `static_iter`."""
        if len(node.args) != 1 or node.keywords:
            raise self.syntax(node, "static_iter() takes one expression")
        iterable = self.python(node.args[0], "static_iter()")
        try:
            items = iter(iterable)
        except TypeError as error:
            raise TileTypeError(f"static_iter(): {error}") from error
        found: list[Any] = []
        for item in items:
            if len(found) == MAX_STATIC_ITEMS:
                raise TileStaticEvalError(f"static_iter(): more than {MAX_STATIC_ITEMS} items")
            found.append(unwrapped(item))
        return [self.admit(item, "static_iter()") for item in found]

    def is_static_iter(self, node: ast.expr) -> bool:
        """Whether an expression is a call of `static_iter`."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            return False
        return self.eval(node.func) is static.static_iter

    def static_raise(self, node: ast.Raise) -> None:
        """`raise static_exception(...)`: an error at compile time."""
        call = node.exc
        marked = isinstance(call, ast.Call) and self.eval(call.func) is static.static_exception
        if not marked or node.cause is not None:
            raise self.syntax(
                node,
                "exceptions are not supported in tile code",
                hint="raise ct.static_exception(...) stops compilation",
            )
        assert isinstance(call, ast.Call), "checked above"
        if len(call.args) != 1 or call.keywords:
            raise self.syntax(call, "static_exception() takes one exception")
        found = self.python(call.args[0], "static_exception()")
        if isinstance(found, type) and issubclass(found, BaseException):
            found = found()
        if not isinstance(found, BaseException):
            raise TileTypeError(f"static_exception() takes an exception, got {found!r}")
        self.node = node
        raise StaticException(f"raised at compile time: {type(found).__name__}: {found}") from found

    def _comprehension(self, node: ast.GeneratorExp) -> tuple[Any, ...]:
        """`tuple(... for x in static_iter(...) if ...)`."""
        found: list[Any] = []
        saved = dict(self.here.locals)
        names = self.here.info.local_names

        def level(i: int) -> None:
            if i == len(node.generators):
                found.append(self.eval(node.elt))
                return
            part = node.generators[i]
            if not self.is_static_iter(part.iter):
                raise self.syntax(
                    part.iter, "a comprehension of tile code iterates over static_iter(...)"
                )
            assert isinstance(part.iter, ast.Call), "checked above"
            for item in self.static_items(part.iter):
                self.bind(part.target, item)
                tests = [elementary.truth(self.eval(test), "if") for test in part.ifs]
                if not all(isinstance(t, bool) for t in tests):
                    raise TileTypeError("the condition of a comprehension is constant")
                if all(tests):
                    level(i + 1)

        targets = {
            n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)
        }
        self.here.info.local_names = names | targets
        try:
            level(0)
        finally:
            self.here.info.local_names = names
            self.here.locals = saved
        return tuple(found)

    def bind(self, target: ast.expr, value: Any) -> None:
        """Assigns to a name, or to the names of a tuple."""
        if isinstance(target, ast.Name):
            self.here.locals[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            if not isinstance(value, tuple):
                raise TileTypeError(f"expected a tuple to unpack, got {described(value)}")
            if any(isinstance(e, ast.Starred) for e in target.elts):
                raise self.syntax(target, "* is not supported on the left of an assignment")
            if len(value) != len(target.elts):
                raise TileValueError(
                    f"expected {len(target.elts)} values to unpack, got {len(value)}"
                )
            for element, item in zip(target.elts, value, strict=True):
                self.bind(element, item)
        else:
            self._set_item(target, value)

    def _set_item(self, target: ast.expr, value: Any) -> None:
        """`owner[item] = value`, of a dataclass that says what it means.

        Raises: TileTypeError for another owner, TileSyntaxError for anything but an item.
        """
        if not isinstance(target, ast.Subscript):
            word = "attributes cannot" if isinstance(target, ast.Attribute) else "this cannot"
            raise self.syntax(target, f"{word} be assigned in tile code")
        owner = self.eval(target.value)
        self.node = target
        if is_dataclass_value(owner) and (found := method_of(type(owner), "__setitem__")):
            self.call(found, [owner, self.eval(target.slice), value], {})
            return
        hint = "use ct.store or ct.scatter" if isinstance(owner, Array) else ""
        raise TileTypeError(f"items of {described(owner)} cannot be assigned", hint=hint)
