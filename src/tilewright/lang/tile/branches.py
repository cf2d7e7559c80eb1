"""Branches on run-time conditions: both arms are captured, what they change is merged.

JOIN     a variable that the arms leave with different values of one spec becomes a result
SAME     one that they leave with the same value, or equal constants, stays as it is
CLASH    one that has different specs may not be read afterwards
ONE-ARM  if only one arm falls through, what it leaves is what there is
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tilewright.ir.core import Block, Value
from tilewright.ir.ops.tile.control import Break, Continue, If, Return, Yield
from tilewright.lang.tile import elementary
from tilewright.lang.tile.calls import Calls
from tilewright.lang.tile.carried import (
    Spec,
    build,
    leaf_types,
    leaves_of,
    same_value,
    spec_of,
    unify,
)
from tilewright.lang.tile.errors import TileSyntaxError, TileTypeError
from tilewright.lang.tile.frames import MISSING, Flow
from tilewright.lang.tile.functions import returns_inside
from tilewright.lang.tile.state import emit, new_block
from tilewright.lang.tile.values import Poison, Tile

_ENDS = (Break, Continue, Return, Yield)


@dataclass
class _Arm:
    """One captured branch: its operations, how it ends, and the variables that it leaves."""

    block: Block
    flow: Flow
    locals: dict[str, Any]
    result: Any = None


class Branches(Calls):
    """Evaluates branches."""

    def _arm(self, before: dict[str, Any], run: Callable[[], tuple[Flow, Any]]) -> _Arm:
        frame = self.here
        managers = frame.managers
        frame.locals = dict(before)
        block = new_block()
        with self.trace.inside(block):
            flow, result = run()
        arm = _Arm(block, flow, frame.locals, result)
        frame.locals, frame.managers = dict(before), managers
        return arm

    def _check_region(self, what: str) -> None:
        if self.trace.combining:
            raise TileSyntaxError(
                f"the function of a {self.trace.combining} cannot branch at run time ({what})",
                hint="use ct.where",
            )

    def choose(
        self, cond: Any, then: Callable[[], Any], other: Callable[[], Any], what: str
    ) -> Any:
        """The value of one of two expressions, of which only one is evaluated at run time."""
        self._check_region(what)
        before = self.here.locals

        def run(make: Callable[[], Any]) -> tuple[Flow, Any]:
            return Flow.NEXT, make()

        arms = [self._arm(before, partial(run, make)) for make in (then, other)]
        self.here.locals = before
        (found,) = self._merge_arms(cond, arms, [[arm.result] for arm in arms], [what])
        if isinstance(found, Poison):
            raise TileTypeError(found.why)
        return found

    def _merge_arms(
        self, cond: Tile, arms: Sequence[_Arm], columns: Sequence[list[Any]], names: list[str]
    ) -> list[Any]:
        """Emits the `if`; the values of `names` after it, each arm's given by its column."""
        falling = [i for i, arm in enumerate(arms) if arm.flow is not Flow.LEFT]
        rows = list(zip(*columns, strict=True))
        specs = [_merged(row, falling, name) for row, name in zip(rows, names, strict=True)]
        types = [t for s in specs if isinstance(s, _Join) for t in leaf_types(s.spec)]
        for i, arm in enumerate(arms):
            with self.trace.inside(arm.block):
                if i in falling:
                    self._yield(rows, specs, i)
                else:
                    self.close_block()
        op = emit(If, (cond.ir,), types, regions=[arm.block for arm in arms])
        leaves = iter(op.results)
        return [build(s.spec, leaves) if isinstance(s, _Join) else s.value for s in specs]

    def _yield(self, rows: Sequence[tuple[Any, ...]], specs: Sequence[Any], arm: int) -> None:
        leaves: list[Value] = []
        for row, spec in zip(rows, specs, strict=True):
            if isinstance(spec, _Join):
                leaves += leaves_of(row[arm])
        emit(Yield, leaves)

    def close_block(self) -> None:
        """Ends a block whose end is never reached, if nothing ended it."""
        last = self.trace.block.ops[-1] if self.trace.block.ops else None
        if isinstance(last, _ENDS):
            return
        loop = next((c for c in reversed(self.here.loops) if c is not None), None)
        if loop is None:
            emit(Return)
        else:
            emit(Continue, loop.args)

    # --- the statement --------------------------------------------------------------------------

    def _if(self, node: ast.If, rest: tuple[list[ast.stmt], ...]) -> Flow:
        cond = elementary.truth(self.eval(node.test), "if")
        if isinstance(cond, bool):
            return self.block(node.body if cond else node.orelse)
        self.node = node.test
        self._check_region("if")
        frame = self.here
        before = frame.locals
        if not frame.kernel and returns_inside([node]):
            return self._if_returning(node, cond, rest)

        def run(body: list[ast.stmt]) -> tuple[Flow, Any]:
            return self.block(body), None

        arms = [self._arm(before, partial(run, body)) for body in (node.body, node.orelse)]
        self.node = node
        live = frame.info.live
        wanted = live.after.get(node, frozenset()) | live.always
        names = sorted(
            name
            for name in {n for arm in arms for n in arm.locals}
            if name in wanted
            and any(arm.locals.get(name, MISSING) is not before.get(name, MISSING) for arm in arms)
        )
        columns = [[arm.locals.get(name, MISSING) for name in names] for arm in arms]
        found = self._merge_arms(cond, arms, columns, names)
        # Variables that nobody reads any more have no value after the branch.
        kept = {
            name: x
            for name, x in before.items()
            if all(arm.locals.get(name, MISSING) is x for arm in arms)
        }
        frame.locals = {**kept, **dict(zip(names, found, strict=True))}
        frame.locals = {n: x for n, x in frame.locals.items() if x is not MISSING}
        return Flow.LEFT if all(arm.flow is Flow.LEFT for arm in arms) else Flow.NEXT

    def _if_returning(self, node: ast.If, cond: Tile, rest: tuple[list[ast.stmt], ...]) -> Flow:
        """An `if` with a `return`: what follows the statement belongs to the arms."""
        frame = self.here
        before = frame.locals

        def run(body: list[ast.stmt]) -> tuple[Flow, Any]:
            flow = self.block(body, rest)
            for following in range(len(rest)):
                if flow is not Flow.NEXT:
                    break
                flow = self.block(rest[following], rest[following + 1 :])
            result = frame.result if flow is Flow.RETURNED else None
            frame.result = None
            return Flow.RETURNED, result

        arms = [self._arm(before, partial(run, body)) for body in (node.body, node.orelse)]
        self.node = node
        (found,) = self._merge_arms(
            cond, arms, [[arm.result] for arm in arms], [f"what {frame.info.name} returns"]
        )
        if isinstance(found, Poison):
            raise TileTypeError(found.why)
        frame.locals = before
        frame.result = found
        return Flow.RETURNED


@dataclass(frozen=True)
class _Keep:
    """A value that needs no result of the `if`."""

    value: Any


@dataclass(frozen=True)
class _Join:
    spec: Spec


def _merged(row: Sequence[Any], falling: Sequence[int], name: str) -> _Keep | _Join:
    """How a variable comes out of a branch; `row` has its value in each arm."""
    values = [row[i] for i in falling]
    if not values:
        return _Keep(MISSING)
    if any(v is MISSING for v in values):
        if all(v is MISSING for v in values):
            return _Keep(MISSING)
        return _Keep(Poison(f"{name} has a value in one branch only"))
    for v in values:
        if isinstance(v, Poison):
            return _Keep(v)
    if all(same_value(values[0], v) for v in values) and not _run_time(values[0], len(values)):
        return _Keep(values[0])
    spec: Spec | None = spec_of(values[0])
    for v in values[1:]:
        spec = None if spec is None else unify(spec, spec_of(v))
    if spec is None:
        shown = " in one branch, ".join(str(spec_of(v)) for v in values)
        return _Keep(Poison(f"{name} has different types: {shown} in the other"))
    return _Join(spec)


def _run_time(x: Any, arms: int) -> bool:
    """Whether a value was made inside of the only arm that falls through."""
    return arms == 1 and bool(_has_value(x))


def _has_value(x: Any) -> bool:
    if isinstance(x, bool | int | float | str) or x is None:
        return False
    return not (isinstance(x, Tile) and x.const is not None) and bool(leaf_types(spec_of(x)))
