"""Structured control flow: loops with carried values, branches, and what may end a block."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.constraints import ANY, INTEGER, SCALAR, scalar
from tilewright.ir.core import Effect, Op, attr, operand, region, variadic
from tilewright.ir.types import Type
from tilewright.numeric.dtypes import BOOL


class Yield(Op):
    """Ends a region and hands its values on."""

    name = "yield"
    effect = Effect.CONTROL
    terminator = True
    values = variadic(ANY)


class For(Op):
    """`for iv in range(start, stop, step)` with carried values.

    The body's arguments are the induction variable and the carried values; it yields the values
    of the next iteration; the results are those of the last (the inits, if there is none).
    `step` may be negative only if it is a constant.  `unroll`: 1 keeps the loop (the compiler may
    not unroll it), 0 unrolls it fully, n by n, -1 leaves the choice to the compiler.
    """

    name = "for"
    effect = Effect.CONTROL
    start = operand(INTEGER)
    stop = operand(INTEGER)
    step = operand(INTEGER)
    inits = variadic(ANY)
    unroll = attr(int, -1)
    body = region()

    def infer_types(self) -> Sequence[Type]:
        return [v.type for v in self.inits]

    def check(self) -> str | None:
        want = [self.start.type, *(v.type for v in self.inits)]
        if [v.type for v in self.body.args] != want:
            return f"body takes {[str(v.type) for v in self.body.args]}, expected {want}"
        if not self.start.type == self.stop.type == self.step.type:
            return "start, stop and step must have one type"
        return _yields(self.body.ops[-1], [v.type for v in self.inits])


class While(Op):
    """`while condition: body` with carried values.

    `before` takes the carried values and ends in `condition`, which says whether to go on and
    hands values to `body`; `body` takes those and yields the next carried values.  The results
    are what `condition` handed on when it was false.
    """

    name = "while"
    effect = Effect.CONTROL
    inits = variadic(ANY)
    before = region()
    body = region()

    def infer_types(self) -> Sequence[Type]:
        return [v.type for v in self.inits]

    def check(self) -> str | None:
        want = [v.type for v in self.inits]
        for block in (self.before, self.body):
            if [v.type for v in block.args] != want:
                return "both regions take the carried values"
        last = self.before.ops[-1]
        if not isinstance(last, Condition) or [v.type for v in last.values] != want:
            return "the first region ends in `condition` with the carried values"
        return _yields(self.body.ops[-1], want)


class Condition(Op):
    """Ends the first region of `while`: go on?, and with which values."""

    name = "condition"
    effect = Effect.CONTROL
    terminator = True
    go_on = operand(scalar(BOOL))
    values = variadic(ANY)


class If(Op):
    """One of two regions; both yield values of the same types, which are the results."""

    name = "if"
    effect = Effect.CONTROL
    condition = operand(scalar(BOOL))
    then = region()
    orelse = region()

    def infer_types(self) -> Sequence[Type]:
        last = self.then.ops[-1]
        return [v.type for v in last.operands]

    def check(self) -> str | None:
        want = [v.type for v in self.results]
        return _yields(self.then.ops[-1], want) or _yields(self.orelse.ops[-1], want)


class Return(Op):
    """Ends a function."""

    name = "return"
    effect = Effect.CONTROL
    terminator = True


class Assert(Op):
    """Stops the kernel with `message` where `condition` does not hold."""

    name = "assert"
    effect = Effect.SYNC
    condition = operand(scalar(BOOL))
    message = attr(str, "")


class Printf(Op):
    """Prints from the device; `format` is C's, one conversion for each value."""

    name = "printf"
    effect = Effect.SYNC
    values = variadic(SCALAR)
    format = attr(str)


def _yields(last: Op, want: Sequence[Type]) -> str | None:
    got = [v.type for v in last.operands]
    if not isinstance(last, Yield) or got != list(want):
        return f"region yields {[str(t) for t in got]}, expected {[str(t) for t in want]}"
    return None
