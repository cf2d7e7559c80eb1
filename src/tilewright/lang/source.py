"""The syntax tree of a Python function, with the lines and columns of its file."""

from __future__ import annotations

import ast
import inspect
from types import CodeType, FunctionType

from tilewright.errors import CaptureError, Loc


class NoSource(CaptureError):
    """The source of a function cannot be read.  The kernel's author must act."""


def function_tree(fn: FunctionType) -> ast.FunctionDef:
    """The definition of `fn`, placed where it stands in its file.

    Raises: NoSource if there is none, CaptureError if it is no longer that of `fn`.
    """
    code = fn.__code__
    if code.co_name == "<lambda>":
        raise CaptureError(
            "a lambda cannot be captured: its source does not stand alone",
            loc=Loc(code.co_filename, code.co_firstlineno),
            hint="write it as a function with def",
        )
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError) as problem:
        raise NoSource(
            f"the source of {fn.__qualname__} cannot be read ({code.co_filename}): a kernel is"
            " captured from its source",
            hint="save it to a file and import it from there",
        ) from problem
    text = "".join(lines)
    shift = first - 1
    if text[:1].isspace():  # Keeps the columns of an indented definition.
        text, shift = "if 1:\n" + text, first - 2
    node = _first_function(text, code)
    ast.increment_lineno(node, shift)
    return node


def _first_function(text: str, code: CodeType) -> ast.FunctionDef:
    try:
        tree: ast.Module | None = ast.parse(text)
    except SyntaxError:
        tree = None
    body = tree.body if tree else []
    if body and isinstance(body[0], ast.If):
        body = body[0].body
    node = body[0] if body else None
    if isinstance(node, ast.AsyncFunctionDef):
        raise CaptureError(
            f"{code.co_name} is an async function: a kernel cannot await",
            loc=Loc(code.co_filename, code.co_firstlineno),
        )
    if not isinstance(node, ast.FunctionDef) or not _same_function(node, code):
        raise CaptureError(
            f"the source of {code.co_name} has changed since it was imported",
            loc=Loc(code.co_filename, code.co_firstlineno),
            hint="import the module again",
        )
    return node


def _same_function(node: ast.FunctionDef, code: CodeType) -> bool:
    args = node.args
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return node.name == code.co_name and names == list(code.co_varnames[: len(names)])
