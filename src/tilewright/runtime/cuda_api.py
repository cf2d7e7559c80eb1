"""The one module that imports NVIDIA's Python packages; the rest of `runtime` asks here.

The packages are optional, and slow to import.  `driver`, `nvrtc`, `BINDINGS_MISSING` and
`LIBRARY_ERRORS` are therefore module attributes that are looked up when they are first read: a
program that only simulates never imports CUDA.  What is missing reads as None, and
`require_bindings` says what to install at the moment somebody needs it.
"""

from __future__ import annotations

import functools
import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

from tilewright.errors import ToolchainError

CUDA_EXTRA = 'pip install "tilewright[cuda]"'
SASS_EXTRA = 'pip install "tilewright[sass]"'


@functools.cache
def _bindings() -> dict[str, Any]:
    """The packages, or None for each and why."""
    found: dict[str, Any] = {
        "driver": None,
        "nvrtc": None,
        "BINDINGS_MISSING": "",
        # What a binding raises when the shared library behind it is not there.
        "LIBRARY_ERRORS": (RuntimeError,),
        "find_utility": None,
    }
    try:
        found["driver"] = importlib.import_module("cuda.bindings.driver")
        found["nvrtc"] = importlib.import_module("cuda.bindings.nvrtc")
    except ImportError as missing:
        found["BINDINGS_MISSING"] = str(missing)
    try:
        pathfinder: Any = importlib.import_module("cuda.pathfinder")
        found["LIBRARY_ERRORS"] = (RuntimeError, pathfinder.DynamicLibNotFoundError)
        found["find_utility"] = pathfinder.find_nvidia_binary_utility
    except (ImportError, AttributeError):  # an older bindings package finds libraries by itself
        found["find_utility"] = None
    return found


def __getattr__(name: str) -> Any:
    try:
        return _bindings()[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def find_utility() -> Any:
    """NVIDIA's own search for its tools, a function of the tool's name; None if not installed."""
    return _bindings()["find_utility"]


def require_bindings(purpose: str) -> None:
    """Return if `cuda.bindings` is importable.

    Raises: ToolchainError naming the package and the pip line.
    """
    here: Any = sys.modules[__name__]
    if here.nvrtc is None:
        raise ToolchainError(
            f"{purpose} needs the package cuda-bindings, which is not installed "
            f"({here.BINDINGS_MISSING})",
            hint=CUDA_EXTRA,
        )


def find_nvdisasm() -> Path:
    """Path of NVIDIA's disassembler: from its wheel, a CUDA toolkit, or PATH.

    Raises: ToolchainError if there is none.
    """
    find = find_utility()
    found = find("nvdisasm") if find is not None else None
    found = found or shutil.which("nvdisasm")
    if not found:
        raise ToolchainError(
            "disassembly needs nvdisasm, which is neither on PATH nor in the package "
            "nvidia-cuda-nvdisasm",
            hint=SASS_EXTRA,
        )
    return Path(found)
