from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import LaunchError
from tilewright.profiler.timing import Timing, compare, host_times, interleave, spread, turn


class FakeGpu:
    """A queue with a clock of its own, whose speed drifts; it records what was asked of it."""

    def __init__(self, drift: float = 0.0) -> None:
        self.now = 0.0
        self.drift = drift
        self.log: list[str] = []
        self.unsynchronised = False

    def kernel(self, name: str, us: float) -> Callable[[], None]:
        def call() -> None:
            self.log.append(name)
            self.now += us * (1 + self.drift * self.now)
            self.unsynchronised = True

        return call

    def sweep(self) -> None:
        self.log.append("sweep")
        self.now += 60.0

    def mark(self) -> float:
        return self.now

    def synchronize(self) -> None:
        self.log.append("sync")
        self.unsynchronised = False

    def elapsed_us(self, start: float, stop: float) -> float:
        assert not self.unsynchronised, "an event was read before its round was over"
        return stop - start


def test_interleave_measures_each_callable() -> None:
    gpu = FakeGpu()
    found = interleave({"a": gpu.kernel("a", 10.0), "b": gpu.kernel("b", 20.0)}, gpu, rounds=5)
    assert found["a"].rounds_us == pytest.approx((10.0,) * 5)
    assert found["b"].median_us == pytest.approx(20.0)
    assert found["b"].spread == pytest.approx(0.0)


def test_interleave_order_sweeps_and_warmup() -> None:
    gpu = FakeGpu()
    interleave({"a": gpu.kernel("a", 1), "b": gpu.kernel("b", 1)}, gpu, rounds=2, warmup=2)
    assert gpu.log == [
        *["a", "a", "b", "b", "sync"],
        *["sweep", "a", "sweep", "b", "sweep", "b", "sweep", "a", "sync"],
        *["sweep", "b", "sweep", "a", "sweep", "a", "sweep", "b", "sync"],
    ]


def test_a_steady_drift_cancels_in_the_ratio() -> None:
    gpu = FakeGpu(drift=1e-4)
    calls = {"ours": gpu.kernel("ours", 10.0), "peer": gpu.kernel("peer", 10.0)}
    found = interleave(calls, gpu, rounds=20)
    assert found["ours"].rounds_us[-1] > 1.3 * found["ours"].rounds_us[0]
    assert compare(found["ours"], found["peer"]).median == pytest.approx(1.0, abs=1e-3)


def test_compare_is_by_round() -> None:
    ratio = compare(Timing((10.0, 40.0, 10.0)), Timing((20.0, 80.0, 5.0)))
    assert (ratio.low, ratio.median, ratio.high) == (0.5, 2.0, 2.0)


def test_best_is_the_fastest_round() -> None:
    assert Timing((3.0, 1.0, 2.0)).best_us == 1.0


@pytest.mark.parametrize(("calls", "rounds"), [({}, 5), ({"a": lambda: None}, 0)])
def test_nothing_to_time(calls: dict[str, Callable[[], None]], rounds: int) -> None:
    with pytest.raises(LaunchError, match=r"callables in \d+ rounds, expected at least one of"):
        interleave(calls, FakeGpu(), rounds=rounds)


@given(st.integers(1, 6), st.integers(0, 50))
def test_turn_laws(count: int, index: int) -> None:
    names = tuple("ABCDEF"[:count])
    order = turn(names, index)
    assert order == order[::-1]
    assert sorted(order) == sorted(names * 2)
    assert order[0] == names[index % count]


@given(st.lists(st.floats(1.0, 100.0), min_size=1, max_size=30), st.floats(0.1, 10.0))
def test_spread_ignores_scale(values: list[float], factor: float) -> None:
    assert spread([v * factor for v in values]) == pytest.approx(spread(values), abs=1e-9)
    assert spread(values) >= 0


def test_host_times_take_turns_in_batches() -> None:
    log: list[str] = []
    calls = {name: lambda name=name: log.append(name) for name in "ab"}
    found = host_times(calls, lambda: log.append("sync"), rounds=2, batch=2)
    turns = ["sync a a sync b b", "sync b b sync a a"]
    assert " ".join(log) == " ".join(["a a b b", *turns, "sync"])
    assert {name: len(times) for name, times in found.items()} == {"a": 2, "b": 2}
    assert all(us >= 0 for times in found.values() for us in times)
