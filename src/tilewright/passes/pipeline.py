"""The list of passes: everything that happens between capture and code."""

from __future__ import annotations

from tilewright.arch.target import Target
from tilewright.ir.core import Module
from tilewright.ir.verify import verify_module
from tilewright.passes.canonicalize import canonicalize
from tilewright.passes.check_target import check_target
from tilewright.passes.shared_layout import shared_layout


def run_passes(module: Module, target: Target) -> None:
    """Makes captured IR ready for the code generator and the simulator, in place."""
    verify_module(module)  # what was captured, before anything leans on it
    check_target(module, target)
    canonicalize(module)
    shared_layout(module, target)  # after canonicalize: unused buffers need no place
    verify_module(module)
