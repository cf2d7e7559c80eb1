"""Tile IR bytecode, versions 13.1 to 13.4."""
