"""Thread IR to source text of other languages."""
