"""What a module declares, and what an entry asks about where it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.ops.tile import module
from tilewright.ir.ops.tile.base import TileOp
from tilewright.numeric.packing import to_bytes
from tilewright.tileir.interpret.scope import Compile, Frame, Scope, Step, run_steps
from tilewright.tileir.interpret.values import dense, row_of


def _body(op: Any, scope: Scope) -> Step:
    """Runs what is inside: an entry for one block."""
    steps = scope.body(op.body)

    def step(f: Frame) -> int | None:
        return run_steps(steps, f)

    return step


def _global(op: Any, scope: Scope) -> Step:
    """Puts the global into memory, where the launch finds its address by name."""
    del scope
    elements, row = dense(op.value), row_of(op.value.type)

    def step(f: Frame) -> None:
        run = f[0]
        data = to_bytes(elements, row).copy()
        data.flags.writeable = not op.constant
        run.globals[op.sym_name] = run.memory.map_aligned(
            data, f"global @{op.sym_name}", op.alignment
        )

    return step


def _get_global(op: Any, scope: Scope) -> Step:
    out, name = scope.slot(op.result), op.name_

    def step(f: Frame) -> None:
        f[out] = np.int64(f[0].globals[name])

    return step


def _block_id(op: Any, scope: Scope) -> Step:
    x, y, z = scope.slots(op.results)

    def step(f: Frame) -> None:
        f[x], f[y], f[z] = map(np.int32, f[0].block)

    return step


def _grid(op: Any, scope: Scope) -> Step:
    x, y, z = scope.slots(op.results)

    def step(f: Frame) -> None:
        f[x], f[y], f[z] = map(np.int32, f[0].grid)

    return step


TABLE: dict[type[TileOp], Compile] = {
    module.Module: _body,
    module.Entry: _body,
    module.TestingFunc: _body,
    module.Global: _global,
    module.GetGlobal: _get_global,
    module.GetTileBlockId: _block_id,
    module.GetNumTileBlocks: _grid,
}
