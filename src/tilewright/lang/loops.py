"""Loops at run time: `for` over `range` and `while`, with the values that they carry.

Which cells a loop body changes is known only after it has been traced.  The first trace carries
the run-time numbers of the names that the rewriter found; where the body then changes anything
else (a Python number, an attribute of an object), the trace is thrown away and repeated with that
carried too.  What is carried but comes out unchanged is pruned at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.errors import CaptureError, Loc
from tilewright.ir.core import Block, Op, Value, replace_uses
from tilewright.ir.ops import control
from tilewright.lang.carried import (
    UNDEF,
    Key,
    Mismatch,
    Path,
    Places,
    State,
    common_ir_type,
    from_ir_value,
    generalised,
    ir_type,
    is_register,
    is_run_time,
    join_kind,
    leaf_kind,
    map_leaves,
    pair_leaves,
    substitute,
    to_ir,
)
from tilewright.lang.regions import (
    Cell,
    Site,
    check_length,
    close_block,
    compare,
    hint,
    is_undefined,
    open_block,
    results_of,
    snapshot,
)
from tilewright.lang.scalar import Scalar, is_number, static_number
from tilewright.lang.trace import Trace

_AROUND = ("before the loop", "after its body")
_MOST_TRACES = 16


class StaticLoop:
    """A loop over a Python iterable: unrolled while tracing, as Python does it."""

    __slots__ = ("_item", "_items")
    static = True

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items
        self._item: Any = None

    def again(self) -> bool:
        try:
            self._item = next(self._items)
        except StopIteration:
            return False
        return True

    def item(self) -> Any:
        return self._item

    def begin(self, names: tuple[Any, ...], _loaded: tuple[Any, ...]) -> tuple[Any, ...]:
        return names

    def end(self, names: tuple[Any, ...]) -> tuple[Any, ...]:
        return names

    def results(self, names: tuple[Any, ...]) -> tuple[Any, ...]:
        return names


@dataclass
class Carried:
    """One leaf that the loop carries: where it is, of which type, and its value on entry."""

    kind: Any
    init: Value
    leaf: Any


class RunTimeLoop:
    """What `for` and `while` share: retracing, and finding what changes."""

    static = False

    def __init__(self, trace: Trace, site: Site, loc: Loc | None) -> None:
        self.trace = trace
        self.site = site
        self.loc = loc
        self.kinds: dict[Cell, Any] = {}
        self.places = Places(())
        self.before: State = {}
        self.carried: dict[Cell, Carried] = {}
        self.general: set[Key] = set()
        """The cells that only have one form once they are `generalised`."""
        self.traces = 0
        self.done = False
        self.mark = 0
        self.kernels: dict[str, Any] = {}
        self.memory_key: object = None
        self.after: State = {}

    # Entering.

    def _remember_entry(self, names: tuple[Any, ...], loaded: tuple[Any, ...]) -> None:
        """Takes the snapshot that every trace of the body starts from."""
        self.places = Places((*names, *loaded))
        self.before = snapshot(self.site, names, self.places)
        self.mark = len(self.trace.builder.block.ops)
        self.kernels = dict(self.trace.module.kernels)
        self.memory_key = self.trace.next_loop(self.site)
        for name in self.site.names:
            self._note_run_time(name)
        self._recall()

    def _note_run_time(self, key: Key) -> None:
        """Has the run-time leaves of a cell carried from the first trace on."""

        def note(path: Path, leaf: Any) -> Any:
            if is_run_time(leaf) and not is_register(leaf):
                self.kinds.setdefault((key, path), leaf_kind(leaf, leaf))
            return leaf

        map_leaves(self.before[key], note, into_places=False)

    def _recall(self) -> None:
        """Starts from what an earlier trace of the enclosing body learned about this loop."""
        for cell, kind in self.trace.loop_memory.get(self.memory_key, {}).items():
            self.kinds.setdefault(cell, kind)

    def _make_inits(self) -> None:
        """Materialises the carried leaves' values on entry."""
        self.carried = {}
        for key in self.general:
            self.before[key] = generalised(self.before[key])
            self._note_run_time(key)
        for key, start in self.before.items():

            def collect(path: Path, leaf: Any, key: Key = key) -> Any:
                kind = self.kinds.get((key, path))
                if kind is not None and _fits(leaf, kind):
                    init = to_ir(leaf, kind)
                    self.carried[key, path] = Carried(kind, init, leaf)
                return leaf

            map_leaves(start, collect)

    def _start_state(self, args: list[Value]) -> State:
        """The cells at the start of a block whose arguments are the carried leaves."""
        new = {
            cell: from_ir_value(arg, c.kind)
            for (cell, c), arg in zip(self.carried.items(), args, strict=True)
        }
        touched = {key for key, _ in new}
        state = {
            key: substitute(key, item, new) if key in touched else item
            for key, item in self.before.items()
        }
        self.places.write(state)
        return state

    def _new_block(self, first: list[Any] | None = None) -> Block:
        first = first or []
        types = [*first, *(ir_type(c.kind) for c in self.carried.values())]
        return Block(types, [""] * len(first) + [hint(cell) for cell in self.carried])

    # Leaving.

    def _leaves_after(self, start: State, end: State) -> tuple[dict[Cell, Any], bool]:
        """The carried leaves at the end of a block, and whether everything changed is carried."""
        found: dict[Cell, Any] = {}
        settled = True
        for key in start | end:
            a, b = start.get(key, UNDEF), end.get(key, UNDEF)
            if a is b:
                continue
            if is_undefined(a) or is_undefined(b):
                check_length(key, self.places, self.loc, _AROUND[is_undefined(a)])
                continue
            if key in self.general:
                b = end[key] = generalised(b)
            try:
                pairs = pair_leaves(a, b)
            except Mismatch:
                if key in self.general or (generalised(a) is a and generalised(b) is b):
                    compare(key, a, b, self.places, self.site, self.loc, _AROUND)
                self.general.add(key)
                settled = False
                continue
            for pair in pairs:
                cell = (key, pair.path)
                old = self.kinds.get(cell)
                if old is None and pair.agree():
                    continue
                kind = leaf_kind(pair.a, pair.b) if old is None else join_kind(old, pair.b)
                if kind != old or cell not in self.carried:
                    self.kinds[cell] = kind
                    settled = False
                found[cell] = pair.b
        return found, settled

    def _to_values(self, leaves: Mapping[Cell, Any], args: list[Value]) -> list[Value]:
        return [
            to_ir(leaves[cell], c.kind) if cell in leaves else arg
            for (cell, c), arg in zip(self.carried.items(), args, strict=True)
        ]

    def _retrace(self) -> None:
        """Throws the trace away; the next one starts from the same state."""
        self.traces += 1
        if self.traces > _MOST_TRACES:
            raise CaptureError(
                f"the values that this loop carries do not settle after {_MOST_TRACES} traces",
                loc=self.loc,
                hint="make the types of the loop's variables explicit before it",
            )
        del self.trace.builder.block.ops[self.mark :]
        self.trace.module.kernels.clear()
        self.trace.module.kernels.update(self.kernels)
        self.places.restore()
        self.trace.release_prints(keep=False)

    def _finish(self, start: State, end: State, results: Mapping[Cell, Value | None]) -> None:
        """The cells after the loop; a result of None is a carried leaf that nothing changed."""
        self.trace.loop_memory[self.memory_key] = self.kinds
        new = {}
        changed = set()
        for cell, value in results.items():
            c = self.carried[cell]
            new[cell] = c.leaf if value is None else from_ir_value(value, c.kind)
            if value is not None:
                changed.add(cell[0])
        after: State = {}
        for key in start | end:
            a, b = start.get(key, UNDEF), end.get(key, UNDEF)
            if (a is b and key not in changed) or is_undefined(a) or is_undefined(b):
                after[key] = self.before.get(key, UNDEF) if a is b else UNDEF
            else:
                after[key] = substitute(key, b, new)
        self.places.write(after)
        self.after = after
        self.done = True
        self.trace.release_prints(keep=True)

    def results(self, names: tuple[Any, ...]) -> tuple[Any, ...]:
        """The names after the loop."""
        return names if self.static else results_of(self.site, self.after)


def _fits(leaf: Any, kind: Any) -> bool:
    """Whether a leaf can be carried as `kind`, which an earlier trace found."""
    if isinstance(kind, type):
        return is_number(leaf)
    return isinstance(leaf, Value) and common_ir_type(leaf.type, kind) == kind


class ForLoop(RunTimeLoop):
    """`for i in range(start, stop, step)` as an IR loop."""

    def __init__(
        self,
        trace: Trace,
        bounds: tuple[Scalar, Scalar, Scalar],
        unroll: int,
        site: Site,
        loc: Loc | None,
    ) -> None:
        super().__init__(trace, site, loc)
        self.bounds = bounds
        self.kind = type(bounds[0])
        self.unroll = unroll
        self.body = Block()
        self.start: State = {}
        self.ends: list[Value] = []
        self.last_index: State = {}

    def again(self) -> bool:
        return not self.done

    def begin(self, names: tuple[Any, ...], loaded: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.traces == 0 and self.memory_key is None:
            self._remember_entry(names, loaded)
        self.trace.enter_loop(self.memory_key)
        self.trace.hold_prints()
        self._make_inits()
        self.ends = [b.ir_value() for b in self.bounds]
        self.body = self._new_block([ir_type(self.kind)])
        open_block(self.trace, self.body)
        self.start = self._start_state(self.body.args[1:])
        return results_of(self.site, self.start)

    def item(self) -> Any:
        return self.kind._of(self.body.args[0])

    def end(self, names: tuple[Any, ...]) -> tuple[Any, ...]:
        end = snapshot(self.site, names, self.places)
        args = self.body.args[1:]
        leaves, settled = self._leaves_after(self.start, end)
        yields = self._to_values(leaves, args) if settled else []
        close_block(self.trace, self.body, self.loc)
        self.trace.leave_loop()
        if not settled:
            self._retrace()
            return results_of(self.site, self.before)
        cells = list(self.carried)
        kept = [i for i, (arg, y) in enumerate(zip(args, yields, strict=True)) if y is not arg]
        pruned = {args[i]: self.carried[c].init for i, c in enumerate(cells) if i not in kept}
        replace_uses(self.body, pruned)
        builder = self.trace.builder
        with builder.inside(self.body):
            last = builder.emit(control.Yield, *(yields[i] for i in kept), loc=self.loc)
        # A yield may hand on a pruned argument of another cell.
        last.operands = tuple(pruned.get(v, v) for v in last.operands)
        self.body.args[1:] = [args[i] for i in kept]
        inits = [self.carried[cells[i]].init for i in kept]
        op = builder.emit(
            control.For, *self.ends, *inits, regions=(self.body,), unroll=self.unroll, loc=self.loc
        )
        name_results(op, [cells[i] for i in kept])
        results: dict[Cell, Value | None] = dict.fromkeys(cells)
        results.update({cells[i]: v for i, v in zip(kept, op.results, strict=True)})
        self._keep_last_index(end)
        self._finish(self.start, end, results)
        return results_of(self.site, self.after)

    def _keep_last_index(self, end: State) -> None:
        """Gives the loop variable its last value afterwards, where the trip count is known."""
        trips = static_range(self.bounds)
        for name in self.site.names:
            item = end.get(name)
            if (
                trips
                and is_undefined(self.before[name])
                and isinstance(item, Scalar)
                and item.raw is self.body.args[0]
            ):
                self.last_index[name] = self.kind(trips[-1])

    def results(self, _names: tuple[Any, ...]) -> tuple[Any, ...]:
        return results_of(self.site, self.after | self.last_index)


def static_range(bounds: tuple[Scalar, ...]) -> range | None:
    """The range, if all of its bounds are known at compile time."""
    known = [static_number(b) for b in bounds]
    if any(n is None for n in known):
        return None
    return range(*(int(n) for n in known if n is not None))


def name_results(op: Op, cells: list[Cell]) -> None:
    for result, cell in zip(op.results, cells, strict=True):
        result.name = hint(cell)
