"""Systematic exploration: as many schedules as are counted by hand, and none of them missing."""

from __future__ import annotations

import re
from math import comb, factorial
from typing import Any

import numpy as np
import pytest

from tilewright import cute
from tilewright.dsl import Constexpr, Float32, Int32, Uint64, const_expr
from tilewright.errors import SimulationError
from tilewright.sim import explore
from tilewright.sim.dependence import Step, Touched, Trace, commute
from tilewright.sim.options import SimOptions
from tilewright.utils import SmemAllocator


def run(fn: Any, *args: Any, **options: Any) -> Any:
    """The report; arrays are copied first."""
    mine = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    chosen = {"explore": 5000, "raise_on_findings": False, **options}
    return cute.compile(fn, *mine).simulate(*mine, options=SimOptions(check_races=True, **chosen))


@pytest.fixture
def no_reduction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every two steps count as dependent: all interleavings are run."""

    def all_before(trace: Trace, step: Step) -> range:
        del step
        return range(len(trace.steps) - 2, -1, -1)

    monkeypatch.setattr(Trace, "dependent", all_before)
    monkeypatch.setattr(explore, "commute", lambda *steps: not steps)


# -- barriers --------------------------------------------------------------------------------------


@cute.kernel
def meet_kernel(y: cute.Tensor, times: Constexpr):
    """All warps meet, a few times."""
    tidx, _, _ = cute.arch.thread_idx()
    for _ in range(times):
        cute.arch.sync_threads()
    y[tidx] = Float32(1.0)


@cute.jit
def meet(y: cute.Tensor, warps: Constexpr, times: Constexpr):
    meet_kernel(y, times).launch(grid=1, block=32 * warps)


@pytest.mark.parametrize(("warps", "times"), [(2, 1), (3, 1), (3, 4), (8, 3)])
def test_who_comes_last_to_a_barrier_makes_no_difference(warps: int, times: int) -> None:
    report = run(meet, np.zeros(32 * warps, np.float32), warps, times)
    assert (report.runs, report.complete) == (1, True)


@pytest.mark.usefixtures("no_reduction")
def test_all_orders_of_arrival() -> None:
    """Without the reduction: the orders in which 3 warps arrive, times those in which they end."""
    report = run(meet, np.zeros(96, np.float32), 3, 1)
    assert (report.runs, report.complete) == (factorial(3) * factorial(3), True)


# -- atomics ---------------------------------------------------------------------------------------


@cute.kernel
def tickets_kernel(counters: cute.Tensor, own: Constexpr, shared: Constexpr):
    """The first thread of each warp takes tickets: some of its own counter, some of all warps'."""
    tidx, _, _ = cute.arch.thread_idx()
    if tidx % 32 == 0:
        for _ in range(own):
            cute.arch.atomic_add(counters.iterator + 1 + tidx // 32, Int32(1))
        for _ in range(shared):
            cute.arch.atomic_add(counters.iterator, Int32(1))


@cute.jit
def tickets(counters: cute.Tensor, warps: Constexpr, own: Constexpr, shared: Constexpr):
    tickets_kernel(counters, own, shared).launch(grid=1, block=32 * warps)


COUNTERS = np.zeros(8, np.int32)


@pytest.mark.parametrize(
    ("warps", "own", "shared", "schedules"),
    [
        (1, 3, 3, 1),
        (4, 5, 0, 1),  # nobody meets anybody
        (2, 0, 1, 2),
        (4, 0, 1, factorial(4)),
        (2, 5, 1, 2),  # own tickets come first: they make no difference
        (2, 0, 3, comb(6, 3)),
        (3, 1, 2, factorial(6) // 2**3),
    ],
)
def test_schedules_of_atomics(warps: int, own: int, shared: int, schedules: int) -> None:
    report = run(tickets, COUNTERS, warps, own, shared)
    assert (report.runs, report.complete) == (schedules, True)


@pytest.mark.usefixtures("no_reduction")
@pytest.mark.parametrize(("own", "steps"), [(0, 2), (2, 4)])
def test_all_interleavings_of_two_warps(own: int, steps: int) -> None:
    """A step for each ticket, and the end of the warp, in all orders."""
    report = run(tickets, COUNTERS, 2, own, 1)
    assert (report.runs, report.complete) == (comb(2 * steps, steps), True)


# -- mbarriers -------------------------------------------------------------------------------------


@cute.kernel
def ring_kernel(y: cute.Tensor, rounds: Constexpr, bug: Constexpr):
    """Warp 0 fills a word, warp 1 reads it, in turns: full and empty barriers of one stage."""
    tidx, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    s = smem.allocate_tensor(Float32, cute.make_layout(32), 16, label="s")
    bars = smem.allocate_array(Uint64, 2, label="bars")
    if tidx == 0:
        cute.arch.mbarrier_init(bars, 32)
        cute.arch.mbarrier_init(bars + 1, 32)
    cute.arch.sync_threads()
    for i in range(rounds):
        if tidx < 32:
            if const_expr(bug == ""):
                cute.arch.mbarrier_wait(bars + 1, (i + 1) % 2)
            s[tidx] = Float32(1.0)
            cute.arch.mbarrier_arrive(bars)
        else:
            cute.arch.mbarrier_wait(bars, i % 2)
            y[tidx - 32] = y[tidx - 32] + s[tidx - 32]
            cute.arch.mbarrier_arrive(bars + 1)


@cute.jit
def ring(y: cute.Tensor, rounds: Constexpr, bug: Constexpr):
    ring_kernel(y, rounds, bug).launch(grid=1, block=64)


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_a_ring_has_one_schedule(rounds: int) -> None:
    """Every wait is for the phase that comes next: to block first is the same as to come later."""
    report = run(ring, np.zeros(32, np.float32), rounds, "")
    assert not report.findings, report.findings[0]
    assert (report.runs, report.complete) == (1, True)


def test_a_producer_that_does_not_wait_is_found() -> None:
    report = run(ring, np.zeros(32, np.float32), 3, "no wait")
    assert {f.kind for f in report.findings} & {"race", "stale_phase", "deadlock"}


# -- faults that need one order --------------------------------------------------------------------


@cute.kernel
def order_kernel(y: cute.Tensor, ticket: cute.Tensor, before: Constexpr):
    """Hangs only if warp 1 takes its ticket first; `before`: other counters that it takes first."""
    tidx, _, _ = cute.arch.thread_idx()
    ready = SmemAllocator().allocate_array(Uint64, 1, label="ready")
    if tidx == 0:
        cute.arch.mbarrier_init(ready, 1)
    cute.arch.sync_threads()
    if tidx % 32 == 0:
        for i in range(before):
            cute.arch.atomic_add(ticket.iterator + (4 + tidx // 32 * before + i), Int32(1))
        mine = cute.arch.atomic_add(ticket.iterator, Int32(1))
        if mine == 0 and tidx == 0:
            cute.arch.mbarrier_arrive(ready)
    cute.arch.mbarrier_wait(ready, 0)
    y[tidx] = Float32(1.0)


@cute.jit
def order(y: cute.Tensor, ticket: cute.Tensor, before: Constexpr):
    order_kernel(y, ticket, before).launch(grid=1, block=64)


ORDER = (np.zeros(64, np.float32), np.zeros(32, np.int32))


@pytest.mark.parametrize("before", [0, 6])
def test_the_second_schedule_hangs(before: int) -> None:
    report = run(order, *ORDER, before)
    assert [f.kind for f in report.findings] == ["deadlock"]
    assert report.runs <= 2


def test_its_schedule_reproduces() -> None:
    report = run(order, *ORDER, 2)
    again = run(order, *ORDER, 2, explore=0, schedule=report.options.schedule)
    assert [f.message for f in again.findings] == [f.message for f in report.findings]
    with pytest.raises(SimulationError) as error:
        run(order, *ORDER, 2, raise_on_findings=True)
    text = str(error.value)
    assert re.search(r"reproduce with options=SimOptions\(schedule=\([\d, ]*\), check_races", text)


def test_a_bound_on_the_runs() -> None:
    report = run(tickets, COUNTERS, 4, 0, 1, explore=3)
    assert (report.runs, report.complete) == (3, False)


def test_polling_depends_on_everything() -> None:
    step, poll = Touched({("named", 0): 1}), Touched(polled=True)
    assert not commute(step, poll)
    assert commute(step, Touched())
