"""CUTLASS, CuTe and CUDA Tile as one open Python stack: write, simulate, check, run GPU kernels."""

from tilewright import cute, dsl, pipeline, utils
from tilewright.errors import TilewrightError
from tilewright.library.gemm import gemm

__version__ = "0.1.0"
__all__ = ["TilewrightError", "cute", "dsl", "gemm", "pipeline", "utils"]
