"""Distributed shared memory: who is reached, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.ir.ops import memory, sync
from tilewright.numeric.dtypes import F32, I32, U32
from tilewright.sim.machine import SimOptions

CLUSTER = (4, 1, 1)


def texts(report):
    return [f"{f.kind}: {f.message}" for f in report.findings]


def cluster_sync(k):
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)


def start(k, count=8):
    """A buffer that holds 100 * rank + i, the rank and the thread."""
    s = k.shared(I32, count, label="s")
    rank, t = k.special("cluster_rank"), k.tid()
    k.store(s, t, k.add(k.mul(rank, 100), t))
    cluster_sync(k)
    return s, rank, t


def mapped(k, s, rank):
    return k.v(memory.MapShared, s, k.cast(rank, U32))


def run(k, *arrays, block=8, **options):
    options = SimOptions(raise_on_findings=False, check_races=True, **options)
    return k.run(*arrays, grid=4, block=block, cluster=CLUSTER, options=options)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_lane_may_ask_another_block(kit, seed):
    k = kit(kit.gmem(I32))
    s, rank, t = start(k)
    there = mapped(k, s, k.mod(k.add(rank, t), 4))
    k.store(k.args[0], k.add(k.mul(rank, 8), t), k.load(there, t))
    cluster_sync(k)
    got = np.zeros((4, 8), np.int32)
    assert run(k, got, seed=seed).findings == ()
    ranks, lanes = np.indices((4, 8))
    np.testing.assert_array_equal(got, 100 * ((ranks + lanes) % 4) + lanes)


def test_vectors_and_copies_between_blocks(kit):
    k = kit(kit.gmem(I32))
    s, rank, t = start(k)
    mine = k.shared(I32, 8, label="mine")
    there = mapped(k, s, k.mod(k.add(rank, 1), 4))

    def move():
        k.do(memory.Copy, k.at(there, 4, 4), k.at(mine, 0), bytes=16)
        k.store(mine, 4, k.load(there, 0, 4), 4)
        k.do(memory.Copy, k.at(mine, 0), k.at(k.args[0], k.mul(rank, 8), 8), bytes=16)
        to = k.at(k.args[0], k.add(k.mul(rank, 8), 4), 4)
        k.do(memory.Copy, k.at(mine, 4, 4), to, bytes=16)

    k.if_(k.cmp("eq", t, 0), move)
    cluster_sync(k)
    got = np.zeros((4, 8), np.int32)
    assert run(k, got).findings == ()
    from_next = 100 * ((np.arange(4) + 1) % 4)[:, None]
    np.testing.assert_array_equal(got, from_next + np.array([4, 5, 6, 7, 0, 1, 2, 3]))


def test_atomics_of_all_blocks_on_one_counter(kit):
    k = kit(kit.gmem(I32))
    count = k.shared(I32, 1, label="count")
    t, rank = k.tid(), k.special("cluster_rank")
    k.if_(k.cmp("eq", t, 0), lambda: k.store(count, 0, 0))
    cluster_sync(k)
    first = mapped(k, count, k.c(0, I32))
    k.v(memory.Atomic, first, 1, kind="add", scope="cluster")
    cluster_sync(k)
    k.if_(k.cmp("eq", t, 0), lambda: k.store(k.args[0], rank, k.load(first)))
    cluster_sync(k)
    got = np.zeros(4, np.int32)
    assert run(k, got).findings == ()
    assert (got == 32).all()


def test_a_rank_beyond_the_cluster(kit):
    k = kit(kit.gmem(I32))
    s, rank, t = start(k)
    del rank
    k.store(k.args[0], t, k.load(mapped(k, s, k.c(4, I32)), t))
    cluster_sync(k)
    assert texts(run(k, np.zeros(8, np.int32))) == [
        "out_of_bounds: 4 bytes of shared memory are read at 0x4000400: CTA 4 of a cluster of 4"
    ]


def test_behind_the_end_of_a_peer(kit):
    k = kit(kit.gmem(I32))
    s, rank, t = start(k)
    there = mapped(k, s, k.mod(k.add(rank, 1), 4))
    k.store(there, k.add(t, 4), t)
    cluster_sync(k)
    (text,) = texts(run(k, np.zeros(8, np.int32)))
    assert text.startswith("out_of_bounds: 4 bytes of shared memory are written at 0x")
    assert "byte 32 of the 32 bytes of shared memory of block (" in text


def test_what_a_peer_has_not_written(kit):
    k = kit(kit.gmem(I32))
    s = k.shared(I32, 8, label="s")
    cluster_sync(k)
    k.store(k.args[0], k.tid(), k.load(mapped(k, s, k.c(2, I32)), k.tid()))
    cluster_sync(k)
    assert texts(run(k, np.zeros(8, np.int32))) == [
        "uninitialised: 4 bytes of shared memory at s[0] of block (2, 0, 0) (rank 2) are read, and "
        "not all of them were written before"
    ]


def test_a_block_that_is_no_more(kit):
    """Without the race detector too: the machine sees it where it happens."""
    k = kit(kit.gmem(F32))
    s = k.shared(F32, 1, label="s")
    rank = k.special("cluster_rank")
    k.store(s, 0, k.c(1.0, F32))
    cluster_sync(k)

    there = mapped(k, s, k.c(1, I32))
    k.if_(k.cmp("eq", rank, 0), lambda: k.store(there, 0, k.c(2.0, F32)))
    found = set()
    for seed in range(12):
        options = SimOptions(seed=seed, raise_on_findings=False)
        x = np.zeros(1, np.float32)
        found.update(texts(k.run(x, grid=4, block=1, cluster=CLUSTER, options=options)))
    assert found == {
        "exit: mem.store reaches into the shared memory of block (1, 0, 0) (rank 1), which has "
        "exited"
    }
