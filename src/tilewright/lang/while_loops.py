"""`while` at run time; see `loops` for what loops share."""

from __future__ import annotations

from typing import Any

from tilewright.errors import CaptureError, Loc
from tilewright.ir.core import Block, Value, replace_uses
from tilewright.ir.ops import control
from tilewright.lang import trace as tracer
from tilewright.lang.carried import State
from tilewright.lang.loops import RunTimeLoop, name_results
from tilewright.lang.regions import (
    Cell,
    Site,
    close_block,
    decide,
    open_block,
    results_of,
    snapshot,
)
from tilewright.lang.trace import Trace
from tilewright.numeric.dtypes import BOOL

_MOST_ITERATIONS = 1 << 16


class WhileLoop(RunTimeLoop):
    """`while condition`: Python's own loop as long as the condition is known at compile time.

    The condition is first tried in the enclosing block (a probe); when it turns out to be known
    only at run time, the probe is thrown away and the rest of the loop becomes an IR `while`.
    """

    static = True

    def __init__(self, trace: Trace, site: Site, loc: Loc | None) -> None:
        super().__init__(trace, site, loc)
        self.iterations = 0
        self.before_block = Block()
        self.body_block = Block()
        self.start: State = {}
        self.middle: State = {}
        self.test_leaves: dict[Cell, Any] = {}
        self.test_settled = True
        self.go_on: Value | None = None

    def again(self) -> bool:
        return not self.done

    def begin(self, names: tuple[Any, ...], loaded: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.static:
            self.memory_key = None
            self.kinds = {}
            self._remember_entry(names, loaded)
            return names
        self.trace.enter_loop(self.memory_key)
        self.trace.hold_prints()
        self._make_inits()
        self.before_block = open_block(self.trace, self._new_block())
        self.start = self._start_state(self.before_block.args)
        return results_of(self.site, self.start)

    def test(self, condition: Any) -> bool:
        """Whether to trace the body (again)."""
        decided = decide(condition)
        if self.static:
            return self._probe(decided)
        if not isinstance(decided, Value):
            decided = tracer.constant(decided, BOOL)
        names = results_of(self.site, self.start)
        self.middle = snapshot(self.site, names, self.places)
        self.test_leaves, self.test_settled = self._leaves_after(self.start, self.middle)
        self.go_on = decided
        return True

    def _probe(self, decided: bool | Value) -> bool:
        if isinstance(decided, Value):
            del self.trace.builder.block.ops[self.mark :]
            self.places.restore()
            self.static = False
            return False
        self.done = not decided
        self.iterations += 1
        if self.iterations > _MOST_ITERATIONS:
            raise CaptureError(
                f"while: the condition is known at compile time and still true after"
                f" {_MOST_ITERATIONS} iterations",
                loc=self.loc,
                hint="make the loop's counter a run-time value, such as Int32(0), to get a loop",
            )
        return decided

    def body(self, names: tuple[Any, ...]) -> tuple[Any, ...]:
        """The names at the start of the body."""
        if self.static:
            return names
        handed = self._to_values(self.test_leaves, self.before_block.args)
        assert self.go_on is not None, "the body follows the test"
        self.trace.builder.emit(control.Condition, self.go_on, *handed, loc=self.loc)
        close_block(self.trace, self.before_block, self.loc)
        self.body_block = open_block(self.trace, self._new_block())
        self.middle = self._start_state(self.body_block.args)
        return results_of(self.site, self.middle)

    def end(self, names: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.static:
            return names
        end = snapshot(self.site, names, self.places)
        args = self.body_block.args
        leaves, settled = self._leaves_after(self.middle, end)
        settled = settled and self.test_settled
        yields = self._to_values(leaves, args) if settled else []
        if settled:
            self.trace.builder.emit(control.Yield, *yields, loc=self.loc)
        close_block(self.trace, self.body_block, self.loc)
        self.trace.leave_loop()
        if not settled:
            self._retrace()
            return results_of(self.site, self.before)
        cells = list(self.carried)
        handed = self.before_block.ops[-1].operands[1:]
        kept = [
            i
            for i, (arg, y) in enumerate(zip(args, yields, strict=True))
            if y is not arg or handed[i] is not self.before_block.args[i]
        ]
        inits = self._prune(cells, kept)
        op = self.trace.builder.emit(
            control.While, *inits, regions=(self.before_block, self.body_block), loc=self.loc
        )
        name_results(op, [cells[i] for i in kept])
        results: dict[Cell, Value | None] = dict.fromkeys(cells)
        results.update({cells[i]: v for i, v in zip(kept, op.results, strict=True)})
        self._finish(self.middle, end, results)
        return results_of(self.site, self.after)

    def _prune(self, cells: list[Cell], kept: list[int]) -> list[Value]:
        """Drops the carried leaves that nothing changes; the inits of the others."""
        for block, fixed in ((self.before_block, 1), (self.body_block, 0)):
            last = block.ops[-1]
            values = last.operands[fixed:]
            last.operands = (*last.operands[:fixed], *(values[i] for i in kept))
            gone = {
                block.args[i]: self.carried[c].init for i, c in enumerate(cells) if i not in kept
            }
            replace_uses(block, gone)
            block.args[:] = [block.args[i] for i in kept]
        return [self.carried[cells[i]].init for i in kept]
