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
from tilewright.lang.source_loc import current_loc, forget_frames
from tilewright.numeric.dtypes import DType


@dataclass
class Trace:
    """One function being captured.

    `module` collects the kernels, `target` is the architecture (None: not chosen), `func.kind`
    says whether this is the host function or a kernel.  `operands` are the open conditional
    expressions of `control`; `loop_memory` is what loops learned about their bodies, which is of
    use when an enclosing loop is traced again.
    """

    func: Func
    module: Module
    target: Any = None
    builder: Builder = field(default_factory=Builder)
    operands: list[Any] = field(default_factory=list)
    loop_memory: dict[object, Any] = field(default_factory=dict)
    _loops: list[tuple[object, dict[int, int]]] = field(default_factory=lambda: [(None, {})])
    _prints: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.builder.blocks[:] = [self.func.body]

    @property
    def on_host(self) -> bool:
        return self.func.kind == "host"

    @property
    def depth(self) -> int:
        """How many blocks are open: 1 outside run-time loops and branches."""
        return len(self.builder.blocks)

    def next_loop(self, site: object) -> object:
        """The identity of the loop that begins at `site`: the same when it is traced again."""
        parent, counts = self._loops[-1]
        number = counts[id(site)] = counts.get(id(site), 0) + 1
        return (parent, id(site), number)

    def enter_loop(self, key: object) -> None:
        self._loops.append((key, {}))

    def leave_loop(self) -> None:
        self._loops.pop()

    def print(self, text: str) -> None:
        """Prints now, or once the trace of the enclosing loop turns out to be the last."""
        if self._prints:
            self._prints[-1].append(text)
        else:
            print(text, end="")

    def hold_prints(self) -> None:
        self._prints.append([])

    def release_prints(self, *, keep: bool) -> None:
        """Ends what `hold_prints` began: prints what was held, or forgets it."""
        for text in self._prints.pop():
            if keep:
                self.print(text)


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
        if not _stack:
            forget_frames()


def loc() -> Loc | None:
    """The user's source line that is being traced, with its chain of callers."""
    return current_loc(2)


def emit(
    kind: type[Op],
    /,
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


def value(kind: type[Op], /, *operands: Value, name: str = "", **attrs: AttrValue) -> Value:
    """The single result of an operation; pure ones that simplify are not appended."""
    trace = _stack[-1] if _stack else require(kind.name)
    return trace.builder.value(kind, *operands, loc=current_loc(2), name=name, **attrs)


def constant(number: Number, dtype: DType) -> Value:
    """`number` as an IR constant of `dtype`, in the current block."""
    trace = _stack[-1] if _stack else require("a run-time constant")
    return trace.builder.constant(number, dtype, current_loc(2))
