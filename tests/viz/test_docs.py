"""Every docstring example of the room runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tilewright.viz

MODULES = [m.name for m in pkgutil.iter_modules(tilewright.viz.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(f"tilewright.viz.{name}"))
    assert failed == 0


def test_every_public_name_is_documented() -> None:
    for name in tilewright.viz.__all__:
        assert getattr(tilewright.viz, name).__doc__, name
