"""GEMM kernels in our own DSL, each readable top to bottom."""
