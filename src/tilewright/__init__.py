"""CUTLASS, CuTe and CUDA Tile as one open Python stack: write, simulate, check, run GPU kernels.

    import tilewright as tw
    from tilewright import cute, dsl

The names below are loaded when they are first used, so that `import tilewright` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright import cute, device, dsl, layout, pipeline, tile, utils, viz
    from tilewright.library.gemm import gemm
    from tilewright.sim.sanitize import sanitize

__version__ = "0.1.0"
__all__ = [
    "TilewrightError",
    "cute",
    "device",
    "dsl",
    "gemm",
    "layout",
    "pipeline",
    "sanitize",
    "tile",
    "utils",
    "viz",
]

_HOMES = {"gemm": "tilewright.library.gemm", "sanitize": "tilewright.sim.sanitize"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in __all__:
        return importlib.import_module(f"tilewright.{name}")
    raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
