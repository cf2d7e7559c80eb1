"""Programmatic dependent launch: the text of the findings, and kernels that have none."""

from __future__ import annotations

import numpy as np
import pytest
from engine_checks import check

from tilewright import cute
from tilewright.dsl import Constexpr, Float32, Int32, Uint64, const_expr
from tilewright.utils import SmemAllocator

arch = cute.arch
X, Y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)


@cute.kernel
def copy_kernel(x: cute.Tensor, y: cute.Tensor, waits: Constexpr):
    t = arch.thread_idx()[0]
    if const_expr(waits == "all"):
        arch.griddepcontrol_wait()
    if const_expr(waits == "warp 1") and t >= 32:
        arch.griddepcontrol_wait()
    arch.griddepcontrol_launch_dependents()
    y[t] = x[t]


@cute.jit
def copy(x: cute.Tensor, y: cute.Tensor, waits: Constexpr, pdl: Constexpr):
    copy_kernel(x, y, waits).launch(grid=1, block=64, use_pdl=pdl)


def line(function, text: str) -> int:
    """The number of the first line of a kernel or host function with some text."""
    code = function.fn.__code__
    with open(code.co_filename) as file:
        lines = file.read().splitlines()
    first = code.co_firstlineno
    return next(i for i in range(first, len(lines) + 1) if text in lines[i - 1])


def test_the_report_says_who_may_be_too_early_and_what_to_do():
    read, written = check(copy, X, Y, "warp 1", True).findings
    assert read.kind == written.kind == "grid_wait"
    assert read.message == (
        "x is read by mem.load of block (0, 0, 0), thread 0 (warp 0, lane 0), and nothing orders "
        "that behind griddepcontrol.wait: the grid in front may still write it"
    )
    assert written.message == (
        "y is written by mem.store of block (0, 0, 0), thread 0 (warp 0, lane 0), and nothing "
        "orders that behind griddepcontrol.wait: the grid in front may still read or write it"
    )
    assert read.rule == (
        "a grid launched with use_pdl may start before the grid in front of it in the stream has "
        "ended, and touches global memory only behind griddepcontrol.wait: let the thread call "
        "cute.arch.griddepcontrol_wait() first, or wait at a barrier behind a thread that does"
    )
    assert read.loc is not None
    assert read.loc.line == line(copy_kernel, "y[t] = x[t]")
    assert f":{line(copy, '.launch(')}:" in str(read.details["launch"])


def test_a_kernel_without_a_wait_is_reported_where_it_is_launched():
    never, *accesses = check(copy, X, Y, "none", True).findings
    assert [f.kind for f in accesses] == ["grid_wait", "grid_wait"]
    assert never.message == (
        "copy_kernel is launched with use_pdl and has no griddepcontrol.wait: it may run, and "
        "end, while the grid in front of it still runs"
    )
    assert never.rule == (
        "a kernel launched with use_pdl calls cute.arch.griddepcontrol_wait(), also for the grids "
        "behind it, which wait for this one alone; or launch it without use_pdl"
    )
    assert never.loc is not None
    assert never.loc.line == line(copy, ".launch(")


@pytest.mark.parametrize("waits", ["none", "warp 1", "all"])
def test_a_plain_launch_needs_no_wait(waits):
    assert not check(copy, X, Y, waits, False).findings


@pytest.mark.parametrize("check_global", [False, True])
def test_all_threads_wait(check_global):
    assert not check(copy, X, Y, "all", True, check_global=check_global).findings


def test_without_checks_nothing_is_said():
    assert not cute.compile(copy, X, Y, "none", True).simulate(X, Y.copy(), "none", True).findings


@cute.kernel
def idle_kernel(y: cute.Tensor):
    if arch.thread_idx()[0] == 64:
        y[0] = Float32(1.0)


@cute.jit
def idle(y: cute.Tensor):
    idle_kernel(y).launch(grid=1, block=32, use_pdl=True)


def test_a_kernel_that_touches_nothing_waits_too():
    (never,) = check(idle, Y).findings
    assert "idle_kernel is launched with use_pdl and has no griddepcontrol.wait" in never.message


@cute.kernel
def handed_kernel(x: cute.Tensor, y: cute.Tensor, how: Constexpr):
    """One thread waits, or some; how do the others learn of it?"""
    t, block = arch.thread_idx()[0], arch.block_idx()[0]
    smem = SmemAllocator()
    ready = smem.allocate_array(Uint64, 1, label="ready")
    if t == 0:
        arch.mbarrier_init(ready, 1)
        arch.mbarrier_init_fence()
    arch.sync_threads()
    if const_expr(how == "mbarrier"):
        if t == 0:
            arch.griddepcontrol_wait()
            arch.mbarrier_arrive(ready)
        arch.mbarrier_wait(ready, 0)
    elif const_expr(how == "named barrier"):
        if t < 32:
            arch.griddepcontrol_wait()
            arch.barrier_arrive(barrier_id=1, number_of_threads=64)
        else:
            arch.barrier(barrier_id=1, number_of_threads=64)
    elif const_expr(how == "warp"):
        if t % 32 == 0:
            arch.griddepcontrol_wait()
        arch.sync_warp()
    elif const_expr(how == "cluster"):
        if t == 0 and block == 0:
            arch.griddepcontrol_wait()
        arch.cluster_arrive()
        arch.cluster_wait()
    y[block * 64 + t] = x[block * 64 + t]


@cute.jit
def handed(x: cute.Tensor, y: cute.Tensor, how: Constexpr):
    handed_kernel(x, y, how).launch(grid=2, block=64, cluster=(2, 1, 1), use_pdl=True)


@pytest.mark.parametrize("how", ["mbarrier", "named barrier", "warp", "cluster"])
def test_what_orders_hands_the_wait_on(how):
    arrays = np.zeros(128, np.float32), np.zeros(128, np.float32)
    report = check(handed, *arrays, how, check_global=True)
    assert not report.findings, "\n".join(map(str, report.findings))


@cute.kernel
def told_kernel(x: cute.Tensor, y: cute.Tensor, flag: cute.Tensor, ok: Constexpr):
    """Block 0 waits, and tells block 1 through a flag that the grid in front knows nothing of."""
    t, block = arch.thread_idx()[0], arch.block_idx()[0]
    if block == 0:
        arch.griddepcontrol_wait()
        arch.sync_threads()
        if t == 0:
            arch.atomic_add(flag.iterator, Int32(1), sem="release" if ok else "relaxed")
    else:
        if t == 0:
            seen = Int32(0)
            while seen == 0:
                seen = arch.atomic_add(flag.iterator, Int32(0), sem="acquire")
        arch.sync_threads()
        y[t] = x[t]


@cute.jit
def told(x: cute.Tensor, y: cute.Tensor, flag: cute.Tensor, ok: Constexpr):
    told_kernel(x, y, flag, ok).launch(grid=2, block=64, use_pdl=True)


@pytest.mark.parametrize("ok", [False, True])
def test_a_flag_hands_the_wait_on_to_another_block(ok):
    """Only the flag itself is touched too early: by the block that polls it."""
    found = check(told, X, Y, np.zeros(1, np.int32), ok, seeds=3).findings
    names = {f.message.split()[0] for f in found}
    assert names == ({"flag"} if ok else {"flag", "x", "y"})
