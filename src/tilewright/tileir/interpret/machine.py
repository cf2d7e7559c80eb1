"""Interpreting an entry of a Tile IR module: every block of a grid, on arrays in this process.

>>> import numpy as np
>>> from tilewright.tileir.check import load_text
>>> module = load_text('''cuda_tile.module @m {
...   entry @twice(%p: tile<ptr<f32>>, %factor: tile<f32>) {
...     %x, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
...     %y = mulf %x, %factor : tile<f32>
...     %u = store_ptr_tko weak %p, %y token = %t : tile<ptr<f32>>, tile<f32> -> token
...     print_tko "%.1f", %y : tile<f32> -> token
...   }
... }''')
>>> x = np.float32([3])
>>> interpret(module, "twice", (1, 1, 1), [x, 2]).printed, x
(('6.0',), array([6.], dtype=float32))
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.errors import LaunchError
from tilewright.ir.core import Block, Effect, Op
from tilewright.ir.ops.tile import control, memory, module
from tilewright.ir.tile_types import TileType
from tilewright.tileir.interpret.arguments import bound
from tilewright.tileir.interpret.findings import Finding, FindingLog, findings_error
from tilewright.tileir.interpret.memory import Memory
from tilewright.tileir.interpret.pointer_ops import shared_allocations
from tilewright.tileir.interpret.scope import Frame, Run, Scope, Step, run_steps
from tilewright.tileir.interpret.table import TABLE
from tilewright.tileir.interpret.tokens import Tracker
from tilewright.tileir.interpret.turns import Job, Pause, may_spin, take_turns
from tilewright.tileir.interpret.values import pointee_row

__all__ = ["Memory", "Options", "Program", "Report", "compile_entry", "interpret"]


@dataclass(frozen=True, slots=True)
class Options:
    """How to run.

    adversarial: run accesses that no token orders in another order, drawn with `seed`, and blocks
    in another order too; the result changes only if the kernel lacks a token or races.
    check_tokens: report accesses of one block to the same bytes, one a write, that no token
    orders (always, if adversarial).
    max_iterations: of one `loop`, before it is given up as one that never ends.
    echo: called with each printed text at once.
    """

    adversarial: bool = False
    seed: int = 0
    check_tokens: bool = False
    raise_on_findings: bool = True
    max_findings: int = 100
    max_iterations: int = 1_000_000
    echo: Callable[[str], None] | None = None

    def describe(self) -> str:
        """The options that make a run happen again."""
        if self.adversarial:
            return f"Options(adversarial=True, seed={self.seed})"
        return "Options(check_tokens=True)" if self.check_tokens else ""


DEFAULT = Options()
_PATIENCE = 64
"""Iterations of a loop that may wait for another block before the others get their turn."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did.  `printed` has one text per execution of `print_tko`."""

    printed: tuple[str, ...]
    findings: tuple[Finding, ...]
    blocks: int


class Program:
    """An entry as closures, for many launches.

    `uniform` steps depend on parameters alone and run once per launch, `steps` once per block.
    """

    def __init__(self, top: module.Module, entry: module.Entry, options: Options) -> None:
        self.name = entry.sym_name
        self.options = options
        self._tracked = options.adversarial or options.check_tokens
        self.parameters = tuple(entry.body.args)
        for p in self.parameters:
            if not isinstance(p.type, TileType):
                raise LaunchError(
                    f"interpret {self.name}: parameter %{p.name} is {p.type}, expected a tile",
                    loc=entry.loc,
                )
        scope = Scope(TABLE, self._tracked, self._chance())
        self._slots = scope.slots(self.parameters)
        self._declared = _globals(top, scope)
        uniform = _uniform(entry.body)
        chosen = set(uniform)
        self._uniform = _steps(scope, uniform)
        self._steps = scope.body(entry.body, without=chosen)
        self._shared = shared_allocations(entry)
        self._may_wait = may_spin(entry.body)
        self._template = scope.template

    def run(self, grid: Sequence[int], args: Sequence[Any], memory: Memory | None = None) -> Report:
        """Runs every block of the grid; stores land in the arrays among `args`.

        Raises: LaunchError if the grid or the arguments do not fit; SimulationError, with
        `.findings`, after a run with findings (see `Options`).
        """
        options = self.options
        x, y, z = _grid(self.name, grid)
        memory = memory or Memory()
        log = FindingLog(options.max_findings)
        values = bound(self.name, self.parameters, args, memory)
        start = memory.mark()
        run = Run(memory, log, (x, y, z), options.max_iterations, options.echo)
        with np.errstate(all="ignore"):
            self._launch(run, values)
        memory.release(start)
        findings = log.all()
        if findings and options.raise_on_findings:
            raise findings_error(self.name, findings, options.describe())
        return Report(tuple(run.printed), findings, x * y * z)

    def _launch(self, run: Run, values: Sequence[Any]) -> None:
        chance = self._chance()
        if self._tracked:
            run.tracker = Tracker(run.log, chance)
        frame: Frame = self._template.copy()
        frame[0] = run
        for slot, value in zip(self._slots, values, strict=True):
            frame[slot] = value
        run_steps(self._declared, frame)
        for op in self._shared:
            size = pointee_row(op.results[0].type).bytes_for(op.num_elem)
            run.shared[op] = run.memory.allocate(size, op.alignment, "global alloca")
        run_steps(self._uniform, frame)
        blocks = _blocks(run.grid, chance)
        if self._may_wait and len(blocks) > 1:
            take_turns(self._turn(run, frame, block, chance) for block in blocks)
            return
        own = run.memory.mark()
        for block in blocks:
            run.block = block
            self._run_block(run, frame.copy())
            run.memory.release(own)

    def _run_block(self, run: Run, frame: Frame) -> None:
        if run.tracker is not None and run.block is not None:
            run.tracker.begin(run.block)
        run_steps(self._steps, frame)
        if run.tracker is not None:
            run.tracker.finish()

    def _turn(
        self, run: Run, frame: Frame, block: tuple[int, int, int], chance: random.Random | None
    ) -> Job:
        """A block that may wait for others, with a state of its own."""

        def job(pause: Pause) -> bool:
            tracker = Tracker(run.log, chance) if self._tracked else None
            patience = 0 if chance is not None else _PATIENCE
            own = replace(run, block=block, tracker=tracker, pause=pause, patience=patience)
            with np.errstate(all="ignore"):
                self._run_block(own, [own, *frame[1:]])
            return not own.gave_up

        return job

    def _chance(self) -> random.Random | None:
        """What draws the order of an adversarial run."""
        return random.Random(self.options.seed) if self.options.adversarial else None


def _blocks(grid: tuple[int, int, int], chance: random.Random | None) -> list[tuple[int, int, int]]:
    """All blocks, x fastest; in an adversarial run, in any order."""
    axes = [range(n) for n in reversed(grid)]
    blocks = [(x, y, z) for z, y, x in itertools.product(*axes)]
    if chance is not None:
        chance.shuffle(blocks)
    return blocks


def compile_entry(top: Block | Op, entry: str = "", options: Options = DEFAULT) -> Program:
    """The program of one entry of a verified module; "" is the only one.

    Raises: LaunchError if there is no such entry.
    """
    modules = [top] if isinstance(top, Op) else top.ops
    found = [
        (m, op)
        for m in modules
        if isinstance(m, module.Module)
        for op in m.body.ops
        if isinstance(op, module.Entry)
    ]
    names = [op.sym_name for _, op in found]
    if not entry and len(found) == 1:
        return Program(*found[0], options)
    if entry not in names:
        listed = ", ".join(names) or "none"
        what = f"no entry {entry!r}" if entry else f"{len(names)} entries, and none is named"
        raise LaunchError(f"interpret: the module has {what}; its entries: {listed}")
    return Program(*found[names.index(entry)], options)


def interpret(
    top: Block | Op,
    entry: str,
    grid: Sequence[int],
    args: Sequence[Any],
    *,
    memory: Memory | None = None,
    options: Options = DEFAULT,
) -> Report:
    """Runs an entry of a verified module on a grid of (x, y, z) blocks.

    `args` has one value per parameter: a number for a scalar; for a pointer a NumPy array (the
    address of its element at index 0), or an address in `memory`.
    Raises: LaunchError or SimulationError, see `Program.run`.
    """
    return compile_entry(top, entry, options).run(grid, args, memory)


def _grid(name: str, grid: Sequence[int]) -> tuple[int, int, int]:
    sizes = tuple(int(n) for n in grid)
    if len(sizes) != 3 or any(not 1 <= n < 1 << 31 for n in sizes):
        raise LaunchError(f"interpret {name}: grid is {tuple(grid)}, expected three sizes from 1")
    return sizes


def _steps(scope: Scope, ops: Sequence[Op]) -> tuple[Step, ...]:
    return tuple(s for s in map(scope.step, ops) if s is not None)


def _globals(top: module.Module, scope: Scope) -> tuple[Step, ...]:
    return _steps(scope, [op for op in top.body.ops if isinstance(op, module.Global)])


_NOT_UNIFORM = (
    module.GetTileBlockId,
    memory.MakeToken,
    memory.JoinTokens,
    control.Reduce,
    control.Scan,
)


def _uniform(body: Block) -> list[Op]:
    """The operations at the top of an entry that give the same for every block.

    Only while nothing may have left the entry: what comes after an early return may never run.
    """
    known = set(body.args)
    found: list[Op] = []
    for op in body.ops:
        if op.effect is Effect.CONTROL:
            break
        if op.effect is not Effect.PURE or isinstance(op, _NOT_UNIFORM):
            continue
        if all(v in known for v in op.operands):
            known.update(op.results)
            found.append(op)
    return found
