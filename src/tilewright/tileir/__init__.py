"""NVIDIA's Tile IR as files: its text syntax, read and printed, and its verifier.

The vocabulary itself is `ir/ops/tile`: what is written here about syntax is only how a declaration
is read and printed.
"""
