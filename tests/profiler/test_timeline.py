"""Modelled timelines: an order that the machine could have, and rates that the model states."""

from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from tilewright.library.gemm import prepare_gemm
from tilewright.profiler.checker import Checker, Policy, checking
from tilewright.profiler.cost_model import H200
from tilewright.profiler.roofline import levels
from tilewright.profiler.timeline import Span, Timeline, record_timeline
from tilewright.profiler.timeline_files import lanes, perfetto, svg
from tilewright.sim.options import SimOptions

M, N, K = 128, 128, 256


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    a = np.ones((M, K), ml_dtypes.bfloat16)
    b = np.ones((N, K), ml_dtypes.bfloat16).T
    policy = Policy(SimOptions(raise_on_findings=False))
    with checking(Checker(policy, keep=1)) as checker:
        prepare_gemm(a, b, kernel="sm90_gemm").run()
    launch, memory, before = checker.kept[0]
    memory.restore(before)
    return record_timeline(launch, memory)


def test_warps_are_in_one_place_at_a_time(timeline: Timeline) -> None:
    for block in timeline.blocks.values():
        for lane, spans in block.items():
            if isinstance(lane, int):
                for before, after in pairwise(spans):
                    assert before.start < before.end <= after.start + 1e-6


def test_no_product_before_its_operands(timeline: Timeline) -> None:
    for block in timeline.blocks.values():
        loads = sorted(span.end for span in block["TMA loads"])
        products = sorted(span.start for span in block["tensor cores"])
        assert products[0] >= loads[1], "the first stage is two boxes"
        assert products[-1] >= loads[-1]


def test_tensor_cores_take_what_the_model_says(timeline: Timeline) -> None:
    busy = sum(s.end - s.start for b in timeline.blocks.values() for s in b["tensor cores"])
    assert busy == pytest.approx(2 * M * N * K / H200.tensor_flops)


def test_stores_come_last(timeline: Timeline) -> None:
    for block in timeline.blocks.values():
        assert min(s.start for s in block["TMA stores"]) >= block["tensor cores"][-1].end


def test_producer_and_consumers_have_lanes_of_their_own(timeline: Timeline) -> None:
    block = next(iter(timeline.blocks.values()))
    names = [lane.name for lane in lanes(block)]
    assert names[0] == "warp 0"
    assert {"TMA loads", "TMA stores", "tensor cores"} <= set(names)


def test_alike_warps_share_a_lane() -> None:
    spans = [Span(0, 10, "issue", "add")]
    assert [lane.name for lane in lanes({0: spans, 1: spans, 2: spans})] == ["warps 0-2"]


def test_a_wait_for_copies_is_a_wait() -> None:
    a = np.ones((64, 64), ml_dtypes.bfloat16)
    policy = Policy(SimOptions(raise_on_findings=False))
    with checking(Checker(policy, keep=1)) as checker:
        prepare_gemm(a, a.T, kernel="sm80_gemm").run()
    launch, memory, before = checker.kept[0]
    memory.restore(before)
    block = next(iter(record_timeline(launch, memory).blocks.values()))
    landed = min(span.end for span in block["cp.async"])
    waits = [span for span in block[0] if span.kind == "wait"]
    assert any(span.start < landed <= span.end and "wait" in span.label for span in waits)


def test_a_wait_at_the_end_of_a_branch_is_drawn(timeline: Timeline) -> None:
    """One thread waits for its stores, as the last thing of an `if`: its warp waits for it."""
    for block in timeline.blocks.values():
        waits = [s for lane, spans in block.items() if isinstance(lane, int) for s in spans]
        waits = [s for s in waits if (s.kind, s.label) == ("wait", "tma.wait")]
        assert waits
        assert max(s.end for s in waits) >= min(s.end for s in block["TMA stores"])


def test_files_say_that_they_are_modelled(timeline: Timeline) -> None:
    assert "modelled, not measured" in svg(timeline)
    trace = perfetto(timeline)
    assert trace["otherData"]["timing"] == "modelled, not measured"
    total = max(e["ts"] + e["dur"] for e in trace["traceEvents"] if e["ph"] == "X")
    assert total == pytest.approx(H200.microseconds(timeline.clocks))


def test_roofline_of_counters(timeline: Timeline) -> None:
    outer, inner, tensor = levels(timeline.counters)
    flops = 2 * M * N * K
    assert tensor.clocks == pytest.approx(flops / 4096, rel=0.1)
    assert outer.bytes >= (M * K + N * K + M * N) * 2
    assert inner.intensity is not None
