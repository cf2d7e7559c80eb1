"""What `trace.emit` cannot append: attributes named `kind`, and branches of our own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tilewright.ir.core import AttrValue, Block, Op, Value
from tilewright.ir.ops.control import If, Yield
from tilewright.lang import trace


def append(kind: type[Op], operands: Sequence[Value], attrs: Mapping[str, AttrValue]) -> Value:
    """The single result of an operation, with its attributes given as a mapping."""
    builder = trace.require(kind.name).builder
    return builder.append(kind(operands, attrs, (), trace.loc())).results[0]


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
