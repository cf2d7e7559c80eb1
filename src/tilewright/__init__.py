"""CUTLASS, CuTe and CUDA Tile as one open Python stack."""
