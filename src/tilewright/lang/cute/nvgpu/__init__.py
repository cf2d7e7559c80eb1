"""Instructions of NVIDIA GPUs: `cute.nvgpu.warp`, `.warpgroup`, `.cpasync`."""

from tilewright.lang.cute.nvgpu import cpasync, warp, warpgroup
from tilewright.lang.cute.nvgpu.common import CopyUniversalOp, MmaUniversalOp
from tilewright.lang.cute.nvgpu.cpasync import LoadCacheMode
from tilewright.lang.cute.nvgpu.warpgroup import OperandMajorMode

__all__ = [
    "CopyUniversalOp",
    "LoadCacheMode",
    "MmaUniversalOp",
    "OperandMajorMode",
    "cpasync",
    "warp",
    "warpgroup",
]
