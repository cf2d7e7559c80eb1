"""Every example in every docstring of the package runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "tilewright"
MODULES = sorted(
    ".".join(("tilewright", *f.relative_to(PACKAGE).with_suffix("").parts))
    for f in PACKAGE.rglob("*.py")
    if f.name not in ("__init__.py", "__main__.py") and ">>>" in f.read_text()
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_module(name: str) -> None:
    module = importlib.import_module(name)
    failed, run = doctest.testmod(module)
    assert run > 0, f"{name} has examples that doctest does not find"
    assert failed == 0
