"""A timeline as a Perfetto trace (JSON) or as a drawing (SVG), modelled or next to a recorded one.

Where both are drawn they have one axis, in clocks of the SM, and each lane says which it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from tilewright.profiler.timeline import ASYNC, MODELLED, Span, Timeline

LEFT_OVER = "other warps"
"""The last wait of a warp that is done: until its block ends."""
BLOCKS = 4
"""Blocks that are drawn, half as many where both timelines are; a trace holds all."""

COLOURS = {
    "issue": ("#4e79a7", "instructions"),
    "mma": ("#b07aa1", "MMA issue"),
    "shared": ("#59a14f", "shared memory"),
    "global": ("#f28e2b", "global memory"),
    "async": ("#edc948", "starts a copy"),
    "sync": ("#76b7b2", "barrier"),
    "wait": ("#e3e3e3", "waits"),
    "TMA loads": ("#f28e2b", ""),
    "TMA stores": ("#e15759", ""),
    "cp.async": ("#edc948", ""),
    "tensor cores": ("#b07aa1", ""),
}
ROLES = ("async", "mma")
"""What warps do that sets them apart, however short."""
LEFT, RIGHT, WIDTH = 112, 16, 1200
LANE, GAP = 18, 4


def write_timeline(
    timeline: Timeline, path: Path, recorded: Timeline | None = None, table: str = ""
) -> None:
    """Writes `path` in the format that its suffix names: .json or .svg."""
    if path.suffix == ".json":
        path.write_text(json.dumps(perfetto(timeline, recorded, table)))
    else:
        path.write_text(svg(timeline, recorded, table))


@dataclass(frozen=True, slots=True)
class Lane:
    """One row: warps that do the same at the same time, or an engine."""

    name: str
    spans: list[Span]
    depth: int = 0


def lanes(block: dict[int | str, list[Span]]) -> list[Lane]:
    """The rows of a block: runs of warps with equal spans, then engines.

    Copies that overlap in time (latency) are spread over several rows of their engine.
    """
    rows: list[Lane] = []
    block = {k: v[:-1] if v and v[-1].label == LEFT_OVER else v for k, v in block.items()}
    warps = sorted((k, v) for k, v in block.items() if isinstance(k, int))
    run: list[int] = []
    for number, spans in warps:
        if run and not _alike(block[run[0]], spans):
            rows.append(Lane(_warps(run), block[run[0]]))
            run = []
        run.append(number)
    if run:
        rows.append(Lane(_warps(run), block[run[0]]))
    for engine in ASYNC:
        for depth, spans in enumerate(_stacked(block.get(engine, []))):
            rows.append(Lane(engine if depth == 0 else "", spans, depth))
    return rows


def _alike(a: list[Span], b: list[Span]) -> bool:
    """Whether two warps spend their time alike, but for single clocks here and there."""

    def busy(spans: list[Span]) -> list[tuple[int, int]]:
        kept = [s for s in spans if s.kind in ROLES or (s.kind != "wait" and s.end > s.start + 8)]
        return [(round(s.start / 4), round(s.end / 4)) for s in kept]

    return busy(a) == busy(b)


def _warps(run: list[int]) -> str:
    return f"warp {run[0]}" if len(run) == 1 else f"warps {run[0]}-{run[-1]}"


def _stacked(spans: list[Span], most: int = 3) -> list[list[Span]]:
    """The spans in as few rows without overlap as possible, `most` at most."""
    rows: list[list[Span]] = []
    for span in sorted(spans, key=lambda s: s.start):
        free = next((row for row in rows if row[-1].end <= span.start), None)
        if free is None and len(rows) < most:
            free = []
            rows.append(free)
        (free if free is not None else min(rows, key=lambda row: row[-1].end)).append(span)
    return rows


# -- Perfetto --------------------------------------------------------------------------------------


def perfetto(
    timeline: Timeline, recorded: Timeline | None = None, table: str = ""
) -> dict[str, Any]:
    """Chrome's trace-event format, which ui.perfetto.dev opens: a process for each block.

    Recorded clocks are put on the same axis: a clock is as long as the model's.
    """
    events: list[dict[str, Any]] = []
    micro = timeline.model.microseconds
    for pid, (source, index, block) in enumerate(_blocks(timeline, recorded)):
        events.append(_named("process_name", pid, 0, f"block {index} ({source})"))
        events.append(
            {"name": "process_sort_index", "ph": "M", "pid": pid, "args": {"sort_index": pid}}
        )
        rows = lanes(block)
        for tid, lane in enumerate(rows):
            title = lane.name or f"{rows[tid - lane.depth].name} +{lane.depth}"
            events.append(_named("thread_name", pid, tid, title))
            events += [
                {
                    "name": span.label if span.kind != "wait" else f"wait: {span.label}",
                    "cat": span.kind,
                    "ph": "X",
                    "ts": micro(span.start),
                    "dur": micro(span.end - span.start),
                    "pid": pid,
                    "tid": tid,
                    "args": {"clocks": span.end - span.start},
                }
                for span in lane.spans
            ]
    about = {"kernel": timeline.kernel, "timing": MODELLED, "clocks": timeline.clocks}
    if recorded is not None:
        about |= {"recorded": recorded.source, "recorded_clocks": recorded.clocks, "events": table}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def _blocks(
    timeline: Timeline, recorded: Timeline | None
) -> list[tuple[str, Any, dict[int | str, list[Span]]]]:
    """Source, index and lanes of each block; a recorded one follows its modelled twin."""
    made = []
    for index, block in timeline.blocks.items():
        made.append((timeline.source, index, block))
        if recorded is not None and index in recorded.blocks:
            made.append((recorded.source, index, recorded.blocks[index]))
    return made


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


# -- SVG -------------------------------------------------------------------------------------------


def svg(timeline: Timeline, recorded: Timeline | None = None, table: str = "") -> str:
    """The first blocks, one above the other, over one axis in clocks."""
    if recorded is None:
        blocks = _blocks(timeline, None)[:BLOCKS]
    else:  # those that both have
        both = [index for index in timeline.blocks if index in recorded.blocks][: BLOCKS // 2]
        blocks = [b for b in _blocks(timeline, recorded) if b[1] in both]
    rows = [(source, index, lanes(block)) for source, index, block in blocks]
    shown = max((s.end for _, _, found in rows for lane in found for s in lane.spans), default=1.0)
    text = table.splitlines()
    height = 64 + sum(26 + (LANE + GAP) * len(found) for *_, found in rows) + 34
    whole = height + (16 * len(text) + 12 if text else 0)
    scale = (WIDTH - LEFT - RIGHT) / max(shown, 1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{whole}" '
        f'viewBox="0 0 {WIDTH} {whole}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{whole}" fill="white"/>',
        *_head(timeline, recorded, len({index for _, index, _ in rows})),
    ]
    y = 64
    for source, index, found in rows:
        title = f"block {index}" + (f", {source}" if recorded is not None else "")
        if recorded is not None and source == recorded.source:
            title += " (copies and products: from their issue until a wait saw them done)"
        parts.append(f'<text x="8" y="{y + 16}" font-weight="bold">{escape(title)}</text>')
        y += 26
        for lane in found:
            parts += _row(lane, y, scale)
            y += LANE + GAP
    parts += _axis(timeline, recorded, shown, scale, 64, y)
    parts += [
        f'<text x="8" y="{height + 16 * n}" font-family="monospace" xml:space="preserve">'
        f"{escape(line)}</text>"
        for n, line in enumerate(text)
    ]
    return "\n".join([*parts, "</svg>"])


def _head(timeline: Timeline, recorded: Timeline | None, blocks: int) -> Iterator[str]:
    total = len(timeline.blocks)
    clocks, model = timeline.clocks, timeline.model
    which = f"{blocks} of {total} blocks" if blocks < total else f"{total} blocks"
    what = MODELLED if recorded is None else f"modelled, and {recorded.source}"
    whole = (
        f"whole launch {clocks:,.0f} clocks = {model.microseconds(clocks):.1f} us at "
        f"{model.clock_ghz} GHz"
    )
    yield (
        f'<text x="8" y="20" font-size="15" font-weight="bold">{escape(timeline.kernel)}: '
        f"timeline, {escape(what)}</text>"
    )
    yield (
        f'<text x="{WIDTH - RIGHT}" y="20" text-anchor="end" fill="#555">{which}; '
        f"{whole if recorded is None else 'modelled ' + whole}</text>"
    )
    x = 8
    for colour, name in COLOURS.values():
        if name:
            yield f'<rect x="{x}" y="34" width="12" height="12" fill="{colour}"/>'
            yield f'<text x="{x + 17}" y="44">{name}</text>'
            x += 34 + 7 * len(name)


def _row(lane: Lane, y: int, scale: float) -> Iterator[str]:
    yield f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(lane.name)}</text>'
    for kind, start, end, label in _merged(lane.spans, 0.7 / scale):
        x, width = LEFT + start * scale, max((end - start) * scale, 0.5)
        thin = kind == "wait"
        top, tall = (y + LANE / 2 - 2, 4) if thin else (y, LANE)
        edge = ' stroke="white" stroke-width="0.5"' if width > 4 and not thin else ""
        yield (
            f'<rect x="{x:.1f}" y="{top:g}" width="{width:.1f}" height="{tall}" '
            f'fill="{COLOURS[kind][0]}"{edge}><title>{escape(label)}: {end - start:,.0f} clocks '
            f"from {start:,.0f}</title></rect>"
        )


def _merged(spans: list[Span], least: float) -> Iterator[tuple[str, float, float, str]]:
    """Spans; runs of very short ones as one, of the kind that takes most of it."""
    pending: list[Span] = []

    def flush() -> Iterator[tuple[str, float, float, str]]:
        if pending:
            time: dict[str, float] = {}
            for s in pending:
                time[s.kind] = time.get(s.kind, 0.0) + s.end - s.start
            main = max(time, key=lambda k: time[k])
            label = next(s.label for s in pending if s.kind == main)
            yield main, pending[0].start, pending[-1].end, label
            pending.clear()

    for span in spans:
        if span.end - span.start >= least:
            yield from flush()
            yield span.kind, span.start, span.end, span.label
            continue
        if pending and span.end - pending[0].start > least:
            yield from flush()
        pending.append(span)
    yield from flush()


def _axis(
    timeline: Timeline, recorded: Timeline | None, shown: float, scale: float, top: int, y: int
) -> Iterator[str]:
    step = _step(shown / 10)
    clocks = 0.0
    while clocks <= shown:
        x = LEFT + clocks * scale
        yield f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{y}" stroke="#00000018"/>'
        yield (
            f'<text x="{x:.1f}" y="{y + 15}" text-anchor="middle" fill="#555">{clocks:,.0f}</text>'
        )
        clocks += step
    unit = f"clocks of the SM ({timeline.model.clock_ghz} GHz), {MODELLED}"
    if recorded is not None:
        unit = f"clocks of the SM, modelled and {recorded.source}"
    x_end = WIDTH - RIGHT
    yield f'<text x="{x_end}" y="{y + 29}" text-anchor="end" fill="#555">{escape(unit)}</text>'


def _step(least: float) -> float:
    """The round number of 1, 2 or 5 times a power of ten at or above `least`.

    >>> _step(130), _step(45)
    (200.0, 50.0)
    """
    power = 1.0
    while power * 10 <= least:
        power *= 10
    return next(power * m for m in (1, 2, 5, 10) if power * m >= least)
