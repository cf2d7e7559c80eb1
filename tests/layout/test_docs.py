"""Every docstring example of the room runs, and every public function has one or a law."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tilewright.layout

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
