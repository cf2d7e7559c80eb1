"""Building syntax trees: small makers, and the positions that made nodes take."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T", bound=ast.AST)

RUNTIME = "__tw__"
"""The name under which a captured function knows its `control.Runtime`."""


def at(node: T, place: Any) -> T:
    """`node` at the source position of `place`, with whatever inside has none."""
    ast.copy_location(node, place)
    return ast.fix_missing_locations(node)


def name_node(name: str, ctx: ast.expr_context | None = None) -> ast.Name:
    return ast.Name(name, ctx or ast.Load())


def attribute(name: str, attribute: str) -> ast.expr:
    return ast.Attribute(name_node(name), attribute, ast.Load())


def call(fn: ast.expr, *args: ast.expr) -> ast.expr:
    return ast.Call(fn, list(args), [])


def name_tuple(names: Sequence[str], ctx: ast.expr_context) -> ast.expr:
    return ast.Tuple([name_node(n, type(ctx)()) for n in names], ctx)


def assign(name: str, value: ast.expr, place: Any) -> ast.stmt:
    return at(ast.Assign([name_node(name, ast.Store())], value), place)


def choice_result(place: Any) -> ast.expr:
    return at(call(attribute(RUNTIME, "choice_result")), place)


def last_line(name: str, body: Sequence[ast.stmt]) -> int:
    """Where a block last assigns `name`; 0 if it does not."""
    lines = [
        n.lineno
        for s in body
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
    ]
    return max(lines, default=0)
