"""Lets the tests of this folder import the harness, under a name of its own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location(
    "tile_harness", Path(__file__).with_name("harness.py")
)
assert _SPEC is not None, "harness.py is beside this file"
assert _SPEC.loader is not None, "a source file has a loader"
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules["tile_harness"] = _MODULE
_SPEC.loader.exec_module(_MODULE)
