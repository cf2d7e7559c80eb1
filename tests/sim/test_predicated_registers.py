"""A predicated copy may skip registers; one that nothing was ever meant to fill is a fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import cute, dsl
from tilewright.errors import SimulationError


@cute.kernel
def add_one_kernel(x: cute.Tensor, y: cute.Tensor, guarded: dsl.Constexpr) -> None:
    i = cute.arch.thread_idx()[0]
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), dsl.Float32)
    inside = cute.make_rmem_tensor(1, dsl.Boolean)
    inside[0] = i < x.shape[0]
    one = cute.make_layout(1)
    mine = cute.make_tensor(x.iterator + i, one)
    r = cute.make_rmem_tensor(1, dsl.Float32)
    if dsl.const_expr(guarded):
        cute.copy(atom, mine, r, pred=inside)
    r.store(r.load() + 1.0)
    cute.copy(atom, r, cute.make_tensor(y.iterator + i, one), pred=inside)


@cute.jit
def add_one(x: cute.Tensor, y: cute.Tensor, guarded: dsl.Constexpr) -> None:
    add_one_kernel(x, y, guarded).launch(grid=1, block=64)


def arrays() -> tuple[Any, Any]:
    return np.arange(40, dtype=np.float32), np.zeros(40, np.float32)


def test_what_a_predicate_skips_may_be_computed_with() -> None:
    x, y = arrays()
    add_one(x, y, True)
    assert (y == x + 1).all()


def test_what_nothing_fills_is_reported() -> None:
    with pytest.raises(SimulationError, match=r"element 0 of register array r is read before"):
        add_one(*arrays(), False)
