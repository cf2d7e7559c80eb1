"""Recorded clocks next to modelled ones: the same instrumented kernel, on the GPU and in the model.

A recording becomes a timeline of its own.  Its engine lanes are drawn from what warps can see: a
copy or a product lasts from its issue until the end of the wait that saw it done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.compiler.record import (
    BLOCKS,
    EVENTS,
    Instrumented,
    Recorded,
    Recording,
    decode,
    instrument,
    mapped,
    replayed,
)
from tilewright.profiler.cost_model import H200, CostModel
from tilewright.profiler.timeline import Span, Timeline, record_timeline
from tilewright.profiler.timeline_files import write_timeline
from tilewright.runtime import driver
from tilewright.sim.machine import Launch
from tilewright.sim.memory import GlobalMemory

Dim3 = tuple[int, int, int]
WHOLE = "block, start to exit"
_ENGINES = {"copy.cp_async": "cp.async", "tma.store": "TMA stores", "wgmma.mma": "tensor cores"}
_WAITS = {"cp.async": "copy.cp_async_wait", "TMA stores": "tma.wait", "tensor cores": "wgmma.wait"}


@dataclass(frozen=True, slots=True)
class EventRow:
    """One kind of event: how many there were and their clocks, summed over warps and blocks."""

    event: str
    kind: str
    modelled_events: int
    modelled_clocks: int
    recorded_events: int
    recorded_clocks: int


def model(
    launch: Launch,
    memory: GlobalMemory,
    *,
    blocks: int = BLOCKS,
    events: int = EVENTS,
    costs: CostModel = H200,
) -> tuple[Timeline, Recording, Instrumented]:
    """Runs the instrumented launch in the model: its timeline, and what its warps recorded.

    The third is what `compiler.record.replayed` runs on a GPU.  Recording costs no modelled time.
    """
    made = instrument(launch, blocks, events)
    with mapped(made, memory) as (there, data):
        timeline = record_timeline(there, memory, costs)
    recording = replace(decode(made, data, "", 1.0), clock_ghz=costs.clock_ghz)
    return timeline, recording, made


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Both halves of one launch, and the table of their events."""

    timeline: Timeline
    modelled: Recording
    recorded: Recording
    text: str


def side_by_side(
    launch: Launch,
    memory: GlobalMemory,
    path: Path | None = None,
    *,
    blocks: int = BLOCKS,
    warm: int = 2,
) -> SideBySide:
    """Models a simulator's launch, records it on GPU 0, and draws both into `path`.

    The GPU works on copies; what it computes is in `memory` at the end.
    Raises: LaunchError without a GPU; ToolchainError where NVRTC refuses the kernel.
    """
    driver.require_gpu()
    before = memory.contents()
    timeline, modelled, made = model(launch, memory, blocks=blocks)
    memory.restore(before)
    recorded = replayed(made, memory, warm=warm)
    found = SideBySide(timeline, modelled, recorded, table(modelled, recorded))
    if path is not None:
        write_timeline(timeline, path, as_timeline(recorded), found.text)
    return found


def as_timeline(recording: Recording, costs: CostModel = H200) -> Timeline:
    """The recorded spans by block and lane.  Units: clocks of the SM, as the model's."""
    blocks: dict[Any, dict[int | str, list[Span]]] = {
        b: defaultdict(list) for b in recording.blocks
    }
    by_block: dict[Dim3, list[Recorded]] = defaultdict(list)
    for event in recording.events:
        by_block[event.block].append(event)
    for block, events in by_block.items():
        lanes = blocks[block]
        for event in events:
            if event.site.kind != "mark":
                _append(lanes[event.warp], event)
        lanes["TMA loads"] += _loads(events)
        for engine in _WAITS:
            lanes[engine] += _groups(events, engine)
    source = f"recorded on {recording.device}" if recording.device else "recorded in the simulator"
    return Timeline(recording.kernel, blocks, costs, source=source)


def _append(spans: list[Span], event: Recorded) -> None:
    """Lanes of a warp that came apart record one event each: the first stands for all."""
    if not spans or event.begin >= spans[-1].end:
        spans.append(Span(event.begin, event.end, event.site.kind, event.site.op))


def _loads(events: list[Recorded]) -> list[Span]:
    """TMA loads, until the first wait for their mbarrier that ends after the issue."""
    waits = defaultdict(list)
    for e in events:
        if e.site.op == "mbarrier.wait":
            waits[e.barrier].append(e.end)
    made = []
    for e in sorted(events, key=lambda e: e.begin):
        if e.site.op.startswith("tma.load"):
            seen = min((end for end in waits[e.barrier] if end > e.end), default=e.end)
            made.append(Span(e.begin, seen, "TMA loads", "load, until a wait saw it"))
    return made


def _groups(events: list[Recorded], engine: str) -> list[Span]:
    """Groups of an engine, until the wait of the same warp that retired them.

    One warp stands for its warpgroup, and warp 0 for all that copy.
    """
    made = []
    warps = {e.warp for e in events if _engine(e) == engine}
    for warp in sorted(warps):
        if (warp % 4 if engine == "tensor cores" else warp > min(warps)) and engine != "TMA stores":
            continue
        open_: list[Span] = []
        for e in (e for e in events if e.warp == warp):
            if _engine(e) == engine:
                open_.append(Span(e.begin, e.end, engine, f"warp {warp}, until a wait saw it"))
            elif e.site.op == _WAITS[engine]:
                done = len(open_) - e.site.pending
                for span in open_[: max(done, 0)]:
                    span.end = e.end
                made += open_[: max(done, 0)]
                del open_[: max(done, 0)]
        made += open_
    return sorted(made, key=lambda s: s.start)


def _engine(event: Recorded) -> str:
    op = event.site.op
    return _ENGINES.get("wgmma.mma" if op == "wgmma.mma_rs" else op, "")


def compare(modelled: Recording, recorded: Recording) -> list[EventRow]:
    """Both recordings by event, over the blocks that both have; the whole blocks come first."""
    shared = set(modelled.blocks) & set(recorded.blocks)
    ours, theirs = (_sums(r, shared) for r in (modelled, recorded))
    rows = []
    for event, kind in dict.fromkeys((*ours, *theirs)):
        mine, other = ours.get((event, kind), (0, 0)), theirs.get((event, kind), (0, 0))
        rows.append(EventRow(event, kind, *mine, *other))
    return sorted(rows, key=lambda row: (row.event != WHOLE, -row.recorded_clocks, row.event))


def _sums(recording: Recording, blocks: Iterable[Dim3]) -> dict[tuple[str, str], tuple[int, int]]:
    sums: dict[tuple[str, str], tuple[int, int]] = {}

    def add(key: tuple[str, str], clocks: int) -> None:
        count, total = sums.get(key, (0, 0))
        sums[key] = count + 1, total + clocks

    for block in blocks:
        own = [e for e in recording.events if e.block == block]
        for e in own:
            if e.site.kind != "mark":
                add((e.site.op, e.site.kind), e.end - e.begin)
        if own:
            add((WHOLE, ""), max(e.end for e in own) - min(e.begin for e in own))
    return sums


def table(modelled: Recording, recorded: Recording) -> str:
    """`compare` as text.  Units: clocks."""
    where = f"recorded on {recorded.device}" if recorded.device else "recorded in the simulator"
    blocks = len(set(modelled.blocks) & set(recorded.blocks))
    lines = [
        f"events of {recorded.kernel}, {blocks} block{'s' if blocks != 1 else ''}: modelled, and "
        f"{where}",
        f"  {'event':<28}{'modelled':>10}{'clocks':>13}{'recorded':>11}{'clocks':>13}",
    ]
    lines += [
        f"  {row.event:<28}{row.modelled_events:>10,}{row.modelled_clocks:>13,}"
        f"{row.recorded_events:>11,}{row.recorded_clocks:>13,}"
        for row in compare(modelled, recorded)
    ]
    if recorded.dropped or modelled.dropped:
        lines.append(
            f"  no room for {recorded.dropped:,} recorded and {modelled.dropped:,} modelled events"
        )
    return "\n".join(lines)
