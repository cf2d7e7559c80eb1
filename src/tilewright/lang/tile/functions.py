"""The functions of a tile program: their syntax trees, prepared for evaluation.

A `return` inside of a loop is rewritten, since Tile IR leaves loops one at a time::

    while c:                       $returned = False
        ...                        while c:
        return x         --->          ...
                                       $retval = x; $returned = True; break
                                   if $returned:
                                       return $retval
"""

from __future__ import annotations

import ast
import inspect
import linecache
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from tilewright.errors import CaptureError, Loc
from tilewright.lang.liveness import Liveness, assigned
from tilewright.lang.source import function_tree
from tilewright.lang.tile.errors import TileSyntaxError

RETVAL, RETURNED = "$retval", "$returned"
_LOOPS = (ast.For, ast.While)
_JUMPS = (ast.Return, ast.Break, ast.Continue, ast.Raise)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass
class FunctionInfo:
    """A function or lambda as it is evaluated."""

    node: ast.FunctionDef | ast.Lambda
    name: str
    file: str
    line: int
    body: list[ast.stmt]
    local_names: frozenset[str]
    signature: inspect.Signature
    defaults: list[ast.expr] = field(default_factory=list)
    _live: Liveness | None = None

    @property
    def free_names(self) -> frozenset[str]:
        """The names that it reads, or that functions inside of it read, and does not assign."""
        read = {n.id for s in self.body for n in ast.walk(s) if isinstance(n, ast.Name)}
        return frozenset(read) - self.local_names

    @property
    def live(self) -> Liveness:
        """Which names are live where; found when first asked for."""
        if self._live is None:
            self._live = Liveness(self.body)
        return self._live


@dataclass(frozen=True, eq=False)
class Closure:
    """A function defined inside of tile code: what it is, and the frame that it sees."""

    info: FunctionInfo
    frame: Any
    defaults: tuple[Any, ...]

    @property
    def __name__(self) -> str:
        return self.info.name


def _walk_own(nodes: list[ast.stmt]) -> list[ast.AST]:
    """All nodes but those of nested functions."""
    found: list[ast.AST] = []
    todo: list[ast.AST] = list(nodes)
    while todo:
        node = todo.pop()
        found.append(node)
        if not isinstance(node, _SCOPES):
            todo += ast.iter_child_nodes(node)
    return found


def returns_inside(nodes: list[ast.stmt]) -> list[ast.Return]:
    """The `return`s of statements, without those of nested functions."""
    return [n for n in _walk_own(nodes) if isinstance(n, ast.Return)]


def yields_inside(nodes: list[ast.stmt]) -> list[ast.Yield]:
    """The `yield`s of statements, without those of nested functions."""
    return [n for n in _walk_own(nodes) if isinstance(n, ast.Yield)]


def _is_static_loop(node: ast.stmt) -> bool:
    call = node.iter if isinstance(node, ast.For) else None
    if not isinstance(call, ast.Call):
        return False
    name = call.func
    return (isinstance(name, ast.Attribute) and name.attr == "static_iter") or (
        isinstance(name, ast.Name) and name.id == "static_iter"
    )


def _placed(node: ast.stmt, like: ast.AST) -> ast.stmt:
    for inner in ast.walk(node):
        if isinstance(inner, ast.stmt | ast.expr) and not hasattr(inner, "lineno"):
            ast.copy_location(inner, like)
    return node


def _assign(name: str, value: ast.expr, like: ast.AST) -> ast.stmt:
    return _placed(ast.Assign([ast.Name(name, ast.Store())], value), like)


class _ReturnsInLoops(ast.NodeTransformer):
    """Rewrites one function's statements; nested functions are left alone."""

    def __init__(self) -> None:
        self.depth = 0

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, _LOOPS) and returns_inside([statement]):
                out += self._loop(statement)
            elif isinstance(statement, ast.Return) and self.depth:
                out += self._leave(statement)
            else:
                for label in ("body", "orelse"):
                    inner = getattr(statement, label, None)
                    if isinstance(inner, list) and not isinstance(statement, _SCOPES):
                        setattr(statement, label, self.block(inner))
                out.append(statement)
        return out

    def _leave(self, node: ast.Return) -> list[ast.stmt]:
        out = [_assign(RETVAL, node.value, node)] if node.value is not None else []
        out.append(_assign(RETURNED, ast.Constant(True), node))
        return [*out, _placed(ast.Break(), node)]

    def _loop(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.For | ast.While), "only loops are rewritten"
        if _is_static_loop(node):
            return [node]
        with_value = any(isinstance(n, ast.Return) and n.value for n in _walk_own([node]))
        self.depth += 1
        node.body = self.block(node.body)
        self.depth -= 1
        test = ast.Name(RETURNED, ast.Load())
        leave: ast.stmt
        if self.depth:
            leave = ast.Break()
        else:
            leave = ast.Return(ast.Name(RETVAL, ast.Load()) if with_value else None)
        check = _placed(ast.If(test, [leave], []), node)
        before = [] if self.depth else [_assign(RETURNED, ast.Constant(False), node)]
        return [*before, node, check]


def _signature(args: ast.arguments) -> tuple[inspect.Signature, list[ast.expr]]:
    """The parameters; the default of each is its number in the list of default expressions."""
    kinds = inspect.Parameter
    defaults: list[ast.expr] = []
    found: list[inspect.Parameter] = []

    def add(arg: ast.arg, kind: Any, default: ast.expr | None = None) -> None:
        number: Any = kinds.empty
        if default is not None:
            number = len(defaults)
            defaults.append(default)
        found.append(kinds(arg.arg, kind, default=number))

    positional = [*args.posonlyargs, *args.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults))
    for i, (arg, default) in enumerate(zip(positional, [*missing, *args.defaults], strict=True)):
        only = i < len(args.posonlyargs)
        add(arg, kinds.POSITIONAL_ONLY if only else kinds.POSITIONAL_OR_KEYWORD, default)
    if args.vararg:
        add(args.vararg, kinds.VAR_POSITIONAL)
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        add(arg, kinds.KEYWORD_ONLY, default)
    if args.kwarg:
        add(args.kwarg, kinds.VAR_KEYWORD)
    return inspect.Signature(found), defaults


def function_info(node: ast.FunctionDef | ast.Lambda, file: str, name: str) -> FunctionInfo:
    """Prepares a syntax tree for evaluation."""
    signature, defaults = _signature(node.args)
    if isinstance(node, ast.Lambda):
        body: list[ast.stmt] = [_placed(ast.Return(node.body), node.body)]
    else:
        body = list(node.body)
        if any(isinstance(s, _LOOPS) and returns_inside([s]) for s in _statements(body)):
            body = _ReturnsInLoops().block(body)
    names = frozenset(signature.parameters) | assigned(body)
    body = _reached(body)
    return FunctionInfo(node, name, file, node.lineno, body, names, signature, defaults)


def _reached(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements without those that follow a jump; they name variables, and do nothing else."""
    found: list[ast.stmt] = []
    for statement in body:
        found.append(statement)
        if isinstance(statement, _JUMPS):
            break
        for label in ("body", "orelse"):
            inner = getattr(statement, label, None)
            if isinstance(inner, list) and not isinstance(statement, _SCOPES):
                setattr(statement, label, _reached(inner))
    return found


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    return [n for n in _walk_own(body) if isinstance(n, ast.stmt)]


_infos: dict[CodeType, FunctionInfo] = {}


def info_of(fn: FunctionType) -> FunctionInfo:
    """A Python function, read from its source.

    Raises: TileSyntaxError if there is no source.
    """
    code = fn.__code__
    if code not in _infos:
        try:
            node = _lambda_tree(code) if code.co_name == "<lambda>" else function_tree(fn)
        except CaptureError as error:
            raise TileSyntaxError(error.message, error.loc, hint=error.hint) from error
        _infos[code] = function_info(node, code.co_filename, code.co_name)
    return _infos[code]


def _lambda_tree(code: CodeType) -> ast.Lambda:
    """The lambda whose body stands where the code object says."""
    starts = {(line, col) for line, _, col, _ in code.co_positions() if col is not None}
    lines = linecache.getlines(code.co_filename)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError as error:
        raise TileSyntaxError(f"the file of a lambda cannot be read: {error}") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
            here = (node.body.lineno, node.body.col_offset)
            if here in starts and names == list(code.co_varnames[: len(names)]):
                return node
    raise TileSyntaxError(
        "the source of a lambda cannot be found",
        Loc(code.co_filename, code.co_firstlineno),
        hint="write it as a function with def",
    )
