"""Every docstring example of the room runs, and every public function has one or a law."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tilewright.layout
from tilewright.layout import prove

MODULES = [m.name for m in pkgutil.iter_modules(tilewright.layout.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = importlib.import_module(f"tilewright.layout.{name}")
    failed, _ = doctest.testmod(module)
    assert failed == 0


def test_every_public_name_is_documented_and_listed_once() -> None:
    listed = tilewright.layout.__all__
    assert len(set(listed)) == len(listed)
    aliases = {"Coord", "IntTuple", "Shape", "Stride", "AnyLayout"}
    for name in set(listed) - aliases:
        assert getattr(tilewright.layout, name).__doc__, name


PAGE = Path(__file__).resolve().parents[2] / "docs" / "algebra.md"
BLOCK = re.compile(r"^```pycon\n(.*?)^```", re.MULTILINE | re.DOTALL)

# What the public texts on CuTe work out, and NVIDIA's documents quote.
WORKED = [
    "(4,3):(3,1)",
    "12:1",
    "((2,2),3):((24,2),8)",
    "6:4 4:1",
    "((2,2),(2,3)):((4,1),(2,8))",
    "((2,3),(5,4)):((5,10),(1,30))",
    "((3,2),(4,5)):((10,5),(30,1))",
    "Sw<5,0,7> conflict-free",
]


def test_the_ten_pictures_are_what_is_printed() -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    if prove.z3 is None:
        blocks = [b for b in blocks if "layout.prove" not in b]
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    names: dict[str, object] = {}
    for number, block in enumerate(blocks):
        test = parser.get_doctest(block, names, f"block {number}", str(PAGE), 0)
        runner.run(test, clear_globs=False)
        names = test.globs
    assert runner.failures == 0
    assert runner.tries > 50


@pytest.mark.parametrize("text", WORKED)
def test_every_worked_example_is_on_the_page(text: str) -> None:
    assert text in PAGE.read_text()


def test_there_are_ten_pictures() -> None:
    numbers = re.findall(r"^## (\d+)\.", PAGE.read_text(), re.MULTILINE)
    assert numbers == [str(n) for n in range(1, 11)]
