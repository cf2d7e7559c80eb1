"""From CUDA C++ text to a running kernel; this room knows no IR and no layouts.

toolchain (NVRTC) and cache make a cubin, sass reads it, driver loads it, arrays and tensormap
describe what it works on, launch starts it.  Import the leaf modules; only `arrays` is handed on
here, since the others need NVIDIA's packages, and reading an array on a laptop must not.
"""

from tilewright.runtime.arrays import ArrayView, as_array, host_bytes

__all__ = ["ArrayView", "as_array", "host_bytes"]
