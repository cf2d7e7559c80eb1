"""The parts of the race detector: clocks, cells, provenance; and it changes no result."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.ir.ops import arith, memory, sync
from tilewright.numeric.dtypes import F32, I8, I32
from tilewright.sim.machine import SimOptions
from tilewright.sim.races.clocks import (
    FENCED,
    FENCED_ALL,
    GLOBAL,
    SEEN,
    VISIBLE,
    Board,
    Clock,
    Team,
)
from tilewright.sim.races.provenance import Provenance
from tilewright.sim.races.shadow import Shadow

CHECKED = SimOptions(check_races=True, raise_on_findings=False)


def row(i):
    return slice(i, i + 1)


# -- clocks ---------------------------------------------------------------------------------------


def test_what_is_released_is_learnt_and_nothing_else():
    team = Team(0, 1, 64, Clock())
    board = Board(team.columns)
    at = team.release(row(3), board)
    team.acquire(slice(32, 64), board)
    (known,) = team.of(slice(32, 64))
    assert known.vec[SEEN, 3] == at
    assert known.vec[SEEN].sum() == at
    (other,) = team.of(slice(0, 32))
    assert not other.vec.any()


def test_knowledge_is_passed_on():
    team = Team(0, 1, 64, Clock())
    first, second = Board(team.columns), Board(team.columns)
    at = team.release(row(1), first)
    team.acquire(row(40), first)
    team.release(row(40), second)
    team.acquire(np.array([7, 9]), second)
    assert all(k.vec[SEEN, 1] == at for k in team.of(np.array([7, 9])))


def test_equal_knowledge_is_one_object_and_news_alone_make_another():
    team = Team(0, 1, 64, Clock())
    board = Board(team.columns)
    team.release(slice(0, 64), board)
    team.acquire(slice(0, 64), board)
    assert len(team.of(slice(0, 64))) == 1
    before = team.ids.copy()
    team.acquire(slice(0, 64), board)
    assert (team.ids == before).all()


def test_a_fence_is_released_with_the_time_at_which_it_stood():
    team = Team(0, 1, 32, Clock())
    early, late = Board(team.columns), Board(team.columns)
    team.release(row(0), early)
    team.fence(row(0), FENCED)
    team.release(row(0), late)
    assert early.vec[FENCED, 0] == 0
    assert 0 < late.vec[FENCED, 0] <= late.vec[SEEN, 0]


def test_a_synced_warp_speaks_through_one_lane():
    team = Team(0, 1, 64, Clock())
    alone, board = Board(team.columns), Board(team.columns)
    team.release(row(0), alone)
    team.sync_warps(slice(0, 32))
    team.release(row(0), board)
    assert not alone.vec[SEEN, 1:].any()
    assert board.vec[SEEN, 1:32].all()
    assert not board.vec[SEEN, 32:].any()


def test_columns_grow_for_barriers():
    team = Team(0, 1, 32, Clock())
    board = Board(team.columns)
    columns = [team.new_column() for _ in range(100)]
    assert len(set(columns)) == 100
    assert team.columns > max(columns)
    team.release(row(0), board)
    team.acquire(row(5), board)
    assert team.of(row(5))[0].vec.shape[1] == team.columns


def test_the_grid_in_front_has_a_column_of_its_own():
    team = Team(0, 2, 32, Clock())
    assert team.predecessor == team.threads
    ended, board = Board(team.columns), Board(team.columns)
    ended.vec[SEEN, team.predecessor] = 1
    team.acquire(row(3), ended)
    team.release(row(3), board)
    team.acquire(row(40), board)
    assert [int(k.vec[SEEN, team.predecessor]) for k in team.of(row(40))] == [1]
    assert not any(k.vec[SEEN, team.predecessor] for k in team.of(row(4)))


def test_a_release_to_another_block_shows_global_memory_after_a_fence_only():
    team = Team(0, 2, 32, Clock())
    weak, strong = Board(team.columns), Board(team.columns)
    at = team.release(row(0), weak, weak=True)
    assert (weak.vec[SEEN, 0], weak.vec[VISIBLE, 0], weak.vec[GLOBAL, 0]) == (at, 0, 0)
    later = team.release(row(0), strong)
    strong.vec[GLOBAL] = 0  # as an mbarrier hands it on
    team.acquire(row(40), strong)
    (before,) = team.of(row(40))
    team.look_again(row(40))
    (after,) = team.of(row(40))
    assert (before.vec[VISIBLE, 0], before.vec[GLOBAL, 0]) == (later, 0)
    assert after.vec[GLOBAL, 0] == later
    team.look_again(row(40))
    assert team.of(row(40)) == [after]  # nothing new: the same object


def test_a_fence_for_all_memory_covers_what_is_known_of_other_clusters():
    clock = Clock()
    team, other = Team(0, 1, 32, clock), Team(1, 1, 32, clock)
    told, board = Board(other.columns), Board(team.columns)
    at = other.release(row(7), told)
    board.far = {1: told.vec}
    team.acquire(row(0), board)
    team.fence(row(0), FENCED)
    assert team.of(row(0))[0].far[1][FENCED_ALL, 7] == 0
    team.fence(row(0), FENCED, FENCED_ALL)
    assert team.of(row(0))[0].far[1][FENCED_ALL, 7] == at


# -- cells ----------------------------------------------------------------------------------------


def test_cells_split_on_the_first_smaller_access():
    shadow = Shadow(0, 64, None)
    cells = shadow.cells(16, 32)
    shadow.writer[cells] = 5
    assert shadow.writer.tolist() == [0, 5, 5, 0]
    cells = shadow.cells(np.array([20, 60]), 4)
    shadow.writer[cells] = 7
    assert shadow.shift == 2
    assert shadow.writer.tolist() == [0] * 4 + [5, 7, 5, 5] + [5] * 4 + [0, 0, 0, 7]
    assert shadow.cells(np.array([0, 32]), 8).tolist() == [0, 1, 8, 9]


@pytest.mark.parametrize("dtype", [I8, F32])
def test_neighbouring_elements_do_not_conflict(kit, dtype):
    k = kit(kit.gmem(dtype))
    s = k.shared(dtype, 64)
    for part in (0, 1):
        k.if_(
            k.cmp("eq", k.mod(k.tid(), 2), part),
            lambda: k.store(s, k.tid(), k.load(k.args[0], k.tid())),
        )
    x = np.zeros(64, np.int8 if dtype is I8 else np.float32)
    assert not k.run(x, block=64, options=CHECKED).findings


def test_many_reads_of_one_cell_are_remembered_in_one_set(kit):
    k = kit(kit.gmem(F32))
    s = k.shared(F32, 4)
    k.if_(k.cmp("eq", k.tid(), 0), lambda: k.store(s, 0, k.c(1.0, F32)))
    k.do(sync.SyncThreads)

    def again(_, total):
        return k.v(arith.Add, total, k.load(s, 0))

    (total,) = k.for_(0, 300, 1, again, [k.c(0.0, F32)])
    k.store(k.args[0], k.tid(), total)
    k.if_(k.cmp("eq", k.tid(), 40), lambda: k.store(s, 0, k.c(2.0, F32)))
    report = k.run(np.zeros(64, np.float32), block=64, options=CHECKED)
    (finding,) = report.findings
    assert [a.kind for a in finding.accesses] == ["read", "write"]
    assert "thread 40" in finding.accesses[1].agent


# -- provenance -----------------------------------------------------------------------------------


def test_provenance_follows_loops_and_refuses_what_is_ambiguous(kit):
    k = kit()
    a, b = k.shared(F32, 16, label="a"), k.shared(F32, 16, label="b")
    (one,) = k.for_(0, 4, 1, lambda _, p: k.at(p, 1), [a])
    swapped = k.for_(0, 4, 1, lambda _, p, q: (q, p), [a, b])
    address = k.add(k.cast(k.v(memory.SharedAddress, k.at(b, 2)), I32), 64)
    found = Provenance(k.func().body)
    assert found.bounds(k.at(a, 3)) == (0, 64, "a")
    assert found.bounds(one) == (0, 64, "a")
    assert found.bounds(swapped[0]) is None
    assert found.bounds(swapped[1]) is None
    assert found.bounds(address) == (64, 128, "b")


# -- in all --------------------------------------------------------------------------------------


def test_checks_change_neither_results_nor_counters(kit):
    def build():
        k = kit(kit.gmem(F32), kit.gmem(F32))
        s = k.shared(F32, 128)
        k.store(s, k.tid(), k.load(k.args[0], k.tid()))
        k.do(sync.SyncThreads)
        k.store(k.args[1], k.tid(), k.load(s, k.sub(127, k.tid())))
        return k

    x = np.arange(128, dtype=np.float32)
    plain, checked = np.zeros_like(x), np.zeros_like(x)
    first = build().run(x, plain, block=128)
    options = SimOptions(check_races=True, check_global=True)
    second = build().run(x, checked, block=128, options=options)
    assert (plain == checked).all()
    assert first.counters == second.counters
