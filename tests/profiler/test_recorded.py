"""Recorded clocks next to modelled ones, with the model itself in the place of a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest

from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.compiler.record import Recording
from tilewright.errors import LaunchError
from tilewright.library.gemm import prepare_gemm
from tilewright.profiler.checker import Checker, Policy, checking
from tilewright.profiler.recorded import (
    WHOLE,
    SideBySide,
    as_timeline,
    compare,
    model,
    side_by_side,
    table,
)
from tilewright.profiler.timeline import Timeline, record_timeline
from tilewright.profiler.timeline_files import perfetto, svg
from tilewright.runtime import driver
from tilewright.runtime.sass import opcode_counts
from tilewright.runtime.toolchain import compile_cubin
from tilewright.sim.options import SimOptions

M, N, K = 256, 256, 256
GPU = "NVIDIA X"


def kept(kernel: str, m: int = M) -> Any:
    a = np.ones((m, K), ml_dtypes.bfloat16)
    b = np.ones((N, K), ml_dtypes.bfloat16).T
    policy = Policy(SimOptions(raise_on_findings=False))
    with checking(Checker(policy, keep=1)) as checker:
        prepare_gemm(a, b, kernel=kernel).run()
    launch, memory, before = checker.kept[0]
    memory.restore(before)
    return launch, memory


@pytest.fixture(scope="module")
def hopper() -> SideBySide:
    launch, memory = kept("sm90_gemm")
    timeline, modelled, _ = model(launch, memory, blocks=2)
    later = tuple(replace(e, end=e.end + 5) for e in modelled.events)
    recorded = replace(modelled, device=GPU, events=later, dropped=3)
    return SideBySide(timeline, modelled, recorded, table(modelled, recorded))


@pytest.mark.parametrize("kernel", ["sm90_gemm", "sm80_gemm", "simt_gemm"])
def test_recording_costs_no_modelled_time(kernel: str) -> None:
    launch, memory = kept(kernel, 128)
    before = memory.contents()
    plain = record_timeline(launch, memory)
    memory.restore(before)
    timeline, recording, _ = model(launch, memory)
    assert timeline.blocks.keys() == plain.blocks.keys()
    for index, block in plain.blocks.items():
        for lane, spans in block.items():
            found = timeline.blocks[index][lane]
            assert [(s.start, s.end, s.kind) for s in found] == [
                (s.start, s.end, s.kind) for s in spans
            ]
    assert recording.dropped == 0


def test_waits_that_are_recorded_are_those_that_are_drawn(hopper: SideBySide) -> None:
    """The same clock: a long wait of a warp's modelled lane is an event that it recorded."""
    index = hopper.modelled.blocks[0]
    for warp, spans in hopper.timeline.blocks[index].items():
        if not isinstance(warp, int):
            continue
        events = [e for e in hopper.modelled.events if (e.block, e.warp) == (index, warp)]
        for span in spans:
            if span.kind == "wait" and span.label == "mbarrier.wait":
                assert any(
                    e.site.op == span.label
                    and abs(e.begin - span.start) < 3  # events are in whole clocks
                    and abs(e.end - span.end) < 3
                    for e in events
                ), (warp, span)


def test_engine_lanes_end_with_the_wait_that_saw_them(hopper: SideBySide) -> None:
    drawn = as_timeline(hopper.modelled)
    for index in hopper.modelled.blocks:
        real, seen = hopper.timeline.blocks[index], drawn.blocks[index]
        for engine in ("TMA loads", "TMA stores", "tensor cores"):
            assert seen[engine], engine
        assert len(seen["TMA loads"]) == len(real["TMA loads"])
        for a, b in zip(
            sorted(s.end for s in real["TMA loads"]),
            sorted(s.end for s in seen["TMA loads"]),
            strict=True,
        ):
            assert b >= a - 2
        assert max(s.end for s in seen["tensor cores"]) >= real["tensor cores"][-1].end - 2


def test_copies_of_ampere_have_a_lane() -> None:
    launch, memory = kept("sm80_gemm", 128)
    _, recording, _ = model(launch, memory, blocks=1)
    drawn = as_timeline(recording).blocks[recording.blocks[0]]
    assert drawn["cp.async"]
    assert {s.kind for s in drawn[0]} == {"async", "wait", "mma", "global"}


def test_the_table_sums_by_event(hopper: SideBySide) -> None:
    rows = {row.event: row for row in compare(hopper.modelled, hopper.recorded)}
    assert next(iter(rows)) == WHOLE
    waits = rows["mbarrier.wait"]
    assert waits.modelled_events == waits.recorded_events
    assert waits.recorded_clocks - waits.modelled_clocks == 5 * waits.recorded_events
    assert rows[WHOLE].modelled_events == 2
    assert "start" not in rows
    head, columns, *lines, last = hopper.text.splitlines()
    assert head == f"events of sm90_gemm_kernel, 2 blocks: modelled, and recorded on {GPU}"
    assert columns.split() == ["event", "modelled", "clocks", "recorded", "clocks"]
    assert len(lines) == len(rows)
    assert last == "  no room for 3 recorded and 0 modelled events"


def test_the_table_counts_only_blocks_that_both_have(hopper: SideBySide) -> None:
    first = hopper.modelled.blocks[0]
    one = replace(
        hopper.recorded,
        sms=hopper.recorded.sms[:1],
        events=tuple(e for e in hopper.recorded.events if e.block == first),
    )
    for row in compare(hopper.modelled, one):
        assert row.modelled_events == row.recorded_events


def test_the_drawing_says_which_half_is_which(hopper: SideBySide) -> None:
    text = svg(hopper.timeline, as_timeline(hopper.recorded), hopper.text)
    root = ElementTree.fromstring(text)
    words = [t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}text")]
    index = hopper.modelled.blocks[0]
    assert f"sm90_gemm_kernel: timeline, modelled, and recorded on {GPU}" in words
    assert f"block {index}, modelled, not measured" in words
    assert any(w.startswith(f"block {index}, recorded on {GPU}") for w in words)
    assert f"clocks of the SM, modelled and recorded on {GPU}" in words
    assert hopper.text.splitlines()[0] in words
    assert float(root.get("height", "0")) > 16 * len(hopper.text.splitlines())


def test_the_trace_has_both_halves_on_one_axis(hopper: SideBySide) -> None:
    drawn = as_timeline(hopper.recorded)
    trace = perfetto(hopper.timeline, drawn, hopper.text)
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"]
    index = hopper.modelled.blocks[0]
    assert names[:2] == [
        f"block {index} (modelled, not measured)",
        f"block {index} (recorded on {GPU})",
    ]
    assert trace["otherData"]["recorded"] == f"recorded on {GPU}"
    assert trace["otherData"]["events"] == hopper.text
    ends = [e["ts"] + e["dur"] for e in trace["traceEvents"] if e["ph"] == "X"]
    longest = max(hopper.timeline.clocks, drawn.clocks)
    assert max(ends) == pytest.approx(hopper.timeline.model.microseconds(longest))


def test_lanes_that_came_apart_are_drawn_once(hopper: SideBySide) -> None:
    event = next(e for e in hopper.recorded.events if e.site.kind == "wait")
    twice: Recording = replace(
        hopper.recorded, events=(event, replace(event, lane=3, begin=event.begin + 1))
    )
    drawn: Timeline = as_timeline(twice)
    assert len(drawn.blocks[event.block][event.warp]) == 1


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reason = driver.Availability(False, "the driver sees no GPU")
    monkeypatch.setattr(driver, "is_available", lambda: reason)
    launch, memory = kept("simt_gemm", 128)
    with pytest.raises(LaunchError, match="no usable GPU: the driver sees no GPU"):
        side_by_side(launch, memory, tmp_path / "x.svg")
    assert not (tmp_path / "x.svg").exists()


def test_the_pipeline_of_wgmmas_survives() -> None:
    """No C75xx and no spills (both are errors), and no product more or less than without."""
    launch, memory = kept("sm90_gemm", 128)
    _, _, made = model(launch, memory)
    kernel = made.launch.kernel
    plain, with_records = (
        opcode_counts(compile_cubin(emit_cuda(f), f.name, "sm_90a").cubin)
        for f in (launch.kernel, kernel)
    )
    products = [{op: n for op, n in c.items() if "GMMA" in op} for c in (plain, with_records)]
    assert products[0] == products[1]
    assert products[0]
    assert with_records["STG.E.128"] > plain["STG.E.128"]
