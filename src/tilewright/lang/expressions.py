"""Rewrites the expressions of a captured function: calls, conditions, and reads of names."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FunctionType
from typing import Any, NoReturn, cast

from tilewright.errors import CaptureError, Loc
from tilewright.lang.carried import cell_contents, may_reach_objects
from tilewright.lang.liveness import assigned, reads
from tilewright.lang.nodes import RUNTIME, at, attribute, call, choice_result, name_tuple


class ExpressionRewriter(ast.NodeTransformer):
    """What is known about the function at the current statement, and the expression visitors."""

    def __init__(self, fn: FunctionType, node: ast.FunctionDef) -> None:
        self.fn = fn
        self.node = node
        self.params = {
            a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        } | {a.arg for a in (node.args.vararg, node.args.kwarg) if a}
        self.locals = assigned(node.body) | self.params
        self.defined: set[str] = set(self.params)
        """The names that have a value here on every path."""
        self.handed: set[str] = set()
        """The names that must exist from the start, if only as UNDEF."""
        self.inner = 0
        """How many comprehensions and lambdas enclose this: they have no statements."""
        # Only what statements hand on can come to be undefined where it is read.
        self.maybe = self.locals - self.params
        self.outside = self._outside_roots()

    def _outside_roots(self) -> set[str]:
        """The closure and global variables by which a statement might reach and change objects."""
        cells = zip(self.fn.__code__.co_freevars, self.fn.__closure__ or (), strict=True)
        held = {name: cell_contents(cell) for name, cell in cells if name != "__class__"}
        for name in reads(self.node) - self.locals - held.keys():
            held[name] = self.fn.__globals__.get(name)
        return {name for name, x in held.items() if x is not None and may_reach_objects(x)}

    def _roots(self, node: ast.AST, names: Sequence[str]) -> list[str]:
        read = reads(node)
        roots = (read & (self.locals | self.outside)) - set(names)
        self.handed |= roots & self.locals
        return sorted(roots)

    def _operand(self, node: ast.expr) -> ast.expr:
        """An operand that is evaluated only on some condition."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                self._refuse(
                    inner,
                    "`:=` in an operand that may not be evaluated",
                    "assign before the expression",
                )
        return cast(ast.expr, self.visit(node))

    def _roots_of(self, *nodes: ast.expr) -> ast.expr:
        """What calls inside operands might change."""
        calls = any(isinstance(n, ast.Call) for node in nodes for n in ast.walk(node))
        roots: set[str] = set()
        if calls and not self.inner:
            for node in nodes:
                roots |= set(self._roots(node, ()))
        return name_tuple(sorted(roots), ast.Load())

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        word = "and" if isinstance(node.op, ast.And) else "or"
        first, *others = node.values
        rest = others[0] if len(others) == 1 else at(ast.BoolOp(node.op, others), node)
        if len(others) > 1:
            rest.col_offset, rest.lineno = others[0].col_offset, others[0].lineno
        roots = self._roots_of(rest)
        begin = call(attribute(RUNTIME, f"{word}_begin"), self.visit(first), roots)
        end = call(attribute(RUNTIME, "choice_end"), self._operand(rest))
        return at(ast.IfExp(at(begin, node), at(end, node), choice_result(node)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1:
            left, right = self.visit(node.left), self.visit(node.comparators[0])
            return self._compared(node, left, node.ops[0], right)
        # a < b < c: b is kept by `link`, and read back by `linked`.
        middle = call(attribute(RUNTIME, "link"), self.visit(node.comparators[0]))
        first = self._compared(node, self.visit(node.left), node.ops[0], at(middle, node))
        linked = at(call(attribute(RUNTIME, "linked")), node.comparators[0])
        rest = at(ast.Compare(linked, node.ops[1:], node.comparators[1:]), node)
        roots = self._roots_of(*node.comparators[1:])
        begin = call(attribute(RUNTIME, "chain_begin"), first, roots)
        end = call(attribute(RUNTIME, "choice_end"), self._operand(rest))
        return at(ast.IfExp(at(begin, node), at(end, node), choice_result(node)), node)

    def _compared(self, node: ast.Compare, a: ast.expr, op: ast.cmpop, b: ast.expr) -> ast.expr:
        if isinstance(op, ast.In | ast.NotIn):
            inside = at(call(attribute(RUNTIME, "contains"), a, b), node)
            return inside if isinstance(op, ast.In) else self._not(inside, node)
        return cast(ast.expr, at(ast.Compare(a, [op], [b]), node))

    def _not(self, operand: ast.expr, node: ast.expr) -> ast.expr:
        return at(call(attribute(RUNTIME, "not_"), operand), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return self._not(operand, node)
        return at(ast.UnaryOp(node.op, operand), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        roots = self._roots_of(node.body, node.orelse)
        begin = call(attribute(RUNTIME, "ifexp_begin"), self.visit(node.test), roots)
        then = call(attribute(RUNTIME, "ifexp_then"), self._operand(node.body))
        more = call(attribute(RUNTIME, "ifexp_more"))
        orelse = call(attribute(RUNTIME, "ifexp_else"), self._operand(node.orelse))
        nothing = ast.Constant(None)
        made = call(
            attribute(RUNTIME, "ifexp_end"),
            ast.IfExp(at(begin, node.test), then, nothing),
            ast.IfExp(more, orelse, nothing),
        )
        return at(made, node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return self._rewritten_call(node, "fn")

    def _rewritten_call(self, node: ast.Call, method: str) -> ast.expr:
        args = [self.visit(a) for a in node.args]
        keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        fn = at(call(attribute(RUNTIME, method), self.visit(node.func)), node.func)
        return at(ast.Call(fn, args, keywords), node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and self._is_doubtful(node.id):
            return self._use(node)
        return node

    def _is_doubtful(self, name: str) -> bool:
        return name in self.maybe and name not in self.defined

    def _use(self, node: ast.Name) -> ast.expr:
        self.handed.add(node.id)
        return at(call(attribute(RUNTIME, "use"), node, ast.Constant(node.id)), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        saved, self.maybe = self.maybe, frozenset()
        self.inner += 1
        node.body = self.visit(node.body)
        self.inner -= 1
        self.maybe = saved
        return node

    def _comprehension(self, node: Any) -> ast.expr:
        """Its own variables are no locals of the function; it runs while tracing."""
        own = assigned([g.target for g in node.generators])
        saved, self.maybe = self.maybe, self.maybe - own
        self.inner += 1
        new = self.generic_visit(node)
        self.inner -= 1
        self.maybe = saved
        return cast(ast.expr, new)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    # What is refused.

    def _refuse(self, node: ast.expr | ast.stmt, what: str, hint: str = "") -> NoReturn:
        raise CaptureError(
            f"{what} cannot be captured",
            loc=Loc(
                self.fn.__code__.co_filename,
                node.lineno,
                node.col_offset,
                (node.end_col_offset or 0) if node.end_lineno == node.lineno else 0,
                self.fn.__name__,
            ),
            hint=hint,
        )

    def _refuse_scope(self, node: ast.Global | ast.Nonlocal) -> NoReturn:
        word = "global" if isinstance(node, ast.Global) else "nonlocal"
        self._refuse(
            node,
            f"`{word} {', '.join(node.names)}`",
            "return the new value, or keep it in an attribute of an object",
        )

    def visit_Global(self, node: ast.Global) -> NoReturn:
        self._refuse_scope(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> NoReturn:
        self._refuse_scope(node)

    def _generator(self, node: Any) -> NoReturn:
        self._refuse(node, "a generator (`yield`)", "build a list, or call a function")

    visit_Yield = visit_YieldFrom = _generator

    def _asynchronous(self, node: Any) -> NoReturn:
        self._refuse(node, "asynchronous code")

    visit_Await = visit_AsyncFor = visit_AsyncWith = visit_AsyncFunctionDef = _asynchronous
