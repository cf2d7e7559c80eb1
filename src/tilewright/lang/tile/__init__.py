"""The tile-level DSL: what `tilewright.tile` hands on, and how a kernel becomes Tile IR."""
