"""Records real clocks of the Hopper GEMM on the GPU and draws them beside the modelled ones.

    PYTHONPATH=src python3 benchmarks/timeline.py [--size=N] [--blocks=N] [--out=FILE] [--svg=FILE]

The kernel's results are verified first (float64, every element).  Then the instrumented kernel is
run in the model and, after two warm runs, on the GPU; both record the same events of the first
blocks.  Last, what recording costs: the kernel with and without it, in turns, between events.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.compiler.gpu_launch import prepare, replay
from tilewright.compiler.launcher import launching_with
from tilewright.compiler.record import instrument
from tilewright.errors import TilewrightError
from tilewright.library.gemm import PreparedGemm, prepare_gemm
from tilewright.profiler.machine import gpu_state, machine_facts
from tilewright.profiler.recorded import SideBySide, as_timeline, compare, side_by_side
from tilewright.profiler.timeline_files import write_timeline
from tilewright.runtime import driver
from tilewright.runtime.cuda_api import driver as cuda
from tilewright.runtime.device_buffer import device_buffers
from tilewright.sim.machine import Launch, Report
from tilewright.sim.memory import GlobalMemory

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "benchmarks" / "results" / "h200_timeline.json"
DEFAULT_SVG = ROOT / "docs" / "images" / "sm90_gemm_timeline.svg"
KERNEL = "sm90_gemm"
COST_SIZES = (1024, 4096)
ROUNDS = 40


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024, help="M = N = K (default: 1024)")
    parser.add_argument("--blocks", type=int, default=4, help="blocks that record (default: 4)")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--svg", type=Path, default=DEFAULT_SVG)
    args = parser.parse_args()
    try:
        driver.require_gpu()
    except TilewrightError as error:
        print(error, file=sys.stderr)
        return 2
    prepared, launch, memory = problem(args.size)
    both = side_by_side(launch, memory, blocks=args.blocks)
    check = prepared.verify()
    print(check.message)
    if not check.passed:
        return 1
    for path in (args.svg, args.out):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_timeline(both.timeline, args.svg, as_timeline(both.recorded), both.text)
    print(both.text)
    result = record(prepared, launch, both)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    result["cost_of_recording"] = [cost(size) for size in COST_SIZES]
    for row in result["cost_of_recording"]:
        print(
            f"{row['size']}^3: {row['plain_us']:.2f} us, with records {row['recording_us']:.2f} us"
        )
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {args.out} and {args.svg}")
    return 0


def problem(size: int) -> tuple[PreparedGemm, Launch, GlobalMemory]:
    """A GEMM of N(0,1) values, and its launch as the simulator would get it, not yet run."""
    rng = np.random.default_rng(0)

    def draw() -> Any:
        return rng.standard_normal((size, size), np.float32).astype(ml_dtypes.bfloat16)

    prepared = prepare_gemm(draw(), draw().T, kernel=KERNEL, backend="sim")
    kept: list[tuple[Launch, GlobalMemory]] = []

    def keep(launch: Launch, memory: GlobalMemory, options: Any) -> Report:
        del options
        kept.append((launch, memory))
        return Report({}, (), [])

    with launching_with(keep):
        prepared.run()
    return prepared, *kept[0]


def record(prepared: PreparedGemm, launch: Launch, both: SideBySide) -> dict[str, Any]:
    """What is stored: the machine, the problem, the table, and the recorded blocks."""
    x, y, z = launch.grid
    return {
        "meta": {**machine_facts(), "data": "N(0,1)", "warm_runs": 2, "state_after": gpu_state()},
        "kernel": KERNEL,
        "problem": str(prepared.plan.problem),
        "config": str(prepared.plan.config),
        "grid_blocks": x * y * z,
        "blocks": [{"block": block, "sm": sm} for block, sm in both.recorded.sms],
        "events": len(both.recorded.events),
        "dropped": both.recorded.dropped,
        "modelled_launch_clocks": round(both.timeline.clocks),
        "table": [asdict(row) for row in compare(both.modelled, both.recorded)],
    }


def cost(size: int) -> dict[str, Any]:
    """Medians of the kernel's time, plain and recording, in turns."""
    _, launch, memory = problem(size)
    found: dict[str, Any] = {"size": size, "rounds": ROUNDS}

    def run(there: Launch) -> None:
        made = instrument(there)
        with device_buffers([(made.size, 0)]) as (buffer,):
            two = [prepare(there), prepare(made.recording_to(buffer.address))]
            times: list[list[float]] = [[], []]
            for turn in range(ROUNDS + 3):
                for which in (0, 1) if turn % 2 else (1, 0):
                    took = microseconds(two[which])
                    if turn >= 3:  # the first ones are cold
                        times[which].append(took)
        plain, recording = map(statistics.median, times)
        found.update(plain_us=round(plain, 3), recording_us=round(recording, 3))
        found["ratio"] = round(statistics.median(b / a for a, b in zip(*times, strict=True)), 4)

    replay(launch, memory, run)
    return found


def microseconds(call: Callable[[], None]) -> float:
    """The time of one call, between two events."""
    start, stop = (driver.check(cuda.cuEventCreate(0), "cuEventCreate") for _ in range(2))
    driver.check(cuda.cuEventRecord(start, 0), "cuEventRecord")
    call()
    driver.check(cuda.cuEventRecord(stop, 0), "cuEventRecord")
    driver.check(cuda.cuEventSynchronize(stop), "cuEventSynchronize")
    took = driver.check(cuda.cuEventElapsedTime(start, stop), "cuEventElapsedTime")
    for event in (start, stop):
        driver.check(cuda.cuEventDestroy(event), "cuEventDestroy")
    return float(took) * 1000


if __name__ == "__main__":
    sys.exit(main())
