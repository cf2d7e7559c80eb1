"""Lets the tests of this folder import the modules beside them, under names of their own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def _beside(name: str) -> None:
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"tileir_{name}", path)
    assert spec is not None, f"{name}.py is beside this file"
    assert spec.loader is not None, "a source file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"tileir_{name}"] = module
    spec.loader.exec_module(module)


_beside("report")
_beside("invalid")
if importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.tile"):
    _beside("cutile_kernels")
