"""Copies that could be wider: which are, by how much, and which are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import cute, dsl
from tilewright.dsl import Constexpr, Float32, const_expr
from tilewright.sim.costs import Cost
from tilewright.sim.options import SimOptions
from tilewright.sim.sanitize import sanitize
from tilewright.utils import SmemAllocator

THREADS = 64


def array(count: int, offset: int = 0, kind: Any = np.float32) -> Any:
    """Zeros whose first element is `offset` bytes behind a multiple of 256."""
    size = count * np.dtype(kind).itemsize
    raw = np.zeros(size + 512, np.uint8)
    at = -raw.ctypes.data % 256 + offset
    return raw[at : at + size].view(kind)


def narrow(host: Any, *arguments: Any) -> list[Cost]:
    options = SimOptions(measure_costs=True)
    report = cute.compile(host, *arguments).simulate(*arguments, options=options)
    return [cost for cost in report.costs if cost.kind == "non_vectorised"]


@cute.kernel
def copy_kernel(x: cute.Tensor, y: cute.Tensor, each: Constexpr, how: Constexpr):
    t = cute.arch.thread_idx()[0]
    for i in dsl.range(each):
        if const_expr(how == "thread"):
            y[t * each + i] = x[t * each + i]  # THREAD
        elif const_expr(how == "warp"):
            y[i * THREADS + t] = x[i * THREADS + t]
        elif const_expr(how == "apart"):
            y[2 * (i * THREADS + t)] = x[2 * (i * THREADS + t)]
        else:
            y[i * THREADS + t] = x[i * THREADS + t]
            cute.arch.sync_threads()


@cute.jit
def copy(x: cute.Tensor, y: cute.Tensor, each: Constexpr, how: Constexpr):
    copy_kernel(x, y, each, how).launch(grid=2, block=THREADS)


@pytest.mark.parametrize(
    ("kind", "each", "how", "offset", "width", "left"),
    [
        # 2 blocks of 2 warps: `each` requests by each of them, and those that would do
        (np.float32, 4, "thread", 0, 16, 1),
        (np.float32, 8, "thread", 0, 16, 2),
        (np.float32, 8, "thread", 8, 16, 5),  # 2 up to the first aligned one, 4 at once, 2 more
        (np.float32, 6, "thread", 0, 8, 3),  # every second thread begins at 8 bytes
        (np.float32, 2, "thread", 0, 8, 1),
        (np.float32, 3, "thread", 0, 0, 0),  # threads begin everywhere
        (np.float16, 8, "thread", 0, 16, 1),
        (np.float32, 4, "warp", 0, 16, 1),
        (np.float32, 6, "warp", 0, 16, 3),
        (np.float32, 4, "warp", 4, 0, 0),  # not aligned
        (np.float16, 2, "warp", 0, 4, 1),
        (np.float32, 4, "apart", 0, 0, 0),
        (np.float32, 4, "waiting", 0, 0, 0),
    ],
)
def test_widths(kind: Any, each: int, how: str, offset: int, width: int, left: int) -> None:
    x, y = (array(2 * each * THREADS, offset, kind) for _ in range(2))
    found = narrow(copy, x, y, each, how)
    if not width:
        assert found == []
        return
    assert [(c.op, c.access) for c in found] == [("mem.load", "read"), ("mem.store", "write")]
    size = np.dtype(kind).itemsize
    for cost in found:
        assert (cost.size, cost.worst) == (size, width)
        assert (cost.count, cost.actual, cost.ideal) == (4 * each, 4 * each, 4 * left)


def test_the_report_names_line_and_widths() -> None:
    x, y = (array(8 * THREADS) for _ in range(2))
    cost = narrow(copy, x, y, 4, "thread")[0]
    assert cost.text == (
        "neighbours are accessed one by one, 4 bytes at a time: 16 requests could be 4 of up to "
        "16 bytes"
    )
    assert cost.loc is not None
    assert cost.loc.snippet()[0].endswith("# THREAD")


@cute.kernel
def shared_kernel(y: cute.Tensor, wide: Constexpr):
    t = cute.arch.thread_idx()[0]
    s = SmemAllocator().allocate_tensor(Float32, cute.make_layout((4, 32)), 16, label="s")
    row = cute.make_rmem_tensor(4, Float32)
    row.fill(1.0)
    if const_expr(wide):
        cute.autovec_copy(row, s[None, t])
    else:
        for i in dsl.range_constexpr(4):
            s[i, t] = row[i]
    cute.arch.sync_threads()
    y[t] = s[3, t]


@cute.jit
def shared(y: cute.Tensor, wide: Constexpr):
    shared_kernel(y, wide).launch(grid=1, block=32)


def test_a_vector_copy_is_the_cure() -> None:
    (cost,) = narrow(shared, array(32), False)
    assert (cost.op, cost.access, cost.actual, cost.ideal) == ("mem.store", "write", 4, 1)
    assert narrow(shared, array(32), True) == []


def test_sanitize_collects_costs() -> None:
    with sanitize(costs=True) as seen:
        shared(array(32), False)
        shared(array(32), False)
    (cost,) = [c for c in seen.costs if c.kind == "non_vectorised"]
    assert (cost.actual, cost.ideal) == (8, 2)
    with sanitize() as seen:
        shared(array(32), False)
    assert seen.costs == ()
