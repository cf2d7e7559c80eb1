"""Barriers, clusters, warp operations, and reports of what blocks for ever."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import SimulationError
from tilewright.ir.ops import arith, control, sync
from tilewright.numeric.dtypes import BOOL, F32, I32, U32, U64
from tilewright.sim.machine import SimOptions


def kinds(report):
    return [f.kind for f in report.findings]


# -- warps ----------------------------------------------------------------------------------------


def warp_result(kit, build, dtype=I32, n=64):
    k = kit(kit.gmem(dtype))
    k.store(k.args[0], k.tid(), build(k))
    got = np.zeros(n, np.uint32 if dtype is U32 else np.int32)
    k.run(got, block=n)
    return got


@pytest.mark.parametrize(
    ("mode", "lane", "width", "f"),
    [
        ("idx", 3, 32, lambda lane: 3 + 0 * lane),
        ("idx", 3, 8, lambda lane: lane // 8 * 8 + 3),
        ("up", 2, 32, lambda lane: lane - 2 if lane >= 2 else lane),
        ("down", 5, 16, lambda lane: lane + 5 if lane % 16 + 5 < 16 else lane),
        ("bfly", 1, 32, lambda lane: lane ^ 1),
        # From a segment of 4 lanes a butterfly reaches lower ones, but no higher ones.
        ("bfly", 9, 4, lambda lane: lane ^ 9 if lane & 8 else lane),
    ],
)
def test_shuffle(kit, mode, lane, width, f):
    got = warp_result(
        kit, lambda k: k.v(sync.WarpShuffle, k.tid(), k.u32(lane), mode=mode, width=width)
    )
    assert got.tolist() == [w * 32 + f(i) for w in range(2) for i in range(32)]


def test_shuffle_with_a_lane_per_thread(kit):
    def build(k):
        lane = k.cast(k.sub(31, k.special("lane")), U32)
        return k.v(sync.WarpShuffle, k.mul(k.tid(), 2), lane, mode="idx")

    assert warp_result(kit, build, n=32).tolist() == [2 * (31 - i) for i in range(32)]


def test_votes(kit):
    odd = lambda k: k.cmp("eq", k.mod(k.tid(), 2), 1)  # noqa: E731
    got = warp_result(kit, lambda k: k.v(sync.WarpVote, odd(k), mode="ballot"), U32)
    assert (got == 0xAAAAAAAA).all()
    first = lambda k: k.cmp("lt", k.tid(), 32)  # noqa: E731
    for mode in ("any", "all"):
        got = warp_result(kit, lambda k, m=mode: k.cast(k.v(sync.WarpVote, first(k), mode=m), I32))
        assert got.tolist() == [1] * 32 + [0] * 32


def test_elect_and_uniform(kit):
    def build(k):
        warp = k.v(sync.WarpUniform, k.div(k.tid(), 32))
        return k.add(k.mul(warp, 10), k.cast(k.v(sync.ElectOne), I32))

    got = warp_result(kit, build)
    want = np.arange(64) // 32 * 10
    want[[0, 32]] += 1
    np.testing.assert_array_equal(got, want)


def test_special_registers(kit):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    names = [("block_idx", 1), ("block_dim", 0), ("grid_dim", 1), ("cluster_dim", 0),
             ("cluster_rank", 0), ("block_in_cluster", 0), ("lane", 0)]  # fmt: skip
    for i, (name, axis) in enumerate(names):
        k.if_(
            k.cmp("eq", k.add(k.tid(), k.bid()), 40),
            lambda i=i, name=name, axis=axis: k.store(
                o, k.add(i, k.mul(k.bid(1), 8)), k.special(name, axis)
            ),
        )
    got = np.zeros(16, np.int32)
    k.run(got, grid=(2, 2), block=40, cluster=(2, 1, 1))
    assert got[:7].tolist() == [0, 40, 2, 2, 1, 1, 7]
    assert got[8:15].tolist() == [1, 40, 2, 2, 1, 1, 7]


@pytest.mark.parametrize(("threads", "found"), [(32, []), (20, ["aligned_divergence"])])
def test_aligned_operations_want_whole_warps(kit, threads, found):
    k = kit()
    k.if_(k.cmp("lt", k.tid(), threads), lambda: k.do(sync.WarpVote, k.c(True, BOOL), mode="all"))
    report = k.run(block=64, quiet=True)
    assert kinds(report) == found
    if found:
        assert "executed by 20 of the 32 lanes of warp 0" in report.findings[0].message


def test_sync_warp_in_divergent_code_waits_for_the_other_lanes(kit):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    s = k.shared(I32, 32)
    lane = k.tid()

    def side(value):
        def build():
            k.store(s, lane, k.c(value, I32))
            k.do(sync.SyncWarp)
            return k.load(s, k.sub(31, lane))

        return build

    (r,) = k.if_(k.cmp("lt", lane, 16), side(1), side(2))
    k.store(o, lane, r)
    got = np.zeros(32, np.int32)
    k.run(got)
    assert got.tolist() == [2] * 16 + [1] * 16


# -- named barriers -------------------------------------------------------------------------------


def ping_pong(kit, count_of_second=64):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    s = k.shared(I32, 32)
    t = k.tid()

    def producer():
        k.store(s, t, k.mul(t, 3))
        k.do(sync.BarrierArrive, k.u32(1), k.u32(64))

    def consumer():
        k.do(sync.BarrierSync, k.u32(1), k.u32(count_of_second))
        k.store(o, k.sub(t, 32), k.load(s, k.sub(t, 32)))

    k.if_(k.cmp("lt", t, 32), producer, consumer)
    got = np.zeros(32, np.int32)
    return got, k.run(got, block=64, quiet=True)


def test_named_barrier(kit):
    got, report = ping_pong(kit)
    assert report.findings == ()
    np.testing.assert_array_equal(got, 3 * np.arange(32))


def test_named_barrier_counts_must_agree(kit):
    _, report = ping_pong(kit, 96)
    assert kinds(report) == ["barrier", "deadlock"]
    assert (
        "barrier 1 is used with 96 threads while others wait at it with 64"
        in report.findings[0].message
    )


def test_named_barrier_numbers_that_differ_by_warp(kit):
    """Each warpgroup has its own barrier in one instruction; the second waits for the first."""
    k = kit(kit.gmem(I32))
    (o,) = k.args
    wg = k.div(k.tid(), 128)
    k.if_(k.cmp("eq", wg, 1), lambda: k.do(sync.BarrierArrive, k.u32(1), k.u32(256)))
    k.do(sync.BarrierSync, k.cast(k.add(wg, 1), U32), k.u32(256))
    k.if_(k.cmp("eq", wg, 0), lambda: k.do(sync.BarrierArrive, k.u32(2), k.u32(256)))
    k.store(o, k.tid(), k.add(wg, 1))
    got = np.zeros(256, np.int32)
    k.run(got, block=256)
    np.testing.assert_array_equal(got, np.arange(256) // 128 + 1)


def test_barrier_rules(kit):
    k = kit()
    k.do(sync.BarrierSync, k.u32(16), k.u32(32))
    k.do(sync.BarrierSync, k.u32(1), k.u32(20))
    report = k.run(quiet=True)
    assert kinds(report) == ["barrier", "barrier"]
    assert "expected a barrier 0..15 and a positive multiple of 32" in report.findings[0].message


@pytest.mark.parametrize(("limit", "found"), [(32, []), (40, ["aligned_divergence"])])
def test_sync_threads_counts_exited_threads_as_there(kit, limit, found):
    k = kit()
    k.if_(k.cmp("lt", k.tid(), limit), lambda: k.do(sync.SyncThreads))
    assert kinds(k.run(block=64, quiet=True)) == found


# -- mbarriers ------------------------------------------------------------------------------------


def ring(kit, *, stages=2, steps=6, full_count=32, flip=True, wait=True, empty_start=1):
    """Warp 0 fills a ring of buffers, warp 1 sums them."""
    k = kit(kit.gmem(F32), kit.gmem(F32))
    x, o = k.args
    buf = k.shared(F32, stages * 32, label="buf")
    full = k.shared(U64, stages, 8, "full")
    empty = k.shared(U64, stages, 8, "empty")
    t = k.tid()

    def init():
        for s in range(stages):
            k.do(sync.MBarrierInit, k.at(full, s), k.u32(full_count))
            k.do(sync.MBarrierInit, k.at(empty, s), k.u32(32))

    k.if_(k.cmp("eq", t, 0), init)
    k.do(sync.SyncThreads)
    lane = k.mod(t, 32)

    def parity(i, start):
        phase = k.mod(k.div(i, stages), 2) if flip else k.c(0, I32)
        return k.cast(k.v(arith.Xor, phase, k.c(start, I32)), U32)

    def produce(i):
        s = k.mod(i, stages)
        k.do(sync.MBarrierWait, k.at(empty, s), parity(i, empty_start))
        k.store(buf, k.add(k.mul(s, 32), lane), k.load(x, k.add(k.mul(i, 32), lane)))
        k.do(sync.MBarrierArrive, k.at(full, s))

    def consume(i, acc):
        s = k.mod(i, stages)
        if wait:
            k.do(sync.MBarrierWait, k.at(full, s), parity(i, 0))
        value = k.load(buf, k.add(k.mul(s, 32), lane))
        k.do(sync.MBarrierArrive, k.at(empty, s))
        return k.add(acc, value)

    def consumer():
        (acc,) = k.for_(0, steps, 1, consume, [k.c(0, F32)])
        k.store(o, lane, acc)

    k.if_(k.cmp("lt", t, 32), lambda: k.for_(0, steps, 1, produce), consumer)
    a = np.random.default_rng(0).integers(0, 9, (steps, 32)).astype(np.float32)
    got = np.zeros(32, np.float32)
    return a, got, k.run(a, got, block=64, quiet=True)


def test_ring(kit):
    a, got, report = ring(kit)
    assert report.findings == ()
    np.testing.assert_array_equal(got, a.sum(axis=0))
    assert report.counters["barrier_waits"] >= 12


def test_ring_without_wait_reads_what_is_not_there(kit):
    a, got, report = ring(kit, wait=False)
    assert report.findings or not np.array_equal(got, a.sum(axis=0))


def test_ring_with_a_wrong_first_parity_deadlocks_and_says_who_waits(kit):
    _, _, report = ring(kit, empty_start=0)
    (f,) = report.findings
    assert f.kind == "deadlock"
    text = f.message
    assert "2 groups of threads can never go on" in text
    assert "block (0, 0, 0), warp 0: mbarrier.wait (test_exec_sync.py:" in text
    assert (
        "waits for parity 0 of mbarrier empty[0] of block (0, 0, 0), which is in phase 0 "
        "(parity 0); arrivals: 32 expected, 0 seen" in text
    )
    assert "block (0, 0, 0), warp 1: mbarrier.wait" in text
    assert "parity 0 of mbarrier full[0]" in text
    assert f.loc is not None
    assert f.loc.file == __file__


def test_ring_whose_phase_never_flips_goes_wrong(kit):
    a, got, report = ring(kit, flip=False, steps=7)
    assert report.findings or not np.array_equal(got, a.sum(axis=0))


def test_deadlock_raises(kit):
    k = kit()
    bar = k.shared(U64, 1, 8, "full")
    k.do(sync.MBarrierInit, bar, k.u32(1))
    k.do(sync.MBarrierArriveExpectTx, bar, k.u32(64))
    k.do(sync.MBarrierWait, bar, k.u32(0))
    with pytest.raises(SimulationError, match=r"deadlock: 1 group of threads can never go on") as e:
        k.run(block=1)
    assert "arrivals: 1 expected, 1 seen; 64 transaction bytes are missing" in str(e.value)


@pytest.mark.parametrize(("count", "found"), [(32, []), (1, ["barrier"])])
def test_more_arrivals_than_the_count(kit, count, found):
    k = kit()
    bar = k.shared(U64, 1, 8, "full")
    k.do(sync.MBarrierInit, bar, k.u32(count))
    k.do(sync.MBarrierArrive, bar)
    report = k.run(quiet=True)
    assert kinds(report) == found
    if found:
        assert (
            "completed 32 phases of full[0] of block (0, 0, 0), whose count is 1"
            in report.findings[0].message
        )


def test_arrival_while_bytes_are_missing(kit):
    k = kit()
    bar = k.shared(U64, 1, 8, "full")
    k.do(sync.MBarrierInit, bar, k.u32(1))
    k.do(sync.MBarrierArriveExpectTx, bar, k.u32(64))
    k.do(sync.MBarrierArrive, bar)
    report = k.run(block=1, quiet=True)
    assert kinds(report) == ["barrier"]
    assert "beyond its count of 1" in report.findings[0].message
    assert "64 transaction bytes are missing" in report.findings[0].message


def test_uninitialised_barrier(kit):
    k = kit()
    bar = k.shared(U64, 2, 8, "full")
    k.do(sync.MBarrierWait, k.at(bar, 1), k.u32(0))
    report = k.run(quiet=True)
    assert kinds(report) == ["barrier"]
    assert (
        "mbarrier.wait on full[1] of block (0, 0, 0), where no mbarrier was initialised"
        in report.findings[0].message
    )


def test_try_wait_gives_up_only_when_nothing_else_runs(kit):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    bar = k.shared(U64, 1, 8, "b")
    k.if_(k.cmp("eq", k.tid(), 0), lambda: k.do(sync.MBarrierInit, bar, k.u32(32)))
    k.do(sync.SyncThreads)

    def spin():
        (n,) = k.while_(
            lambda n: (k.cmp("eq", k.cast(k.v(sync.MBarrierTryWait, bar, k.u32(0)), I32), 0), (n,)),
            lambda n: k.add(n, 1),
            [k.c(0, I32)],
        )
        k.store(o, k.mod(k.tid(), 32), n)

    k.if_(k.cmp("lt", k.tid(), 32), spin, lambda: k.do(sync.MBarrierArrive, bar))
    got = np.full(32, -1, np.int32)
    k.run(got, block=64)
    assert (got == 0).all()


def test_spinning_for_ever_on_try_wait_is_a_deadlock(kit):
    k = kit()
    bar = k.shared(U64, 1, 8, "b")
    k.do(sync.MBarrierInit, bar, k.u32(2))
    k.while_(
        lambda: (k.v(arith.Xor, k.v(sync.MBarrierTryWait, bar, k.u32(0)), k.c(True, BOOL)), ()),
        lambda: (),
    )
    report = k.run(block=1, options=SimOptions(spin_rounds=50, raise_on_findings=False))
    assert kinds(report) == ["deadlock"]
    assert "b[0]" in report.findings[0].message


def test_blocks_may_wait_for_later_blocks_through_global_memory(kit):
    k = kit(kit.gmem(I32))
    (flag,) = k.args

    def spin():
        k.while_(lambda: (k.cmp("eq", k.load(flag), 0), ()), lambda: ())

    k.if_(k.cmp("lt", k.bid(), 3), spin, lambda: k.store(flag, 0, 7))
    k.if_(k.cmp("eq", k.tid(), 0), lambda: k.store(flag, k.add(k.bid(), 1), 1))
    got = np.zeros(8, np.int32)
    k.run(got, grid=4)
    assert got.tolist() == [7, 1, 1, 1, 1, 0, 0, 0]


def test_blocks_that_cannot_be_resident_deadlock(kit):
    k = kit(kit.gmem(I32))
    (flag,) = k.args
    k.if_(
        k.cmp("lt", k.bid(), 3),
        lambda: k.while_(lambda: (k.cmp("eq", k.load(flag), 0), ()), lambda: ()),
        lambda: k.store(flag, 0, 7),
    )
    got = np.zeros(8, np.int32)
    options = SimOptions(spin_rounds=50, raise_on_findings=False)
    report = k.run(got, grid=4, sm_count=2, options=options)
    assert kinds(report) == ["deadlock"]
    assert "polls in a loop whose condition never changes" in report.findings[0].message


# -- clusters and registers -----------------------------------------------------------------------


def test_cluster_barrier_and_remote_arrival(kit):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    bar = k.shared(U64, 1, 8, "b")
    k.if_(k.cmp("eq", k.tid(), 0), lambda: k.do(sync.MBarrierInit, bar, k.u32(2)))
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)
    one = k.cmp("eq", k.tid(), 0)
    for rank in range(2):
        k.if_(one, lambda rank=rank: k.do(sync.MBarrierArriveRemote, bar, k.u32(rank)))
    k.do(sync.MBarrierWait, bar, k.u32(0))
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)
    k.store(o, k.add(k.mul(k.bid(), 32), k.tid()), k.special("cluster_rank"))
    got = np.full(128, -1, np.int32)
    k.run(got, grid=4, cluster=(2, 1, 1))
    np.testing.assert_array_equal(got, np.arange(128) // 32 % 2)


def test_threads_that_arrived_at_the_cluster_barrier_may_exit(kit):
    """Their arrivals do not stand in for those of threads that have yet to come."""
    k = kit(kit.gmem(I32), kit.gmem(I32))
    marks, seen = k.args
    bar = k.shared(U64, 1, 8, "b")
    first = k.cmp("eq", k.bid(), 0)

    def come_late():
        k.if_(k.cmp("eq", k.tid(), 0), lambda: k.do(sync.MBarrierInit, bar, k.u32(1)))
        k.do(sync.MBarrierTryWait, bar, k.u32(0))  # gives up when the other warps are gone
        k.store(marks, k.tid(), k.tid())

    def stay():
        k.if_(first, lambda: None, come_late)
        k.do(sync.ClusterArrive)
        k.do(sync.ClusterWait)
        k.if_(first, lambda: k.store(seen, k.tid(), k.load(marks, k.tid())))

    def leave():
        k.do(sync.ClusterArrive)
        k.do(control.Return)

    k.if_(k.cmp("lt", k.tid(), 32), stay, leave)
    found = np.full(32, -1, np.int32)
    k.run(np.full(32, -1, np.int32), found, grid=2, block=128, cluster=(2, 1, 1))
    np.testing.assert_array_equal(found, np.arange(32))


def test_cluster_barrier_rules(kit):
    k = kit()
    k.do(sync.ClusterWait)
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterArrive)
    report = k.run(quiet=True)
    assert [f.message for f in report.findings] == [
        "cluster.wait without cluster.arrive before it",
        "cluster.arrive twice without cluster.wait between",
    ]


def test_remote_rank_out_of_range(kit):
    k = kit()
    bar = k.shared(U64, 1, 8, "b")
    k.do(sync.MBarrierInit, bar, k.u32(1))
    k.do(sync.MBarrierArriveRemote, bar, k.u32(1))
    report = k.run(block=1, quiet=True)
    assert kinds(report) == ["out_of_bounds"]
    assert "arrival at CTA 1 of a cluster of 1" in report.findings[0].message


@pytest.mark.parametrize(("up", "found"), [(232, []), (248, ["deadlock"])])
def test_register_budget(kit, up, found):
    k = kit()
    producer = k.cmp("lt", k.tid(), 128)
    k.if_(
        producer,
        lambda: k.do(sync.SetMaxRegister, count=40, increase=False),
        lambda: k.do(sync.SetMaxRegister, count=up, increase=True),
    )
    report = k.run(block=384, quiet=True)
    assert kinds(report) == found
    if found:
        assert "248 registers per thread; the block has 64512" in report.findings[0].message


def test_register_changes_must_go_the_right_way(kit):
    k = kit()
    k.do(sync.SetMaxRegister, count=240, increase=False)
    report = k.run(block=384, quiet=True)
    assert kinds(report) == ["registers"]
    assert "decrease the registers per thread from 168 to 240" in report.findings[0].message


def test_fences_do_nothing_visible(kit):
    k = kit()
    for op in (sync.FenceMBarrierInit, sync.FenceProxyAsync, sync.FenceAcqRel,
               sync.GridDependencyWait, sync.GridDependencyLaunch, sync.SyncWarp):  # fmt: skip
        k.do(op)
    assert k.run().findings == ()
