"""TMA: rings of stages, stores, proxies, parities (CASES A13, A15, A17)."""

from __future__ import annotations

import numpy as np
import pytest
from engine_checks import check, expect

from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync
from tilewright.dsl import Constexpr, Float32, Int8, Int32, Uint64, const_expr, range_constexpr
from tilewright.utils import SmemAllocator

ROWS, COLUMNS = 16, 32
BYTES = ROWS * COLUMNS * 4
STAGES = 2


def tiles(n: int) -> np.ndarray:
    return np.arange(n * ROWS * COLUMNS, dtype=np.float32).reshape(n * ROWS, COLUMNS)


def stage_layout(stages: int):
    return cute.make_layout((ROWS, COLUMNS, stages), stride=(COLUMNS, 1, ROWS * COLUMNS))


def parts(atom, s, m):
    """(TMA, STAGE) in shared memory and (TMA, tiles) in global memory."""
    g = cute.local_tile(m, (ROWS, COLUMNS), (None, 0))
    return cpasync.tma_partition(
        atom, 0, cute.make_layout(1), cute.group_modes(s, 0, 2), cute.group_modes(g, 0, 2)
    )


# -- a ring ---------------------------------------------------------------------------------------


@cute.kernel
def ring_kernel(
    load: cute.CopyAtom, mX: cute.Tensor, y: cute.Tensor, count: Int32,
    bug: Constexpr,
):  # fmt: skip
    """Warp 0 loads tiles into a ring, warp 1 reads them."""
    tidx, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    s = smem.allocate_tensor(Float32, stage_layout(STAGES), 128, label="ring")
    full = smem.allocate_array(Uint64, STAGES, label="full")
    empty = smem.allocate_array(Uint64, STAGES, label="empty")
    if tidx == 0:
        for i in range_constexpr(STAGES):
            cute.arch.mbarrier_init(full + i, 1)
            cute.arch.mbarrier_init(empty + i, 1)
        if const_expr(bug != "init fence"):
            cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    tXsX, tXgX = parts(load, s, mX)
    if cute.arch.make_warp_uniform(tidx // 32) == 0:
        if cute.arch.elect_one_sync():
            for tile in dsl.range(count, unroll=1):
                stage, turn = tile % STAGES, tile // STAGES
                if const_expr(bug != "no empty"):
                    phase = (turn & 1) if bug == "empty parity" else (turn & 1) ^ 1
                    cute.arch.mbarrier_wait(empty + stage, phase)  # FAULT (empty parity)
                size = BYTES // 2 if bug == "bytes" else BYTES
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, size)
                cute.copy(  # FAULT (init fence, no empty)
                    load, tXgX[None, tile], tXsX[None, stage], tma_bar_ptr=full + stage
                )
    else:
        lane = tidx % 32
        total = Float32(0.0)
        for tile in dsl.range(count, unroll=1):
            stage, turn = tile % STAGES, tile // STAGES
            if const_expr(bug == "wrong stage"):
                cute.arch.mbarrier_wait(full + (stage ^ 1), turn & 1)
            elif const_expr(bug == "full parity"):
                cute.arch.mbarrier_wait(full + stage, 0)  # FAULT (full parity)
            elif const_expr(bug != "no full"):
                cute.arch.mbarrier_wait(full + stage, turn & 1)
            if const_expr(bug == "early release"):
                cute.arch.sync_warp()
                if lane == 0:
                    cute.arch.mbarrier_arrive(empty + stage)
            for r in range_constexpr(ROWS):
                total = total + s[r, lane, stage]  # FAULT (no full, wrong stage, early release)
            y[tile * 32 + lane] = total
            if const_expr(bug != "early release"):
                if const_expr(bug != "one lane releases"):
                    cute.arch.sync_warp()
                if lane == 0:
                    cute.arch.mbarrier_arrive(empty + stage)


@cute.jit
def ring(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    one = cute.slice_(stage_layout(STAGES), (None, None, 0))
    load, mX = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), x, one, (ROWS, COLUMNS)
    )
    count = x.shape[0] // ROWS
    ring_kernel(load, mX, y, count, bug).launch(grid=1, block=64)


RING = (tiles(8), np.zeros(256, np.float32))


@pytest.mark.parametrize("bug", ["no full", "wrong stage", "early release", "no empty"])
def test_ring_races(bug):
    """Whatever the order: a race at the marked line, or a block that hangs for it."""
    assert not check(ring, *RING, "").findings
    kinds = set()
    for seed in range(20):
        report = check(ring, *RING, bug, seeds=1, seed=seed)
        assert report.findings, seed
        kinds |= {f.kind for f in report.findings}
    assert "race" in kinds


def test_only_the_releasing_lane_speaks_for_its_reads():
    expect(ring, RING, "one lane releases", "race")


@pytest.mark.parametrize("bug", ["full parity", "empty parity"])
def test_ring_parities(bug):
    seen = set()
    for seed in range(20):
        report = check(ring, *RING, bug, seeds=1, seed=seed)
        assert report.findings, seed
        seen |= {f.kind for f in report.findings}
    assert seen & {"stale_phase", "deadlock"}


def test_ring_too_few_bytes_are_expected():
    for seed in range(20):
        report = check(ring, *RING, "bytes", seeds=1, seed=seed)
        assert {"barrier", "deadlock"} & {f.kind for f in report.findings}


def test_ring_barrier_initialisation_is_fenced_for_tma():
    expect(ring, RING, "init fence", "proxy_fence")


def test_a_stage_loaded_again_too_early_names_the_rule():
    report = check(ring, *RING, "no empty")
    finding = next(f for f in report.findings if f.kind == "race")
    assert (
        "a stage may be loaded again only behind a wait for its readers' arrivals" in finding.rule
    )
    load = next(a for a in finding.accesses if a.op == "tma.load")
    assert load.agent.startswith("TMA of block (0, 0, 0), thread 0")
    assert load.proxy == "async"


# -- tiles of a persistent block ------------------------------------------------------------------


@cute.kernel
def persistent_kernel(load: cute.CopyAtom, mX: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    """Two output tiles of three k tiles each, over a ring of two stages."""
    tidx, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    s = smem.allocate_tensor(Float32, stage_layout(STAGES), 128, label="ring")
    full = smem.allocate_array(Uint64, STAGES, label="full")
    empty = smem.allocate_array(Uint64, STAGES, label="empty")
    if tidx == 0:
        for i in range_constexpr(STAGES):
            cute.arch.mbarrier_init(full + i, 1)
            cute.arch.mbarrier_init(empty + i, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    tXsX, tXgX = parts(load, s, mX)
    if cute.arch.make_warp_uniform(tidx // 32) == 0:
        if cute.arch.elect_one_sync():
            step = Int32(0)
            for tile in dsl.range(2, unroll=1):
                if const_expr(bug == "restart"):
                    step = Int32(0)
                for k in dsl.range(3, unroll=1):
                    stage, phase = step % STAGES, ((step // STAGES) & 1) ^ 1
                    cute.arch.mbarrier_wait(empty + stage, phase)  # FAULT
                    cute.arch.mbarrier_arrive_and_expect_tx(full + stage, BYTES)
                    cute.copy(
                        load, tXgX[None, tile * 3 + k], tXsX[None, stage], tma_bar_ptr=full + stage
                    )
                    step = step + 1
    else:
        lane = tidx % 32
        step = Int32(0)
        for tile in dsl.range(2, unroll=1):
            if const_expr(bug == "restart"):
                step = Int32(0)
            for k in dsl.range(3, unroll=1):
                stage = step % STAGES
                cute.arch.mbarrier_wait(full + stage, (step // STAGES) & 1)  # FAULT
                y[(tile * 3 + k) * 32 + lane] = s[0, lane, stage]  # FAULT
                cute.arch.sync_warp()
                if lane == 0:
                    cute.arch.mbarrier_arrive(empty + stage)
                step = step + 1


@cute.jit
def persistent(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    one = cute.slice_(stage_layout(STAGES), (None, None, 0))
    load, mX = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), x, one, (ROWS, COLUMNS)
    )
    persistent_kernel(load, mX, y, bug).launch(grid=1, block=64)


def test_a_ring_restarted_between_tiles():
    args = (tiles(6), np.zeros(192, np.float32))
    assert not check(persistent, *args, "").findings
    for seed in range(20):
        report = check(persistent, *args, "restart", seeds=1, seed=seed)
        assert "stale_phase" in {f.kind for f in report.findings}, seed


# -- CASES A15 ------------------------------------------------------------------------------------


@cute.kernel
def four_barriers_kernel(load: cute.CopyAtom, mX: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    s = smem.allocate_tensor(Float32, stage_layout(4), 128, label="tiles")
    ready = smem.allocate_array(Uint64, 4, label="ready")
    if tidx == 0:
        for i in range_constexpr(4):
            cute.arch.mbarrier_init(ready + i, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    tXsX, tXgX = parts(load, s, mX)
    if tidx == 0:
        for i in range_constexpr(4):
            cute.arch.mbarrier_arrive_and_expect_tx(ready + i, BYTES)
            cute.copy(load, tXgX[None, i], tXsX[None, i], tma_bar_ptr=ready + i)
    for i in range_constexpr(4):
        cute.arch.mbarrier_wait(ready + i, i & 1 if bug != "" else 0)  # FAULT
        y[i * 32 + tidx] = s[0, tidx, i]


@cute.jit
def four_barriers(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    one = cute.slice_(stage_layout(4), (None, None, 0))
    load, mX = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), x, one, (ROWS, COLUMNS)
    )
    four_barriers_kernel(load, mX, y, bug).launch(grid=1, block=32)


def test_a15_parity_of_the_loop_instead_of_the_barrier():
    args = (tiles(4), np.zeros(128, np.float32))
    expect(four_barriers, args, "loop parity", "stale_phase")
    # The loads finish late: the waits of steps 1 and 3 pass at once, and old data are read.
    report = check(four_barriers, *args, "loop parity", seeds=1, seed=1)
    stale = [f for f in report.findings if f.kind == "stale_phase"]
    assert len(stale) == 2
    assert (
        "the wait for ready[1] of block (0, 0, 0) was satisfied by the phase before its first"
        in stale[0].message
    )
    race = next(f for f in report.findings if f.kind == "race")
    assert "the wait at test_engine_tma.py" in str(race)
    # They finish at once: step 1 waits for the phase after the one that is complete.
    report = check(four_barriers, *args, "loop parity", seeds=1, seed=3)
    (missed,) = [f for f in report.findings if f.kind == "stale_phase"]
    assert "the thread has never waited for phase 0 (parity 0), which is complete" in missed.message


# -- stores: proxies, and CASES A13 ---------------------------------------------------------------


@cute.kernel
def store_kernel(
    store: cute.CopyAtom, mY: cute.Tensor, x: cute.Tensor, zero: Int32, bug: Constexpr
):
    """Tiles go through two buffers of shared memory to global memory by TMA."""
    tidx, _, _ = cute.arch.thread_idx()
    s = SmemAllocator().allocate_tensor(Float32, stage_layout(2), 128, label="out")
    tYsY, tYgY = parts(store, s, mY)
    for tile in range_constexpr(4):
        if tidx == 0:
            if const_expr(bug == "late"):
                cute.arch.cp_async_bulk_wait_group(2, read=True)
            elif const_expr(bug != "no wait"):
                cute.arch.cp_async_bulk_wait_group(1, read=True)
        cute.arch.sync_threads()
        for r in range_constexpr(ROWS // 2):
            row, column = 2 * r + tidx // 32, tidx % 32
            s[row, column, tile % 2] = x[(tile * ROWS + row) * 32 + column]  # FAULT (late, no wait)
        if const_expr(bug == "fence in a loop"):
            for _ in dsl.range(zero, unroll=1):
                cute.arch.fence_proxy("async.shared", space="cta")
        elif const_expr(bug == "fence of one thread"):
            cute.arch.sync_threads()
            if tidx == 0:
                cute.arch.fence_proxy("async.shared", space="cta")
        elif const_expr(bug == "fence first"):
            pass
        elif const_expr(bug != "no fence"):
            cute.arch.fence_proxy("async.shared", space="cta")
        if const_expr(bug != "no barrier"):
            cute.arch.sync_threads()
        if const_expr(bug == "fence first"):
            cute.arch.fence_proxy("async.shared", space="cta")
        if tidx == 0:
            cute.copy(store, tYsY[None, tile % 2], tYgY[None, tile])  # FAULT
            cute.arch.cp_async_bulk_commit_group()
    if tidx == 0:
        cute.arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def store_tiles(y: cute.Tensor, x: cute.Tensor, bug: Constexpr):
    one = cute.slice_(stage_layout(2), (None, None, 0))
    store, mY = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileS2GOp(), y, one, (ROWS, COLUMNS)
    )
    zero = x.shape[0] // 1_000_000
    store_kernel(store, mY, x, zero, bug).launch(grid=1, block=64)


STORE = (tiles(4), tiles(4).reshape(-1))


@pytest.mark.parametrize(
    "bug", ["no fence", "fence in a loop", "fence of one thread", "fence first"]
)
def test_generic_writes_before_a_tma_store_are_fenced(bug):
    expect(store_tiles, STORE, bug, "proxy_fence")


@pytest.mark.parametrize("bug", ["no barrier", "late", "no wait"])
def test_tma_store_races(bug):
    expect(store_tiles, STORE, bug, "race")


def test_the_missing_fence_is_explained():
    finding = check(store_tiles, *STORE, "no fence").findings[0]
    assert finding.kind == "proxy_fence"
    assert "no proxy fence stands between the two" in finding.message
    assert finding.rule.startswith("generic writes are ordered before accesses of the async proxy")


@cute.kernel
def through_kernel(
    load: cute.CopyAtom, mX: cute.Tensor, store: cute.CopyAtom, mY: cute.Tensor, bug: Constexpr
):
    """CASES A13: slot i % 2 is loaded, then stored; one thread does it all."""
    tidx, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    s = smem.allocate_tensor(Float32, stage_layout(2), 128, label="slot")
    ready = smem.allocate_array(Uint64, 2, label="ready")
    tXsX, tXgX = parts(load, s, mX)
    tYsY, tYgY = parts(store, s, mY)
    if tidx == 0:
        for i in range_constexpr(2):
            cute.arch.mbarrier_init(ready + i, 1)
        cute.arch.mbarrier_init_fence()
        for i in range_constexpr(6):
            slot = i % 2
            # The slot was stored from two steps ago: with two slots, nothing may be pending.
            cute.arch.cp_async_bulk_wait_group(1 if bug == "" else 2, read=True)
            cute.arch.mbarrier_arrive_and_expect_tx(ready + slot, BYTES)
            cute.copy(load, tXgX[None, i], tXsX[None, slot], tma_bar_ptr=ready + slot)  # FAULT
            cute.arch.mbarrier_wait(ready + slot, (i // 2) & 1)
            cute.copy(store, tYsY[None, slot], tYgY[None, i])
            cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def through(x: cute.Tensor, y: cute.Tensor, bug: Constexpr):
    one = cute.slice_(stage_layout(2), (None, None, 0))
    load, mX = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), x, one, (ROWS, COLUMNS)
    )
    store, mY = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileS2GOp(), y, one, (ROWS, COLUMNS)
    )
    through_kernel(load, mX, store, mY, bug).launch(grid=1, block=32)


def test_a13_tma_store_source_reused_too_early():
    expect(through, (tiles(6), tiles(6)), "late", "race")
    report = check(through, tiles(6), tiles(6), "late")
    finding = next(f for f in report.findings if f.kind == "race")
    assert [a.op for a in finding.accesses] == ["tma.store", "tma.load"]
    assert "the source of a bulk store may be overwritten only behind" in finding.rule


# -- CASES A17 ------------------------------------------------------------------------------------


@cute.kernel
def slice_kernel(store: cute.CopyAtom, mY: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    layout = cute.make_layout((8, 32), stride=(32, 1))
    s = SmemAllocator().allocate_tensor(Int8, layout, 128, label="out")
    for r in range_constexpr(8):
        s[r, tidx] = Int8(1)
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.sync_threads()
    if tidx == 0:
        g = cute.local_tile(mY, (8, 32), (0, None))
        ts, tg = cpasync.tma_partition(
            store, 0, cute.make_layout(1), cute.group_modes(s, 0, 2), cute.group_modes(g, 0, 2)
        )
        cute.copy(store, ts, tg[None, 0])  # FAULT
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def store_slice(y: cute.Tensor):
    layout = cute.make_layout((8, 32), stride=(32, 1))
    store, mY = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), y, layout, (8, 32))
    slice_kernel(store, mY).launch(grid=1, block=32)


def test_a17_a_store_into_a_column_slice_overruns():
    whole = np.full((8, 64), 7, np.int8)
    assert not check(store_slice, whole[:, :16]).findings
    report = check(store_slice, whole[:, :26])
    assert report.findings[0].kind == "overrun"
    assert "writes 6 bytes behind the inner extent 26" in report.findings[0].message
