"""Recorded clocks as values: in the simulator, which fills the same buffer as a GPU does."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tilewright import cute, dsl
from tilewright.compiler import record
from tilewright.compiler.record import decode, instrument, record_clocks, replayed
from tilewright.errors import LaunchError, ResourceError
from tilewright.ir.ops.record import VALID
from tilewright.runtime import driver
from tilewright.sim.machine import Launch
from tilewright.sim.memory import GlobalMemory
from tilewright.utils import SmemAllocator

THREADS = 96


@cute.kernel
def turn_kernel(x: cute.Tensor, y: cute.Tensor, rounds: dsl.Int32) -> None:
    t = cute.arch.thread_idx()[0]
    block = cute.arch.block_idx()[0]
    s = SmemAllocator().allocate_tensor(dsl.Float32, cute.make_layout(THREADS), label="s")
    for _ in dsl.range(rounds, unroll=1):
        s[t] = x[block * THREADS + t]
        cute.arch.sync_threads()
        if t == 40:
            y[block] = s[THREADS - 1]
            cute.arch.fence_acq_rel_gpu()  # so that the branch is more than a store
        cute.arch.sync_threads()


@cute.jit
def turn(x: cute.Tensor, y: cute.Tensor, rounds: dsl.Int32) -> None:
    turn_kernel(x, y, rounds).launch(grid=cute.size(y), block=THREADS)


def arrays(blocks: int) -> tuple[Any, Any]:
    return np.arange(blocks * THREADS, dtype=np.float32), np.zeros(blocks, np.float32)


def run(grid: int = 3, rounds: int = 2, **options: Any) -> record.Recording:
    x, y = arrays(grid)
    (made,) = record_clocks(cute.compile(turn, x, y, rounds), x, y, rounds, **options)
    assert (y == x[THREADS - 1 :: THREADS]).all(), "recording must not change what is computed"
    return made


def test_every_warp_records_its_events_in_order() -> None:
    made = run()
    assert made.blocks == ((0, 0, 0), (1, 0, 0), (2, 0, 0))
    for block in made.blocks:
        for warp in range(3):
            own = [e for e in made.events if (e.block, e.warp) == (block, warp)]
            one_round = ["mem.store", "sync.threads", "sync.threads"]
            if warp == 1:
                one_round.insert(2, "mem.store")
            assert [e.site.op for e in own] == ["start", *one_round * 2, "exit"]
            for a, b in pairwise(own):
                assert a.begin <= a.end < b.begin <= b.end
    assert made.dropped == 0
    assert (made.device, made.clock_ghz, made.grid) == ("", 1.0, (3, 1, 1))


def test_the_first_lane_that_is_there_records() -> None:
    lanes = {(e.site.op, e.site.kind, e.lane) for e in run().events if e.warp == 1}
    assert ("mem.store", "global", 8) in lanes
    assert ("mem.store", "shared", 0) in lanes


def test_events_have_the_line_of_python() -> None:
    store = next(e for e in run().events if e.site.kind == "global")
    assert store.site.loc is not None
    assert store.site.loc.file == __file__
    assert store.site.loc.function == "turn_kernel"


def test_only_the_first_blocks_record() -> None:
    made = run(grid=5, blocks=2)
    assert made.blocks == ((0, 0, 0), (1, 0, 0))
    assert {e.block for e in made.events} == set(made.blocks)


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    made = run(grid=2, rounds=5, events=7)
    # Lane 0 of each warp: start, 3 events a round, exit; thread 40 alone: one event a round.
    assert made.dropped == 2 * 3 * (2 + 3 * 5 - 7)
    assert sum(e.warp == 0 and e.block == (0, 0, 0) for e in made.events) == 7
    assert sum(e.lane == 8 for e in made.events) == 2 * 5


def test_waits_for_mbarriers_say_which() -> None:
    @cute.kernel
    def wait_kernel(y: cute.Tensor) -> None:
        t = cute.arch.thread_idx()[0]
        bars = SmemAllocator().allocate_array(dsl.Uint64, 2, label="bars")
        if t == 0:
            cute.arch.mbarrier_init(bars, 1)
            cute.arch.mbarrier_init(bars + 1, 1)
        cute.arch.sync_threads()
        if t == 0:
            cute.arch.mbarrier_arrive(bars + 1)
        cute.arch.mbarrier_wait(bars + 1, 0)
        y[t] = 1.0

    @cute.jit
    def wait(y: cute.Tensor) -> None:
        wait_kernel(y).launch(grid=1, block=32)

    y = np.zeros(32, np.float32)
    (made,) = record_clocks(cute.compile(wait, y), y)
    barriers = {e.site.op: e.barrier for e in made.events}
    assert barriers["mbarrier.wait"] == 1024 + 8, "shared memory begins at 1 KiB"
    assert barriers["sync.threads"] == 0


def test_a_gpu_buffer_is_put_on_one_axis() -> None:
    """Clocks of different SMs have nothing to do with each other; nanoseconds have."""
    x, y = arrays(2)
    (launch,) = cute.compile(turn, x, y, 1).launches(x, y, 1)
    made = instrument(launch, 2, 7)
    data = np.zeros(made.size, np.uint8)
    words = data.view(np.uint32).reshape(2, THREADS, 8, 4)
    for block, (nanoseconds, clock) in enumerate([(5000, 1 << 40), (5100, 77)]):
        words[block, 0, 0] = (nanoseconds, 0, 1 << 31 | 40 + block, block)
        words[block, 0, 1] = (clock & 0xFFFFFFFF, clock >> 32, 0, VALID)
        words[block, 0, 2] = ((clock + 10) & 0xFFFFFFFF, clock >> 32, 5, VALID | 1)
    found = decode(made, data, "GPU", 2.0)
    assert [(e.block[0], e.begin, e.end) for e in found.events] == [
        *((0, 0, 0), (0, 10, 15)),
        *((1, 200, 200), (1, 210, 215)),
    ]
    assert found.sms == (((0, 0, 0), 40), ((1, 0, 0), 41))
    assert found.dropped == 1


def test_sizes_that_are_refused() -> None:
    x, y = arrays(1)
    (launch,) = cute.compile(turn, x, y, 1).launches(x, y, 1)
    with pytest.raises(LaunchError, match="record turn_kernel: blocks is 0, expected 1 or more"):
        instrument(launch, 0)
    with pytest.raises(LaunchError, match=r"events is 100, .* power of two") as error:
        instrument(launch, 1, 100)
    assert error.value.hint == "take 127"
    wide = Launch(launch.kernel, (2000, 1, 1), launch.block, args=launch.args)
    assert instrument(wide, 2000, 255).size == 2000 * THREADS * 256 * 16
    with pytest.raises(ResourceError, match=r"2000 blocks .* take 1,572,864,000 bytes") as large:
        instrument(wide, 2000, 511)
    assert large.value.hint == "record fewer blocks or events"


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = driver.Availability(False, "the driver sees no GPU")
    monkeypatch.setattr(driver, "is_available", lambda: reason)
    x, y = arrays(1)
    (launch,) = cute.compile(turn, x, y, 1).launches(x, y, 1)
    with pytest.raises(LaunchError, match="no usable GPU: the driver sees no GPU"):
        replayed(instrument(launch), GlobalMemory())


def test_memory_is_left_as_it_was_mapped() -> None:
    memory = GlobalMemory()
    address = memory.map(np.zeros(64, np.uint8), "x", 0)
    x, y = arrays(1)
    (launch,) = cute.compile(turn, x, y, 1).launches(x, y, 1)
    with record.mapped(instrument(launch), memory) as (there, data):
        assert len(memory.windows) == 2
        assert there.args[-1] != address
        assert data.size == instrument(launch).size
    assert [w.name for w in memory.windows] == ["x"]
