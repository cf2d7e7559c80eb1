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
from typing import Any, NoReturn, cast

from tilewright.errors import CaptureError, Loc
from tilewright.lang.liveness import Liveness, assigned, reads
from tilewright.lang.protocol import is_opaque
from tilewright.lang.regions import Site
from tilewright.lang.source import function_tree

RUNTIME = "__tw__"
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
    module = compile(outer, old.co_filename, "exec", flags=flags, dont_inherit=True)
    code = module
    for name in ("_tw_outer", *([owner[0]] if inner is not node else []), node.name):
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return code.replace(co_qualname=old.co_qualname)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, fn: FunctionType, node: ast.FunctionDef) -> None:
        self.fn = fn
        self.node = node
        self.sites: list[Site] = []
        self.live = Liveness(node.body)
        self.params = {
            a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        } | {a.arg for a in (node.args.vararg, node.args.kwarg) if a}
        self.locals = assigned(node.body) | self.params
        self.defined: set[str] = set(self.params)
        self.open: list[tuple[str, bool]] = []
        """The handles of the enclosing statements, and whether each is a loop."""
        self.handed: set[str] = set()
        self.inner = 0
        """How many comprehensions and lambdas enclose this: they have no statements."""
        # Only what statements hand on can come to be undefined where it is read.
        self.maybe = self.locals - self.params
        self.count = 0
        self.outside = self._outside_roots()

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
            _at(ast.Assign([_name(n, ast.Store())], _attr(RUNTIME, "UNDEF")), node.body[0])
            for n in names
        ]
        node.body = [*cast(list[ast.stmt], prologue), *body]

    def _outside_roots(self) -> set[str]:
        """The closure and global variables that hold objects a statement might change."""
        found = set()
        cells = zip(self.fn.__code__.co_freevars, self.fn.__closure__ or (), strict=True)
        for name, cell in cells:
            if name != "__class__" and _is_filled(cell) and not is_opaque(cell.cell_contents):
                found.add(name)
        for name in reads(self.node) - self.locals:
            held = self.fn.__globals__.get(name)
            if held is not None and not is_opaque(held):
                found.add(name)
        return found

    # Statements.

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

    def _roots(self, node: ast.AST, names: Sequence[str]) -> list[str]:
        read = reads(node)
        roots = (read & (self.locals | self.outside)) - set(names)
        self.handed |= roots & self.locals
        return sorted(roots)

    def _handle(self) -> str:
        self.count += 1
        return f"_tw_{self.count}"

    def _pass(self, handle: str, method: str, names: Sequence[str], *more: ast.expr) -> ast.stmt:
        """``names = handle.method(names, ...)``"""
        call = _call(_attr(handle, method), _tuple(names, ast.Load()), *more)
        if not names:
            return ast.Expr(call)
        return ast.Assign([_tuple(names, ast.Store())], call)

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        carried = sorted(self.live.carried(node))
        names = [*carried, *sorted(self.live.restored(node))]
        lines = {n: (_last_line(n, node.body), _last_line(n, node.orelse)) for n in names}
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
            _assign(handle, _call(_attr(RUNTIME, "if_"), test, ast.Constant(site)), node.test),
            ast.If(
                _call(_attr(handle, "then")),
                [self._pass(handle, "begin", names, _tuple(roots, ast.Load())), *then, finish],
                [],
            ),
        ]
        if node.orelse:
            last = self._pass(handle, "end", names)
            made.append(ast.If(_call(_attr(handle, "orelse")), [*orelse, last], []))
        made.append(self._pass(handle, "results", names))
        return [_at(s, node.test) for s in made]

    def _loop_site(self, node: ast.For | ast.While) -> tuple[list[str], int, ast.expr]:
        names = sorted(self.live.carried(node))
        site = self._site(names, len(names), {n: (0, _last_line(n, node.body)) for n in names})
        return names, site, _tuple(self._roots(node, names), ast.Load())

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
        item: ast.expr = _call(_attr(handle, "item"))
        if isinstance(node.target, ast.Name):
            item = _call(_attr(RUNTIME, "named"), ast.Constant(node.target.id), item)
        body = self._loop_body(handle, node.body, node.target)
        loop = ast.While(
            _call(_attr(handle, "again")),
            [
                self._pass(handle, "begin", names, roots),
                _at(ast.Assign([node.target], item), node.target),
                *body,
                self._pass(handle, "end", names),
            ],
            [self._pass(handle, "results", names), *self.block(node.orelse)],
        )
        start = _call(_attr(RUNTIME, "for_"), items, ast.Constant(site))
        return [_assign(handle, start, node.iter), _at(loop, node.iter)]

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
            _call(_attr(handle, "again")),
            [
                self._pass(handle, "begin", names, roots),
                ast.If(_at(_call(_attr(handle, "test"), test), node.test), inner, []),
            ],
            [self._pass(handle, "results", names), *self.block(node.orelse)],
        )
        start = _call(_attr(RUNTIME, "while_"), ast.Constant(site))
        return [_assign(handle, start, node.test), _at(loop, node.test)]

    def _leave(self, word: str, node: ast.stmt, handles: Sequence[str]) -> list[ast.stmt]:
        new = self.generic_visit(node)
        if not handles:
            return [cast(ast.stmt, new)]
        check = _call(_attr(RUNTIME, "leave"), ast.Constant(word), _tuple(handles, ast.Load()))
        return [_at(ast.Expr(check), node), cast(ast.stmt, new)]

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
        begin = _call(_attr(RUNTIME, "assert_begin"), test, ast.Constant(ast.unparse(node.test)))
        end = _call(_attr(RUNTIME, "assert_end"), message)
        return _at(ast.If(_at(begin, node.test), [ast.Expr(_at(end, node.test))], []), node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        value = self.visit(node.value)
        targets = [self.visit(t) for t in node.targets]
        if len(targets) == 1 and isinstance(targets[0], ast.Name):
            value = _at(
                _call(_attr(RUNTIME, "named"), ast.Constant(targets[0].id), value), node.value
            )
        return _at(ast.Assign(targets, value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        new = cast(ast.stmt, self.generic_visit(node))
        target = node.target
        if isinstance(target, ast.Name) and self._is_doubtful(target.id):
            read = self._use(_at(_name(target.id), target))
            return [_at(ast.Expr(read), target), new]
        return [new]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        node.target = self.visit(node.target)
        node.value = self.visit(node.value) if node.value else None
        node.annotation = _at(ast.Constant(None), node)
        return node

    def visit_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.handed.add(target.id)
                self.defined.discard(target.id)
                made.append(
                    _at(ast.Assign([_name(target.id, ast.Store())], _attr(RUNTIME, "UNDEF")), node)
                )
            else:
                made.append(_at(ast.Delete([self.visit(target)]), node))
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
            unwind = _at(ast.Expr(_call(_attr(RUNTIME, "unwind"), _name(mark))), handler)
            handler.body = [cast(ast.stmt, unwind), *self.block(handler.body)]
        self.defined = set(after_body)
        node.orelse = self.block(node.orelse)
        self.defined = set(before)
        node.finalbody = self.block(node.finalbody)
        return [_at(_assign(mark, _call(_attr(RUNTIME, "mark")), node), node), node]

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

    # Expressions.

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
        return _tuple(sorted(roots), ast.Load())

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        word = "and" if isinstance(node.op, ast.And) else "or"
        first, *others = node.values
        rest = others[0] if len(others) == 1 else _at(ast.BoolOp(node.op, others), node)
        if len(others) > 1:
            rest.col_offset, rest.lineno = others[0].col_offset, others[0].lineno
        roots = self._roots_of(rest)
        begin = _call(_attr(RUNTIME, f"{word}_begin"), self.visit(first), roots)
        end = _call(_attr(RUNTIME, "choice_end"), self._operand(rest))
        return _at(ast.IfExp(_at(begin, node), _at(end, node), _result(node)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1:
            left, right = self.visit(node.left), self.visit(node.comparators[0])
            return self._compared(node, left, node.ops[0], right)
        # a < b < c: b is kept by `link`, and read back by `linked`.
        middle = _call(_attr(RUNTIME, "link"), self.visit(node.comparators[0]))
        first = self._compared(node, self.visit(node.left), node.ops[0], _at(middle, node))
        linked = _at(_call(_attr(RUNTIME, "linked")), node.comparators[0])
        rest = _at(ast.Compare(linked, node.ops[1:], node.comparators[1:]), node)
        roots = self._roots_of(*node.comparators[1:])
        begin = _call(_attr(RUNTIME, "chain_begin"), first, roots)
        end = _call(_attr(RUNTIME, "choice_end"), self._operand(rest))
        return _at(ast.IfExp(_at(begin, node), _at(end, node), _result(node)), node)

    def _compared(self, node: ast.Compare, a: ast.expr, op: ast.cmpop, b: ast.expr) -> ast.expr:
        if isinstance(op, ast.In | ast.NotIn):
            inside = cast(ast.expr, _at(_call(_attr(RUNTIME, "contains"), a, b), node))
            return inside if isinstance(op, ast.In) else self._not(inside, node)
        return cast(ast.expr, _at(ast.Compare(a, [op], [b]), node))

    def _not(self, operand: ast.expr, node: ast.expr) -> ast.expr:
        return _at(_call(_attr(RUNTIME, "not_"), operand), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return self._not(operand, node)
        return _at(ast.UnaryOp(node.op, operand), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        roots = self._roots_of(node.body, node.orelse)
        begin = _call(_attr(RUNTIME, "ifexp_begin"), self.visit(node.test), roots)
        then = _call(_attr(RUNTIME, "ifexp_then"), self._operand(node.body))
        more = _call(_attr(RUNTIME, "ifexp_more"))
        orelse = _call(_attr(RUNTIME, "ifexp_else"), self._operand(node.orelse))
        nothing = ast.Constant(None)
        made = _call(
            _attr(RUNTIME, "ifexp_end"),
            ast.IfExp(_at(begin, node.test), then, nothing),
            ast.IfExp(more, orelse, nothing),
        )
        return _at(made, node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return self._rewritten_call(node, "fn")

    def _rewritten_call(self, node: ast.Call, method: str) -> ast.expr:
        args = [self.visit(a) for a in node.args]
        keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        fn = _at(_call(_attr(RUNTIME, method), self.visit(node.func)), node.func)
        return _at(ast.Call(fn, args, keywords), node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and self._is_doubtful(node.id):
            return self._use(node)
        return node

    def _is_doubtful(self, name: str) -> bool:
        return name in self.maybe and name not in self.defined

    def _use(self, node: ast.Name) -> ast.expr:
        self.handed.add(node.id)
        return _at(_call(_attr(RUNTIME, "use"), node, ast.Constant(node.id)), node)

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


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _last_line(name: str, body: Sequence[ast.stmt]) -> int:
    """Where a block last assigns `name`; 0 if it does not."""
    lines = [
        n.lineno
        for s in body
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
    ]
    return max(lines, default=0)


# Building nodes.


def _at(node: Any, place: Any) -> Any:
    """`node` at the source position of `place`, with whatever inside has none."""
    ast.copy_location(node, place)
    return ast.fix_missing_locations(node)


def _name(name: str, ctx: ast.expr_context | None = None) -> ast.Name:
    return ast.Name(name, ctx or ast.Load())


def _attr(name: str, attribute: str) -> ast.expr:
    return ast.Attribute(_name(name), attribute, ast.Load())


def _call(fn: ast.expr, *args: ast.expr) -> ast.expr:
    return ast.Call(fn, list(args), [])


def _tuple(names: Sequence[str], ctx: ast.expr_context) -> ast.expr:
    return ast.Tuple([_name(n, type(ctx)()) for n in names], ctx)


def _assign(name: str, value: ast.expr, place: Any) -> ast.stmt:
    return cast(ast.stmt, _at(ast.Assign([_name(name, ast.Store())], value), place))


def _result(place: Any) -> ast.expr:
    return cast(ast.expr, _at(_call(_attr(RUNTIME, "choice_result")), place))
