"""Copy instructions, one row each."""

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.registry import (
    ALL_COPY_ATOMS,
    copy_atom,
    every_copy_atom,
    find_copy_atom,
)

__all__ = ["ALL_COPY_ATOMS", "CopyAtom", "copy_atom", "every_copy_atom", "find_copy_atom"]
