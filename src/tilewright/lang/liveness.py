"""Which names are live where: a backward walk over the statements of one function.

A name is live at a point if its value there may still be read.  What a run-time region must hand
on are the names that it assigns and that are live after it (for a loop: or at the start of the
next iteration).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

Names = frozenset[str]
_NONE: Names = frozenset()
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def reads(node: ast.AST | None) -> Names:
    """All names that an expression or statement reads, those inside nested functions included."""
    if node is None:
        return _NONE
    return frozenset(
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)
    )


def assigned(nodes: Iterable[ast.AST]) -> Names:
    """All names that statements bind in their own scope: by assignment, loop, import, def, with."""
    found: set[str] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.add(node.id)
        elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            found.add(node.name)
            todo += node.decorator_list
            continue
        elif isinstance(node, ast.Lambda):
            continue
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            found |= {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
            continue
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
        todo += ast.iter_child_nodes(node)
    return frozenset(found)


def captured_by_nested(body: Sequence[ast.stmt]) -> Names:
    """Names that nested functions, lambdas or classes read: they may be read at any time."""
    found: set[str] = set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, _SCOPES):
                found |= reads(node)
    return frozenset(found)


class Liveness:
    """The live names after every statement, and at the head of every loop, of a function body.

    >>> tree = ast.parse("x = 1\\nfor i in r:\\n    t = x\\n    x = t + i\\nuse(x)")
    >>> live = Liveness(tree.body)
    >>> sorted(live.carried(tree.body[1]))
    ['x']
    """

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.after: dict[ast.stmt, Names] = {}
        self.head: dict[ast.stmt, Names] = {}
        self.orelse: dict[ast.stmt, Names] = {}
        self.always = captured_by_nested(body)
        self._block(body, _NONE, _NONE, _NONE)

    def carried(self, node: ast.stmt) -> Names:
        """The names that a branch or loop statement must hand on if it is run at run time."""
        if isinstance(node, ast.If):
            return assigned([*node.body, *node.orelse]) & (self.after[node] | self.always)
        if isinstance(node, ast.For):
            inside = assigned([node.target, *node.body])
        else:
            assert isinstance(node, ast.While), "only branches and loops hand names on"
            inside = assigned(node.body)
        return inside & (self.head[node] | self.always)

    def restored(self, node: ast.If) -> Names:
        """The names that the first arm assigns, and whose old value the second arm reads."""
        return assigned(node.body) & (self.orelse[node] | self.always) - self.carried(node)

    def _block(self, body: Sequence[ast.stmt], out: Names, brk: Names, cont: Names) -> Names:
        for statement in reversed(body):
            self.after[statement] = self.after.get(statement, _NONE) | out
            out = self._statement(statement, out, brk, cont)
        return out

    def _statement(self, s: ast.stmt, out: Names, brk: Names, cont: Names) -> Names:
        if isinstance(s, ast.If):
            self.orelse[s] = self._block(s.orelse, out, brk, cont)
            return self._block(s.body, out, brk, cont) | self.orelse[s] | reads(s.test)
        if isinstance(s, ast.For | ast.AsyncFor | ast.While):
            return self._loop(s, out, brk, cont)
        if isinstance(s, ast.With | ast.AsyncWith):
            inner = self._block(s.body, out, brk, cont)
            return (inner - assigned(s.items)) | frozenset().union(*map(reads, s.items))
        if isinstance(s, ast.Try | ast.TryStar):
            return self._try(s, out, brk, cont)
        if isinstance(s, ast.Match):
            cases = [self._block(c.body, out, brk, cont) - assigned([c.pattern]) for c in s.cases]
            tests = [reads(c.pattern) | reads(c.guard) for c in s.cases]
            return out.union(reads(s.subject), *cases, *tests)
        if isinstance(s, ast.Return | ast.Raise):
            return reads(s)
        if isinstance(s, ast.Break):
            return brk
        if isinstance(s, ast.Continue):
            return cont
        kills = assigned([s])
        if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
            return out | reads(s.value) | {s.target.id}
        if isinstance(s, ast.Delete):
            return out - kills
        return (out - kills) | reads(s)

    def _loop(
        self, s: ast.For | ast.AsyncFor | ast.While, out: Names, brk: Names, cont: Names
    ) -> Names:
        finished = self._block(s.orelse, out, brk, cont)
        head = finished | (reads(s.test) if isinstance(s, ast.While) else _NONE)
        while True:
            inner = self._block(s.body, head, out, head)
            if not isinstance(s, ast.While):
                inner = (inner - assigned([s.target])) | reads(s.target)
            if inner <= head:
                break
            head |= inner
        self.head[s] = head
        return head if isinstance(s, ast.While) else head | reads(s.iter)

    def _try(self, s: ast.Try | ast.TryStar, out: Names, brk: Names, cont: Names) -> Names:
        final = self._block(s.finalbody, out, brk, cont)
        handlers = [self._block(h.body, final, brk, cont) | reads(h.type) for h in s.handlers]
        caught = final.union(*handlers)
        # Any statement of the body may be the last: what the handlers read is live throughout.
        orelse = self._block(s.orelse, final, brk, cont)
        inner = self._block(s.body, orelse | caught, brk | final, cont | final)
        return inner | caught
