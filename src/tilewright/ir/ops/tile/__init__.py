"""The tile vocabulary: NVIDIA's Tile IR, op for op, one file per family.

`base` says how an operation is declared, `registry` lists them all.
"""
