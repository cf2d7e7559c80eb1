"""Public names: what `tilewright.x` gives, `import tilewright.x` gives as well."""

from __future__ import annotations

import importlib
import types

import pytest

import tilewright
from tilewright import device
from tilewright.library import device as room


@pytest.mark.parametrize("name", tilewright.__all__)
def test_every_public_name_is_there(name: str) -> None:
    found = getattr(tilewright, name)
    if isinstance(found, types.ModuleType):
        assert importlib.import_module(f"tilewright.{name}") is found


def test_device_hands_on_all_names() -> None:
    assert device.__all__ == room.__all__
    assert all(getattr(device, name) is getattr(room, name) for name in room.__all__)
