"""Mutants of the library's kernels: `rows` says of which, `mutants` how, `known` what survives."""
