"""Branches that the language itself makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.ir.core import Block, Value
from tilewright.ir.ops.control import If, Yield
from tilewright.lang import trace


@contextmanager
def run_time_if(condition: Value) -> Iterator[None]:
    """What is traced inside happens only where `condition` holds; it hands nothing on."""
    then, orelse = Block(), Block()
    builder = trace.require("a run-time branch").builder
    with builder.inside(then):
        yield
        builder.append(Yield(loc=trace.loc()))
    with builder.inside(orelse):
        builder.append(Yield(loc=trace.loc()))
    trace.emit(If, condition, regions=(then, orelse))
