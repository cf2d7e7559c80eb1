"""Tile IR on NumPy: whole tiles at a time, every block of a grid, with findings as values.

One file per family of operations (`int_ops`, `float_ops`, ...); `table` joins them, `machine` runs.
"""
