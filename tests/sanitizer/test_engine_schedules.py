"""Seeds, exploration, and the context manager."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import cute
from tilewright.dsl import Constexpr, Float32, Int32, Uint64, const_expr
from tilewright.errors import SimulationError
from tilewright.sim.options import SimOptions, default_options
from tilewright.sim.sanitize import sanitize
from tilewright.sim.schedule import Strategy, strategy
from tilewright.utils import SmemAllocator


@cute.kernel
def swap_kernel(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    tile = SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16, label="tile")
    tile[tidx] = x[tidx]
    if const_expr(bug == ""):
        cute.arch.sync_threads()
    y[tidx] = tile[63 - tidx] + y[tidx]


@cute.jit
def swap(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    swap_kernel(x, y, bug).launch(grid=1, block=64)


@cute.kernel
def order_kernel(y: cute.Tensor, ticket: cute.Tensor):
    """Hangs only if warp 1 takes its ticket before warp 0: two warps, one atomic counter."""
    tidx, _, _ = cute.arch.thread_idx()
    ready = SmemAllocator().allocate_array(Uint64, 1, label="ready")
    if tidx == 0:
        cute.arch.mbarrier_init(ready, 1)
    cute.arch.sync_threads()
    if tidx % 32 == 0:
        mine = cute.arch.atomic_add(ticket.iterator, Int32(1))
        if mine == 0 and tidx == 0:
            cute.arch.mbarrier_arrive(ready)
    cute.arch.mbarrier_wait(ready, 0)
    y[tidx] = Float32(1.0)


@cute.jit
def order(y: cute.Tensor, ticket: cute.Tensor):
    order_kernel(y, ticket).launch(grid=1, block=64)


ARGS = (np.arange(64, dtype=np.float32), np.zeros(64, np.float32))
ORDER = (np.zeros(64, np.float32), np.zeros(4, np.int32))


def run(fn, *args, **options):
    return cute.compile(fn, *args).simulate(*args, options=SimOptions(**options))


def test_unchecked_runs_find_no_races():
    assert not run(swap, *ARGS, "bug").findings


def test_memory_starts_the_same_for_every_seed():
    x, y = ARGS[0].copy(), np.zeros(64, np.float32)
    report = run(swap, x, y, "", check_races=True, runs=5)
    assert (report.runs, report.options.seed) == (5, 4)
    assert (y == x[::-1]).all()


def test_the_report_says_how_to_get_the_run_again():
    with pytest.raises(SimulationError) as error:
        run(swap, *ARGS, "bug", check_races=True, seed=3)
    assert "reproduce with options=SimOptions(seed=3, check_races=True)" in str(error.value)


def test_a_failing_seed_fails_again():
    report = run(order, *ORDER, runs=40, raise_on_findings=False)
    assert [f.kind for f in report.findings] == ["deadlock"]
    ticket = np.zeros(4, np.int32)
    again = run(order, ORDER[0].copy(), ticket, seed=report.options.seed, raise_on_findings=False)
    assert [f.kind for f in again.findings] == ["deadlock"]
    assert not run(order, ORDER[0].copy(), np.zeros(4, np.int32)).findings


def test_sanitize_checks_the_launches_inside():
    with pytest.raises(SimulationError) as error, sanitize():
        swap(*ARGS, "bug")
    assert "race: tile[" in str(error.value)
    swap(*ARGS, "bug")  # outside: unchecked


def test_sanitize_collects_findings():
    with sanitize(raise_on_findings=False, seeds=2) as seen:
        swap(*ARGS, "bug")
        swap(*ARGS, "")
        assert default_options().check_races
    assert [f.kind for f in seen.findings] == ["race"]
    assert [r.runs for r in seen.reports] == [1, 2]
    assert not default_options().check_races


def test_strategies_differ_and_are_fixed_by_their_seed():
    assert strategy(0) == Strategy()
    assert strategy(11) == strategy(11)
    assert len({strategy(s) for s in range(20)}) > 10
