"""Matrix multiply-accumulate instructions, one row each."""

from tilewright.arch.mma.atom import MmaAtom, RegisterFile, operand_map
from tilewright.arch.mma.registry import every_mma_atom, find_mma_atom, mma_atom
from tilewright.arch.mma.sm100 import umma_atom, umma_families

__all__ = [
    "MmaAtom",
    "RegisterFile",
    "every_mma_atom",
    "find_mma_atom",
    "mma_atom",
    "operand_map",
    "umma_atom",
    "umma_families",
]
