"""The kernel being captured: a stack of traces, and `emit` / `value`, which append to it.

Everything in `lang` that makes IR goes through `emit` and `value`: they append to the innermost
open block of the current trace and attach the user's own source line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import CaptureError, Loc
from tilewright.ir.builder import Builder
from tilewright.ir.core import AttrValue, Block, Func, Module, Op, Value
from tilewright.ir.evaluate import Number
from tilewright.lang.source_loc import current_loc
from tilewright.numeric.dtypes import DType


@dataclass
class Trace:
    """One function being captured.

    `module` collects the kernels, `target` is the architecture (None: not chosen), `func.kind`
    says whether this is the host function or a kernel.  `site_memory` and `operands` belong to
    `control`: what loops learned about their bodies, and the open conditional expressions.
    """

    func: Func
    module: Module
    target: Any = None
    builder: Builder = field(default_factory=Builder)
    site_memory: dict[object, Any] = field(default_factory=dict)
    operands: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.builder.blocks[:] = [self.func.body]

    @property
    def on_host(self) -> bool:
        return self.func.kind == "host"

    @property
    def depth(self) -> int:
        """How many blocks are open: 1 outside run-time loops and branches."""
        return len(self.builder.blocks)


_stack: list[Trace] = []


def current() -> Trace | None:
    """The innermost active trace, or None outside kernels."""
    return _stack[-1] if _stack else None


def require(what: str = "this operation") -> Trace:
    """The innermost active trace.

    Raises: CaptureError outside of a captured function; `what` names what was attempted.
    """
    if not _stack:
        raise CaptureError(
            f"{what} is only possible inside a @kernel or @jit function",
            loc=current_loc(2),
            hint="call it from a function decorated with @cute.kernel or @cute.jit",
        )
    return _stack[-1]


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Makes `trace` the current one until the end of the `with` statement."""
    _stack.append(trace)
    try:
        yield trace
    finally:
        _stack.pop()


def loc() -> Loc | None:
    """The user's source line that is being traced, with its chain of callers."""
    return current_loc(2)


def emit(
    kind: type[Op],
    *operands: Value,
    regions: Sequence[Block] = (),
    name: str = "",
    **attrs: AttrValue,
) -> Op:
    """Appends an operation with effects, several results or regions; gives the operation."""
    trace = _stack[-1] if _stack else require(kind.name)
    return trace.builder.emit(
        kind, *operands, loc=current_loc(2), regions=regions, name=name, **attrs
    )


def value(kind: type[Op], *operands: Value, name: str = "", **attrs: AttrValue) -> Value:
    """The single result of an operation; pure ones that simplify are not appended."""
    trace = _stack[-1] if _stack else require(kind.name)
    return trace.builder.value(kind, *operands, loc=current_loc(2), name=name, **attrs)


def constant(number: Number, dtype: DType) -> Value:
    """`number` as an IR constant of `dtype`, in the current block."""
    trace = _stack[-1] if _stack else require("a run-time constant")
    return trace.builder.constant(number, dtype, current_loc(2))
