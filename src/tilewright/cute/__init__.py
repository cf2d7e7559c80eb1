"""CuTe's words for kernels: layouts, tensors, atoms, tiled copies and MMAs.

The names and their meaning are those of CuTe's public documentation.  `compile` captures a host
function for given arguments; calling a `@jit` function does so too, and runs it.
"""

from tilewright.compiler.build import compile_function as compile
from tilewright.lang.cute import *  # noqa: F403
from tilewright.lang.cute import __all__ as _words

__all__ = [*_words, "compile"]
