"""What ptxas said of a kernel, if it was compiled before: nothing is compiled for it."""

from __future__ import annotations

from tilewright.arch.target import ALL_TARGETS
from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.errors import TilewrightError
from tilewright.ir.core import Func
from tilewright.runtime.cache import find_cached
from tilewright.runtime.compile_log import KernelResources


def ptxas_figures(func: Func, sm: int) -> KernelResources | None:
    """The figures of the cubin in the cache, or None: none there, or no NVRTC to say which.

    `sm`: 80, 90, ...; see `arch.target`.
    """
    name = next((t.name for t in ALL_TARGETS if t.sm == sm), "")
    try:
        found = find_cached(emit_cuda(func), name)
    except TilewrightError:
        return None
    return found.kernels.get(func.name) if found is not None else None
