"""Pointers that take different compile-time steps on different paths, and in loops."""

from __future__ import annotations

import numpy as np

from tilewright import cute, dsl


@cute.kernel
def step_kernel(x: cute.Tensor, y: cute.Tensor, n: dsl.Int32) -> None:
    at = x.iterator
    for _ in dsl.range(n):
        at = at + 4
    if n > 2:
        at = at + 1
    y[0] = cute.make_tensor(at, cute.make_layout(1))[0]


@cute.jit
def step(x: cute.Tensor, y: cute.Tensor, n: dsl.Int32) -> None:
    step_kernel(x, y, n).launch(grid=1, block=1)


def test_static_steps_in_run_time_loops_and_branches() -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    for n in (0, 1, 3, 7):
        step(x, y, n)
        assert y[0] == 4 * n + (n > 2)
