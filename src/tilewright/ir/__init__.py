"""The typed SSA core and its two vocabularies of operations."""
