"""Mutated Tile IR files: none may crash, hang, or take more memory than its size allows.

    PYTHONPATH=src python3 benchmarks/tile_fuzz.py [--bytecode=100000] [--text=10000] [--out=FILE]

See `tilewright.profiler.tile_fuzz`.  The files start from `tests/tileir/every_operation.mlir`, in
every version of the bytecode.  Cases are dealt out to processes, a chunk each; the seeds of broken
cases are printed and stored, and the exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.profiler.machine import machine_facts
from tilewright.profiler.tile_fuzz import (
    FACTOR,
    MEMORY,
    SECONDS,
    corpus,
    draw_case,
    entries,
    resident_bytes,
    run_case_in,
)

ROOT = Path(__file__).resolve().parents[1]
SEEDS = ROOT / "tests" / "tileir" / "every_operation.mlir"
DEFAULT_OUT = Path(__file__).parent / "results" / "tile_fuzz.json"
CHUNK = 250


@dataclass
class Found:
    """What a chunk of cases gave.  Units: CPU seconds, bytes."""

    cases: int = 0
    accepted: int = 0
    slowest: float = 0.0
    seconds: float = 0.0
    peak: int = 0
    resident: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        self.cases += other.cases
        self.accepted += other.accepted
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)
        self.peak = max(self.peak, other.peak)
        self.resident = max(self.resident, other.resident)
        self.faults += other.faults


@functools.cache
def seeds() -> tuple[list[bytes], list[str]]:
    return corpus(entries(SEEDS.read_text()))


@functools.cache
def size_at_start() -> int:
    """The size of this process before its first case."""
    seeds()
    return resident_bytes()[0]


def run_chunk(numbers: range) -> Found:
    """Runs the cases of a chunk in this process."""
    files, texts = seeds()
    at_start = size_at_start()
    found = Found()
    for seed in numbers:
        data = draw_case(seed, files, texts)
        outcome = run_case_in(data, at_start)
        found.cases += 1
        found.accepted += outcome.accepted
        found.seconds += outcome.seconds
        found.slowest = max(found.slowest, outcome.seconds)
        found.peak = max(found.peak, outcome.peak)
        if outcome.fault:
            found.faults.append(f"seed {seed}: {outcome.fault[:300]}")
    found.resident = resident_bytes()[1]
    return found


def run_all(numbers: range, workers: int) -> Found:
    """Runs the cases in fresh processes; a chunk whose process dies is a fault."""
    step = numbers.step
    chunks = [
        range(at, min(at + CHUNK * step, numbers.stop), step)
        for at in range(numbers.start, numbers.stop, CHUNK * step)
    ]
    total = Found()
    fresh = multiprocessing.get_context("spawn")
    while chunks:
        done = 0
        with ProcessPoolExecutor(workers, mp_context=fresh) as pool:
            try:
                for found in pool.map(run_chunk, chunks):
                    total.add(found)
                    done += 1
            except BrokenProcessPool:
                total.faults.append(f"a process died at seeds {chunks[done]} or the next ones")
                done += workers
        chunks = chunks[done:]
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytecode", type=int, default=100_000, metavar="CASES")
    parser.add_argument("--text", type=int, default=10_000, metavar="CASES")
    parser.add_argument("--first", type=int, default=0, help="the first seed (even)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    args = parser.parse_args()
    record: dict[str, object] = {
        "meta": machine_facts(),
        "limits": {"cpu_seconds": SECONDS, "bytes": MEMORY, "plus_times_file": FACTOR},
        "first": args.first,
    }
    failed = 0
    for odd, (kind, count) in enumerate((("bytecode", args.bytecode), ("text", args.text))):
        start = time.perf_counter()
        first = args.first + odd
        found = run_all(range(first, first + 2 * count, 2), args.workers)
        for text in found.faults:
            print(f"{kind}: {text}", flush=True)
        failed += len(found.faults)
        record[kind] = {
            "cases": found.cases,
            "accepted": found.accepted,
            "failed": len(found.faults),
            "failures": found.faults,
            "slowest_case_s": round(found.slowest, 4),
            "mean_case_s": round(found.seconds / max(found.cases, 1), 6),
            "most_bytes_grown": found.peak,
            "resident_bytes_of_a_process": found.resident,
            "seconds": round(time.perf_counter() - start, 1),
        }
        print(f"{kind}: {found.cases} cases, {len(found.faults)} failed", flush=True)
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {args.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
