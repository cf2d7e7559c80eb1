"""How many mutants of the library's kernels the sanitizer's checks find.

    python benchmarks/mutation.py --out benchmarks/results/mutation.json

Makes every mutant of every row of tests/sanitizer/mutation, runs it under all checks, and counts,
for each schedule, those that are found, those that do exactly what the kernel does, and those that
go unseen.  No GPU is needed.  With --keep, what is known of a row is kept in a folder, so that the
run can go on later: delete the folder when a kernel, a row or a check has changed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import pickle
import re
import sys
import time
from pathlib import Path
from typing import Any

from tilewright.profiler.machine import machine_facts

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "benchmarks" / "results" / "mutation.json"
sys.path.insert(0, str(ROOT / "tests" / "sanitizer"))
ROWS = importlib.import_module("mutation.rows").ROWS
trying = importlib.import_module("mutation.trying")


def tried(number: int, keep: Path | None) -> tuple[int, Any, float]:
    """(row, what came of its mutants, seconds), from the folder if it is there."""
    row = ROWS[number]
    path = keep / (re.sub(r"\W+", "-", row.name) + ".pickle") if keep else None
    if path and path.exists():
        return number, pickle.loads(path.read_bytes()), 0.0
    begin = time.perf_counter()
    attempt = dict(trying.attempt(row))
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(attempt))
    return number, attempt, time.perf_counter() - begin


def record(tally: Any) -> dict[str, object]:
    counts = {name: getattr(tally, name) for name in trying.COUNTS}
    return {"schedule": tally.schedule, **counts, "share": round(tally.share, 4)}


def overall(tallies: list[Any]) -> dict[str, object]:
    sums = {name: sum(getattr(t, name) for t in tallies) for name in trying.COUNTS}
    share = sums["found"] / (sums["mutants"] - sums["equivalent"])
    return {"schedule": "all", **sums, "share": round(share, 4)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--keep", type=Path, help="folder for what is known of the rows")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    attempts: dict[int, Any] = {}
    with multiprocessing.get_context("spawn").Pool(args.processes, maxtasksperchild=1) as pool:
        jobs = [pool.apply_async(tried, (i, args.keep)) for i in range(len(ROWS))]
        for job in jobs:
            number, attempt, took = job.get()
            attempts[number] = attempt
            survive = sum(not objected for objected in attempt.values())
            print(f"{ROWS[number].name:<32}{len(attempt):>4} mutants, {survive:>2} survive here, "
                  f"{took:.0f} s", flush=True)  # fmt: skip
    schedules = dict.fromkeys(row.schedule for row in ROWS)
    tallies = [
        trying.tally(s, [attempts[i] for i, row in enumerate(ROWS) if row.schedule == s])
        for s in schedules
    ]
    for tally in tallies:
        for text in tally.new:
            print(f"{tally.schedule}: not found, and not listed: {text}")
        for text in tally.stale:
            print(f"{tally.schedule}: listed, and found: {text}")
    records = [*map(record, tallies), overall(tallies)]
    print(trying.HEADER, *map(trying.line, records), sep="\n")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"meta": machine_facts(), "rows": records}, indent=1) + "\n")
    return int(any(t.new or t.stale for t in tallies))


if __name__ == "__main__":
    sys.exit(main())
