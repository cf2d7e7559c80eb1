"""The one module that imports NVIDIA's Python packages; the rest of `runtime` asks here.

The packages are optional.  Importing this module never fails: what is missing stays None, and
`require_bindings` says what to install at the moment somebody needs it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tilewright.errors import ToolchainError

driver: Any = None
nvrtc: Any = None
BINDINGS_MISSING = ""
"""Why `cuda.bindings` could not be imported; empty when it could."""

_find_utility: Any = None
_library_errors: tuple[type[BaseException], ...] = (RuntimeError,)

try:
    from cuda.bindings import driver as _driver
    from cuda.bindings import nvrtc as _nvrtc
except ImportError as _missing:
    BINDINGS_MISSING = str(_missing)
else:
    driver, nvrtc = _driver, _nvrtc

try:
    from cuda.pathfinder import DynamicLibNotFoundError, find_nvidia_binary_utility
except ImportError:
    pass
else:
    _find_utility = find_nvidia_binary_utility
    _library_errors = (RuntimeError, DynamicLibNotFoundError)

LIBRARY_ERRORS = _library_errors
"""What a binding raises when the shared library behind it (libnvrtc, libcuda) is not there."""

CUDA_EXTRA = 'pip install "tilewright[cuda]"'
SASS_EXTRA = 'pip install "tilewright[sass]"'


def require_bindings(purpose: str) -> None:
    """Return if `cuda.bindings` is importable.

    Raises: ToolchainError naming the package and the pip line.
    """
    if nvrtc is None:
        raise ToolchainError(
            f"{purpose} needs the package cuda-bindings, which is not installed "
            f"({BINDINGS_MISSING})",
            hint=CUDA_EXTRA,
        )


def find_nvdisasm() -> Path:
    """Path of NVIDIA's disassembler: from its wheel, a CUDA toolkit, or PATH.

    Raises: ToolchainError if there is none.
    """
    found = _find_utility("nvdisasm") if _find_utility is not None else None
    found = found or shutil.which("nvdisasm")
    if not found:
        raise ToolchainError(
            "disassembly needs nvdisasm, which is neither on PATH nor in the package "
            "nvidia-cuda-nvdisasm",
            hint=SASS_EXTRA,
        )
    return Path(found)
