"""Loops: the body is captured with one argument for each value that an iteration hands on.

CARRIED   a variable that the body assigns, and that the next iteration or the code after the
          loop reads, is handed on; a constant becomes a tile of its own type
RETRY     if the body leaves a carried variable with another spec, the body is captured again
          without it: it may then not be read at its start, nor after the loop
BREAK     `for` has no exit in Tile IR: after `break` its iterations do nothing (a flag is
          handed on); `while` is Tile IR's `loop`, whose `break` hands out the results
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.ops.tile.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.tile_types import NUMBERS, TileType
from tilewright.lang.tile import elementary
from tilewright.lang.tile.branches import Branches
from tilewright.lang.tile.carried import (
    Spec,
    build,
    dummy_leaves,
    leaf_types,
    leaves_of,
    same_value,
    spec_of,
    unify,
)
from tilewright.lang.tile.convert import promoted
from tilewright.lang.tile.dtypes import bool_, int32
from tilewright.lang.tile.errors import TileSyntaxError, TileTypeError
from tilewright.lang.tile.frames import MISSING, Flow, LoopContext, RangeValue
from tilewright.lang.tile.functions import RETVAL
from tilewright.lang.tile.state import emit, new_block
from tilewright.lang.tile.values import (
    Poison,
    Tile,
    as_tile,
    constant_of,
    described,
    is_number,
    strict,
)

_I1 = TileType((), NUMBERS["i1"])


class _Respecify(Exception):
    """The body leaves `name` as `spec`, which is not what its iterations begin with."""

    def __init__(self, name: str, spec: Spec | None, why: str) -> None:
        super().__init__(name)
        self.name, self.spec, self.why = name, spec, why


def _breaks(body: list[ast.stmt]) -> bool:
    """Whether statements leave the loop that they stand in."""
    for node in body:
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, ast.For | ast.While | ast.FunctionDef):
            continue
        for label in ("body", "orelse"):
            inner = getattr(node, label, None)
            if isinstance(inner, list) and _breaks(inner):
                return True
    return False


class Loops(Branches):
    """Evaluates loops."""

    def _for(self, node: ast.For) -> Flow:
        if node.orelse:
            raise self.syntax(node.orelse[0], "the else of a for loop is not supported")
        if self.is_static_iter(node.iter):
            return self._static_for(node)
        iterable = self.eval(node.iter)
        self.node = node.iter
        if not isinstance(iterable, RangeValue):
            raise TileTypeError(
                f"a for loop of tile code iterates over range(...), got {described(iterable)}",
                hint="ct.static_iter(...) repeats the body at compile time",
            )
        self._check_loop()
        ends = (iterable.start, iterable.stop, iterable.step)
        dtype = int32
        for end in ends:
            tile = as_tile(end, "range()")
            dtype = _wider(dtype, tile) if constant_of(end) is None else dtype
        start, stop, step = (promoted(end, dtype, (), "range()") for end in ends)

        def begin(block: Block) -> None:
            self.bind(node.target, Tile(block.args[0], dtype, ()))

        return self._counted(node, [start.ir, stop.ir, step.ir], begin)

    def _check_loop(self) -> None:
        if self.trace.combining:
            raise TileSyntaxError(f"the function of a {self.trace.combining} cannot have a loop")

    def _static_for(self, node: ast.For) -> Flow:
        assert isinstance(node.iter, ast.Call), "a call of static_iter"
        for item in self.static_items(node.iter):
            self.bind(node.target, item)
            self.here.loops.append(None)
            flow = self.block(node.body)
            self.here.loops.pop()
            if flow is not Flow.NEXT:
                return flow
        return Flow.NEXT

    def _entry(self, names: list[str], before: dict[str, Any]) -> dict[str, Spec]:
        """The variables that have a value when the loop begins."""
        found: dict[str, Spec] = {}
        for name in names:
            x = before.get(name, MISSING)
            if x is not MISSING and not isinstance(x, Poison):
                found[name] = spec_of(x)
        return found

    def _capture(
        self,
        node: ast.For | ast.While,
        make: Callable[[dict[str, Spec], dict[str, Any]], Any],
    ) -> tuple[Any, dict[str, str]]:
        """Captures the body until its variables keep their specs (rule RETRY).

        What was captured, and for each variable that could not be kept, why.
        """
        frame = self.here
        before = dict(frame.locals)
        specs = self._entry(sorted(frame.info.live.carried(node)), before)
        poisoned: dict[str, str] = {}
        loops, depth, managers = len(frame.loops), len(self.trace.blocks), frame.managers
        while True:
            frame.locals, frame.managers = dict(before), managers
            for name, why in poisoned.items():
                frame.locals[name] = Poison(why)
            try:
                found = make(specs, before)
                frame.managers = managers  # a body that never ends normally leaves its own
                return found, poisoned
            except _Respecify as change:
                del frame.loops[loops:]
                del self.trace.blocks[depth:]
                self.frame = frame
                if change.spec is None:
                    specs.pop(change.name, None)
                    poisoned[change.name] = change.why
                else:
                    specs[change.name] = change.spec

    def _arguments(self, block: Block, first: int, specs: dict[str, Spec]) -> None:
        leaves = iter(block.args[first:])
        for name, spec in specs.items():
            self.here.locals[name] = build(spec, leaves)

    def _initial(self, specs: dict[str, Spec], before: dict[str, Any]) -> list[Value]:
        out: list[Value] = []
        for name, spec in specs.items():
            x = before.get(name, MISSING)
            if x is MISSING or isinstance(x, Poison):
                dummy = dummy_leaves(spec)
                assert dummy is not None, "only variables with a dummy are carried undefined"
                out += dummy
            else:
                out += leaves_of(x)
        return out

    def _handed_on(self, context: LoopContext) -> list[Value]:
        """The leaves of the carried variables at the end of an iteration.

        Raises: _Respecify if a variable has changed its spec.
        """
        out: list[Value] = []
        for name, spec in context.specs.items():
            x = self.here.locals.get(name, MISSING)
            if x is MISSING and name == RETVAL:
                out += dummy_leaves(spec) or []
                continue
            if isinstance(x, Poison):
                raise _Respecify(name, None, x.why)
            if x is MISSING:
                raise _Respecify(name, None, f"{name} may have no value here")
            now = spec_of(x)
            merged = unify(spec, now)
            if merged is None:
                why = f"{name} changes its type inside of a loop: from {spec} to {now}"
                raise _Respecify(name, None, why)
            if merged != spec:
                raise _Respecify(name, merged, "")
            out += leaves_of(x)
        self._learn(context)
        return out

    def _learn(self, context: LoopContext) -> None:
        """The value of a `return` inside of a loop is carried from where it is first known."""
        x = self.here.locals.get(RETVAL, MISSING)
        if x is not MISSING and RETVAL not in context.specs and context.kind == "for":
            spec = spec_of(x)
            if dummy_leaves(spec) is None:
                raise TileTypeError(f"{spec} cannot be returned from inside of a loop")
            raise _Respecify(RETVAL, spec, "")

    # --- for ------------------------------------------------------------------------------------

    def _counted(self, node: ast.For, bounds: list[Value], begin: Callable[[Block], None]) -> Flow:
        leaves = _breaks(node.body)

        def make(specs: dict[str, Spec], before: dict[str, Any]) -> tuple[Op, dict[str, Spec]]:
            carried = [t for spec in specs.values() for t in leaf_types(spec)]
            flags = [_I1] if leaves else []
            index: Any = bounds[0].type
            initial = self._initial(specs, before)
            if leaves:
                initial.append(strict(False, bool_).ir)
            block = new_block([index, *carried, *flags])
            context = LoopContext(
                "for",
                specs,
                list(block.args[1:]),
                leaves,
                managers=len(self.here.managers),
            )
            self.here.loops.append(context)
            with self.trace.inside(block):
                if leaves:
                    self._skip_if_left(context)
                self._arguments(block, 1, specs)
                begin(block)
                if self.block(node.body) is Flow.NEXT:
                    self._continue()
                else:
                    self.close_block()
            self.here.loops.pop()
            self.node = node
            op = emit(
                For,
                [*bounds, *initial],
                [*carried, *flags],
                regions=(block,),
            )
            return op, specs

        before = dict(self.here.locals)
        (op, specs), poisoned = self._capture(node, make)
        self._after(node, before, specs, list(op.results), poisoned, "for")
        return Flow.NEXT

    def _skip_if_left(self, context: LoopContext) -> None:
        """Rule BREAK: nothing happens in the iterations after a `break`."""
        blocks = [new_block(), new_block()]
        with self.trace.inside(blocks[0]):
            emit(Continue, context.args)
        with self.trace.inside(blocks[1]):
            emit(Yield)
        emit(If, (context.args[-1],), (), regions=blocks)

    def _after(
        self,
        node: ast.For | ast.While,
        before: dict[str, Any],
        specs: dict[str, Spec],
        leaves: list[Value],
        poisoned: dict[str, str],
        kind: str,
    ) -> None:
        """The variables after a loop."""
        frame = self.here
        frame.locals = dict(before)
        for name in frame.info.live.carried(node):
            if name not in specs:
                why = poisoned.get(name)
                if why is None:
                    why = f"{name} may have no value here: it is assigned inside of a {kind} loop"
                frame.locals[name] = Poison(why)
        rest = iter(leaves)
        for name, spec in specs.items():
            frame.locals[name] = build(spec, rest)

    def _continue(self) -> None:
        context = self._loop("continue")
        leaves = self._handed_on(context)
        if context.has_break:
            leaves.append(context.args[-1])
        emit(Continue, leaves)

    def _loop(self, word: str) -> LoopContext:
        context = self.here.loops[-1] if self.here.loops else None
        if context is None:
            raise TileSyntaxError(f"{word} cannot leave a loop over static_iter(...)")
        return context

    def _break(self) -> None:
        context = self._loop("break")
        if context.kind == "for":
            leaves = self._handed_on(context)
            emit(Continue, [*leaves, strict(True, bool_).ir])
            return
        values = {
            name: (spec_of(x), leaves_of(x), x)
            for name in context.results
            if (x := self.here.locals.get(name, MISSING)) is not MISSING
            and not isinstance(x, Poison)
        }
        context.breaks.append((emit(Break), self.trace.block, values))

    # --- while ----------------------------------------------------------------------------------

    def _while(self, node: ast.While) -> Flow:
        if node.orelse:
            raise self.syntax(node.orelse[0], "the else of a while loop is not supported")
        self.node = node
        self._check_loop()
        before = dict(self.here.locals)
        live = self.here.info.live
        names = tuple(
            sorted(live.carried(node) & (live.after.get(node, frozenset()) | live.always))
        )

        def make(specs: dict[str, Spec], before: dict[str, Any]) -> tuple[Any, ...]:
            carried = [t for spec in specs.values() for t in leaf_types(spec)]
            initial = self._initial(specs, before)
            block = new_block(carried)
            context = LoopContext(
                "while",
                specs,
                list(block.args),
                results=names,
                managers=len(self.here.managers),
            )
            self.here.loops.append(context)
            with self.trace.inside(block):
                self._arguments(block, 0, specs)
                if self._test(node) and self.block(node.body) is Flow.NEXT:
                    self._continue()
                else:
                    self.close_block()
            self.here.loops.pop()
            self.node = node
            results, known = self._results(context)
            types = [t for spec in results.values() for t in leaf_types(spec)]
            op = emit(Loop, initial, types, regions=(block,))
            return op, results, known, bool(context.breaks)

        (op, results, known, ends), poisoned = self._capture(node, make)
        self._after(node, before, results, list(op.results), poisoned, "while")
        self.here.locals.update(known)
        if not ends:
            raise self.syntax(node, "this loop never ends", hint="leave it with break or return")
        return Flow.NEXT

    def _test(self, node: ast.While) -> bool:
        """Leaves the loop if the condition is false; whether the body can be reached at all."""
        cond = elementary.truth(self.eval(node.test), "while")
        self.node = node.test
        if isinstance(cond, bool):
            if not cond:
                self._break()
            return cond
        blocks = [new_block(), new_block()]
        with self.trace.inside(blocks[0]):
            emit(Yield)
        with self.trace.inside(blocks[1]):
            self._break()
        emit(If, (cond.ir,), (), regions=blocks)
        return True

    def _results(self, context: LoopContext) -> tuple[dict[str, Spec], dict[str, Any]]:
        """What every `break` leaves: the results of the loop, and what is known without it.

        A variable that all of them leave with one constant keeps it; one that they leave with
        different specs, or not at all, may not be read.
        """
        found: dict[str, Spec] = {}
        known: dict[str, Any] = {}
        exits = context.breaks
        for name in context.results:
            left = [values[name] for _, _, values in exits if name in values]
            missing = len(left) < len(exits)
            if not left or (missing and name != RETVAL):
                known[name] = Poison(f"{name} may have no value here: not every break sets it")
                continue
            first = left[0][2]
            if not missing and is_number(first) and all(same_value(first, x) for _, _, x in left):
                known[name] = first
                continue
            spec: Spec | None = left[0][0]
            for other, _, _ in left[1:]:
                spec = None if spec is None else unify(spec, other)
            if spec is None:
                shown = " and ".join(sorted({str(k) for k, _, _ in left}))
                known[name] = Poison(f"{name} leaves the loop with different types: {shown}")
            else:
                found[name] = spec
        for op, home, values in exits:
            self._patch(op, home, found, values)
        return found, known

    def _patch(self, op: Op, home: Block, results: dict[str, Spec], values: dict[str, Any]) -> None:
        """Gives a `break` its operands, now that the results of its loop are known."""
        leaves: list[Value] = []
        for name, spec in results.items():
            if name in values:
                leaves += values[name][1]
                continue
            made = new_block()
            with self.trace.inside(made):
                dummy = dummy_leaves(spec)
            if dummy is None:
                raise TileTypeError(f"{spec} cannot be returned from inside of a loop")
            leaves += dummy
            at = home.ops.index(op)
            home.ops[at:at] = made.ops
        op.operands = tuple(leaves)


def _wider(dtype: Any, tile: Tile) -> Any:
    return tile.dtype_ if tile.dtype_.bitwidth > dtype.bitwidth else dtype
