"""The house rules, read off the source: who imports whom, and how long things may be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "tilewright"
FILES = sorted(PACKAGE.rglob("*.py"))

# room -> rooms that it may import directly.  What those may import is allowed as well.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "settings": {"errors"},
    "layout": {"errors"},
    "numeric": {"errors"},
    "arch": {"layout", "numeric"},
    "ir": {"arch"},
    "lang": {"ir"},
    "passes": {"ir"},
    "codegen": {"ir"},
    "sim": {"ir"},
    "tileir": {"ir"},
    "runtime": {"errors", "settings", "numeric"},
    "compiler": {"lang", "passes", "codegen", "sim", "tileir", "runtime"},
    "collective": {"lang"},
    # Facades: public names handed on to users (`import tilewright.cute as cute`).
    "cute": {"compiler"},
    "dsl": {"compiler"},
    "tile": {"compiler"},
    "utils": {"collective"},
    "pipeline": {"collective"},
    "library": {"collective", "cute", "dsl", "utils", "pipeline", "compiler"},
    "device": {"library"},
    "profiler": {"library"},
    "viz": {"ir"},
    "cli": {"library", "profiler", "viz"},
    "": {"device", "tile", "viz"},  # tilewright/__init__, for type checkers; loaded on demand
    "__main__": {"cli"},
}
THIRD_PARTY = {
    "numpy": {"numeric", "sim", "library", "runtime", "profiler", "compiler", "tileir", "cli"},
    "ml_dtypes": {"numeric", "runtime"},
    "cuda": {"runtime"},
    "rich": {"cli", "profiler"},
    "z3": {"layout"},
}
MAX_FILE, MAX_FUNCTION = 500, 80


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def allowed(room: str) -> set[str]:
    seen: set[str] = {room}
    todo = [room]
    while todo:
        for below in MAY_IMPORT[todo.pop()] - seen:
            seen.add(below)
            todo.append(below)
    return seen


def imports(tree: ast.AST) -> list[tuple[int, str, bool]]:
    """(line, module, whether inside a function) of every import that is not typing-only."""
    found: list[tuple[int, str, bool]] = []

    def visit(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend((child.lineno, a.name, inside) for a in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                names = [f"{base}.{a.name}" for a in child.names]
                modules = {module_of(f) for f in FILES}
                found.extend((child.lineno, n if n in modules else base, inside) for n in names)
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            visit(child, inside or is_function)

    visit(tree, False)
    return found


TREES = {path: ast.parse(path.read_text()) for path in FILES}
IMPORTS = {path: imports(tree) for path, tree in TREES.items()}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{path}: no such room in the table; give it a place"
    for line, module, inside in IMPORTS[path]:
        top = module.split(".")[0]
        if top == "tilewright":
            assert not inside, f"{path}:{line}: import inside a function"
            target = [*module.split("."), ""][1]
            assert target in allowed(room), f"{path}:{line}: {room} may not import {target}"
        elif top in THIRD_PARTY:
            assert not inside, f"{path}:{line}: import inside a function"
            assert room in THIRD_PARTY[top], f"{path}:{line}: {room} may not import {top}"


def test_no_cycles() -> None:
    graph: dict[str, set[str]] = {}
    modules = {module_of(f) for f in FILES}
    for path, found in IMPORTS.items():
        here = module_of(path)
        graph[here] = {m for _, m, _ in found if m in modules and m != here}
    state: dict[str, int] = {}

    def visit(node: str, trail: list[str]) -> None:
        if state.get(node) == 2:
            return
        assert state.get(node) != 1, "cycle: " + " -> ".join([*trail[trail.index(node) :], node])
        state[node] = 1
        for below in sorted(graph[node]):
            visit(below, [*trail, node])
        state[node] = 2

    for module in sorted(graph):
        visit(module, [])


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_sizes(path: Path) -> None:
    length = len(path.read_text().splitlines())
    assert length <= MAX_FILE, f"{path}: {length} lines, at most {MAX_FILE}"
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            span = (node.end_lineno or node.lineno) - node.lineno + 1
            assert span <= MAX_FUNCTION, f"{path}:{node.lineno}: {node.name} has {span} lines"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_asserts_carry_text(path: Path) -> None:
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Assert):
            assert node.msg is not None, f"{path}:{node.lineno}: an assert without text"


@pytest.mark.parametrize(
    "path",
    # The root hands its names on too, but only when they are asked for.
    [f for f in FILES if f.name == "__init__.py" and f.parent != PACKAGE],
    ids=lambda p: str(p.relative_to(PACKAGE)),
)
def test_init_files_only_hand_names_on(path: Path) -> None:
    for node in TREES[path].body:
        fine = isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign)
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        assert fine or docstring, f"{path}:{node.lineno}: code in an __init__"
