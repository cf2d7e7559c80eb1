"""Matrix multiply-accumulate instructions, one row each."""

from tilewright.arch.mma.atom import MmaAtom, RegisterFile, operand_map
from tilewright.arch.mma.registry import ALL_MMA_ATOMS, find_mma_atom, mma_atom

__all__ = [
    "ALL_MMA_ATOMS",
    "MmaAtom",
    "RegisterFile",
    "find_mma_atom",
    "mma_atom",
    "operand_map",
]
