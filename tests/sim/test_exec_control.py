"""Divergence, loops and joins."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import SimulationError, VerifyError
from tilewright.ir.core import OPS
from tilewright.ir.ops import arith, control, host, memory, sync
from tilewright.numeric.dtypes import F32, I32, I64, U64
from tilewright.sim.build import FAMILIES
from tilewright.sim.exec_control import FLATTEN
from tilewright.sim.machine import SimOptions
from tilewright.sim.step import EXECUTORS


def test_every_device_operation_has_an_executor():
    assert FAMILIES
    missing = [
        n for n, kind in OPS.items()
        if kind not in EXECUTORS and kind not in FLATTEN and kind is not arith.Constant
        and not n.startswith(("host.", "cuda_tile."))
        and kind.__module__.startswith("tilewright.ir.ops")
    ]  # fmt: skip
    assert missing == []


def test_host_operations_are_refused(kit):
    k = kit()
    k.do(host.Launch, kernel="other")
    with pytest.raises(VerifyError, match=r"there is no executor for host.launch"):
        k.run()


def out_of(k, n=128, **kw):
    got = np.zeros(n, np.int32)
    report = k.run(got, block=n, **kw)
    return got, report


def test_if_with_results_and_nested_divergence(kit):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    t = k.tid()
    (r,) = k.if_(
        k.cmp("lt", t, 40),
        lambda: k.if_(k.cmp("eq", k.mod(t, 2), 0), lambda: k.mul(t, 10), lambda: k.c(-1, I32)),
        lambda: k.if_(k.cmp("lt", t, 200), lambda: k.add(t, 1000), lambda: k.c(5, I32)),
    )
    k.store(o, t, k.add(r, t))
    got, _ = out_of(k)
    t = np.arange(128)
    np.testing.assert_array_equal(
        got, t + np.where(t < 40, np.where(t % 2 == 0, 10 * t, -1), t + 1000)
    )


def test_loops_of_different_length(kit):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    t = k.tid()
    total, swap_a, swap_b = k.for_(
        0, k.mod(t, 7), 1,
        lambda i, acc, a, b: (k.add(acc, k.mul(i, t)), b, a),
        [k.c(100, I32), k.c(1, I32), k.c(2, I32)],
    )  # fmt: skip
    k.store(o, t, k.add(total, k.add(k.mul(swap_a, 1000), swap_b)))
    got, _ = out_of(k)
    want = [
        100 + sum(i * t for i in range(t % 7)) + (1002 if t % 7 % 2 == 0 else 2001)
        for t in range(128)
    ]
    np.testing.assert_array_equal(got, want)


def test_loop_counts_down_and_may_not_run(kit):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    t = k.tid()
    (a,) = k.for_(10, t, -3, lambda i, s: k.add(k.mul(s, 2), i), [k.c(0, I32)])
    (b,) = k.for_(5, 5, 1, lambda i, s: k.add(s, i), [k.c(7, I32)])
    k.store(o, t, k.add(a, k.mul(b, 100)))
    got, _ = out_of(k)

    def want(t):
        s = 0
        for i in range(10, t, -3):
            s = 2 * s + i
        return s + 700

    np.testing.assert_array_equal(got, [want(t) for t in range(128)])


def test_nested_loop_in_a_divergent_loop(kit):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    t = k.tid()

    def outer(i, s):
        (inner,) = k.for_(0, i, 1, lambda j, u: k.add(u, k.add(j, t)), [s])
        return k.if_(k.cmp("eq", k.mod(k.add(i, t), 3), 0), lambda: k.add(inner, 5), lambda: inner)

    (r,) = k.for_(0, k.mod(t, 5), 1, outer, [k.c(0, I32)])
    k.store(o, t, r)
    got, _ = out_of(k)

    def want(t):
        s = 0
        for i in range(t % 5):
            for j in range(i):
                s += j + t
            if (i + t) % 3 == 0:
                s += 5
        return s

    np.testing.assert_array_equal(got, [want(t) for t in range(128)])


def test_while_collatz(kit):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    t = k.add(k.tid(), 1)

    def before(n, steps):
        return k.cmp("gt", n, 1), (n, steps)

    def body(n, steps):
        (m,) = k.if_(
            k.cmp("eq", k.mod(n, 2), 0), lambda: k.div(n, 2), lambda: k.add(k.mul(n, 3), 1)
        )
        return m, k.add(steps, 1)

    _, steps = k.while_(before, body, [t, k.c(0, I32)])
    k.store(o, k.tid(), steps)
    got, _ = out_of(k)

    def want(n):
        count = 0
        while n > 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    np.testing.assert_array_equal(got, [want(t + 1) for t in range(128)])


def test_pointers_and_register_arrays_survive_divergence(kit):
    k = kit(kit.gmem(F32), kit.gmem(F32))
    x, o = k.args
    t = k.tid()
    regs = k.registers(F32, 4)
    k.store(regs, 0, k.c(1.5, F32))
    k.store(regs, 1, k.c(2.5, F32))
    p, r = k.if_(
        k.cmp("lt", t, 10),
        lambda: (k.at(x, t), k.at(regs, 0)),
        lambda: (k.at(x, 0), k.at(regs, 1)),
    )
    k.store(o, t, k.add(k.v(memory.Load, p), k.v(memory.Load, r)))
    a = np.arange(32, dtype=np.float32)
    got = np.zeros(32, np.float32)
    k.run(a, got)
    t = np.arange(32)
    np.testing.assert_array_equal(got, np.where(t < 10, t + 1.5, 2.5))


def test_divergence_inside_a_warp_joins_before_an_aligned_operation(kit):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    t = k.tid()
    (r,) = k.if_(k.cmp("lt", k.mod(t, 32), 9), lambda: k.c(1, I32), lambda: k.c(2, I32))
    k.store(o, t, k.v(sync.WarpShuffle, r, k.u32(8), mode="idx"))
    got, report = out_of(k)
    assert (got == 1).all()
    assert report.findings == ()


def test_a_role_that_never_reaches_the_join_does_not_stop_the_others(kit):
    """Warp 0 waits for what warp 1 does after the branch that parted them."""
    k = kit(kit.gmem(I32))
    (o,) = k.args
    bar = k.shared(U64, 1, 8, "flag")
    t = k.tid()
    first = k.cmp("eq", t, 0)
    k.if_(first, lambda: k.do(sync.MBarrierInit, bar, k.u32(32)))
    k.do(sync.SyncThreads)
    role = k.cmp("lt", t, 32)
    k.if_(role, lambda: k.do(sync.MBarrierWait, bar, k.u32(0)))
    k.if_(k.cmp("ge", t, 32), lambda: k.do(sync.MBarrierArrive, bar))
    k.store(o, t, t)
    got, _ = out_of(k, 64)
    np.testing.assert_array_equal(got, np.arange(64))


def test_early_out(kit):
    k = kit(kit.gmem(I32), kit.scalar(I32))
    o, n = k.args
    i = k.add(k.mul(k.bid(), 64), k.tid())

    def work():
        k.do(sync.SyncThreads)
        k.store(o, i, k.mul(i, 2))

    k.if_(k.cmp("lt", k.mul(k.bid(), 64), n), work)
    got = np.zeros(128, np.int32)
    k.run(got, 64, grid=2, block=64)
    np.testing.assert_array_equal(got, np.where(np.arange(128) < 64, 2 * np.arange(128), 0))


def test_scalar_arguments_and_two_dimensional_blocks(kit):
    k = kit(kit.gmem(I32), kit.scalar(I32), kit.scalar(F32))
    o, n, f = k.args
    i = k.add(k.mul(k.tid(1), 8), k.tid(0))
    k.store(o, i, k.add(k.mul(k.tid(1), n), k.cast(f, I32)))
    got = np.zeros(32, np.int32)
    k.run(got, 3, 2.9, block=(8, 4))
    np.testing.assert_array_equal(got, np.arange(32) // 8 * 3 + 2)


def test_printf(kit):
    k = kit()
    t = k.tid()
    k.do(control.Printf, t, k.c(1.5, F32), k.c(7, I64), format="t=%d f=%.2f %lld%%")
    assert k.run(block=2).printed == ["t=0 f=1.50 7%", "t=1 f=1.50 7%"]


def test_assert_stops_the_kernel(kit):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    k.do(control.Assert, k.cmp("lt", k.tid(), 20), message="tid is small")
    k.store(o, k.tid(), 1)
    got = np.zeros(32, np.int32)
    with pytest.raises(SimulationError, match="assertion: tid is small") as error:
        k.run(got)
    assert error.value.findings[0].agent == "block (0, 0, 0), thread 20 (warp 0, lane 20)"
    assert got.sum() == 0


def test_endless_loop_is_given_up(kit):
    k = kit()
    k.while_(lambda i: (k.cmp("ge", i, 0), (i,)), lambda i: k.mod(k.add(i, 1), 5), [k.c(0, I32)])
    with pytest.raises(SimulationError, match=r"livelock: the run was given up after 1000"):
        k.run(options=SimOptions(max_steps=1000))


def test_register_arrays_cannot_be_chosen_at_run_time(kit):
    k = kit()
    a, b = k.registers(F32, 2, "a"), k.registers(F32, 2, "b")
    k.if_(k.cmp("lt", k.tid(), 3), lambda: a, lambda: b)
    with pytest.raises(
        SimulationError, match=r"threads chose different register arrays at run time \(a and b\)"
    ):
        k.run()
