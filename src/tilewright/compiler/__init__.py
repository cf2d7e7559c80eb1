"""The one place where capture, passes, code generation, simulator and runtime meet."""

from tilewright.compiler.build import compile_function, default_target
from tilewright.compiler.program import Compiled

__all__ = ["Compiled", "compile_function", "default_target"]
