"""Rewrites a Python function so that running it traces its control flow.

The function keeps its shape, its names and its source positions; nothing is moved into nested
functions.  A branch, for instance, becomes ::

    _tw_1 = __tw__.if_(condition, 1)
    if _tw_1.then():
        x, y = _tw_1.begin((x, y), (roots,))
        ...
        x, y = _tw_1.end((x, y))
    if _tw_1.orelse():
        ...
        x, y = _tw_1.end((x, y))
    x, y = _tw_1.results((x, y))

where `__tw__` is a `control.Runtime`.  For a condition known at compile time one arm runs and the
other calls hand back what they are given.  `liveness` says which names are handed on; the roots
are what else the statement reads, whose attributes it might change.
"""

from __future__ import annotations
import __future__

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, cast

from tilewright.lang.expressions import ExpressionRewriter
from tilewright.lang.liveness import Liveness, assigned
from tilewright.lang.nodes import (
    RUNTIME,
    assign,
    at,
    attribute,
    call,
    last_line,
    name_node,
    name_tuple,
)
from tilewright.lang.regions import Site
from tilewright.lang.source import function_tree

_FUTURE = 0
for _feature in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _feature).compiler_flag
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


@dataclass(frozen=True)
class Rewritten:
    """New code for a function; its free variables are the old ones and `RUNTIME`."""

    code: CodeType
    sites: tuple[Site, ...]


def rewrite(fn: FunctionType) -> Rewritten:
    """The code of `fn` with its control flow made traceable.

    Raises: CaptureError where the function uses what cannot be captured, or has no source.
    """
    node = function_tree(fn)
    rewriter = _Rewriter(fn, node)
    rewriter.run()
    return Rewritten(_compile(fn, node), tuple(rewriter.sites))


def _compile(fn: FunctionType, node: ast.FunctionDef) -> CodeType:
    """Compiles the definition as a closure over the names that `fn` closes over."""
    old = fn.__code__
    inner: ast.stmt = node
    owner = fn.__qualname__.split(".")[-2:-1]
    if owner and owner[0] != "<locals>":  # In a class, for the mangling of private names.
        inner = ast.ClassDef(owner[0], [], [], [node], [])
    outer = ast.parse(f"def _tw_outer({', '.join({RUNTIME, *old.co_freevars})}): pass")
    cast(ast.FunctionDef, outer.body[0]).body = [inner]
    if isinstance(inner, ast.ClassDef):
        inner.type_params = []  # type: ignore[attr-defined,unused-ignore]
    ast.copy_location(inner, node)
    ast.fix_missing_locations(outer)
    flags = old.co_flags & _FUTURE
    code: CodeType = compile(outer, old.co_filename, "exec", flags=flags, dont_inherit=True)
    for name in ("_tw_outer", *([owner[0]] if inner is not node else []), node.name):
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return code.replace(co_qualname=old.co_qualname)


class _Rewriter(ExpressionRewriter):
    """The statement visitors; each gives the statements that take its place."""

    def __init__(self, fn: FunctionType, node: ast.FunctionDef) -> None:
        super().__init__(fn, node)
        self.sites: list[Site] = []
        self.live = Liveness(node.body)
        self.open: list[tuple[str, bool]] = []
        """The handles of the enclosing statements, and whether each is a loop."""
        self.count = 0

    def run(self) -> None:
        node = self.node
        node.decorator_list, node.returns = [], None
        node.args.defaults = []
        node.args.kw_defaults = [None for _ in node.args.kwonlyargs]
        for a in ast.walk(node.args):
            if isinstance(a, ast.arg):
                a.annotation = None
        body = self.block(node.body)
        names = sorted(self.handed - self.params)
        prologue = [
            at(ast.Assign([name_node(n, ast.Store())], attribute(RUNTIME, "UNDEF")), node.body[0])
            for n in names
        ]
        node.body = [*cast(list[ast.stmt], prologue), *body]

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            made += new if isinstance(new, list) else [new]
            if isinstance(
                statement,
                ast.Assign
                | ast.AnnAssign
                | ast.AugAssign
                | ast.Import
                | ast.ImportFrom
                | ast.FunctionDef
                | ast.ClassDef
                | ast.Expr,
            ):
                self.defined |= assigned([statement])
        return made

    def _site(self, names: Sequence[str], carried: int, lines: Any) -> int:
        self.sites.append(Site(tuple(names), carried, lines))
        self.handed |= set(names)
        return len(self.sites) - 1

    def _handle(self) -> str:
        self.count += 1
        return f"_tw_{self.count}"

    def _pass(self, handle: str, method: str, names: Sequence[str], *more: ast.expr) -> ast.stmt:
        """``names = handle.method(names, ...)``"""
        made = call(attribute(handle, method), name_tuple(names, ast.Load()), *more)
        if not names:
            return ast.Expr(made)
        return ast.Assign([name_tuple(names, ast.Store())], made)

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        carried = sorted(self.live.carried(node))
        names = [*carried, *sorted(self.live.restored(node))]
        lines = {n: (last_line(n, node.body), last_line(n, node.orelse)) for n in names}
        site = self._site(names, len(carried), lines)
        roots = self._roots(node, names)
        handle = self._handle()
        test = self.visit(node.test)
        before = set(self.defined)
        self.open.append((handle, False))
        then = self.block(node.body)
        after_then = None if isinstance(node.body[-1], _ENDS) else self.defined
        self.defined = set(before)
        orelse = self.block(node.orelse)
        after_else = None if node.orelse and isinstance(node.orelse[-1], _ENDS) else self.defined
        self.open.pop()
        if after_then is None or after_else is None:
            self.defined = after_then or after_else or before
        else:
            self.defined = after_then & after_else
        finish = self._pass(handle, "end", names)
        made: list[ast.stmt] = [
            assign(handle, call(attribute(RUNTIME, "if_"), test, ast.Constant(site)), node.test),
            ast.If(
                call(attribute(handle, "then")),
                [self._pass(handle, "begin", names, name_tuple(roots, ast.Load())), *then, finish],
                [],
            ),
        ]
        if node.orelse:
            last = self._pass(handle, "end", names)
            made.append(ast.If(call(attribute(handle, "orelse")), [*orelse, last], []))
        made.append(self._pass(handle, "results", names))
        return [at(s, node.test) for s in made]

    def _loop_site(self, node: ast.For | ast.While) -> tuple[list[str], int, ast.expr]:
        names = sorted(self.live.carried(node))
        site = self._site(names, len(names), {n: (0, last_line(n, node.body)) for n in names})
        return names, site, name_tuple(self._roots(node, names), ast.Load())

    def _loop_body(
        self,
        handle: str,
        body: Sequence[ast.stmt],
        defines: ast.expr | None,
    ) -> list[ast.stmt]:
        before = set(self.defined)
        if defines is not None:
            self.defined |= assigned([defines])
        self.open.append((handle, True))
        made = self.block(body)
        self.open.pop()
        self.defined = before
        return made

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        names, site, roots = self._loop_site(node)
        handle = self._handle()
        items = self._iterable(node.iter)
        item: ast.expr = call(attribute(handle, "item"))
        if isinstance(node.target, ast.Name):
            item = call(attribute(RUNTIME, "named"), ast.Constant(node.target.id), item)
        body = self._loop_body(handle, node.body, node.target)
        loop = ast.While(
            call(attribute(handle, "again")),
            [
                self._pass(handle, "begin", names, roots),
                at(ast.Assign([node.target], item), node.target),
                *body,
                self._pass(handle, "end", names),
            ],
            [self._pass(handle, "results", names), *self.block(node.orelse)],
        )
        start = call(attribute(RUNTIME, "for_"), items, ast.Constant(site))
        return [assign(handle, start, node.iter), at(loop, node.iter)]

    def _iterable(self, node: ast.expr) -> ast.expr:
        if not isinstance(node, ast.Call):
            return cast(ast.expr, self.visit(node))
        return self._rewritten_call(node, "iter_fn")

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        names, site, roots = self._loop_site(node)
        handle = self._handle()
        test = self.visit(node.test)
        body = self._loop_body(handle, node.body, None)
        inner: list[ast.stmt] = [
            self._pass(handle, "body", names),
            *body,
            self._pass(handle, "end", names),
        ]
        loop = ast.While(
            call(attribute(handle, "again")),
            [
                self._pass(handle, "begin", names, roots),
                ast.If(at(call(attribute(handle, "test"), test), node.test), inner, []),
            ],
            [self._pass(handle, "results", names), *self.block(node.orelse)],
        )
        start = call(attribute(RUNTIME, "while_"), ast.Constant(site))
        return [assign(handle, start, node.test), at(loop, node.test)]

    def _leave(self, word: str, node: ast.stmt, handles: Sequence[str]) -> list[ast.stmt]:
        new = self.generic_visit(node)
        if not handles:
            return [cast(ast.stmt, new)]
        check = call(
            attribute(RUNTIME, "leave"), ast.Constant(word), name_tuple(handles, ast.Load())
        )
        return [at(ast.Expr(check), node), cast(ast.stmt, new)]

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        return self._leave("return", node, [h for h, _ in self.open])

    def _leave_loop(self, word: str, node: ast.stmt) -> list[ast.stmt]:
        innermost = max(i for i, (_, is_loop) in enumerate(self.open) if is_loop)
        return self._leave(word, node, [h for h, _ in self.open[innermost:]])

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        return self._leave_loop("break", node)

    def visit_Continue(self, node: ast.Continue) -> list[ast.stmt]:
        return self._leave_loop("continue", node)

    def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        return self._leave("raise", node, [h for h, _ in self.open])

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        test = self.visit(node.test)
        message = self.visit(node.msg) if node.msg else ast.Constant("")
        begin = call(attribute(RUNTIME, "assert_begin"), test, ast.Constant(ast.unparse(node.test)))
        end = call(attribute(RUNTIME, "assert_end"), message)
        return at(ast.If(at(begin, node.test), [ast.Expr(at(end, node.test))], []), node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        value = self.visit(node.value)
        targets = [self.visit(t) for t in node.targets]
        if len(targets) == 1 and isinstance(targets[0], ast.Name):
            value = at(
                call(attribute(RUNTIME, "named"), ast.Constant(targets[0].id), value), node.value
            )
        return at(ast.Assign(targets, value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        new = cast(ast.stmt, self.generic_visit(node))
        target = node.target
        if isinstance(target, ast.Name) and self._is_doubtful(target.id):
            read = self._use(at(name_node(target.id), target))
            return [at(ast.Expr(read), target), new]
        return [new]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        node.target = self.visit(node.target)
        node.value = self.visit(node.value) if node.value else None
        node.annotation = at(ast.Constant(None), node)
        return node

    def visit_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.handed.add(target.id)
                self.defined.discard(target.id)
                made.append(
                    at(
                        ast.Assign(
                            [name_node(target.id, ast.Store())], attribute(RUNTIME, "UNDEF")
                        ),
                        node,
                    )
                )
            else:
                made.append(at(ast.Delete([self.visit(target)]), node))
        return made

    def visit_With(self, node: ast.With) -> ast.stmt:
        for item in node.items:
            item.context_expr = self.visit(item.context_expr)
            if item.optional_vars is not None:
                self.defined |= assigned([item.optional_vars])
        node.body = self.block(node.body)
        return node

    def visit_Try(self, node: ast.Try) -> list[ast.stmt]:
        mark = self._handle()
        before = set(self.defined)
        node.body = self.block(node.body)
        after_body = self.defined
        for handler in node.handlers:
            self.defined = set(before) | ({handler.name} if handler.name else set())
            unwind = at(ast.Expr(call(attribute(RUNTIME, "unwind"), name_node(mark))), handler)
            handler.body = [cast(ast.stmt, unwind), *self.block(handler.body)]
        self.defined = set(after_body)
        node.orelse = self.block(node.orelse)
        self.defined = set(before)
        node.finalbody = self.block(node.finalbody)
        return [at(assign(mark, call(attribute(RUNTIME, "mark")), node), node), node]

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        node.subject = self.visit(node.subject)
        before = set(self.defined)
        for case in node.cases:
            self.defined = before | assigned([case.pattern])
            case.guard = self.visit(case.guard) if case.guard else None
            case.body = self.block(case.body)
        self.defined = before
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Nonlocal) and self.locals & set(inner.names):
                self._refuse_scope(inner)
        return node  # Rewritten by itself when it is called.

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node
