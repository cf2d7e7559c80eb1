"""How blocks that share a tile bring their sums together."""
