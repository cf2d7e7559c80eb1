"""Declarations of operations, one file per family."""
